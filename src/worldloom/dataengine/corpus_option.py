"""The option --corpus, the same in every command: a folder or a URL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def _folder(text: str | os.PathLike[str]) -> Path:
    if "://" not in os.fspath(text):
        return Path(text)
    from worldloom.dataengine.remote import working_copy

    return working_copy(text)


Corpus = Annotated[Path, typer.Option(help="The corpus: a folder, or a URL such as s3://bucket/corpus.",
                                      metavar="FOLDER|URL", parser=_folder)]
OptionalCorpus = Annotated[Path | None, typer.Option(help="Compare with this corpus's catalog too.",
                                                     metavar="FOLDER|URL", parser=_folder)]
