"""Lists of addresses, over a real HTTP server that breaks off, refuses, and serves ranges."""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from tiny import read_number, tiny_video

from worldloom.dataengine.catalog import open_catalog
from worldloom.dataengine.plan import load_plan
from worldloom.dataengine.runner import run_plan
from worldloom.dataengine.sources import SourceParams, download, open_source
from worldloom.dataengine.sources.download import Download, Hosts
from worldloom.dataengine.video.read import read_frames
from worldloom.schemas import ConfigError, DataError


class Site(http.server.ThreadingHTTPServer):
    """Serves `files`; each answer ends early after `most` bytes while `breaks` are left."""
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.kinds: dict[str, str] = {}
        self.asked: list[tuple[float, str, str | None]] = []
        self.breaks, self.most, self.refusals, self.has_ranges = 0, 1 << 60, 0, True
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        site = self.server
        site.asked.append((time.monotonic(), self.path, self.headers.get("Range")))
        if site.refusals > 0:
            site.refusals -= 1
            self.send_response(503)
            self.send_header("Retry-After", "0")
            self.end_headers()
            return
        if self.path.startswith("/to-file"):
            self.send_response(302)
            self.send_header("Location", "file:///etc/hostname")
            self.end_headers()
            return
        data = site.files.get(self.path)
        if data is None:
            self.send_error(404)
            return
        self._send(data)

    def _send(self, data: bytes) -> None:
        site, begin, tag = self.server, 0, f'"{hashlib.md5(data).hexdigest()}"'
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked and site.has_ranges and self.headers.get("If-Range") in (None, tag):
            begin = int(asked[1])
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - begin))
        self.send_header("Content-Type", site.kinds.get(self.path, "video/mp4"))
        self.send_header("ETag", tag)
        self.end_headers()
        broken = site.breaks > 0 and len(data) - begin > site.most
        site.breaks -= broken
        self.wfile.write(data[begin:begin + site.most] if broken else data[begin:])

    def log_message(self, *_: Any) -> None:
        """Nothing: the tests read `asked`."""


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.shutdown()
    site.server_close()


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return tiny_video(tmp_path_factory.mktemp("v") / "v.mp4", 48, looks=((0, 0), (24, 1))).read_bytes()


def fetched(site: Site, tmp_path: Path, url: str, **limits: Any) -> bytes:
    Download(url, tmp_path / "file", Hosts(1000), **{"max_bytes": 1 << 30, "timeout_s": 5.0} | limits).run()
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith("file")) == ["file"]
    return (tmp_path / "file").read_bytes()


def opened(path: Path, corpus: Path, **params: Any) -> dict[str, str | None]:
    reader = open_source(SourceParams(name="s", kind="urls", path=str(path), requests_per_s=1000, **params))
    reader.prepare(corpus)
    return {entry.name: entry.problem for entry in reader.entries()}


@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_file_that_breaks_off_is_whole_in_the_end(tmp_path, site, has_ranges) -> None:
    data = bytes(range(256)) * 4000
    site.files["/a"], site.breaks, site.most, site.has_ranges = data, 3, 400_000, has_ranges
    assert fetched(site, tmp_path, f"{site.url}/a") == data
    ranges = [asked for _, _, asked in site.asked]
    assert ranges[:3] == [None, "bytes=400000-", "bytes=800000-"][:3] if has_ranges else len(ranges) == 4


def test_a_later_run_goes_on_and_a_file_that_has_changed_begins_anew(tmp_path, site) -> None:
    old, new = b"a" * 300_000, b"b" * 310_000
    site.files["/a"], site.breaks, site.most = old, 1, 100_000
    (tmp_path / "file.part").write_bytes(old[:200_000])
    (tmp_path / "file.part.json").write_text(json.dumps({"mark": f'"{hashlib.md5(old).hexdigest()}"'}))
    assert fetched(site, tmp_path, f"{site.url}/a") == old
    assert [asked for _, _, asked in site.asked] == ["bytes=200000-"]
    site.files["/a"] = new
    (tmp_path / "file.part").write_bytes(old[:200_000])
    (tmp_path / "file.part.json").write_text(json.dumps({"mark": f'"{hashlib.md5(old).hexdigest()}"'}))
    assert fetched(site, tmp_path, f"{site.url}/a") == new


def test_a_busy_server_is_asked_again_and_a_wrong_address_is_not(tmp_path, site) -> None:
    site.files["/a"], site.refusals = b"x" * 10, 2
    assert fetched(site, tmp_path, f"{site.url}/a") == b"x" * 10
    asked = len(site.asked)
    with pytest.raises(DataError, match="404"):
        fetched(site, tmp_path, f"{site.url}/none")
    assert len(site.asked) == asked + 1


def test_limits_pages_and_other_schemes_are_refused(tmp_path, site) -> None:
    site.files |= {"/big": b"x" * 2000, "/page": b"<html>"}
    site.kinds["/page"] = "text/html; charset=utf-8"
    with pytest.raises(DataError, match="2,000 bytes, more than the 1,000"):
        fetched(site, tmp_path, f"{site.url}/big", max_bytes=1000)
    with pytest.raises(DataError, match=r"a page \(text/html\)"):
        fetched(site, tmp_path, f"{site.url}/page")
    for url in ("file:///etc/hostname", "ftp://127.0.0.1/x", "/etc/hostname", "http://"):
        with pytest.raises(DataError, match="is wanted"):
            fetched(site, tmp_path, url)
    with pytest.raises(DataError, match="file"):
        fetched(site, tmp_path, f"{site.url}/to-file")
    assert not [p for p in tmp_path.iterdir() if p.name == "file"]


def test_requests_to_one_host_keep_their_distance_and_others_do_not_wait() -> None:
    hosts = Hosts(10)
    began = time.monotonic()
    for _ in range(4):
        hosts.wait("http://one/a")
    assert time.monotonic() - began >= 0.3
    began = time.monotonic()
    hosts.wait("http://two/a")
    assert time.monotonic() - began < 0.2         # another host's clock; the bound is the machine's, not ours


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_list_in_each_form_gives_the_same_rows(tmp_path, site, video, ending) -> None:
    site.files["/x/my%20file.mp4"] = site.files["/b.mp4"] = video
    rows = [{"url": f"{site.url}/x/my%20file.mp4", "name": None, "caption": "red, \"green\"\nblue"},
            {"url": f"{site.url}/b.mp4", "name": "sub/named.mp4", "caption": "c"},
            {"url": f"{site.url}/b.mp4", "name": "../out.mp4", "caption": "c"},
            {"url": "file:///etc/passwd", "name": "evil.mp4", "caption": "c"},
            {"url": "http://[::1/x.mp4", "name": "bad.mp4", "caption": "c"}]
    path = tmp_path / f"list.{ending}"
    if ending == "csv":
        import csv

        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif ending == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    found = opened(path, tmp_path)
    if ending == "jsonl":
        assert "line 6" in (found.pop("row-6") or "")
    assert {name for name, problem in found.items() if problem is None} == {"my file.mp4", "sub/named.mp4"}
    assert "cannot be a file's name" in (found["row-3"] or "") and "not an address" in (found["evil.mp4"] or "")
    assert found["bad.mp4"] and not (tmp_path / "incoming" / "out.mp4").exists()


def test_a_time_range_is_a_video_of_its_own_with_the_right_frames(tmp_path, site, video) -> None:
    site.files["/v.mp4"] = video
    path = tmp_path / "list.csv"
    path.write_text(f"url,start_s,end_s\n{site.url}/v.mp4,0.5,1.25\n{site.url}/v.mp4,1.5,\n{site.url}/v.mp4,7,8\n"
                    f"{site.url}/v.mp4,2,1\n{site.url}/v.mp4,x,1\n")
    found = opened(path, tmp_path)
    names = list(found)
    assert [bool(found[name]) for name in names] == [False, False, True, True, True]
    assert "no picture from 7 s to 8 s" in (found[names[2]] or "")
    folder = next((tmp_path / "incoming").iterdir())
    assert [read_number(f) for f in read_frames(folder / names[0])] == list(range(12, 30))
    assert [read_number(f) for f in read_frames(folder / names[1])] == list(range(36, 48))
    assert len([p for _, p, _ in site.asked if p == "/v.mp4"]) == 1


def test_a_list_runs_through_the_stages_and_the_bad_rows_fail_alone(tmp_path, site, video, monkeypatch) -> None:
    monkeypatch.setattr(download, "FIRST_WAIT_S", 0.05)
    site.files |= {"/v.mp4": video, "/page": b"<html>", "/other": video}
    site.kinds["/page"] = "text/html"
    site.breaks, site.most = 2, len(video) // 2
    (tmp_path / "list.csv").write_text(
        f"url,name,licence\n{site.url}/v.mp4,,CC0-1.0\n{site.url}/page,page.mp4,CC0-1.0\n"
        f"{site.url}/gone.mp4,,CC0-1.0\nhttp://127.0.0.1:9/x.mp4,,CC0-1.0\n{site.url}/other,other.mp4,CC-BY-4.0\n")
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump({
        "sources": [{"name": "s", "kind": "urls", "path": "list.csv", "licence": "CC0-1.0", "requests_per_s": 100}],
        "stages": ["video", "clip"], "params": {"clip": {"fps": 24}}}))
    report = run_plan(load_plan(tmp_path / "plan.yaml"), tmp_path / "corpus", executor="inline", quiet=True)
    assert report.stages[0].counts["done"] == 1 and report.failed == 4
    con = open_catalog(tmp_path / "corpus")
    (row,) = con.sql("SELECT video_id, name FROM video").fetchall()
    assert row == (hashlib.sha256(video).hexdigest(), "v.mp4")
    details = dict(con.sql("SELECT row_key, detail FROM failure").fetchall())
    assert "404" in details["gone.mp4"] and "pip install yt-dlp" in details["page.mp4"]
    assert "licence CC-BY-4.0" in details["other.mp4"] and "refused" in details["x.mp4"]
    asked = len(site.asked)
    run_plan(load_plan(tmp_path / "plan.yaml"), tmp_path / "corpus", executor="inline", quiet=True)
    assert [p for _, p, _ in site.asked[asked:] if p == "/v.mp4"] == []


def test_what_is_no_list_is_refused(tmp_path) -> None:
    for name, text, said in (("a.txt", "x", "a list ends in"), ("a.csv", "link\nx\n", "a column url"),
                             ("b.csv", "", "a column url"), ("a.parquet", "nothing", "a.parquet")):
        (tmp_path / name).write_text(text)
        with pytest.raises(ConfigError, match=said):
            open_source(SourceParams(name="s", kind="urls", path=str(tmp_path / name)))
    with pytest.raises(ConfigError, match="is not a file"):
        open_source(SourceParams(name="s", kind="urls", path=str(tmp_path / "none.csv")))
