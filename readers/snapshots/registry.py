"""The one table of serializer snapshot classes: class name → reader of the snapshot's body.

To add a type: write its serializer and its line in the `SNAPSHOTS` of its family; nothing else names types. A family is loaded when a
savepoint has a class that it may know: most savepoints have classes of one or two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from readers.serializers.snapshot import SnapshotBody


def snapshot_body(class_name: str) -> SnapshotBody | None:
    """Return the reader for a snapshot class; None where it is not known."""
    body = _body(class_name)
    # Jars that shade Flink have a prefix of their own before its package.
    if body is None and not class_name.startswith(_FLINK):
        at = class_name.find("." + _FLINK)
        body = _body(class_name[at + 1 :]) if at >= 0 else None
    return body


def has_snapshot(class_name: str) -> bool:
    """Return whether a snapshot class is known."""
    return _body(class_name) is not None


def families() -> Iterator[tuple[str, Mapping[str, SnapshotBody]]]:
    """Yield the title of each family, as the README shows it, and its snapshot classes; loads all families."""
    return ((title, _snapshots(module)) for title, module in FAMILIES.items())


def _body(class_name: str) -> SnapshotBody | None:
    likely = next((modules for package, modules in _LIKELY.items() if class_name.startswith(package)), ())
    # A package is a hint alone: the family that knows the class may be any.
    for module in dict.fromkeys((*likely, *FAMILIES.values())):
        body = _snapshots(module).get(class_name)
        if body is not None:
            return body
    return None


@cache
def _snapshots(module: str) -> Mapping[str, SnapshotBody]:
    snapshots: Mapping[str, SnapshotBody] = import_module(module).SNAPSHOTS
    return snapshots


_FLINK = "org.apache.flink."
_SERIALIZERS = "readers.serializers."

FAMILIES: dict[str, str] = {
    "numbers, text, bytes": _SERIALIZERS + "primitives",
    "times": _SERIALIZERS + "temporal",
    "lists, maps, arrays, enums": _SERIALIZERS + "containers",
    "tuples, rows": _SERIALIZERS + "tuples",
    "value classes": _SERIALIZERS + "values",
    "POJOs, records": _SERIALIZERS + "pojo",
    "Kryo 2 and 5": _SERIALIZERS + "kryo.serializer",
    "Avro": _SERIALIZERS + "avro",
    "Scala": _SERIALIZERS + "scala",
    "SQL": _SERIALIZERS + "table.rowdata",
    "windows, timers, TTL": _SERIALIZERS + "operators",
    "variants": _SERIALIZERS + "table.variants",
    "stream operators": _SERIALIZERS + "streaming",
    "transactions of sinks": _SERIALIZERS + "transactions",
    "CEP": _SERIALIZERS + "cep",
}
"""Title, as the README shows it → the module whose `SNAPSHOTS` are the snapshot classes of the family."""

_LIKELY: dict[str, tuple[str, ...]] = {
    _FLINK + "api.common.typeutils.base.": (
        FAMILIES["numbers, text, bytes"],
        FAMILIES["lists, maps, arrays, enums"],
    ),
    _FLINK + "api.java.typeutils.runtime.kryo.": (FAMILIES["Kryo 2 and 5"],),
    _FLINK + "api.java.typeutils.runtime.Pojo": (FAMILIES["POJOs, records"],),
    _FLINK + "api.java.typeutils.runtime.": (FAMILIES["tuples, rows"],),
    _FLINK + "streaming.": (FAMILIES["windows, timers, TTL"],),
    _FLINK + "runtime.state.ttl.": (FAMILIES["windows, timers, TTL"],),
    _FLINK + "formats.avro.": (FAMILIES["Avro"],),
    _FLINK + "api.scala.": (FAMILIES["Scala"],),
    _FLINK + "table.": (FAMILIES["SQL"],),
    _FLINK + "cep.": (FAMILIES["CEP"],),
}
"""Beginning of a class name → the families to look in first."""
