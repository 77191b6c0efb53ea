"""How the displayed picture becomes the canonical one: bars off, scale to cover, crop in the middle, to even sides."""

from __future__ import annotations

from dataclasses import dataclass

from worldloom.schemas import DataError


@dataclass(frozen=True)
class Framing:
    """Scale the display to `scaled` (width, height), then cut `width` x `height` at (`left`, `top`).

    The display begins at `origin` of the displayed source picture: not (0, 0) where black bars were cut off before.
    """
    scaled_width: int
    scaled_height: int
    width: int
    height: int
    left: int
    top: int
    scale_x: float
    scale_y: float
    origin_x_px: float = 0.0
    origin_y_px: float = 0.0

    @property
    def is_whole(self) -> bool:
        """Nothing is cut off."""
        return (self.scaled_width, self.scaled_height) == (self.width, self.height)

    @property
    def crop_x_px(self) -> float:
        """Left of the crop in displayed source pixels."""
        return self.origin_x_px + self.left / self.scale_x

    @property
    def crop_y_px(self) -> float:
        """Top of the crop in displayed source pixels."""
        return self.origin_y_px + self.top / self.scale_y


def _even(value: float) -> int:
    return max(2, 2 * int(value / 2 + 0.5))


def framing(display: tuple[int, int], width: int | None, height: int | None) -> Framing:
    """Framing of a displayed (width, height) for a wanted size.

    Neither side wanted: no scaling, and an odd last column or row is cut. One: the other keeps the aspect, to the
    nearest even number, with a scale for each axis. Both: the picture covers the frame and the rest is cut.

    Raises:
        DataError: the display is under 2 pixels wide or high.
    """
    shown_w, shown_h = display
    if shown_w < 2 or shown_h < 2:
        raise DataError(f"picture of {shown_w}x{shown_h} is too small for a clip; at least 2x2 is wanted")
    if width is None and height is None:
        return Framing(shown_w, shown_h, shown_w // 2 * 2, shown_h // 2 * 2, 0, 0, 1.0, 1.0)
    if width is None or height is None:
        out_w = width or _even(shown_w * (height or 0) / shown_h)
        out_h = height or _even(shown_h * (width or 0) / shown_w)
        return Framing(out_w, out_h, out_w, out_h, 0, 0, out_w / shown_w, out_h / shown_h)
    scale = max(width / shown_w, height / shown_h)
    scaled_w, scaled_h = max(width, round(shown_w * scale)), max(height, round(shown_h * scale))
    left, top = (scaled_w - width) // 4 * 2, (scaled_h - height) // 4 * 2      # even, as chroma has half the samples
    return Framing(scaled_w, scaled_h, width, height, left, top, scaled_w / shown_w, scaled_h / shown_h)
