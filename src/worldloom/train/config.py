"""What a training run is told: the model's shape and the run's data, budget and seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from worldloom.schemas.config import load_config as read_config


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ModelConfig(_Config):
    """Shape of the small chunk transformer. The degree scales are part of the model: a checkpoint carries them."""
    height: int = Field(48, ge=8)
    width: int = Field(64, ge=8)
    patch: int = Field(4, ge=1)                 # pixels a side of one token
    components: int = Field(48, ge=1)           # latent values a token; 3 * patch**2 is exact
    dim: int = Field(96, ge=8)
    blocks: int = Field(6, ge=1)
    heads: int = Field(4, ge=1)
    chunk: int = Field(4, ge=1)                 # frames denoised together
    context: int = Field(2, ge=1)               # clean frames before a chunk
    attention_every: int = Field(2, ge=1)       # attention in every n-th block
    merge: int = Field(2, ge=1)                 # attention sees merge x merge tokens as one
    adaln_actions: bool = True                  # actions also modulate the norms, besides the MLP before each FFN
    running_sum: bool = True                    # features of the actions summed since the last clean frame
    warp_head: bool = True                      # flow + gate on the last clean frame; off: last frame plus a residual
    noise_scale: float = Field(4.0, gt=0)       # spread of full noise in latents of unit variance: hides detail longer
    yaw_scale_deg: float = Field(6.0, gt=0)     # one unit of yaw inside the model
    pitch_scale_deg: float = Field(4.0, gt=0)

    @model_validator(mode="after")
    def _fits(self) -> ModelConfig:
        step = self.patch * self.merge
        if self.height % step or self.width % step:
            raise ValueError(f"{self.width}x{self.height} is not a multiple of patch * merge = {step}")
        if self.components > 3 * self.patch**2:
            raise ValueError(f"components {self.components} exceed the {3 * self.patch**2} values of a patch")
        if self.dim % self.heads or self.dim // self.heads < 8:
            raise ValueError(f"dim {self.dim} does not split into {self.heads} heads of 8 or more")
        return self


class TrainConfig(_Config):
    """One training run. Exactly one of `minutes` and `steps` is the budget; the learning rate follows it."""
    shards: tuple[Path, ...]                    # packed shard folders; several are read one after the other
    out: Path                                   # checkpoint, metrics and frame bank go here
    minutes: float | None = Field(None, gt=0)
    steps: int | None = Field(None, ge=1)
    batch: int = Field(8, ge=1)                 # chunks a step
    learning_rate: float = Field(2e-3, gt=0)
    warmup_steps: int = Field(50, ge=0)
    weight_decay: float = Field(0.01, ge=0)
    grad_clip: float = Field(1.0, gt=0)
    context_noise: float = Field(0.06, ge=0)    # largest noise put on context frames, in units of [-1, 1] pixels
    average_decay: float = Field(0.99, ge=0, lt=1)
    frame_stride: int = Field(1, ge=1)          # train on every n-th frame; the actions between are composed
    seed: int = Field(0, ge=0)
    threads: int = Field(1, ge=1)               # more threads than free cores is many times slower
    precision: Literal["no", "bf16"] = "bf16"
    device: Literal["auto", "cpu"] = "auto"
    log_every: int = Field(20, ge=1)            # steps between lines of metrics.jsonl
    save_every_s: float = Field(120.0, gt=0)
    resume: bool = True                         # continue from out/checkpoint.pt when it is there
    model: ModelConfig = ModelConfig()

    @field_validator("shards", mode="before")
    @classmethod
    def _one_folder(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str | Path) else value

    @model_validator(mode="after")
    def _one_budget(self) -> TrainConfig:
        if (self.minutes is None) == (self.steps is None):
            raise ValueError("give exactly one of minutes and steps")
        if not self.shards:
            raise ValueError("shards: name at least one folder")
        return self


def load_config(path: Path) -> TrainConfig:
    """Read a YAML training configuration; relative paths in it count from the file's folder.

    Raises:
        ConfigError: the file is missing, is not YAML, or does not describe a run.
    """
    config = read_config(path, TrainConfig)
    base = path.resolve().parent
    return config.model_copy(update={"shards": tuple(base / folder for folder in config.shards),
                                     "out": base / config.out})
