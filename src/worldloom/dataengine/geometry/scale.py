"""How long one unit of a track is: exact, metric, relative or unknown, and a bridge to metres that refuses to guess.

Every piece of evidence is a list of measures of metres per unit, each at a frame. The bridge takes them together and
says one number with its 10th and 90th percentile, or why it cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from worldloom.schemas import DataError

MAX_SPREAD = 2.5                       # p90 over p10 of the measures
MAX_SPEED_M_S = 100.0                  # mean over the track
MAX_DRIFT = 0.15                       # standard deviation over mean of the medians of windows
WINDOW_S = 2.0
MIN_MEASURES = 3
_P90_SIGMA = 1.2816
_MOVING_SHARE = 0.35                   # of the track's 90th percentile of speed

WALKING_SPEED_M_S = 1.4
SPEED_BUCKETS = (("still", 0.2), ("walk", 2.2), ("run", 7.0), ("vehicle", MAX_SPEED_M_S))
"""Names and the speeds in metres a second that they end before."""
FLYING_CLIMB_M, FLYING_CLIMB_SHARE = 5.0, 0.2
"""A camera that rises or falls so far in a clip, and by such a share of its path, is a drone."""
RETIMED_RATIO = (0.8, 1.25)
MAX_STRIDE = 8


@dataclass(frozen=True)
class Evidence:
    """Measures of metres per unit; `relative_error` is the standard error that all of them share."""
    kind: str
    metres_per_unit_N: np.ndarray
    frame_N: np.ndarray
    relative_error: float = 0.0


@dataclass(frozen=True)
class Scale:
    """Metres in one unit of a track. `refused` says why there is no number; p10 and p90 span its uncertainty."""
    status: str                        # exact, metric, relative or unknown
    metres_per_unit: float | None = None
    p10: float | None = None
    p90: float | None = None
    evidence: str = ""
    refused: str | None = None

    @property
    def spread(self) -> float | None:
        """p90 over p10: 1 is certain."""
        return self.p90 / self.p10 if self.p10 and self.p90 else None


def known(status: str, metres_per_unit: float | None) -> Scale:
    """The scale that a source declares: a number for exact and metric, none for relative and unknown.

    Raises:
        DataError: a status that is not known, or a number that does not go with it.
    """
    if status not in ("exact", "metric", "relative", "unknown"):
        raise DataError(f"scale status {status!r} is not known; wanted exact, metric, relative or unknown")
    if (status in ("exact", "metric")) != (metres_per_unit is not None):
        raise DataError(f"a scale that is {status} is declared with {metres_per_unit} metres a unit; exact and metric "
                        "need a number, relative and unknown have none")
    if metres_per_unit is not None and not 0 < metres_per_unit < np.inf:
        raise DataError(f"{metres_per_unit} metres a unit; a number above 0 is wanted")
    number = None if metres_per_unit is None else float(metres_per_unit)
    return Scale(status, number, number, number, "declared")


def from_depth(depth_TN: np.ndarray, metric_depth_TN: np.ndarray, *, relative_error: float = 0.1) -> Evidence:
    """One measure a frame: the median ratio of metric depth to the track's own depth at the same places.

    Args:
        depth_TN, metric_depth_TN: depths in units and in metres at N places of T frames; NaN or 0 where unknown.
    """
    units, metres = np.asarray(depth_TN, float), np.asarray(metric_depth_TN, float)
    if units.shape != metres.shape or units.ndim != 2:
        raise DataError(f"depths of shape {[*units.shape]} and {[*metres.shape]}; the same (T, N) is wanted")
    good = np.isfinite(units) & np.isfinite(metres) & (units > 0) & (metres > 0)
    rows = np.flatnonzero(good.any(1))
    ratio = [float(np.exp(np.median(np.log(metres[t, good[t]] / units[t, good[t]])))) for t in rows]
    return Evidence("metric depth", np.array(ratio), rows, relative_error)


def from_camera_height(height_T: np.ndarray, height_m: float, *, relative_error: float = 0.1) -> Evidence:
    """One measure a frame: a known height of the camera above the ground over the track's height there.

    Args:
        height_T: height above the ground in units; NaN where the ground is not known.
    """
    height = np.asarray(height_T, float)
    rows = np.flatnonzero(np.isfinite(height) & (height > 0))
    return Evidence("camera height", height_m / height[rows], rows, relative_error)


def from_speed(position_T3: np.ndarray, fps: float, speed_m_s: float, *, relative_error: float = 0.2) -> Evidence:
    """One measure a half second of movement: a stated speed over the track's median speed there.

    Steps slower than a third of the track's fastest tenth are standing or starting, and say nothing.
    """
    speed = np.linalg.norm(np.diff(np.asarray(position_T3, float), axis=0), axis=1) * fps
    moving = speed > max(_MOVING_SHARE * float(np.quantile(speed, 0.9)), 1e-9) if len(speed) else np.zeros(0, bool)
    width = max(1, round(fps / 2))
    starts = [a for a in range(0, len(speed), width) if moving[a:a + width].mean() > 0.5]
    ratio = [speed_m_s / float(np.median(speed[a:a + width][moving[a:a + width]])) for a in starts]
    return Evidence("stated speed", np.array(ratio), np.array(starts, int) + width // 2, relative_error)


def from_distances(position_T3: np.ndarray, known_m: Sequence[tuple[int, int, float]], *,
                   relative_error: float = 0.02) -> Evidence:
    """One measure a known step (first frame, last frame, metres between the two places)."""
    place = np.asarray(position_T3, float)
    ratio, frames = [], []
    for first, last, metres in known_m:
        if not (0 <= first < len(place) and 0 <= last < len(place)):
            raise DataError(f"known step from frame {first} to {last}; the track has frames 0 to {len(place) - 1}")
        length = float(np.linalg.norm(place[last] - place[first]))
        if length < 1e-9 or metres <= 0:
            raise DataError(f"known step from frame {first} to {last} is {metres:g} m and {length:g} units long; both "
                            "must be above 0")
        ratio.append(metres / length)
        frames.append((first + last) // 2)
    return Evidence("known steps", np.array(ratio), np.array(frames, int), relative_error)


def bridge(position_T3: np.ndarray, fps: float, evidence: Sequence[Evidence]) -> Scale:
    """One scale for a track from all evidence at once, metric or refused with one reason; the track stays relative.

    Refused: fewer than 3 measures, a measure that is no positive number, p90 / p10 above 2.5, a mean speed above
    100 m/s, and a drift (standard deviation over mean of 2 s windows) above 0.15.
    """
    kinds = " + ".join(dict.fromkeys(e.kind for e in evidence)) or "no evidence"
    ratio = np.concatenate([np.asarray(e.metres_per_unit_N, float) for e in evidence]) if evidence else np.zeros(0)
    frames = np.concatenate([np.asarray(e.frame_N, int) for e in evidence]) if evidence else np.zeros(0, int)

    def refuse(reason: str) -> Scale:
        return Scale("relative", evidence=kinds, refused=reason)

    if len(ratio) < MIN_MEASURES:
        return refuse(f"{len(ratio)} measures of the scale; at least {MIN_MEASURES} are wanted to know its spread")
    if not np.all(np.isfinite(ratio) & (ratio > 0)):
        return refuse("a measure of the scale is not a number above 0")
    middle, low, high = _spanned(ratio, evidence)
    if high / low > MAX_SPREAD:
        return refuse(f"measures of the scale spread by {high / low:.2f} (p90 over p10); at most {MAX_SPREAD:g}")
    speed = _mean_speed(position_T3, fps) * middle
    if speed > MAX_SPEED_M_S:
        return refuse(f"the camera would move at {speed:,.0f} m/s on average; at most {MAX_SPEED_M_S:g}")
    if (drift := _drift(ratio, frames, fps)) > MAX_DRIFT:
        return refuse(f"the scale drifts by {drift:.2f} between windows of {WINDOW_S:g} s; at most {MAX_DRIFT:g}")
    return Scale("metric", middle, low, high, kinds)


def _spanned(ratio: np.ndarray, evidence: Sequence[Evidence]) -> tuple[float, float, float]:
    """Median, p10 and p90, the last two widened by the error that all measures of one kind share."""
    logs = np.log(ratio)
    middle = float(np.median(logs))
    shared = _P90_SIGMA * min(e.relative_error for e in evidence if len(e.metres_per_unit_N))
    low, high = (float(np.quantile(logs, q)) for q in (0.1, 0.9))
    return (float(np.exp(middle)), float(np.exp(middle - np.hypot(middle - low, shared))),
            float(np.exp(middle + np.hypot(high - middle, shared))))


def _mean_speed(position_T3: np.ndarray, fps: float) -> float:
    steps = np.linalg.norm(np.diff(np.asarray(position_T3, float), axis=0), axis=1)
    return float(steps.mean() * fps) if len(steps) else 0.0


def _drift(ratio: np.ndarray, frames: np.ndarray, fps: float) -> float:
    """Standard deviation over mean of the medians of windows; 0 where all measures lie in one window."""
    window = (frames / (fps * WINDOW_S)).astype(int)
    medians = np.array([np.median(ratio[window == w]) for w in np.unique(window)])
    return float(medians.std() / medians.mean())


def speed_bucket(speed_m_s: float | None, climb_m: float = 0.0, climb_share: float = 0.0) -> str:
    """still, walk, run, vehicle or drone of a median speed; unknown without metres or above any of them."""
    if speed_m_s is None or not np.isfinite(speed_m_s):
        return "unknown"
    if climb_m > FLYING_CLIMB_M and climb_share > FLYING_CLIMB_SHARE:
        return "drone"
    return next((name for name, end in SPEED_BUCKETS if speed_m_s < end), "unknown")


def retime_stride(speed_ratio: float) -> int | None:
    """Take every k-th frame: the k up to 8 that brings a speed over the wanted one nearest to 1, inside [0.8, 1.25].

    None where no k does: too fast (no frame is ever shown twice), too slow, or between two strides.
    """
    if not speed_ratio > 0:
        return None
    strides = [k for k in range(1, MAX_STRIDE + 1) if RETIMED_RATIO[0] <= k * speed_ratio <= RETIMED_RATIO[1]]
    return min(strides, key=lambda k: abs(np.log(k * speed_ratio)), default=None)
