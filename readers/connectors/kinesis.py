"""KinesisStreamsSource. Package `org.apache.flink.connector.kinesis.source`.

| value | version | bytes |
|---|---|---|
| KinesisShardSplit | 0 | utf stream ARN, utf shard id, utf iterator type, bool has marker → bool → i8 ms, bool → utf sequence number |
| | 1 | as 0, i4 n, n × utf parent shard id, utf first hash key, utf last hash key |
| | 2 | as 1, bool is finished |
| enumerator | 0 | bool → utf last seen shard id, i4 n, i4 split version, n × (i4 length, split) |
| | 1 | as 0, behind each split i4 status: 0 assigned, 1 not assigned |

Flink: KinesisShardSplitSerializer, KinesisStreamsSourceEnumeratorStateSerializer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from readers.connectors.layout import (
    ASSIGNED,
    SourceOffset,
    check_version,
    coordinator_layout,
    named,
    versioned_layout,
    whole,
)
from readers.cursor import Cursor
from readers.schemas import struct_of

_PACKAGE = "org.apache.flink.connector.kinesis.source."
_STATUS = (ASSIGNED, "UNASSIGNED")
_ITERATOR_TYPES = frozenset(
    {"TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"}
)

SPLIT = struct_of(
    "stream_arn, shard_id, shard_iterator_type, starting_timestamp timestamp, starting_sequence_number,"
    " parent_shard_ids text[], starting_hash_key, ending_hash_key, is_finished boolean"
)
_ENUMERATOR = struct_of(
    "last_seen_shard_id, splits split[]", split=pa.struct([*SPLIT, ("assignment_status", pa.string())])
)


def read_split(version: int, cursor: Cursor) -> dict[str, Any]:
    """Read a KinesisShardSplit."""
    check_version(cursor, "a KinesisShardSplit", version, 0, 2)
    start = cursor.position
    split: dict[str, Any] = {"stream_arn": cursor.utf("stream"), "shard_id": cursor.utf("shard")}
    split["shard_iterator_type"] = cursor.utf("iterator type")
    # Only Kinesis has these names, so other connectors' bytes are not mistaken for a shard.
    if split["shard_iterator_type"] not in _ITERATOR_TYPES:
        raise cursor.corrupt("expected a Kinesis shard", start)
    # The starting position has no marker for TRIM_HORIZON and LATEST.
    if cursor.boolean():
        split["starting_timestamp"] = cursor.i8() if cursor.boolean() else None
        split["starting_sequence_number"] = cursor.utf("sequence number") if cursor.boolean() else None
    if version >= 1:
        parents = cursor.count("parent shards", 2)
        split["parent_shard_ids"] = [cursor.utf("parent shard") for _ in range(parents)]
        split["starting_hash_key"] = cursor.utf("hash key")
        split["ending_hash_key"] = cursor.utf("hash key")
    if version >= 2:
        split["is_finished"] = cursor.boolean()
    return split


def read_enumerator(version: int, cursor: Cursor) -> dict[str, Any]:
    """Read a KinesisStreamsSourceEnumeratorState; version 0 contains only the splits that no reader has."""
    check_version(cursor, "a KinesisStreamsSourceEnumeratorState", version, 0, 1)
    last_seen = cursor.utf("last seen shard") if cursor.boolean() else None
    count, split_version = cursor.count("splits", 4), cursor.i4()
    splits = []
    for _ in range(count):
        split = whole(read_split, split_version, cursor.sub(cursor.i4(), "split"))
        status = named(cursor, _STATUS, "an assignment status") if version >= 1 else _STATUS[1]
        splits.append(split | {"assignment_status": status})
    return {"last_seen_shard_id": last_seen, "splits": splits}


def _split_offsets(split: dict[str, Any]) -> Iterator[SourceOffset]:
    """Yield the offset of a split. Sequence numbers do not fit into int64, so they are in the details."""
    yield SourceOffset(topic=split["stream_arn"], details={"source": "KinesisStreamsSource"} | split)


SPLITS = versioned_layout("kinesis", _PACKAGE + "split.KinesisShardSplit", SPLIT, read_split, _split_offsets)
ENUMERATOR = coordinator_layout(
    "kinesis",
    _PACKAGE + "enumerator.KinesisStreamsSourceEnumeratorState",
    _ENUMERATOR,
    read_enumerator,
    _split_offsets,
)
