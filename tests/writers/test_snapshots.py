"""Snapshots of serializers, written as real Flink writes them."""

from __future__ import annotations

from typing import Any

import pytest

from readers.cursor import Cursor
from readers.serializers.containers import EnumSerializer
from readers.serializers.operators import TimerSerializer
from readers.serializers.pojo import PojoField, PojoSerializer
from readers.serializers.primitives import LongSerializer, StringSerializer, VoidNamespaceSerializer
from readers.serializers.table.logicaltypes import BIGINT, RowType
from readers.serializers.table.rowdata import RowDataSerializer
from readers.snapshots.reading import read_versioned
from tests.support.single_values import serializer_of, vectors
from writers import UnencodableTypeError
from writers.headers import write_snapshot

# The readers show these as what they wrap, or as the type of the same name of another package: Flink takes the latter, too.
WRAPPED = ("TableTimeWindow", "TtlAware")
SNAPSHOTS = [
    entry for entry in vectors() if "snapshot_hex" in entry and not entry["type"].startswith(WRAPPED)
]
WRITTEN = 60  # and more, of the vectors of each Flink


def written_or_none(entry: dict[str, Any]) -> bytes | None:
    try:
        return write_snapshot(serializer_of(entry))
    except UnencodableTypeError:
        return None


def test_a_snapshot_is_written_as_flink_wrote_it_or_refused() -> None:
    found = [(entry, written_or_none(entry)) for entry in SNAPSHOTS]

    written = [(entry, snapshot) for entry, snapshot in found if snapshot is not None]
    assert [entry["type"] for entry, snapshot in written if snapshot.hex() != entry["snapshot_hex"]] == []
    assert len(written) > WRITTEN
    refused = {entry["serializer_class"].rsplit(".", 1)[-1] for entry, snapshot in found if snapshot is None}
    assert not refused & {"StringSerializer", "RowSerializer", "EnumSerializer", "TimerSerializer"}


@pytest.mark.parametrize(
    "serializer",
    [
        PojoSerializer(
            "com.acme.Order", (PojoField("id", LongSerializer()), PojoField("name", StringSerializer()))
        ),
        PojoSerializer("A", (), (("B", PojoSerializer("B", ())),), (("C", PojoSerializer("C", ())),)),
        EnumSerializer("com.acme.Color", ("RED", "BLUE")),
        TimerSerializer(StringSerializer(), VoidNamespaceSerializer()),
    ],
    ids=lambda serializer: serializer.type_name,
)
def test_the_snapshot_of_a_new_type_is_read_as_that_type(serializer: Any) -> None:
    cursor = Cursor(write_snapshot(serializer))

    assert read_versioned(cursor) == serializer
    assert cursor.remaining == 0


@pytest.mark.parametrize(
    "serializer",
    [
        RowDataSerializer(RowType((("f0", BIGINT),))),
        PojoSerializer("A", (PojoField("x", LongSerializer(), hidden=True),)),
    ],
)
def test_a_snapshot_that_holds_more_than_its_type_is_refused(serializer: Any) -> None:
    with pytest.raises(UnencodableTypeError, match="expected a type whose snapshot can be written, found"):
        write_snapshot(serializer)
