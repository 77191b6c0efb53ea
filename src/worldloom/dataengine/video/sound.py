"""The sound of a video on the clock of its pictures: 48 kHz stereo from any time on, silence where there is none."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import av
import numpy as np
from av.container import InputContainer

from worldloom.dataengine.video.container import opened

RATE_HZ = 48_000
LAYOUT = "stereo"
_PIECE = 1024
_SLACK_S = 0.01
"""Frames of sound this far from where their neighbour ended stand where their own time says; nearer ones adjoin it:
half an AAC frame, and more than the rounding of times to milliseconds."""
_KEPT = RATE_HZ          # a clip may begin a little before the one before it ended

Piece = tuple[int, np.ndarray]
"""First sample on the video's clock (time times RATE_HZ), and float32 samples (2, N)."""


@dataclass
class _Run:
    """Frames of sound that adjoin each other, in one format: where the next sample belongs."""
    like: tuple[int, str, str]
    at: int
    end_s: float
    resampler: av.AudioResampler = field(
        default_factory=lambda: av.AudioResampler(format="fltp", layout=LAYOUT, rate=RATE_HZ))

    def pieces(self, frame: av.AudioFrame | None) -> Iterator[Piece]:
        """What comes out for a frame, or at the end of the run for None; nothing where it cannot be converted."""
        try:
            converted = self.resampler.resample(frame)
        except (av.error.FFmpegError, ValueError):      # as a packet that does not decode: it becomes silence
            return
        for out in converted:
            samples_2N = out.to_ndarray()
            yield self.at, samples_2N
            self.at += samples_2N.shape[1]


def sound_pieces(path: Path) -> Generator[Piece, None, None]:
    """The sound of a file's first audio stream, in order; nothing where it has none or none of it decodes.

    Raises:
        DecodeError: the file cannot be opened.
    """
    run: _Run | None = None
    with opened(path) as container:
        for frame in _frames(container):
            like = (frame.sample_rate, frame.format.name, frame.layout.name)
            time_s = run.end_s if frame.time is None and run else frame.time or 0.0
            if run is None or run.like != like or abs(time_s - run.end_s) > _SLACK_S:
                if run:
                    yield from run.pieces(None)
                run = _Run(like, round(time_s * RATE_HZ), time_s)
            run.end_s = run.end_s + frame.samples / frame.sample_rate
            frame.pts = None
            yield from run.pieces(frame)
        if run:
            yield from run.pieces(None)


def _frames(container: InputContainer) -> Iterator[av.AudioFrame]:
    """What decodes of the first audio stream; packets that do not are passed over, and become silence."""
    stream = next((s for s in container.streams.audio if s.codec_context is not None), None)
    if stream is None:
        return
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets)
        except (StopIteration, av.error.FFmpegError, OSError):
            return
        try:
            frames = packet.decode()
        except (av.error.FFmpegError, ValueError):
            continue
        yield from (frame for frame in frames if isinstance(frame, av.AudioFrame) and frame.sample_rate)


class Sound:
    """Cuts from the sound of one video, in order of their starts; holds a second of it, not the video's."""

    def __init__(self, pieces: Generator[Piece, None, None]) -> None:
        self._pieces = pieces
        self._held: deque[Piece] = deque()
        self.is_there = self._more()

    def cut(self, start_s: float, num_samples: int) -> Iterator[np.ndarray]:
        """Samples (2, N) from a time on, `num_samples` in all, in pieces; starts may not go back by over a second."""
        at = round(start_s * RATE_HZ)
        stop = at + num_samples
        for first, samples_2N in self._from(at):
            if first >= stop:
                break
            skipped = max(0, at - first)
            if skipped < samples_2N.shape[1]:
                yield from _silence(first + skipped - at)
                part = samples_2N[:, skipped:stop - first]
                yield part
                at = first + skipped + part.shape[1]
        yield from _silence(stop - at)

    def _from(self, at: int) -> Iterator[Piece]:
        """Held pieces, then new ones, which are held until they lie a second back."""
        yield from list(self._held)
        while self._more():
            while self._held and _end(self._held[0]) < max(at, self._held[-1][0]) - _KEPT:
                self._held.popleft()
            yield self._held[-1]

    def _more(self) -> bool:
        piece = next(self._pieces, None)
        if piece is not None:
            self._held.append(piece)
        return piece is not None

    def close(self) -> None:
        self._pieces.close()


def _end(piece: Piece) -> int:
    return piece[0] + piece[1].shape[1]


def _silence(num_samples: int) -> Iterator[np.ndarray]:
    while num_samples > 0:
        yield np.zeros((2, min(num_samples, _PIECE)), np.float32)
        num_samples -= _PIECE
