"""The video files under a folder, in an order that is the same everywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

EXTENSIONS = frozenset(
    ".mp4 .m4v .mov .qt .mkv .webm .avi .flv .f4v .mpg .mpeg .mpe .m2v .vob .3gp .3g2 .ts .m2ts .mts .ivf .gif .wmv "
    ".asf .ogv .ogg .mxf .dv .y4m .h264 .264 .h265 .hevc .265 .obu .nut .mjpeg .mjpg .rm .rmvb".split()
)
"""Names that are taken for videos; whether they are is found by decoding."""


def is_video_name(name: str) -> bool:
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in EXTENSIONS


def video_files(root: Path) -> Iterator[tuple[str, Path]]:
    """(POSIX path inside the root, path) of every video file, sorted by name.

    Hidden folders and files are skipped. Links are followed, each real folder once, so a loop ends. A link to
    nothing is listed: it fails when it is opened, and is accounted for.
    """
    found: list[tuple[str, Path]] = []
    _walk(str(root), "", {os.path.realpath(root)}, found)
    yield from sorted(found, key=lambda item: os.fsencode(item[0]))


def _walk(folder: str, inside: str, seen: set[str], found: list[tuple[str, Path]]) -> None:
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    for entry in listed:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            real = os.path.realpath(entry.path)
            if real not in seen and os.access(entry.path, os.R_OK | os.X_OK):
                seen.add(real)
                _walk(entry.path, f"{inside}{entry.name}/", seen, found)
        elif is_video_name(entry.name):
            found.append((inside + entry.name, Path(entry.path)))
