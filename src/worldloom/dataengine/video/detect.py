"""Shot detectors side by side over a stream of pictures: a cut where one of them is sure, and which ones were."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

Item = TypeVar("Item")

NEAR = 2
"""Cuts of two detectors at most this many frames apart are one cut."""


@dataclass(frozen=True)
class Look:
    """What a detector may see of a frame: its time, and the picture at a small (width, height) as uint8 RGB."""
    time_s: float
    thumb: Callable[[int, int], np.ndarray]


class Detector(Protocol):
    """Says of each picture whether a shot starts with it, some pictures late, in order."""
    name: str

    def see(self, look: Look) -> list[bool]: ...
    def finish(self) -> list[bool]: ...


def mark_shots(
    items: Iterable[tuple[Item, Look]], detectors: Sequence[Detector]
) -> Iterator[tuple[Item, str]]:
    """(item, names of the detectors that start a shot with it, joined by "+", or "") for each item.

    Detectors come in order of how exact they are: of cuts that are one, the first one's frame counts. Holds the items
    that the slowest detector has not spoken of, and NEAR more.
    """
    fused = _Fused(detectors)
    waiting: deque[Item] = deque()
    for item, look in items:
        waiting.append(item)
        fused.take([detector.see(look) for detector in detectors])
        while fused.is_decided():
            yield waiting.popleft(), fused.next()
    fused.take([detector.finish() for detector in detectors])
    while waiting:
        yield waiting.popleft(), fused.next()


class _Fused:
    """Cuts of each detector around the next frame to be decided."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self._names = [detector.name for detector in detectors]
        self._known = [0] * len(detectors)
        self._cuts: list[set[int]] = [set() for _ in detectors]
        self._at = 0
        self._ahead = NEAR if len(detectors) > 1 else 0

    def take(self, said: Sequence[Sequence[bool]]) -> None:
        for number, decisions in enumerate(said):
            for is_cut in decisions:
                if is_cut:
                    self._cuts[number].add(self._known[number])
                self._known[number] += 1

    def is_decided(self) -> bool:
        return min(self._known) > self._at + self._ahead

    def next(self) -> str:
        """Names of the detectors whose cut is at the next frame, "" where there is none."""
        at, near = self._at, [any(abs(cut - self._at) <= NEAR for cut in cuts) for cuts in self._cuts]
        leader = next((number for number, cuts in enumerate(self._cuts) if at in cuts), None)
        self._at += 1
        self._cuts = [{cut for cut in cuts if cut >= self._at - NEAR} for cuts in self._cuts]
        if leader is None or any(near[:leader]):
            return ""
        return "+".join(name for name, is_near in zip(self._names, near, strict=True) if is_near)
