"""EuRoC MAV: mav0/cam0 with sensor.yaml (T_BS, camera on the body), data.csv (ns stamps) and pictures or cam0.mp4.

Poses are the body's, in a world whose z points up: state_groundtruth_estimate0/data.csv (ns, position, quaternion
w first) or a text in TUM's order (s, position, quaternion w last). T_BS makes them the camera's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import yaml

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording, natural
from worldloom.dataengine.sources.formats.track import Track, matrices, number_rows, pinhole
from worldloom.schemas import DataError


class EurocReader(FormatReader):
    kind = "euroc"
    scale_status: ClassVar[str] = "metric"
    convention: ClassVar[str] = "c2w/optical/quat_xyzw of the body, with T_BS"

    def recordings(self) -> Iterator[Recording]:
        for calibration in self.matching("sensor.yaml"):
            camera = calibration.parent
            if not camera.name.startswith("cam") or not (camera / "data.csv").exists():
                continue
            home, stamps = camera.parent, camera / "data.csv"
            truth = _truth(home)
            read = partial(_track, truth, stamps, calibration)
            files = (calibration, stamps, *([truth] if truth else []))
            pictures = tuple(sorted((camera / "data").glob("*.png"), key=natural))
            video = home / f"{camera.name}.mp4"
            yield Recording(f"{self.inside(home)}/{camera.name}", files, read,
                            video if video.is_file() and not pictures else None, pictures, restamped=not pictures)


def _truth(home: Path) -> Path | None:
    """The pose file of a recording: the dataset's own, else the one text of eight numbers a row."""
    own = home / "state_groundtruth_estimate0" / "data.csv"
    if own.is_file():
        return own
    texts = [path for path in sorted(home.glob("*.txt")) if len(_first_row(path)) >= 8]
    return texts[0] if len(texts) == 1 else None


def _first_row(path: Path) -> list[str]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        return next((line.split() for line in lines if line.strip() and not line.startswith("#")), [])


def _track(truth: Path | None, stamps: Path, calibration: Path) -> Track:
    """Camera poses at the stamps of the frames, in seconds."""
    if truth is None:
        raise DataError(f"{stamps.parent.parent.name}: no state_groundtruth_estimate0/data.csv and not one text of "
                        "poses")
    frames_s = [int(line.split(",")[0]) / 1e9 for line in stamps.read_text().splitlines() if line[:1].isdigit()]
    body_from_cam, camera = _sensor(calibration)
    return body_track(truth, body_from_cam, camera).at(frames_s)


def body_track(path: Path, body_from_cam_44: np.ndarray, camera: dict[str, Any] | None) -> Track:
    """Camera path of a body's path in a world whose z points up; stamps in s, or in ns where they are that large."""
    rows = number_rows(path, (8,))
    is_wxyz = path.suffix == ".csv"
    poses = to_canonical(rows[:, 1:8], f"c2w/optical/quat_{'wxyz' if is_wxyz else 'xyzw'}",
                         body_from_cam_44=body_from_cam_44)
    times_s = rows[:, 0] * (1e-9 if rows[0, 0] > 1e15 else 1.0)
    return Track(poses, times_s, camera, unit_m=1.0, gravity="imu", gravity_confidence=1.0)


def _sensor(calibration: Path) -> tuple[np.ndarray, dict[str, Any]]:
    text = calibration.read_text(encoding="utf-8").replace("%YAML:1.0", "")
    facts = yaml.safe_load(text)
    body_from_cam = matrices(np.asarray([facts["T_BS"]["data"]], float), calibration)[0]
    fx, fy, cx, cy = facts["intrinsics"]
    width, height = facts["resolution"]
    names = ("k1", "k2", "p1", "p2")
    bent = dict(zip(names, facts.get("distortion_coefficients", []), strict=False))
    return body_from_cam, pinhole(fx, fy, cx, cy, width, height, bent)
