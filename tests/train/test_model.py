"""The small model: what its actions, chunks and codec promise."""

from __future__ import annotations

import numpy as np
import panorama
import pytest
import torch

from worldloom.train.config import ModelConfig
from worldloom.train.models.actions import ActionEmbedding, ActionMLP, action_features
from worldloom.train.models.codec import PatchCodec
from worldloom.train.models.small import SmallModel
from worldloom.train.rollout import rollout, to_frames, to_pixels


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def awake_model(**changes: object) -> SmallModel:
    """A model whose zero layers are set, as after training."""
    model = SmallModel(ModelConfig(dim=32, blocks=2, **changes)).eval()
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.2)
    return model


def chunk_inputs(model: SmallModel) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    noisy = torch.randn(2, 4, model.grid[0] * model.grid[1], model.config.components)
    return noisy, torch.rand(2, 2, 3, 48, 64) * 2 - 1, torch.tensor([1.0, 0.4])


def test_discrete_tables_start_with_the_spread_of_the_continuous_branch() -> None:
    embedding = ActionEmbedding(64)
    spread = float(embedding.continuous(torch.randn(4096, 2)).detach().std(0).mean())
    weights = torch.cat([table.weight.detach() for table in embedding.tables])
    assert float(weights.square().mean().sqrt()) == pytest.approx(spread, rel=0.2)


def test_every_action_column_changes_the_embedding() -> None:
    embedding, rest = ActionEmbedding(16), torch.zeros(1, 1, 6)
    for column in range(6):
        moved = rest.clone()
        moved[..., column] = 1
        assert not torch.allclose(embedding(moved), embedding(rest))


def test_a_new_action_mlp_ignores_its_action() -> None:
    layer, hidden = ActionMLP(16), torch.randn(2, 3, 5, 16)
    assert torch.equal(layer(hidden, torch.randn(2, 3, 16)), hidden)


def test_a_new_model_ignores_actions_even_with_a_live_head() -> None:
    model = SmallModel(ModelConfig(dim=32, blocks=2)).eval()
    torch.nn.init.normal_(model.head.weight)
    noisy, context, level = chunk_inputs(model)
    still, turning = torch.zeros(2, 4, 6), torch.full((2, 4, 6), 1.0)
    assert torch.equal(model(noisy, context, level, still), model(noisy, context, level, turning))


@pytest.mark.parametrize("adaln_actions", [True, False])
def test_a_trained_model_reads_actions_with_and_without_modulation(adaln_actions: bool) -> None:
    model = awake_model(adaln_actions=adaln_actions)
    noisy, context, level = chunk_inputs(model)
    still, turning = torch.zeros(2, 4, 6), torch.full((2, 4, 6), 1.0)
    assert not torch.allclose(model(noisy, context, level, still), model(noisy, context, level, turning))


def test_the_running_sum_adds_up_over_the_chunk() -> None:
    constant = torch.zeros(1, 4, 6)
    constant[..., 1] = 0.25
    summed = action_features(constant, running_sum=True)[0, :, 16]     # the yaw column of the sum's features
    assert torch.allclose(summed, 0.25 * torch.tensor([1.0, 2.0, 3.0, 4.0]))


def test_a_new_model_shows_mostly_the_last_clean_frame() -> None:
    model = SmallModel(ModelConfig(dim=32, blocks=2)).eval()
    noisy, context, level = chunk_inputs(model)
    made = model(noisy, context, level, torch.zeros(2, 4, 6))
    share = 1 / (1 + np.exp(-2.0))
    assert torch.allclose(made, share * context[:, -1:].expand_as(made), atol=1e-5)


def test_without_the_warp_head_a_new_model_copies_the_last_frame() -> None:
    model = SmallModel(ModelConfig(dim=32, blocks=2, warp_head=False)).eval()
    noisy, context, level = chunk_inputs(model)
    assert torch.allclose(model(noisy, context, level, torch.zeros(2, 4, 6)), context[:, -1:], atol=1e-6)


def test_a_later_chunk_never_changes_an_earlier_one() -> None:
    model, rng = awake_model(), np.random.default_rng(0)
    context = rng.integers(0, 255, (2, 2, 48, 64, 3), dtype=np.uint8)
    actions = rng.normal(0, 3, (2, 8, 6)).astype(np.float32)
    changed = actions.copy()
    changed[:, 4:] = -changed[:, 4:] + 1
    first, second = rollout(model, context, actions), rollout(model, context, changed)
    assert np.array_equal(first[:, :4], second[:, :4])
    assert not np.array_equal(first[:, 4:], second[:, 4:])


def test_a_rollout_stops_inside_a_chunk_and_repeats_by_seed() -> None:
    model = awake_model()
    context, actions = np.full((1, 1, 48, 64, 3), 90, np.uint8), np.ones((1, 6, 6), np.float32)
    made = rollout(model, context, actions, seed=3)
    assert made.shape == (1, 6, 48, 64, 3)
    assert np.array_equal(made, rollout(model, context, actions, seed=3))
    assert not np.array_equal(made, rollout(model, context, actions, seed=4))


def test_the_codec_is_exact_with_all_components_and_good_with_a_third(tmp_path) -> None:
    frames = to_pixels(panorama.bank(tmp_path, 4).frames_FHWC[None])[0]
    exact, small = PatchCodec(4, 48, 48, 64), PatchCodec(4, 16, 48, 64)
    for codec in (exact, small):
        codec.fit(frames[::2])
    assert exact.psnr(frames) > 90
    assert 30 < small.psnr(frames) < exact.psnr(frames)
    assert float(small.encode(frames).std()) > 0.5


def test_pixels_and_frames_convert_without_loss() -> None:
    frames = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16, 1).repeat(3, -1)
    assert np.array_equal(to_frames(to_pixels(frames)), frames)


def test_a_size_that_does_not_split_into_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of patch"):
        ModelConfig(width=60)
