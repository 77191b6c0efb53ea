"""Numbers measured on the pictures of one clip, in one pass over small frames.

Grey levels are 0 to 255. A step is the change from frame t-1 to t; it is told by the later frame. Nothing here decides
what is good: black, frozen and normal clips differ in `black_share`, `static_share` and `luma_mean`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import cv2
import numpy as np

SMALL_WIDTH_PX = 160
"""Width at which everything is measured; `blur` is comparable between clips because it is the same for all."""

WORST = 8
UNITS = {
    "blur": "grey^2", "luma_mean": "grey", "clipped_share": "", "static_share": "", "duplicate_share": "",
    "cut_score": "", "flow_px": "px", "black_share": "", "saturation_mean": "", "colour_entropy": "bit",
    "letterbox_share": "",
}
"""Every score and its unit."""

STATIC_GREY = 0.5       # mean absolute difference of a step below this is no visible change
DUPLICATE_GREY = 3      # largest difference anywhere between a frame and its repetition after coding
BLACK_MEAN_GREY = 20    # video black is 0 after conversion; dark game corridors lie above
BLACK_PEAK_GREY = 48    # 99 of 100 pixels of a black frame lie below
BAR_GREY = 20           # brightest level that a letterbox bar ever shows
TEXTURE_GREY = 6        # second difference that marks a pixel whose motion can be seen
MIN_TEXTURE_SHARE = 0.01
CHANGE_TO_MATCH = 0.15  # smaller changes are no cut and are not matched
COARSE_PX = (80, 60)    # width and height at which patches are matched
PATCH_PX = (28, 20)
PATCH_CORNERS = ((4, 6), (48, 6), (4, 34), (48, 34), (26, 20))      # x, y: four quarters and the middle
SAME_PLACE = (0.62, 0.72)   # correlation of the two best patches: real cuts lie below, flashes and turns above


@dataclass(frozen=True, slots=True)
class Measure:
    """One score of a clip: value None where it cannot be measured, frames where it is worst, worst first."""
    name: str
    value: float | None
    unit: str
    frames: list[int]


@dataclass
class _Tracks:
    """What the pass collects: a value per frame or step, and pictures folded over time."""
    still_frames: list[int] = field(default_factory=list)
    blur: list[float] = field(default_factory=list)
    luma: list[float] = field(default_factory=list)
    clipped: list[float] = field(default_factory=list)
    black: list[bool] = field(default_factory=list)
    saturation: list[float] = field(default_factory=list)
    difference: list[float] = field(default_factory=list)
    peak_difference: list[float] = field(default_factory=list)
    change: list[float] = field(default_factory=list)
    flow: list[float] = field(default_factory=list)
    flow_frames: list[int] = field(default_factory=list)
    histogram: np.ndarray = field(default_factory=lambda: np.zeros(64))
    brightest_HW: np.ndarray | None = None


def measure(frames: Iterable[np.ndarray], *, width: int, stride: int = 1) -> list[Measure]:
    """All scores of a clip, in the order of `UNITS`.

    Args:
        frames: every frame in order, (H, W, 3) uint8 RGB at about `SMALL_WIDTH_PX` wide.
        width: width of the canonical clip; flow is given in its pixels per frame.
        stride: blur, colour and flow are measured on every stride-th frame; differences and cuts on all.
    """
    tracks, flow = _Tracks(), cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)
    previous = None
    for index, rgb_HWC in enumerate(frames):
        gray_HW = cv2.cvtColor(rgb_HWC, cv2.COLOR_RGB2GRAY)
        histogram = _colour_histogram(rgb_HWC)
        look = index % stride == 0
        texture_HW = _add_still(tracks, index, rgb_HWC, gray_HW, histogram) if look else None
        if previous is not None:
            _add_step(tracks, gray_HW, histogram, *previous)
            if look or stride == 1:
                moved = _step_flow(flow, previous[0], gray_HW, texture_HW)
                tracks.flow.append(moved * width / gray_HW.shape[1])
                tracks.flow_frames.append(index)
        previous = gray_HW, histogram
    return _summarise(tracks)


def _colour_histogram(rgb_HWC: np.ndarray) -> np.ndarray:
    """Share of pixels in each of 4 x 4 x 4 colours, on a quarter of the pixels."""
    bins = rgb_HWC[::2, ::2].astype(np.int32) >> 6
    codes = (bins[..., 0] << 4) | (bins[..., 1] << 2) | bins[..., 2]
    return np.bincount(codes.ravel(), minlength=64) / codes.size


def _add_still(tracks: _Tracks, index: int, rgb_HWC: np.ndarray, gray_HW: np.ndarray,
               histogram: np.ndarray) -> np.ndarray:
    """Adds the measures of one picture; the mask of pixels with texture comes back."""
    laplacian_HW = cv2.Laplacian(gray_HW, cv2.CV_16S)
    mean, deviation = cv2.meanStdDev(laplacian_HW)
    levels = cv2.calcHist([gray_HW], [0], None, [256], [0, 256]).ravel() / gray_HW.size
    luma = float(levels @ np.arange(256))
    tracks.still_frames.append(index)
    tracks.blur.append(float(deviation[0, 0]) ** 2)
    tracks.luma.append(luma)
    tracks.clipped.append(float(levels[:6].sum() + levels[250:].sum()))
    tracks.black.append(luma < BLACK_MEAN_GREY and levels[BLACK_PEAK_GREY:].sum() < 0.01)
    tracks.saturation.append(_saturation(rgb_HWC[::2, ::2]))
    tracks.histogram += histogram
    if tracks.brightest_HW is None:
        tracks.brightest_HW = gray_HW.copy()
    else:
        cv2.max(tracks.brightest_HW, gray_HW, dst=tracks.brightest_HW)
    return np.abs(laplacian_HW) > TEXTURE_GREY


def _saturation(rgb_HWC: np.ndarray) -> float:
    """Mean HSV saturation, 0 to 1."""
    hsv_HWC = cv2.cvtColor(np.ascontiguousarray(rgb_HWC), cv2.COLOR_RGB2HSV)
    return float(cv2.mean(hsv_HWC)[1] / 255)


def _add_step(tracks: _Tracks, gray_HW: np.ndarray, histogram: np.ndarray, before_HW: np.ndarray,
              before_histogram: np.ndarray) -> None:
    difference_HW = cv2.absdiff(gray_HW, before_HW)
    tracks.difference.append(float(cv2.mean(difference_HW)[0]))
    tracks.peak_difference.append(float(cv2.minMaxLoc(difference_HW)[1]))
    moved_colours = float(np.abs(histogram - before_histogram).sum()) / 2
    change = float(np.sqrt(moved_colours * _decorrelation(gray_HW, before_HW)))
    tracks.change.append(change if change < CHANGE_TO_MATCH else change * _elsewhere(gray_HW, before_HW))


def _decorrelation(gray_HW: np.ndarray, before_HW: np.ndarray) -> float:
    """0 where the coarse structure of two pictures agrees, 1 where it has nothing in common."""
    small, before = (cv2.resize(g, (20, 15), interpolation=cv2.INTER_AREA).astype(np.float32)
                     for g in (gray_HW, before_HW))
    small -= small.mean()
    before -= before.mean()
    scale = float(np.sqrt((small**2).sum() * (before**2).sum()))
    if scale < small.size:      # one of them is flat: only the colours can tell
        return 1.0
    return float(np.clip(1 - (small * before).sum() / scale, 0, 1))


def _elsewhere(gray_HW: np.ndarray, before_HW: np.ndarray) -> float:
    """0 where patches of a picture are found again in the one before, 1 where they are not.

    Normalised correlation over all shifts, so a flash of light, an explosion or a fast turn is no cut. Two patches
    must be found: a picture of which half stays the same counts as the same place.
    """
    now, before = (cv2.resize(g, COARSE_PX, interpolation=cv2.INTER_AREA) for g in (gray_HW, before_HW))
    patches = [now[y:y + PATCH_PX[1], x:x + PATCH_PX[0]] for x, y in PATCH_CORNERS]
    found = sorted(float(cv2.matchTemplate(before, patch, cv2.TM_CCOEFF_NORMED).max())
                   for patch in patches if patch.std() > 2)
    low, high = SAME_PLACE
    return float(np.clip((high - np.mean(found[-2:])) / (high - low), 0, 1)) if found else 1.0


def _step_flow(flow: cv2.DISOpticalFlow, before_HW: np.ndarray, gray_HW: np.ndarray, texture_HW: np.ndarray) -> float:
    """Median motion of the textured pixels in small pixels; NaN where too few have texture."""
    if texture_HW.mean() < MIN_TEXTURE_SHARE:
        return float("nan")
    motion_HW2 = flow.calc(before_HW, gray_HW, None)[texture_HW]
    return float(np.median(np.hypot(motion_HW2[:, 0], motion_HW2[:, 1])))


def _summarise(tracks: _Tracks) -> list[Measure]:
    if not tracks.still_frames:
        return [Measure(name, None, unit, []) for name, unit in UNITS.items()]
    still, steps = np.array(tracks.still_frames), np.arange(1, len(tracks.difference) + 1)
    difference, cut = np.array(tracks.difference), _isolated(np.array(tracks.change))
    is_static, is_same = difference < STATIC_GREY, np.array(tracks.peak_difference) <= DUPLICATE_GREY
    flow_px = np.array(tracks.flow)
    parts = {
        "blur": (np.median(tracks.blur), _worst(still, np.negative(tracks.blur))),
        "luma_mean": (np.mean(tracks.luma), _worst(still, np.negative(tracks.luma))),
        "clipped_share": (np.mean(tracks.clipped), _worst(still, np.array(tracks.clipped), above=0)),
        "static_share": (_mean(is_static), _worst(steps, is_static - difference / 256, above=0.5)),
        "duplicate_share": (_mean(is_same, len(steps) + 1), _worst(steps, is_same.astype(float), above=0)),
        "cut_score": (cut.max() if len(cut) else None, _worst(steps, cut, above=0.2)),
        "flow_px": (_median(flow_px), _worst(np.array(tracks.flow_frames, int), -flow_px)),
        "black_share": (np.mean(tracks.black), _worst(still, np.array(tracks.black, float), above=0)),
        "saturation_mean": (np.mean(tracks.saturation), []),
        "colour_entropy": (_entropy_bits(tracks.histogram), []),
        "letterbox_share": (_letterbox_share(tracks.brightest_HW), []),
    }
    return [Measure(name, None if parts[name][0] is None else float(parts[name][0]), unit, parts[name][1])
            for name, unit in UNITS.items()]


def _worst(frames: np.ndarray, badness: np.ndarray, above: float = -np.inf) -> list[int]:
    """At most `WORST` frames of greatest badness, worst first; equal ones in order of time."""
    order = np.argsort(-badness, kind="stable")
    return [int(frames[i]) for i in order if badness[i] > above][:WORST]


def _mean(values: np.ndarray, count: int | None = None) -> float | None:
    return float(values.sum() / (count or len(values))) if len(values) else None


def _median(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None


def _isolated(change: np.ndarray) -> np.ndarray:
    """Change of each step beyond the median of the steps around it: a cut stands alone, a fast turn does not."""
    padded = np.pad(change, 2, mode="reflect") if len(change) > 2 else np.pad(change, 2)
    around = np.stack([padded[i:i + len(change)] for i in (0, 1, 3, 4)])
    return np.clip(change - np.median(around, axis=0), 0, 1)


def _entropy_bits(histogram: np.ndarray) -> float:
    share = histogram[histogram > 0] / histogram.sum()
    return float(max(0.0, -(share * np.log2(share)).sum()))


def _letterbox_share(brightest_HW: np.ndarray) -> float:
    """Share of the picture in bars along its edges that are never lit; 1 for a picture that is black throughout."""
    is_lit_HW = brightest_HW > BAR_GREY
    rows, columns = (np.flatnonzero(is_lit_HW.mean(axis=axis) > 0.02) for axis in (1, 0))
    if not len(rows) or not len(columns):
        return 1.0
    inside = (rows[-1] - rows[0] + 1) * (columns[-1] - columns[0] + 1)
    return float(1 - inside / is_lit_HW.size)
