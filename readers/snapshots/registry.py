"""The one table of serializer snapshot classes: class name → reader of the snapshot's body.

To add a type: write its class and its line in the family's `SNAPSHOTS`; nothing else knows type names.
"""

from __future__ import annotations

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
    """The reader for a snapshot class; None where it is not known. Shaded Flink classes are found by their tail."""
    body = SNAPSHOTS.get(class_name)
    if body is None and not class_name.startswith(_FLINK):
        at = class_name.find("." + _FLINK)
        body = SNAPSHOTS.get(class_name[at + 1 :]) if at >= 0 else None
    return body


_FLINK = "org.apache.flink."

SNAPSHOTS: dict[str, SnapshotBody] = {
    **primitives.SNAPSHOTS,
    **temporal.SNAPSHOTS,
    **containers.SNAPSHOTS,
    **tuples.SNAPSHOTS,
    **values.SNAPSHOTS,
    **variants.SNAPSHOTS,
    **pojo.SNAPSHOTS,
    **operators.SNAPSHOTS,
    **scala.SNAPSHOTS,
    **kryo.SNAPSHOTS,
    **avro.SNAPSHOTS,
    **rowdata.SNAPSHOTS,
    **streaming.SNAPSHOTS,
    **transactions.SNAPSHOTS,
    **cep.SNAPSHOTS,
}
