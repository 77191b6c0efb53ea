"""Mix documents and the compiler: exact counts, refusals, subsets."""

from __future__ import annotations

from fractions import Fraction

import pytest
from corpus import make_corpus
from hypothesis import given, settings
from hypothesis import strategies as st

from worldloom.dataengine.catalog import open_catalog
from worldloom.schemas import ConfigError
from worldloom.shards.compile import compile_mix
from worldloom.shards.mix import allot, parse_mix, shares
from worldloom.shards.order import interleave


def document(*parts, **more):
    components = [p if isinstance(p, dict) else {"name": p[0], "source": p[0], "weight": p[1]} for p in parts]
    return parse_mix({"name": "m", "unit": "clips", "components": components} | more)


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    sizes = {"a": [9 + i % 7 for i in range(60)], "b": [11] * 30, "c": [5] * 3}
    return open_catalog(make_corpus(tmp_path_factory.mktemp("corpus"), sizes, unlabelled=("c-00002",)))


def counts(compiled):
    return [part["realised"] for part in compiled.report["components"]]


def test_thirds_of_a_hundred_are_34_33_33():
    assert allot(100, shares([1 / 3] * 3)) == [34, 33, 33]
    assert allot(1000, shares([0.5, 0.3, 0.2])) == [500, 300, 200]
    assert allot(980, shares([1.45, 1.0])) == [580, 400]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=7).filter(any), st.integers(0, 3000))
def test_an_allotment_adds_up_and_is_within_one_of_each_share(weights, total):
    parts = [Fraction(w, sum(weights)) for w in weights]
    got = allot(total, parts)
    assert sum(got) == total and all(abs(g - total * p) < 1 for g, p in zip(got, parts, strict=True))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any))
def test_every_prefix_of_the_order_is_within_one_sample_of_the_ratio(amounts):
    order, total = interleave([[1] * n for n in amounts]), sum(amounts)
    taken = [0] * len(amounts)
    for t, i in enumerate(order, 1):
        taken[i] += 1
        assert all(abs(k * total - t * n) < total for k, n in zip(taken, amounts, strict=True))
    assert taken == amounts


def test_frames_are_exact_and_every_prefix_is_within_one_clip(con):
    mix = document(("a", 0.7), ("b", 0.3), unit="frames", total=400)
    compiled = compile_mix(con, mix)
    assert counts(compiled) == [280, 120]
    frames = {"a": 0, "b": 0}
    for row in compiled.rows:
        frames[row.component] += row.num_frames
        assert abs(frames["a"] - 0.7 * sum(frames.values())) <= 15
    assert frames == {"a": 280, "b": 120}


@pytest.mark.parametrize("unit", ["clips", "frames", "hours", "latents"])
def test_max_is_the_largest_total_that_fits(con, unit):
    report = compile_mix(con, document(("a", 0.5), ("b", 0.5), unit=unit)).report
    a, b = report["components"]
    assert a["realised"] == a["allotted"] and b["realised"] == b["allotted"]
    assert abs(a["allotted"] - b["allotted"]) <= 1
    assert min(a["available"] - a["allotted"], b["available"] - b["allotted"]) <= 0


def test_a_smaller_total_is_a_subset_of_a_larger_one(con):
    small, large = (compile_mix(con, document(("a", 0.6), ("b", 0.4), total=t)) for t in (10, 20))
    assert {r.clip_id for r in small.rows} < {r.clip_id for r in large.rows}


def test_the_same_mix_has_the_same_digest_and_another_seed_another(con):
    first, again = (compile_mix(con, document(("a", 1.0), total=20)) for _ in range(2))
    assert first == again
    assert compile_mix(con, document(("a", 1.0), total=20, seed=1)).digest != first.digest


def test_clips_without_labels_are_left_out_and_counted(con):
    part = compile_mix(con, document(("c", 1.0))).report["components"][0]
    assert (part["available"], part["without_labels"]) == (2, 1)


@pytest.mark.parametrize(("parts", "more", "message"), [
    ([("a", 0.5), ("b", 0.4)], {}, "add to 0.9"),
    ([("a", 1.2), ("b", -0.2)], {}, "weight -0.2"),
    ([("a", 0), ("b", 0)], {}, "all weights are 0"),
    ([], {}, "no components"),
    ([("a", 0.3), ("a", 0.7)], {}, "named twice"),
    ([("a", 0.5), ("A", 0.5)], {}, "named twice"),
    ([("a", 1.0)], {"sed": 3}, "did you mean 'seed'"),
    ([{"name": "a", "weight": 1.0, "wher": "true"}], {}, "did you mean 'where'"),
    ([{"name": "a", "weight": 1.0, "where": "true; DROP TABLE clip"}], {}, "';'"),
    ([("a", 1.0)], {"total": 0}, "positive"),
    ([("a", 1.0)], {"name": "../out"}, "pattern"),
    ([("a", float("nan"))], {}, "finite"),
])
def test_a_wrong_document_is_refused_with_its_reason(parts, more, message):
    with pytest.raises(ConfigError, match=message):
        document(*parts, **more)


@pytest.mark.parametrize(("parts", "more", "message"), [
    ([("a", 0.5), ("gmae", 0.5)], {}, r"'gmae' \(known: a, b, c\)"),
    ([("a", 0.5), ("b", 0.5)], {"total": 80}, "asks for 40 clips, 30 available"),
    ([{"name": "x", "weight": 1.0, "where": "split = 'nowhere'"}], {}, "no clip with labels"),
    ([{"name": "x", "weight": 1.0, "where": "colour = 1"}], {}, "colour"),
    ([{"name": "x", "weight": 1.0, "where": "(SELECT count(*) FROM read_csv('/etc/passwd')) > 0"}], {}, "component x"),
    ([("a", 1.0)], {"selection": "strict"}, "no selection 'strict'"),
    ([("a", 0.5), {"name": "all", "weight": 0.5}], {}, "a and all share 60 clips"),
    ([("a", 1.0)], {"held_out": "clip_id <= 'a-00004'"}, "5 clips are held out: a-00000"),
])
def test_a_mix_that_cannot_be_carried_out_is_refused(con, parts, more, message):
    with pytest.raises(ConfigError, match=message):
        compile_mix(con, document(*parts, **more))


def test_repeats_are_explicit_and_their_factor_is_recorded(con):
    parts = [("a", 0.5), {"name": "b", "source": "b", "weight": 0.5, "repeat": True, "max_repeats": 2}]
    compiled = compile_mix(con, document(*parts, total=90))
    assert counts(compiled) == [45, 45] and compiled.report["components"][1]["repeats"] == 1.5
    assert len({(r.clip_id, r.repeat) for r in compiled.rows}) == 90
    with pytest.raises(ConfigError, match="max_repeats is 2"):
        compile_mix(con, document(("a", 0.3), parts[1] | {"weight": 0.7}, total=100))


def test_a_component_of_weight_zero_is_not_read(con):
    unread = {"name": "b", "weight": 0.0, "where": "this is not SQL"}
    assert counts(compile_mix(con, document(("a", 1.0), unread, total=50))) == [50, 0]


def test_overlap_goes_to_the_first_when_asked(con):
    everything = {"name": "rest", "weight": 0.5}
    compiled = compile_mix(con, document(("a", 0.5), everything, overlap="first", total=40))
    assert all(r.clip_id.startswith("a-") == (r.component == "a") for r in compiled.rows)


def test_no_sample_is_cut_to_a_sliver(con):
    for total in range(12, 70):
        rows = compile_mix(con, document(("b", 1.0), unit="frames", total=total)).rows
        assert sum(r.num_frames for r in rows) == total and min(r.num_frames for r in rows) >= 6


@pytest.mark.parametrize(("where", "message"), [
    ("random() < 0.5", "another answer each time"),
    ("1=1) or (1=1", "not one SQL condition"),
    ("clip_id in (select clip_id from clip where now() > '2020-01-01')", "another answer each time"),
])
def test_a_condition_is_one_expression_with_one_answer(tmp_path, where, message):
    wanted = document({"name": "a", "weight": 1.0, "where": where})
    with pytest.raises(ConfigError, match=message):
        compile_mix(open_catalog(make_corpus(tmp_path / "corpus", {"a": [9, 10]})), wanted)
