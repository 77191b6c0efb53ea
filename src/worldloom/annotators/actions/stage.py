"""Action stages: labels from the camera track, and the same labeller on the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from worldloom.annotators.actions.keys import keys_of_clip, recorded_keys
from worldloom.annotators.actions.label import label
from worldloom.annotators.camera.given import Given, read_sidecar
from worldloom.dataengine.stage import Context, Inputs, Params
from worldloom.schemas import Action, Video


class ActionParams(Params):
    perspective: Literal["fps", "tps", "uncertain"] = "uncertain"   # where the source does not say
    declared: dict[str, Literal["fps", "tps", "uncertain"]] = {}     # by source_id
    use_keys: bool = True                                            # recorded keys give intent, blocked and residual


class ActionStage:
    """Actions of each clip from the camera track that the plan made."""
    name: ClassVar[str] = "action"
    version: ClassVar[int] = 6
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
        is_given = camera.pose_source != "estimated"
        given = read_sidecar(path) if path is not None and is_given else None
        recorded = recorded_keys(path) if path is not None and self.params.use_keys else None
        keys = None if recorded is None else keys_of_clip(recorded, clip, video)
        return label(camera, clip.fps, perspective=self._perspective(camera, video, given), keys=keys)

    def _perspective(self, camera: Any, video: Video, given: Given | None) -> str:
        """What the source declares, else its pose file where that made the track, else what the pixels show."""
        if said := self.params.declared.get(video.source_id):
            return said
        if given is not None and given.perspective:
            return given.perspective
        return camera.perspective_seen if self.params.perspective == "uncertain" else self.params.perspective


class ActionTruthStage(ActionStage):
    """Actions from the truth alone: what labels are scored against."""
    name: ClassVar[str] = "action_truth"
    reads: ClassVar[tuple[str, ...]] = ("camera_truth", "clip", "video")

    def process(self, item: Inputs) -> Iterator[Action]:
        yield self._label(item["camera_truth"], item)
