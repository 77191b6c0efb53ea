"""How the body stands, apart from drawing it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class FigurePose:
    """Feet, heading, where in its stride and how far it strides (0 still to 1)."""
    position_3: np.ndarray
    yaw_deg: float
    phase: float
    gait: float
    on_ground: bool
    is_shown: bool

    @property
    def key(self) -> Hashable:
        """Equal for poses that look the same."""
        return (*self.position_3.tolist(), self.yaw_deg, self.phase, self.gait, self.on_ground, self.is_shown)
