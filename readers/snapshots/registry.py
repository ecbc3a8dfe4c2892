"""The one table of serializer snapshot classes: class name → reader of the snapshot's body.

To add a type: write its serializer and its line in the `SNAPSHOTS` of its family; nothing else names types.
"""

from __future__ import annotations

from collections.abc import Mapping

from readers.serializers import (
    avro,
    cep,
    containers,
    operators,
    pojo,
    primitives,
    scala,
    streaming,
    temporal,
    transactions,
    tuples,
    values,
)
from readers.serializers.kryo import serializer as kryo
from readers.serializers.snapshot import SnapshotBody
from readers.serializers.table import rowdata, variants


def snapshot_body(class_name: str) -> SnapshotBody | None:
    """Return the reader for a snapshot class; None where it is not known."""
    body = SNAPSHOTS.get(class_name)
    # Jars that shade Flink have a prefix of their own before its package.
    if body is None and not class_name.startswith(_FLINK):
        at = class_name.find("." + _FLINK)
        body = SNAPSHOTS.get(class_name[at + 1 :]) if at >= 0 else None
    return body


def has_snapshot(class_name: str) -> bool:
    """Return whether a snapshot class is known."""
    return class_name in SNAPSHOTS


_FLINK = "org.apache.flink."

FAMILIES: dict[str, Mapping[str, SnapshotBody]] = {
    "numbers, text, bytes": primitives.SNAPSHOTS,
    "times": temporal.SNAPSHOTS,
    "lists, maps, arrays, enums": containers.SNAPSHOTS,
    "tuples, rows": tuples.SNAPSHOTS,
    "value classes": values.SNAPSHOTS,
    "POJOs, records": pojo.SNAPSHOTS,
    "Kryo 2 and 5": kryo.SNAPSHOTS,
    "Avro": avro.SNAPSHOTS,
    "Scala": scala.SNAPSHOTS,
    "SQL": rowdata.SNAPSHOTS,
    "windows, timers, TTL": operators.SNAPSHOTS,
    "variants": variants.SNAPSHOTS,
    "stream operators": streaming.SNAPSHOTS,
    "transactions of sinks": transactions.SNAPSHOTS,
    "CEP": cep.SNAPSHOTS,
}
"""Title, as the README shows it → the snapshot classes of one family."""

SNAPSHOTS: dict[str, SnapshotBody] = {
    class_name: body for family in FAMILIES.values() for class_name, body in family.items()
}
"""The snapshot classes of all families."""
