"""Rows, units, axes, ids and errors that every other package agrees on."""

from worldloom.schemas.arrow import TABLES, arrow_schema, from_table, json_schema, key_column, to_table
from worldloom.schemas.errors import ConfigError, DataError, DecodeError, WorldloomError
from worldloom.schemas.rows import (
    UNCERTAIN,
    Action,
    Audit,
    Camera,
    Caption,
    Clip,
    Drop,
    Evaluation,
    Failure,
    Mix,
    Run,
    Sample,
    Score,
    Selection,
    Source,
    Trajectory,
    Video,
)

__all__ = [
    "TABLES", "UNCERTAIN", "Action", "Audit", "Camera", "Caption", "Clip", "ConfigError", "DataError", "DecodeError",
    "Drop", "Evaluation", "Failure", "Mix", "Run", "Sample", "Score", "Selection", "Source", "Trajectory", "Video",
    "WorldloomError", "arrow_schema", "from_table", "json_schema", "key_column", "to_table",
]
