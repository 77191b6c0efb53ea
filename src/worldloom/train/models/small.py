"""A small transformer video model: chunks of frames, each denoised jointly from the clean frames before it.

Axes: B batch, T frames of the chunk, S context frames, N tokens a frame, M merged tokens, K latent values, D width,
C colours, H height, W width. A chunk sees its own frames both ways and the last S clean frames, never a later chunk:
that makes a rollout causal chunk by chunk.

The warp head is an aid for small models (a flow field that moves the last clean frame, a gate, new content). It is
given no camera geometry: the flow is learned. It is a switch; large latent models do without it.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from worldloom.train.config import ModelConfig
from worldloom.train.models.actions import (
    NUM_FEATURES,
    ActionEmbedding,
    ActionMLP,
    action_features,
    scale_actions,
)
from worldloom.train.models.codec import PatchCodec

NOISE_DIM = 64
FLOW_SCALE_PX = 8.0
GATE_BIAS = 2.0             # at the start 88 % of the picture is the unmoved last frame


class SmallModel(nn.Module):
    """Predicts the clean frames of a noisy chunk from its context, noise level and actions."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config, dim = config, config.dim
        self.codec = PatchCodec(config.patch, config.components, config.height, config.width)
        self.grid = self.codec.grid
        tokens = self.grid[0] * self.grid[1]
        features = NUM_FEATURES * (2 if config.running_sum else 1)
        self.noisy_in = nn.Linear(config.components, dim)
        self.context_in = nn.Linear(config.components * config.context, dim)
        self.position = nn.Parameter(torch.randn(1, 1, tokens, dim) * 0.02)
        self.frame_position = nn.Parameter(torch.randn(1, config.chunk, 1, dim) * 0.02)
        self.embedding = ActionEmbedding(dim)
        self.feature_in = nn.Linear(features, dim)
        condition = NOISE_DIM + (features if config.adaln_actions else 0)
        self.condition = nn.Sequential(nn.Linear(condition, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU())
        self.blocks = nn.ModuleList(
            Block(config, attends=(index + 1) % config.attention_every == 0) for index in range(config.blocks))
        self.last_modulation = _zero(nn.Linear(128, 2 * dim))
        head = config.components + (config.patch**2 + 2 if config.warp_head else 0)
        self.head = _zero(nn.Linear(dim, head))
        self.register_buffer("angles", _rotary_angles(self.grid, config), persistent=False)

    def forward(self, noisy_BTNK: Tensor, context_BSCHW: Tensor, noise_B: Tensor, actions_BT6: Tensor) -> Tensor:
        """Clean pixels (B, T, 3, H, W) of the chunk.

        Args:
            noisy_BTNK: latents (1 - noise) * clean + noise * noise_scale * normal.
            context_BSCHW: the last clean frames in [-1, 1], newest last.
            noise_B: noise level in [0, 1], one a chunk.
            actions_BT6: action into each frame, degrees and states as in the shards.
        """
        frames = noisy_BTNK.shape[1]
        scaled = scale_actions(actions_BT6, self.config.yaw_scale_deg, self.config.pitch_scale_deg)
        features = action_features(scaled, self.config.running_sum)
        action = self.embedding(scaled) + self.feature_in(features)
        context = self.codec.encode(context_BSCHW.flatten(0, 1)).unflatten(0, context_BSCHW.shape[:2])
        context = self.context_in(context.transpose(1, 2).flatten(2))[:, None]
        hidden = self.noisy_in(noisy_BTNK / self.config.noise_scale) + context
        hidden = hidden + self.position + self.frame_position[:, :frames]
        level = _noise_embedding(noise_B)[:, None].expand(-1, frames, -1)
        condition = self.condition(torch.cat([level, features], -1) if self.config.adaln_actions else level)
        for block in self.blocks:
            hidden = block(hidden, condition, action, self.grid, self.angles)
        shift, scale = self.last_modulation(condition).chunk(2, -1)
        return self._picture(self.head(_modulate(hidden, scale, shift)).float(), context_BSCHW[:, -1].float())

    def _picture(self, out_BTNO: Tensor, last_BCHW: Tensor) -> Tensor:
        """Head values and the last clean frame to pixels."""
        batch, frames = out_BTNO.shape[:2]
        out = out_BTNO.flatten(0, 1)
        last = last_BCHW[:, None].expand(-1, frames, -1, -1, -1).flatten(0, 1)
        components, gates = self.config.components, self.config.patch**2
        content = self.codec.decode(out[..., :components])
        if self.config.warp_head:
            maps = out[..., components:].transpose(1, 2).unflatten(2, self.grid)
            gate = torch.sigmoid(F.pixel_shuffle(maps[:, :gates], self.config.patch) + GATE_BIAS)
            content = gate * _warp(last, maps[:, gates:], self.config.patch) + (1 - gate) * content
        else:
            content = last + content
        return content.unflatten(0, (batch, frames))


class Block(nn.Module):
    """Attention on merged tokens (in some blocks), the action MLP, then a feed-forward network."""

    def __init__(self, config: ModelConfig, attends: bool) -> None:
        super().__init__()
        dim, self.heads, self.merge, self.attends = config.dim, config.heads, config.merge, attends
        self.modulation = _zero(nn.Linear(128, 6 * dim))
        if attends:
            self.qkv = nn.Linear(dim * self.merge**2, 3 * dim)
            self.attention_out = nn.Linear(dim, dim * self.merge**2)
        self.action = ActionMLP(dim)
        self.feed = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(approximate="tanh"), nn.Linear(3 * dim, dim))

    def forward(self, hidden_BTND: Tensor, condition_BTE: Tensor, action_BTD: Tensor, grid: tuple[int, int],
                angles_MR: Tensor) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(condition_BTE).chunk(6, -1)
        hidden = hidden_BTND
        if self.attends:
            mixed = self._attention(_modulate(hidden, scale1, shift1), grid, angles_MR)
            hidden = torch.addcmul(hidden, 0.5 + gate1[:, :, None], mixed)
        hidden = self.action(hidden, action_BTD)
        return torch.addcmul(hidden, 1 + gate2[:, :, None], self.feed(_modulate(hidden, scale2, shift2)))

    def _attention(self, hidden_BTND: Tensor, grid: tuple[int, int], angles_MR: Tensor) -> Tensor:
        batch, frames = hidden_BTND.shape[:2]
        merged = _merge(hidden_BTND, grid, self.merge)
        query, key, value = self.qkv(merged).flatten(1, 2).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        angles = angles_MR.repeat(frames, 1)
        mixed = F.scaled_dot_product_attention(_rotate(query, angles), _rotate(key, angles), value)
        mixed = self.attention_out(mixed.transpose(1, 2).flatten(2)).reshape(batch, frames, merged.shape[2], -1)
        return _unmerge(mixed, grid, self.merge)


def _zero(layer: nn.Linear) -> nn.Linear:
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _modulate(hidden_BTND: Tensor, scale_BTD: Tensor, shift_BTD: Tensor) -> Tensor:
    normed = F.layer_norm(hidden_BTND, hidden_BTND.shape[-1:])
    return torch.addcmul(shift_BTD[:, :, None], normed, 1 + scale_BTD[:, :, None])


def _noise_embedding(noise_B: Tensor) -> Tensor:
    half = NOISE_DIM // 2
    rates = torch.exp(-math.log(1000) * torch.arange(half, device=noise_B.device) / half)
    phase = noise_B[:, None] * 1000 * rates
    return torch.cat([phase.sin(), phase.cos()], -1)


def _merge(hidden_BTND: Tensor, grid: tuple[int, int], merge: int) -> Tensor:
    """Tokens of each merge x merge square side by side in one wider token."""
    batch, frames, _, dim = hidden_BTND.shape
    squares = hidden_BTND.reshape(batch, frames, grid[0] // merge, merge, grid[1] // merge, merge, dim)
    return squares.transpose(3, 4).reshape(batch, frames, -1, merge * merge * dim)


def _unmerge(merged_BTMD: Tensor, grid: tuple[int, int], merge: int) -> Tensor:
    batch, frames = merged_BTMD.shape[:2]
    squares = merged_BTMD.reshape(batch, frames, grid[0] // merge, grid[1] // merge, merge, merge, -1)
    return squares.transpose(3, 4).reshape(batch, frames, grid[0] * grid[1], -1)


def _rotary_angles(grid: tuple[int, int], config: ModelConfig) -> Tensor:
    """Rotary phases (M, R) of the merged tokens: half for the column, half for the row."""
    rows, columns = grid[0] // config.merge, grid[1] // config.merge
    count = config.dim // config.heads // 8
    rates = 1.5 * 30 ** (torch.arange(count) / max(1, count - 1))
    x = torch.linspace(-0.75, 0.75, columns).repeat(rows)
    y = torch.linspace(-0.55, 0.55, rows).repeat_interleave(columns)
    return torch.cat([x[:, None] * rates, y[:, None] * rates], -1)


def _rotate(values: Tensor, angles: Tensor) -> Tensor:
    count = angles.shape[-1]
    cos, sin = angles.cos().to(values.dtype), angles.sin().to(values.dtype)
    first, second, rest = values[..., :count], values[..., count:2 * count], values[..., 2 * count:]
    return torch.cat([first * cos - second * sin, first * sin + second * cos, rest], -1)


def _warp(pixels_FCHW: Tensor, flow_F2hw: Tensor, patch: int) -> Tensor:
    """Pixels read at a flow given per token, bilinear in between; the border colour continues outside."""
    height, width = pixels_FCHW.shape[-2:]
    flow = F.interpolate(flow_F2hw * FLOW_SCALE_PX, scale_factor=patch, mode="bilinear", align_corners=False)
    y = torch.arange(height, device=flow.device) + 0.5
    x = torch.arange(width, device=flow.device) + 0.5
    sample = torch.stack([(x + flow[:, 0]) * 2 / width - 1, (y[:, None] + flow[:, 1]) * 2 / height - 1], -1)
    return F.grid_sample(pixels_FCHW, sample, mode="bilinear", padding_mode="border", align_corners=False)
