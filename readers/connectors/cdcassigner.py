"""Enumerators of Flink CDC's incremental sources: the splits that are left, and the offsets of finished splits.

The layout of MySQL; the sources of `base` (`readers.connectors.cdc`) add the fields marked +:

| part | bytes |
|---|---|
| state | i4 version of splits, i4 kind, snapshot (kind 1); bool stream split assigned (kind 2); both (kind 3) |
| snapshot | tables (processed), i4 n, n × split (remaining), i4 n, n × (utf id, split) (assigned), i4 n, n × (utf id, offset), status |
| | since version 3 tables (remaining), bool about the case of names; since 4 schemas; [+ since 7 i4 n, n × (utf id, i8 checkpoint)] |
| | since 5 (+ 8) bool → utf table being split, utf next start, i4 next id; since 6 (not +) bool snapshot metadata released |
| status | i4 since version 3 (+ 6), before bool is finished |
| tables | i4 n, n × ([+ since 5 flag], utf table) |
| split | i4 length, split |

Flink CDC: PendingSplitsStateSerializer of `mysql` (1 to 6) and of `base` (1 to 8).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from readers.connectors.cdc import BASE, MYSQL, SCHEMA, SPLIT, SplitFormat, offset
from readers.connectors.layout import check_version, coordinator_layout, flag, whole
from readers.cursor import Cursor
from readers.schemas import struct_of

_KINDS = {1: "SNAPSHOT", 2: "STREAM", 3: "HYBRID"}
_STATE = struct_of(
    "kind, already_processed_tables text[], remaining_splits split[], assigned_splits split[],"
    " finished_offsets offset[], assigner_status int, remaining_tables text[], table_schemas schema[],"
    " finished_checkpoints checkpoint[], splitting_table, next_chunk_start, next_chunk_id int,"
    " is_snapshot_metadata_released boolean, is_stream_split_assigned boolean",
    split=SPLIT,
    offset=struct_of("split_id, offset"),
    schema=SCHEMA,
    checkpoint=struct_of("split_id, checkpoint_id bigint"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumeratorFormat:
    """The format of the enumerators of one family of sources.

    Attributes:
        splits: format of the splits.
        last_version: the last known version.
        status_since, splitting_since: first versions with these fields.
    """

    splits: SplitFormat
    last_version: int
    status_since: int
    splitting_since: int

    def read(self, version: int, cursor: Cursor) -> dict[str, Any]:
        """Read a PendingSplitsState; offsets and schemas are JSON texts."""
        check_version(cursor, "a PendingSplitsState", version, 1, self.last_version)
        # The state and its splits have versions of their own.
        split_version, start = cursor.i4(), cursor.position
        kind = cursor.i4()
        if kind not in _KINDS:
            raise cursor.corrupt(f"expected a kind 1 to 3 of pending splits, found {kind}", start)
        state: dict[str, Any] = {"kind": _KINDS[kind]}
        if kind != 2:
            state |= self._snapshot(version, split_version, cursor)
        if kind != 1:
            state["is_stream_split_assigned"] = flag(cursor)
        return state

    def _snapshot(self, version: int, split_version: int, cursor: Cursor) -> dict[str, Any]:
        state: dict[str, Any] = {"already_processed_tables": self._tables(version, cursor)}
        count = cursor.count("remaining splits", 4)
        state["remaining_splits"] = [self._split(split_version, cursor) for _ in range(count)]
        state["assigned_splits"] = []
        for _ in range(cursor.count("assigned splits", 6)):
            cursor.utf("split id")  # the split contains its id, too
            state["assigned_splits"].append(self._split(split_version, cursor))
        state["finished_offsets"] = [
            {"split_id": cursor.utf("split id"), "offset": offset(split_version, cursor)}
            for _ in range(cursor.count("offsets", 3))
        ]
        state["assigner_status"] = cursor.i4() if version >= self.status_since else int(flag(cursor))
        return state | self._later_parts(version, split_version, cursor)

    def _later_parts(self, version: int, split_version: int, cursor: Cursor) -> dict[str, Any]:
        state: dict[str, Any] = {}
        if version >= 3:
            state["remaining_tables"] = self._tables(version, cursor)
            flag(cursor)  # True if names of tables are case-sensitive
        if version >= 4:
            state["table_schemas"] = self.splits.schemas(split_version, cursor)
        if version >= 7:
            state["finished_checkpoints"] = [
                {"split_id": cursor.utf("split id"), "checkpoint_id": cursor.i8()}
                for _ in range(cursor.count("checkpoints", 10))
            ]
        if version >= self.splitting_since and flag(cursor):
            state["splitting_table"] = cursor.utf("table")
            state["next_chunk_start"] = cursor.utf("next start")
            state["next_chunk_id"] = cursor.i4()
        if version >= 6 and not self.splits.is_base:
            state["is_snapshot_metadata_released"] = flag(cursor)
        return state

    def _split(self, version: int, cursor: Cursor) -> dict[str, Any]:
        split: dict[str, Any] = whole(self.splits.read, version, cursor.sub(cursor.i4(), "split"))
        return split

    def _tables(self, version: int, cursor: Cursor) -> list[str]:
        tables = []
        for _ in range(cursor.count("tables", 2)):
            if self.splits.is_base and version >= 5:
                flag(cursor)
            tables.append(cursor.utf("table"))
        return tables


_MYSQL = EnumeratorFormat(splits=MYSQL, last_version=6, status_since=3, splitting_since=5)
_BASE = EnumeratorFormat(splits=BASE, last_version=8, status_since=6, splitting_since=8)
_PACKAGE = "org.apache.flink.cdc.connectors."

ENUMERATOR = coordinator_layout(
    "mysql-cdc",
    _PACKAGE + "mysql.source.assigners.state.PendingSplitsState",
    _STATE,
    _MYSQL.read,
    MYSQL.offsets,
    "remaining_splits",
)
BASE_ENUMERATOR = coordinator_layout(
    "cdc",
    _PACKAGE + "base.source.assigner.state.PendingSplitsState",
    _STATE,
    _BASE.read,
    BASE.offsets,
    "remaining_splits",
)
