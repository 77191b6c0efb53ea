"""Canonical clips: constant-rate H.264 in MP4, whose bytes depend on the pictures and the settings only."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np

from worldloom.dataengine.store import publish
from worldloom.schemas import DataError

KEYFRAME_INTERVAL = 48
CRF = 18


def ffmpeg_command(width: int, height: int, rate: Fraction, out: Path) -> list[str]:
    """ffmpeg arguments: RGB pictures on stdin to one clip, one thread, BT.709 limited range, no B frames."""
    import imageio_ffmpeg

    flags = "bicubic+accurate_rnd+full_chroma_int+bitexact"
    convert = f"scale=out_color_matrix=bt709:out_range=tv:flags={flags},format=yuv420p"
    return [
        imageio_ffmpeg.get_ffmpeg_exe(), "-hide_banner", "-loglevel", "error", "-nostdin", "-y",
        "-f", "rawvideo", "-pix_fmt", "rgb24", "-video_size", f"{width}x{height}",
        "-framerate", f"{rate.numerator}/{rate.denominator}", "-i", "pipe:0",
        "-map_metadata", "-1", "-an", "-filter_threads", "1", "-vf", convert,
        "-c:v", "libx264", "-preset", "veryfast", "-crf", str(CRF), "-bf", "0", "-g", str(KEYFRAME_INTERVAL),
        "-threads", "1",
        "-color_range", "tv", "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709",
        "-fps_mode", "passthrough", "-fflags", "+bitexact", "-flags:v", "+bitexact", "-movflags", "+faststart",
        "-f", "mp4", str(out),
    ]


class ClipWriter:
    """Writes one clip picture by picture into `scratch`; `close` moves it to its place, whole or not at all.

    Width and height must be even. Used as a context manager, an error leaves nothing behind.
    """

    def __init__(self, scratch: Path, *, width: int, height: int, rate: Fraction) -> None:
        if width % 2 or height % 2:
            raise DataError(f"canonical clips need even sides, got {width}x{height}")
        self.scratch, self.shape, self.num_frames = scratch, (height, width, 3), 0
        scratch.parent.mkdir(parents=True, exist_ok=True)
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            ffmpeg_command(width, height, rate, scratch), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=self._errors,
        )

    def __enter__(self) -> ClipWriter:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self.abort()

    def write(self, rgb_HWC: np.ndarray) -> None:
        """Append one uint8 RGB picture (H, W, 3) of the clip's size."""
        if rgb_HWC.shape != self.shape or rgb_HWC.dtype != np.uint8:
            raise DataError(f"picture is {rgb_HWC.dtype} {rgb_HWC.shape}, the clip takes uint8 {self.shape}")
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(np.ascontiguousarray(rgb_HWC).data)
        except BrokenPipeError:
            self._refuse(f"encoder stopped: {self._end()}")
        self.num_frames += 1

    def close(self, target: Path) -> None:
        """Finish the file and rename it to `target` (same disk)."""
        message = self._end()
        if self._process.returncode:
            self._refuse(f"encoder failed: {message}")
        publish(self.scratch, target)

    def _refuse(self, message: str) -> None:
        """A full disk or a killed encoder is this machine's fault, and stops the run; anything else is the data's."""
        free_bytes = shutil.disk_usage(self.scratch.parent).free
        if self._process.returncode < 0 or "No space left" in message or free_bytes < 1 << 20:
            raise OSError(f"{message or 'encoder killed'} (exit {self._process.returncode}, "
                          f"{free_bytes >> 20} MiB free); make room and run again")
        raise DataError(message)

    def _end(self) -> str:
        if self._process.stdin and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                self._process.kill()
        self._process.wait()
        if self._errors.closed:
            return ""
        self._errors.seek(0)
        text = " ".join(self._errors.read().decode(errors="replace").split())[-300:]
        self._errors.close()
        return text

    def abort(self) -> None:
        """Stop the encoder if it still runs and remove what it has written."""
        if self._process.poll() is None:
            self._process.kill()
        self._end()
        self.scratch.unlink(missing_ok=True)
