import pytest

from worldloom.dataengine.executors.inline import run_inline
from worldloom.dataengine.executors.pool import run_pool
from worldloom.dataengine.executors.work import Job
from worldloom.dataengine.ingest_groups import SourceFile
from worldloom.dataengine.stage import Context
from worldloom.schemas import Failure

REFERENCE = "stages_for_tests:MisbehavingStage"


def jobs(*parts):
    return [Job(reference=REFERENCE, params={}, key=f"k{i}", inputs={}, row_types={},
                files=tuple(SourceFile("s", name, f"/{name}", None, name, None) for name in names))
            for i, names in enumerate(parts)]


def pooled(tmp_path, *parts):
    return list(run_pool(jobs(*parts), Context(tmp_path), workers=2, budget_s=2.0, stage_name="score"))


def by_part(events):
    parts = {}
    for number, key, rows in events:
        parts.setdefault(number, []).append((key, "end" if rows is None else type(rows[0]).__name__))
    return parts


def test_the_pool_and_this_process_give_the_same_rows(tmp_path) -> None:
    parts = (["a", "bb", "bad"], ["c"], ["dd", "e"])
    inline = by_part(run_inline(jobs(*parts), Context(tmp_path)))
    assert by_part(pooled(tmp_path, *parts)) == inline
    assert inline[0] == [("a", "Score"), ("bb", "Score"), ("bad", "Failure"), ("", "end")]


def test_a_worker_that_hangs_costs_its_item_and_no_other(tmp_path) -> None:
    events = pooled(tmp_path, ["a", "hang", "b"], ["c"])
    assert by_part(events)[0] == [("a", "Score"), ("hang", "Failure"), ("b", "Score"), ("", "end")]
    (failure,) = [r for _, _, rows in events if rows for r in rows if isinstance(r, Failure)]
    assert "longer than 2 s" in failure.detail


def test_a_worker_that_says_it_gets_on_may_take_longer_than_its_budget(tmp_path) -> None:
    assert by_part(pooled(tmp_path, ["slow", "b"]))[0] == [("slow", "Score"), ("b", "Score"), ("", "end")]


def test_a_worker_that_dies_costs_its_item_and_no_other(tmp_path) -> None:
    assert by_part(pooled(tmp_path, ["die", "b"]))[0] == [("die", "Failure"), ("b", "Score"), ("", "end")]


def test_a_data_error_is_one_line(tmp_path) -> None:
    ((_, _, rows), _) = pooled(tmp_path, ["bad"])
    assert rows[0].detail == "bad: is bad, and says so"


def test_a_bug_stops_the_run_and_names_the_item(tmp_path) -> None:
    with pytest.raises(RuntimeError, match="(?s)stage score, bug:.*ZeroDivisionError"):
        pooled(tmp_path, ["bug"])
