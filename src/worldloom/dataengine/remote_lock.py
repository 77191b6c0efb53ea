"""One writer at a time in a bucket: an object that names it, renewed while it works."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from worldloom.dataengine.objects import Objects
from worldloom.schemas import ConfigError, ids

RENEW_S = 60.0
LEASE_S = 300.0
"""A holder that has not renewed for so long is taken for dead; one on this machine whose process is gone, at once."""


class RemoteLock:
    """Context manager; ConfigError where another writer holds the lock."""

    def __init__(self, objects: Objects, name: str) -> None:
        self.objects, self.name, self.token = objects, name, uuid.uuid4().hex
        self.stop = threading.Event()

    def __enter__(self) -> RemoteLock:
        for _ in range(3):
            if self.objects.create(self.name, self._note()):
                break
            found = self._found()
            if found is not None and not _is_dead(found):
                raise ConfigError(f"{self.objects.url}: in use by {_who(found)}; wait for it or stop it, then run "
                                  f"again (a writer that died is passed over after {LEASE_S:.0f} s)")
            self.objects.remove(self.name)
        else:
            raise ConfigError(f"{self.objects.url}: another writer keeps taking it; run again later")
        self.renewer = threading.Thread(target=self._renew, daemon=True)
        self.renewer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.renewer.join()
        with contextlib.suppress(ConfigError):          # a hold that cannot be given back runs out by itself
            if (self._found() or {}).get("token") == self.token:
                self.objects.remove(self.name)

    def check(self) -> None:
        """Raises ConfigError where another writer has taken the lock from this one."""
        if (found := self._found()) is not None and found.get("token") == self.token:
            return
        who = _who(found) if found else "nobody"
        raise ConfigError(f"{self.objects.url}: now held by {who}; what is finished is kept, run again when it ends")

    def _renew(self) -> None:
        while not self.stop.wait(RENEW_S):
            with contextlib.suppress(ConfigError):      # the next push says so, and stops the run
                if (self._found() or {}).get("token") == self.token:
                    self.objects.write(self.name, self._note())

    def _note(self) -> bytes:
        pid = os.getpid()
        return json.dumps({"token": self.token, "host": socket.gethostname(), "machine": _machine(), "process": pid,
                           "started": _started(pid), "renewed": time.time()}).encode()

    def _found(self) -> dict[str, Any] | None:
        data = self.objects.read(self.name)
        if data is None:
            return None
        try:
            return dict(json.loads(data))
        except ValueError:
            raise ConfigError(f"{self.objects.url}/{self.name}: damaged; remove it when nobody writes there") from None


def _is_dead(note: dict[str, Any]) -> bool:
    if note.get("machine") == _machine() and _started(note["process"]) != note.get("started"):
        return True
    return time.time() - float(note.get("renewed", 0)) > LEASE_S


def _who(note: dict[str, Any]) -> str:
    age = max(0.0, time.time() - float(note.get("renewed", 0)))
    return f"process {note.get('process')} on {note.get('host')}, seen {age:.0f} s ago"


def _machine() -> str:
    """This boot of this machine, and the name space of its process numbers."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    space = os.readlink("/proc/self/ns/pid") if os.path.exists("/proc/self/ns/pid") else ""
    return ids.digest([socket.gethostname(), boot.read_text() if boot.exists() else "", space])


def _started(pid: int) -> str | None:
    """When a process of this machine began, as its kernel counts; None where it has ended or cannot be told."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else rest[18]
