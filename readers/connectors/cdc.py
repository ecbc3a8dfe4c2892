"""Flink CDC's incremental sources: splits and enumerators. Package `org.apache.flink.cdc.connectors` (before 3.0 `com.ververica.cdc…`).

MySQL has its own serializers; Postgres, Oracle, SQL Server, MongoDB and others share the serializers of `base`, which add
the fields marked +:

| part | bytes |
|---|---|
| snapshot split | i4 1, [+ since 4 flag], utf table, utf split id, utf key type, utf start, utf end, offset (high watermark), schemas |
| stream split | i4 2, utf split id, utf, offset (starting), offset (ending), i4 n, n × finished, schemas |
| | since version 3 i4 number of finished splits; since 4 (+ 5) bool suspended; [+ since 6 bool snapshot completed] |
| finished | utf table, utf split id, utf start, utf end, [+ utf offset factory], offset (high watermark), [+ since 4 flag] |
| offset | bool → i4 length, JSON object with text values: `file`, `pos`, `lsn`, `scn`, …; in version 1 utf file, i8 position |
| schemas | i4 n, n × ([+ flag], utf table, i4 length, JSON; in version 1 utf JSON) |

A flag selects how Flink CDC parses the table's name. Starts and ends of splits are Java objects as text, and stay text.

An enumerator keeps the splits that are left, and the offsets of finished splits; the marks are the same:

| part | bytes |
|---|---|
| state | i4 version of splits, i4 kind, snapshot (kind 1); bool stream split assigned (kind 2); both (kind 3) |
| snapshot | tables (processed), i4 n, n × split (remaining), i4 n, n × (utf id, split) (assigned), i4 n, n × (utf id, offset), status |
| | since version 3 tables (remaining), bool about the case of names; since 4 schemas; [+ since 7 i4 n, n × (utf id, i8 checkpoint)] |
| | since 5 (+ 8) bool → utf table being split, utf next start, i4 next id; since 6 (not +) bool snapshot metadata released |
| status | i4 since version 3 (+ 6), before bool is finished |
| tables | i4 n, n × ([+ since 5 flag], utf table) |
| split | i4 length, split |

Flink CDC: MySqlSplitSerializer (1 to 4), SourceSplitSerializer (1 to 6), BinlogOffsetSerializer, PendingSplitsStateSerializer of
`mysql` (1 to 6) and of `base` (1 to 8).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from readers.connectors.layout import (
    SourceOffset,
    check_version,
    coordinator_layout,
    flag,
    versioned_layout,
    whole,
)
from readers.cursor import Cursor
from readers.schemas import struct_of

_SNAPSHOT, _STREAM = 1, 2
SCHEMA = struct_of("table_id, table_change")
SPLIT = struct_of(
    "split_kind, split_id, table_id, split_key_type, split_start, split_end, high_watermark, starting_offset,"
    " ending_offset, finished_splits finished[], table_schemas schema[], total_finished_split_size int,"
    " is_suspended boolean, is_snapshot_completed boolean",
    finished=struct_of("table_id, split_id, split_start, split_end, high_watermark"),
    schema=SCHEMA,
)
# Members of an offset that are numbers: position in a file, position in a log, system change number.
_POSITIONS = ("pos", "lsn", "scn")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFormat:
    """The format of the splits of one family of sources.

    Attributes:
        source: name of the source in `details`.
        stream_kind: name of a split that reads the log.
        last_version: the last known version.
        is_base: True if the fields marked + are present.
    """

    source: str
    stream_kind: str
    last_version: int
    is_base: bool

    def read(self, version: int, cursor: Cursor) -> dict[str, Any]:
        """Read a split; offsets and schemas are JSON texts."""
        check_version(cursor, "a split of a CDC source", version, 1, self.last_version)
        start = cursor.position
        kind = cursor.i4()
        if kind == _SNAPSHOT:
            return self._snapshot(version, cursor)
        if kind == _STREAM:
            return self._stream(version, cursor)
        raise cursor.corrupt(f"expected a snapshot or a stream split, found kind {kind}", start)

    def schemas(self, version: int, cursor: Cursor) -> list[dict[str, Any]]:
        """Read schemas of tables as JSON texts."""
        found = []
        for _ in range(cursor.count("table schemas", 4)):
            if self.is_base:
                flag(cursor)
            table = cursor.utf("table")
            change = cursor.utf("table change") if version == 1 else _json(cursor)
            found.append({"table_id": table, "table_change": change})
        return found

    def offsets(self, split: dict[str, Any]) -> Iterator[SourceOffset]:
        """Yield the offset of the source in a split."""
        details = {name: split[name] for name in ("split_kind", "split_id", "table_id") if split.get(name)}
        offsets = {}
        for name in ("starting_offset", "ending_offset", "high_watermark"):
            if split.get(name) is not None:
                offsets[name] = details[name] = json.loads(split[name])
        yield SourceOffset(
            starting_offset=_position(offsets.get("starting_offset")),
            stopping_offset=_position(offsets.get("ending_offset")),
            details={"source": self.source} | details,
        )

    def _snapshot(self, version: int, cursor: Cursor) -> dict[str, Any]:
        split: dict[str, Any] = {"split_kind": "SNAPSHOT"}
        if self.is_base and version >= 4:
            flag(cursor)
        for name in ("table_id", "split_id", "split_key_type", "split_start", "split_end"):
            split[name] = cursor.utf(name)
        split["high_watermark"] = offset(version, cursor)
        return split | {"table_schemas": self.schemas(version, cursor)}

    def _stream(self, version: int, cursor: Cursor) -> dict[str, Any]:
        split: dict[str, Any] = {"split_kind": self.stream_kind, "split_id": cursor.utf("split id")}
        cursor.utf("split key type")
        split["starting_offset"] = offset(version, cursor)
        split["ending_offset"] = offset(version, cursor)
        # Four texts and a flag take at least 9 bytes: this bounds the count.
        count = cursor.count("finished splits", 9)
        split["finished_splits"] = [self._finished(version, cursor) for _ in range(count)]
        split["table_schemas"] = self.schemas(version, cursor)
        if version >= 3:
            split["total_finished_split_size"] = cursor.i4()
        if version >= (5 if self.is_base else 4):
            split["is_suspended"] = flag(cursor)
        if version >= 6:
            split["is_snapshot_completed"] = flag(cursor)
        return split

    def _finished(self, version: int, cursor: Cursor) -> dict[str, Any]:
        names = ("table_id", "split_id", "split_start", "split_end")
        found: dict[str, Any] = {name: cursor.utf(name) for name in names}
        if self.is_base:
            cursor.utf("offset factory")  # a class name; the offset is JSON for every factory
        found["high_watermark"] = offset(version, cursor)
        if self.is_base and version >= 4:
            flag(cursor)
        return found


def offset(version: int, cursor: Cursor) -> str | None:
    """Read an offset as JSON text; None for no offset."""
    if not flag(cursor):
        return None
    if version == 1:
        return json.dumps({"file": cursor.utf("log file"), "pos": str(cursor.i8())})
    return _json(cursor)


def _json(cursor: Cursor) -> str:
    start = cursor.position
    try:
        text = cursor.blob("JSON").decode("utf-8")
        value = json.loads(text)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise cursor.corrupt(f"expected JSON: {error}", start) from error
    if not isinstance(value, dict):
        raise cursor.corrupt("expected a JSON object", start)
    return text


def _position(log_offset: dict[str, Any] | None) -> int | None:
    """Return the number of an offset; None without a number, such as "never", and for a number beyond int64."""
    found = next((str(log_offset[name]) for name in _POSITIONS if log_offset and log_offset.get(name)), "")
    # A number of 19 digits may exceed int64.
    return int(found) if found.isascii() and found.isdecimal() and len(found) < 19 else None


MYSQL = SplitFormat(source="MySqlSource", stream_kind="BINLOG", last_version=4, is_base=False)
BASE = SplitFormat(source="IncrementalSource", stream_kind="STREAM", last_version=6, is_base=True)


_PACKAGE = "org.apache.flink.cdc.connectors."
SPLITS = versioned_layout(
    "mysql-cdc", _PACKAGE + "mysql.source.split.MySqlSplit", SPLIT, MYSQL.read, MYSQL.offsets
)
BASE_SPLITS = versioned_layout(
    "cdc", _PACKAGE + "base.source.meta.split.SourceSplitBase", SPLIT, BASE.read, BASE.offsets
)


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
