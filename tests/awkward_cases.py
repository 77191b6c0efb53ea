"""The awkward inputs, made by their generator where it lies beside the repository; needs no ffmpeg on the machine."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import pytest

MAKER = Path(__file__).resolve().parents[1] / "../shared/cases/make_cases.py"
needs_maker = pytest.mark.skipif(not MAKER.exists(), reason="the generator of awkward inputs is not here")

_FFPROBE = """#!{python}
# What the generator asks of ffprobe: the size and turn of a stream, or the times of its frames.
import json, sys
import av
args = sys.argv[1:]
stream = int(args[args.index("-select_streams") + 1].split(":")[1])
with av.open(args[-1]) as file:
    video = file.streams.video[stream]
    if "-show_streams" in args:
        first = next(file.decode(video))
        turn = [{{"rotation": first.rotation}}] if first.rotation else []
        print(json.dumps({{"streams": [{{"width": video.width, "height": video.height, "side_data_list": turn}}]}}))
    else:
        print(json.dumps({{"frames": [{{"pts_time": str(float(frame.time))}} for frame in file.decode(video)]}}))
"""


def make(out: Path, *groups: str) -> dict[str, dict[str, Any]]:
    """Facts by case of the groups, such as "pose/", made in `out`; a case that was not built says `not_built`."""
    programs = out / "programs"
    programs.mkdir(parents=True)
    (programs / "ffmpeg").symlink_to(imageio_ffmpeg.get_ffmpeg_exe())
    probe = programs / "ffprobe"
    probe.write_text(_FFPROBE.format(python=sys.executable))
    probe.chmod(probe.stat().st_mode | stat.S_IXUSR)
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    facts: dict[str, dict[str, Any]] = {}
    for group in groups:
        made = subprocess.run([sys.executable, str(MAKER), str(out), "--only", group], env=environment,
                              capture_output=True, text=True)
        assert made.returncode == 0 or "not_built" in (out / "manifest.json").read_text(), made.stderr[-500:]
        facts |= {row["case"]: row["facts"] for row in json.loads((out / "manifest.json").read_text())}
    return facts
