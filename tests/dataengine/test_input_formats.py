"""Formats that hold what was pressed or asked for: OWAMcap logs, WorldPlay2 inputs, both files of HY-WorldPlay."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from format_samples import COUNT, FX, WALK
from mcap.writer import Writer
from tiny import tiny_video
from typer.testing import CliRunner

from worldloom.annotators.actions.grammar import parse, to_rows
from worldloom.annotators.actions.keys import keys_of_clip, recorded_keys
from worldloom.annotators.actions.trajectory import path_action
from worldloom.annotators.camera.given import read_sidecar
from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.plan import load_plan
from worldloom.dataengine.runner import run_plan
from worldloom.dataengine.sources import SourceParams, open_source
from worldloom.dataengine.sources.cli import sources_app
from worldloom.schemas import Clip, Video

CLOCK_NS = 1_750_000_000_000_000_000


def opened(kind: str, folder: Path, corpus: Path, **more: Any) -> dict[str, Any]:
    """Name of each entry -> (entry, path of its pose file)."""
    reader = open_source(SourceParams(name="s", kind=kind, path=str(folder), **more))
    reader.prepare(corpus)
    return {entry.name: (entry, reader.root / (entry.sidecar or "")) for entry in reader.entries()}


def write_log(path: Path, frames: int, keys: list[tuple[float, str, int]], *, video: str, late_s: float = 0.5,
              new: bool = False) -> None:
    """A log of 10 frames a second, the video's time 0 being `late_s` after the clock's; keys at video times."""
    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        schema = writer.register_schema(name="desktop/ScreenCaptured", encoding="jsonschema", data=b"{}")
        channels = {topic: writer.register_channel(topic=topic, message_encoding="json", schema_id=schema)
                    for topic in ("screen", "keyboard", "mouse")}
        events: list[tuple[float, str, dict[str, Any]]] = []
        for i in range(frames):
            pts = i * 100_000_000
            where = {"media_ref": {"uri": video, "pts_ns": pts}} if new else {"path": video, "pts": pts}
            events.append((i / 10, "screen", where | {"utc_ns": CLOCK_NS + int(late_s * 1e9) + pts}))
            events.append((i / 10, "mouse", {"event_type": "move", "x": i, "y": 0}))
        events += [(at, "keyboard", {"event_type": kind, "vk": vk}) for at, kind, vk in keys]
        for at_s, topic, message in sorted(events, key=lambda event: event[0]):
            at_ns = CLOCK_NS + int((late_s + at_s) * 1e9)
            writer.add_message(channels[topic], log_time=at_ns, publish_time=at_ns, data=json.dumps(message).encode())
        writer.finish()


KEYS = [(0.32, "press", 0x57), (0.35, "press", 0x57), (0.61, "release", 0x57), (0.65, "press", 0x41),
        (0.74, "press", 0x20), (0.76, "release", 0x20), (0.95, "press", 0x42)]
"""W from 0.32 to 0.61 s with a repeated press, A from 0.65 s on, space for 20 ms, B that is no movement."""


def clip_of(video: Path, frames: int) -> tuple[Clip, Video]:
    facts: dict[str, Any] = {name: None for name in Clip.__dataclass_fields__}
    facts |= {"clip_id": "c", "start_frame": 0, "stop_frame": frames, "num_frames": frames, "fps": 10.0,
              "source_frames": list(range(frames)), "frame_times_s": [i / 10 for i in range(frames)]}
    return Clip(**facts), Video(**({name: None for name in Video.__dataclass_fields__} | {"num_frames": frames}))


@pytest.mark.parametrize("new", [False, True])
def test_keys_of_a_log_are_held_over_the_steps_in_which_they_were_down(new: bool, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    tiny_video(tmp_path / "in" / "play.mkv", 12, fps=10)
    write_log(tmp_path / "in" / "play.mcap", 12, KEYS, video="elsewhere.mkv", new=new)
    ((entry, poses),) = opened("owa-mcap", tmp_path / "in", tmp_path / "corpus").values()
    assert entry.name == "play.mkv" and entry.problem is None
    keys = keys_of_clip(recorded_keys(poses), *clip_of(Path(entry.path), 12))                   # type: ignore[arg-type]
    assert keys.longitudinal.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0]
    assert keys.lateral.tolist() == [0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1]
    assert keys.jump is not None and keys.jump.tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]


def test_a_log_names_its_video_but_not_one_outside_of_the_folder(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    tiny_video(tmp_path / "secret.mkv", 12, fps=10)
    tiny_video(inside / "other.mkv", 12, fps=10)
    write_log(inside / "a.mcap", 12, KEYS, video="other.mkv")
    write_log(inside / "b.mcap", 12, KEYS, video="../secret.mkv")
    found = opened("owa-mcap", inside, tmp_path / "corpus")
    assert set(found) == {"a.mkv", "b.poses.json"}


def test_a_broken_log_fails_alone_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    tiny_video(tmp_path / "in" / "good.mkv", 12, fps=10)
    write_log(tmp_path / "in" / "good.mcap", 12, KEYS, video="good.mkv")
    (tmp_path / "in" / "cut.mcap").write_bytes((tmp_path / "in" / "good.mcap").read_bytes()[:300])
    write_log(tmp_path / "in" / "blind.mcap", 0, KEYS, video="x.mkv")
    found = {name: entry.problem for name, (entry, _) in opened("owa-mcap", tmp_path / "in", tmp_path / "c").items()}
    assert found["good.mkv"] is None and "cut.mcap: no OWAMcap log" in found["cut.poses.json"]
    assert found["blind.poses.json"] == "blind.mcap: 0 screen messages with a time in the video; wanted two or more"


def test_labels_from_pixels_have_the_keys_of_the_log_as_intent(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    tiny_video(tmp_path / "in" / "play.mkv", 12, fps=10)
    write_log(tmp_path / "in" / "play.mcap", 12, KEYS, video="play.mkv")
    plan = {"sources": [{"name": "s", "kind": "owa-mcap", "path": "in"}],
            "stages": ["video", "clip", "camera", "action"],
            "params": {"clip": {"min_s": 0.1, "shots": False}, "camera": {"mode": "auto", "use_sidecar": False}}}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    run_plan(load_plan(tmp_path / "plan.yaml"), tmp_path / "corpus", executor="inline", quiet=True)
    con = open_catalog(tmp_path / "corpus")
    assert con.sql("SELECT detail FROM failure").fetchall() == []
    assert con.sql("SELECT intent_longitudinal FROM action").fetchall() == [([0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0],)]


def test_real_logs_give_the_keys_that_were_typed(shared_data: Path, tmp_path: Path) -> None:
    """Both type words in an editor, so S and the space bar are pressed, W, A and D are not."""
    found = opened("owa-mcap", shared_data / "video/desktop_input", tmp_path)
    assert set(found) == {"owa_0.3.2.mkv", "owa_0.4.2.mkv"}
    for entry, poses in found.values():
        recorded = recorded_keys(poses)
        assert entry.problem is None and recorded is not None
        assert set(recorded.tracks["longitudinal"]) == {0, -1} and set(recorded.tracks["lateral"]) == {0}
        assert np.sum(np.diff(recorded.tracks["jump"]) == 1) == 1
        assert json.loads(poses.read_text())["labels"] == {"key_events": 24}


ACTION = "w+right-8,sa+up-4,space-2,d+left+down-5,none-1"


def test_the_labels_of_an_asked_path_are_what_was_asked(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    item = {"image_path": "a.png", "action": ACTION, "prompt_event": "prompt1-20", "prompt1": "A street.",
            "perspective": "tps"}
    (tmp_path / "in" / "walks.json").write_text(json.dumps([item, item | {"action": "w+s-4"}, {"action": "w-4"}]))
    found = opened("worldplay2", tmp_path / "in", tmp_path / "corpus")
    problems = {name: entry.problem for name, (entry, _) in found.items()}
    assert "action 'w+s-4'" in problems["walks/0001.poses.json"]
    assert "input 2 lacks image_path, prompt_event, perspective" in problems["walks/0002.poses.json"]
    entry, poses = found["walks/0000.poses.json"]
    given = read_sidecar(poses)
    _, action = path_action(poses, given, "a", 4.0)
    rows = to_rows(parse(ACTION), perspective=0)
    rows[0] = 0
    np.testing.assert_allclose(action.pitch_deg, rows[:, 0], atol=1e-4)                 # poses of nine digits
    np.testing.assert_allclose(action.yaw_deg, rows[:, 1], atol=1e-4)
    assert action.longitudinal.tolist() == rows[:, 2].tolist() and action.lateral.tolist() == rows[:, 3].tolist()
    assert action.intent_longitudinal is not None and action.intent_longitudinal.tolist() == rows[:, 2].tolist()
    assert given.perspective == "tps" and json.loads(poses.read_text())["labels"]["prompt1"] == "A street."


def test_training_and_inference_files_of_a_path_give_the_same_poses(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lens = [[FX, 0, 80], [0, FX, 48], [0, 0, 1]]
    asked = {str(i): {"extrinsic": pose.tolist(), "K": lens} for i, pose in enumerate(WALK)}
    trained = {str(i): {"w2c": np.linalg.inv(pose).tolist(), "intrinsic": lens} for i, pose in enumerate(WALK)}
    (tmp_path / "in" / "asked.json").write_text(json.dumps(asked))
    (tmp_path / "in" / "trained.json").write_text(json.dumps(trained))
    (tmp_path / "in" / "mixed.json").write_text(json.dumps({"0": asked["0"], "1": trained["1"]}))
    found = opened("hy-worldplay", tmp_path / "in", tmp_path / "corpus")
    both = [read_sidecar(found[f"{name}.poses.json"][1]) for name in ("asked", "trained")]
    np.testing.assert_allclose(both[0].world_from_cam_N44, both[1].world_from_cam_N44, atol=1e-8)   # nine digits
    rates = [json.loads(found[f"{name}.poses.json"][1].read_text())["fps"] for name in ("asked", "trained")]
    assert rates == [6.0, 24.0] and len(both[0].world_from_cam_N44) == COUNT
    assert "extrinsic" in (found["mixed.poses.json"][0].problem or "")


def saved_tensor(path: Path, actions_NC: np.ndarray, *, rows_before: int = 3) -> None:
    """As torch saves a slice: the whole storage, and where in it the tensor begins."""
    torch = pytest.importorskip("torch")
    whole = np.concatenate([np.ones((rows_before, actions_NC.shape[1])), actions_NC])
    torch.save(torch.tensor(whole, dtype=torch.float32)[rows_before:], path)


def test_one_hot_actions_are_the_keys_of_the_video_beside_them(tmp_path: Path) -> None:
    actions_N25 = np.zeros((12, 25))
    actions_N25[2:5, 11], actions_N25[6, 13], actions_N25[8, 17], actions_N25[:, 15] = 1, 1, 1, -0.975
    (tmp_path / "in").mkdir()
    saved_tensor(tmp_path / "in" / "a.one_hot_actions.pt", actions_N25)
    tiny_video(tmp_path / "in" / "a.mp4", 12, fps=20)
    ((entry, poses),) = opened("vpt", tmp_path / "in", tmp_path / "corpus").values()
    assert entry.problem is None and entry.name.endswith(".mp4")
    keys = keys_of_clip(recorded_keys(poses), *clip_of(Path(entry.path), 12))                   # type: ignore[arg-type]
    assert keys.longitudinal.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    assert keys.lateral.tolist() == [0, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0]
    assert keys.jump is not None and keys.jump.tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]


@pytest.mark.parametrize(("actions_NC", "said"), [
    (np.full((4, 25), 0.5), "shape [4, 25]; wanted rows of 25 one-hot actions"), (np.zeros((3, 7)), "shape [3, 7]"),
    (None, "no saved tensor")])
def test_a_file_that_is_no_such_tensor_fails_alone(actions_NC: np.ndarray | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "in" / "a.one_hot_actions.pt"
    path.parent.mkdir()
    saved_tensor(path, actions_NC) if actions_NC is not None else path.write_bytes(b"PK")
    ((entry, _),) = opened("vpt", path.parent, tmp_path / "corpus").values()
    assert said in entry.problem


def test_a_saved_file_that_would_run_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with zipfile.ZipFile(tmp_path / "in" / "a.one_hot_actions.pt", "w") as archive:
        archive.writestr("a/data.pkl", f"cos\nsystem\n(S'touch {tmp_path}/ran'\ntR.")
    ((entry, _),) = opened("vpt", tmp_path / "in", tmp_path / "corpus").values()
    assert "os.system is refused" in entry.problem and not (tmp_path / "ran").exists()


def test_the_real_one_hot_actions_open(shared_data: Path, tmp_path: Path) -> None:
    ((entry, poses),) = opened("vpt", shared_data / "traj/vpt_actions", tmp_path).values()
    recorded = recorded_keys(poses)
    assert entry.problem is None and recorded is not None
    pressed = {axis: np.bincount(np.int64(track + 1), minlength=3).tolist() for axis, track in recorded.tracks.items()}
    assert pressed == {"longitudinal": [68, 835, 57], "lateral": [73, 827, 60], "jump": [0, 960, 0]}


@pytest.mark.parametrize("kind", ["owa-mcap", "worldplay2"])
def test_the_command_of_each_page_opens_a_sample(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f"{kind}-data"
    folder.mkdir()
    tiny_video(folder / "play.mkv", 12, fps=10)
    write_log(folder / "play.mcap", 12, KEYS, video="play.mkv")
    (folder / "walks.json").write_text(json.dumps([{"image_path": "a.png", "action": ACTION, "prompt1": "A street.",
                                                    "prompt_event": "prompt1-20", "perspective": "fps"}]))
    page = Path(__file__).resolve().parents[2] / "docs" / "sources" / f"{kind}.md"
    (command,) = [line for line in page.read_text().splitlines() if line.startswith("worldloom ")]
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(sources_app, [*command.split()[2:], "--json"])
    assert done.exit_code == 0 and json.loads(done.output)["problem"] is None, done.output
