"""The commands, as a person runs them."""

from __future__ import annotations

import json

import yaml
from corpus import make_corpus
from typer.testing import CliRunner

from worldloom.shards.cli import mix_app, shards_app
from worldloom.shards.pack import pack


def test_a_mix_is_shown_and_damage_makes_verify_fail(tmp_path):
    corpus, mix = make_corpus(tmp_path / "corpus", {"a": [9] * 4}, media=True), tmp_path / "mix.yaml"
    mix.write_text(yaml.safe_dump({"name": "demo", "components": [{"name": "a", "weight": 1.0}]}))
    run = CliRunner().invoke
    shown = run(mix_app, ["compile", str(mix), "--corpus", str(corpus), "--json"])
    assert shown.exit_code == 0 and json.loads(shown.stdout)["samples"] == 4
    assert "36 frames" in run(mix_app, ["compile", str(mix), "--corpus", str(corpus)]).stdout
    folder = pack(corpus, mix).dir
    assert run(shards_app, ["verify", str(folder), "--corpus", str(corpus)]).exit_code == 0
    (folder / "shard-000000.tar").unlink()
    assert run(shards_app, ["verify", str(folder)]).exit_code == 1
