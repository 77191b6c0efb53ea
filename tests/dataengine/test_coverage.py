"""What recordings hold, what is thin in them, and recording that fills it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from worldloom.dataengine.record import EpisodeParams, write_truth
from worldloom.dataengine.record.cells import CELLS, Cells
from worldloom.dataengine.record.cli import record_app
from worldloom.dataengine.record.coverage import Coverage, coverage_of, thin
from worldloom.dataengine.record.coverage_report import lines_of
from worldloom.dataengine.record.thin import shared_out
from worldloom.dataengine.record.world import WorldParams
from worldloom.schemas import ConfigError


def write(path: Path, frames: int, longitudinal: int, turn_deg: float, events: dict[int, str], **meta: object) -> None:
    rows = [{"frame": i, "time_s": i / 10, "world_from_cam": np.eye(4).ravel().tolist(), "on_ground": True,
             "key_longitudinal": longitudinal, "key_lateral": 0, "key_jump": 0, "key_run": 0, "key_attack": 0,
             "key_use": 0, "turn_deg": turn_deg, "look_deg": 0.0, "objects": [], "health": None,
             "events": [{"kind": events[i], "text": "."}] if i in events else []} for i in range(frames)]
    write_truth(path, rows, {"fps": 10.0, "perspective": "fps", "scene": "town"} | meta)


def test_frames_are_counted_by_what_was_held_and_events_by_kind(tmp_path):
    write(tmp_path / "a.truth.parquet", 11, 1, 1.3, {3: "rain", 5: "item"})
    write(tmp_path / "b.truth.parquet", 6, -1, -1.1, {2: "item"}, scene=None, map="map07", perspective="tps")
    write(tmp_path / "a.twin.truth.parquet", 11, 1, 1.3, {}, twin_of="a.mp4")
    found = coverage_of(tmp_path)
    assert found.cells == {(1, 0, 1, 0): 10, (-1, 0, 0, 0): 5}          # 11 degrees a second is no turn, 13 are
    assert found.events == {"item": 2, "rain": 1} and found.videos == 2
    assert found.places == {"town": 11, "map07": 6} and found.perspectives == {"fps": 11, "tps": 6}
    text = "\n".join(lines_of(found, {"perspectives": ("fps", "tps")}))
    assert "2 videos, 17 frames" in text and "back left, turning left, looking down" in text


def test_no_recordings_is_one_clear_error(tmp_path):
    with pytest.raises(ConfigError, match="no corpus and no VIDEO.truth.parquet under it"):
        coverage_of(tmp_path)


@given(st.dictionaries(st.sampled_from(CELLS), st.integers(0, 10**6)))
def test_weights_share_time_among_what_has_less_than_an_even_part(counts):
    coverage = Coverage()
    coverage.cells.update(counts)
    weights = np.array(coverage.weights())
    assert len(weights) == 81 and (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=81 * 5e-7)             # each is rounded to 1e-6
    held = np.array([coverage.cells[cell] for cell in CELLS])
    assert (weights[held == held.min()] == weights.max()).all()


def test_thin_is_less_than_a_quarter_of_an_even_part():
    assert thin({"a": 100, "b": 100, "c": 19, "d": 0}, "abcd") == ["d"]     # an even part is 54.75
    assert thin({"a": 100, "b": 100, "c": 13, "d": 0}, "abcd") == ["d", "c"]
    assert shared_out({"a": 30, "b": 5}, ["a", "b", "c"], 4, 10) == ["c", "b", "c", "b"]


def test_only_cells_with_weight_are_held_away_from_walls_and_ends_of_pitch():
    weights = [0.0] * 81
    weights[CELLS.index((1, -1, 1, 0))] = weights[CELLS.index((-1, 0, 0, 1))] = 1.0
    cells, seen = Cells(np.random.default_rng(4), tuple(weights), 24), set()
    for _ in range(400):
        cells.next(False, 50, 50)
        seen.add(cells.cell)
    assert seen == {(1, -1, 1, 0), (-1, 0, 0, 1)}
    for _ in range(200):
        cells.next(False, 80, 0.5)
    assert cells.cell == (1, -1, 1, 0)                                  # no room to look up


@pytest.mark.parametrize("make, fields", [(WorldParams, {}), (EpisodeParams, {})])
def test_thin_play_and_weights_go_together(make, fields):
    with pytest.raises(ConfigError, match="go together"):
        make(policy="thin", **fields)
    with pytest.raises(ConfigError, match="go together"):
        make(policy="mixed", cell_weights=(1.0,) * 81)
    with pytest.raises(ConfigError, match="must be 81 numbers"):
        make(policy="thin", cell_weights=(1.0,) * 80)


@pytest.mark.parametrize("command", [
    ["vizdoom", "--maps", "map01,map02", "--tics", "200"],
    ["world", "--scenes", "rooms,town", "--seconds", "6", "--width", "96", "--height", "72"]])
def test_recording_what_is_thin_makes_the_thin_cells_grow(command, tmp_path):
    out = ["--out", str(tmp_path)]
    first = CliRunner().invoke(record_app, [*command, "--policy", "forward", *out])
    assert first.exit_code == 0, first.output
    before = coverage_of(tmp_path)
    few = before.thin_cells()
    again = CliRunner().invoke(record_app, [*command, *out, "--thin-from", str(tmp_path)])
    assert again.exit_code == 0, again.output
    after = coverage_of(tmp_path)
    grown = sum(after.cells[cell] > before.cells[cell] for cell in few)
    share = sum(after.cells[cell] - before.cells[cell] for cell in few) / (after.frames - before.frames)
    assert len(few) > 70 and grown > 15 and share > 0.6     # walls and turns under way take the rest
    assert len(after.thin_cells()) < len(few) - 10
    if command[0] == "world":
        assert after.perspectives["tps"] and len(after.events) >= len(before.events) + 1
    told = CliRunner().invoke(record_app, ["coverage", str(tmp_path), "--picture", str(tmp_path / "x.png")])
    assert told.exit_code == 0 and "4 videos" in told.output and (tmp_path / "x.png").stat().st_size > 10_000
