"""Progress of long work on stderr: how far, how fast, how long still."""

from __future__ import annotations

import sys
import time


class Progress:
    """One line for one piece of work; redrawn on a terminal, printed now and then elsewhere."""

    def __init__(self, name: str, total: int | None = None, unit: str = "items", quiet: bool = False) -> None:
        self.name, self.total, self.unit, self.quiet = name, total, unit, quiet
        self.done = self.failed = 0
        self.began = self.shown = time.monotonic()
        self.live = sys.stderr.isatty()

    def advance(self, count: int = 1, failed: int = 0) -> None:
        self.done += count
        self.failed += failed
        now = time.monotonic()
        if not self.quiet and now - self.shown >= (0.2 if self.live else 10):
            self.shown = now
            self._write()

    def finish(self) -> None:
        if not self.quiet and self.live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def line(self) -> str:
        elapsed = max(time.monotonic() - self.began, 1e-6)
        rate = self.done / elapsed
        text = f"{self.name:<13} {self.done:,}"
        if self.total:
            left = (self.total - self.done) / rate if rate > 0 else float("inf")
            text += f"/{self.total:,}"
            text += f" {self.unit}  {rate:.1f}/s  {clock(left)} left" if rate > 0 else f" {self.unit}"
        else:
            text += f" {self.unit}  {rate:.1f}/s"
        return text + (f"  {self.failed} failed" if self.failed else "")

    def _write(self) -> None:
        sys.stderr.write(("\r\x1b[K" if self.live else "") + self.line() + ("" if self.live else "\n"))
        sys.stderr.flush()


def clock(seconds: float) -> str:
    """1:05 for 65 seconds; a dash where nothing can be said."""
    if seconds != seconds or seconds > 359_999:
        return "–"
    minutes, rest = divmod(int(seconds + 0.5), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
