"""Cameras that a model already found and left in a folder of the source: ViPE, MegaSaM, Depth Anything 3.

A file belongs to a clip by its name: that of the video (frames are then those of the video) or the clip_id (frames are
then those of the canonical clip, for models that were run over a corpus). Parallax and trust are measured in the
pixels afterwards, since none of these says how sure it is.
"""

from __future__ import annotations

import math
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import ClassVar

import numpy as np
from pydantic import Field, field_validator

from worldloom.annotators.camera.estimator import Footage, Track, found_track, pinhole
from worldloom.annotators.camera.learned.convert import (
    Poses,
    checked_intrinsics,
    from_extrinsics,
    intrinsics_N4,
    resized,
    rigid,
)
from worldloom.annotators.camera.odometry import Lens
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.stage import Params, decode_name
from worldloom.schemas import Clip, DataError

_MEGASAM_PIXELS = 384 * 512      # area that MegaSaM resizes pictures to, before cutting sides to multiples of 8
_OFF_CENTRE = 0.15               # of a side: a principal point further from the middle is of another picture


class OutputParams(Params):
    """Where the output lies, inside the source's folder, and which frames of the video the model was given."""
    folder: str = "."
    every_frames: int = Field(1, ge=1)           # frames 0, n, 2n, … were given, where the output does not say
    metres_per_unit: float | None = Field(None, gt=0)

    @field_validator("folder")
    @classmethod
    def _inside(cls, folder: str) -> str:
        path = PurePosixPath(folder)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{folder!r} leaves the source; wanted a folder inside it, with no '..'")
        return folder


class _Output(ABC):
    """Finds the file of a clip, and turns what it holds into a track."""
    name: ClassVar[str]
    version: ClassVar[int] = 1
    pictures: ClassVar[str] = "gray"             # for the parallax; the poses come from the file
    needs_lens: ClassVar[bool] = False
    places: ClassVar[tuple[str, ...]]            # where a file lies in the folder, {} being the name
    Params = OutputParams

    def __init__(self, params: OutputParams | None = None) -> None:
        self.params = params or OutputParams()

    def holds(self, footage: Footage) -> bool:
        return self._find(footage) is not None

    def estimate(self, footage: Footage, lens: Lens | None) -> Track:
        """The track of the clip's frames; a lens declared for the source stands over the model's own.

        Raises:
            DataError: no output for this clip, a broken file, or frames of the clip that it has no pose near.
        """
        found = self._find(footage)
        if found is None:
            raise DataError(f"no output of {self.name} in {self.params.folder!r}: looked for "
                            f"{', '.join(sorted({place for place, _ in self._names(footage)}))}")
        path, is_clip = found
        try:
            frames_N, poses = self.read(path, footage, is_clip)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(f"{path.name} is no output of {self.name}: {type(error).__name__} {error}") from error
        wanted = np.arange(footage.clip.num_frames) if is_clip else np.asarray(footage.clip.source_frames)
        return self._track(frames_N, poses, wanted, footage, pinhole(lens, self.name), is_clip)

    @abstractmethod
    def read(self, path: Path, footage: Footage, is_clip: bool) -> tuple[np.ndarray, Poses]:
        """Frame numbers (N,) and the poses of a file."""

    def _names(self, footage: Footage) -> Iterator[tuple[str, bool]]:
        """Paths inside the folder where the clip's output may lie, the best first, and whether they are of the clip."""
        video = PurePosixPath(decode_name(footage.video.name))
        for place in self.places:
            yield place.format(footage.clip.clip_id), True
            yield place.format(video.with_suffix("")), False
            yield place.format(video.stem), False

    def _find(self, footage: Footage) -> tuple[Path, bool] | None:
        if footage.folder is None:
            return None
        root = footage.folder / self.params.folder
        found = ((root / place, is_clip) for place, is_clip in self._names(footage))
        return next(((path, is_clip) for path, is_clip in found if path.is_file()), None)

    def _track(self, frames_N: np.ndarray, poses: Poses, wanted_T: np.ndarray, footage: Footage, lens: Lens | None,
               is_clip: bool) -> Track:
        clip, video = footage.clip, footage.video
        pose_T44 = P.interpolate_poses(poses.world_from_cam_N44, frames_N.astype(float), wanted_T.astype(float))
        shown = (float(clip.width), float(clip.height)) if is_clip else (float(video.width), float(video.height))
        own_N4 = resized(poses.intrinsics_N4, poses.size or _size_of(poses.intrinsics_N4, shown), shown)
        own_T4 = np.stack([np.interp(wanted_T, frames_N, column) for column in own_N4.T], 1)
        lens_T4, focal = (own_T4 if is_clip else in_clip(own_T4, clip)), found_focal(own_N4)
        if lens is not None:
            lens_T4, focal = np.tile([lens.fx, lens.fy, lens.cx, lens.cy], (clip.num_frames, 1)), {}
        metres = self.params.metres_per_unit or poses.metres_per_unit
        return found_track(
            f"{self.name}/{self.version}", P.invert(pose_T44[:1]) @ pose_T44, lens_T4, clip.fps,
            metres_per_unit=metres, scale_status="relative" if metres is None else "metric", **focal)

    def _numbers(self, count: int, footage: Footage, is_clip: bool) -> np.ndarray:
        """Frame numbers of an output that only has an order.

        Raises:
            DataError: it does not have as many poses as the frames that the model was given.
        """
        every = self.params.every_frames
        shown = footage.clip.num_frames if is_clip else footage.video.num_frames
        if count != math.ceil(shown / every):
            raise DataError(f"{self.name} has {count} poses for {shown} frames; every {every} would give "
                            f"{math.ceil(shown / every)}: set every_frames to how the model was run")
        return np.arange(count) * every


def found_focal(intrinsics_N4: np.ndarray) -> dict[str, object]:
    """Focal facts of a model's own intrinsics; the spread is what its frames differ by, not its true error."""
    return {"focal_source": "found", "focal_spread": float(np.std(np.log(intrinsics_N4[:, 0]))), "is_calibrated": True}


def in_clip(shown_T4: np.ndarray, clip: Clip) -> np.ndarray:
    """Intrinsics of displayed source pixels in pixels of the canonical clip."""
    moved = shown_T4 - [0.0, 0.0, clip.crop_x_px, clip.crop_y_px]
    return moved * [clip.scale_x, clip.scale_y, clip.scale_x, clip.scale_y]


def _size_of(intrinsics_N4: np.ndarray, shown: tuple[float, float]) -> tuple[float, float]:
    """The picture size of intrinsics that do not say it: that of the frames, where the principal point fits.

    Raises:
        DataError: the principal point is not near the middle of the frames.
    """
    off = np.abs(np.median(intrinsics_N4[:, 2:], 0) / shown - 0.5)
    if (off > _OFF_CENTRE).any():
        raise DataError(f"principal point {np.median(intrinsics_N4[:, 2:], 0).tolist()} is not near the middle of "
                        f"frames of {shown[0]:.0f} x {shown[1]:.0f}: the model saw another size")
    return shown


class VipeOutput(_Output):
    """ViPE's folder: pose/NAME.npz (data (N, 4, 4) camera-to-world, inds) and intrinsics/NAME.npz (data (N, 4), inds).

    intrinsics/NAME_camera.txt, where there is one, must say PINHOLE for every frame.
    """
    name: ClassVar[str] = "vipe"
    places: ClassVar[tuple[str, ...]] = ("pose/{}.npz",)

    def read(self, path: Path, footage: Footage, is_clip: bool) -> tuple[np.ndarray, Poses]:
        frames_N, pose_N44 = _vipe_table(path)
        root = next(parent for parent in path.parents if parent.name == "pose").parent
        lens_path = root / "intrinsics" / path.relative_to(root / "pose")
        lens_frames_M, lens_M4 = _vipe_table(lens_path)
        if lens_M4.ndim != 2 or lens_M4.shape[1] != 4:
            raise DataError(f"intrinsics/{lens_path.name} has shape {list(lens_M4.shape)}; wanted (N, 4) of a pinhole")
        _check_pinhole(lens_path.with_name(f"{lens_path.stem}_camera.txt"))
        lens_N4 = np.stack([np.interp(frames_N, lens_frames_M, column) for column in checked_intrinsics(lens_M4).T], 1)
        return frames_N, Poses(rigid(pose_N44), lens_N4, None)


def _vipe_table(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        frames_N, data = file["inds"].astype(np.int64), file["data"].astype(float)
    if len(frames_N) != len(data) or not len(data) or (np.diff(frames_N) <= 0).any():
        raise DataError(f"{path.parent.name}/{path.name} has {len(frames_N)} frame numbers for {len(data)} rows, which "
                        "must ascend")
    return frames_N, data


def _check_pinhole(path: Path) -> None:
    kinds = {line.partition(":")[2].strip() for line in path.read_text().splitlines()} if path.is_file() else set()
    if kinds - {"PINHOLE"}:
        raise DataError(f"{path.name} says {', '.join(sorted(kinds))}; only PINHOLE cameras are read")


class MegaSamOutput(_Output):
    """MegaSaM's NAME_sgd_cvd_hr.npz or NAME_droid.npz: cam_c2w (N, 4, 4), intrinsic (3, 3), images (N, H, W, 3)."""
    name: ClassVar[str] = "megasam"
    places: ClassVar[tuple[str, ...]] = (
        "{}_sgd_cvd_hr.npz", "{}_droid.npz", "outputs_cvd/{}_sgd_cvd_hr.npz", "outputs/{}_droid.npz")

    def read(self, path: Path, footage: Footage, is_clip: bool) -> tuple[np.ndarray, Poses]:
        with np.load(path, allow_pickle=False) as file:
            pose_N44, matrix = rigid(file["cam_c2w"]), file["intrinsic"]
        _, height, width, _ = npz_shape(path, "images")
        clip, video = footage.clip, footage.video
        shown = (clip.width, clip.height) if is_clip else (video.width, video.height)
        whole = megasam_size(*shown)
        if (whole[0] - whole[0] % 8, whole[1] - whole[1] % 8) != (width, height):
            raise DataError(f"{path.name} holds pictures of {width} x {height}; MegaSaM makes others of "
                            f"{shown[0]} x {shown[1]}")
        return (self._numbers(len(pose_N44), footage, is_clip),
                Poses(pose_N44, intrinsics_N4(matrix, len(pose_N44)), whole))


def megasam_size(width: int, height: int) -> tuple[int, int]:
    """Width and height to which MegaSaM resizes a picture before it cuts the right and lower edge to multiples of 8."""
    shrink = math.sqrt(_MEGASAM_PIXELS / (height * width))
    return int(width * shrink), int(height * shrink)


class DepthAnything3Output(_Output):
    """Depth Anything 3's exports: results.npz with extrinsics (N, 3, 4), intrinsics (N, 3, 3) and depth (N, H, W)."""
    name: ClassVar[str] = "depth_anything_3_output"
    places: ClassVar[tuple[str, ...]] = (
        "{}/exports/mini_npz/results.npz", "{}/exports/npz/results.npz", "{}/results.npz", "{}.npz")

    def read(self, path: Path, footage: Footage, is_clip: bool) -> tuple[np.ndarray, Poses]:
        with np.load(path, allow_pickle=False) as file:
            pose, matrix = file["extrinsics"], file["intrinsics"]
        _, height, width = npz_shape(path, "depth")
        return self._numbers(len(pose), footage, is_clip), from_extrinsics(pose, matrix, (width, height))


def npz_shape(path: Path, name: str) -> tuple[int, ...]:
    """Shape of an array in an .npz, without reading its numbers.

    Raises:
        KeyError: no such array.
    """
    readers: dict[tuple[int, int], Callable] = {
        (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
        return readers[np.lib.format.read_magic(file)](file)[0]
