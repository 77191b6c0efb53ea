"""A small latent codec: principal components of picture patches, fitted on data and kept in the checkpoint.

Axes: F frames, C colours, H height, W width, N tokens (patches, row by row), K latent values a token.
Pixels are in [-1, 1]. With K = 3 * patch**2 the round trip is exact; fewer components compress.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PatchCodec(nn.Module):
    """An orthogonal transform of every patch, centred, with one common scale so that noise stays isotropic."""

    def __init__(self, patch: int, components: int, height: int, width: int) -> None:
        super().__init__()
        self.patch, self.grid = patch, (height // patch, width // patch)
        values = 3 * patch**2
        self.register_buffer("mean", torch.zeros(values))
        self.register_buffer("basis", torch.eye(values)[:, :components].contiguous())
        self.register_buffer("scale", torch.ones(()))

    @torch.no_grad()
    def fit(self, pixels_FCHW: Tensor) -> None:
        """Set mean, basis and scale from sample frames (a few hundred are enough)."""
        patches = self._patches(pixels_FCHW).flatten(0, 1).double()
        mean = patches.mean(0)
        centred = patches - mean
        covariance = centred.T @ centred / max(1, len(patches) - 1)
        variance, vectors = torch.linalg.eigh(covariance)
        order = variance.argsort(descending=True)[: self.basis.shape[1]]
        self.mean.copy_(mean)
        self.basis.copy_(vectors[:, order])
        self.scale.copy_((variance.sum() / len(variance)).sqrt().clamp_min(1e-3))

    def encode(self, pixels_FCHW: Tensor) -> Tensor:
        """(F, 3, H, W) pixels -> (F, N, K) latents with about unit variance."""
        return (self._patches(pixels_FCHW) - self.mean) @ self.basis / self.scale

    def decode(self, latents_FNK: Tensor) -> Tensor:
        """(F, N, K) latents -> (F, 3, H, W) pixels, not clipped."""
        patches = (latents_FNK * self.scale) @ self.basis.T + self.mean
        return F.pixel_shuffle(patches.transpose(1, 2).unflatten(2, self.grid), self.patch)

    def psnr(self, pixels_FCHW: Tensor) -> float:
        """Round-trip peak signal-to-noise ratio in dB (100 when exact)."""
        error = (self.decode(self.encode(pixels_FCHW)).clamp(-1, 1) - pixels_FCHW).square().mean() / 4
        return float(-10 * torch.log10(error.clamp_min(1e-10)))

    def _patches(self, pixels_FCHW: Tensor) -> Tensor:
        return F.pixel_unshuffle(pixels_FCHW, self.patch).flatten(2).transpose(1, 2)
