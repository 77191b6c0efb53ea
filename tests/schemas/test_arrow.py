import dataclasses
import math

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldloom.schemas import TABLES, Action, Clip, DataError, Score, from_table, ids, json_schema, to_table
from worldloom.schemas.arrow import arrow_schema, dictionary_rows


def test_every_column_of_every_table_says_what_it_means() -> None:
    for table, column, kind, _, meaning in dictionary_rows(TABLES.items()):
        assert meaning and kind, (table, column)


def test_every_row_type_has_a_valid_json_schema() -> None:
    for row_type in TABLES.values():
        jsonschema.Draft202012Validator.check_schema(json_schema(row_type))


@given(value=st.none() | st.floats(allow_nan=False), frames=st.lists(st.integers(0, 1 << 40), max_size=5),
       name=st.text())
def test_a_row_comes_back_from_arrow_as_it_went_in(value, frames, name) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    row = Score(clip_id="c", name=name, value=value, unit="", frames=frames)
    (back,) = from_table(to_table([row], Score), Score)
    assert dataclasses.astuple(back) == dataclasses.astuple(row)


def action(**changes) -> Action:
    n = 3
    zeros, floats = np.zeros(n, np.int8), np.zeros(n, np.float32)
    base = dict(clip_id="c", labeller="t/1", num_frames=n, yaw_deg=np.array([0, 1.5, np.nan], np.float32),
                pitch_deg=floats, yaw_se_deg=floats, pitch_se_deg=floats, longitudinal=zeros, lateral=zeros,
                longitudinal_confidence=floats, lateral_confidence=floats, jump=zeros, perspective="fps",
                intent_longitudinal=None, intent_lateral=None, blocked=None, residual=None, certain_share=1.0)
    return Action(**(base | changes))


def test_an_unknown_value_in_a_track_is_null_in_arrow_and_nan_in_memory() -> None:
    table = to_table([action()], Action)
    assert table["yaw_deg"].to_pylist() == [[0.0, 1.5, None]]
    (back,) = from_table(table, Action)
    assert math.isnan(back.yaw_deg[2]) and back.yaw_deg.dtype == np.float32 and back.blocked is None


def test_no_rows_still_have_the_whole_schema() -> None:
    assert to_table([], Action).schema.equals(arrow_schema(Action))
    assert pa.types.is_list(to_table([], Action)["yaw_deg"].type)


def test_a_clip_without_frames_is_refused() -> None:
    with pytest.raises(DataError, match=r"frames \[5, 5\) hold nothing"):
        Clip(clip_id="c", video_id="v", source_id="s", start_frame=5, stop_frame=5, start_s=0.0, stop_s=0.0,
             num_frames=0, fps=10.0, width=2, height=2, source_frames=[], frame_times_s=[], scale_x=1.0, scale_y=1.0,
             crop_x_px=0.0, crop_y_px=0.0, media="m", media_bytes=0, media_sha256="", cut_by="start", split="train")


def test_ids_are_the_same_on_every_machine() -> None:
    assert ids.clip_id("v", 0, 10, {"fps": 16.0}) == "1b3329670cc8010a"
    assert ids.stage_key("a", 1, {"x": 1, "y": 2}, {}) == ids.stage_key("a", 1, {"y": 2, "x": 1}, {})
    assert ids.stage_key("a", 1, {}, {"t": "k"}) != ids.stage_key("a", 2, {}, {"t": "k"})


@given(st.text(max_size=20))
def test_a_key_falls_on_one_place_of_the_unit_interval(key) -> None:
    try:
        key.encode()
    except UnicodeEncodeError:
        return
    assert 0 <= ids.unit_interval(key) < 1 and ids.unit_interval(key) == ids.unit_interval(key)
