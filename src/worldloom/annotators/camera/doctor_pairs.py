"""What the doctor asks of the pixels: places of the same points in pairs of pictures, whatever the poses say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import cv2
import numpy as np

from worldloom.annotators.camera.doctor_files import natural, seconds
from worldloom.annotators.camera.overlay import usable_mask
from worldloom.annotators.camera.tracks import follow
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.video.read import iter_frames
from worldloom.schemas import DataError

WIDTH_PX = 320
PICTURES = (".jpg", ".jpeg", ".png", ".pgm", ".ppm", ".bmp", ".tif", ".tiff", ".webp")
_MOST_PAIRS, _LONGEST_GAP_S, _WANTED_TURN_DEG = 32, 0.6, 4.0
LEAST_FLOW_PX, _LEAST_TRACKS, _LEAST_PAIRS = 1.5, 30, 4
_STILLS_PX, _MOST_MATCHED, _DISTINCT, _OUTLIER_PX = 640, 120, 0.75, 1.5


@dataclass(frozen=True)
class Pair:
    """Places (N, 2) of the same points in frames `first` and `second`, in pixels of a picture 320 wide."""
    first: int
    second: int
    p_N2: np.ndarray
    q_N2: np.ndarray


@dataclass(frozen=True)
class Pictures:
    """Gray pictures of one size with their place in the video; stills stand in no order of time."""
    gray: list[np.ndarray]
    indices: np.ndarray
    times_s: np.ndarray
    names: list[str]
    are_stills: bool
    count: int | None          # of all pictures, where the last one was reached

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width) in pixels of a picture 320 wide."""
        height, width = self.gray[0].shape
        return round(height * WIDTH_PX / width), WIDTH_PX

    def only(self, chosen: np.ndarray) -> Pictures:
        """The pictures at these places."""
        return Pictures([self.gray[i] for i in chosen], self.indices[chosen], self.times_s[chosen],
                        [self.names[i] for i in chosen] if self.names else [], self.are_stills, self.count)


def read_pictures(video: Path, start_s: float, seconds: float) -> Pictures:
    """Frames of a video from `start_s` on, for `seconds`; or all pictures of a folder, in the order of their numbers.

    Raises:
        DataError: fewer than 2 pictures, or pictures of several sizes.
    """
    found = _read_folder(video) if video.is_dir() else _read_video(video, start_s, seconds)
    if len(found.gray) < 2:
        raise DataError(f"{video.name}: {len(found.gray)} pictures from {start_s:g} s on; 2 are wanted at least")
    if len({gray.shape for gray in found.gray}) > 1:
        raise DataError(f"{video.name} holds pictures of several sizes; one camera is wanted")
    return found


def _read_video(video: Path, start_s: float, seconds: float) -> Pictures:
    gray, indices, times, first_s, count = [], [], [], None, None
    for frame in iter_frames(video, width=WIDTH_PX, gray=True):
        first_s = frame.time_s if first_s is None else first_s
        if frame.time_s - first_s >= start_s + seconds:
            break
        if frame.time_s - first_s >= start_s:
            gray.append(frame.rgb_HWC)
            indices.append(frame.index)
            times.append(frame.time_s)
    else:
        count = frame.index + 1
    return Pictures(gray, np.array(indices, int), np.array(times), [], False, count)


def _read_folder(folder: Path) -> Pictures:
    files = natural(path for path in folder.iterdir() if path.suffix.lower() in PICTURES)
    gray = [_small(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE), path) for path in files]
    names = [path.stem for path in files]
    stamped = bool(names) and all(name.isdigit() and len(name) > 12 for name in names)      # EuRoC: nanoseconds
    times = seconds(np.array(names, float)) if stamped else np.arange(len(files), dtype=float)
    return Pictures(gray, np.arange(len(files)), times, names, True, len(files))


def _small(gray_HW: np.ndarray | None, path: Path) -> np.ndarray:
    if gray_HW is None:
        raise DataError(f"picture {path.name} cannot be decoded")
    height = round(gray_HW.shape[0] * _STILLS_PX / gray_HW.shape[1])
    return cv2.resize(gray_HW, (_STILLS_PX, height), interpolation=cv2.INTER_AREA)


def choose_pairs(pictures: Pictures, world_from_cam_T44: np.ndarray) -> list[Pair]:
    """Pairs that turn a few degrees, or stand far apart; the angle turned is the same under every hypothesis.

    Pairs without motion are kept where nothing else is there: they tell a standing camera from a turning one.

    Raises:
        DataError: too few pairs of pictures show the same points.
    """
    if pictures.are_stills:
        pairs = _match_stills(pictures.gray)
    else:
        pairs = _follow_video(pictures, world_from_cam_T44)
    if len(pairs) < min(_LEAST_PAIRS, len(pictures.gray) - 1):
        raise DataError(f"{len(pairs)} pairs of pictures show the same points; {_LEAST_PAIRS} are wanted")
    moving = [pair for pair in pairs if flow_px(pair) >= LEAST_FLOW_PX]
    return moving if len(moving) >= _LEAST_PAIRS else pairs


def flow_px(pair: Pair) -> float:
    """Median motion of the points."""
    return float(np.median(np.linalg.norm(pair.q_N2 - pair.p_N2, axis=1)))


def _follow_video(pictures: Pictures, pose_T44: np.ndarray) -> list[Pair]:
    """Corners followed over short gaps, off the static overlay."""
    gray, pairs = pictures.gray, []
    step_s = float(np.median(np.diff(pictures.times_s)))
    mask = usable_mask(np.stack(gray), fps=1 / step_s)
    longest = int(np.clip(round(_LONGEST_GAP_S / step_s), 1, 15))
    for first in np.unique(np.linspace(0, len(gray) - 2, _MOST_PAIRS).astype(int)):
        for second in _partners(int(first), pose_T44, longest):
            p, q = follow(gray[first], gray[second], mask)
            if len(p) >= _LEAST_TRACKS:
                pairs.append(Pair(int(first), second, p, q))
                break
    return pairs


def _partners(first: int, pose_T44: np.ndarray, longest: int) -> Iterator[int]:
    """Frames to pair with, the widest gap first."""
    last = min(first + longest, len(pose_T44) - 1)
    relative = np.swapaxes(pose_T44[first + 1:last + 1, :3, :3], 1, 2) @ pose_T44[first, :3, :3]
    turn_deg = np.degrees(np.linalg.norm(P.so3_log(relative), axis=1))
    gap = int(np.argmax(turn_deg >= _WANTED_TURN_DEG)) + 1 if (turn_deg >= _WANTED_TURN_DEG).any() else len(turn_deg)
    while gap:
        yield first + gap
        gap //= 2


def _match_stills(gray: list[np.ndarray]) -> list[Pair]:
    """SIFT matches between pictures in any order, those that one epipolar geometry explains; the best pairs."""
    sift = cv2.SIFT_create(1500)
    found: dict[int, tuple] = {}
    scale = WIDTH_PX / gray[0].shape[1]
    pairs = []
    for first, second in _still_pairs(len(gray)):
        for i in {first, second} - found.keys():
            found[i] = sift.detectAndCompute(gray[i], None)
        p, q = _matches(found[first], found[second])
        if len(p) >= _LEAST_TRACKS:
            pairs.append(Pair(first, second, (p + 0.5) * scale - 0.5, (q + 0.5) * scale - 0.5))
    return sorted(pairs, key=lambda pair: -len(pair.p_N2))[:_MOST_PAIRS]


def _still_pairs(count: int) -> list[tuple[int, int]]:
    """Every pair of a few pictures; of many, pairs of nearer and farther neighbours, evenly."""
    every = list(combinations(range(count), 2))
    if len(every) > _MOST_MATCHED:
        every = [(i, i + gap) for i in range(count) for gap in (1, 2, 4, 8, 16) if i + gap < count]
        every = [every[i] for i in np.unique(np.linspace(0, len(every) - 1, _MOST_MATCHED).astype(int))]
    return every


def _matches(a: tuple, b: tuple) -> tuple[np.ndarray, np.ndarray]:
    none = np.zeros((0, 2))
    if min(len(a[0]), len(b[0])) < _LEAST_TRACKS:
        return none, none
    best = [m for m, other in cv2.BFMatcher().knnMatch(a[1], b[1], k=2) if m.distance < _DISTINCT * other.distance]
    p = np.array([a[0][m.queryIdx].pt for m in best], float).reshape(-1, 2)
    q = np.array([b[0][m.trainIdx].pt for m in best], float).reshape(-1, 2)
    if len(p) < _LEAST_TRACKS:
        return none, none
    _, inlier = cv2.findFundamentalMat(p, q, cv2.USAC_MAGSAC, _OUTLIER_PX, 0.999, 2000)
    keep = np.zeros(len(p), bool) if inlier is None else inlier.ravel() > 0
    return p[keep], q[keep]
