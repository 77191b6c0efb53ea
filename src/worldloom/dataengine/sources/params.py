"""What a plan says of a source, and one file of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class CameraParams(BaseModel):
    """Calibration declared for a whole source; the camera stage takes it in place of an estimate."""
    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Literal["pinhole", "yshear"] = "pinhole"
    hfov_deg: float = Field(default=90.0, gt=0, lt=180)
    fy_over_fx: float = Field(default=1.0, gt=0)
    horizon_share: float = Field(default=0.5, ge=0, le=1)


class SourceParams(BaseModel):
    """One source: `kind` names its reader, `path` its folder on this machine (never part of an id)."""
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    path: str = Field(min_length=1)
    kind: str = "folder"
    licence: str | None = None
    url: str | None = None
    perspective: Literal["fps", "tps", "uncertain"] = "uncertain"
    sidecars: bool = False
    """Attach pose and truth files found beside the videos of a `folder` source; other kinds always do."""
    camera: CameraParams | None = None


@dataclass(frozen=True)
class FileEntry:
    """A listed file. `name` and `sidecar` are POSIX paths inside the source, as `encode_name` writes them."""
    name: str
    path: str
    source_id: str
    sidecar: str | None = None
    sha256: str | None = None
