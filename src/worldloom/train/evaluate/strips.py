"""Pictures of a rollout beside the truth, with what was asked and what was measured above each frame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from worldloom.train.evaluate.following import TestClips

ZOOM = 2
LABEL_PX = 16


def write_strips(path: Path, test: TestClips, generated_BTHWC: np.ndarray, measured_deg_BT: np.ndarray,
                 rows: int = 6) -> None:
    """PNG of the `rows` clips that turn most, a pair of lines each: true frames, then generated ones."""
    import cv2

    turning = np.abs(test.actions_BT6[..., 1]).mean(1)
    lines = []
    for clip in np.argsort(-turning)[:rows]:
        asked, start = test.actions_BT6[clip, :, 1], test.context_BSHWC[clip, -1]
        truth = [_tile(start, "start (true)")]
        truth += [_tile(frame, f"true {yaw:+.1f}") for frame, yaw in zip(test.frames_BTHWC[clip], asked, strict=True)]
        made = [_tile(start, "start (true)")]
        made += [_tile(frame, f"{yaw:+.1f} got {got:+.1f}") for frame, yaw, got in
                 zip(generated_BTHWC[clip], asked, measured_deg_BT[clip], strict=True)]
        lines += [np.hstack(truth), np.hstack(made), np.full((6, truth[0].shape[1] * len(truth), 3), 255, np.uint8)]
    path.parent.mkdir(parents=True, exist_ok=True)
    ok, data = cv2.imencode(".png", np.vstack(lines)[..., ::-1])
    if not ok:
        raise OSError(f"{path}: the picture could not be encoded")
    path.write_bytes(data.tobytes())


def _tile(frame_HWC: np.ndarray, label: str) -> np.ndarray:
    import cv2

    picture = cv2.resize(frame_HWC, None, fx=ZOOM, fy=ZOOM, interpolation=cv2.INTER_NEAREST)
    head = np.full((LABEL_PX, picture.shape[1], 3), 255, np.uint8)
    cv2.putText(head, label, (2, 12), cv2.FONT_HERSHEY_SIMPLEX, 0.36, (0, 0, 0), 1, cv2.LINE_AA)
    return np.pad(np.vstack([head, picture]), ((0, 0), (0, 2), (0, 0)), constant_values=255)
