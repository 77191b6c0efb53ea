"""Frames of a clip with their action drawn on them: movement keys, a compass arrow, and the angles in degrees."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from worldloom.dataengine.video.read import iter_frames

WIDTH_PX = 480
JPEG_QUALITY = 82
KEY_PX = 34
_INK, _DARK, _LIT, _UNSURE = (255, 255, 255), (28, 30, 34), (255, 176, 32), (128, 132, 138)


def pick_frames(path: Path, indices: list[int]) -> list[np.ndarray]:
    """Frames (H, W, 3) uint8 RGB of a canonical clip at rising indices; those past its end are left out.

    Raises:
        DecodeError: the file cannot be opened or breaks off.
    """
    wanted = set(indices)
    frames = iter_frames(path, stop=max(wanted, default=0) + 1)
    return [frame.rgb_HWC for frame in frames if frame.index in wanted]


def jpeg(rgb_HWC: np.ndarray) -> bytes:
    done, data = cv2.imencode(".jpg", rgb_HWC[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    if not done:
        raise ValueError(f"a picture of shape {[*rgb_HWC.shape]} cannot be written as JPEG")
    return data.tobytes()


def draw_action(rgb_HWC: np.ndarray, *, longitudinal: int, lateral: int, yaw_deg: float, pitch_deg: float,
                jump: int) -> np.ndarray:
    """A copy of the frame, WIDTH_PX wide, with the action that led into it; an uncertain value is a grey '?'."""
    height = round(rgb_HWC.shape[0] * WIDTH_PX / rgb_HWC.shape[1])
    picture = cv2.resize(np.ascontiguousarray(rgb_HWC), (WIDTH_PX, height), interpolation=cv2.INTER_LINEAR)
    base = height - 2 * KEY_PX - 14
    _draw_keys(picture, 8, base, longitudinal, lateral, jump)
    _draw_compass(picture, (WIDTH_PX - 72, height - 94), yaw_deg, pitch_deg)
    return picture


def _draw_keys(picture: np.ndarray, left: int, top: int, longitudinal: int, lateral: int, jump: int) -> None:
    step = KEY_PX + 4
    for letter, column, row, value, on in (("W", 1, 0, longitudinal, 1), ("A", 0, 1, lateral, -1),
                                           ("S", 1, 1, longitudinal, -1), ("D", 2, 1, lateral, 1)):
        _draw_key(picture, left + column * step, top + row * step, letter, value, on)
    if jump == 1:
        _draw_key(picture, left + 2 * step, top, "J", 1, 1)


def _draw_key(picture: np.ndarray, x: int, y: int, letter: str, value: int, on: int) -> None:
    unsure = value not in (-1, 0, 1)
    fill = _UNSURE if unsure else _LIT if value == on else _DARK
    patch = picture[y:y + KEY_PX, x:x + KEY_PX]
    patch[:] = (0.2 * patch + 0.8 * np.array(fill)).astype(np.uint8)
    cv2.rectangle(picture, (x, y), (x + KEY_PX - 1, y + KEY_PX - 1), _INK, 1, cv2.LINE_AA)
    text = "?" if unsure else letter
    (w, h), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 0.6, 2)
    ink = _DARK if fill == _LIT else _INK
    cv2.putText(picture, text, (x + (KEY_PX - w) // 2, y + (KEY_PX + h) // 2), cv2.FONT_HERSHEY_SIMPLEX, 0.6, ink, 2,
                cv2.LINE_AA)


def _draw_compass(picture: np.ndarray, centre: tuple[int, int], yaw_deg: float, pitch_deg: float) -> None:
    """An arrow that leans right where the view turns right, ten times the turn so that one degree shows."""
    x, y = centre
    patch = picture[y - 40:y + 88, x - 66:x + 66]
    patch[:] = (0.3 * patch + 0.7 * np.array(_DARK)).astype(np.uint8)
    cv2.circle(picture, centre, 34, _INK, 1, cv2.LINE_AA)
    if np.isfinite(yaw_deg):
        lean = np.radians(np.clip(10 * yaw_deg, -170, 170))
        tip = (round(x + 30 * np.sin(lean)), round(y - 30 * np.cos(lean)))
        cv2.arrowedLine(picture, centre, tip, _LIT, 3, cv2.LINE_AA, tipLength=0.35)
    else:
        cv2.putText(picture, "?", (x - 8, y + 9), cv2.FONT_HERSHEY_SIMPLEX, 0.9, _UNSURE, 2, cv2.LINE_AA)
    for row, (name, value) in enumerate((("yaw", yaw_deg), ("pitch", pitch_deg))):
        cv2.putText(picture, f"{name} {degrees(value)}", (x - 61, y + 56 + 25 * row), cv2.FONT_HERSHEY_SIMPLEX, 0.62,
                    _INK, 1, cv2.LINE_AA)


def degrees(value: float) -> str:
    return f"{round(float(value), 1) + 0.0:+.1f}" if np.isfinite(value) else "?"
