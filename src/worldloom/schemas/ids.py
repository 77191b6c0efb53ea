"""Names made from content: no clock, host or path enters an id."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def digest(value: Any, length: int = 16) -> str:
    """First `length` hex digits of the SHA-256 of `value` as canonical JSON.

    Raises:
        ValueError: the value holds NaN or infinity, which have no canonical form.
    """
    text = json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def source_id(kind: str, name: str) -> str:
    return digest({"source": [kind, name]})


def clip_id(video_id: str, start_frame: int, stop_frame: int, spec: Mapping[str, Any]) -> str:
    """Id of the frames [start_frame, stop_frame) of a video, encoded by a clip specification."""
    return digest({"video": video_id, "range": [start_frame, stop_frame], "spec": dict(spec)})


def stage_key(name: str, version: int, params: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """Key of the part a stage writes, from the keys of the parts it reads: equal on any machine."""
    return digest({"name": name, "version": version, "params": dict(params), "inputs": dict(inputs)})


def unit_interval(key: str, salt: str = "") -> float:
    """A number in [0, 1) fixed by a key: the split of a corpus that grows without moving anything."""
    return int(hashlib.sha256(f"{salt}\0{key}".encode()).hexdigest()[:13], 16) / 16**13
