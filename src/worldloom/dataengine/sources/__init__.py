"""Readers of video sources: each lists the files of one place and says under which terms they are."""

from worldloom.dataengine.sources.params import DeclaredLens, FileEntry, SourceParams
from worldloom.dataengine.sources.readers import READERS, open_source, register_reader

__all__ = ["READERS", "DeclaredLens", "FileEntry", "SourceParams", "open_source", "register_reader"]
