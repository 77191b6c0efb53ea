"""Small videos whose pictures say which frame they are: 12 black or white cells on the top 16 rows."""

from __future__ import annotations

import subprocess
from fractions import Fraction
from pathlib import Path

import imageio_ffmpeg
import numpy as np

CELLS, CODE_ROWS = 12, 16


def picture(number: int, width: int = 160, height: int = 96, look: int = 0) -> np.ndarray:
    """RGB picture (H, W, 3) that shows `number`; another `look` is another scene."""
    x, y = np.arange(width)[None, :], np.arange(height)[:, None]
    wave = 0.5 + 0.5 * np.sin((x + 2 * number) / (9.0 + 5 * look) + look * y / 13.0)
    tint = np.array([(90, 160, 60), (180, 60, 120), (60, 90, 200), (200, 190, 60)][look % 4])
    rgb = (wave[..., None] * tint + 25 * look).clip(0, 255).astype(np.uint8)
    for cell in range(CELLS):
        lit = (number >> (CELLS - 1 - cell)) & 1
        rgb[:CODE_ROWS, cell * width // CELLS:(cell + 1) * width // CELLS] = 255 * lit
    rgb[height - 16:, :16] = (255, 0, 0)
    return rgb


def read_number(rgb: np.ndarray) -> int:
    """The number shown by an upright picture, RGB or gray, of any size."""
    gray = rgb if rgb.ndim == 2 else rgb.mean(axis=2)
    rows = gray[max(1, gray.shape[0] // 24):max(2, gray.shape[0] // 8)]
    number, width = 0, gray.shape[1]
    for cell in range(CELLS):
        middle = rows[:, int((cell + 0.3) * width / CELLS):max(1, int((cell + 0.7) * width / CELLS))]
        number = number * 2 + int(middle.mean() > 127)
    return number


def ffmpeg(*args: str | Path, data: bytes | None = None) -> None:
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *map(str, args)]
    done = subprocess.run(command, input=data, capture_output=True)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-800:]


H264 = ("-c:v", "libx264", "-preset", "veryfast", "-crf", "18", "-pix_fmt", "yuv420p")


def write_video(
    path: Path, pictures: list[np.ndarray], *, fps: int | Fraction = 24, codec: tuple[str, ...] = H264,
    extra: tuple[str, ...] = (),
) -> Path:
    """Encode RGB pictures; `extra` are ffmpeg output arguments."""
    height, width = pictures[0].shape[:2]
    ffmpeg("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-", *codec,
           "-g", "12", "-threads", "1", *extra, path, data=b"".join(p.tobytes() for p in pictures))
    return path


def tiny_video(
    path: Path, num_frames: int = 24, *, fps: int | Fraction = 24, width: int = 160, height: int = 96,
    looks: tuple[tuple[int, int], ...] = ((0, 0),), extra: tuple[str, ...] = (), **options: object,
) -> Path:
    """A numbered video; `looks` gives (first frame, look) of each scene."""
    def look_at(index: int) -> int:
        return [look for first, look in looks if first <= index][-1]
    pictures = [picture(i, width, height, look_at(i)) for i in range(num_frames)]
    return write_video(path, pictures, fps=fps, extra=extra, **options)  # type: ignore[arg-type]


def two_rate_video(path: Path) -> Path:
    """Frames 0-23 are 1/24 s apart, frames 24-47 1/8 s; the last, at 3.875 s, is shown for 1/24 s."""
    return tiny_video(path, 48, extra=(
        "-vf", "setpts='if(lt(N,24),N/24,1+(N-24)/8)/TB'", "-fps_mode", "vfr", "-enc_time_base", "1/24", "-bf", "0"))
