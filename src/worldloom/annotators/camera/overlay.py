"""Parts of the picture that stay while the rest moves: status bars, weapons, watermarks."""

from __future__ import annotations

import cv2
import numpy as np

MIN_MOVING_PAIRS = 8
_CHANGED, _LEAST_CHANGED = 12, 4      # gray levels in which a moving scene differs, and in a dark or foggy one


def usable_mask(gray_THW: np.ndarray, *, fps: float) -> np.ndarray:
    """uint8 (H, W), 255 where the scene shows and 0 on static overlays; all 255 when the camera hardly moves.

    A pixel is overlay when it keeps its value over pairs 0.17 s apart in which a quarter of the picture changes,
    and has texture (flat walls also keep their value, which says nothing).
    """
    changed = _changed_level(gray_THW, max(1, round(fps)))
    count, gap = len(gray_THW), max(1, round(fps * 6 / 35))
    same_HW = np.zeros(gray_THW.shape[1:], np.float32)
    pairs = 0
    for i in range(0, count - gap, max(1, count // 150)):
        change_HW = cv2.absdiff(gray_THW[i], gray_THW[i + gap])
        if np.count_nonzero(change_HW > changed) >= 0.25 * change_HW.size:
            same_HW += change_HW <= changed // 2
            pairs += 1
    if pairs < MIN_MOVING_PAIRS:
        return np.full(same_HW.shape, 255, np.uint8)
    return _clean(same_HW / pairs, np.median(gray_THW[:: max(1, count // 40)], 0).astype(np.float32))


def _changed_level(gray_THW: np.ndarray, gap: int) -> int:
    """Gray levels that tell a change from noise: half of what a quarter of the pixels differ by after a second."""
    small_THW = gray_THW[:: max(1, gap // 2), ::8, ::8].astype(np.int16)
    if len(small_THW) < 3:
        return _CHANGED
    return int(np.clip(np.percentile(np.abs(small_THW[2:] - small_THW[:-2]), 75) / 2, _LEAST_CHANGED, _CHANGED))


def _clean(same_share_HW: np.ndarray, typical_HW: np.ndarray) -> np.ndarray:
    texture_HW = cv2.blur(np.abs(cv2.Laplacian(typical_HW, cv2.CV_32F)), (9, 9))
    overlay = ((cv2.blur(same_share_HW, (7, 7)) > 0.62) & (texture_HW > 4)).astype(np.uint8)
    overlay = cv2.morphologyEx(overlay, cv2.MORPH_CLOSE, np.ones((15, 15), np.uint8))
    overlay = cv2.morphologyEx(overlay, cv2.MORPH_OPEN, np.ones((7, 7), np.uint8))
    return np.where(cv2.dilate(overlay, np.ones((9, 9), np.uint8)) == 0, 255, 0).astype(np.uint8)
