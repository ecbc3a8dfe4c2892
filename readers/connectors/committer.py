"""The committables that a sink has not committed yet: `CommittableCollector` of version 2 (since Flink 1.15).

| part | bytes |
|---|---|
| collector | u4 B91F252C, versioned list of checkpoints |
| checkpoint | i8 checkpoint id, i4 subtasks (0: no such field), versioned list of subtasks |
| subtask | i4 subtask id (0: no such field), versioned list of requests, i4 committables, i4 drained (0, 1), i4 failed |
| request | versioned committable, i4 retries, i4 state |

Numbers in brackets are versions of the list. Each connector has its own committable: Kafka's is read, others stay bytes.

Flink: CommittableCollectorSerializer, CommitRequestState.
"""

from __future__ import annotations

from typing import Any

from readers.connectors import kafka
from readers.connectors.layout import (
    check_version,
    expect_end,
    named,
    versioned,
    versioned_layout,
    versioned_list,
)
from readers.cursor import Cursor
from readers.errors import ReaderError
from readers.schemas import struct_of

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
        kafka_committable = kafka.read_committable(cursor)
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
