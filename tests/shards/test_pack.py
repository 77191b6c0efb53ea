"""Packing, resuming, reading back and verifying."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import tarfile

import numpy as np
import pytest
import webdataset
import yaml
from corpus import make_corpus

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.store import read_part, write_table
from worldloom.schemas import Caption, ConfigError, DataError
from worldloom.shards.index import scan_tar
from worldloom.shards.loader import Loader
from worldloom.shards.pack import catalog_samples, pack
from worldloom.shards.verify import verify


@pytest.fixture
def corpus(tmp_path):
    return make_corpus(tmp_path / "corpus", {"a": [9, 10, 8, 9, 12], "b": [9, 9, 7]}, media=True)


@pytest.fixture
def mix(tmp_path):
    path = tmp_path / "mix.yaml"
    path.write_text(yaml.safe_dump({"name": "demo", "total": 50, "components": [
        {"name": "a", "weight": 0.7, "where": "source = 'a'"}, {"name": "b", "weight": 0.3, "where": "source = 'b'"}]}))
    return path


def hashes(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def test_packing_twice_gives_the_same_bytes_and_reuses_every_shard(corpus, mix, tmp_path):
    first = pack(corpus, mix, shard_bytes=12_000)
    before = hashes(first.dir)
    again = pack(corpus, mix, shard_bytes=12_000)
    assert first.shards > 1 and again.reused == again.shards and hashes(first.dir) == before
    other = make_corpus(tmp_path / "other", {"a": [9, 10, 8, 9, 12], "b": [9, 9, 7]}, media=True)
    assert hashes(pack(other, mix, shard_bytes=12_000).dir) == before


def test_a_stopped_pack_goes_on_and_ends_with_the_same_bytes(corpus, mix):
    first = pack(corpus, mix, shard_bytes=12_000)
    before = hashes(first.dir)
    (first.dir / "shard-000001.tar").rename(first.dir / "shard-000001.tar.tmp")
    (first.dir / "index.json").unlink()
    tar = first.dir / "shard-000000.tar"
    tar.write_bytes(tar.read_bytes()[:-3])
    again = pack(corpus, mix, shard_bytes=12_000)
    assert again.reused == again.shards - 2 and hashes(first.dir) == before


def test_a_packed_mix_verifies_and_agrees_with_the_catalog(corpus, mix):
    result = pack(corpus, mix)
    assert verify(result.dir, catalog_samples(corpus, result.digest)) == []
    realised = open_catalog(corpus).sql("SELECT component, realised FROM mix ORDER BY 1").fetchall()
    assert realised == [("a", 35), ("b", 15)]
    assert verify(result.dir, 99) == [f"{result.samples} samples in the tars, 99 in the catalog"]


def test_samples_come_back_with_exactly_the_frames_of_the_mix(corpus, mix):
    result = pack(corpus, mix)
    frames = {"a": 0, "b": 0}
    for sample in Loader(result.dir):
        frames[sample["component"]] += sample["num_frames"]
        t = sample["num_frames"]
        assert sample.decode(16, 24).shape == (t, 16, 24, 3)
        assert sample["actions_T6"].shape == sample["certain_T6"].shape == (t, 6)
        assert sample["camera_T44"].shape == (t, 4, 4) and sample["intrinsics_T4"].shape == (t, 4)
    assert frames == {"a": 35, "b": 15}


def test_what_is_uncertain_is_zero_and_marked(corpus, mix):
    sample = next(s for s in Loader(pack(corpus, mix).dir) if s["num_frames"] == s["json"]["clip_frames"])
    actions_T6, certain_T6 = sample["actions_T6"], sample["certain_T6"]
    assert actions_T6.dtype == np.float32 and actions_T6[1, 2] == 0 and not certain_T6[1, 2]
    assert not certain_T6[-1, 1] and actions_T6[-1, 1] == 0 and (actions_T6[:, 4] == 1).all()


def test_plain_webdataset_reads_the_tars(corpus, mix):
    result = pack(corpus, mix)
    urls = [str(p) for p in sorted(result.dir.glob("*.tar"))]
    samples = list(webdataset.WebDataset(urls, shardshuffle=False, empty_check=False))
    assert len(samples) == result.samples
    assert all(set(s) >= {"mp4", "actions.npy", "certain.npy", "camera.npy", "intrinsics.npy", "json"} for s in samples)


def test_changed_labels_are_packed_anew(corpus, mix):
    result = pack(corpus, mix)
    before = hashes(result.dir)
    rows = read_part(corpus, "caption", "k", Caption)
    write_table(corpus, "caption", "k", [dataclasses.replace(r, scene="A yard.") for r in rows], Caption)
    again = pack(corpus, mix)
    assert again.digest == result.digest and again.reused == 0 and hashes(again.dir) != before


def test_media_that_changed_since_the_catalog_is_not_packed(corpus, mix):
    for path in (corpus / "media").glob("*.mp4"):
        path.write_bytes(b"other")
    with pytest.raises(DataError, match="other bytes"):
        pack(corpus, mix)


def test_damage_is_found_by_name(corpus, mix):
    folder = pack(corpus, mix, shard_bytes=12_000).dir
    tar = folder / "shard-000001.tar"
    tar.write_bytes(tar.read_bytes()[:3000])
    assert any("shard-000001.tar" in p and "cut short" in p for p in verify(folder))
    with pytest.raises(ConfigError, match="shard-000001.tar"):
        Loader(folder)
    tar.unlink()
    assert any("shard-000001.tar: named in the index, missing" in p for p in verify(folder))


def test_an_index_with_a_path_is_refused(corpus, mix):
    folder = pack(corpus, mix).dir
    document = json.loads((folder / "index.json").read_text())
    document["shards"][0]["name"] = "../" + document["shards"][0]["name"]
    (folder / "index.json").write_text(json.dumps(document))
    with pytest.raises(ConfigError, match="holds a path"):
        Loader(folder)


@pytest.mark.parametrize(("tail", "is_cut"), [
    (b"", False), (bytes(512), False), (b"k2.txt" + bytes(194), True), (b"rubbish" + bytes(505), True)],
    ids=["nothing", "zeros", "half a header", "no header"])
def test_a_tar_must_end_in_nothing_or_zeros(tmp_path, tail, is_cut):
    """tarfile reads half a header, and rubbish, as the end of an archive."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name in ("k0.txt", "k1.txt"):
            info = tarfile.TarInfo(name)
            info.size = 512
            archive.addfile(info, io.BytesIO(b"x" * 512))
    (tmp_path / "s.tar").write_bytes(whole.getvalue()[:2048] + tail)
    _, problems = scan_tar(tmp_path / "s.tar")
    assert any("cut short or damaged" in problem for problem in problems) == is_cut
