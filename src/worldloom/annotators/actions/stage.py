"""Action stages: labels from the camera track, and the same labeller on the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from worldloom.annotators.actions.label import Keys, label
from worldloom.annotators.camera.given import Given, read_sidecar
from worldloom.dataengine.stage import Context, Inputs, Params
from worldloom.schemas import Action, Clip, DataError, Video


class ActionParams(Params):
    perspective: Literal["fps", "tps", "uncertain"] = "uncertain"   # where the source does not say
    declared: dict[str, Literal["fps", "tps", "uncertain"]] = {}     # by source_id
    use_keys: bool = True                                            # recorded keys give intent, blocked and residual


class ActionStage:
    """Actions of each clip from the camera track that the plan made."""
    name: ClassVar[str] = "action"
    version: ClassVar[int] = 3
    reads: ClassVar[tuple[str, ...]] = ("camera", "clip", "video")
    optional: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[type] = Action
    budget_s: ClassVar[float] = 60.0
    Params = ActionParams

    def __init__(self, params: ActionParams | None = None) -> None:
        self.params = params or ActionParams()

    def setup(self, context: Context) -> None:
        self.context = context

    def process(self, item: Inputs) -> Iterator[Action]:
        yield self._label(item["camera"], item)

    def _label(self, camera: Any, item: Mapping[str, Any]) -> Action:
        clip, video = item["clip"], item["video"]
        path = self.context.sidecar_path(video)
        if path is not None and camera.pose_source == "estimated" and path.suffix != ".parquet":
            path = None                              # beside an estimated track only a recorder's keys are of use
        given = read_sidecar(path) if path is not None else None
        keys = keys_of_clip(given, clip, video) if given is not None and given.keys and self.params.use_keys else None
        return label(camera, clip.fps, perspective=self._perspective(camera, video, given), keys=keys)

    def _perspective(self, camera: Any, video: Video, given: Given | None) -> str:
        """What the source declares, else its pose file where that made the track, else what the pixels show."""
        if said := self.params.declared.get(video.source_id):
            return said
        if given is not None and given.perspective and camera.pose_source != "estimated":
            return given.perspective
        return camera.perspective_seen if self.params.perspective == "uncertain" else self.params.perspective


class ActionTruthStage(ActionStage):
    """Actions from the truth alone: what labels are scored against."""
    name: ClassVar[str] = "action_truth"
    reads: ClassVar[tuple[str, ...]] = ("camera_truth", "clip", "video")

    def process(self, item: Inputs) -> Iterator[Action]:
        yield self._label(item["camera_truth"], item)


def keys_of_clip(given: Given, clip: Clip, video: Video) -> Keys:
    """Keys of each clip frame: those applied between the source frames of the step into it; none at index 0.

    A longer key wins over a shorter opposite one. Raises DataError when the file does not hold one row a frame.
    """
    tracks = given.keys or {}
    if any(len(track) != video.num_frames for track in tracks.values()):
        raise DataError(f"clip {clip.clip_id}: {len(tracks['jump'])} key rows for a video of {video.num_frames} frames")
    bounds = list(zip(clip.source_frames[:-1], clip.source_frames[1:], strict=True))

    def over_steps(name: str) -> np.ndarray:
        return np.array([0] + [np.sum(tracks[name][a:b], dtype=int) for a, b in bounds])

    frames = np.asarray(clip.source_frames)
    return Keys(np.sign(over_steps("longitudinal")).astype(np.int8), np.sign(over_steps("lateral")).astype(np.int8),
                (over_steps("jump") > 0).astype(np.int8), tracks["on_ground"][frames].astype(bool))
