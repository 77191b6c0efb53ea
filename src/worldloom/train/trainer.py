"""The training loop: windows from a frame bank, one loss, a weight average, and checkpoints that resume exactly."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from worldloom.train.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from worldloom.train.config import TrainConfig
from worldloom.train.data import FrameBank, read_shards
from worldloom.train.models.small import SmallModel
from worldloom.train.objective import add_noise, average_decay, clean_loss, learning_rate, noise_levels
from worldloom.train.rollout import to_pixels

CODEC_FRAMES = 512


def train_model(config: TrainConfig) -> Path:
    """Read the shards, train (or go on from out/checkpoint.pt), and return the path of the checkpoint."""
    torch.set_num_threads(config.threads)
    bank = read_shards(config.shards, config.out / "bank", config.model.height, config.model.width,
                       config.frame_stride)
    return train_on_bank(config, bank)


def train_on_bank(config: TrainConfig, bank: FrameBank) -> Path:
    """Train on frames that are already read; see `train_model`."""
    trainer = Trainer(config, bank)
    if config.resume and trainer.checkpoint_path.is_file():
        trainer.restore(load_checkpoint(trainer.checkpoint_path))
    return trainer.run()


class Trainer:
    """One run: model, optimiser, weight average, and the two generators that make it repeatable."""

    def __init__(self, config: TrainConfig, bank: FrameBank) -> None:
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState

        torch.set_num_threads(config.threads)
        torch.manual_seed(config.seed)
        self.config, self.bank = config, bank
        AcceleratorState._reset_state(reset_partial_state=True)     # an earlier run here may differ in precision
        self.accelerator = Accelerator(cpu=config.device == "cpu", mixed_precision=config.precision)
        self.window = config.model.context + config.model.chunk
        self.starts = bank.starts(self.window)
        motion = bank.motion(self.starts, config.model.context, self.window, config.model.yaw_scale_deg)
        weights = 0.1 + np.minimum(motion, 3)
        self.cumulative = np.cumsum(weights / weights.sum())
        self.sampler = np.random.default_rng(config.seed)
        self.noise = torch.Generator().manual_seed(config.seed)
        model = SmallModel(config.model)
        model.codec.fit(to_pixels(bank.frames_FHWC[None, self._spread(CODEC_FRAMES)])[0])
        optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, betas=(0.9, 0.98),
                                      weight_decay=config.weight_decay)
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.average = [parameter.detach().clone() for parameter in self.model.parameters()]
        self.step_count, self.elapsed_s = 0, 0.0

    @property
    def checkpoint_path(self) -> Path:
        return self.config.out / "checkpoint.pt"

    def progress(self) -> float:
        """Share of the budget that is used, in steps or in training time."""
        if self.config.steps is not None:
            return self.step_count / self.config.steps
        return self.elapsed_s / 60 / float(self.config.minutes or 0)

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """Pixels (B, S + T, 3, H, W) in [-1, 1] and actions (B, S + T, 6) of windows drawn by their motion."""
        picks = np.searchsorted(self.cumulative, self.sampler.random(self.config.batch))
        starts = self.starts[np.minimum(picks, len(self.starts) - 1)]
        frames, actions = self.bank.window(starts, self.window)
        return to_pixels(frames), torch.from_numpy(actions)

    def step(self) -> dict[str, float]:
        """One optimiser step. Returns its loss, the loss of copying the last frame, and the learning rate."""
        pixels, actions = self.next_batch()
        split = self.config.model.context
        context, clean, actions = pixels[:, :split], pixels[:, split:], actions[:, split:]
        batch = len(clean)
        copy_loss = float(clean_loss(context[:, -1:].expand_as(clean), clean))
        strength = torch.rand(batch, 1, 1, 1, 1, generator=self.noise) * self.config.context_noise
        context = context + torch.randn(context.shape, generator=self.noise) * strength
        level = noise_levels(torch.rand(batch, generator=self.noise))
        codec = self.accelerator.unwrap_model(self.model).codec
        device = self.accelerator.device
        latents = codec.encode(clean.flatten(0, 1).to(device)).unflatten(0, clean.shape[:2])
        normal = torch.randn(latents.shape, generator=self.noise) * self.config.model.noise_scale
        noisy = add_noise(latents, normal.to(device), level.to(device))
        rate = learning_rate(self.config.learning_rate, self.step_count, self.progress(), self.config.warmup_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with self.accelerator.autocast():
            predicted = self.model(noisy, context.to(device), level.to(device), actions.to(device))
        loss = clean_loss(predicted, clean.to(device))
        self.optimizer.zero_grad()
        self.accelerator.backward(loss)
        self.accelerator.clip_grad_norm_(self.model.parameters(), self.config.grad_clip)
        self.optimizer.step()
        self.step_count += 1
        self._update_average()
        return {"loss": float(loss.detach()), "copy_loss": copy_loss, "learning_rate": rate}

    def run(self) -> Path:
        """Steps until the budget is used; writes metrics.jsonl and checkpoints on the way."""
        self.config.out.mkdir(parents=True, exist_ok=True)
        last = saved = shown = time.monotonic()
        smooth: dict[str, float] = {}
        while self.progress() < 1:
            figures = self.step()
            now = time.monotonic()
            self.elapsed_s, last = self.elapsed_s + now - last, now
            smooth = {key: 0.95 * smooth.get(key, value) + 0.05 * value for key, value in figures.items()}
            if self.step_count % self.config.log_every == 0:
                self._log(smooth, show=now - shown >= 5)
                shown = now if now - shown >= 5 else shown
            if now - saved >= self.config.save_every_s:
                self.save()
                saved = now
        self._log(smooth, show=True)
        self.save()
        return self.checkpoint_path

    def save(self) -> None:
        """Write out/checkpoint.pt."""
        model = self.accelerator.unwrap_model(self.model)
        state = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
        named = zip((name for name, _ in model.named_parameters()), self.average, strict=True)
        average = state | {name: value.cpu().clone() for name, value in named}
        save_checkpoint(self.checkpoint_path, Checkpoint(
            step=self.step_count, elapsed_s=self.elapsed_s, config_json=self.config.model_dump_json(),
            mix_digest=self.bank.mix, model=state, average=average,
            optimizer=_plain(self.optimizer.state_dict()), sampler_json=json.dumps(self.sampler.bit_generator.state),
            noise_state=self.noise.get_state()))

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint: the next batch and its noise are those the stopped run would have drawn."""
        model = self.accelerator.unwrap_model(self.model)
        model.load_state_dict(checkpoint.model)
        self.optimizer.load_state_dict(checkpoint.optimizer)
        self.average = [checkpoint.average[name].to(value.device) for name, value in model.named_parameters()]
        self.sampler.bit_generator.state = json.loads(checkpoint.sampler_json)
        self.noise.set_state(checkpoint.noise_state)
        self.step_count, self.elapsed_s = checkpoint.step, checkpoint.elapsed_s

    @torch.no_grad()
    def _update_average(self) -> None:
        decay = average_decay(self.step_count, self.config.average_decay)
        for kept, parameter in zip(self.average, self.model.parameters(), strict=True):
            kept.lerp_(parameter.detach(), 1 - decay)

    def _spread(self, count: int) -> np.ndarray:
        return np.unique(np.linspace(0, len(self.bank.frames_FHWC) - 1, count).astype(int))

    def _log(self, figures: dict[str, float], show: bool) -> None:
        line = {"step": self.step_count, "elapsed_s": round(self.elapsed_s, 2), **figures}
        with (self.config.out / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        if show and self.accelerator.is_main_process:
            rate = self.step_count / max(self.elapsed_s, 1e-9)
            left_s = self.elapsed_s / max(self.progress(), 1e-9) - self.elapsed_s
            print(f"train step {self.step_count}  loss {figures.get('loss', 0):.4f} "
                  f"(copy {figures.get('copy_loss', 0):.4f})  {rate:.2f} steps/s  {max(0.0, left_s):.0f} s left",
                  file=sys.stderr, flush=True)


def _plain(state: dict[str, Any]) -> dict[str, Any]:
    """Optimiser state with tensors on the CPU."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_plain(value) for value in state]
    return state.detach().cpu().clone() if isinstance(state, Tensor) else state
