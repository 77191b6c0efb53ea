"""ViZDoom: video at 35 frames a second with the engine's own pose, keys, events and object boxes.

The engine runs headless in a scratch folder (it drops files where it starts). Recordings are whole or absent: truth is
moved into place first and the video last, so a video that exists is complete, and a finished pair is not redone.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from worldloom.dataengine.record.events import Doors, Events, listed
from worldloom.dataengine.record.explorer import Whereabouts
from worldloom.dataengine.record.jobs import PR_SET_PDEATHSIG, encoder, is_finished, recorded, scratch_file
from worldloom.dataengine.record.params import EpisodeParams
from worldloom.dataengine.record.pinhole import (
    CameraModel,
    max_pitch_deg,
    pinhole_camera,
    rectify,
    rectify_box,
    yshear_camera,
)
from worldloom.dataengine.record.players import Plays, make_player
from worldloom.dataengine.record.policy import Command, View, view_of_depth
from worldloom.dataengine.record.truth import sidecar_path, world_from_cam, write_truth
from worldloom.schemas import ConfigError, DataError

if TYPE_CHECKING:
    import vizdoom as vzd

FPS = 35
WARMUP_TICS = 14                        # commands of the first 8 tics are ignored
METRES_PER_UNIT = 0.03125
PINHOLE_SOURCE = (1024, 768, 110.0)     # width, height, fov of the picture that is rectified
BUTTONS = ("MOVE_FORWARD", "MOVE_BACKWARD", "MOVE_LEFT", "MOVE_RIGHT", "TURN_LEFT_RIGHT_DELTA", "LOOK_UP_DOWN_DELTA",
           "JUMP", "ATTACK", "USE", "SPEED", "SELECT_NEXT_WEAPON")
VARIABLES = {
    "x": "CAMERA_POSITION_X", "y": "CAMERA_POSITION_Y", "eye_z": "CAMERA_POSITION_Z",
    "angle": "ANGLE", "pitch": "PITCH",
    "vx": "VELOCITY_X", "vy": "VELOCITY_Y", "on_ground": "ON_GROUND", "health": "HEALTH", "dead": "DEAD",
    "kills": "KILLCOUNT", "hits": "HITCOUNT", "hits_taken": "HITS_TAKEN", "items": "ITEMCOUNT",
    "secrets": "SECRETCOUNT",
    "armor": "ARMOR", "weapon": "SELECTED_WEAPON", "ammo": "SELECTED_WEAPON_AMMO",
    **{f"weapon{slot}": f"WEAPON{slot}" for slot in range(1, 8)},
}
ITEM_CATEGORIES = ("weapon", "ammo", "health", "armor", "key", "powerup")
NETWORK_SCENARIOS = ("cig", "cig_with_unknown", "multi_duel")       # the engine dies unless it hosts a game
MELEE_SLOT = 1                          # a punch snaps the player's heading to its target


def record_episode(out_dir: Path, params: EpisodeParams) -> Path:
    """Record one episode as out_dir/NAME.mp4 and NAME.truth.parquet, or find it finished.

    Raises:
        ConfigError: the map, the wad or the picture size is not one of the engine's, or the episode is there with
            other options.
    """
    check(params)
    out_dir = Path(out_dir).resolve()
    out_dir.mkdir(parents=True, exist_ok=True)
    video = out_dir / f"{params.name}.mp4"
    if is_finished(video, params):
        return video
    with scratch_file(out_dir, params.name) as scratch:
        with _game(params) as game, encoder(scratch, params.width, params.height, FPS) as encode:
            rows = list(_play(game, params, encode))
        if len(rows) < 2:
            raise DataError(f"{params.name}: the episode ended after {len(rows)} frames; try another seed")
        write_truth(sidecar_path(video), rows, meta_of(params) | {"events": listed(rows)})
        os.replace(scratch, video)
    return video


def record_many(out_dir: Path, maps: Sequence[str], episodes: int, seed: int, tics: int, policy: str = "mixed",
                workers: int = 1, progress: Callable[[int, int, Path], None] | None = None,
                places: Sequence[str] | None = None, **more: Any) -> list[Path]:
    """Record `episodes` of every map, with seeds seed, seed + 1, ...; further keywords are fields of EpisodeParams.

    `places` names the map of each episode where they are not shared out evenly, in place of `episodes`.
    `progress(done, total, path)` is called after each episode. The paths come back in order of map, then seed.
    """
    jobs = [EpisodeParams(map=name, seed=seed + 1000 * m + e, tics=tics, policy=policy, **more)
            for m, name in enumerate(maps) for e in range(places.count(name) if places else episodes)]
    for job in jobs:
        check(job)
        is_finished(Path(out_dir) / f"{job.name}.mp4", job)
    done: dict[EpisodeParams, Path] = {}
    for job, path in recorded(Path(out_dir), jobs, record_episode, workers):
        done[job] = path
        if progress is not None:
            progress(len(done), len(jobs), path)
    return [done[job] for job in jobs]


def check(params: EpisodeParams) -> None:
    """Refuse a map, wad or picture size that the engine lacks, before it starts."""
    known = known_maps(params.wad, params.scenario)
    if params.map not in known:
        holder = params.scenario or params.wad
        raise ConfigError(f"unknown map {params.map!r}; {holder} has {', '.join(known)}")
    if not params.pinhole and (params.width, params.height) not in known_sizes():
        sizes = ", ".join(f"{w}x{h}" for w, h in known_sizes())
        raise ConfigError(f"the engine has no {params.width}x{params.height} picture of shape 4:3; it has {sizes}")
    if params.pinhole and (params.width % 2 or params.height % 2 or not 32 <= params.width <= PINHOLE_SOURCE[0]
                           or max_pitch_deg(*cameras(params)) < 1):
        raise ConfigError(f"no {params.width}x{params.height} pinhole picture of hfov {params.hfov_deg:g} fits the "
                          "engine's; give even numbers and a smaller hfov")


def known_scenarios() -> tuple[str, ...]:
    """Names of the small worlds that come with the engine."""
    import vizdoom

    return tuple(sorted(found.stem for found in (Path(vizdoom.__file__).parent / "scenarios").glob("*.wad")))


def chosen_maps(text: str, wad: str = "freedoom2.wad", scenario: str = "") -> list[str]:
    """Maps of a wad or scenario from `all`, names, numbers and ranges of them, separated by commas: map01,4,10-12.

    Raises:
        ConfigError: a range is upside down, or the wad is unknown. Unknown names are refused when recording.
    """
    known, chosen = known_maps(wad, scenario), list[str]()
    for part in (part.strip().lower() for part in text.split(",")):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if part == "all":
            chosen += known
        elif match:
            first, last = int(match[1]), int(match[2] or match[1])
            if first > last:
                raise ConfigError(f"maps {part} go backwards; give FIRST-LAST")
            chosen += [f"map{number:02d}" for number in range(first, last + 1)]
        elif part:
            chosen.append(part)
    return list(dict.fromkeys(chosen))


def chosen_scenarios(text: str) -> list[str]:
    """Scenarios from `all` or names separated by commas; an empty text gives the game itself, named by "".

    Raises:
        ConfigError: a scenario is unknown.
    """
    known = known_scenarios()
    names = [part.strip().lower() for part in text.split(",") if part.strip()]
    for name in names:
        if name not in (*known, "all"):
            raise ConfigError(f"unknown scenario {name!r}; the engine has {', '.join(known)}")
    return list(known) if "all" in names else list(dict.fromkeys(names)) or [""]


def known_maps(wad: str, scenario: str = "") -> tuple[str, ...]:
    """Names of the maps of a wad or scenario that comes with the engine, from the file's directory."""
    import vizdoom

    folder = Path(vizdoom.__file__).parent
    if scenario and scenario not in known_scenarios():
        raise ConfigError(f"unknown scenario {scenario!r}; the engine has {', '.join(known_scenarios())}")
    path = folder / "scenarios" / f"{scenario}.wad" if scenario else folder / wad
    if Path(wad).name != wad or not path.is_file():
        wads = ", ".join(sorted(found.name for found in folder.glob("freedoom*.wad")))
        raise ConfigError(f"unknown wad {wad!r}; the engine has {wads}")
    data = path.read_bytes()
    count, offset = struct.unpack_from("<ii", data, 4)
    lumps = (data[offset + 16 * i + 8:offset + 16 * i + 16].rstrip(b"\0").decode("latin-1") for i in range(count))
    return tuple(sorted(lump.lower() for lump in lumps if re.fullmatch(r"MAP\d\d|E\dM\d", lump)))


def known_sizes() -> tuple[tuple[int, int], ...]:
    """Picture sizes of the engine with shape 4:3, the one whose camera is known."""
    import vizdoom

    found = (re.fullmatch(r"RES_(\d+)X(\d+)", name) for name in dir(vizdoom.ScreenResolution))
    sizes = ((int(match[1]), int(match[2])) for match in found if match)
    return tuple(sorted((w, h) for w, h in sizes if w * 3 == h * 4))


def cameras(params: EpisodeParams) -> tuple[CameraModel, CameraModel]:
    """The engine's camera, and that of the file: the same one unless it is rectified."""
    if not params.pinhole:
        source = yshear_camera(params.width, params.height, params.fov_deg, params.hud)
        return source, source
    return yshear_camera(*PINHOLE_SOURCE), pinhole_camera(params.width, params.height, params.hfov_deg)


def meta_of(params: EpisodeParams) -> dict[str, Any]:
    """Metadata of the sidecar. A third-person view's pose is the player's eye: the engine gives no other."""
    import vizdoom

    return {
        "camera": cameras(params)[1].as_dict(), "fps": float(FPS),
        "perspective": "tps" if params.third_person else "fps",
        "map": params.map, "scenario": params.scenario or None,
        "engine": f"vizdoom {vizdoom.__version__}", "convention": "c2w/opencv/matrix",
        "pose_source": "engine", "pose_of": "player_eye" if params.third_person else "camera",
        "metres_per_unit": METRES_PER_UNIT, "scale_status": "exact", "hud": params.hud, "weapon": params.weapon,
        "seed": params.seed, "policy": params.policy, "params": asdict(params),
    }


@contextlib.contextmanager
def _game(params: EpisodeParams) -> Iterator[vzd.DoomGame]:
    """A started engine after its warm-up, in a scratch folder of its own."""
    import vizdoom as vzd

    game = vzd.DoomGame()
    _configure(game, params)
    with tempfile.TemporaryDirectory(prefix="worldloom-vizdoom-") as scratch:
        game.set_doom_config_path(str(Path(scratch) / "vizdoom.ini"))
        game.set_vizdoom_path(str(_launcher(Path(scratch), Path(vzd.__file__).parent / "vizdoom")))
        with contextlib.chdir(scratch):
            game.init()
        try:
            game.new_episode()
            for command in _console(params):
                game.send_game_command(command)
            for _ in range(WARMUP_TICS):
                game.make_action([0.0] * len(BUTTONS))
            yield game
        finally:
            game.close()


def _launcher(folder: Path, program: Path) -> Path:
    """A program that becomes the engine and ends with the recorder, even a killed one; elsewhere the engine itself."""
    if sys.platform != "linux":
        return program
    launcher = folder / "launch"
    launcher.write_text(f"#!{sys.executable} -IS\n"
                        "import ctypes, os, sys\n"
                        f"ctypes.CDLL(None).prctl({PR_SET_PDEATHSIG}, {int(signal.SIGKILL)}, 0, 0, 0)\n"
                        f"if os.getppid() != {os.getpid()}: sys.exit(1)\n"
                        f"os.execv({str(program)!r}, [{str(program)!r}, *sys.argv[1:]])\n")
    launcher.chmod(0o755)
    return launcher


def _configure(game: vzd.DoomGame, params: EpisodeParams) -> None:
    import vizdoom as vzd

    source, _ = cameras(params)
    folder = Path(vzd.__file__).parent
    game.set_doom_game_path(str(folder / params.wad))
    if params.scenario:
        game.set_doom_scenario_path(str(folder / "scenarios" / f"{params.scenario}.wad"))
    game.set_doom_map(params.map)
    game.set_screen_resolution(getattr(vzd.ScreenResolution, f"RES_{source.width}X{source.height}"))
    game.set_screen_format(vzd.ScreenFormat.RGB24)
    game.set_window_visible(False)
    game.set_sound_enabled(False)
    game.set_render_hud(params.hud)
    game.set_render_weapon(params.weapon)
    game.set_render_crosshair(False)
    game.set_render_messages(False)
    game.set_depth_buffer_enabled(True)
    game.set_labels_buffer_enabled(True)
    game.set_sectors_info_enabled(True)
    game.set_available_buttons([getattr(vzd.Button, name) for name in BUTTONS])
    game.set_available_game_variables([getattr(vzd.GameVariable, name) for name in VARIABLES.values()])
    if params.scenario in NETWORK_SCENARIOS:
        game.add_game_args(f"-host 1 -port {_free_port()} -deathmatch +sv_cheats 1")
    if params.third_person:
        game.add_game_args("+chase_dist 90 +chase_height 8")
    game.set_mode(vzd.Mode.PLAYER)
    game.set_doom_skill(params.skill)
    game.set_seed(params.seed)
    game.set_episode_timeout(10**9)


def _free_port() -> int:
    """A port of this machine that nobody listens at, so that several engines can host at the same time."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _console(params: EpisodeParams) -> list[str]:
    fov_deg = PINHOLE_SOURCE[2] if params.pinhole else params.fov_deg
    return [f"fov {fov_deg:g}", *(["buddha"] if params.immortal else []), *(["chase"] if params.third_person else []),
            *(["give weapons", "give ammo"] if params.policy == "events" else [])]


def _play(game: vzd.DoomGame, params: EpisodeParams, encode: Callable[[np.ndarray], None]) -> Iterator[dict[str, Any]]:
    """Play the episode; every frame is encoded, and its truth row comes back."""
    source, target = cameras(params)
    top_deg = max_pitch_deg(source, target) if params.pinhole else 28.0
    player: Plays | None = None
    events, doors = Events(), Doors()
    middles: list[np.ndarray] | None = None
    for frame in range(params.tics):
        state = None if game.is_episode_finished() else game.get_state()
        if state is None:
            return
        assert state.game_variables is not None  # _configure asks for them
        now = dict(zip(VARIABLES, state.game_variables.tolist(), strict=True))
        now["weapons"] = sum(now[f"weapon{slot}"] for slot in range(1, 8))
        if now["dead"]:
            return
        middles = middles or _line_middles(state)
        heights = np.array([(s.floor_height, s.ceiling_height) for s in state.sectors])
        opened = doors.opened(frame, heights, middles, (now["x"], now["y"]))
        player = player or make_player(params, state.sectors, top_deg)
        command = player.act(_view(state, now, source), _whereabouts(state, now))
        if now["weapon"] == MELEE_SLOT and command.attack:
            command = _without_attack(command)
        if command.use:
            doors.used(frame)
        rgb = state.screen_buffer
        encode(rectify(rgb, source, target, -now["pitch"]) if params.pinhole else rgb)
        told, objects = events.seen(now, opened, doors.closed), _objects(state, now, params, source, target)
        yield _row(frame, now, command, told, objects)
        game.make_action(_buttons(command))


def _line_middles(state: vzd.GameState) -> list[np.ndarray]:
    return [np.array([((line.x1 + line.x2) / 2, (line.y1 + line.y2) / 2) for line in s.lines]).reshape(-1, 2)
            for s in state.sectors]


def _view(state: vzd.GameState, now: dict[str, float], source: CameraModel) -> View:
    assert state.labels is not None and state.depth_buffer is not None  # _configure enables both
    enemies = [label for label in state.labels if _category(label) == "monster"]
    enemy = None
    if enemies:
        nearest = max(enemies, key=lambda label: label.width * label.height)
        enemy = (nearest.x + nearest.width / 2) / source.width - 0.5
    ahead, left, right = view_of_depth(state.depth_buffer)
    return View(pitch_deg=-now["pitch"], speed=math.hypot(now["vx"], now["vy"]), ahead=ahead, left=left, right=right,
                enemy=enemy)


def _whereabouts(state: vzd.GameState, now: dict[str, float]) -> Whereabouts:
    assert state.labels is not None  # _configure enables them
    items = tuple((label.object_position_x, label.object_position_y) for label in state.labels
                  if _category(label) in ITEM_CATEGORIES)
    return Whereabouts(now["x"], now["y"], now["angle"], items)


def _category(label: vzd.Label) -> str:
    return str(label.object_category).rsplit(".", 1)[-1].lower()


def _without_attack(command: Command) -> Command:
    return Command(**{**asdict(command), "attack": 0})


def _buttons(command: Command) -> list[float]:
    forward, right = command.longitudinal, command.lateral
    return [float(value) for value in (
        forward > 0, forward < 0, right < 0, right > 0, command.turn_deg, command.look_deg, command.jump,
        command.attack, command.use, command.run, command.next_weapon)]


def _objects(state: vzd.GameState, now: dict[str, float], params: EpisodeParams, source: CameraModel,
             target: CameraModel) -> list[dict[str, Any]]:
    assert state.labels is not None  # _configure enables them
    found = []
    for label in state.labels:
        seen = (label.x, label.y, label.width, label.height)
        box = rectify_box(seen, source, target, -now["pitch"]) if params.pinhole else seen
        category = _category(label)
        if box is not None and category != "self":
            found.append({"name": label.object_name, "category": category,
                          **dict(zip(("x", "y", "w", "h"), map(int, box), strict=True))})
    return found


def _row(frame: int, now: dict[str, float], command: Command, events: list[dict[str, str]],
         objects: list[dict[str, Any]]) -> dict[str, Any]:
    pose = world_from_cam(now["x"], now["y"], now["eye_z"], now["angle"], -now["pitch"])
    return {
        "frame": frame, "time_s": frame / FPS, "world_from_cam": pose.ravel().tolist(),
        "on_ground": bool(now["on_ground"]), "key_longitudinal": command.longitudinal, "key_lateral": command.lateral,
        "key_jump": command.jump, "key_run": command.run, "key_attack": command.attack, "key_use": command.use,
        "turn_deg": command.turn_deg, "look_deg": command.look_deg, "events": events, "objects": objects,
        "health": now["health"],
    }
