"""Learned models that are run here: VGGT, Depth Anything 3, Pi3 and Pi3X.

Each is its authors' own package, imported when a clip is first estimated; weights come from a hub id or a local path.
Long clips go through in overlapping windows that are stitched, since memory grows with the frames seen at once.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
from pydantic import Field

from worldloom.annotators.camera.estimator import Footage, Track, found_track, pinhole
from worldloom.annotators.camera.learned.convert import Poses, from_extrinsics, from_pi3, from_vggt, resized
from worldloom.annotators.camera.learned.outputs import found_focal
from worldloom.annotators.camera.odometry import Lens
from worldloom.annotators.camera.stitch import Windows, in_windows
from worldloom.dataengine.geometry import poses as P
from worldloom.dataengine.stage import Params
from worldloom.schemas import ConfigError

_PATCH = 14


class ModelParams(Params):
    checkpoint: str = ""                         # hub id, or a local folder, .pt or .safetensors; "": the model's own
    device: str = "auto"                         # auto: cuda where there is one
    longest_side_px: int = Field(518, ge=112)
    windows: Windows = Windows(frames=100, overlap=10, above_frames=100)


class _Model(ABC):
    """Loads the model once, runs it on windows of a clip, and converts what it gives."""
    name: ClassVar[str]
    version: ClassVar[int] = 1
    pictures: ClassVar[str] = "rgb"
    needs_lens: ClassVar[bool] = False
    package: ClassVar[str]                       # how to get what is imported
    checkpoint: ClassVar[str]
    Params: ClassVar[type[ModelParams]] = ModelParams

    def __init__(self, params: ModelParams | None = None) -> None:
        self.params = params or self.Params()
        self._network: Any = None

    def estimate(self, footage: Footage, lens: Lens | None) -> Track:
        """The track of a clip; a lens declared for the source stands over the model's own.

        Raises:
            ConfigError: the model's package is not installed, or its weights cannot be loaded.
            DataError: the model gives poses that are none.
        """
        lens = pinhole(lens, self.name)
        if self._network is None:
            self._network = self.load()
        rgb_THWC, size, fps = footage.rgb(), footage.size, footage.clip.fps
        return in_windows(lambda part: self._track(self.predict(self._network, rgb_THWC[part]), size, lens, fps),
                          len(rgb_THWC), self.params.windows)

    @abstractmethod
    def load(self) -> Any:
        """The network on its device, ready to run."""

    @abstractmethod
    def predict(self, network: Any, rgb_NHWC: np.ndarray) -> Poses:
        """Poses of some frames seen together."""

    def _track(self, poses: Poses, size: tuple[int, int], lens: Lens | None, fps: float) -> Track:
        count = len(poses.world_from_cam_N44)
        lens_T4 = resized(poses.intrinsics_N4, poses.size or size, size)
        focal = found_focal(lens_T4)
        if lens is not None:
            lens_T4, focal = np.tile([lens.fx, lens.fy, lens.cx, lens.cy], (count, 1)), {}
        pose_T44 = P.invert(poses.world_from_cam_N44[:1]) @ poses.world_from_cam_N44
        return found_track(f"{self.name}/{self.version}", pose_T44, lens_T4, fps, metres_per_unit=poses.metres_per_unit,
                           scale_status="relative" if poses.metres_per_unit is None else "metric", **focal)

    def _import(self, module: str, attribute: str) -> Any:
        """An attribute of the model's package.

        Raises:
            ConfigError: it is not installed.
        """
        try:
            return getattr(importlib.import_module(module), attribute)
        except ImportError as error:
            package = module.partition(".")[0]
            raise ConfigError(f"camera: {self.name} needs {package} ({error}); {self.package}") from error

    def _weighted(self, cls: Any) -> Any:
        """A network of `cls` with the weights of the checkpoint, on its device.

        Raises:
            ConfigError: the weights cannot be had.
        """
        checkpoint = self.params.checkpoint or self.checkpoint
        path = Path(checkpoint)
        try:
            if path.suffix in (".pt", ".pth", ".safetensors"):
                network = cls()
                network.load_state_dict(_read_weights(path))
            else:
                network = cls.from_pretrained(checkpoint)
        except (OSError, RuntimeError, ValueError) as error:
            said = " ".join(str(error).split())[:200]
            raise ConfigError(f"camera: weights {checkpoint!r} of {self.name} cannot be loaded: {said}") from error
        return network.to(self.device()).eval()

    def device(self) -> str:
        import torch
        return ("cuda" if torch.cuda.is_available() else "cpu") if self.params.device == "auto" else self.params.device

    def _run(self, network: Any, rgb_NHWC: np.ndarray) -> dict[str, np.ndarray]:
        """What a network gives for one batch of pictures in [0, 1], as numpy arrays."""
        import torch

        device = self.device()
        pictures = torch.from_numpy(fitted(rgb_NHWC, self.params.longest_side_px)).to(device)
        pictures = pictures.permute(0, 3, 1, 2)[None].float() / 255
        with torch.inference_mode(), torch.autocast(device.partition(":")[0], torch.bfloat16, device != "cpu"):
            given = network(pictures)
        return {name: value.float().cpu().numpy() for name, value in given.items() if isinstance(value, torch.Tensor)}


def _read_weights(path: Path) -> Any:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file
        return load_file(str(path))
    import torch
    return torch.load(path, map_location="cpu", weights_only=True)


def fitted(rgb_NHWC: np.ndarray, longest_px: int) -> np.ndarray:
    """Pictures with both sides multiples of 14 and the longer near `longest_px`; the whole picture is kept."""
    height, width = rgb_NHWC.shape[1:3]
    size = fitted_size(width, height, longest_px)
    return np.stack([cv2.resize(rgb_HWC, size, interpolation=cv2.INTER_AREA) for rgb_HWC in rgb_NHWC])


def fitted_size(width: int, height: int, longest_px: int) -> tuple[int, int]:
    grow = longest_px / max(width, height)
    sides = [max(_PATCH, _PATCH * round(side * grow / _PATCH)) for side in (width, height)]
    return sides[0], sides[1]


class Vggt(_Model):
    """VGGT (github.com/facebookresearch/vggt): cameras, depth and points of many views at once."""
    name: ClassVar[str] = "vggt"
    package: ClassVar[str] = "install it from github.com/facebookresearch/vggt"
    checkpoint: ClassVar[str] = "facebook/VGGT-1B"

    def load(self) -> Any:
        return self._weighted(self._import("vggt.models.vggt", "VGGT"))

    def predict(self, network: Any, rgb_NHWC: np.ndarray) -> Poses:
        size = fitted_size(rgb_NHWC.shape[2], rgb_NHWC.shape[1], self.params.longest_side_px)
        return from_vggt(self._run(network, rgb_NHWC)["pose_enc"], size)


class Pi3Params(ModelParams):
    variant: str = Field("pi3", pattern="^(pi3|pi3x)$")     # pi3x: poses in metres, as it claims
    longest_side_px: int = Field(504, ge=112)


class Pi3(_Model):
    """Pi3 and Pi3X (github.com/yyfz/Pi3): cameras without a reference view; the focal length comes from the points."""
    name: ClassVar[str] = "pi3"
    package: ClassVar[str] = "install it from github.com/yyfz/Pi3"
    Params = Pi3Params

    @property
    def checkpoint(self) -> str:  # type: ignore[override]
        return "yyfz233/Pi3X" if self.params.variant == "pi3x" else "yyfz233/Pi3"

    def load(self) -> Any:
        names = ("pi3.models.pi3x", "Pi3X") if self.params.variant == "pi3x" else ("pi3.models.pi3", "Pi3")
        return self._weighted(self._import(*names))

    def predict(self, network: Any, rgb_NHWC: np.ndarray) -> Poses:
        given = self._run(network, rgb_NHWC)
        return from_pi3(given["camera_poses"], given["local_points"], given["conf"], 1.0 if "metric" in given else None)


class DepthAnything3Params(ModelParams):
    longest_side_px: int = Field(504, ge=112)


class DepthAnything3(_Model):
    """Depth Anything 3 (pip install depth-anything-3): depth and cameras of any number of views."""
    name: ClassVar[str] = "depth_anything_3"
    package: ClassVar[str] = "pip install depth-anything-3, in an environment of its own: it asks for numpy below 2"
    checkpoint: ClassVar[str] = "depth-anything/DA3-LARGE"
    Params = DepthAnything3Params

    def load(self) -> Any:
        return self._weighted(self._import("depth_anything_3.api", "DepthAnything3"))

    def predict(self, network: Any, rgb_NHWC: np.ndarray) -> Poses:
        found = network.inference(list(rgb_NHWC), process_res=self.params.longest_side_px)
        height, width = found.depth.shape[1:3]
        return from_extrinsics(found.extrinsics, found.intrinsics, (width, height), 1.0 if found.is_metric else None)
