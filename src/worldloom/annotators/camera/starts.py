"""Where the bundle adjustment starts, and other starts for the parts of a clip where it ended badly."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from worldloom.annotators.camera import bundle
from worldloom.annotators.camera.bundle import Fit, Flow, Steps
from worldloom.annotators.camera.plane_twin import other_motion
from worldloom.annotators.camera.rotation import travel_given_rotation
from worldloom.annotators.camera.sweep import swept_pose
from worldloom.annotators.camera.tracks import Tracks
from worldloom.annotators.camera.travel import nearness, relative_pose
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.geometry.smooth import window_sum

MIN_TRACKS = 12
_EVERY, _SPAN = 4, 10                 # steps: a start is found for every 4, from a pair of frames up to 10 apart
_ENOUGH_PX = 6.0                      # of parallax, in such a pair
_LARGEST_FIX = math.radians(4.0)
_BAD_COST, _FEW = 1.5, 40             # mean cost of an observation (about 0.9 for noise alone); tracks
_MOST_NOISE_PX = 0.6                  # what is left beyond that is no noise: turning does not explain the tracks
_ALIKE, _JERK_DEG = 20.0, 0.5         # tracks that count for one; change of the turn from step to step
_LOOKING, _JUMP = 0.008, 10           # rise of the horizon in a step, in units of fy; steps around it
_RIVAL = 3.0                          # burden by which a rival solution counts for a third
_WORTH, _WORTH_TWIN = 1.0, 24.0       # what must be less against another start around a step; a twin fits by design


def hold_still(flow: Flow, error_M2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Steps (T,) in which the camera only turns, and the coherent image motion in pixels that turning leaves (T,).

    The noise of a followed point is new at every step, parallax is not: the median product of what successive steps
    of a track leave is the square of the parallax alone.
    """
    parallax = _parallax_px(flow, error_M2)
    rest = flow.medians(np.hypot(*error_M2.T))
    noise = np.minimum(np.sqrt(np.maximum(rest**2 - parallax**2, 0)), _MOST_NOISE_PX)
    still = (parallax < np.maximum(0.08, 0.35 * noise)) & (rest < 2 * _MOST_NOISE_PX)
    seen = np.flatnonzero(flow.count >= MIN_TRACKS)
    if not len(seen):
        return np.ones(flow.steps, bool), parallax
    still = still[seen[np.abs(np.arange(flow.steps)[:, None] - seen).argmin(1)]]
    for a, b in _runs(still):                               # travel passes through zero where it changes sides
        if b - a < 5 and a > 0 and b < flow.steps:
            still[a:b] = False
    for a, b in _runs(~still):
        if np.maximum(parallax, rest - noise)[a:b].sum() < max(1.0, 6 * float(np.median(noise[a:b]))):
            still[a:b] = True
    return still, parallax


def first_start(flow: Flow, tracks: Tracks, turns: Steps, still_T: np.ndarray, parallax_px: np.ndarray,
                size: tuple[int, ...]) -> Steps:
    """Steps with travel and depth, from relative poses of frames far enough apart."""
    steps = turns.copy()
    for a in range(0, flow.steps, _EVERY):
        own = slice(a, min(a + _EVERY, flow.steps))
        if still_T[own].mean() > 0.5:
            continue
        first, last = _pair(a, flow.steps, parallax_px)
        rays_a, rays_b = _rays(flow, tracks, steps, first, last)
        if len(rays_a) < MIN_TRACKS:
            continue
        turn = _product(steps.turn[first:last])
        new_turn, t = relative_pose(rays_a, rays_b, turn, float(flow.focal[0]), size)
        fix = P.so3_log(new_turn @ turn.T) * ((0, 1, 0) if flow.is_shear else 1)
        if np.linalg.norm(fix) < _LARGEST_FIX:
            speed = _speed(rays_a, rays_b, new_turn, t) / (last - first)
            _set(steps, own, first, P.so3_exp(fix / (last - first)), -new_turn.T @ t * speed)
    steps.shift[still_T] = 0
    bundle.set_nearness(flow, steps)
    return steps


def repaired(flow: Flow, tracks: Tracks, lens, fit: Fit, still_T: np.ndarray, kept_N: np.ndarray,
             size: tuple[int, ...]) -> tuple[Fit, np.ndarray]:
    """The fit, with bad parts replaced by what other starts give, where that explains the tracks better.

    With it how far the turns (T, 2: about x, or the horizon's step; about y) are in doubt, in radians: what the
    solutions left aside differ by, the less the worse they explain the tracks.
    """
    rivals: list[Fit] = []
    starts = (_level, partial(_posed, size=size), _swept, _bridged)
    for start in (_unpitched, *starts) if flow.is_shear else (*starts, _twin):
        sigma = bundle.noise_px(fit.error)
        few = flow.count < _FEW
        bad = (few | (_mean_cost(flow, fit, sigma) > _BAD_COST)) & ~(still_T & ~few)
        if start is _unpitched:
            bad = _grown(np.abs(fit.steps.sink) > _LOOKING, _JUMP) & ~still_T
        if bad.mean() < 0.01:
            continue
        zone = _grown(bad, 4)
        other = start(flow, tracks, fit.steps, zone if start is _level else bad)
        other.shift[still_T] = 0
        other.sink = np.diff(_mixed_horizon(fit.steps, other, zone))
        held = ~_grown(zone, 6)
        part = Flow(tracks, lens, kept_N & flow.touched(~held))
        bundle.set_nearness(part, other, part.touched(zone))
        other = bundle.adjust(part, other, still_T, sigma, rounds=6, from_px=max(1.0, 6 * sigma), held_T=held).steps
        rivals += [fit, Fit.of(flow, other)]
        fit = _better(flow, fit, rivals[-1], sigma, ~held, _WORTH_TWIN if start is _twin else _WORTH)
    return fit, _rivalry(flow, fit, rivals)


def _rivalry(flow: Flow, fit: Fit, rivals: list[Fit]) -> np.ndarray:
    sigma = bundle.noise_px(fit.error)
    own, turn_T2 = window_sum(_burden(flow, fit, sigma), 4), fit.steps.rotvec(flow.is_shear)[:, :2]
    doubt_T2 = np.zeros((flow.steps, 2))
    for rival in rivals:
        worse = np.maximum(window_sum(_burden(flow, rival, sigma), 4) - own, 0)
        apart_T2 = np.abs(rival.steps.rotvec(flow.is_shear)[:, :2] - turn_T2)
        doubt_T2 = np.maximum(doubt_T2, apart_T2 * np.exp(-worse / _RIVAL)[:, None])
    return doubt_T2


def _better(flow: Flow, fit: Fit, other: Fit, sigma: float, zone_T: np.ndarray, worth: float) -> Fit:
    """The fit with those parts of the other that explain the tracks better, each judged alone."""
    burden_T = _burden(flow, fit, sigma)
    gain, least = window_sum(burden_T - _burden(flow, other, sigma), 4), float(burden_T.sum())
    for first, last in _runs((gain > worth) & zone_T):
        taken = np.zeros(flow.steps, bool)
        taken[first:last] = True
        mixed = _mixed(flow, fit, other.steps, taken)
        now = float(_burden(flow, mixed, sigma).sum())
        if now < least:
            fit, least = mixed, now
    return fit


def _burden(flow: Flow, fit: Fit, sigma: float) -> np.ndarray:
    """What speaks against each step (T,): tracks that it does not explain, and jerks of the turn.

    Tracks that fail together fail for one reason, so a step's count for few.
    """
    turn_deg = np.degrees(fit.steps.rotvec(flow.is_shear)[:, :2])
    jerk = np.log1p((np.diff(turn_deg, axis=0, prepend=turn_deg[:1]) / _JERK_DEG) ** 2).sum(1)
    return np.bincount(flow.step, bundle.robust_cost(fit.error, sigma), flow.steps) / _ALIKE + jerk


def _mixed(flow: Flow, fit: Fit, other: Steps, taken_T: np.ndarray) -> Fit:
    steps = fit.steps.copy()
    for name in ("turn", "shift"):
        getattr(steps, name)[taken_T] = getattr(other, name)[taken_T]
    steps.sink = np.diff(_mixed_horizon(fit.steps, other, taken_T))
    balance = np.bincount(flow.track, taken_T[flow.step] - 0.5, flow.tracks)
    steps.nearness = np.where(balance > 0, other.nearness, steps.nearness)
    return Fit.of(flow, steps)


def _mixed_horizon(steps: Steps, other: Steps, taken_T: np.ndarray) -> np.ndarray:
    """The horizon (T + 1,), after the steps taken that of `other`: a repair moves no frame beyond it."""
    return np.where(np.concatenate([[False], taken_T]), other.horizon(), steps.horizon())


def _level(flow: Flow, tracks: Tracks, steps: Steps, zone_T: np.ndarray) -> Steps:
    """As if the camera did not turn: travel along a wall looks like a turn to every other start."""
    new = steps.copy()
    new.turn[zone_T], new.sink[zone_T] = np.eye(3), 0
    _travel_of_turns(flow, tracks, new, zone_T)
    return new


def _unpitched(flow: Flow, tracks: Tracks, steps: Steps, zone_T: np.ndarray) -> Steps:
    """As if the horizon stood still: beside a wall a jump shifts a sheared picture as a look up or down does."""
    new = steps.copy()
    new.sink[zone_T] = 0
    _travel_of_turns(flow, tracks, new, zone_T)
    return new


def _travel_of_turns(flow: Flow, tracks: Tracks, steps: Steps, zone_T: np.ndarray) -> None:
    """Set the shifts of the zone to what its turns leave."""
    for a in np.flatnonzero(zone_T)[::_EVERY]:
        last = min(a + 6, flow.steps)
        first = max(0, last - 6)
        rays_a, rays_b = _rays(flow, tracks, steps, first, last)
        if len(rays_a) >= MIN_TRACKS:
            turn = _product(steps.turn[first:last])
            t = travel_given_rotation(rays_a, rays_b, turn)
            speed = _speed(rays_a, rays_b, turn, t) / (last - first)
            own = np.arange(a, min(a + _EVERY, flow.steps))
            for step in own[zone_T[own]]:
                steps.shift[step] = _product(steps.turn[step + 1:last]).T @ t * speed


def _posed(flow: Flow, tracks: Tracks, steps: Steps, zone_T: np.ndarray, size: tuple[int, ...]) -> Steps:
    """As the tracks between two frames say, however far from what turning alone explains: an orbit looks like that."""
    new = steps.copy()
    for a in np.flatnonzero(zone_T)[::_EVERY]:
        first, last = _span(tracks, a, flow.steps)
        rays_a, rays_b = _rays(flow, tracks, new, first, last)
        if len(rays_a) < MIN_TRACKS:
            continue
        turn = _product(steps.turn[first:last])
        new_turn, t = relative_pose(rays_a, rays_b, turn, float(flow.focal[0]), size)
        fix = P.so3_log(new_turn @ turn.T) * ((0, 1, 0) if flow.is_shear else 1)
        speed = _speed(rays_a, rays_b, new_turn, t) / (last - first)
        own = slice(a, min(a + _EVERY, flow.steps))
        _set(new, own, first, P.so3_exp(fix / (last - first)), -new_turn.T @ t * speed)
    return new


def _swept(flow: Flow, tracks: Tracks, steps: Steps, zone_T: np.ndarray) -> Steps:
    """As the best of many turns says, for each pair of frames: tried around no turn and around what there is."""
    new, focal = steps.copy(), float(flow.focal[0])
    for a in np.flatnonzero(zone_T)[::_EVERY]:
        first, last = _span(tracks, a, flow.steps)
        rays_a, rays_b = _rays(flow, tracks, new, first, last)
        if len(rays_a) < MIN_TRACKS:
            continue
        now = (_product(new.turn[first:last]), 0.0)
        before = new.turn[first - 1] if first else np.eye(3)
        ahead = P.so3_exp(P.so3_log(before) * (last - first))
        turn, sink, t, _ = swept_pose(rays_a, rays_b, [now, (np.eye(3), 0.0), (ahead, 0.0)], focal, flow.is_shear)
        fix = P.so3_log(turn @ now[0].T) / (last - first)
        speed = _speed(rays_a, rays_b - (0, sink, 0), turn, t) / (last - first)
        own = slice(a, min(a + _EVERY, flow.steps))
        new.sink[own] += sink / (last - first)
        _set(new, own, first, P.so3_exp(fix), -turn.T @ t * speed)
    return new


def _twin(flow: Flow, tracks: Tracks, steps: Steps, zone_T: np.ndarray) -> Steps:
    """As the other motion that shows the largest plane the same way."""
    new, focal = steps.copy(), float(flow.focal[0])
    for a in np.flatnonzero(zone_T)[::_EVERY]:
        first, last = _span(tracks, a, flow.steps)
        rays_a, rays_b = _rays(flow, tracks, new, first, last)
        turn = _product(steps.turn[first:last])
        found = other_motion(rays_a, rays_b, turn, focal)
        if found is None:
            continue
        fix = P.so3_log(found[0] @ turn.T) / (last - first)
        speed = _speed(rays_a, rays_b, *found) / (last - first)
        _set(new, slice(a, min(a + _EVERY, flow.steps)), first, P.so3_exp(fix), -found[0].T @ found[1] * speed)
    return new


def _bridged(flow: Flow, tracks: Tracks, steps: Steps, zone_T: np.ndarray) -> Steps:
    """As if turn and travel changed evenly between the good steps around."""
    good, there = np.flatnonzero(~zone_T), np.flatnonzero(zone_T)
    new = steps.copy()
    if not len(good):
        return new
    turn, shift = (np.stack([np.interp(there, good, values[good, k]) for k in range(3)], 1)
                   for values in (steps.rotvec(flow.is_shear), steps.shift))
    new.shift[there], new.turn[there], new.sink[there] = shift, np.eye(3), 0
    change = np.zeros((flow.steps, 3))
    change[there] = turn
    new.turned(change, flow.is_shear)
    return new


def _parallax_px(flow: Flow, error_M2: np.ndarray) -> np.ndarray:
    row = np.full((flow.tracks, int(flow.age.max(initial=0)) + 2), -1)
    row[flow.track, flow.age] = np.arange(len(flow.track))
    after = row[flow.track, flow.age + 1]
    here = np.flatnonzero(after >= 0)
    product, step = (error_M2[here] * error_M2[after[here]]).sum(1), flow.step[here]
    edge = np.searchsorted(step, np.arange(flow.steps + 1))
    square = np.array([np.median(product[i:j]) if j - i > 8 else 0.0 for i, j in zip(edge[:-1], edge[1:], strict=True)])
    return np.sqrt(np.maximum(np.maximum(square, np.concatenate([square[:1], square[:-1]])), 0))


def _pair(a: int, steps: int, parallax_px: np.ndarray) -> tuple[int, int]:
    """First and last frame: far enough apart to see travel, near enough to share points."""
    last = a + 1
    while last < min(steps, a + _SPAN) and (last - a < 2 or parallax_px[a:last].sum() < _ENOUGH_PX):
        last += 1
    return (a if last - a >= 2 else max(0, last - 3)), last


def _span(tracks: Tracks, a: int, steps: int) -> tuple[int, int]:
    """First and last frame around the steps from `a` on: up to 6 steps, fewer where fast turns leave few tracks."""
    first, last = max(0, a - 1), min(a + _EVERY + 1, steps)
    while last - first > 2 and np.count_nonzero((tracks.start_N <= first) & (tracks.last_N >= last)) < _FEW:
        first, last = (first + 1, last) if first < a else (first, last - 1)
    return first, last


def _rays(flow: Flow, tracks: Tracks, steps: Steps, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    horizon, ends = steps.horizon(), []
    for frame, places in zip((first, last), tracks.between(first, last), strict=True):
        rays = np.column_stack([(places - flow.centre) / flow.focal, np.ones(len(places))])
        rays[:, 1] -= horizon[frame] if flow.is_shear else 0.0
        ends.append(rays)
    return ends[0], ends[1]


def _product(turns_T33: np.ndarray) -> np.ndarray:
    total = np.eye(3)
    for turn in turns_T33:
        total = turn @ total
    return total


def _speed(rays_a: np.ndarray, rays_b: np.ndarray, turn: np.ndarray, t: np.ndarray) -> float:
    """Length of t in median depths."""
    return float(np.clip(np.median(nearness(rays_a, rays_b, turn, t)), 1e-3, 1.0))


def _set(steps: Steps, own: slice, first: int, fix: np.ndarray, travel: np.ndarray) -> None:
    """Give `own` steps the fixed turn, and the travel (3,) seen from frame `first`."""
    facing = _product(steps.turn[first:own.start])
    for t in range(own.start, own.stop):
        steps.turn[t] = fix @ steps.turn[t]
        facing = steps.turn[t] @ facing
        steps.shift[t] = -facing @ travel


def _mean_cost(flow: Flow, fit: Fit, sigma: float) -> np.ndarray:
    total = window_sum(np.bincount(flow.step, bundle.robust_cost(fit.error, sigma), flow.steps), 2)
    return total / np.maximum(window_sum(flow.count, 2), 1)


def _grown(mask_T: np.ndarray, half: int) -> np.ndarray:
    return window_sum(mask_T, half) > 0.5


def _runs(mask_T: np.ndarray) -> list[tuple[int, int]]:
    edge = np.flatnonzero(np.diff(np.concatenate([[0], mask_T.astype(int), [0]])))
    return list(zip(edge[::2].tolist(), edge[1::2].tolist(), strict=True))
