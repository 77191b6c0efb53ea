"""Which estimator makes the camera of a clip: the registry of estimators, and the choice with its reason.

Others are added by an entry point of the group `worldloom.estimators`, such as `mine = "my_package.poses:MyModel"`.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationError

from worldloom.annotators.camera.estimator import Estimator, Footage, OutputReader
from worldloom.annotators.camera.given import holds_poses
from worldloom.schemas import ConfigError

_HERE = "worldloom.annotators.camera"
BUILT_IN = {
    "given": f"{_HERE}.builtin:GivenPoses",
    "odometry": f"{_HERE}.builtin:Odometry",
    "sfm": f"{_HERE}.sfm:Sfm",
    "vipe": f"{_HERE}.learned.outputs:VipeOutput",
    "megasam": f"{_HERE}.learned.outputs:MegaSamOutput",
    "depth_anything_3_output": f"{_HERE}.learned.outputs:DepthAnything3Output",
    "vggt": f"{_HERE}.learned.models:Vggt",
    "depth_anything_3": f"{_HERE}.learned.models:DepthAnything3",
    "pi3": f"{_HERE}.learned.models:Pi3",
}


@dataclass(frozen=True)
class Choice:
    """The name of an estimator, and why it was taken."""
    name: str
    because: str


def estimator_classes() -> dict[str, str]:
    """Where each estimator is found: name -> module:class; an installed package cannot replace a built-in one."""
    return {point.name: point.value for point in entry_points(group="worldloom.estimators")} | BUILT_IN


def load_estimator(name: str, options: Mapping[str, Any]) -> Estimator:
    """The estimator of this name with its options checked.

    Raises:
        ConfigError: no estimator has this name, it cannot be imported, or it refuses an option.
    """
    known = estimator_classes()
    if name not in known:
        near = difflib.get_close_matches(name, [*known, "auto"], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"camera: no estimator {name!r}{hint} (estimators: auto, {', '.join(sorted(known))})")
    module, _, cls_name = known[name].partition(":")
    try:
        cls = getattr(importlib.import_module(module), cls_name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"camera: estimator {name!r} at {known[name]} cannot be loaded: {error}") from error
    try:
        return cls(cls.Params.model_validate(dict(options)))
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join([name, *map(str, wrong["loc"])])
        raise ConfigError(f"camera: options.{place}: {wrong['msg']} (fields: "
                          f"{', '.join(cls.Params.model_fields) or 'none'})") from error


def choose(mode: str, footage: Footage, readers: Mapping[str, OutputReader], *, use_sidecar: bool,
           long_above: int) -> Choice:
    """The estimator of a clip: the one asked for, or by what there is.

    `auto` takes the source's own poses first, then a model's output that holds the clip, then odometry.

    Args:
        readers: the output readers that the plan gives options for, in its order.
        use_sidecar: whether `auto` may take the pose file beside the video.
        long_above: frames above which odometry works in windows.
    """
    if mode != "auto":
        return Choice(mode, f"mode: {mode}")
    has_poses = footage.sidecar is not None and holds_poses(footage.sidecar)
    if use_sidecar and has_poses:
        return Choice("given", "pose file beside the video")
    for name, reader in readers.items():
        if reader.holds(footage):
            return Choice(name, f"output of {name} holds the clip")
    missing = "pose files are not used"
    if use_sidecar:
        missing = "no pose file" if footage.sidecar is None else "recorded keys without poses"
    if readers:
        missing += f", no output of {', '.join(readers)} for it"
    count = footage.clip.num_frames
    if count > long_above:
        return Choice("odometry", f"{missing}; {count} frames, so in windows")
    return Choice("odometry", missing)
