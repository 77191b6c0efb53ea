"""A world in play, without drawing it: state i, and command i between states i and i + 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from worldloom.dataengine.record.pinhole import CameraModel, pinhole_camera
from worldloom.dataengine.record.world.events import Event, Events
from worldloom.dataengine.record.world.figure_pose import FigurePose
from worldloom.dataengine.record.world.look import look_of
from worldloom.dataengine.record.world.params import WorldParams
from worldloom.dataengine.record.world.people import box_of, make_people, people_rows
from worldloom.dataengine.record.world.plans import make_policy
from worldloom.dataengine.record.world.player import Command, Player
from worldloom.dataengine.record.world.policy import Surroundings
from worldloom.dataengine.record.world.scene import Environment, State
from worldloom.dataengine.record.world.scenes import make_scene
from worldloom.dataengine.record.world.space import camera_pose, canonical
from worldloom.dataengine.record.world.start import START_STREAM, find_start
from worldloom.dataengine.record.world.visible import Seen, things_in_view

CLEAR_M = 1.3                   # no item so near the start


@dataclass(frozen=True, slots=True)
class View:
    """Where the camera is, the time for clouds, coins and rain, the middle of the shadows, and the body in sight."""
    position_3: np.ndarray
    yaw_deg: float
    pitch_deg: float
    time_s: float
    middle_3: np.ndarray
    figure: FigurePose | None = None
    people: tuple[FigurePose, ...] = ()

    def pose(self) -> np.ndarray:
        """Canonical world_from_cam (4, 4)."""
        return camera_pose(self.position_3, self.yaw_deg, self.pitch_deg)


def camera_of(params: WorldParams) -> CameraModel:
    return pinhole_camera(params.width, params.height, params.hfov_deg)


class Play:
    """For each frame call `advance`, `view` and `act`, in this order."""

    def __init__(self, params: WorldParams) -> None:
        self.params = params
        rng = np.random.default_rng([params.seed, START_STREAM])
        self.scene = make_scene(params.scene, params.seed)
        self.azimuth_deg, cloud = float(rng.uniform(0, 360)), float(rng.uniform(0, 0.6))
        environment, self.azimuth_deg = look_of(params, Environment(daylight=params.daylight, cloud=cloud),
                                                self.azimuth_deg)
        self.state = self.scene.first_state(environment)
        x, y, yaw_deg = find_start(self.scene, self.state, params, rng)
        for i, prop in enumerate(self.scene.props):
            self.state.present[i] = prop.kind != "coin" or bool(np.hypot(*(prop.position_3[:2] - (x, y))) > CLEAR_M)
        self.before_events = self.state.copy()
        inertia_s = 0.0 if params.is_closed else params.inertia_s
        self.player = Player(self.scene, x, y, yaw_deg, params.perspective == "tps", inertia_s)
        self.policy, self.events = make_policy(params), Events(self.scene, params)
        self.command = Command()
        self.obstacles_N6 = self.scene.obstacles(self.state)
        self.people = make_people(self.scene, self.obstacles_N6, params.people, params.seed)

    def advance(self, frame: int, seen: list[Seen]) -> list[Event]:
        """The world moves on to this frame; `seen` is what was in the picture before."""
        in_view = [thing.prop for thing in seen if thing.prop is not None]
        told = self.events.advance(frame, self.state, self.player, bool(self.command.use), in_view)
        self.obstacles_N6 = self.scene.obstacles(self.state)
        return told

    def view(self, frame: int) -> View:
        player = self.player
        time_s = 0.0 if self.params.is_closed else frame / self.params.fps      # a revisit must look the same
        return View(player.camera_3(self.obstacles_N6), player.yaw_deg, player.pitch_deg, time_s, player.position_3,
                    player.figure(), tuple(person.at(time_s, self.scene) for person in self.people))

    def look(self, state: State, view: View) -> list[Seen]:
        """The things in the picture of a state from a view."""
        return things_in_view(self.scene, state, view.pose(), view.position_3, camera_of(self.params),
                              [box_of(pose) for pose in view.people])

    def body_columns(self, frame: int, view: View) -> dict[str, Any]:
        """Truth of camera and body in this frame; call it before `act`."""
        player, body = self.player, canonical(self.player.position_3)
        return {
            "frame": frame, "time_s": frame / self.params.fps, "world_from_cam": view.pose().ravel().tolist(),
            "on_ground": player.on_ground, "health": None, "yaw_deg": view.yaw_deg, "pitch_deg": view.pitch_deg,
            "body_x": body[0], "body_y": body[1], "body_z": body[2], "body_yaw_deg": player.body_yaw_deg,
            "people": people_rows(view.people),
            "body_shown": bool(view.figure and view.figure.is_shown),
        }

    def act(self, frame: int) -> dict[str, Any]:
        """Take the step to the next frame: its keys, and whether it was blocked. The last frame has none."""
        self.command = Command()
        if frame < self.params.num_frames - 1:
            around = Surroundings(self.scene, self.state, self.obstacles_N6)
            self.command = self.policy.act(frame, self.player, around)
            self.player.step(self.command, self.obstacles_N6, 1 / self.params.fps)
        held = self.command
        return {"key_longitudinal": held.longitudinal, "key_lateral": held.lateral, "key_jump": held.jump,
                "key_run": held.run, "key_attack": 0, "key_use": held.use, "turn_deg": held.turn_deg,
                "look_deg": held.look_deg, "segment": self.policy.segment,
                "blocked": held.moves and self.player.blocked}


def world_columns(state: State, seen: list[Seen], told: list[Event]) -> dict[str, Any]:
    """Truth of the world around in one frame."""
    now = state.environment
    return {"events": [{"kind": event.kind, "text": event.text} for event in told],
            "objects": [thing.as_dict() for thing in seen], "env_daylight": now.daylight, "env_rain": now.rain,
            "env_snow": now.snow, "env_fog": now.fog, "env_lamps": now.lamps}
