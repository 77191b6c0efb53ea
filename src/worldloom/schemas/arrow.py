"""Rows to Arrow and back, and the JSON Schema and data dictionary that come from the same fields.

A row type is a frozen dataclass whose fields are made by `column`; its annotation gives the Arrow type, the
metadata gives the unit, the meaning and, for tracks, the Arrow type. Float tracks hold NaN in memory where the
value is unknown, and null in Arrow.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

Row = TypeVar("Row")
TABLES: dict[str, type] = {}

_SCALARS: dict[Any, pa.DataType] = {
    str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(),
    list[str]: pa.list_(pa.string()), list[int]: pa.list_(pa.int64()), list[float]: pa.list_(pa.float64()),
}
_JSON_TYPES = {"string": "string", "int64": "integer", "double": "number", "bool": "boolean"}


def column(description: str, *, unit: str | None = None, arrow: pa.DataType | None = None,
           default: Any = dataclasses.MISSING) -> Any:
    """A field of a row: what it means, its unit, and its Arrow type where the annotation does not say."""
    return dataclasses.field(default=default, metadata={"description": description, "unit": unit, "arrow": arrow})


def track(description: str, arrow: pa.DataType, *, unit: str | None = None, width: int | None = None) -> Any:
    """A field with one value (or `width` values) a frame, a NumPy array in memory and a list column in Arrow."""
    inner = pa.list_(arrow, width) if width else arrow
    return dataclasses.field(metadata={"description": description, "unit": unit, "arrow": pa.list_(inner)})


@typing.dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(column, track))
def table(name: str, *, key: str) -> Callable[[type[Row]], type[Row]]:
    """Class decorator: a frozen row type, registered as the table `name` and keyed by the column `key`."""
    def register(cls: type[Row]) -> type[Row]:
        row_type = dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)(cls)
        TABLES[name] = row_type
        _KEYS[row_type] = key
        return row_type
    return register


_KEYS: dict[type, str] = {}


def key_column(row_type: type) -> str:
    return _KEYS[row_type]


def _annotation(row_type: type, name: str) -> tuple[Any, bool]:
    hint = typing.get_type_hints(row_type)[name]
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        rest = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        return rest[0], True
    return hint, False


def arrow_schema(row_type: type) -> pa.Schema:
    fields = []
    for field in dataclasses.fields(row_type):
        hint, nullable = _annotation(row_type, field.name)
        arrow = field.metadata["arrow"] or _SCALARS[hint]
        meta = {k: str(v) for k, v in field.metadata.items() if k in ("description", "unit") and v}
        fields.append(pa.field(field.name, arrow, nullable=nullable, metadata=meta))
    return pa.schema(fields)


def _to_arrow(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.ndim > 2:
        value = value.reshape(len(value), -1)
    if value.dtype.kind == "f" and np.isnan(value).any():
        value = value.astype(object)
        value[value != value] = None
    return value.tolist()


def to_table(rows: Sequence[Any], row_type: type) -> pa.Table:
    """Arrow table of the rows, in order; empty rows give an empty table with the full schema."""
    schema = arrow_schema(row_type)
    columns = [
        pa.array([_to_arrow(getattr(row, field.name)) for row in rows], type=field.type) for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _from_arrow(value: Any, hint: Any, arrow: pa.DataType) -> Any:
    if hint is not np.ndarray or value is None:
        return value
    inner = arrow.value_type
    if pa.types.is_floating(inner):
        return np.array([np.nan if v is None else v for v in value], dtype=inner.to_pandas_dtype())
    if pa.types.is_fixed_size_list(inner):
        width, dtype = inner.list_size, inner.value_type.to_pandas_dtype()
        flat = np.array([[np.nan if x is None else x for x in v] for v in value], dtype=dtype).reshape(-1, width)
        return flat.reshape(-1, 4, 4) if width == 16 else flat
    return np.array(value, dtype=inner.to_pandas_dtype())


def from_table(data: pa.Table, row_type: type[Row]) -> list[Row]:
    """Rows of an Arrow table; tracks become NumPy arrays, 16-wide ones (T, 4, 4) poses."""
    schema = arrow_schema(row_type)
    hints = {field.name: _annotation(row_type, field.name)[0] for field in schema}
    columns = {field.name: data[field.name].to_pylist() for field in schema}
    return [
        row_type(**{f.name: _from_arrow(columns[f.name][i], hints[f.name], f.type) for f in schema})
        for i in range(data.num_rows)
    ]


def _json_type(arrow: pa.DataType) -> dict[str, Any]:
    if pa.types.is_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return {"type": "array", "items": _json_type(arrow.value_type)}
    if pa.types.is_struct(arrow):
        return {"type": "object", "properties": {f.name: _json_type(f.type) for f in arrow}}
    if pa.types.is_integer(arrow):
        return {"type": "integer"}
    if pa.types.is_floating(arrow):
        return {"type": ["number", "null"]}
    return {"type": _JSON_TYPES.get(str(arrow), "string")}


def json_schema(row_type: type) -> dict[str, Any]:
    """JSON Schema (2020-12) of one row."""
    properties, required = {}, []
    for field in arrow_schema(row_type):
        spec = _json_type(field.type)
        if field.nullable:
            spec = {"anyOf": [spec, {"type": "null"}]}
        meta = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
        properties[field.name] = spec | meta
        required.append(field.name)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": row_type.__name__,
        "description": (row_type.__doc__ or "").strip(), "type": "object", "properties": properties,
        "required": required, "additionalProperties": False,
    }


def dictionary_rows(row_types: Iterable[tuple[str, type]]) -> list[tuple[str, str, str, str, str]]:
    """(table, column, Arrow type, unit, meaning) of every column."""
    rows = []
    for name, row_type in row_types:
        for field in arrow_schema(row_type):
            meta = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
            kind = str(field.type).replace("list<element: ", "list<").replace("item: ", "").replace(" not null", "")
            kind += " or null" if field.nullable else ""
            rows.append((name, field.name, kind, meta.get("unit", ""), meta["description"]))
    return rows
