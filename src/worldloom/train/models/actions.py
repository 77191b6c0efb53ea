"""Actions as a model sees them: an embedding per frame, and features of the running sum.

Axes: B batch, T frames, 6 action columns (pitch_deg, yaw_deg, longitudinal, lateral, perspective, jump), D width.
Row t is the motion from frame t-1 to frame t; yaw is right positive, pitch up positive, uncertain entries are 0.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

PITCH, YAW, LONGITUDINAL, LATERAL, PERSPECTIVE, JUMP = range(6)
NUM_FEATURES = 5 * 3


def scale_actions(actions_BT6: Tensor, yaw_scale_deg: float, pitch_scale_deg: float) -> Tensor:
    """Degrees to model units by fixed constants, cut at 6 units (pixels cannot show more)."""
    scale = actions_BT6.new_tensor([pitch_scale_deg, yaw_scale_deg, 1, 1, 1, 1])
    return (actions_BT6 / scale).clamp(-6, 6)


class ActionEmbedding(nn.Module):
    """Six action columns to one vector: an MLP on pitch and yaw plus four tables, summed.

    The tables start with the spread the continuous branch has on typical turns, so that all six columns start equally
    strong.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.continuous = nn.Sequential(nn.Linear(2, 256), nn.SiLU(), nn.Linear(256, 1024), nn.SiLU(),
                                        nn.Linear(1024, dim))
        self.tables = nn.ModuleList(nn.Embedding(size, dim) for size in (3, 3, 2, 2))
        with torch.no_grad():
            std_D = self.continuous(torch.randn(1024, 2)).std(0)
            for table in self.tables:
                table.weight.copy_(torch.randn_like(table.weight) * std_D)

    def forward(self, scaled_BT6: Tensor) -> Tensor:
        """(B, T, 6) scaled actions -> (B, T, D)."""
        total = self.continuous(scaled_BT6[..., [PITCH, YAW]])
        columns = (LONGITUDINAL, LATERAL, PERSPECTIVE, JUMP)
        for table, column, offset in zip(self.tables, columns, (1, 1, 0, 0), strict=True):
            index = (scaled_BT6[..., column].round().long() + offset).clamp(0, table.num_embeddings - 1)
            total = total + table(index)
        return total


def _waves(values: Tensor) -> Tensor:
    return torch.cat([values, 2 * values.sin(), (2 * values).cos()], -1)


def action_features(scaled_BT6: Tensor, running_sum: bool) -> Tensor:
    """Smooth features of each frame's own action and, when asked, of half the sum since the last clean frame.

    Without the sum a jointly denoised chunk moves its first frame only. (B, T, 6) -> (B, T, 15 or 30).
    """
    motion = scaled_BT6[..., [PITCH, YAW, LONGITUDINAL, LATERAL, JUMP]] * scaled_BT6.new_tensor([2, 2, 1, 1, 1])
    if not running_sum:
        return _waves(motion)
    return torch.cat([_waves(motion), _waves(motion.cumsum(1) / 2)], -1)


class ActionMLP(nn.Module):
    """h + F(concat(h, e)), F = Linear, SiLU, Linear with the last layer zero: at the start actions change nothing."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.from_hidden = nn.Linear(dim, dim)      # Linear(concat(h, e)) as two products: e is one row a frame
        self.from_action = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, hidden_BTND: Tensor, action_BTD: Tensor) -> Tensor:
        mixed = self.from_hidden(hidden_BTND) + self.from_action(action_BTD)[:, :, None]
        return hidden_BTND + self.out(nn.functional.silu(mixed))
