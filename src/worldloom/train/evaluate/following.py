"""Does a model follow its commands? Turns are measured on the generated pixels and compared with what was asked.

Axes: B clips, T generated frames, S context frames, H height, W width, C colours. The estimator is checked on the true
frames first; then come true commands, commands of other clips, negated commands, and one constant command for all.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from worldloom.train.data import FrameBank, read_shards
from worldloom.train.evaluate.yaw import yaw_track
from worldloom.train.models.small import SmallModel
from worldloom.train.rollout import rollout

COUNTERFACTUAL_DEG = (-6.0, -3.0, 0.0, 3.0, 6.0)
WALKING_PENALTY = 6.0      # a window that walks all the time is drawn 400 times less often
SMALLEST_ERROR = 1e-3      # squared grey levels: keeps the PSNR of an exact copy finite


@dataclass(frozen=True)
class TestClips:
    """Windows to roll out from: context and true frames, the true commands, the camera of each."""
    __test__ = False
    context_BSHWC: np.ndarray
    frames_BTHWC: np.ndarray
    actions_BT6: np.ndarray
    intrinsics_B4: np.ndarray


def evaluate_following(checkpoint: Path, shards_dir: Path, clips: int = 64, frames: int = 8, *, steps: int = 1,
                       out: Path | None = None, seed: int = 1) -> dict[str, Any]:
    """Measure command following of a checkpoint on packed shards it was not trained on.

    Writes evaluation.json, following.npz and following.png to `out` (default: evaluation/ beside the checkpoint) and
    returns the figures. The `steps` are sampling steps a chunk.
    """
    import torch

    from worldloom.train.checkpoint import load_model
    from worldloom.train.evaluate.card import write_card
    from worldloom.train.evaluate.strips import write_strips

    model, state = load_model(checkpoint)
    config = json.loads(state.config_json)
    torch.set_num_threads(config["threads"])
    folder = Path(out) if out else Path(checkpoint).parent / "evaluation"
    folder.mkdir(parents=True, exist_ok=True)
    test = _read_clips(model, Path(shards_dir), frames, clips, seed, config["frame_stride"])
    figures, arrays = measure_following(model, test, steps=steps, seed=seed)
    np.savez_compressed(folder / "following.npz", **arrays)
    write_strips(folder / "following.png", test, arrays["generated_BTHWC"], arrays["measured_deg_BT"])
    write_card(folder / "evaluation.json", figures, checkpoint, state)
    return figures


def rollout_strips(checkpoint: Path, shards_dir: Path, out: Path, *, clips: int = 6, frames: int = 8, steps: int = 1,
                   seed: int = 1) -> Path:
    """Draw rollouts from true frames under the true commands beside the truth; returns `out`."""
    from worldloom.train.checkpoint import load_model
    from worldloom.train.evaluate.strips import write_strips

    model, state = load_model(checkpoint)
    stride = json.loads(state.config_json)["frame_stride"]
    test = _read_clips(model, Path(shards_dir), frames, clips, seed, stride)
    made = _roll(model, test, test.actions_BT6, steps)
    write_strips(out, test, made, _measure(test, made), rows=clips)
    return out


def choose_clips(bank: FrameBank, context: int, frames: int, clips: int, seed: int) -> TestClips:
    """Windows drawn towards turning and away from walking, at most one from any stretch of context + frames.

    A step past a near wall looks like a turn to any estimator of pure rotation; `estimator_r` on the true frames of
    the chosen windows says how far the scores can be read.
    """
    length = context + frames
    starts = bank.starts(length)
    index = starts[:, None] + np.arange(context, length)
    turning = np.abs(bank.actions_F6[index, 1]).mean(1) + 0.05
    walking = bank.actions_F6[index, 2:4].any(-1).mean(1)
    turning *= np.exp(-WALKING_PENALTY * walking)
    order = np.random.default_rng(seed).choice(len(starts), len(starts), replace=False, p=turning / turning.sum())
    picked: list[int] = []
    for start in starts[order]:
        if all(abs(start - other) >= length for other in picked):
            picked.append(int(start))
        if len(picked) == clips:
            break
    chosen = np.array(picked)
    pictures, actions = bank.window(chosen, length)
    return TestClips(pictures[:, :context], pictures[:, context:], actions[:, context:],
                     bank.intrinsics_N4[bank.clip_F[chosen]])


def validate_estimator(test: TestClips) -> dict[str, float]:
    """The estimator on true frames against true commands: the ceiling of every other figure."""
    fit = _fit(test.actions_BT6[..., 1], _measure(test, test.frames_BTHWC))
    return {"estimator_r": fit[0], "estimator_slope": fit[1]}


def measure_following(model: SmallModel, test: TestClips, *, steps: int = 1,
                      seed: int = 1) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Figures and the arrays behind them; see the module's first lines for what is compared."""
    commands = test.actions_BT6[..., 1]
    made = _roll(model, test, test.actions_BT6, steps)
    measured = _measure(test, made)
    figures: dict[str, Any] = {"clips": len(commands), "frames": commands.shape[1], "sampling_steps": steps}
    figures |= validate_estimator(test)
    figures["yaw_r"], figures["yaw_slope"] = _fit(commands, measured)
    figures["per_frame_r"] = [_fit(commands[:, t], measured[:, t])[0] for t in range(commands.shape[1])]
    chunk = min(model.config.chunk, commands.shape[1])
    figures["per_position_r"] = [_fit(commands[:, t::chunk], measured[:, t::chunk])[0] for t in range(chunk)]
    figures |= _controls(model, test, steps, seed)
    counterfactual = counterfactual_means(model, test, steps)
    figures["counterfactual_deg"] = {f"{command:g}": mean for command, mean in counterfactual.items()}
    figures["counterfactual_spread_deg"] = counterfactual[6.0] - counterfactual[-6.0]
    figures |= {"psnr": _psnr(made, test.frames_BTHWC),
                "psnr_copy": _psnr(np.repeat(test.context_BSHWC[:, -1:], commands.shape[1], 1), test.frames_BTHWC)}
    return figures, {"generated_BTHWC": made, "true_BTHWC": test.frames_BTHWC, "context_BSHWC": test.context_BSHWC,
                     "actions_BT6": test.actions_BT6, "measured_deg_BT": measured}


def counterfactual_means(model: SmallModel, test: TestClips, steps: int = 1) -> dict[float, float]:
    """Mean measured yaw when every clip gets one constant yaw command and nothing else."""
    means = {}
    for command in COUNTERFACTUAL_DEG:
        actions = np.zeros_like(test.actions_BT6)
        actions[..., 1] = command
        actions[..., 4] = test.actions_BT6[..., 4]
        means[command] = float(_measure(test, _roll(model, test, actions, steps)).mean())
    return means


def _controls(model: SmallModel, test: TestClips, steps: int, seed: int) -> dict[str, float]:
    """Wrong commands: those of another clip, and the negated ones."""
    order = np.random.default_rng(seed).permutation(len(test.actions_BT6))
    shuffled = test.actions_BT6[np.roll(order, 1)[np.argsort(order)]]       # a cycle: no clip keeps its own
    turned = _measure(test, _roll(model, test, shuffled, steps))
    negated = test.actions_BT6 * np.array([-1, -1, -1, -1, 1, 1], np.float32)
    return {"shuffled_r": _fit(test.actions_BT6[..., 1], turned)[0],
            "shuffled_commands_r": _fit(shuffled[..., 1], turned)[0],
            "psnr_negated": _psnr(_roll(model, test, negated, steps), test.frames_BTHWC)}


def _read_clips(model: SmallModel, shards_dir: Path, frames: int, clips: int, seed: int,
                stride: int) -> TestClips:
    """Test windows of packed shards; the frame bank is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        bank = read_shards([shards_dir], Path(folder), model.config.height, model.config.width, stride)
        return choose_clips(bank, model.config.context, frames, clips, seed)


def _roll(model: SmallModel, test: TestClips, actions_BT6: np.ndarray, steps: int) -> np.ndarray:
    return rollout(model, test.context_BSHWC, actions_BT6, steps=steps, seed=0)


def _measure(test: TestClips, frames_BTHWC: np.ndarray) -> np.ndarray:
    """(B, T) yaw into each frame, the first one from the last context frame."""
    joined = np.concatenate([test.context_BSHWC[:, -1:], frames_BTHWC], 1)
    return np.stack([yaw_track(clip, tuple(camera)) for clip, camera in zip(joined, test.intrinsics_B4, strict=True)])


def _fit(asked: np.ndarray, got: np.ndarray) -> tuple[float, float]:
    """Pearson r and least-squares slope of `got` on `asked`; zeros when either does not vary."""
    asked, got = np.ravel(asked).astype(np.float64), np.ravel(got).astype(np.float64)
    a, b = asked - asked.mean(), got - got.mean()
    if a @ a < 1e-12 or b @ b < 1e-12:
        return 0.0, 0.0
    return float(a @ b / np.sqrt((a @ a) * (b @ b))), float(a @ b / (a @ a))


def _psnr(made_BTHWC: np.ndarray, true_BTHWC: np.ndarray) -> float:
    """Mean over frame positions of the PSNR of all clips at that position, dB."""
    error = ((made_BTHWC.astype(np.float32) - true_BTHWC) ** 2).mean((0, 2, 3, 4))
    return float((10 * np.log10(255**2 / np.maximum(error, SMALLEST_ERROR))).mean())
