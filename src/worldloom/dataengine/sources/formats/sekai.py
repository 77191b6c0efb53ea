"""Sekai: NAME.npz with cam_c2w (T, 4, 4) and intrinsics (T, 3, 3); YUME's NAME.npy with its key and mouse words.

Translations are rescaled per video, so they have no unit. Poses run at 30 a second unless the plan says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldloom.dataengine.geometry.conventions import to_canonical
from worldloom.dataengine.sources.files import is_video_name
from worldloom.dataengine.sources.formats.reader import FormatReader, Recording
from worldloom.dataengine.sources.formats.track import Track, matrices, pinhole
from worldloom.schemas import DataError

MOUSE = {"←": "left", "→": "right", "↑": "up", "↓": "down", "·": "none"}


class SekaiReader(FormatReader):
    kind = "sekai"
    scale_status: ClassVar[str] = "relative"
    convention: ClassVar[str] = "c2w/opencv/matrix"
    perspective: ClassVar[str] = "fps"

    def recordings(self) -> Iterator[Recording]:
        for path in self.matching("*.npz", "*.npy"):
            words = path.with_suffix(".txt")
            beside = [p for p in sorted(path.parent.glob(path.stem + ".*")) if is_video_name(p.name)]
            files = (path, *([words] if words.is_file() and path.suffix == ".npy" else []))
            yield Recording(self.inside(path), files, partial(_track, files, self.fps), next(iter(beside), None))


def _track(files: tuple[Path, ...], fps: float) -> Track:
    """Poses as they are: the clip's first camera, held by a walker, gives the world its down."""
    path, words = files[0], files[1:]
    held = np.load(path, allow_pickle=False)
    arrays = {"cam_c2w": held} if path.suffix == ".npy" else dict(held.items())
    if "cam_c2w" not in arrays:
        raise DataError(f"{path.name} holds {', '.join(sorted(arrays)) or 'nothing'}; wanted cam_c2w")
    poses = to_canonical(matrices(arrays["cam_c2w"], path), SekaiReader.convention)
    return Track(poses, camera=_camera(arrays.get("intrinsics")), fps=fps,
                 labels=read_words(words[0], len(poses)) if words else None)


def _camera(k_T33: np.ndarray | None) -> dict[str, Any] | None:
    """The median camera; the principal point, in the middle, gives the size of the picture."""
    if k_T33 is None:
        return None
    k = np.median(np.asarray(k_T33, float), axis=0)
    return pinhole(k[0, 0], k[1, 1], k[0, 2], k[1, 2], round(2 * k[0, 2]), round(2 * k[1, 2]))


def read_words(path: Path, num_poses: int) -> dict[str, Any]:
    """YUME's words for a whole path: {"keys": "W+A", "mouse": "right"}.

    Raises:
        DataError: a line is missing, the mouse sign is not known, or the frames are not as many as the poses.
    """
    facts = dict(line.split(":", 1) for line in path.read_text(encoding="utf-8").splitlines() if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    missing = [name for name in ("Start Frame", "End Frame", "Keys", "Mouse") if name not in facts]
    if missing or facts["Mouse"] not in MOUSE:
        raise DataError(f"{path.name}: lacks {', '.join(missing) or 'a known Mouse sign'}; wanted Start Frame, End "
                        f"Frame, Keys and Mouse as one of {' '.join(MOUSE)}")
    frames = int(facts["End Frame"]) - int(facts["Start Frame"]) + 1
    if frames != num_poses:
        raise DataError(f"{path.name}: frames {facts['Start Frame']} to {facts['End Frame']} for {num_poses} poses")
    return {"keys": facts["Keys"], "mouse": MOUSE[facts["Mouse"]]}
