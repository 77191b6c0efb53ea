"""Recordings of the world as files: VIDEO.mp4, VIDEO.truth.parquet, and where asked VIDEO.twin.mp4 (with its own
truth) and VIDEO.depth.npz.

Recordings are whole or absent: the video is moved into place last, so one that exists is complete.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from worldloom.dataengine.record.jobs import encoder, is_finished, recorded, scratch_file
from worldloom.dataengine.record.pinhole import pinhole_camera
from worldloom.dataengine.record.truth import sidecar_path, write_truth
from worldloom.dataengine.record.world.depth import depth_path, write_depth
from worldloom.dataengine.record.world.params import WorldParams
from worldloom.schemas import ConfigError

if TYPE_CHECKING:
    from worldloom.dataengine.record.world.episode import Episode, Recording

COLUMNS = pa.schema([
    ("yaw_deg", pa.float64()), ("pitch_deg", pa.float64()),
    ("body_x", pa.float64()), ("body_y", pa.float64()), ("body_z", pa.float64()), ("body_yaw_deg", pa.float64()),
    ("body_shown", pa.bool_()), ("blocked", pa.bool_()), ("segment", pa.string()),
    ("event_px", pa.float64()), ("event_differs", pa.bool_()),
    *((f"env_{part}", pa.float64()) for part in ("daylight", "rain", "snow", "fog", "lamps")),
    ("has_depth", pa.bool_()),
    ("people", pa.list_(pa.struct([("person", pa.int32()),
                                   *((key, pa.float64()) for key in ("x", "y", "z", "yaw_deg"))]))),
])
"""Columns of the truth besides those that every recorder writes."""
SCENE_SEED_STEP = 1000


def record_world(out_dir: Path, *, scenes: Sequence[str] = ("town",), episodes: int = 1, seed: int = 1,
                 workers: int = 1, progress: Callable[[int, int, Path], None] | None = None,
                 places: Sequence[str] | None = None, variants: int = 0, **options: Any) -> list[Path]:
    """Record `episodes` of every scene, with seeds seed, seed + 1, ...; scene k starts at seed + 1000 k.

    Args:
        variants: how many more times to record each play with another look: textures, hour and weather.
        places: the scene of each episode where they are not shared out evenly, in place of `episodes`.
        workers: episodes recorded at the same time, each in a process of its own.
        progress: called after each episode with (done, total, path).
        options: further fields of `WorldParams`.
    Returns:
        The videos, in order of scene, then seed. Finished ones are kept.
    Raises:
        ConfigError: an option is wrong, a video is there with other options, or the machine has no EGL.
    """
    jobs = [WorldParams(scene=scene, seed=seed + SCENE_SEED_STEP * k + e, variant=variant, **options)
            for k, scene in enumerate(scenes) for e in range(places.count(scene) if places else episodes)
            for variant in range(variants + 1)]
    for job in jobs:
        is_finished(Path(out_dir) / f"{job.name}.mp4", job)
    done: dict[WorldParams, Path] = {}
    for job, path in recorded(Path(out_dir), jobs, record_episode, workers):
        done[job] = path
        if progress is not None:
            progress(len(done), len(jobs), path)
    return [done[job] for job in jobs]


def record_episode(out_dir: Path, params: WorldParams) -> Path:
    """Record one episode, or find it finished; its video."""
    out_dir = Path(out_dir).resolve()
    out_dir.mkdir(parents=True, exist_ok=True)
    video = out_dir / f"{params.name}.mp4"
    if is_finished(video, params):
        return video
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(scratch_file(out_dir, params.name))
        twin = stack.enter_context(scratch_file(out_dir, f"{params.name}.twin")) if params.save_twin else None
        with contextlib.ExitStack() as files, contextlib.closing(_open(params)) as episode:
            size = params.width, params.height, params.fps
            encode = files.enter_context(encoder(scratch, *size))
            encode_twin = files.enter_context(encoder(twin, *size)) if twin else None
            result = episode.record(encode, encode_twin)
        if result.depths:
            write_depth(depth_path(video), result.depths)
        if twin:
            write_truth(sidecar_path(twin_path(video)), result.twin_rows, twin_meta_of(params, result), COLUMNS)
            os.replace(twin, twin_path(video))
        write_truth(sidecar_path(video), result.rows, meta_of(params, result), COLUMNS)
        os.replace(scratch, video)
    return video


def _open(params: WorldParams) -> Episode:
    try:
        from worldloom.dataengine.record.world.episode import Episode
    except ModuleNotFoundError as error:
        raise ConfigError(f"the world recorder needs {error.name}; pip install 'worldloom[engine,record]'") from error
    return Episode(params)


def twin_meta_of(params: WorldParams, result: Recording) -> dict[str, Any]:
    return meta_of(params, result) | {"events": [], "events_skipped": [], "twin_of": f"{params.name}.mp4",
                                      "pictures_sha1": None}


def twin_path(video: Path) -> Path:
    """The same play in a world where no event happens."""
    return video.with_suffix(".twin.mp4")


def meta_of(params: WorldParams, result: Recording) -> dict[str, Any]:
    """Metadata of the sidecar."""
    from importlib.metadata import version

    from worldloom.dataengine.record.world.events import CATEGORY

    return {
        "camera": pinhole_camera(params.width, params.height, params.hfov_deg).as_dict(), "fps": float(params.fps),
        "perspective": params.perspective, "scene": params.scene, "engine": f"panda3d {version('panda3d')}",
        "recorder": "world/1", "convention": "c2w/opencv/matrix", "pose_source": "engine", "pose_of": "camera",
        "metres_per_unit": 1.0, "scale_status": "exact", "hud": False, "weapon": False, "seed": params.seed,
        "policy": params.policy, "params": asdict(params), "pictures_sha1": result.pictures_sha1,
        "events": [event.as_dict() for event in result.events], "events_skipped": result.skipped,
        "event_category": CATEGORY,
        "variant_of": f"{replace(params, variant=0).name}.mp4" if params.variant else None,
        "loop_middle_frame": (params.num_frames - 1) // 2 if params.policy == "loop" else None,
    }
