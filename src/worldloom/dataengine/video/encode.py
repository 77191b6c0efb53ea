"""Canonical clips: constant-rate H.264 in MP4, whose bytes depend on the pictures, the sound and the settings only."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace

from worldloom.dataengine.store import publish
from worldloom.dataengine.video.encoders import X264, Encoder, set_up
from worldloom.dataengine.video.sound import LAYOUT, RATE_HZ
from worldloom.schemas import DataError

AUDIO_BITS_PER_S = 128_000
_BT709 = 1
_OPTIONS = {"movflags": "+faststart", "fflags": "+bitexact"}
_INTERLEAVED = {"max_interleave_delta": "0"}      # sound comes last; the packets of one clip wait for it


class ClipWriter:
    """Writes one clip picture by picture into `scratch`; `close` moves it to its place, whole or not at all.

    Width and height must be even. One thread, BT.709 limited range, no B frames; with sound an AAC track beside it.
    Used as a context manager, an error leaves nothing behind.
    """

    def __init__(self, scratch: Path, *, width: int, height: int, rate: Fraction, encoder: Encoder = X264,
                 has_sound: bool = False) -> None:
        if width % 2 or height % 2:
            raise DataError(f"canonical clips need even sides, got {width}x{height}")
        self.scratch, self.size, self.rate, self.num_frames = scratch, (width, height), rate, 0
        scratch.parent.mkdir(parents=True, exist_ok=True)
        options = _OPTIONS | (_INTERLEAVED if has_sound else {})
        self._file = av.open(str(scratch), "w", format="mp4", options=options)
        self._stream: Any = self._file.add_stream(encoder.codec, rate=rate)
        context: Any = self._stream.codec_context
        set_up(context, encoder, width, height, rate)
        context.flags |= av.codec.context.Flags.bitexact
        context.color_range, context.colorspace = ColorRange.MPEG, Colorspace.ITU709
        context.color_primaries = context.color_trc = _BT709
        self._sound = self._sound_stream() if has_sound else None

    def _sound_stream(self) -> Any:
        stream: Any = self._file.add_stream("aac", rate=RATE_HZ, layout=LAYOUT)
        context: Any = stream.codec_context
        context.bit_rate, context.thread_count = AUDIO_BITS_PER_S, 1
        context.flags |= av.codec.context.Flags.bitexact
        return stream

    def __enter__(self) -> ClipWriter:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self.abort()

    @property
    def num_samples(self) -> int:
        """Samples of sound that last as long as the pictures so far."""
        return round(self.num_frames * RATE_HZ / self.rate)

    def write(self, picture: av.VideoFrame) -> None:
        """Append one YUV 4:2:0 picture of the clip's size; its time is the next one of the clip's rate."""
        if (picture.width, picture.height) != self.size or picture.format.name != "yuv420p":
            raise DataError(f"picture is {picture.format.name} {picture.width}x{picture.height}, the clip takes "
                            f"yuv420p {self.size[0]}x{self.size[1]}")
        picture.pts, picture.time_base, picture.pict_type = self.num_frames, 1 / self.rate, 0
        self._encode(self._stream, picture)
        self.num_frames += 1

    def close(self, target: Path, sound: Iterable[np.ndarray] = ()) -> None:
        """Finish the file and rename it to `target` (same disk).

        Args:
            sound: pieces of float32 samples (2, N) in [-1, 1], `num_samples` in all, for a clip with sound.
        """
        self._encode(self._stream, None)
        if self._sound:
            self._write_sound(sound)
        try:
            self._file.close()
        except av.error.FFmpegError as error:
            raise self._refusal(error) from error
        publish(self.scratch, target)

    def _write_sound(self, sound: Iterable[np.ndarray]) -> None:
        at = 0
        for samples_2N in sound:
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples_2N), format="fltp", layout=LAYOUT)
            frame.sample_rate, frame.pts, frame.time_base = RATE_HZ, at, Fraction(1, RATE_HZ)
            at += samples_2N.shape[1]
            self._encode(self._sound, frame)
        if at != self.num_samples:
            raise DataError(f"clip of {self.num_frames} frames has {at} samples of sound, {self.num_samples} wanted")
        self._encode(self._sound, None)

    def _encode(self, stream: Any, frame: av.VideoFrame | av.AudioFrame | None) -> None:
        try:
            self._file.mux(stream.encode(frame))
        except av.error.FFmpegError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: av.error.FFmpegError) -> Exception:
        """A full disk is this machine's fault, and stops the run; anything else is the data's."""
        free_bytes = shutil.disk_usage(self.scratch.parent).free
        if error.errno == errno.ENOSPC or free_bytes < 1 << 20:
            return OSError(errno.ENOSPC, f"{error.strerror} ({free_bytes >> 20} MiB free); make room and run again")
        return DataError(f"encoder failed: {' '.join(str(error).split())[:300]}")

    def abort(self) -> None:
        """Close the file if it is open and remove what it has written."""
        try:
            self._file.close()
        except av.error.FFmpegError:           # what it could not write is removed in any case
            self.num_frames = 0
        self.scratch.unlink(missing_ok=True)
