"""UZH-FPV: NAME_with_gt.txt of `stamp tx ty tz qx qy qz qw`, the drone's body-to-world in metres, z up.

A Kalibr file beside it (camchain-imucam*.yaml, T_cam_imu) gives the camera's path. Without one the path is the body's:
it is listed, and refused as a camera.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import yaml

from worldloom.dataengine.sources.formats.euroc import body_track
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording
from worldloom.dataengine.sources.formats.track import Track, matrices, pinhole


class UzhFpvReader(FormatReader):
    kind = "uzh-fpv"
    scale_status: ClassVar[str] = "metric"
    convention: ClassVar[str] = "c2w/optical/quat_xyzw of the body, with the inverse of T_cam_imu"
    perspective: ClassVar[str] = "fps"

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("*.txt"):
            chains = sorted(path.parent.glob("camchain*imucam*.yaml"))
            chain = chains[0] if chains else None
            yield Recording(self.inside(path), (path, *chains[:1]), partial(_track, path, chain))


def _track(path: Path, chain: Path | None) -> Track:
    if chain is None:
        return replace(body_track(path, np.eye(4), None), frame="body")
    facts = yaml.safe_load(chain.read_text(encoding="utf-8"))["cam0"]
    cam_from_body = matrices(np.asarray([facts["T_cam_imu"]], float), chain)[0]
    bent = dict(zip(("k1", "k2", "k3", "k4"), facts.get("distortion_coeffs", []), strict=False))
    fx, fy, cx, cy = facts["intrinsics"]
    width, height = facts["resolution"]
    camera = pinhole(fx, fy, cx, cy, width, height, bent)
    return body_track(path, np.linalg.inv(cam_from_body), camera)
