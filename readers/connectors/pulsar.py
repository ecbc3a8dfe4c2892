"""PulsarSource. Package `org.apache.flink.connector.pulsar.source`.

| value | version | bytes |
|---|---|---|
| PulsarPartitionSplit | 0–2 | partition, i4 length, stop cursor, bool → i4 length, message id, bool → i8, i8 transaction |
| partition | 0 | utf topic, i4 partition (-1: the topic is not partitioned), i4 first hash, i4 last hash |
| | 1 | utf topic, i4 partition, i4 n, n × (i4 first hash, i4 last hash), i4 mode of ranges |
| | 2 | as in 1, without the mode |
| PulsarSourceEnumState | 1, 2, 3 | i4 n, n × partition of version 0, 1, 2 |

A message id is Pulsar's protobuf message MessageIdData: 1 ledger, 2 entry, 3 partition, 5 index in a batch. A stop cursor
is a Java object of the connector or of the user: only its class name is shown.

Flink: PulsarPartitionSplitSerializer, PulsarSourceEnumStateSerializer (version 0 of the enumerator is not supported).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from readers.connectors.layout import (
    SourceOffset,
    check_version,
    coordinator_layout,
    expect_end,
    versioned_layout,
)
from readers.cursor import Cursor
from readers.javaio import JavaEnum, JavaObject, read_object
from readers.schemas import struct_of

_PACKAGE = "org.apache.flink.connector.pulsar.source."
_HASHES = 1 << 16  # Pulsar hashes keys to 16 bits
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_MESSAGE_ID = {1: "ledger_id", 2: "entry_id", 5: "batch_index"}
_RANGE = struct_of("start int, end int")
_PARTITION = struct_of("topic, partition int, ranges range[]", range=_RANGE)

SPLIT = struct_of(
    "topic, partition int, ranges range[], stop_cursor, ledger_id bigint, entry_id bigint, batch_index bigint,"
    " transaction_most_bits bigint, transaction_least_bits bigint",
    range=_RANGE,
)
_ENUMERATOR = struct_of("partitions partition[]", partition=_PARTITION)


def read_split(version: int, cursor: Cursor) -> dict[str, Any]:
    """Read a PulsarPartitionSplit; `ledger_id` and `entry_id` identify the last message read, null before the first one."""
    check_version(cursor, "a PulsarPartitionSplit", version, 0, 2)
    split = _partition(version, cursor)
    split["stop_cursor"] = _class_of(cursor.sub(cursor.i4(), "stop cursor"))
    if cursor.boolean():
        split |= _message_id(cursor.sub(cursor.i4(), "message id"))
    if cursor.boolean():
        split["transaction_most_bits"], split["transaction_least_bits"] = cursor.i8(), cursor.i8()
    return split


def read_enumerator(version: int, cursor: Cursor) -> dict[str, Any]:
    """Read a PulsarSourceEnumState: the partitions found so far."""
    check_version(cursor, "a PulsarSourceEnumState", version, 1, 3)
    count = cursor.count("partitions", 10)
    return {"partitions": [_partition(version - 1, cursor) for _ in range(count)]}


def _partition(version: int, cursor: Cursor) -> dict[str, Any]:
    start = cursor.position
    topic, partition = cursor.utf("topic"), cursor.i4()
    count = 1 if version == 0 else cursor.count("ranges of hashes", 8)
    ranges = [{"start": cursor.i4(), "end": cursor.i4()} for _ in range(count)]
    if version == 1:
        cursor.i4()  # mode of ranges
    # Nothing in the bytes names the connector: the bounds show that the layout is Pulsar's.
    if not topic or partition < -1 or any(not 0 <= r["start"] <= r["end"] < _HASHES for r in ranges):
        raise cursor.corrupt(f"expected a partition of a Pulsar topic, found {topic!r:.100}", start)
    return {"topic": topic, "partition": partition, "ranges": ranges}


def _class_of(cursor: Cursor) -> str:
    start = cursor.position
    found = read_object(cursor)
    expect_end(cursor)
    if isinstance(found, JavaObject):
        return found.class_name
    if isinstance(found, JavaEnum):
        return found.java_class.name
    raise cursor.corrupt("expected an object", start)


def _message_id(cursor: Cursor) -> dict[str, int]:
    found: dict[str, int] = {}
    while cursor.remaining:
        tag = cursor.varint("tag")
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value = _varint64(cursor)
            if number in _MESSAGE_ID:
                found[_MESSAGE_ID[number]] = value
        elif wire_type in (_FIXED_64, _FIXED_32):
            cursor.read(8 if wire_type == _FIXED_64 else 4, "message id")
        elif wire_type == _BYTES:
            cursor.read(cursor.varint("length"), "message id")
        else:
            raise cursor.corrupt(f"expected a protobuf field, found one of type {wire_type}")
    if "ledger_id" not in found or "entry_id" not in found:
        raise cursor.corrupt("expected a message id with its ledger and its entry")
    return found


def _varint64(cursor: Cursor) -> int:
    # The cursor's own varint has five bytes at most.
    value = shift = 0
    while True:
        byte = cursor.u1()
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
        if shift > 63:
            raise cursor.corrupt("expected a number of 64 bits at most")
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _split_offsets(split: dict[str, Any]) -> Iterator[SourceOffset]:
    """Yield the offset of a split. An offset of Pulsar is a ledger and an entry, so it is in the details."""
    details = {name: value for name, value in split.items() if name not in ("topic", "partition")}
    partition = None if split["partition"] < 0 else split["partition"]
    yield SourceOffset(
        topic=split["topic"], partition=partition, details={"source": "PulsarSource"} | details
    )


SPLITS = versioned_layout(
    "pulsar", _PACKAGE + "split.PulsarPartitionSplit", SPLIT, read_split, _split_offsets
)
ENUMERATOR = coordinator_layout(
    "pulsar", _PACKAGE + "enumerator.PulsarSourceEnumState", _ENUMERATOR, read_enumerator
)
