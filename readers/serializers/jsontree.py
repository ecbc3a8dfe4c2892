"""JSON text of values that have no column type: Kryo objects, Java streams, recursive Avro records, protobuf messages.

Their readers build trees of dicts, lists and scalars, which become text here. See `readers.jsontext` for columns.

| value | JSON |
|---|---|
| numbers, text, booleans, null | themselves; NaN and infinities as text |
| bytes | base64 text |
| lists, sets, arrays | arrays |
| maps | arrays of `{"key": …, "value": …}` |
| objects of other classes | `{"@class": name, field: …}`; an object inside itself is `{"@reference": name}` there |
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from typing import Any

from readers.errors import CorruptDataError, UnsupportedSerializerError
from readers.javaio import JavaArray, JavaClass, JavaEnum, JavaObject, JavaValue

MAX_NODES = 1_000_000  # references let a few bytes stand for a value of any size

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
_BOXES = frozenset(
    f"java.lang.{name}"
    for name in ("Integer", "Long", "Short", "Byte", "Float", "Double", "Boolean", "Character")
)


def json_text(value: Any) -> bytes:
    """Encode a tree of dicts, lists and scalars as UTF-8 JSON; surrogates without a partner become U+FFFD."""
    return clean_text(_ENCODER.encode(value)).encode()


def clean_text(text: str) -> str:
    """Return `text` with pairs of surrogates joined and lone ones replaced by U+FFFD."""
    # Text without surrogates, which nearly all text is, is returned as it is.
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def json_float(value: float) -> float | str:
    """Return a float; its name as text where JSON has no number for it."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def json_bytes(value: bytes) -> str:
    """Encode bytes as base64 text."""
    return base64.b64encode(value).decode("ascii")


def json_map(entries: Iterable[tuple[Any, Any]]) -> list[Any]:
    """Return the entries of a map as objects of key and value: keys of JSON objects are texts only."""
    return [{"key": key, "value": value} for key, value in entries]


def json_of(value: JavaValue) -> Any:
    """Return the JSON tree of a value of a Java object stream.

    Raises:
        CorruptDataError: references make it too large to be shown.
    """
    return _JavaJson().tree(value)


class _JavaJson:
    """Builds the tree of one object graph; `open` holds the objects around the current one."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.nodes = 0

    def tree(self, value: JavaValue) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise CorruptDataError(f"expected a Java object of at most {MAX_NODES} values")
        if isinstance(value, float):
            return json_float(value)
        if isinstance(value, bytes):
            return json_bytes(value)
        if isinstance(value, JavaEnum):
            return value.constant
        if isinstance(value, JavaClass):
            return value.name
        if isinstance(value, JavaArray | JavaObject):
            return self._inside(value)
        return value

    def _inside(self, value: JavaArray | JavaObject) -> Any:
        if id(value) in self.open:
            return {"@reference": value.java_class.name}
        self.open.add(id(value))
        tree = self._array(value) if isinstance(value, JavaArray) else self._object(value)
        self.open.discard(id(value))
        return tree

    def _array(self, array: JavaArray) -> Any:
        if isinstance(array.values, bytes):
            return json_bytes(array.values)
        return [self.tree(element) for element in array.values]

    def _object(self, value: JavaObject) -> Any:
        fields = value.fields
        if value.class_name in _BOXES and "value" in fields:
            return self.tree(fields["value"])
        # Collections whose elements are found are shown as such, all others as objects.
        try:
            if value.class_name.endswith("Map"):
                return json_map((self.tree(key), self.tree(item)) for key, item in value.entries())
            return [self.tree(element) for element in value.elements()]
        except UnsupportedSerializerError:
            pass
        tree = {"@class": value.class_name} | {name: self.tree(field) for name, field in fields.items()}
        annotation = [self.tree(element) for element in value.annotation]
        return tree | {"@data": annotation} if annotation else tree
