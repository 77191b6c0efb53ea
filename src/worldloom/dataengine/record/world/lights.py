"""Colours and strengths of all light as functions of the weather; no drawing here."""

from __future__ import annotations

import numpy as np

from worldloom.dataengine.record.world.scene import Environment, Scene
from worldloom.dataengine.record.world.shaders import LAMPS
from worldloom.dataengine.record.world.space import direction

LAMP_REACH_INDOOR_M, LAMP_REACH_OUTDOOR_M, LAMP_FADE_M = 8.0, 14.0, 38.0


def sun_direction(azimuth_deg: float, daylight: float) -> np.ndarray:
    """Towards the sun, low when there is little daylight."""
    return direction(azimuth_deg, 4 + 46 * daylight)


def light_values(scene: Scene, now: Environment, eye_3: np.ndarray, sun_3: np.ndarray, time_s: float) -> np.ndarray:
    """Rows (9, 4) of the shader's `light`."""
    day, wet_sky = now.daylight, max(now.rain, now.snow)
    sun = _mix((1.6, 0.55, 0.2), (2.6, 2.4, 2.0), day) * min(1.0, 0.05 + 1.6 * day) * (1 - 0.85 * wet_sky)
    overhead = _greyed(_mix((0.02, 0.03, 0.09), (0.16, 0.36, 0.85), day), 0.8, wet_sky)
    fog = _greyed(_mix((0.10, 0.07, 0.10), (0.62, 0.72, 0.85), day), 0.75, wet_sky)
    sky = _mix((0.05, 0.06, 0.12), (0.55, 0.65, 0.85), day) * (1 - 0.35 * now.rain)
    ground = sky * (0.55, 0.5, 0.42)
    fog_per_m = 0.006 + 0.03 * now.fog + 0.012 * wet_sky
    if scene.is_indoor:
        sky = _mix((0.045, 0.05, 0.07), (0.24, 0.24, 0.25), now.lamps)
        ground = _mix((0.03, 0.03, 0.035), (0.16, 0.15, 0.14), now.lamps)
        fog_per_m = 0.0015 + 0.06 * now.fog
    rows = np.zeros((9, 4))
    rows[:7, :3] = eye_3, sun_3, sun, sky, ground, fog, overhead
    rows[7] = fog_per_m, now.rain, lamp_strength(scene, now) / 4, 0.0 if scene.is_indoor else 1.0
    rows[8, :3] = time_s * 0.0015, time_s * 0.0007, max(wet_sky, now.cloud)
    return rows


def lamp_strength(scene: Scene, now: Environment) -> float:
    """Outdoors lamps tell only when the day is dark."""
    return now.lamps * ((0.55 + 0.45 * now.daylight) * 2.2 if scene.is_indoor else (1 - now.daylight) * 4)


def nearest_lamps(scene: Scene, now: Environment, eye_3: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places and reach (8, 4), colours (8, 4) of the nearest lamps, fading out with distance so that none pops."""
    places, colours = np.full((LAMPS, 4), (0.0, 0, -99, 1)), np.zeros((LAMPS, 4))
    if not scene.lamps:
        return places, colours
    lamps = np.array(scene.lamps)
    away = np.hypot(*(lamps[:, :2] - eye_3[:2]).T)
    chosen = np.argsort(away, kind="stable")[:LAMPS]
    fade = np.clip(1 - (away[chosen] / LAMP_FADE_M) ** 4, 0, 1) * lamp_strength(scene, now)
    places[:len(chosen), :3] = lamps[chosen, :3]
    places[:len(chosen), 3] = LAMP_REACH_INDOOR_M if scene.is_indoor else LAMP_REACH_OUTDOOR_M
    colours[:len(chosen), :3] = lamps[chosen, 3:] * fade[:, None]
    return places, colours


def falling(now: Environment, time_s: float) -> np.ndarray | None:
    """Rows (2, 4) of the shader's `fall`; None when nothing falls."""
    if now.snow > 0:
        return np.array([[time_s, 1.3, 1.0, 0.035], [0.9, 0.92, 0.95, 0.85 * now.snow]])
    if now.rain > 0:
        return np.array([[time_s, 9.0, 0.0, 0.012], [0.75, 0.8, 0.88, 0.38 * now.rain]])
    return None


def _mix(dark: tuple[float, ...], bright: tuple[float, ...], share: float) -> np.ndarray:
    return np.array(dark) * (1 - share) + np.array(bright) * share


def _greyed(colour: np.ndarray, level: float, wet_sky: float) -> np.ndarray:
    return colour + (np.full(3, colour.mean() * level) - colour) * 0.9 * wet_sky
