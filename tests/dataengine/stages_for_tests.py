"""Stages that misbehave on demand, for the executors."""

from __future__ import annotations

import os
import time

from worldloom.dataengine.stage import ALIVE, Params
from worldloom.schemas import DataError, Score


class MisbehavingParams(Params):
    pass


class MisbehavingStage:
    """Reads files; what it does depends on the file's name."""
    name, version, reads, optional, writes, budget_s = "score", 1, ("file",), (), Score, 2.0
    Params = MisbehavingParams

    def __init__(self, params: MisbehavingParams | None = None) -> None:
        self.params = params or MisbehavingParams()

    def setup(self, context) -> None:
        pass

    def process(self, item):
        name = item["file"].name
        if "hang" in name:
            time.sleep(600)
        if "die" in name:
            os._exit(11)
        if "bad" in name:
            raise DataError(f"{name}: is bad,\nand says so")
        if "bug" in name:
            raise ZeroDivisionError(name)
        if "slow" in name:
            for _ in range(12):
                time.sleep(0.25)
                yield ALIVE
        yield Score(clip_id=name, name="length", value=float(len(name)), unit="", frames=[])
