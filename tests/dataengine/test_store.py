import json
import subprocess
import sys

import pytest

from worldloom.dataengine.stage import decode_name, encode_name
from worldloom.dataengine.store import (
    clear_scratch,
    corpus_lock,
    part_metadata,
    part_path,
    read_manifest,
    read_part,
    scratch_path,
    write_table,
)
from worldloom.schemas import ConfigError, Score


def score(name):
    return Score(clip_id="c", name=name, value=1.0, unit="", frames=[])


def test_a_table_lists_its_parts_once_and_in_order(tmp_path) -> None:
    for key in ("b", "a", "b"):
        write_table(tmp_path, "score", key, [score(key)], Score)
    assert read_manifest(tmp_path)["score"] == ["a", "b"]
    assert [r.name for r in read_part(tmp_path, "score", "a", Score)] == ["a"]
    assert not list((tmp_path / "tmp").iterdir())


def test_another_format_is_refused_with_both_numbers(tmp_path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 99, "tables": {}}))
    with pytest.raises(ConfigError, match="corpus format 99, this worldloom reads 1"):
        read_manifest(tmp_path)


def test_a_second_process_is_told_who_holds_the_corpus(tmp_path) -> None:
    code = ("import sys; from pathlib import Path; from worldloom.dataengine.store import corpus_lock\n"
            "with corpus_lock(Path(sys.argv[1])): print('held')")
    with corpus_lock(tmp_path):
        held = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert held.returncode != 0 and "in use by process" in held.stderr
    free = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert free.stdout == "held\n"


def test_what_a_killed_run_left_half_written_is_cleared_and_never_a_result(tmp_path) -> None:
    scratch_path(tmp_path, "score.parquet").write_bytes(b"half")
    assert clear_scratch(tmp_path) == 1 and not part_path(tmp_path, "score", "a").exists()


@pytest.mark.parametrize("raw", [b"plain.mp4", b"a\\b.mp4", b"caf\xc3\xa9.mp4", b"bad\xff\\x41.mp4", b"-x [1]*?;'.mp4"])
def test_a_file_name_is_traced_back_byte_for_byte(raw) -> None:
    name = raw.decode("utf-8", "surrogateescape")
    encoded = encode_name(name)
    encoded.encode("utf-8")
    assert decode_name(encoded).encode("utf-8", "surrogateescape") == raw


def test_a_damaged_part_is_named_with_what_to_do(tmp_path) -> None:
    write_table(tmp_path, "score", "a", [score("a")], Score)
    path = part_path(tmp_path, "score", "a")
    path.write_bytes(path.read_bytes()[:-20])
    for read in (lambda: read_part(tmp_path, "score", "a", Score), lambda: part_metadata(tmp_path, "score", "a")):
        with pytest.raises(ConfigError, match="a.parquet: damaged part .* run the plan again"):
            read()
