"""A list of addresses (CSV, JSON lines or Parquet): each file is fetched once, into corpus/incoming."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from worldloom.dataengine.objects import safe_name
from worldloom.dataengine.progress import Progress
from worldloom.dataengine.sources.download import Download, Hosts, NotAFile
from worldloom.dataengine.sources.params import FileEntry, SourceParams
from worldloom.dataengine.stage import encode_name
from worldloom.schemas import ConfigError, DataError, Source, ids

AT_ONCE = 8


@dataclass(frozen=True)
class Row:
    """One line of a list. `problem` says why it cannot be used."""
    name: str
    url: str
    start_s: float | None = None
    end_s: float | None = None
    problem: str | None = None


class UrlsReader:
    """Videos at the addresses of a list; a row that cannot be had fails alone."""
    opens_urls = True           # its path is a list, and never a bucket to be brought in
    pose_mode = "none"
    scale_status = "unknown"
    convention = None

    def __init__(self, params: SourceParams) -> None:
        self.params, self.list, self.root = params, Path(params.path), Path(params.path)
        if not self.list.is_file():
            raise ConfigError(f"source {params.name}: {params.path} is not a file; wanted a CSV, JSONL or Parquet list")
        lines = read_list(self.list)
        licences = {str(line["licence"]) for line in lines if line.get("licence")}
        self.licence = params.licence or (licences.pop() if len(licences) == 1 else None)
        self.rows = named(lines, self.licence)
        self.problems: dict[str, str] = {row.name: row.problem for row in self.rows if row.problem}
        self.whole: dict[str, Path] = {}

    @property
    def source_id(self) -> str:
        return ids.source_id(self.params.kind, self.params.name)

    def source_row(self) -> Source:
        return Source(source_id=self.source_id, name=self.params.name, kind=self.params.kind, licence=self.licence,
                      url=self.params.url, perspective=self.params.perspective, pose_mode=self.pose_mode,
                      convention=self.convention, scale_status=self.scale_status)

    def prepare(self, corpus: Path) -> None:
        """Fetch what is not here yet, several hosts at once; a file that broke off goes on where it was."""
        self.root = corpus / "incoming" / self.source_id
        folder = self.root / ".whole"
        folder.mkdir(parents=True, exist_ok=True)
        hosts = Hosts(self.params.requests_per_s)
        wanted = [row for row in self.rows if row.problem is None]
        missing = dict.fromkeys(row.url for row in wanted if not (folder / ids.digest(row.url)).exists())
        progress = Progress(f"fetch {self.params.name}", len(missing), unit="files")
        failed: dict[str, str] = {}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            waiting = {pool.submit(self._fetch, url, folder / ids.digest(url), hosts): url for url in missing}
            try:
                for future in as_completed(waiting):
                    if (problem := future.result()) is not None:
                        failed[waiting[future]] = problem
                    progress.advance(failed=problem is not None)
            finally:
                pool.shutdown(cancel_futures=True)
                progress.finish()
        for row in wanted:
            problem = failed.get(row.url) or _give_name(row, folder / ids.digest(row.url), self.root / row.name)
            if problem:
                self.problems[row.name] = problem

    def _fetch(self, url: str, path: Path, hosts: Hosts) -> str | None:
        """Bring one file to `path`; the problem where it cannot be had."""
        limits = {"max_bytes": self.params.max_mib * 2**20, "timeout_s": self.params.timeout_s}
        try:
            try:
                Download(url, path, hosts, **limits).run()      # type: ignore[arg-type]
            except NotAFile as error:
                _from_page(url, path, str(error), **limits)     # type: ignore[arg-type]
        except (DataError, OSError, ValueError) as error:
            return " ".join(str(error).split())[:300]
        return None

    def entries(self) -> Iterator[FileEntry]:
        for row in self.rows:
            yield FileEntry(encode_name(row.name), str(self.root / row.name), self.source_id,
                            problem=self.problems.get(row.name))


def read_list(path: Path) -> list[dict[str, Any]]:
    """The rows of a list, as they stand there.

    Raises:
        ConfigError: not a list, or one without a column url.
    """
    reader = _LISTS.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(f"{path}: a list ends in {', '.join(_LISTS)}")
    try:
        rows = reader(path)
    except (ValueError, OSError, csv.Error) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())[:200]}") from None
    if not rows or not any("url" in row for row in rows):
        found = ", ".join(map(str, rows[0])) if rows else "no rows"
        raise ConfigError(f"{path}: a column url is wanted, found {found}")
    return rows


def _read_csv(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [{k: v for k, v in row.items() if k is not None} for row in csv.DictReader(file)]


def _read_jsonl(path: Path) -> list[dict[str, Any]]:
    lines = [(n, line) for n, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1) if line.strip()]
    return [_json_row(number, line) for number, line in lines]


def _json_row(number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        return {"url": "", "problem": f"line {number}: {error}"}
    return row if isinstance(row, dict) else {"url": "", "problem": f"line {number}: one JSON object is wanted"}


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    names = [name for name in pq.read_schema(path).names if name in ("url", "name", "start_s", "end_s", "licence")]
    return pq.read_table(path, columns=names).to_pylist()


_LISTS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    ".csv": _read_csv, ".jsonl": _read_jsonl, ".ndjson": _read_jsonl, ".parquet": _read_parquet}


def named(lines: list[dict[str, Any]], licence: str | None) -> list[Row]:
    """Rows with a name each, that no other has: the list's own, else the last part of the address."""
    rows: list[Row] = []
    taken: set[str] = set()
    for number, line in enumerate(lines, start=1):
        row = _row(line, number, licence)
        name = row.name
        if name.casefold() in taken:
            stem, dot, ending = name.rpartition(".")
            mark = ids.digest([row.url, row.start_s, row.end_s, number], 8)
            name = f"{stem}-{mark}.{ending}" if dot else f"{ending}-{mark}"
        taken.add(name.casefold())
        rows.append(Row(name, row.url, row.start_s, row.end_s, row.problem))
    return rows


def _row(line: dict[str, Any], number: int, licence: str | None) -> Row:
    url = str(line.get("url") or "").strip()
    name, scheme, problem = str(line.get("name") or ""), "", line.get("problem")
    try:
        scheme, name = urlsplit(url).scheme, name or unquote(urlsplit(url).path).rpartition("/")[2]
        start_s, end_s = _seconds(line, "start_s"), _seconds(line, "end_s")
    except ValueError as error:
        start_s, end_s, problem = None, None, str(error)
    if scheme not in ("http", "https"):
        problem = problem or f"{url[:200]!r} is not an address; http:// or https:// is wanted"
    elif end_s is not None and end_s <= (start_s or 0.0):
        problem = f"start_s {start_s or 0:g} and end_s {end_s:g} hold nothing"
    elif line.get("licence") and str(line["licence"]) != licence:
        problem = f"licence {line['licence']}, the source's is {licence}; give it a source of its own"
    if not safe_name(name) or name.startswith("."):
        problem = problem or (f"name {name[:100]!r} cannot be a file's name here" if line.get("name") else None)
        name = f"row-{number}" if problem else ids.digest(url)
    return Row(name, url, start_s, end_s, problem and f"row {number}: {problem}")


def _seconds(line: dict[str, Any], column: str) -> float | None:
    """A time of a row, None where it has none. Raises ValueError for what is none."""
    value = line.get(column)
    if value is None or value == "":
        return None
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = -1.0
    if not 0 <= found < 1e7:
        raise ValueError(f"{column} {str(value)[:40]!r} is not a time in seconds")
    return found


def _give_name(row: Row, whole: Path, path: Path) -> str | None:
    """Put the file, or the time range of it, at its own name; the problem where that cannot be done."""
    from worldloom.dataengine.sources.cut import cut

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if row.start_s is None and row.end_s is None:
            if not (path.exists() and path.samefile(whole)):
                path.unlink(missing_ok=True)
                _link(whole, path)
        else:
            cut(whole, path, row.start_s or 0.0, row.end_s)
    except (DataError, OSError) as error:
        return " ".join(str(error).split())[:300]
    return None


def _link(whole: Path, path: Path) -> None:
    """The same file under another name; a copy where the file system has no links."""
    try:
        os.link(whole, path)
    except OSError:
        shutil.copyfile(whole, path)


def _from_page(url: str, path: Path, why: str, *, max_bytes: int, timeout_s: float) -> None:
    """Have yt-dlp find the video of a page.

    Raises:
        DataError: it is not installed, or finds none.
    """
    try:
        import yt_dlp
    except ImportError:
        raise DataError(f"{why}; pip install yt-dlp to fetch from pages") from None
    scratch = path.with_name(path.name + ".page")
    options = {"outtmpl": {"default": str(scratch).replace("%", "%%")}, "format": "b[ext=mp4]/b", "quiet": True,
               "noprogress": True, "noplaylist": True, "max_filesize": max_bytes, "socket_timeout": timeout_s,
               "no_warnings": True, "continuedl": True, "overwrites": False}
    try:
        with yt_dlp.YoutubeDL(options) as found:
            found.download([url])
    except yt_dlp.utils.YoutubeDLError as error:
        raise DataError(f"{url}: yt-dlp: {' '.join(str(error).split())[:200]}") from None
    if not scratch.exists():
        raise DataError(f"{url}: yt-dlp brought no file of at most {max_bytes:,} bytes")
    os.replace(scratch, path)
