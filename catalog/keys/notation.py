"""Structs and lists as people and Java write them, which is no JSON: `(a,1)`, `+I[a, 1]`, `{f0: a, f1: 1}`.

    group  = [word] ( "(" items ")" | "[" items "]" | "{" items "}" )
    items  = nothing | item { "," item }
    item   = value; in "{", name (":" | "=") value
    value  = group | text in single or double quotes | text without commas and brackets

The word before a group is the kind of a row (`+I`), or the name of a class, which says nothing about the value.

The rows of a key as people read them: a namespace, the place in a map or a list, and the value, as JSON text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

import pyarrow as pa

import readers

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_KINDS = frozenset({"+I", "-U", "+U", "-D"})
_OPENING = re.compile(r"\s*([\w.$]*|[+-][IUD])\s*([(\[{])")
_NAME = re.compile(r"\s*(?:([A-Za-z_]\w*)|'([^']*)'|\"([^\"]*)\")\s*[:=]")
_QUOTED = re.compile(r"\s*(?:'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\")\s*(?=[,)\]}]|\Z)")
_BLANKS = re.compile(r"\s*")
_BARE = re.compile(r"[^,()\[\]{}]*")
_MOST_DEPTH = 32


class Row(NamedTuple):
    """The values of a row, in the order of its fields."""

    kind: str
    values: list[Any]


Group = dict[str, Any] | list[Any] | Row


def read_group(text: str) -> Group:
    """Return the group that a whole text is: its values by name, or in their order.

    Raises:
        ValueError: it is none.
    """
    group, end = _group(text, 0, 0)
    if group is None or text[end:].strip():
        raise ValueError("expected one pair of brackets around all")
    return group


def _group(text: str, start: int, depth: int) -> tuple[Group | None, int]:
    opening = _OPENING.match(text, start)
    if opening is None:
        return None, start
    if depth == _MOST_DEPTH:
        raise ValueError(f"expected at most {_MOST_DEPTH} brackets inside each other")
    word, bracket = opening.groups()
    names: list[str] = []
    values: list[Any] = []
    end = _after_blanks(text, opening.end())
    is_open = text[end : end + 1] != _CLOSING[bracket]
    while is_open:
        if bracket == "{":
            name, end = _name(text, end)
            names.append(name)
        value, end = _value(text, end, depth)
        values.append(value)
        is_open = text[end : end + 1] == ","
        end += is_open
    if text[end : end + 1] != _CLOSING[bracket]:
        raise ValueError(f"expected {_CLOSING[bracket]!r}, found {text[end : end + 10]!r}")
    if names:
        return dict(zip(names, values, strict=True)), end + 1
    return Row(word, values) if word in _KINDS else values, end + 1


def _name(text: str, start: int) -> tuple[str, int]:
    found = _NAME.match(text, start)
    if found is None:
        raise ValueError(f"expected the name of a field, found {text[start : start + 10]!r}")
    return next(name for name in found.groups() if name is not None), found.end()


def _value(text: str, start: int, depth: int) -> tuple[Any, int]:
    quoted = _QUOTED.match(text, start)
    if quoted is not None:
        single, double = quoted.groups()
        return single.replace("''", "'") if single is not None else double.replace('""', '"'), quoted.end()
    group, end = _group(text, start, depth + 1)
    if group is not None:
        return group, _after_blanks(text, end)
    bare = _BARE.match(text, start)
    assert bare is not None  # it matches nothing, too
    return bare.group().strip(), bare.end()


def _after_blanks(text: str, start: int) -> int:
    blanks = _BLANKS.match(text, start)
    assert blanks is not None  # it matches nothing, too
    return blanks.end()


_TEXT = pa.string()
ENTRIES = pa.schema([("namespace", _TEXT), ("map_key", _TEXT), ("list_index", pa.int32()), ("value", _TEXT)])


def entries_of(batch: pa.RecordBatch, value: str, json_columns: Collection[str] = ()) -> pa.RecordBatch:
    """Return the rows of states as entries.

    Args:
        batch: the rows; a column that they do not have is null.
        value: the column with the value.
        json_columns: columns whose texts are JSON already.
    """

    def column(name: str) -> pa.Array:
        if name not in batch.schema.names:
            return pa.nulls(batch.num_rows, _TEXT)
        return batch.column(name) if name in json_columns else readers.json_text(batch.column(name))

    def namespace() -> pa.Array:
        # SQL's operators store of a window its end, in milliseconds.
        if "namespace" in batch.schema.names and pa.types.is_int64(batch.schema.field("namespace").type):
            return readers.json_text(batch.column("namespace").cast(pa.timestamp("ms")))
        return column("namespace")

    has_index = "list_index" in batch.schema.names
    index = batch.column("list_index") if has_index else pa.nulls(batch.num_rows, pa.int32())
    return pa.RecordBatch.from_arrays([namespace(), column("map_key"), index, column(value)], schema=ENTRIES)
