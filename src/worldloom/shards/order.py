"""Orders as pure functions: how components interleave, and how an epoch is shuffled and split over ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def interleave(sizes: Sequence[Sequence[int]]) -> list[int]:
    """Component of each position, so that every prefix keeps the ratio of the whole.

    `sizes[i]` holds the units of each item of component i, in its order. With equal sizes, a component is never a
    full item away from its share of any prefix (Tijdeman's chairman assignment); with unequal ones the same rule is
    followed with the largest size as the item.
    """
    totals = [sum(s) for s in sizes]
    whole, largest = sum(totals), max((max(s, default=0) for s in sizes), default=0)
    live = [i for i, s in enumerate(sizes) if s]
    slack = max(2 * len(live) - 2, 1)
    taken, used, placed, order = [0] * len(sizes), [0] * len(sizes), 0, []
    while live:
        best = min(live, key=lambda i: _urgency(
            (placed + sizes[i][used[i]]) * totals[i] - taken[i] * whole, totals[i], largest * whole, slack))
        size = sizes[best][used[best]]
        taken[best], used[best], placed = taken[best] + size, used[best] + 1, placed + size
        order.append(best)
        if used[best] == len(sizes[best]):
            live.remove(best)
    return order


def _urgency(lag: int, total: int, item: int, slack: int) -> tuple[int, float]:
    """Sort key: components that lag enough first, the earliest deadline among them; then the largest lag."""
    if lag * slack >= item:
        return 0, (item * (slack - 1) - slack * lag) / total
    return 1, -float(lag)


def order(seed: int, epoch: int, n: int, groups: Sequence[int] | None = None) -> np.ndarray:
    """Permutation of range(n) for one epoch, int64 (n,), the same on every machine.

    With `groups`, samples are shuffled inside their group and the pattern of groups stays, so that a shuffled epoch
    keeps the ratio of the mix in every prefix too.
    """
    rng = np.random.Generator(np.random.Philox(key=[seed % 2**64, epoch]))
    keys = rng.random(n)
    if groups is None:
        return np.argsort(keys, kind="stable")
    out, labels = np.empty(n, np.int64), np.asarray(groups)
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        out[places] = places[np.argsort(keys[places], kind="stable")]
    return out


def rank_part(epoch_order: np.ndarray, position: int, rank: int, world_size: int) -> np.ndarray:
    """What a rank takes after `position` samples of the epoch were taken by all: equally many on every rank."""
    steps = (len(epoch_order) - position) // world_size
    return epoch_order[position + rank::world_size][:steps]
