"""Losses and schedules: pure functions of tensors and numbers."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def noise_levels(uniform_B: Tensor) -> Tensor:
    """Levels in (0.05, 1] from uniform numbers, dense near 1: with few sampling steps the first one decides."""
    return 1 - 0.95 * uniform_B.square()


def add_noise(clean: Tensor, normal: Tensor, noise_B: Tensor) -> Tensor:
    """Rectified flow: the straight line from data (0) to noise (1), one level for each entry of the batch."""
    level = noise_B.reshape(-1, *[1] * (clean.ndim - 1))
    return torch.lerp(clean, normal, level)


def clean_loss(predicted: Tensor, clean: Tensor) -> Tensor:
    """Smooth L1 between predicted and true clean pixels in [-1, 1]; quadratic below 0.1."""
    return F.smooth_l1_loss(predicted.float(), clean.float(), beta=0.1)


def euler_step(noisy: Tensor, clean: Tensor, level: float, next_level: float) -> Tensor:
    """One sampling step along the line that passes `noisy` now and the predicted `clean` at level 0."""
    return noisy + (next_level - level) / max(level, 1e-3) * (noisy - clean)


def learning_rate(base: float, step: int, progress: float, warmup_steps: int) -> float:
    """Linear warm-up by step, then cosine from 1 to 0.05 by progress in [0, 1] (of steps or of time)."""
    warm = min(1.0, (step + 1) / max(1, warmup_steps))
    return base * warm * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def average_decay(step: int, limit: float) -> float:
    """Decay of the weight average: short at first, so that a run of a few hundred steps is averaged too."""
    return min(limit, step / (step + 20))
