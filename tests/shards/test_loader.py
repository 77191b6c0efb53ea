"""The loader's order, its split over ranks and workers, and exact resumption."""

from __future__ import annotations

import numpy as np
import pytest
from corpus import video_bytes
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from worldloom.schemas import ConfigError
from worldloom.shards.loader import Loader
from worldloom.shards.order import order
from worldloom.shards.sample import npy
from worldloom.shards.writer import write_tar


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Three shards with 5, 1 and 4 samples."""
    folder, video, number = tmp_path_factory.mktemp("shards"), video_bytes(3, 1), 0
    for s, n in enumerate((5, 1, 4)):
        samples = []
        for _ in range(n):
            samples.append((f"k{number:03d}", {"mp4": video, "actions.npy": npy(np.zeros((3, 6), np.float32)),
                                               "json": b'{"num_frames": 3}'}))
            number += 1
        write_tar(folder / f"s-{s:03d}.tar", samples)
    return folder


def take(loader, count):
    """Keys of `count` samples, over as many epochs as that needs."""
    keys = []
    while True:
        for sample in loader:
            keys.append(sample["key"])
            if len(keys) == count:
                return keys


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_every_rank_takes_the_same_steps_and_no_sample_twice(shards, world_size):
    parts = [[s["key"] for s in Loader(shards, rank=r, world_size=world_size, seed=5)] for r in range(world_size)]
    keys = [key for part in parts for key in part]
    assert {len(part) for part in parts} == {10 // world_size} and len(set(keys)) == len(keys)
    assert world_size > 1 or len(keys) == 10


@settings(deadline=None, max_examples=25)
@given(stop=st.integers(1, 24), rank=st.integers(0, 2), shuffle=st.booleans())
def test_going_on_from_a_state_gives_the_list_of_never_stopping(shards, stop, rank, shuffle):
    def make():
        return Loader(shards, rank=rank, world_size=3, seed=2, shuffle=shuffle)
    whole, first, second = take(make(), 25), make(), make()
    head = take(first, stop)
    second.load_state_dict(first.state_dict())
    assert head + take(second, 25 - stop) == whole


def test_another_number_of_ranks_goes_on_without_a_repeat(shards):
    before = [Loader(shards, rank=r, world_size=2, seed=1) for r in range(2)]
    seen = [key for loader in before for key in take(loader, 2)]
    for r in range(3):
        after = Loader(shards, rank=r, world_size=3)
        after.load_state_dict(before[0].state_dict())
        seen += [sample["key"] for sample in after]
    assert len(seen) == len(set(seen)) == 10


def test_epochs_differ_and_a_seed_fixes_them(shards):
    a, b = Loader(shards, seed=3), Loader(shards, seed=3)
    first, second = take(a, 10), take(a, 10)
    assert first != second and sorted(first) == sorted(second) and take(b, 20)[:10] == first


def test_shuffling_keeps_the_pattern_of_components():
    groups = [0, 0, 1] * 30
    shuffled = order(4, 1, 90, groups)
    assert sorted(shuffled) == list(range(90)) and [groups[i] for i in shuffled] == groups
    assert list(shuffled) != list(range(90))


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
def test_torch_workers_give_the_order_of_none(shards, workers):
    plain = [s["key"] for s in Loader(shards, seed=9, world_size=2)]
    loader = Loader(shards, seed=9, world_size=2)
    data = DataLoader(loader.as_torch(), batch_size=None, num_workers=workers,
                                 multiprocessing_context="fork" if workers else None)
    assert [s["key"] for s in data] == plain


def test_samples_taken_by_workers_can_be_noted(shards):
    noted, plain = Loader(shards, seed=9), Loader(shards, seed=9)
    take(plain, 13)
    noted.advance(13)
    assert noted.state_dict() == plain.state_dict()


def test_a_state_of_other_shards_and_too_many_ranks_are_refused(shards):
    loader = Loader(shards)
    with pytest.raises(ConfigError, match="the state is of shards"):
        loader.load_state_dict(loader.state_dict() | {"digest": "other"})
    with pytest.raises(ConfigError, match="10 samples for 11 ranks"):
        Loader(shards, world_size=11)
