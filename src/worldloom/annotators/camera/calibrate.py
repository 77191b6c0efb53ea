"""The lens of a clip whose source does not declare it: focal length, projection model and horizon, from its turns.

A turn without travel moves every pixel by an amount that depends on the focal length alone. Turns with travel explain
themselves badly by rotation and are left out; a clip without clean turns is not calibrated, and says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from worldloom.annotators.camera.odometry import Lens
from worldloom.annotators.camera.overlay import usable_mask
from worldloom.annotators.camera.shared_focal import MODELS, Fit, fit
from worldloom.annotators.camera.turns import Turns, find_turns
from worldloom.schemas import DataError

ASSUMED_HFOV_DEG = 75.0
SHEARED_FY_OVER_FX = 1.2            # of the engines that shear; scaling the world's heights gives equal pictures
_LEAST_TURNS = 2
_LEAST_SUPPORT = 1.5                # turns that rotation explains; fewer may share the same parallax
_MOST_ERROR = 0.02                  # relative standard error
_HFOV_RANGE_DEG = (20.0, 135.0)
_ODD_HORIZON, _SURE_SUPPORT = 0.15, 8.0
_TELLING_RATIO, _TELLING_PX2 = 4.0, 0.02


@dataclass(frozen=True)
class FoundLens:
    """A lens in pixels of the frames it was found in, and where each part of it comes from."""
    lens: Lens
    focal_source: str               # declared, found, or assumed (75 degrees of horizontal view)
    focal_spread: float | None      # relative standard error of a found focal length
    model_source: str               # declared, found, or assumed (the clip does not tell the models apart)
    detail: str

    @property
    def is_calibrated(self) -> bool:
        """Whether angles measured with this lens are degrees."""
        return self.focal_source != "assumed"


def find_lens(
    gray_THW: np.ndarray, fps: float, *, hfov_deg: float | None = None, model: str | None = None,
    fy_over_fx: float | None = None, horizon_share: float | None = None, mask_HW: np.ndarray | None = None,
) -> FoundLens:
    """The lens of uint8 frames (T, H, W) with whatever is declared held.

    Args:
        hfov_deg: horizontal field of view of these frames.
        model: pinhole or yshear.
        fy_over_fx: pixel aspect. Unset, 1 for pinhole and 1.2 for yshear, whose pictures do not show it.
        horizon_share: row of a level horizon over the height. Unset, found for yshear and the middle for pinhole.
        mask_HW: of `overlay.usable_mask`, where the caller has it.
    Raises:
        DataError: fewer than 2 frames, or an unknown model.
    """
    if len(gray_THW) < 2 or model not in (None, *MODELS):
        raise DataError(f"lens of {len(gray_THW)} frames with model {model!r}; wanted 2 or more frames and model "
                        f"{' or '.join(MODELS)}, or none")
    height, width = gray_THW.shape[1:]
    declared_px = None if hfov_deg is None else _focal_px(width, hfov_deg)
    if declared_px is not None and model is not None:
        lens = _lens((height, width), declared_px, model, fy_over_fx, horizon_share)
        return FoundLens(lens, "declared", None, "declared", "lens declared")
    turns = find_turns(gray_THW, fps, usable_mask(gray_THW, fps=fps) if mask_HW is None else mask_HW)
    chosen, model_source, why = _choose(turns, model, declared_px)
    told = chosen is not None and _is_told(chosen, turns)
    share = horizon_share if horizon_share is not None else _horizon_share(chosen, turns, told or hfov_deg is not None)
    source = "declared" if declared_px is not None else "found" if told else "assumed"
    found_px = declared_px or (chosen.f_px * turns.scale if told else _focal_px(width, ASSUMED_HFOV_DEG))
    kind = model or (chosen.model if chosen is not None and model_source == "found" else "pinhole")
    lens = _lens((height, width), found_px, kind, fy_over_fx, share if kind == "yshear" else horizon_share)
    return FoundLens(lens, source, _spread(chosen) if source == "found" else None, model_source,
                     _detail(lens, width, source, chosen, turns, why))


def _focal_px(width: int, hfov_deg: float) -> float:
    return width / 2 / math.tan(math.radians(hfov_deg) / 2)


def _lens(size: tuple[int, int], fx: float, model: str, fy_over_fx: float | None, share: float | None) -> Lens:
    height, width = size
    aspect = fy_over_fx or (SHEARED_FY_OVER_FX if model == "yshear" else 1.0)
    return Lens(fx, fx * aspect, (width - 1) / 2, height * (0.5 if share is None else share) - 0.5, model)


def _choose(turns: Turns, model: str | None, f_px: float | None) -> tuple[Fit | None, str, str]:
    """(best fit, where its model comes from, why)."""
    source = "assumed" if model is None else "declared"
    if len(turns.turns) < _LEAST_TURNS:
        return None, source, f"{len(turns.turns)} turns seen"
    held = None if f_px is None else f_px / turns.scale
    fits = [fit(turns.turns, turns.size[1], name, held) for name in (MODELS if model is None else (model,))]
    if model is not None:
        return fits[0], source, f"model {model} declared"
    pinhole, yshear = fits
    weight_K = np.maximum(pinhole.weight_K, yshear.weight_K)
    total = float(weight_K.sum())
    if total < _LEAST_SUPPORT:
        return pinhole, source, "pinhole and yshear cannot be told apart"
    worse_K = pinhole.cost_K - yshear.cost_K
    worse = float(weight_K @ worse_K) / total
    error = math.sqrt(float(np.sum((weight_K * (worse_K - worse)) ** 2))) / total
    best, other = (yshear, pinhole) if worse > 0 else (pinhole, yshear)
    if abs(worse) < max(_TELLING_PX2, _TELLING_RATIO * error) or _is_odd(best, turns):
        return pinhole, source, "pinhole and yshear cannot be told apart"
    costs = [float(weight_K @ each.cost_K) / total for each in (best, other)]
    return best, "found", f"{best.model} leaves {costs[0]:.2f} square pixels, {other.model} {costs[1]:.2f}"


def _is_odd(found: Fit, turns: Turns) -> bool:
    """Whether a few turns put the horizon far from the middle, as parallax does to a sheared picture."""
    share = _horizon_share(found, turns, is_told=True)
    return share is not None and abs(share - 0.5) > _ODD_HORIZON and found.support < _SURE_SUPPORT


def _is_told(found: Fit, turns: Turns) -> bool:
    hfov_deg = math.degrees(2 * math.atan(turns.size[1] / 2 / found.f_px))
    low, high = _HFOV_RANGE_DEG
    return found.support >= _LEAST_SUPPORT and found.spread <= _MOST_ERROR and low <= hfov_deg <= high


def _spread(found: Fit | None) -> float | None:
    """What the turns disagree by, with a percent of tracking bias and the parallax that few turns may share."""
    return None if found is None else float(np.sqrt(found.spread**2 + 0.01**2 + (0.05 / found.support) ** 2))


def _horizon_share(found: Fit | None, turns: Turns, is_told: bool) -> float | None:
    """Row of the horizon over the height, the median over the turns that show it (those that yaw)."""
    if found is None or found.model != "yshear" or not is_told:
        return None
    weight_K = found.weight_K * np.minimum(np.abs(found.own_K3[:, 0]) / 0.05, 1.0)
    if weight_K.sum() < _LEAST_SUPPORT:
        return None
    order = np.argsort(found.own_K3[:, 2])
    middle = np.searchsorted(np.cumsum(weight_K[order]), weight_K.sum() / 2)
    row_px = found.own_K3[order[middle], 2] * found.f_px + (turns.size[0] - 1) / 2
    return float((row_px + 0.5) / turns.size[0])


def _detail(lens: Lens, width: int, source: str, found: Fit | None, turns: Turns, why: str) -> str:
    hfov_deg = math.degrees(2 * math.atan(width / 2 / lens.fx))
    line = f"focal length {lens.fx:.1f} px (hfov {hfov_deg:.1f}) {source}"
    if found is not None:
        error = f"error {100 * found.spread:.2g} %" if found.spread < 1 else "which tell no focal length"
        line += f", {found.support:.1f} of {len(turns.turns)} turns without travel, {error}"
    if lens.model == "yshear":
        line += f"; horizon row {lens.cy:.1f}, fy/fx {lens.fy / lens.fx:.2f} is not seen in sheared pictures"
    return f"{line}; {why}"
