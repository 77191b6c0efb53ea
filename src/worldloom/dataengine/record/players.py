"""The player of ViZDoom that an episode's policy asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from worldloom.dataengine.record.cells import Cells
from worldloom.dataengine.record.explorer import Explorer, Whereabouts
from worldloom.dataengine.record.params import EpisodeParams
from worldloom.dataengine.record.policy import Command, Player, View

VIZDOOM_FPS = 35
BLOCKED_UNITS = 1.0             # a tic; slower while a movement key is held is blocked


class Plays(Protocol):
    """Gives the command of each tic."""

    def act(self, view: View, here: Whereabouts) -> Command: ...


def make_player(params: EpisodeParams, sectors: Sequence[Any], max_pitch_deg: float) -> Plays:
    if params.policy == "thin":
        return ThinPlayer(params, max_pitch_deg)
    if params.policy in ("cover", "events"):
        return Explorer(params.policy, params.seed, sectors, max_pitch_deg)
    return Scripted(params, max_pitch_deg)


class Scripted:
    """A player that goes by depth alone."""

    def __init__(self, params: EpisodeParams, max_pitch_deg: float) -> None:
        self.player = Player(params.policy, params.seed, max_pitch_deg)

    def act(self, view: View, here: Whereabouts) -> Command:
        return self.player.act(view)


class ThinPlayer:
    """Holds action cells, the thinnest most often; a wall or the end of pitch asks for another cell."""

    def __init__(self, params: EpisodeParams, max_pitch_deg: float) -> None:
        self.cells = Cells(np.random.default_rng(params.seed), params.cell_weights, VIZDOOM_FPS)
        self.max_pitch_deg = max_pitch_deg

    def act(self, view: View, here: Whereabouts) -> Command:
        moves = bool(self.cells.cell[0] or self.cells.cell[1])
        self.cells.next(moves and view.speed < BLOCKED_UNITS, self.max_pitch_deg + view.pitch_deg,
                        self.max_pitch_deg - view.pitch_deg)
        longitudinal, lateral, _, _ = self.cells.cell
        return Command(longitudinal=longitudinal, lateral=lateral, turn_deg=self.cells.turn_deg,
                       look_deg=self.cells.look_deg)
