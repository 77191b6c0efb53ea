"""Plans that tests run."""

from __future__ import annotations

from pathlib import Path

import yaml

STAGES = ["video", "clip", "camera", "camera_truth", "action", "action_truth", "score", "caption", "selection"]


def write_plan(path: Path, recordings: Path, **changes: object) -> Path:
    """A plan over `recordings`, labelled from the pixels, with truth beside it."""
    document = {
        "sources": [{"name": "train", "kind": "vizdoom", "path": str(recordings), "perspective": "fps",
                     "licence": "BSD-3-Clause"}],
        "stages": STAGES, "workers": 2, "videos_per_part": 2,
        "params": {"clip": {"fps": 17.5, "max_s": 2.0, "shots": False},
                   "camera": {"mode": "odometry", "hfov_deg": 90.0, "fy_over_fx": 1.2, "camera_model": "yshear"}},
    }
    path.write_text(yaml.safe_dump(document | changes))
    return path
