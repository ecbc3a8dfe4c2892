"""The rows of the tables of facts.

| table | a row per | reads |
|---|---|---|
| StateMeta | state | `_metadata` and the headers of the state files |
| operators | operator | `_metadata` |
| files | stream that `_metadata` refers to | `_metadata`, and whether each file exists |
| source_offsets | split or partition of a source | the state of all sources |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

import readers
from catalog.table import Failed
from readers import Operator, OperatorState, ReaderError, Savepoint, Serializer, State, StateObject, schema_of

STATE_META = schema_of(
    "operator_id, operator_uid, operator_name, state_name, state_kind, key_type, namespace_type, "
    "map_key_type, value_type, key_serializer, namespace_serializer, value_serializer, has_ttl boolean, "
    "state_backend, parallelism int, max_parallelism int, size_bytes bigint, decode_status, decode_note, "
    "table_name, size_is_estimate boolean"
)

OPERATORS = schema_of(
    "checkpoint_id bigint, operator_name, operator_uid, operator_uid_hash, operator_parallelism int, "
    "operator_max_parallelism int, operator_subtask_state_count int, "
    "operator_coordinator_state_size_in_bytes bigint, operator_total_size_in_bytes bigint"
)

FILES = schema_of(
    "operator_id, subtask int, handle_type, path, size_bytes bigint, key_group_start int, "
    "key_group_end int, scope, exists boolean"
)


RESTORE_CHECK = schema_of(
    "flink, backend, operator_id, operator_uid, operator_name, state_name, state_kind, outcome, stage, "
    "severity, changes_values boolean, field_path, message, remedy, rule, evidence, risks"
)

REQUIRED_CLASSES = schema_of("class_name, role, operator_id, operator_uid, state_name")


def state_meta_rows(
    savepoint: Savepoint, uids: Mapping[str, str], table_name: Callable[[Operator, int], str]
) -> pa.RecordBatch:
    """Return a row for each state of an operator, and for each state of the job manager's hooks.

    Args:
        savepoint: the savepoint.
        uids: operator id → uid, for uids that are not from `_metadata`.
        table_name: returns the table of an operator's state, by the state's number.
    """
    rows = [
        _state_row(operator.metadata, uids, state, table_name(operator, number))
        for operator in savepoint.operators
        for number, state in enumerate(operator.states)
    ]
    # Hooks of the job manager belong to no operator, and their states have no tables.
    rows += [_state_row(None, uids, state, None) for state in savepoint.master_states]
    return pa.RecordBatch.from_pylist(rows, schema=STATE_META)


def _state_row(
    operator: OperatorState | None, uids: Mapping[str, str], state: State, table_name: str | None
) -> dict[str, Any]:
    entry = state.entry
    return {
        "operator_id": state.operator_id or None,
        "operator_uid": uids.get(state.operator_id) or (operator.uid if operator else None),
        "operator_name": operator.name if operator else None,
        "state_name": state.name,
        "state_kind": state.kind.value,
        "key_type": _type(entry.key if entry else None),
        "namespace_type": _type(entry.namespace if entry else None),
        "map_key_type": _type(entry.map_key if entry else None),
        "value_type": _type(entry.value if entry else None),
        "key_serializer": _serializer(entry.key if entry else None),
        "namespace_serializer": _serializer(entry.namespace if entry else None),
        "value_serializer": _serializer(entry.value if entry else None),
        "has_ttl": entry.ttl if entry else False,
        "state_backend": state.backend or None,
        "parallelism": operator.parallelism if operator else None,
        "max_parallelism": operator.max_parallelism if operator else None,
        "size_bytes": state.own_size.size_bytes,
        "decode_status": state.status,
        "decode_note": state.note or None,
        "table_name": table_name,
        "size_is_estimate": state.own_size.is_estimate,
    }


def operator_rows(savepoint: Savepoint, uids: Mapping[str, str]) -> pa.RecordBatch:
    """Return a row for each operator, in the columns of Flink's `savepoint_metadata` function, with underscores."""
    rows = [
        {
            "checkpoint_id": savepoint.metadata.checkpoint_id,
            "operator_name": operator.name,
            "operator_uid": operator.uid or uids.get(operator.operator_id),
            "operator_uid_hash": operator.operator_id,
            "operator_parallelism": operator.parallelism,
            "operator_max_parallelism": operator.max_parallelism,
            "operator_subtask_state_count": len(operator.subtasks),
            "operator_coordinator_state_size_in_bytes": (
                operator.coordinator_state.size_bytes if operator.coordinator_state else 0
            ),
            "operator_total_size_in_bytes": operator.size_bytes,
        }
        for operator in savepoint.metadata.operators
    ]
    return pa.RecordBatch.from_pylist(rows, schema=OPERATORS)


def file_rows(savepoint: Savepoint) -> pa.RecordBatch:
    """Return a row for each stream that `_metadata` refers to; asks once for each file whether it exists."""
    rows = [
        {
            "operator_id": operator_id,
            "subtask": subtask,
            "handle_type": kind,
            "path": stream.path or stream.name,
            "size_bytes": stream.size_bytes,
            "key_group_start": groups.start if groups else None,
            "key_group_end": groups.end if groups else None,
            "scope": str(stream.scope),
            "exists": savepoint.location.exists(stream),
        }
        for operator_id, subtask, kind, handle in _handles(savepoint)
        for groups in [handle.key_groups]
        for stream in handle.streams()
    ]
    return pa.RecordBatch.from_pylist(rows, schema=FILES)


def damaged_files(savepoint: Savepoint) -> tuple[list[ReaderError], int]:
    """Return the errors of files that are not there or too short, and the number of all files; reads none of them."""
    streams = {stream for *_, handle in _handles(savepoint) for stream in handle.streams() if stream.path}
    ordered = sorted(streams, key=lambda stream: (stream.path or "", stream.name))
    return savepoint.location.damaged(ordered), len(ordered)


def source_offset_rows(savepoint: Savepoint, uids: Mapping[str, str], failed: Failed) -> pa.RecordBatch:
    """Return a row for each split or partition of a source; reads the state of all sources.

    Args:
        savepoint: the savepoint.
        uids: operator id → uid, for uids that are not from `_metadata`.
        failed: takes the error of each state file that may hold positions and cannot be read.
    """
    rows = readers.source_offsets(savepoint, failed).to_pylist()
    # The readers know only the uids of `_metadata`, not those that the user gave for older savepoints.
    for row in rows:
        row["operator_uid"] = row["operator_uid"] or uids.get(row["operator_id"])
    return pa.RecordBatch.from_pylist(rows, schema=readers.SOURCE_OFFSETS)


def _handles(savepoint: Savepoint) -> Iterator[tuple[str, int | None, str, StateObject]]:
    """Yield (operator id, subtask, type, handle) of every handle."""
    for operator in savepoint.metadata.operators:
        # A coordinator runs in the job manager, once an operator: its state is of no subtask.
        if operator.coordinator_state is not None:
            yield operator.operator_id, None, "COORDINATOR", operator.coordinator_state
        for subtask in operator.subtasks:
            named: Iterable[tuple[str, StateObject | None]] = (
                ("MANAGED_OPERATOR", subtask.managed_operator_state),
                ("RAW_OPERATOR", subtask.raw_operator_state),
                *(
                    (keyed.managed_type, keyed)
                    for keyed in [subtask.managed_keyed_state]
                    if keyed is not None
                ),
                ("RAW_KEYED", subtask.raw_keyed_state),
                *(("INPUT_CHANNEL", channel) for channel in subtask.input_channels),
                *(("RESULT_SUBPARTITION", channel) for channel in subtask.result_subpartitions),
            )
            for kind, handle in named:
                if handle is not None:
                    yield operator.operator_id, subtask.index, kind, handle


def _type(serializer: Serializer | None) -> str | None:
    return serializer.type_name if serializer else None


def _serializer(serializer: Serializer | None) -> str | None:
    return serializer.serializer_name if serializer else None
