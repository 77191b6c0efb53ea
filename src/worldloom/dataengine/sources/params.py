"""What a plan says of a source, and one file of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class DeclaredLens(BaseModel):
    """What is known of a source's lens, for displayed pictures; the camera stage takes it in place of an estimate."""
    model_config = ConfigDict(frozen=True, extra="forbid")

    hfov_deg: float | None = Field(default=None, gt=1, lt=175)
    camera_model: Literal["pinhole", "yshear"] | None = None
    fy_over_fx: float | None = Field(default=None, gt=0)
    horizon_share: float | None = Field(default=None, ge=0, le=1)


class SourceParams(BaseModel):
    """One source: `kind` names its reader, `path` its folder on this machine or its URL (never part of an id)."""
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    path: str = Field(min_length=1)
    kind: str = "folder"
    licence: str | None = None
    url: str | None = None
    perspective: Literal["fps", "tps", "uncertain"] = "uncertain"
    sidecars: bool = False
    """Attach pose and truth files found beside the videos of a `folder` source; other kinds always do."""
    camera: DeclaredLens | None = None
    only: str | None = None
    """Of a pose format: the files that are read, as a pattern of their paths inside the folder."""
    fps: float | None = Field(default=None, gt=0, le=240)
    """Of a pose format: the rate of pictures and poses that come without times."""
    endpoint_url: str | None = None
    """Of a `path` in object storage: the server, where it is not the provider's own."""
    requests_per_s: float = Field(default=2.0, gt=0, le=1000)
    """Of a list of addresses: how often requests to one host may begin; then the largest file, the longest silence."""
    max_mib: int = Field(default=16_384, ge=1)
    timeout_s: float = Field(default=30.0, gt=0)


@dataclass(frozen=True)
class FileEntry:
    """A listed file. `name` and `sidecar` are POSIX paths inside the source, as `encode_name` writes them.

    `beside` are further files that the sidecar's meaning depends on; `problem` says why the file cannot be used;
    `about` is what the source says of it, as `about_text` writes it.
    """
    name: str
    path: str
    source_id: str
    sidecar: str | None = None
    sha256: str | None = None
    beside: tuple[str, ...] = ()
    problem: str | None = None
    about: str | None = None
