"""KafkaSource and KafkaSink. Package `org.apache.flink.connector.kafka`.

| value | version | bytes |
|---|---|---|
| KafkaPartitionSplit | 0 | utf topic, i4 partition, i8 starting offset, i8 stopping offset (smallest: none) |
| KafkaSourceEnumState | 0 | i4 n, [i4 split version, n × (i4 reader, i4 m, m × (i4 length, split))] |
| | 1 | i4 n, n × (utf topic, i4 partition) |
| | 2 | i4 n, n × (utf topic, i4 partition, i4 status), bool initial discovery finished |
| | 3 | i4 n, i4 split version, n × (i4 length, split, i4 status), bool initial discovery finished |
| KafkaWriterState | 1 | utf transactional id prefix |
| | 2 | utf prefix, i4 owned subtask, i4 total owned subtasks, i4 ownership, i4 n, n × (utf transactional id, i8 checkpoint) |
| KafkaCommittable | 1 | i2 epoch, i8 producer id, utf transactional id |

Starting offsets below 0 stand for offsets that the source looks up: -1 latest, -2 earliest, -3 committed.

The legacy FlinkKafkaConsumer keeps a list state of Tuple2<KafkaTopicPartition, Long>, the first written by Kryo:

| bytes | meaning |
|---|---|
| varint | class id; 1 for a class by name: varint, name |
| varint 1 | the object is not a reference |
| zigzag, zigzag | `cachedHash`, `partition` |
| [varint 1], text | `topic`: ASCII whose last byte has its top bit set, or a varint with bits 7 (and 6: more) and UTF-8 |
| i8 | offset of the last record that was read: -1 before the first |

Flink: KafkaPartitionSplitSerializer, KafkaSourceEnumStateSerializer, KafkaWriterStateSerializer, KafkaCommittableSerializer;
FlinkKafkaConsumerBase.

What a sink has not committed yet is a `CommittableCollector` of version 2 (since Flink 1.15):

| part | bytes |
|---|---|
| collector | u4 B91F252C, versioned list of checkpoints |
| checkpoint | i8 checkpoint id, i4 subtasks (0: no such field), versioned list of subtasks |
| subtask | i4 subtask id (0: no such field), versioned list of requests, i4 committables, i4 drained (0, 1), i4 failed |
| request | versioned committable, i4 retries, i4 state |

Numbers in brackets are versions of the list. Every connector's sink has one, with a committable of its own: Kafka's is read, others
stay bytes.

Flink: CommittableCollectorSerializer, CommitRequestState.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from readers.connectors.layout import (
    ASSIGNED,
    OffsetBounds,
    SourceOffset,
    check_version,
    coordinator_layout,
    expect_end,
    named,
    versioned,
    versioned_layout,
    versioned_list,
)
from readers.cursor import Cursor
from readers.errors import ReaderError
from readers.schemas import struct_of

LEGACY_STATE = "topic-partition-offset-states"
# An element of it ends with the offset.
LEGACY_OFFSET_AT = 8
DEFAULT_STATE = "_default_"
_TOPIC_PARTITION = "org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition"
_PACKAGE = "org.apache.flink.connector.kafka."
_NO_STOPPING_OFFSET = -(1 << 63)  # KafkaPartitionSplit.NO_STOPPING_OFFSET
_COMMITTED_OFFSET = -3
_NAMED_OFFSETS = {-1: "LATEST", -2: "EARLIEST", -3: "COMMITTED"}
# KafkaTopicPartitionStateSentinel
_LEGACY_NAMED_OFFSETS = {
    -915623761776: "NOT_SET",
    -915623761775: "EARLIEST",
    -915623761774: "LATEST",
    -915623761773: "GROUP_OFFSETS",
}
_BOUNDS = OffsetBounds(named=_NAMED_OFFSETS)
_TUPLE_BOUNDS = OffsetBounds(named=_LEGACY_NAMED_OFFSETS)
# The consumer of Flink keeps the last record that it read.
_LEGACY_BOUNDS = OffsetBounds(least=-1, named=_LEGACY_NAMED_OFFSETS)
_STATUS = (ASSIGNED, "UNASSIGNED_INITIAL")
_OWNERSHIP = ("IMPLICIT_BY_SUBTASK_ID", "EXPLICIT_BY_WRITER_STATE")
# The names that Kafka allows: other text shows that the bytes have another layout.
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")

SPLIT = struct_of("topic, partition int, starting_offset bigint, stopping_offset bigint")
_ENUMERATOR = struct_of(
    "partitions split[], initial_discovery_finished boolean",
    split=pa.struct([*SPLIT, ("assignment_status", pa.string())]),
)
_WRITER = struct_of(
    "transactional_id_prefix, owned_subtask_id int, total_owned_subtasks int, transaction_ownership,"
    " precommitted_transactional_ids transaction[]",
    transaction=struct_of("transactional_id, checkpoint_id bigint"),
)


def read_split(version: int, cursor: Cursor) -> dict[str, Any]:
    """Read a KafkaPartitionSplit."""
    check_version(cursor, "a KafkaPartitionSplit", version, 0)
    split = _partition(cursor)
    starting_offset, stopping_offset = cursor.i8(), cursor.i8()
    # Other negative numbers have no meaning for Kafka: the bytes have another layout.
    if starting_offset < _COMMITTED_OFFSET or _NO_STOPPING_OFFSET < stopping_offset < _COMMITTED_OFFSET:
        raise cursor.corrupt(f"expected Kafka offsets, found {starting_offset} and {stopping_offset}")
    stopping = None if stopping_offset == _NO_STOPPING_OFFSET else stopping_offset
    expect_end(cursor)
    return split | {"starting_offset": starting_offset, "stopping_offset": stopping}


def read_enumerator(version: int, cursor: Cursor) -> dict[str, Any]:
    """Read a KafkaSourceEnumState."""
    readers = {0: _assignments, 1: _assigned_partitions, 2: _partitions_with_status, 3: _splits_with_status}
    check_version(cursor, "a KafkaSourceEnumState", version, 0, 3)
    partitions = readers[version](cursor)
    finished = cursor.boolean() if version >= 2 else None
    return {"partitions": partitions, "initial_discovery_finished": finished}


def read_writer(version: int, cursor: Cursor) -> dict[str, Any]:
    """Read a KafkaWriterState."""
    check_version(cursor, "a KafkaWriterState", version, 1, 2)
    state: dict[str, Any] = {"transactional_id_prefix": cursor.utf("transactional id prefix")}
    if version >= 2:
        state["owned_subtask_id"] = cursor.i4()
        state["total_owned_subtasks"] = cursor.i4()
        state["transaction_ownership"] = named(cursor, _OWNERSHIP, "a transaction ownership")
        state["precommitted_transactional_ids"] = [
            {"transactional_id": cursor.utf("transactional id"), "checkpoint_id": cursor.i8()}
            for _ in range(cursor.count("transactions", 10))
        ]
    return state


def read_committable(cursor: Cursor) -> dict[str, Any]:
    """Read a KafkaCommittable of version 1."""
    epoch, producer_id = cursor.i2(), cursor.i8()
    return {"transactional_id": cursor.utf("transactional id"), "producer_id": producer_id, "epoch": epoch}


def read_legacy_offset(cursor: Cursor) -> dict[str, Any]:
    """Read an element of FlinkKafkaConsumer's state: Tuple2<KafkaTopicPartition, Long>."""
    # 0 would be null; larger ids stand for registered classes, which have no name here.
    if cursor.varint("Kryo class") == 1:
        cursor.varint("Kryo name")
        _kryo_text(cursor)
    _not_a_reference(cursor)
    cursor.varint("hash")  # `cachedHash`, which the other fields determine
    partition = _zigzag(cursor.varint("partition"))
    start = cursor.position
    try:
        _not_a_reference(cursor)
        topic = _kryo_text(cursor)
        offset = cursor.i8()
        expect_end(cursor)
    except ValueError as error:
        raise cursor.corrupt(f"expected a topic: {error}", start) from error
    _check_partition(cursor, topic, partition)
    return {"topic": topic, "partition": partition, "starting_offset": offset}


def java_offset(element: Any) -> SourceOffset | None:
    """Return the offset of a FlinkKafkaConsumer up to 1.3: a Tuple2<KafkaTopicPartition, Long>; None for other objects."""
    key = element.get("f0") if isinstance(element, dict) else None
    if not isinstance(key, dict) or key.get("@class") != _TOPIC_PARTITION:
        return None
    topic, partition, offset = key.get("topic"), key.get("partition"), element.get("f1")
    if not isinstance(topic, str) or not isinstance(partition, int) or not isinstance(offset, int):
        return None
    found = legacy_offset(topic, partition, offset)
    return replace(found, details=found.details | {"state_name": DEFAULT_STATE})


def legacy_offset(topic: str, partition: int, offset: int) -> SourceOffset:
    """Return the offset of a FlinkKafkaConsumer."""
    return replace(tuple_offset(topic, partition, offset), bounds=_LEGACY_BOUNDS)


def tuple_offset(topic: str, partition: int, offset: int) -> SourceOffset:
    """Return the next offset of a consumer that keeps what FlinkKafkaConsumer does as a tuple of its own."""
    details = {"state_name": LEGACY_STATE}
    if offset in _LEGACY_NAMED_OFFSETS:
        details["starting_offset"] = _LEGACY_NAMED_OFFSETS[offset]
    return SourceOffset(
        topic=topic, partition=partition, starting_offset=offset, bounds=_TUPLE_BOUNDS, details=details
    )


def _split_offsets(split: dict[str, Any]) -> Iterator[SourceOffset]:
    details = {"source": "KafkaSource"}
    for name in ("starting_offset", "stopping_offset"):
        if split.get(name) in _NAMED_OFFSETS:
            details[name] = _NAMED_OFFSETS[split[name]]
    if "assignment_status" in split:
        details["assignment_status"] = split["assignment_status"]
    yield SourceOffset(
        topic=split["topic"],
        partition=split["partition"],
        starting_offset=split.get("starting_offset"),
        stopping_offset=split.get("stopping_offset"),
        bounds=_BOUNDS,
        details=details,
    )


def _assignments(cursor: Cursor) -> list[dict[str, Any]]:
    """Read assigned splits. Flink: SerdeUtils#serializeSplitAssignments."""
    readers = cursor.count("readers", 8)
    version = cursor.i4() if readers else 0
    found = []
    for _ in range(readers):
        cursor.i4()
        for _ in range(cursor.count("splits", 4)):
            found.append(
                read_split(version, cursor.sub(cursor.i4(), "split")) | {"assignment_status": ASSIGNED}
            )
    return found


def _assigned_partitions(cursor: Cursor) -> list[dict[str, Any]]:
    count = cursor.count("partitions", 6)
    return [_partition(cursor) | {"assignment_status": ASSIGNED} for _ in range(count)]


def _partitions_with_status(cursor: Cursor) -> list[dict[str, Any]]:
    count = cursor.count("partitions", 10)
    return [_partition(cursor) | {"assignment_status": _status(cursor)} for _ in range(count)]


def _splits_with_status(cursor: Cursor) -> list[dict[str, Any]]:
    count = cursor.count("splits", 8)
    version = cursor.i4()
    return [
        read_split(version, cursor.sub(cursor.i4(), "split")) | {"assignment_status": _status(cursor)}
        for _ in range(count)
    ]


def _partition(cursor: Cursor) -> dict[str, Any]:
    topic, partition = cursor.utf("topic"), cursor.i4()
    _check_partition(cursor, topic, partition)
    return {"topic": topic, "partition": partition}


def _check_partition(cursor: Cursor, topic: str, partition: int) -> None:
    if not _TOPIC.fullmatch(topic) or partition < 0:
        raise cursor.corrupt(f"expected a Kafka topic and partition, found {topic!r:.100} and {partition}")


def _status(cursor: Cursor) -> str:
    return named(cursor, _STATUS, "an assignment status")


def _not_a_reference(cursor: Cursor) -> None:
    found = cursor.varint("Kryo reference")
    if found != 1:
        raise cursor.corrupt(f"expected a Kryo object, found reference {found}")


def _zigzag(number: int) -> int:
    return number >> 1 ^ -(number & 1)


def _kryo_text(cursor: Cursor) -> str:
    """Read the text of a topic: ASCII of at least two characters, else UTF-8 behind its length + 1.

    Kryo: Output#writeString.
    """
    first = cursor.u1()
    if first & 0x80:
        length, shift, more = first & 0x3F, 6, first & 0x40
        while more:
            byte = cursor.u1()
            length, shift, more = length | (byte & 0x7F) << shift, shift + 7, byte & 0x80
        return bytes(cursor.read(length - 1, "text")).decode("ascii")
    text = bytearray([first])
    while not text[-1] & 0x80:
        text.append(cursor.u1())
    text[-1] &= 0x7F
    return text.decode("ascii")


SPLITS = versioned_layout(
    "kafka",
    _PACKAGE + "source.split.KafkaPartitionSplit",
    SPLIT,
    read_split,
    _split_offsets,
    starting_offset_at=16,
)
ENUMERATOR = coordinator_layout(
    "kafka",
    _PACKAGE + "source.enumerator.KafkaSourceEnumState",
    _ENUMERATOR,
    read_enumerator,
    _split_offsets,
    "partitions",
)
WRITER = versioned_layout("kafka", _PACKAGE + "sink.KafkaWriterState", _WRITER, read_writer)


_MAGIC = 0xB91F252C - (1 << 32)  # as a signed number
_STATES = ("RECEIVED", "RETRY", "FAILED", "COMMITTED")
_HAS_DRAINED = 1  # last version with this field

_COMMITTABLE = struct_of("version int, bytes binary, transactional_id, producer_id bigint, epoch smallint")
_REQUEST = struct_of("committable committable, retries int, state", committable=_COMMITTABLE)
_SUBTASK = struct_of(
    "subtask_id int, requests request[], number_of_committables int, number_of_drained int, number_of_failed int",
    request=_REQUEST,
)
_CHECKPOINT = struct_of("checkpoint_id bigint, number_of_subtasks int, subtasks subtask[]", subtask=_SUBTASK)
_COLLECTOR = struct_of("checkpoints checkpoint[]", checkpoint=_CHECKPOINT)


def read_collector(version: int, cursor: Cursor) -> dict[str, Any]:
    """Read a CommittableCollector."""
    check_version(cursor, "a CommittableCollector", version, 2)
    start = cursor.position
    if cursor.i4() != _MAGIC:
        raise cursor.corrupt("expected a CommittableCollector", start)
    list_version, checkpoints = versioned_list(cursor)
    return {"checkpoints": [_checkpoint(list_version, checkpoint) for checkpoint in checkpoints]}


def _checkpoint(version: int, cursor: Cursor) -> dict[str, Any]:
    check_version(cursor, "committables of a checkpoint", version, 0, 1)
    found = {"checkpoint_id": cursor.i8(), "number_of_subtasks": cursor.i4() if version else None}
    list_version, subtasks = versioned_list(cursor)
    expect_end(cursor)
    return found | {"subtasks": [_subtask(list_version, subtask) for subtask in subtasks]}


def _subtask(version: int, cursor: Cursor) -> dict[str, Any]:
    check_version(cursor, "committables of a subtask", version, 0, 2)
    found: dict[str, Any] = {"subtask_id": cursor.i4() if version else None}
    _, requests = versioned_list(cursor)
    found["requests"] = [_request(request) for request in requests]
    found["number_of_committables"] = cursor.i4()
    found["number_of_drained"] = cursor.i4() if version <= _HAS_DRAINED else None
    found["number_of_failed"] = cursor.i4()
    expect_end(cursor)
    return found


def _request(cursor: Cursor) -> dict[str, Any]:
    version, committable = versioned(cursor)
    retries, state = cursor.i4(), named(cursor, _STATES, "the state of a commit request")
    expect_end(cursor)
    return {"committable": _committable(version, committable), "retries": retries, "state": state}


def _committable(version: int, cursor: Cursor) -> dict[str, Any]:
    start = cursor.position
    # Nothing here names the connector: bytes that read as Kafka's committable to the end are Kafka's.
    found: dict[str, Any] = {"version": version, "bytes": bytes(cursor.read(cursor.remaining))}
    cursor.position = start
    try:
        kafka_committable = read_committable(cursor)
        expect_end(cursor)
    except ReaderError:
        return found
    return found | kafka_committable if version == 1 else found


COLLECTOR = versioned_layout(
    "sink",
    "org.apache.flink.streaming.runtime.operators.sink.committables.CommittableCollector",
    _COLLECTOR,
    read_collector,
)
