"""Clip specifications of the field in short: "81@16/480p" is 81 frames at 16 a second, 832x480."""

from __future__ import annotations

import re
from typing import Any

SIZES = {"480p": (832, 480), "720p": (1280, 720)}
LATENT_STRIDE = 4


def clip_spec(text: str) -> dict[str, Any]:
    """The parameters that a specification stands for: num_frames, fps, latent_stride and, where named, the size.

    Lengths are 4 (L - 1) + 1 for L latents, as WorldPlay2, HY-WorldPlay and Wan take them: 77, 81, 121.

    Raises:
        ValueError: it is not FRAMES@FPS or FRAMES@FPS/SIZE, or no such length or size.
    """
    match = re.fullmatch(r"(\d{1,5})@(\d{1,3}(?:\.\d+)?)(?:/(\w+))?", text)
    if match is None or (match[3] and match[3] not in SIZES):
        raise ValueError(f"clip spec {text!r} is not FRAMES@FPS or FRAMES@FPS/SIZE with SIZE in {', '.join(SIZES)}")
    num_frames, fps = int(match[1]), float(match[2])
    if num_frames % LATENT_STRIDE != 1 or not fps:
        raise ValueError(f"clip spec {text!r}: {num_frames} frames are not 4 (L - 1) + 1; 77, 81 and 121 are")
    width, height = SIZES.get(match[3], (None, None))
    size = {"width": width, "height": height} if width else {}
    return {"num_frames": num_frames, "fps": fps, "latent_stride": LATENT_STRIDE, **size}
