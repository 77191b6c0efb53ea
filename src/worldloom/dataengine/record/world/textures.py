"""Textures from noise and simple shapes: RGBA pictures that tile, with detail at every scale to track."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

SIDE = 256
ROWS, COLUMNS = np.mgrid[:SIDE, :SIDE]
Colour = Sequence[float] | np.ndarray


def make_textures(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Pictures (256, 256, 4) uint8 by material; colours and patterns depend on the generator."""
    return {
        **_masonry(rng), **_wood(rng), **_ground(rng), **_leaves(rng), **_pictures(rng),
        "plaster": shaded((205, 195, 178), 0.10 * noise(rng, 1.5) + 0.10 * noise(rng, 0.6)),
        "metal": shaded((150, 152, 158), 0.12 * noise(rng, 1.0, stretch=(4, 0.4)) - 0.4 * _grid(128, 3)),
        "window": _window(rng),
        "cloth": shaded((200, 200, 200), 0.10 * noise(rng, 0.5) + 0.06 * ((COLUMNS // 4 + ROWS // 4) % 2)),
        "white": shaded((235, 235, 235), 0.04 * noise(rng, 0.8)),
        "cloud": shaded((128, 128, 128), noise(rng, 1.5)),
    }


def noise(rng: np.random.Generator, slope: float, stretch: tuple[float, float] = (1.0, 1.0),
          side: int = SIDE) -> np.ndarray:
    """Tiling noise (side, side) in [-1, 1] with spectrum 1 / frequency^slope; `stretch` slows x and y."""
    frequency = np.hypot(np.fft.fftfreq(side)[:, None] * stretch[1], np.fft.fftfreq(side)[None] * stretch[0])
    frequency[0, 0] = np.inf
    field = np.fft.ifft2(np.fft.fft2(rng.normal(size=(side, side))) / frequency**slope).real
    field -= field.mean()
    return np.clip(field / (2.2 * field.std()), -1, 1)


def shaded(colour: Colour, shade_HW: np.ndarray) -> np.ndarray:
    """A colour made lighter and darker by a share of itself; opaque."""
    rgb = np.clip(np.asarray(colour, float) * (1 + shade_HW[..., None]), 0, 255)
    return np.dstack([rgb, np.full(shade_HW.shape, 255.0)]).astype(np.uint8)


def _grid(spacing: int, width: int) -> np.ndarray:
    return (COLUMNS % spacing < width) | (ROWS % spacing < width)


def _masonry(rng: np.random.Generator) -> dict[str, np.ndarray]:
    red = rng.uniform([120, 50, 35], [170, 90, 60])
    grey = rng.uniform([105, 100, 90], [140, 135, 125])
    floor = shaded((1, 1, 1), np.zeros((SIDE, SIDE)))
    light, dark = rng.uniform(60, 215, (2, 3))
    pattern = np.where(((COLUMNS // 64 + ROWS // 64) % 2)[..., None] == 1, light, dark)
    floor[..., :3] = np.clip(pattern * (1 + 0.10 * noise(rng, 1.0))[..., None]
                             * np.where(_grid(64, 2), 0.5, 1)[..., None], 0, 255)
    panels = 0.12 * noise(rng, 1.3) + 0.09 * noise(rng, 0.4) - 0.3 * _grid(128, 2)
    return {"brick": _bricks(rng, 32, 16, red, (150, 145, 135), 0.16),
            "stone": _bricks(rng, 64, 32, grey, (70, 68, 64), 0.12),
            "tiles": floor, "concrete": shaded((128, 126, 122), panels), "roof": _roof(rng)}


def _bricks(rng: np.random.Generator, width: int, height: int, colour: Colour, mortar: Colour,
            spread: float) -> np.ndarray:
    row = ROWS // height
    along = (COLUMNS + (row % 2) * width // 2) % SIDE
    brick = row * 64 + along // width
    picture = shaded(colour, rng.normal(0, spread, 8192)[brick] + 0.15 * noise(rng, 1.2))
    joint = (ROWS % height < 3) | (along % width < 3)
    picture[joint] = shaded(mortar, 0.12 * noise(rng, 1.0))[joint]
    return picture


def _roof(rng: np.random.Generator) -> np.ndarray:
    row = ROWS // 24
    along = COLUMNS + (row % 2) * 16
    shade = rng.normal(0, 0.12, 8192)[row * 64 + along // 32] + 0.2 - 0.45 * (ROWS % 24) / 24
    return shaded(rng.choice([[150, 70, 48], [80, 84, 96], [110, 88, 60]]), shade - 0.25 * (along % 32 < 2))


def _wood(rng: np.random.Generator) -> dict[str, np.ndarray]:
    planks = {name: shaded(colour, rng.normal(0, 0.12, 8)[COLUMNS // 32] + 0.2 * noise(rng, 1.4, (0.35, 6))
                           - 0.55 * (COLUMNS % 32 < 2))
              for name, colour in (("planks", (140, 95, 55)), ("dark", (85, 58, 38)))}
    return {**planks, "bark": shaded((92, 70, 50), 0.4 * noise(rng, 1.2, (0.4, 4)))}


def _ground(rng: np.random.Generator) -> dict[str, np.ndarray]:
    stone, edge = _cells(rng, 70)
    slab, crack = _cells(rng, 24)
    grass = shaded((78, 112, 48), 0.3 * noise(rng, 0.7, (2, 0.7)) + 0.2 * noise(rng, 1.8) + 0.2 * noise(rng, 0.3))
    grass[..., 0] = np.clip(grass[..., 0] * (1 + 0.25 * noise(rng, 1.6)), 0, 255)
    return {
        "cobble": shaded((125, 118, 108), rng.normal(0, 0.14, 70)[stone] + 0.15 * noise(rng, 1.1)
                         - 0.6 * np.exp(-edge / 2.5)),
        "rock": shaded((115, 110, 102), rng.normal(0, 0.1, 24)[slab] + 0.28 * noise(rng, 1.4)
                       - 0.3 * np.exp(-crack / 2)),
        "grass": grass, "dirt": shaded((112, 86, 58), 0.22 * noise(rng, 1.2) + 0.14 * noise(rng, 0.3))}


def _cells(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nearest of `count` random points for each pixel, and how much farther the second nearest is."""
    cell = np.zeros((SIDE, SIDE), int)
    first, second = np.full((SIDE, SIDE), np.inf), np.full((SIDE, SIDE), np.inf)
    for i, (x, y) in enumerate(rng.random((count, 2)) * SIDE):
        across, down = np.abs(np.arange(SIDE) - x), np.abs(np.arange(SIDE) - y)
        away = np.hypot(np.minimum(across, SIDE - across)[None], np.minimum(down, SIDE - down)[:, None])
        is_nearest = away < first
        second = np.where(is_nearest, first, np.minimum(second, away))
        first, cell = np.minimum(first, away), np.where(is_nearest, i, cell)
    return cell, second - first


def _leaves(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Leaves on nothing: alpha is 0 between them."""
    return {name: _foliage(rng, np.array(colour)) for name, colour in
            (("leaf_green", (60, 105, 40)), ("leaf_yellow", (120, 110, 40)))}


def _foliage(rng: np.random.Generator, colour: np.ndarray) -> np.ndarray:
    picture = np.zeros((SIDE, SIDE, 4), np.uint8)
    picture[..., :3] = colour * 0.6
    for _ in range(520):
        centre, size = rng.integers(0, SIDE, 2), (int(rng.integers(7, 15)), int(rng.integers(3, 6)))
        shade = [int(min(255, value)) for value in colour * rng.uniform(0.6, 1.35)]
        cv2.ellipse(picture, _point(centre), size, float(rng.uniform(0, 180)), 0, 360, [*shade, 255], -1)
    return picture


def _pictures(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {f"picture{i}": _painting(rng) for i in range(3)}


def _painting(rng: np.random.Generator) -> np.ndarray:
    canvas = cv2.resize(rng.uniform(30, 235, (4, 4, 3)).astype(np.uint8), (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
    for _ in range(14):
        cv2.ellipse(canvas, _point(rng.integers(0, SIDE, 2)), _point(rng.integers(10, 70, 2)),
                    float(rng.uniform(0, 180)), 0, 360, [int(v) for v in rng.uniform(20, 245, 3)], -1)
    inside = (np.minimum(ROWS, SIDE - 1 - ROWS) >= 10) & (np.minimum(COLUMNS, SIDE - 1 - COLUMNS) >= 10)
    canvas[~inside] = (70, 48, 25)
    return np.dstack([canvas, np.full((SIDE, SIDE), 255, np.uint8)])


def _window(rng: np.random.Generator) -> np.ndarray:
    picture = shaded((70, 85, 100), 0.25 * noise(rng, 1.8) + 0.06 * noise(rng, 0.5))
    frame = _grid(128, 9) | (COLUMNS % 128 > 118) | (ROWS % 128 > 118)
    picture[frame] = (225, 220, 210, 255)
    return picture


def _point(pair: np.ndarray) -> tuple[int, int]:
    return int(pair[0]), int(pair[1])
