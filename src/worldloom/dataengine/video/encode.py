"""Canonical clips: constant-rate H.264 in MP4, whose bytes depend on the pictures and the settings only."""

from __future__ import annotations

import errno
import shutil
from fractions import Fraction
from pathlib import Path

import av
from av.video.reformatter import ColorRange, Colorspace

from worldloom.dataengine.store import publish
from worldloom.schemas import DataError

KEYFRAME_INTERVAL = 48
CRF = 18
_X264 = {"preset": "veryfast", "crf": str(CRF), "bf": "0", "g": str(KEYFRAME_INTERVAL), "mbtree": "0"}
"""Without macroblock trees: with them one clip in a hundred came out with other bytes in a process used before."""
_BT709 = 1


class ClipWriter:
    """Writes one clip picture by picture into `scratch`; `close` moves it to its place, whole or not at all.

    Width and height must be even. One thread, BT.709 limited range, no B frames. Used as a context manager, an error
    leaves nothing behind.
    """

    def __init__(self, scratch: Path, *, width: int, height: int, rate: Fraction) -> None:
        if width % 2 or height % 2:
            raise DataError(f"canonical clips need even sides, got {width}x{height}")
        self.scratch, self.size, self.rate, self.num_frames = scratch, (width, height), rate, 0
        scratch.parent.mkdir(parents=True, exist_ok=True)
        self._file = av.open(str(scratch), "w", format="mp4", options={"movflags": "+faststart", "fflags": "+bitexact"})
        self._stream = self._file.add_stream("libx264", rate=rate)
        self._stream.options = dict(_X264)
        context = self._stream.codec_context
        context.width, context.height, context.pix_fmt = width, height, "yuv420p"
        context.time_base, context.thread_count = 1 / rate, 1
        context.flags |= av.codec.context.Flags.bitexact
        context.color_range, context.colorspace = ColorRange.MPEG, Colorspace.ITU709
        context.color_primaries = context.color_trc = _BT709

    def __enter__(self) -> ClipWriter:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self.abort()

    def write(self, picture: av.VideoFrame) -> None:
        """Append one YUV 4:2:0 picture of the clip's size; its time is the next one of the clip's rate."""
        if (picture.width, picture.height) != self.size or picture.format.name != "yuv420p":
            raise DataError(f"picture is {picture.format.name} {picture.width}x{picture.height}, the clip takes "
                            f"yuv420p {self.size[0]}x{self.size[1]}")
        picture.pts, picture.time_base, picture.pict_type = self.num_frames, 1 / self.rate, 0
        try:
            self._file.mux(self._stream.encode(picture))
        except av.error.FFmpegError as error:
            raise self._refusal(error) from error
        self.num_frames += 1

    def close(self, target: Path) -> None:
        """Finish the file and rename it to `target` (same disk)."""
        try:
            self._file.mux(self._stream.encode(None))
            self._file.close()
        except av.error.FFmpegError as error:
            raise self._refusal(error) from error
        publish(self.scratch, target)

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
