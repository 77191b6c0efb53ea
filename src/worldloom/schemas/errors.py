"""What can go wrong: data fails one row, configuration stops the run."""

from __future__ import annotations


class WorldloomError(Exception):
    """Base of every error that is shown to a person as one line."""


class DataError(WorldloomError):
    """A row that cannot be used; it fails alone and the others go on."""


class DecodeError(DataError):
    """A video whose pictures cannot be read."""


class ConfigError(WorldloomError):
    """A plan, mix or command that cannot be carried out; it stops before any work."""
