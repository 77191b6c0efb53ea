"""Which convention of a pose file fits the pixels: every hypothesis predicts the motion of the same points.

Only the camera's motion from frame to frame is seen by pixels, so the world's own axes and origin are never judged.
A hypothesis says where a point may go: from its place at infinite depth towards the epipole, as far as depth is
positive. Its error in a pair of frames is the median distance of the points from that half-line. It holds
rotation (the start), the epipolar line (across) and the sign of translation (along) in one number of pixels.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from worldloom.annotators.camera import doctor_files as F
from worldloom.annotators.camera.doctor_fit import (
    FLOOR_PX,
    Hypothesis,
    accounts,
    beaten_share,
    draws,
    same_motion,
)
from worldloom.annotators.camera.doctor_pairs import (
    LEAST_FLOW_PX,
    Pair,
    Pictures,
    choose_pairs,
    flow_px,
    read_pictures,
)
from worldloom.dataengine.geometry import conventions as C
from worldloom.dataengine.geometry import poses as P
from worldloom.schemas import DataError

TRIED_HFOV_DEG = (40.0, 50.0, 60.0, 70.0, 80.0, 90.0)
CAMERAS = ("opencv", "opengl", "unity", "rdb", "ldf", "lub", "ned", "unreal", "flu", "minecraft")
"""Axes tried: OpenCV, OpenGL, each with one axis turned over (other hand), and the axes of engines and robots."""
_SURE, _GOOD_PX, _GOOD_SHARE_OF_FLOW = 0.95, 0.75, 0.12


@dataclass(frozen=True)
class Evidence:
    """Pairs of pictures, and the row (or the time) of each picture's pose."""
    given: F.PoseFile
    place: np.ndarray
    pairs: list[Pair]
    lenses: list[np.ndarray]       # (fx, fy, cx, cy) that may hold, in pixels of a picture 320 wide
    intrinsics: str                # where they come from

    def track(self, convention: str, body_from_cam_44: np.ndarray | None = None) -> np.ndarray:
        """Canonical poses (T, 4, 4) of the pictures, if the file is in this convention."""
        poses = C.to_canonical(self.given.rows, convention, body_from_cam_44=body_from_cam_44)
        if self.given.times_s is None:
            return poses[self.place]
        return P.interpolate_poses(poses, self.given.times_s, self.place)


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

    @property
    def declared_holds(self) -> bool | None:
        """Whether what the file declares is among the candidates; the world's axes do not count. None: not declared."""
        if self.declared is None:
            return None
        return any(_same_camera(self.declared, candidate) for candidate in self.candidates)

    def as_json(self) -> dict:
        facts = asdict(self) | {"declared_holds": self.declared_holds}
        for row in facts["hypotheses"]:
            del row["error_pairs_px"]
        return facts


def diagnose(
    video: Path, pose_path: Path, *, hfov_deg: float | None = None, start_s: float = 0.0, seconds: float = 30.0,
    body_from_cam_44: np.ndarray | None = None, frame_times_s: np.ndarray | None = None,
) -> Diagnosis:
    """Try every convention of a pose file on a video, or on a folder of pictures.

    Args:
        start_s, seconds: part of the video that is looked at, counted from its first frame.
        body_from_cam_44: where the poses are of a body, the camera's pose in it.
        frame_times_s: times of the video's frames on the clock of the poses, one a frame of the whole video.
    Raises:
        DataError: the poses cannot be read or do not belong to the frames, the camera model cannot be judged, or too
            few pairs of pictures show the same points.
    """
    given = F.read_pose_file(pose_path)
    evidence = gather(given, read_pictures(video, start_s, seconds), hfov_deg=hfov_deg, frame_times_s=frame_times_s)
    return judge(evidence, body_from_cam_44=body_from_cam_44)


def gather(
    given: F.PoseFile, pictures: Pictures, *, hfov_deg: float | None = None, frame_times_s: np.ndarray | None = None,
) -> Evidence:
    """The pairs of pictures that have poses, whatever those mean."""
    lenses, said = _lenses(given.camera, hfov_deg, pictures.shape)
    chosen, place = _pair_up(given, pictures, frame_times_s)
    evidence = Evidence(given, place, [], lenses, said)
    # the angle turned from frame to frame is the same under every hypothesis, so any of them picks the pairs
    pairs = choose_pairs(pictures.only(chosen), evidence.track(hypotheses(given.rows.shape[1])[0]))
    distortion = None if hfov_deg is not None else (given.camera or {}).get("distortion")
    if distortion is not None:
        pairs = [_straightened(pair, lenses[0], distortion) for pair in pairs]
    return replace(evidence, pairs=pairs)


def _pair_up(given: F.PoseFile, pictures: Pictures, frame_times_s: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Pictures that have a pose, and for each its row in the file, or its time where rows go by time."""
    every = np.arange(len(pictures.gray))
    if given.names is not None and pictures.names:
        rows = {name: i for i, name in enumerate(given.names)}
        chosen = np.array([i for i in every if pictures.names[i] in rows], int)
        return _enough(chosen), np.array([rows[pictures.names[i]] for i in chosen], int)
    if given.times_s is None:
        seen = int(pictures.indices[-1]) + 1
        if len(given.rows) != (pictures.count or max(seen, len(given.rows))):
            raise DataError(f"{len(given.rows)} poses for a video of {pictures.count or f'at least {seen}'} frames; "
                            "one a frame is wanted, or times_s")
        return every, pictures.indices
    times = pictures.times_s
    if frame_times_s is not None:
        if len(frame_times_s) <= pictures.indices[-1]:
            raise DataError(f"{len(frame_times_s)} frame times for frame {pictures.indices[-1]}; one a frame is wanted")
        times = frame_times_s[pictures.indices]
    chosen = every[(times >= given.times_s[0]) & (times <= given.times_s[-1])]
    return _enough(chosen), times[chosen]


def _enough(chosen: np.ndarray) -> np.ndarray:
    if len(chosen) < 2:
        raise DataError(f"{len(chosen)} pictures have a pose; 2 are wanted at least")
    return chosen


def hypotheses(width: int) -> list[str]:
    """The conventions that rows of this many numbers may be in."""
    forms = ("matrix",) if width == 16 else ("quat_xyzw", "quat_wxyz")
    return [f"{direction}/{axes}/{form}" for form in forms for direction in C.DIRECTIONS for axes in CAMERAS]


def _same_camera(declared: str, candidate: str) -> bool:
    """Whether two conventions differ in the world's axes alone; what is no convention is the same as none."""
    try:
        (direction_a, axes_a, form_a), (direction_b, axes_b, form_b) = C.parse(declared), C.parse(candidate)
    except DataError:
        return False
    camera_a, camera_b = (C.axes_matrices(axes)[0] for axes in (axes_a, axes_b))
    return (direction_a, form_a) == (direction_b, form_b) and np.array_equal(camera_a, camera_b)


def _lenses(camera: dict | None, hfov_deg: float | None, shape: tuple[int, int]) -> tuple[list[np.ndarray], str]:
    """Candidates (fx, fy, cx, cy) in working pixels, and where they come from."""
    height, width = shape
    if hfov_deg is not None and not 5 < hfov_deg < 170:
        raise DataError(f"--hfov is {hfov_deg:g}; wanted degrees between 5 and 170")
    model = (camera or {}).get("model", "pinhole")
    if model != "pinhole":
        raise DataError(f"camera model {model!r} is not judged: its pictures do not turn as those of a pinhole do")
    if hfov_deg is None and camera is not None:
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


def _straightened(pair: Pair, lens: np.ndarray, distortion: list[float]) -> Pair:
    """The pair as a lens without distortion (k1, k2, p1, p2) would show it."""
    import cv2

    matrix = np.array([[lens[0], 0, lens[2]], [0, lens[1], lens[3]], [0, 0, 1]])
    p, q = (cv2.undistortPoints(points[:, None], matrix, np.asarray(distortion, float), P=matrix)[:, 0]
            for points in (pair.p_N2, pair.q_N2))
    return Pair(pair.first, pair.second, p, q)


def judge(evidence: Evidence, *, body_from_cam_44: np.ndarray | None = None) -> Diagnosis:
    """Compare what every convention of the file predicts, on the same pairs of pictures."""
    pairs, declared = evidence.pairs, evidence.given.convention
    tracks = {name: evidence.track(name, body_from_cam_44) for name in hypotheses(evidence.given.rows.shape[1])}
    rows = accounts(tracks, pairs, evidence.lenses)
    best = rows[0]
    flow = float(np.median([flow_px(pair) for pair in pairs]))
    floor = FLOOR_PX if flow >= LEAST_FLOW_PX else _GOOD_PX          # still pictures judge nothing finer
    beaten = {row.convention: beaten_share(best, row, floor) for row in rows[1:]}
    tied = [row for row in rows[1:] if beaten[row.convention] < _SURE]
    rest = [row for row in rows[1:] if row not in tied]
    margin = max(rest[0].error_px, floor) / max(best.error_px, floor) if rest else 1.0
    confidence = min((beaten[row.convention] for row in rest), default=0.0) * (1 - 1 / margin ** 2)
    allowed = max(_GOOD_PX, _GOOD_SHARE_OF_FLOW * flow)
    if best.error_px > allowed:
        found = np.median(best.error_pairs_px[draws(len(pairs))], 1)
        confidence = float((found > allowed).mean())
        return Diagnosis("none holds", [], confidence, margin, declared, len(pairs), flow,
                         evidence.intrinsics, rows)
    best.verdict = "tied" if tied else "holds"
    for row in tied:
        row.verdict, row.same_motion = "tied", same_motion(tracks[best.convention], tracks[row.convention], pairs)
    verdict = "cannot be told apart" if tied else "holds"
    return Diagnosis(verdict, [row.convention for row in [best, *tied]], confidence, margin, declared, len(pairs), flow,
                     evidence.intrinsics, rows)
