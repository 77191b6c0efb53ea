"""What large sets do that one short walk does not show: gaps, archives, keys, files gone wrong."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from format_samples import COUNT, SAMPLES, WALK
from tiny import tiny_video

from worldloom.annotators.camera.given import read_sidecar
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.conventions import from_canonical
from worldloom.dataengine.sources import FileEntry, SourceParams, open_source


def opened(kind: str, root: Path, **more: Any) -> dict[str, FileEntry]:
    reader = open_source(SourceParams(name="s", kind=kind, path=str(root / "in"), **more))
    reader.prepare(root / "corpus")
    return {entry.name: entry for entry in reader.entries()}


def written(name: str, root: Path) -> Path:
    (root / "in").mkdir()
    SAMPLES[name][1](root / "in")
    return root / "in"


def document(entry: FileEntry) -> dict[str, Any]:
    assert entry.problem is None, entry.problem
    return json.loads((Path(entry.path).parent / Path(entry.sidecar or "").name).read_text())


def edited(path: Path, change: Any) -> None:
    facts = json.loads(path.read_text())
    change(facts)
    path.write_text(json.dumps(facts))


def the_only(entries: dict[str, FileEntry]) -> FileEntry:
    (entry,) = entries.values()
    return entry


def test_poses_of_every_third_frame_stand_at_the_times_of_their_frames(tmp_path: Path) -> None:
    home = written("spatialvid", tmp_path) / "annotations/group_0001/a1"
    every = slice(0, COUNT, 3)
    np.save(home / "poses.npy", np.load(home / "poses.npy")[every])
    (home / "indexes.txt").write_text(" ".join(str(i) for i in range(0, COUNT, 3)))
    found = document(the_only(opened("spatialvid", tmp_path)))
    np.testing.assert_allclose(found["times_s"], np.arange(0, COUNT, 3) / 24, atol=1e-6)
    assert found["labels"]["caption"]["SceneSummary"] == "a walk" and found["camera"]["fx"] == pytest.approx(120.0)


@pytest.mark.parametrize(("indexes", "words"), [
    (None, "4 poses for 12 frames; indexes.txt"), ("0 3 6", "lists 3 frames for 4 poses"),
    ("0 3 6 40", "frame 40 of a video of 12 frames"), ("0 6 3 9", "frame 3 in row 2 follows frame 6")])
def test_poses_that_cannot_be_put_on_frames_are_refused_in_one_line(
        tmp_path: Path, indexes: str | None, words: str) -> None:
    home = written("spatialvid", tmp_path) / "annotations/group_0001/a1"
    np.save(home / "poses.npy", np.load(home / "poses.npy")[::3])
    (home / "indexes.txt").unlink()
    if indexes is not None:
        (home / "indexes.txt").write_text(indexes)
    assert words in (the_only(opened("spatialvid", tmp_path)).problem or "")


def test_each_split_of_a_scene_is_a_recording_and_a_bad_one_fails_alone(tmp_path: Path) -> None:
    scene = written("omniworld", tmp_path) / "scene"
    edited(scene / "split_info.json", lambda facts: facts["split"].append([40, 41]))
    (scene / "camera/split_1.json").write_text(json.dumps({"trans": [[0, 0, 0]], "quats": [[1, 0, 0, 0]],
                                                           "focals": [1.0], "cx": 1.0, "cy": 1.0}))
    entries = opened("omniworld", tmp_path)
    assert sorted(entries) == ["scene/split_0.mp4", "scene/split_1.poses.json"]
    assert entries["scene/split_0.mp4"].problem is None
    assert "1 poses for 2 frames of the split" in (entries["scene/split_1.poses.json"].problem or "")


@pytest.mark.parametrize(("clip", "joint"), [("clip_7", "/"), ("clip_7", "."), ("owner/clip_7", "/")])
def test_clips_of_a_shard_come_out_as_folders_do(tmp_path: Path, clip: str, joint: str) -> None:
    home = written("solarwm", tmp_path) / "owner/clip_1"
    with tarfile.open(tmp_path / "in/part.tar", "w") as tar:
        for file in sorted(home.iterdir()):
            tar.add(file, f"{clip}{joint}{file.name}")
            file.unlink()
    entry = the_only(opened("solarwm", tmp_path))
    assert entry.name == f"part/{clip}.mp4"
    found = document(entry)
    moved = np.linalg.norm(np.diff(np.reshape(found["poses"], (-1, 4, 4))[:, :3, 3], axis=0), axis=1)
    np.testing.assert_allclose(moved, np.sqrt(0.02**2 + 0.01**2 + 0.1**2), atol=1e-6)
    assert found["unit_m"] == 1.0 and found["labels"] == {"source": "owner", "kept_tier": "high", "caption": "a street"}
    assert the_only(opened("solarwm", tmp_path)).problem is None                   # a second time, from what is there
    with tarfile.open(tmp_path / "in/part.tar", "w") as tar:                       # and another tar of that name
        tar.addfile(tarfile.TarInfo("readme.txt"))
    assert not opened("solarwm", tmp_path)


def test_a_member_that_leads_out_refuses_its_tar_and_writes_nothing_outside(tmp_path: Path) -> None:
    written("solarwm", tmp_path)
    with tarfile.open(tmp_path / "in/evil.tar", "w") as tar:
        info = tarfile.TarInfo("../../../out/poses.npy")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
    entries = opened("solarwm", tmp_path)
    assert "leads out of the folder" in (entries["evil.poses.json"].problem or "")
    assert entries["owner/clip_1.mp4"].problem is None and not list(tmp_path.rglob("out"))


@pytest.mark.parametrize("wrong", [np.nan, 0.0])
def test_a_lens_that_is_none_is_refused(tmp_path: Path, wrong: float) -> None:
    home = written("solarwm", tmp_path) / "owner/clip_1"
    np.save(home / "intrinsics.npy", np.full((COUNT, 4), wrong))
    assert "focal lengths above 0" in (the_only(opened("solarwm", tmp_path)).problem or "")


def test_a_clip_whose_meta_counts_other_frames_is_refused(tmp_path: Path) -> None:
    home = written("solarwm", tmp_path) / "owner/clip_1"
    edited(home / "meta.json", lambda facts: facts.update(num_frames=13))
    assert "12 poses, meta.json counts 13" in (the_only(opened("solarwm", tmp_path)).problem or "")


def test_keys_of_minecraft_are_those_that_led_to_the_next_frame_and_turns_may_be_deltas(tmp_path: Path) -> None:
    path = written("gamefactory", tmp_path) / "metadata/seed_1.json"
    found = document(the_only(opened("gamefactory", tmp_path)))
    assert found["keys"]["longitudinal"] == found["keys"]["lateral"] == [1] * (COUNT - 1) + [0]
    assert np.flatnonzero(found["keys"]["jump"]).tolist() == [2] and found["labels"] == {"biome": "plains"}

    def without_angles(facts: dict[str, Any]) -> None:
        for entry in facts["actions"].values():
            del entry["yaw"], entry["pitch"]

    edited(path, without_angles)
    poses = np.reshape(document(the_only(opened("gamefactory", tmp_path)))["poses"], (-1, 4, 4))
    np.testing.assert_allclose(np.diff(P.heading_deg(poses)), 3.0, atol=1e-6)       # 0.2 of a step of 15 degrees


def test_one_entry_more_than_frames_is_the_state_before_them(tmp_path: Path) -> None:
    path = written("gamefactory", tmp_path) / "video/seed_1.mp4"
    path.unlink()
    tiny_video(path, COUNT - 1, fps=16)
    found = document(the_only(opened("gamefactory", tmp_path)))
    np.testing.assert_allclose(np.reshape(found["poses"], (-1, 4, 4)), WALK[1:], atol=1e-6)
    assert len(found["keys"]["jump"]) == COUNT - 1
    path.unlink()
    tiny_video(path, COUNT - 2, fps=16)
    assert "12 entries for 10 frames" in (the_only(opened("gamefactory", tmp_path)).problem or "")


@pytest.mark.parametrize(("change", "words"), [
    (lambda facts: facts["actions"]["4"].pop("pos"), "entry 4 lacks pos"),
    (lambda facts: facts["actions"].pop("4"), "11 entries from 0 to 11"),
    (lambda facts: facts["actions"]["4"].update(ws=7), "ws 7; wanted 0, 1 or 2"),
    (lambda facts: facts["actions"]["4"].update(yaw=float("nan")), "row 4 holds NaN"),
    (lambda facts: facts.update(actions=[]), "no object 'actions'")])
def test_entries_gone_wrong_are_refused_by_number(tmp_path: Path, change: Any, words: str) -> None:
    edited(written("gamefactory", tmp_path) / "metadata/seed_1.json", change)
    assert words in (the_only(opened("gamefactory", tmp_path)).problem or "")


def test_a_file_that_is_no_object_fails_alone(tmp_path: Path) -> None:
    folder = written("gamefactory", tmp_path) / "metadata"
    (folder / "other.json").write_text("[1, 2]")
    entries = opened("gamefactory", tmp_path)
    assert "no object 'actions'" in (entries["metadata/other.poses.json"].problem or "")
    assert entries["metadata/seed_1.mp4"].problem is None


def test_the_third_person_camera_is_read_and_not_its_actor(tmp_path: Path) -> None:
    home = written("mind", tmp_path) / "1st_data/train/data-1"
    other = tmp_path / "in/3rd_data/test/mem_test/data-9"
    other.mkdir(parents=True)
    (other / "video.mp4").write_bytes((home / "video.mp4").read_bytes())
    boom = P.compose(WALK[:, :3, :3], WALK[:, :3, 3] - (0, 0, 2))
    rows = from_canonical(boom, "c2w/unreal/euler_rpy", 0.01).tolist()
    facts = json.loads((home / "action.json").read_text())
    for entry, row in zip(facts["data"], rows, strict=True):
        entry |= {"camera_pos": dict(zip("xyz", row[:3], strict=True)),
                  "camera_rpy": dict(zip("xyz", row[3:], strict=True))}
    (other / "action.json").write_text(json.dumps(facts))
    entries = opened("mind", tmp_path)
    first, third = (document(entries[name]) for name in sorted(entries))
    assert (first["perspective"], third["perspective"]) == ("fps", "tps")
    np.testing.assert_allclose(np.reshape(third["poses"], (-1, 4, 4)), boom, atol=1e-6)
    assert first["keys"]["longitudinal"] == first["keys"]["lateral"] == first["keys"]["yaw"] == [1] * COUNT
    declared = document(opened("mind", tmp_path, perspective="fps")["3rd_data/test/mem_test/data-9.mp4"])
    assert declared["perspective"] == "fps"


def test_an_entry_without_a_camera_is_refused_by_number(tmp_path: Path) -> None:
    home = written("mind", tmp_path) / "1st_data/train/data-1"
    edited(home / "action.json", lambda facts: facts["data"][5].pop("actor_rpy"))
    assert "entry 5 lacks 'actor_rpy'" in (the_only(opened("mind", tmp_path)).problem or "")


def rewritten_tar(path: Path, change: Any) -> None:
    with tarfile.open(path) as tar:
        held = {member.name: tar.extractfile(member).read() for member in tar}      # type: ignore[union-attr]
    change(held)
    with tarfile.open(path, "w") as tar:
        for name, raw in held.items():
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))


def test_frames_that_photogrammetry_lacks_get_no_pose_and_the_others_keep_their_own(tmp_path: Path) -> None:
    tar = written("abot_world", tmp_path) / "data/ab/abcd/annotations.tar"

    def without_frame_5(held: dict[str, bytes]) -> None:
        lines = held["sparse/0/images.txt"].decode().split("\n")
        at = next(i for i, line in enumerate(lines) if "frame_00005" in line)
        held["sparse/0/images.txt"] = "\n".join(lines[:at] + lines[at + 2:]).encode()

    rewritten_tar(tar, without_frame_5)
    found = document(the_only(opened("abot-world", tmp_path)))
    np.testing.assert_allclose(found["times_s"], np.delete(np.arange(COUNT), 5) / 24, atol=1e-6)
    assert found["keys"]["yaw"] == [1] * (COUNT - 1) and found["perspective"] == "tps"
    assert found["labels"]["caption"]["scene_static"] == "a harbour"


@pytest.mark.parametrize(("change", "words"), [
    (lambda held: held.pop("action.json"), "lacks action.json"),
    (lambda held: held.update({"sparse/0/images.txt": b"# none\n"}), "no registered image"),
    (lambda held: held.update({"sparse/0/images.txt": b"1 1 0 0 0 0 0 0 1 other.png\n\n"}), "none of 1 pictures")])
def test_annotations_gone_wrong_are_refused_in_one_line(tmp_path: Path, change: Any, words: str) -> None:
    rewritten_tar(written("abot_world", tmp_path) / "data/ab/abcd/annotations.tar", change)
    assert words in (the_only(opened("abot-world", tmp_path)).problem or "")


def test_a_tar_cut_short_is_refused_in_one_line(tmp_path: Path) -> None:
    tar = written("abot_world", tmp_path) / "data/ab/abcd/annotations.tar"
    tar.write_bytes(tar.read_bytes()[:700])
    assert "annotations.tar" in (the_only(opened("abot-world", tmp_path)).problem or "")


def test_an_unreal_table_with_times_and_a_view_and_one_with_other_names(tmp_path: Path) -> None:
    path = written("unreal", tmp_path) / "take.csv"
    assert document(the_only(opened("unreal", tmp_path)))["camera"]["fx"] == pytest.approx(120.0)
    rows = from_canonical(WALK, "c2w/unreal/euler_pyr", 0.01)
    path.write_text("timestamp,rot_yaw,rot_pitch,rot_roll,pos_x,pos_y,pos_z\n" + "".join(
        f"{i / 24},{yaw:.12g},{pitch:.12g},{roll:.12g},{x:.12g},{y:.12g},{z:.12g}\n"
        for i, (x, y, z, pitch, yaw, roll) in enumerate(rows)))
    entry = the_only(opened("unreal", tmp_path))
    found = read_sidecar(Path(entry.path).with_name("take.poses.json"))
    np.testing.assert_allclose(found.world_from_cam_N44, WALK, atol=1e-6)
    np.testing.assert_allclose(found.times_s, np.arange(COUNT) / 24, atol=1e-6)


@pytest.mark.parametrize(("text", "words"), [
    ("x,y,z,pitch,yaw\n1,2,3,4,5\n", "no column for roll in x, y, z, pitch, yaw"),
    ("x,y,z,pitch,yaw,roll\n1,2,3,4,5,six\n", "line 2 has 'six' in column 6"),
    ("x,y,z,pitch,yaw,roll\n1,2,3\n", "line 2 has 'nothing' in column 4"),
    ("x,y,z,pitch,yaw,roll\n", "a line of names and a line for each frame")])
def test_an_unreal_table_gone_wrong_names_line_and_column(tmp_path: Path, text: str, words: str) -> None:
    (written("unreal", tmp_path) / "take.csv").write_text(text)
    assert words in (the_only(opened("unreal", tmp_path)).problem or "")
