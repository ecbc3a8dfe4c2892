"""KinesisStreamsSource. Package `org.apache.flink.connector.kinesis.source`.

| value | version | bytes |
|---|---|---|
| KinesisShardSplit | 0 | utf stream ARN, utf shard id, utf iterator type, bool has marker → bool → i8 ms, bool → utf sequence number |

Flink: KinesisShardSplitSerializer (of later versions, the layout is not known here).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from readers.connectors.layout import SourceOffset, unknown_version, versioned_layout
from readers.cursor import Cursor

_ITERATOR_TYPES = frozenset(
    {"TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"}
)

SPLIT = pa.struct(
    [
        pa.field("stream_arn", pa.string()),
        pa.field("shard_id", pa.string()),
        pa.field("shard_iterator_type", pa.string()),
        pa.field("starting_timestamp", pa.timestamp("ms")),
        pa.field("starting_sequence_number", pa.string()),
    ]
)


def read_split(version: int, cursor: Cursor) -> dict[str, Any]:
    """A KinesisShardSplit."""
    if version != 0:
        raise unknown_version(cursor, "a KinesisShardSplit", version, "0")
    start = cursor.position
    split: dict[str, Any] = {"stream_arn": cursor.utf("stream"), "shard_id": cursor.utf("shard")}
    split["shard_iterator_type"] = cursor.utf("iterator type")
    if split["shard_iterator_type"] not in _ITERATOR_TYPES:
        raise cursor.corrupt("expected a Kinesis shard", start)
    if cursor.boolean():
        split["starting_timestamp"] = cursor.i8() if cursor.boolean() else None
        split["starting_sequence_number"] = cursor.utf("sequence number") if cursor.boolean() else None
    return split


def _split_offsets(split: dict[str, Any]) -> Iterator[SourceOffset]:
    """Sequence numbers have more digits than an int64: they are in the details."""
    yield SourceOffset(topic=split["stream_arn"], details={"source": "KinesisStreamsSource"} | split)


SPLITS = versioned_layout(
    "kinesis",
    "org.apache.flink.connector.kinesis.source.split.KinesisShardSplit",
    SPLIT,
    read_split,
    _split_offsets,
)
