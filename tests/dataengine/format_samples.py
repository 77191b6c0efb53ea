"""The same short walk in every format that a reader knows: ahead, right and down, turning right and down."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from tiny import picture, tiny_video

from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.conventions import from_canonical

COUNT, WIDTH, HEIGHT = 12, 160, 96
STEPS = np.arange(COUNT)
WALK = P.compose(P.look(3.0 * STEPS, 10 - 1.0 * STEPS), np.stack([0.02 * STEPS, 0.01 * STEPS, 0.1 * STEPS], 1))
"""Canonical poses; turns 3 degrees right and 1 down a step."""
FX = 120.0
MOUNT = P.compose(P.look(np.array([20.0]), np.array([5.0])), np.array([[0.1, -0.05, 0.2]]))[0]
"""Place of the camera on a body, in the body's x right, y down, z forward."""
BODY_WALK = WALK @ np.linalg.inv(MOUNT)


def pictures(folder: Path, names: list[str]) -> None:
    """Numbered pictures, with a corner that differs from folder to folder."""
    corner = np.random.default_rng(zlib.crc32(folder.name.encode())).integers(0, 256, 3)
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        rgb = picture(number, WIDTH, HEIGHT)
        rgb[-16:, -16:] = corner
        cv2.imwrite(str(folder / name), rgb[:, :, ::-1])


def text(path: Path, rows: object, first: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(first + "\n".join(" ".join(f"{x:.12g}" for x in row) for row in np.asarray(rows)) + "\n")


def stamped(convention: str, poses: np.ndarray, start_s: float, step_s: float) -> np.ndarray:
    return np.column_stack([start_s + step_s * STEPS, from_canonical(poses, convention)])


def seven_scenes(root: Path) -> None:
    for i, pose in enumerate(WALK):
        text(root / f"seq-01/frame-{i:06d}.pose.txt", pose)
    pictures(root, [f"seq-01/frame-{i:06d}.color.png" for i in range(COUNT)])


def re10k(root: Path) -> None:
    rows = [[1e6 + 200_000 * i, FX / WIDTH, FX / HEIGHT, 0.5, 0.5, 0, 0, *np.linalg.inv(pose)[:3].ravel()]
            for i, pose in enumerate(WALK)]
    text(root / "a.txt", rows, "https://example.org/watch?v=a\n")
    tiny_video(root / "a.mp4", COUNT, fps=8, extra=("-bf", "2"))


def euroc(root: Path) -> None:
    """A camera on a body, in a world with z up, at 20 Hz; the poses at 100 Hz, w first."""
    home = root / "mav0"
    pictures(home, [f"cam0/data/{1403715273262142976 + i * 50_000_000}.png" for i in range(COUNT)])
    stamps = [f"{1403715273262142976 + i * 50_000_000}" for i in range(COUNT)]
    (home / "cam0/data.csv").write_text("#timestamp [ns],filename\n" + "".join(f"{s},{s}.png\n" for s in stamps))
    data = ", ".join(f"{x:.12g}" for x in MOUNT.ravel())
    (home / "cam0/sensor.yaml").write_text(
        f"%YAML:1.0\nsensor_type: camera\nT_BS:\n  cols: 4\n  rows: 4\n  data: [{data}]\n"
        f"resolution: [{WIDTH}, {HEIGHT}]\nintrinsics: [{FX}, {FX}, 80.0, 48.0]\n"
        f"distortion_coefficients: [-0.28, 0.07, 0.0, 0.0]\n")
    rows = from_canonical(BODY_WALK, "c2w/optical/quat_wxyz")
    (home / "state_groundtruth_estimate0").mkdir()
    (home / "state_groundtruth_estimate0/data.csv").write_text("#timestamp, p, q\n" + "".join(
        f"{stamp},{','.join(f'{x:.12g}' for x in row)}\n" for stamp, row in zip(stamps, rows, strict=True)))


def nerf(root: Path) -> None:
    names = [f"images/{i + 8}.png" for i in range(COUNT)]
    pictures(root, names)
    frames = [{"file_path": name, "transform_matrix": pose.tolist()}
              for name, pose in zip(names, from_canonical(WALK, "c2w/blender/matrix"), strict=True)]
    gone = {"file_path": "images/gone.png", "transform_matrix": np.eye(4).tolist()}
    frames = [frames[3], gone, *frames[:3], *frames[4:]]
    (root / "transforms.json").write_text(json.dumps(
        {"fl_x": FX, "fl_y": FX, "cx": 80.0, "cy": 48.0, "w": WIDTH, "h": HEIGHT, "k1": 0.05, "frames": frames}))


def tum(root: Path) -> None:
    """Pictures from one step before the first pose to one after the last, as in the dataset."""
    text(root / "groundtruth.txt", stamped("c2w/optical/quat_xyzw", WALK, 100.0, 0.1), "# ground truth trajectory\n")
    names = [f"rgb/{i}.png" for i in range(-1, COUNT + 1)]
    pictures(root, names)
    (root / "rgb.txt").write_text("# color images\n" + "".join(f"{100 + 0.1 * int(n[4:-4]):.4f} {n}\n" for n in names))


def kitti(root: Path) -> None:
    """Poses of the grey camera, pictures of the colour camera beside it."""
    offset = np.eye(4)
    offset[0, 3] = 0.06
    text(root / "poses/00.txt", (WALK @ np.linalg.inv(offset))[:, :3].reshape(COUNT, 12))
    home = root / "sequences/00"
    pictures(home, [f"image_2/{i:06d}.png" for i in range(COUNT)])
    text(home / "times.txt", 0.1 * STEPS[:, None])
    p_34 = np.array([[FX, 0, 80, -0.06 * FX], [0, FX, 48, 0], [0, 0, 1, 0]])
    (home / "calib.txt").write_text("P2: " + " ".join(f"{x:.12g}" for x in p_34.ravel()) + "\n")


def colmap_text(root: Path) -> None:
    model = root / "sparse/0"
    model.mkdir(parents=True)
    rows = from_canonical(WALK, "w2c/opencv/quat_wxyz")[:, [3, 4, 5, 6, 0, 1, 2]]
    order = [*range(6, COUNT), *range(6)]                       # registered in any order
    (model / "images.txt").write_text("# Image list\n" + "".join(
        f"{k} {' '.join(f'{x:.12g}' for x in rows[i])} 1 img {i + 1}.png\n1.0 2.0 -1\n" for k, i in enumerate(order)))
    (model / "cameras.txt").write_text(f"# Camera list\n1 SIMPLE_RADIAL {WIDTH} {HEIGHT} {FX} 80 48 0.004\n")
    pictures(root, [f"images/img {i + 1}.png" for i in range(COUNT)])


def colmap_binary(root: Path) -> None:
    rows = from_canonical(WALK, "w2c/opencv/quat_wxyz")[:, [3, 4, 5, 6, 0, 1, 2]]
    images = b"".join(
        struct.pack("<I7dI", i, *row, 1) + f"{i}.png".encode() + b"\0" + struct.pack("<Qddq", 1, 1.0, 2.0, -1)
        for i, row in enumerate(rows))
    (root / "images.bin").write_bytes(struct.pack("<Q", COUNT) + images)
    (root / "cameras.bin").write_bytes(struct.pack("<QIiQQ4d", 1, 1, 1, WIDTH, HEIGHT, FX, FX, 80, 48))


def tartanair(root: Path) -> None:
    text(root / "P000/pose_left.txt", from_canonical(WALK, "c2w/ned/quat_xyzw"))
    pictures(root / "P000", [f"image_left/{i:06d}_left.png" for i in range(COUNT)])


def sekai(root: Path) -> None:
    k_33 = np.array([[FX, 0, 80], [0, FX, 48], [0, 0, 1]])
    np.savez(root / "walk.npz", cam_c2w=WALK.astype(np.float32), intrinsics=np.tile(k_33, (COUNT, 1, 1)))
    tiny_video(root / "walk.mp4", COUNT)


def yume(root: Path) -> None:
    np.save(root / "a_frames_00005-00016.npy", WALK.astype(np.float32))
    (root / "a_frames_00005-00016.txt").write_text(
        "Start Frame: 5\nEnd Frame: 16\nDuration: 12 frames\nKeys: W\nMouse: →\n", encoding="utf-8")


def lingbot(root: Path) -> None:
    (root / "00").mkdir()
    np.save(root / "00/poses.npy", from_canonical(WALK, "c2w/optical/matrix").astype(np.float32))
    np.save(root / "00/intrinsics.npy", np.tile([FX, FX, 79.8, 47.9], (COUNT, 1)))
    np.save(root / "00/wasd_action.npy", np.tile([1, 0, 0, 0], (COUNT, 1)))


def worldplay(root: Path) -> None:
    k = [[FX, 0, 80], [0, FX, 48], [0, 0, 1]]
    (root / "pose.json").write_text(json.dumps(
        {str(i): {"extrinsic": pose.tolist(), "K": k} for i, pose in enumerate(WALK)}))


def motionctrl(root: Path) -> None:
    (root / "camera.json").write_text(json.dumps(np.linalg.inv(WALK)[:, :3].reshape(COUNT, 12).tolist()))


def vpt(root: Path) -> None:
    rows = from_canonical(WALK, "c2w/minecraft/euler_yp")
    ticks = [{"xpos": x, "ypos": y, "zpos": z, "yaw": yaw, "pitch": pitch, "tick": i, "mouse": {"dx": 0.0},
              "keyboard": {"keys": ["key.keyboard.w", "key.keyboard.d"] if i else []}}
             for i, (x, y, z, yaw, pitch) in enumerate(rows.tolist())]
    (root / "play.jsonl").write_text("".join(json.dumps(tick) + "\n" for tick in ticks))
    tiny_video(root / "play.mp4", COUNT, fps=20)


def aria(root: Path) -> None:
    """The device is the camera turned on its side: its x is the camera's down."""
    turned = np.array([[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    rows = from_canonical(WALK @ turned, "c2w/optical/quat_xyzw")
    names = [f"{axis}_world_device" for axis in ("tx", "ty", "tz", "qx", "qy", "qz", "qw")]
    (root / "closed_loop_trajectory.csv").write_text(
        ",".join(["tracking_timestamp_us", *names, "gravity_z_world"]) + "\n" + "".join(
            f"{149_202_610 + 1000 * i},{','.join(f'{x:.12g}' for x in row)},-9.81\n" for i, row in enumerate(rows)))


def uzh_fpv(root: Path) -> None:
    text(root / "indoor_with_gt.txt", stamped("c2w/optical/quat_xyzw", BODY_WALK, 1.5e9, 0.05), "# timestamp(s)\n")
    rows = "".join(f"  - [{', '.join(f'{x:.12g}' for x in row)}]\n" for row in np.linalg.inv(MOUNT))
    (root / "camchain-imucam.yaml").write_text(
        f"cam0:\n  T_cam_imu:\n{rows}  intrinsics: [{FX}, {FX}, 80.0, 48.0]\n  resolution: [{WIDTH}, {HEIGHT}]\n"
        "  distortion_coeffs: [-0.01, 0.0, 0.0, 0.0]\n")


def comma2k19(root: Path) -> None:
    """At 37 degrees north, 122 degrees west; the level world there is x east, y down, z north."""
    latitude, longitude = np.radians([37.0, -122.0])
    up = np.array([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)])
    east = np.array([-np.sin(longitude), np.cos(longitude), 0.0])
    ecef_from_level = np.stack([east, -up, np.cross(up, east)], 1)
    radius = 6378137 / np.sqrt(1 - 0.00669437999014 * np.sin(latitude) ** 2)
    place = radius * up * (1, 1, 1 - 0.00669437999014)
    device = from_canonical(WALK, "c2w/opencv/matrix")[:, :3, :3] @ np.array([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]])
    folder = root / "seg/global_pose"
    folder.mkdir(parents=True)
    for name, array in (("times", 100 + 0.05 * STEPS), ("positions", place + WALK[:, :3, 3] @ ecef_from_level.T),
                        ("orientations", P.to_quaternion(ecef_from_level @ device, order="wxyz"))):
        with (folder / f"frame_{name}").open("wb") as file:
            np.save(file, array)
    tiny_video(root / "seg/v.mp4", COUNT, fps=20)
    (root / "seg/v.mp4").rename(root / "seg/video.hevc")


def slambook(root: Path) -> None:
    text(root / "pose.txt", from_canonical(WALK, "c2w/opencv/quat_xyzw"))
    pictures(root, [f"color/{i + 1}.png" for i in range(COUNT)])


def spatialvid(root: Path) -> None:
    """Every frame annotated, so that the same walk comes out; another test leaves frames out."""
    home = root / "annotations/group_0001/a1"
    home.mkdir(parents=True)
    np.save(home / "poses.npy", from_canonical(WALK, "w2c/opencv/quat_xyzw"))
    np.save(home / "intrinsics.npy", np.tile([FX / WIDTH, FX / HEIGHT, 0.5, 0.5], (COUNT, 1)))
    (home / "indexes.txt").write_text("".join(f"{i}\n" for i in range(COUNT)))
    (home / "caption.json").write_text(json.dumps({"SceneSummary": "a walk"}))
    (root / "videos/group_0001").mkdir(parents=True)
    tiny_video(root / "videos/group_0001/a1.mp4", COUNT, extra=("-g", "2"))


def omniworld(root: Path) -> None:
    rows = from_canonical(WALK, "w2c/opencv/quat_wxyz")
    (root / "scene/camera").mkdir(parents=True)
    (root / "scene/split_info.json").write_text(json.dumps({"split": [list(range(7, 7 + COUNT))]}))
    (root / "scene/camera/split_0.json").write_text(json.dumps(
        {"trans": rows[:, :3].tolist(), "quats": rows[:, 3:].tolist(), "focals": [FX] * COUNT, "cx": 80.0, "cy": 48.0}))
    pictures(root / "scene", [f"color/{i + 7:06d}.png" for i in range(COUNT)])


def solarwm(root: Path) -> None:
    home = root / "owner/clip_1"
    home.mkdir(parents=True)
    np.save(home / "poses.npy", WALK)
    np.save(home / "intrinsics.npy", np.tile([FX, FX, 80.0, 48.0], (COUNT, 1)))
    (home / "meta.json").write_text(json.dumps({"fps": 24, "num_frames": COUNT, "width": WIDTH, "height": HEIGHT,
                                                "source": "owner", "kept_tier": "high"}))
    (home / "prompt.txt").write_text("a street\n")
    tiny_video(home / "video.mp4", COUNT, extra=("-g", "3"))


def dl3dv(root: Path) -> None:
    """The full pictures are listed and a smaller copy is there."""
    names = [f"images/frame_{i + 1:05d}.png" for i in range(COUNT)]
    pictures(root / "hash", [name.replace("images/", "images_4/") for name in names])
    frames = [{"file_path": name, "transform_matrix": pose.tolist()}
              for name, pose in zip(names, from_canonical(WALK, "c2w/blender/matrix"), strict=True)]
    (root / "hash/transforms.json").write_text(json.dumps(
        {"fl_x": 4 * FX, "fl_y": 4 * FX, "cx": 320.0, "cy": 192.0, "w": 640, "h": 384, "frames": frames}))


def gamefactory(root: Path) -> None:
    rows = from_canonical(WALK, "c2w/minecraft/euler_yp").tolist()
    actions = {str(i): {"ws": int(i > 0), "ad": 2 * int(i > 0), "scs": int(i == 3), "pos": row[:3], "yaw": row[3],
                        "pitch": row[4], "yaw_delta": 0.2, "pitch_delta": 0.0} for i, row in enumerate(rows)}
    (root / "metadata").mkdir()
    (root / "metadata/seed_1.json").write_text(json.dumps({"biome": "plains", "actions": actions}))
    (root / "video").mkdir()
    tiny_video(root / "video/seed_1.mp4", COUNT, fps=16)


def mind(root: Path) -> None:
    home = root / "1st_data/train/data-1"
    home.mkdir(parents=True)
    rows = from_canonical(WALK, "c2w/unreal/euler_rpy", 0.01).tolist()
    data = [{"time": i, "ws": 1, "ad": 2, "ud": 0, "lr": 2, "actor_pos": dict(zip("xyz", row[:3], strict=True)),
             "actor_rpy": dict(zip("xyz", row[3:], strict=True))} for i, row in enumerate(rows)]
    (home / "action.json").write_text(json.dumps({"caption": "a yard", "total_time": COUNT, "data": data}))
    tiny_video(home / "video.mp4", COUNT, extra=("-g", "4"))


def abot_world(root: Path) -> None:
    home = root / "data/ab/abcd"
    home.mkdir(parents=True)
    rows = from_canonical(WALK, "w2c/opencv/quat_wxyz")[:, [3, 4, 5, 6, 0, 1, 2]]
    keys = {"W": True, "D": True, "L": True, "Space": False}
    members = {
        "action.json": json.dumps({"fps": 24, "control_scheme": "WASD_QE_locomotion_IJKL_rotation", "frames": [
            {"frame_id": f"frame_{i:05d}", "timestamp": i / 24, "keys": keys} for i in range(COUNT)]}),
        "caption.json": json.dumps({"scene_static": "a harbour", "perspective": "third person"}),
        "sparse/0/cameras.txt": f"1 PINHOLE {WIDTH} {HEIGHT} {FX} {FX} 80 48\n",
        "sparse/0/images.txt": "".join(f"{i + 5} {' '.join(f'{x:.12g}' for x in row)} 1 frame_{i:05d}.png\n\n"
                                       for i, row in enumerate(rows))}
    with tarfile.open(home / "annotations.tar", "w") as tar:
        for name, held in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(held.encode())
            tar.addfile(info, io.BytesIO(held.encode()))
    tiny_video(home / "video.mp4", COUNT, extra=("-g", "5"))


def unreal(root: Path) -> None:
    rows = from_canonical(WALK, "c2w/unreal/euler_pyr", 0.01)
    (root / "take.csv").write_text("Frame,Location X,Location Y,Location Z,Pitch,Yaw,Roll,FOV\n" + "".join(
        f"{i},{','.join(f'{x:.12g}' for x in row)},{2 * np.degrees(np.arctan(80 / FX)):.12g}\n"
        for i, row in enumerate(rows)))
    tiny_video(root / "take.mp4", COUNT, extra=("-g", "6"))


SAMPLES: dict[str, tuple[str, Callable[[Path], None], bool]] = {
    "7scenes": ("7scenes", seven_scenes, True), "re10k": ("re10k", re10k, True), "euroc": ("euroc", euroc, True),
    "nerf": ("nerf", nerf, True), "tum": ("tum", tum, True), "kitti": ("kitti", kitti, True),
    "colmap_text": ("colmap", colmap_text, True), "colmap_binary": ("colmap", colmap_binary, False),
    "tartanair": ("tartanair", tartanair, True), "sekai": ("sekai", sekai, True), "yume": ("sekai", yume, False),
    "lingbot": ("lingbot", lingbot, False), "worldplay": ("hy-worldplay", worldplay, False),
    "motionctrl": ("motionctrl", motionctrl, False), "vpt": ("vpt", vpt, True), "aria": ("aria", aria, False),
    "uzh_fpv": ("uzh-fpv", uzh_fpv, False), "comma2k19": ("comma2k19", comma2k19, True),
    "slambook": ("slambook", slambook, True), "spatialvid": ("spatialvid", spatialvid, True),
    "omniworld": ("omniworld", omniworld, True), "solarwm": ("solarwm", solarwm, True),
    "dl3dv": ("dl3dv", dl3dv, True), "gamefactory": ("gamefactory", gamefactory, True), "mind": ("mind", mind, True),
    "abot_world": ("abot-world", abot_world, True), "unreal": ("unreal", unreal, True),
}
"""Kind, writer, and whether the sample has pictures."""
