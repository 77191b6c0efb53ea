"""Rolling a model out: one chunk after another, each from the frames made before it.

Axes: B batch, T frames, S context frames, H height, W width, C colours, N tokens, K latent values.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from worldloom.train.models.small import SmallModel
from worldloom.train.objective import euler_step

BATCH = 8           # clips rolled out together: what fits a core's cache


def to_pixels(frames_BTHWC: np.ndarray) -> Tensor:
    """uint8 frames to float (B, T, 3, H, W) in [-1, 1]."""
    return torch.tensor(np.asarray(frames_BTHWC)).permute(0, 1, 4, 2, 3).float() / 127.5 - 1


def to_frames(pixels_BTCHW: Tensor) -> np.ndarray:
    """Float (B, T, 3, H, W) in [-1, 1] to uint8 frames."""
    scaled = ((pixels_BTCHW.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)
    return scaled.permute(0, 1, 3, 4, 2).contiguous().cpu().numpy()


@torch.no_grad()
def sample_chunk(model: SmallModel, context_BSCHW: Tensor, actions_BT6: Tensor, steps: int,
                 generator: torch.Generator | None = None) -> Tensor:
    """Clean pixels (B, T, 3, H, W) of the next T <= chunk frames in `steps` Euler steps from noise."""
    batch, frames = actions_BT6.shape[:2]
    tokens = model.grid[0] * model.grid[1]
    noisy = torch.randn(batch, frames, tokens, model.config.components, generator=generator) * model.config.noise_scale
    levels = np.linspace(1, 0, steps + 1)
    clean = noisy
    for level, next_level in zip(levels[:-1], levels[1:], strict=True):
        clean = model(noisy, context_BSCHW, torch.full((batch,), float(level)), actions_BT6).clamp(-1, 1)
        latents = model.codec.encode(clean.flatten(0, 1)).unflatten(0, (batch, frames))
        noisy = euler_step(noisy, latents, float(level), float(next_level))
    return clean


def rollout(model: SmallModel, context_BSHWC: np.ndarray, actions_BT6: np.ndarray, *, steps: int = 1,
            seed: int = 0) -> np.ndarray:
    """Frames (B, T, H, W, 3) uint8 that follow `context_BSHWC` under the commands `actions_BT6`.

    A chunk is made from the last clean or generated frames only, so later commands cannot change earlier frames. One
    step is the default: a briefly trained model predicts a mean, and further steps only return noise to it.
    """
    parts = [slice(start, start + BATCH) for start in range(0, len(context_BSHWC), BATCH)]
    generator = torch.Generator().manual_seed(seed)
    return np.concatenate([_rollout_part(model, context_BSHWC[part], actions_BT6[part], steps, generator)
                           for part in parts])


def _rollout_part(model: SmallModel, context_BSHWC: np.ndarray, actions_BT6: np.ndarray, steps: int,
                  generator: torch.Generator) -> np.ndarray:
    config = model.config
    context = to_pixels(context_BSHWC)[:, -config.context:]
    if context.shape[1] < config.context:
        context = torch.cat([context[:, :1].expand(-1, config.context - context.shape[1], -1, -1, -1), context], 1)
    actions, made = torch.as_tensor(np.asarray(actions_BT6, np.float32)), []
    for start in range(0, actions.shape[1], config.chunk):
        part = actions[:, start:start + config.chunk]
        short = config.chunk - part.shape[1]
        padded = torch.nn.functional.pad(part, (0, 0, 0, short))
        chunk = sample_chunk(model, context, padded, steps, generator)[:, :part.shape[1]]
        made.append(to_frames(chunk))
        context = torch.cat([context, chunk], 1)[:, -config.context:]
    return np.concatenate(made, 1)
