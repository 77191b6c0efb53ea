"""Reading shards: a pure order, an equal share for every rank, and exact resumption."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from worldloom.schemas import ConfigError, DataError
from worldloom.shards.index import Entry, read_index, shards_folder
from worldloom.shards.order import order, rank_part
from worldloom.shards.sample import LoadedSample, read_members

log = logging.getLogger(__name__)


class Loader:
    """Iterates one epoch of the samples of `shards_dir` at a time, from where it stands.

    Every rank takes the same number of samples, and no sample is taken twice in an epoch; what does not divide by
    `world_size` is left for other epochs. `problems` lists what was left out and why.
    """

    def __init__(self, shards_dir: Path | str, *, rank: int = 0, world_size: int = 1, seed: int = 0,
                 shuffle: bool = True) -> None:
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank {rank} of {world_size}; ranks count from 0")
        self.folder, self.rank, self.world_size = shards_folder(Path(shards_dir)), rank, world_size
        self.seed, self.shuffle, self.epoch, self.position = seed, shuffle, 0, 0
        index = read_index(self.folder)
        self.entries, self.digest, self.problems = index.entries, index.digest, index.problems
        for problem in self.problems:
            log.warning("%s", problem)
        if len(self.entries) < world_size:
            raise ConfigError(f"{self.folder}: {len(self.entries)} samples for {world_size} ranks")
        names = sorted({entry.component for entry in self.entries})
        self._groups = [names.index(entry.component) for entry in self.entries]

    def __len__(self) -> int:
        """Samples of this rank in an epoch."""
        return len(self.entries) // self.world_size

    def epoch_order(self, epoch: int) -> np.ndarray:
        n = len(self.entries)
        return order(self.seed, epoch, n, self._groups) if self.shuffle else np.arange(n)

    def __iter__(self) -> Iterator[LoadedSample]:
        worker, workers, inside = _worker()
        part = rank_part(self.epoch_order(self.epoch), self.position, self.rank, self.world_size)
        for place in range(worker, len(part), workers):
            sample = self.read(int(part[place]))
            if not inside:
                self.position += self.world_size
            yield sample
        if not inside:
            self.epoch, self.position = self.epoch + 1, 0

    def read(self, number: int) -> LoadedSample:
        """Sample `number` of the index.

        Raises:
            DataError: the sample cannot be read; the message names shard, key and member.
        """
        entry = self.entries[number]
        try:
            return read_members(entry.key, self._members(entry))
        except DataError as error:
            raise DataError(f"{entry.shard}: {error}") from None

    def _members(self, entry: Entry) -> dict[str, bytes]:
        members = {}
        with (self.folder / entry.shard).open("rb") as file:
            for suffix, (offset, size) in entry.members.items():
                file.seek(offset)
                members[suffix] = file.read(size)
                if len(members[suffix]) != size:
                    raise DataError(f"sample {entry.key}: member {entry.key}.{suffix} is cut short")
        return members

    def advance(self, samples: int) -> None:
        """Note `samples` taken by this rank through worker processes, which keep their own count."""
        steps = self.position // self.world_size + samples
        self.epoch, steps = self.epoch + steps // len(self), steps % len(self)
        self.position = steps * self.world_size

    def state_dict(self) -> dict[str, Any]:
        """Where all ranks stand: `position` counts samples taken by all of them in this epoch."""
        return {"epoch": self.epoch, "position": self.position, "seed": self.seed, "digest": self.digest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, with any number of ranks.

        Raises:
            ConfigError: the state is of other shards.
        """
        if state["digest"] != self.digest:
            raise ConfigError(f"{self.folder}: the state is of shards {state['digest']}, these are {self.digest}")
        self.epoch, self.position, self.seed = int(state["epoch"]), int(state["position"]), int(state["seed"])
        if self.position >= len(self) * self.world_size:
            self.epoch, self.position = self.epoch + 1, 0

    def as_torch(self) -> Any:
        """This loader as a torch IterableDataset, for a program that has imported torch."""
        if "torch" not in sys.modules:
            raise ConfigError("import torch before as_torch()")
        base = sys.modules["torch"].utils.data.IterableDataset
        return type("TorchLoader", (base,), {"__iter__": lambda _: iter(self), "__len__": lambda _: len(self)})()


def _worker() -> tuple[int, int, bool]:
    """(number, count, inside one) of the torch worker process this runs in."""
    torch = sys.modules.get("torch")
    info = torch.utils.data.get_worker_info() if torch is not None else None
    return (info.id, info.num_workers, True) if info is not None else (0, 1, False)
