"""Every handed real and awkward video, in one go, through the whole plan."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from worldloom.dataengine.catalog import open_catalog


@pytest.mark.slow
def test_every_video_is_done_dropped_or_failed_and_none_stops_the_others(shared_data, tmp_path) -> None:
    document = {"sources": [{"name": name, "kind": "folder", "path": str(shared_data / name)}
                            for name in ("video", "awkward")],
                "params": {"clip": {"fps": 12.0, "height": 180, "max_s": 5.0}}, "videos_per_part": 4}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(document))
    command = [sys.executable, "-m", "worldloom.cli", "run", str(tmp_path / "plan.yaml"), "--corpus",
               str(tmp_path / "corpus")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 3 and "Traceback" not in done.stderr, done.stderr[-2000:]
    con = open_catalog(tmp_path / "corpus")
    files = sum(len(rows) for rows in (con.sql("SELECT name FROM video").fetchall(),
                                       con.sql("SELECT row_key FROM failure WHERE stage = 'video'").fetchall(),
                                       con.sql("SELECT row_key FROM drops WHERE stage = 'video'").fetchall()))
    accounts = con.sql("SELECT stage, rows_in, done + dropped + failed FROM stage_accounts").fetchall()
    assert all(rows_in == settled for _, rows_in, settled in accounts)
    assert files == next(n for stage, n, _ in accounts if stage == "video")
    failed = {name for (name,) in con.sql("SELECT row_key FROM failure WHERE stage = 'video'").fetchall()}
    assert {"result.webm", "phpffmpeg_WrongFile.mp4", "broken.mp4", "issue55.flv"} <= failed
    lines = con.sql("SELECT detail FROM failure").fetchall()
    assert all(detail and "\n" not in detail for (detail,) in lines)
    whole = con.sql("SELECT count(*) FROM clip JOIN selection USING (clip_id) JOIN caption USING (clip_id)").fetchall()
    assert whole == con.sql("SELECT count(*) FROM clip").fetchall() and whole[0][0] > 40
    unlabelled = con.sql("SELECT clip_id FROM clip ANTI JOIN action USING (clip_id) ORDER BY 1").fetchall()
    assert unlabelled == con.sql("SELECT row_key FROM failure WHERE stage = 'camera' UNION "
                                 "SELECT row_key FROM drops WHERE stage = 'camera' ORDER BY 1").fetchall()
