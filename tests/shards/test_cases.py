"""The awkward shards and mixtures, where their generator lies beside the repository."""

from __future__ import annotations

import json
from pathlib import Path

import awkward_cases
import pytest
from corpus import make_corpus

from worldloom.dataengine.catalog import open_catalog
from worldloom.schemas import ConfigError
from worldloom.shards.compile import compile_mix
from worldloom.shards.loader import Loader
from worldloom.shards.mix import parse_mix
from worldloom.shards.verify import verify

pytestmark = awkward_cases.needs_maker


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    out = tmp_path_factory.mktemp("cases")
    awkward_cases.make(out, "shards/", "mix/")
    return out


@pytest.mark.parametrize(("case", "usable", "problem"), [
    ("key_with_dots", ["v1.5_a", "v1.5_b"], ""),
    ("duplicate_keys", ["k1"], "s-000.tar: member k0.json of key k0 is there twice"),
    ("missing_member", ["k0", "k2"], "s-000.tar: key k1 lacks k1.actions.npy"),
    ("truncated_tar", ["k0", "k1"], "s-000.tar: cut short"),
    ("parent_path", ["k0"], "'../../escape.json' leaves the folder"),
    ("absolute_path", ["k0"], "'/absolute_escape.json' leaves the folder"),
    ("symlink_member/in", ["k0"], "'k1.json' is a link"),
    ("empty_shard", ["a0", "a1", "c0", "c1"], "s-001.tar: holds no sample"),
    ("same_key_two_shards", [], "key k0 is in 2 shards: s-000.tar, s-001.tar"),
    ("interleaved", ["a", "b"], ""),
    ("one_bad_sample", ["k0", "k1", "k3", "k4"], "s-000.tar: sample k2: member k2.json is not JSON"),
])
def test_a_damaged_shard_gives_its_whole_samples_and_is_reported(cases, case, usable, problem):
    folder = cases / "shards" / case
    found = verify(folder)
    assert any(problem in line for line in found) if problem else found == []
    if not usable:
        with pytest.raises(ConfigError, match="0 samples"):
            Loader(folder)
        return
    samples = list(Loader(folder, shuffle=False))
    assert [s["key"] for s in samples] == usable
    assert all((s["actions_T6"][:, 0] == s["json"]["index"]).all() for s in samples)


def test_a_gap_in_the_numbers_is_found_before_training(cases):
    folder = cases / "shards" / "gap_in_numbers"
    assert any("s-002.tar" in line for line in verify(folder))
    with pytest.raises(ConfigError, match="s-002.tar is missing"):
        Loader(folder)
    (folder / "index.json").unlink()
    assert verify(folder) == ["s-002.tar: missing between shards that are there"]


def load(folder: Path, name: str = "mix.json", **more):
    """A case's mixture as a mix document: its sets are sources."""
    asked = json.loads((folder / name).read_text())
    parts = [{"name": d["name"], "source": d["name"], "weight": d["weight"]} for d in asked["datasets"]]
    return parse_mix({"name": "case", "unit": "clips", "total": asked.get("total", "max"),
                      "ratio": asked.get("ratio", False), "components": parts} | more)


def compiled(folder: Path, corpus: Path, name: str = "mix.json", **more):
    sizes = {p.name.removesuffix(".keys.txt"): [1] * len(p.read_text().split()) for p in folder.glob("*.keys.txt")
             if p.name != "eval.keys.txt"}
    return compile_mix(open_catalog(make_corpus(corpus, sizes)), load(folder, name, **more))


def realised(mix):
    return {part["component"]: part["realised"] for part in mix.report["components"]}


@pytest.mark.parametrize(("case", "name", "counts"), [
    ("exact_ratios", "mix.json", {"street": 500, "game": 300, "drone": 200}),
    ("exact_ratios", "thirds.json", {"street": 34, "game": 33, "drone": 33}),
    ("zero_weight", "mix.json", {"street": 50, "game": 0}),
    ("ratio_1_45", "mix.json", {"a": 580, "b": 400}),
])
def test_a_mixture_gets_exactly_its_counts(cases, tmp_path, case, name, counts):
    mix = compiled(cases / "mix" / case, tmp_path, name)
    assert realised(mix) == counts
    shares, taken = {k: n / sum(counts.values()) for k, n in counts.items()}, dict.fromkeys(counts, 0)
    for t, row in enumerate(mix.rows, 1):
        taken[row.component] += 1
        assert all(abs(taken[k] - t * share) < 1 + 1e-9 for k, share in shares.items())


@pytest.mark.parametrize(("case", "name", "message"), [
    ("sum_not_one", "mix.json", "0.9"),
    ("unknown_dataset", "mix.json", r"'gmae' \(known: game, street\)"),
    ("negative_weight", "mix.json", "-0.2"),
    ("weight_over_available", "mix.json", "game asks for 100 clips, 30 available"),
    ("all_zero", "mix.json", "all weights are 0"),
    ("all_zero", "none.json", "no components"),
    ("named_twice", "mix.json", "named twice"),
    ("named_twice", "case.json", "named twice"),
])
def test_a_mixture_that_cannot_be_is_refused(cases, tmp_path, case, name, message):
    with pytest.raises(ConfigError, match=message):
        compiled(cases / "mix" / case, tmp_path, name)


def test_clips_of_the_evaluation_list_are_refused_by_name(cases, tmp_path):
    folder = cases / "mix" / "eval_overlap"
    keys = ", ".join(f"'{key}'" for key in (folder / "eval.keys.txt").read_text().split())
    with pytest.raises(ConfigError, match="5 clips are held out: street-00095, .*street-00099"):
        compiled(folder, tmp_path, held_out=f"clip_id IN ({keys})")
