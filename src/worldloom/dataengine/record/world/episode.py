"""One drawn episode: pictures to the encoder, and the truth of every frame."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from worldloom.dataengine.record.world.events import Event
from worldloom.dataengine.record.world.params import WorldParams
from worldloom.dataengine.record.world.play import Play, View, camera_of, world_columns
from worldloom.dataengine.record.world.render import Renderer
from worldloom.dataengine.record.world.visible import Seen

VISIBLE_LEVELS = 6              # a pixel that differs by more, of 255, is seen to differ
WATCHED_S = 1.0                 # how long after an event's end its effect is still measured

Encode = Callable[[np.ndarray], None]


@dataclass(slots=True)
class Recording:
    """What an episode leaves behind besides its video."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    twin_rows: list[dict[str, Any]] = field(default_factory=list)   # the same play in a world without events
    events: list[Event] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    depths: dict[int, np.ndarray] = field(default_factory=dict)     # frame: (H, W) metres
    pictures_sha1: str = ""


class Episode:
    """Draws a play. Close it when done."""

    def __init__(self, params: WorldParams) -> None:
        self.params, self.game = params, Play(params)
        daylight = self.game.state.environment.daylight
        self.renderer = Renderer(self.game.scene, camera_of(params), self.game.azimuth_deg, daylight,
                                 params.perspective == "tps", len(self.game.people), params.variant)
        self.digest = hashlib.sha1()

    def close(self) -> None:
        self.renderer.close()

    def record(self, encode: Encode, encode_twin: Encode | None = None) -> Recording:
        """Play to the end; each picture is encoded, and its twin without events where that is asked for."""
        result, game, seen = Recording(), self.game, list[Seen]()
        for frame in range(self.params.num_frames):
            told = game.advance(frame, seen)
            for prop in game.scene.props[len(self.renderer.props):]:
                self.renderer.add_prop(prop)
            view = game.view(frame)
            row = game.body_columns(frame, view) | self._draw(frame, view, result, encode, encode_twin)
            seen = game.look(game.state, view)
            row |= game.act(frame)
            result.rows.append(row | world_columns(game.state, seen, told))
            if encode_twin:
                here = world_columns(game.before_events, game.look(game.before_events, view), [])
                result.twin_rows.append(row | here | {"event_px": 0.0, "event_differs": False})
        result.events, result.skipped = game.events.happened, game.events.skipped
        result.pictures_sha1 = self.digest.hexdigest()
        return result

    def _draw(self, frame: int, view: View, result: Recording, encode: Encode,
              encode_twin: Encode | None) -> dict[str, Any]:
        """Draw and keep the picture, its depth and its twin; how far the twin differs."""
        has_depth = bool(self.params.depth_every) and frame % self.params.depth_every == 0
        picture, depth = self.renderer.draw(self.game.state, view, has_depth)
        if depth is not None:
            result.depths[frame] = depth
        self.digest.update(picture.tobytes())
        encode(picture)
        return {"has_depth": has_depth, **self._effect(frame, picture, view, encode_twin)}

    def _effect(self, frame: int, picture: np.ndarray, view: View, encode_twin: Encode | None) -> dict[str, Any]:
        """What the events so far changed in this picture, against the same frame of a world without them.

        It is measured while an event is fresh, and throughout where the twin is saved; before the first event it is 0.
        """
        happened = self.game.events.happened
        is_fresh = any(frame < event.stop_frame + WATCHED_S * self.params.fps for event in happened)
        twin = picture
        if happened and (is_fresh or encode_twin):
            twin, _ = self.renderer.draw(self.game.before_events, view)
        if encode_twin:
            encode_twin(twin)
        if happened and twin is picture:
            return {"event_px": None, "event_differs": None}
        change_HW = np.abs(picture.astype(np.int16) - twin).max(axis=2)
        return {"event_px": float((change_HW > VISIBLE_LEVELS).mean()), "event_differs": bool(change_HW.any())}
