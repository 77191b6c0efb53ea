"""The look of a play: textures, hour, sky and weather. Variants of a play differ in these and in nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from worldloom.dataengine.record.world.params import WorldParams
from worldloom.dataengine.record.world.scene import Environment

LOOK_STREAM = 18
WEATHERS = ("clear", "cloudy", "fog", "rain", "snow")
HOURS = (0.04, 0.3, 0.65, 1.0)      # daylight


def look_of(params: WorldParams, environment: Environment, azimuth_deg: float) -> tuple[Environment, float]:
    """The environment at the start and the sun's azimuth; those given where it is no variant."""
    if not params.variant:
        return environment, azimuth_deg
    rng = np.random.default_rng([params.seed, LOOK_STREAM, params.variant])
    weather, daylight = str(rng.choice(WEATHERS)), float(rng.choice(HOURS))
    changed = replace(environment, daylight=daylight, cloud=float(rng.uniform(0, 0.4)))
    if params.scene == "rooms":
        changed = replace(environment, lamps=float(rng.uniform(0.35, 1.0)), fog=float(rng.choice([0.0, 0.0, 0.4])))
    elif weather == "cloudy":
        changed = replace(changed, cloud=0.95)
    elif weather != "clear":
        changed = replace(changed, **{weather: 1.0})
    return changed, float(rng.uniform(0, 360))
