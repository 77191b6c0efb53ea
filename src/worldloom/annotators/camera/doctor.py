"""Which convention of a pose file fits the pixels: every hypothesis predicts the motion of tracked corners.

Only the camera's motion from frame to frame is seen by pixels, so the world's own axes and origin are never judged.
A hypothesis says where a corner may go: from its place at infinite depth towards the epipole, as far as depth is
positive. Its error in a pair of frames is the median distance of the tracked corners from that half-line. It holds
rotation (the start), the epipolar line (across) and the sign of translation (along) in one number of pixels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from worldloom.dataengine.geometry import conventions as C
from worldloom.dataengine.geometry import poses as P
from worldloom.schemas import DataError

TRIED_HFOV_DEG = (50.0, 60.0, 70.0, 80.0, 90.0)
WIDTH_PX = 320
_MOST_FRAMES, _MOST_PAIRS, _LONGEST_GAP = 900, 32, 15
_WANTED_TURN_DEG, _LEAST_FLOW_PX, _LEAST_TRACKS, _LEAST_PAIRS = 4.0, 1.5, 30, 4
_FLOOR_PX, _RATIO, _SURE, _DRAWS = 0.2, 1.5, 0.95, 500
_GOOD_PX, _GOOD_SHARE_OF_FLOW = 0.75, 0.12
_SAME_DEG = 0.05


@dataclass(frozen=True)
class PoseFile:
    """Numbers as they stand in the file: (N, 16) or (N, 7), with what the file says of them."""
    rows: np.ndarray
    convention: str | None = None
    camera: dict | None = None
    times_s: np.ndarray | None = None


@dataclass(frozen=True)
class Pair:
    """Tracked corners (N, 2) in frames `first` and `second`, in working pixels."""
    first: int
    second: int
    p_N2: np.ndarray
    q_N2: np.ndarray


@dataclass
class Hypothesis:
    """One convention's account; pixels are of a picture 320 wide, medians are over the pairs."""
    convention: str
    error_px: float
    epipolar_px: float             # distance from the whole epipolar line
    forward_share: float           # of corners with parallax: depth positive in both frames
    hfov_deg: float
    error_pairs_px: np.ndarray = field(repr=False)
    verdict: str = "no"            # holds, tied, no
    same_motion: bool = False      # predicts the best one's motion itself, so no pixel can tell them apart


@dataclass(frozen=True)
class Diagnosis:
    """Verdict is `holds`, `cannot be told apart` or `none holds`; candidates are what is left, best first."""
    verdict: str
    candidates: list[str]
    confidence: float              # share of resamples in which the verdict stands, lowered by a small margin
    margin: float                  # error of the best rejected hypothesis over that of the best
    declared: str | None
    pairs: int
    flow_px: float
    intrinsics: str
    hypotheses: list[Hypothesis]

    def as_json(self) -> dict:
        facts = asdict(self)
        for row in facts["hypotheses"]:
            del row["error_pairs_px"]
        return facts


# ---------------------------------------------------------------- reading


def read_pose_file(path: Path) -> PoseFile:
    """Poses of a VIDEO.poses.json, a .npy (N, 4, 4), a text of 12 or 16 numbers a row, or a folder of 4x4 texts.

    Raises:
        DataError: it is missing, broken, or of another shape.
    """
    if not path.exists():
        raise DataError(f"pose file {path.name} is missing")
    try:
        if path.is_dir():
            files = sorted((f for f in path.iterdir() if f.suffix == ".txt"), key=_natural)
            return PoseFile(_rows(np.array([np.loadtxt(f).ravel() for f in files]), path))
        if path.suffix == ".json":
            return _read_json(path)
        return PoseFile(_rows(np.load(path) if path.suffix == ".npy" else np.loadtxt(path, ndmin=2), path))
    except (ValueError, TypeError, KeyError, OSError, EOFError) as err:
        raise DataError(f"pose file {path.name} cannot be read: {type(err).__name__} {err}") from err


def _natural(path: Path) -> list:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]


def _read_json(path: Path) -> PoseFile:
    facts = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(facts, dict) or not facts.get("poses"):
        raise DataError(f"pose file {path.name} holds no list 'poses'")
    times = facts.get("times_s")
    return PoseFile(_rows(np.array(facts["poses"], float), path), facts.get("convention"), facts.get("camera"),
                    None if times is None else np.asarray(times, float))


def _rows(array: np.ndarray, path: Path) -> np.ndarray:
    array = np.asarray(array, float)
    flat = array.reshape(len(array), -1) if array.ndim > 1 else array
    if flat.ndim != 2 or len(flat) < 2 or flat.shape[1] not in (7, 12, 16):
        raise DataError(f"pose file {path.name} has shape {list(array.shape)}; wanted 12 or 16 numbers a frame (or 7: "
                        "position, quaternion), for 2 frames at least")
    if flat.shape[1] == 12:
        flat = np.concatenate([flat, np.tile([0.0, 0.0, 0.0, 1.0], (len(flat), 1))], 1)
    return flat


def _read_pictures(video: Path) -> tuple[list[np.ndarray], np.ndarray, int]:
    """Gray pictures of the first frames, their times, and the number of frames in the video."""
    from worldloom.dataengine.video.read import iter_frames

    pictures, times, count = [], [], 0
    for frame in iter_frames(video, width=WIDTH_PX, gray=True):
        count += 1
        if count <= _MOST_FRAMES:
            pictures.append(frame.rgb_HWC)
            times.append(frame.time_s)
    return pictures, np.array(times), count


# ---------------------------------------------------------------- evidence


def diagnose(video: Path, pose_path: Path, *, hfov_deg: float | None = None) -> Diagnosis:
    """Try every convention of a pose file on a video.

    Raises:
        DataError: the poses cannot be read or do not belong to the frames, or too few pairs of frames show motion.
    """
    given = read_pose_file(pose_path)
    pictures, times, count = _read_pictures(video)
    if given.times_s is None and len(given.rows) != count:
        raise DataError(f"{len(given.rows)} poses for a video of {count} frames; one a frame is wanted, or times_s")
    frames = np.arange(len(pictures))
    if given.times_s is not None:
        frames = frames[(times >= given.times_s[0]) & (times <= given.times_s[-1])]
    if len(frames) < 2:
        raise DataError("fewer than 2 frames have a pose")
    posed = [pictures[i] for i in frames]
    tracks: dict[str, np.ndarray] = {}
    for convention in hypotheses(given.rows.shape[1]):
        poses = C.to_canonical(given.rows, convention)
        tracks[convention] = poses[frames] if given.times_s is None else P.interpolate_poses(
            poses, given.times_s, times[frames])
    pairs = choose_pairs(posed, next(iter(tracks.values())))
    lenses, said = _lenses(given.camera, hfov_deg, posed[0].shape)
    return judge(pairs, tracks, lenses, said, given.convention)


def hypotheses(width: int) -> list[str]:
    """The conventions that rows of this many numbers may be in."""
    forms = ("matrix",) if width == 16 else ("quat_xyzw", "quat_wxyz")
    return [f"{direction}/{axes}/{form}" for form in forms for direction in C.DIRECTIONS for axes in C.AXES]


def _lenses(camera: dict | None, hfov_deg: float | None, shape: tuple) -> tuple[list[np.ndarray], str]:
    """Candidates (fx, fy, cx, cy) in working pixels, and where they come from."""
    height, width = shape
    if hfov_deg is not None and not 5 < hfov_deg < 170:
        raise DataError(f"--hfov is {hfov_deg:g}; wanted degrees between 5 and 170")
    if hfov_deg is None and camera is not None:
        if camera.get("model", "pinhole") != "pinhole":
            raise DataError(f"camera model {camera['model']!r} is not judged; wanted pinhole, or --hfov")
        try:
            sx, sy = width / camera["width"], height / camera["height"]
            lens = np.array([camera["fx"] * sx, camera["fy"] * sy, (camera["cx"] + 0.5) * sx - 0.5,
                             (camera["cy"] + 0.5) * sy - 0.5])
        except (KeyError, TypeError, ZeroDivisionError) as err:
            raise DataError(f"the file's camera cannot be used ({type(err).__name__} {err}); wanted fx, fy, "
                            "cx, cy, width, height") from err
        return [lens], "from the file"
    tried = TRIED_HFOV_DEG if hfov_deg is None else (hfov_deg,)
    focal = [width / 2 / np.tan(np.radians(angle) / 2) for angle in tried]
    said = f"unknown: hfov {tried[0]:g} to {tried[-1]:g} deg tried" if hfov_deg is None else f"hfov {hfov_deg:g} deg"
    return [np.array([f, f, (width - 1) / 2, (height - 1) / 2]) for f in focal], said


def choose_pairs(pictures: list[np.ndarray], world_from_cam_T44: np.ndarray) -> list[Pair]:
    """Pairs that turn a few degrees, or stand far apart; the angle turned is the same under every hypothesis.

    Raises:
        DataError: too few pairs show motion that can be followed.
    """
    from worldloom.annotators.camera.tracks import follow

    mask, pairs = np.full(pictures[0].shape, 255, np.uint8), []
    for first in np.unique(np.linspace(0, len(pictures) - 2, _MOST_PAIRS).astype(int)):
        for second in _partners(int(first), world_from_cam_T44):
            p, q = follow(pictures[first], pictures[second], mask)
            if len(p) >= _LEAST_TRACKS:
                if np.median(np.linalg.norm(q - p, axis=1)) >= _LEAST_FLOW_PX:
                    pairs.append(Pair(int(first), second, p, q))
                break
    if len(pairs) < _LEAST_PAIRS:
        raise DataError(f"{len(pairs)} pairs of frames show motion that can be followed; {_LEAST_PAIRS} are wanted")
    return pairs


def _partners(first: int, pose_T44: np.ndarray) -> Iterator[int]:
    """Frames to pair with, the widest gap first."""
    last = min(first + _LONGEST_GAP, len(pose_T44) - 1)
    relative = np.swapaxes(pose_T44[first + 1:last + 1, :3, :3], 1, 2) @ pose_T44[first, :3, :3]
    turn_deg = np.degrees(np.linalg.norm(P.so3_log(relative), axis=1))
    gap = int(np.argmax(turn_deg >= _WANTED_TURN_DEG)) + 1 if (turn_deg >= _WANTED_TURN_DEG).any() else len(turn_deg)
    while gap:
        yield first + gap
        gap //= 2


# ---------------------------------------------------------------- judgement


def relative(pose_T44: np.ndarray, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """Rotation and translation that take points from the first camera to the second."""
    a, b = pose_T44[pair.first], pose_T44[pair.second]
    return b[:3, :3].T @ a[:3, :3], b[:3, :3].T @ (a[:3, 3] - b[:3, 3])


def misfit(pair: Pair, rotation: np.ndarray, shift: np.ndarray, lens: np.ndarray) -> tuple[float, float, float]:
    """(error px, epipolar px, forward share) of a pair under a relative pose; medians over the corners."""
    bearing = np.concatenate([(pair.p_N2 - lens[2:]) / lens[:2], np.ones((len(pair.p_N2), 1))], 1) @ rotation.T
    length = np.linalg.norm(shift)
    start = bearing[:, :2] / np.maximum(bearing[:, 2:], 1e-3)
    gap = pair.q_N2 - lens[2:] - start * lens[:2]
    if length < 1e-9:
        rest = float(np.median(np.linalg.norm(gap, axis=1)))
        return rest, rest, 0.5
    unit = shift / length
    way = (unit[:2] - start * unit[2]) * lens[:2]
    along = (gap * way).sum(1) / np.maximum((way * way).sum(1), 1e-12)
    most = 1 / unit[2] if unit[2] > 1e-9 else np.inf
    off = np.linalg.norm(gap - np.clip(along, 0, most)[:, None] * way, axis=1)
    across = np.linalg.norm(gap - along[:, None] * way, axis=1)
    moved = np.linalg.norm(gap, axis=1) > 1.0
    forward = float(((along > 0) & (along < most))[moved].mean()) if moved.any() else 0.5
    return float(np.median(off)), float(np.median(across)), forward


def _account(convention: str, poses: np.ndarray, pairs: list[Pair], lenses: list[np.ndarray]) -> Hypothesis:
    best = None
    for lens in lenses:
        rows = np.array([misfit(pair, *relative(poses, pair), lens) for pair in pairs])
        error, epipolar, forward = np.median(rows, 0)
        if best is None or error < best.error_px:
            hfov = float(np.degrees(2 * np.arctan(WIDTH_PX / 2 / lens[0])))
            best = Hypothesis(convention, float(error), float(epipolar), float(forward), hfov, rows[:, 0])
    return best


def judge(
    pairs: list[Pair], tracks: dict[str, np.ndarray], lenses: list[np.ndarray], intrinsics: str,
    declared: str | None = None,
) -> Diagnosis:
    """Compare canonical pose tracks (T, 4, 4), one a convention, on the same tracked pairs."""
    rows = sorted((_account(name, poses, pairs, lenses) for name, poses in tracks.items()), key=lambda r: r.error_px)
    best = rows[0]
    flow = float(np.median([np.median(np.linalg.norm(pair.q_N2 - pair.p_N2, axis=1)) for pair in pairs]))
    beaten = {row.convention: _beaten_share(best, row) for row in rows[1:]}
    tied = [row for row in rows[1:] if beaten[row.convention] < _SURE]
    rest = [row for row in rows[1:] if row not in tied]
    margin = max(rest[0].error_px, _FLOOR_PX) / max(best.error_px, _FLOOR_PX) if rest else 1.0
    confidence = min((beaten[row.convention] for row in rest), default=0.0) * (1 - 1 / margin ** 2)
    allowed = max(_GOOD_PX, _GOOD_SHARE_OF_FLOW * flow)
    if best.error_px > allowed:
        confidence = float((_resampled(best) > allowed).mean())
        return Diagnosis("none holds", [], confidence, margin, declared, len(pairs), flow, intrinsics, rows)
    best.verdict = "tied" if tied else "holds"
    for row in tied:
        row.verdict, row.same_motion = "tied", _same_motion(tracks[best.convention], tracks[row.convention], pairs)
    verdict = "cannot be told apart" if tied else "holds"
    return Diagnosis(verdict, [row.convention for row in [best, *tied]], confidence, margin, declared, len(pairs), flow,
                     intrinsics, rows)


def _resampled(row: Hypothesis) -> np.ndarray:
    """Median errors (draws,) of resampled pairs; every hypothesis sees the same draws."""
    count = len(row.error_pairs_px)
    return np.median(row.error_pairs_px[np.random.default_rng(0).integers(0, count, (_DRAWS, count))], 1)


def _beaten_share(best: Hypothesis, other: Hypothesis) -> float:
    """Share of resamples of the pairs in which the other's error is clearly above the best one's."""
    ours, theirs = (np.maximum(_resampled(row), _FLOOR_PX) for row in (best, other))
    return float((theirs > _RATIO * ours).mean())


def _same_motion(a_T44: np.ndarray, b_T44: np.ndarray, pairs: list[Pair]) -> bool:
    """Whether two tracks turn and move the camera alike in every pair."""
    for pair in pairs:
        (turn_a, shift_a), (turn_b, shift_b) = relative(a_T44, pair), relative(b_T44, pair)
        angle = np.degrees(np.linalg.norm(P.so3_log((turn_a.T @ turn_b)[None])))
        size = max(np.linalg.norm(shift_a), np.linalg.norm(shift_b))
        if angle > _SAME_DEG or np.linalg.norm(shift_a - shift_b) > np.radians(_SAME_DEG) * size + 1e-9:
            return False
    return True
