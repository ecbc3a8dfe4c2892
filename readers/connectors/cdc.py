"""The MySQL source of Flink CDC. Package `org.apache.flink.cdc.connectors.mysql` (before 3.0 `com.ververica.cdc…`).

| part | bytes |
|---|---|
| snapshot split | i4 1, utf table, utf split id, utf key type, utf start, utf end, offset (high watermark), schemas |
| binlog split | i4 2, utf split id, utf, offset (starting), offset (ending), i4 n, n × finished, schemas |
| | since version 3 i4 number of finished splits, since 4 bool suspended |
| finished | utf table, utf split id, utf start, utf end, offset (high watermark) |
| offset | bool → i4 length, JSON object of texts: `file`, `pos`, `gtids`, …; in version 1 utf file, i8 position |
| schemas | i4 n, n × (utf table, i4 length, JSON; in version 1 utf JSON) |

Flink CDC: MySqlSplitSerializer (1 to 4), BinlogOffsetSerializer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from readers.connectors.layout import SourceOffset, unknown_version, versioned_layout
from readers.cursor import Cursor

_SNAPSHOT, _BINLOG = 1, 2
_VERSIONS = (1, 2, 3, 4)
_FINISHED = pa.struct(
    [
        pa.field(name, pa.string())
        for name in ("table_id", "split_id", "split_start", "split_end", "high_watermark")
    ]
)
_SCHEMA = pa.struct([pa.field("table_id", pa.string()), pa.field("table_change", pa.string())])

SPLIT = pa.struct(
    [
        pa.field("split_kind", pa.string()),
        pa.field("split_id", pa.string()),
        pa.field("table_id", pa.string()),
        pa.field("split_key_type", pa.string()),
        pa.field("split_start", pa.string()),
        pa.field("split_end", pa.string()),
        pa.field("high_watermark", pa.string()),
        pa.field("starting_offset", pa.string()),
        pa.field("ending_offset", pa.string()),
        pa.field("finished_splits", pa.list_(_FINISHED)),
        pa.field("table_schemas", pa.list_(_SCHEMA)),
        pa.field("total_finished_split_size", pa.int32()),
        pa.field("is_suspended", pa.bool_()),
    ]
)


def read_split(version: int, cursor: Cursor) -> dict[str, Any]:
    """A MySqlSplit; offsets and schemas are JSON texts."""
    if version not in _VERSIONS:
        raise unknown_version(cursor, "a MySqlSplit", version, "1 to 4")
    start = cursor.position
    kind = cursor.i4()
    if kind == _SNAPSHOT:
        return _snapshot_split(version, cursor)
    if kind == _BINLOG:
        return _binlog_split(version, cursor)
    raise cursor.corrupt(f"expected a snapshot or a binlog split, found kind {kind}", start)


def _snapshot_split(version: int, cursor: Cursor) -> dict[str, Any]:
    split: dict[str, Any] = {"split_kind": "SNAPSHOT"}
    for name in ("table_id", "split_id", "split_key_type", "split_start", "split_end"):
        split[name] = cursor.utf(name)
    split["high_watermark"] = _offset(version, cursor)
    return split | {"table_schemas": _schemas(version, cursor)}


def _binlog_split(version: int, cursor: Cursor) -> dict[str, Any]:
    split: dict[str, Any] = {"split_kind": "BINLOG", "split_id": cursor.utf("split id")}
    cursor.utf("split key type")
    split["starting_offset"] = _offset(version, cursor)
    split["ending_offset"] = _offset(version, cursor)
    split["finished_splits"] = [_finished(version, cursor) for _ in range(cursor.count("finished splits", 9))]
    split["table_schemas"] = _schemas(version, cursor)
    if version >= 3:
        split["total_finished_split_size"] = cursor.i4()
    if version >= 4:
        split["is_suspended"] = _flag(cursor)
    return split


def _finished(version: int, cursor: Cursor) -> dict[str, Any]:
    names = ("table_id", "split_id", "split_start", "split_end")
    return {name: cursor.utf(name) for name in names} | {"high_watermark": _offset(version, cursor)}


def _schemas(version: int, cursor: Cursor) -> list[dict[str, Any]]:
    found = []
    for _ in range(cursor.count("table schemas", 4)):
        table = cursor.utf("table")
        change = cursor.utf("table change") if version == 1 else _json(cursor)
        found.append({"table_id": table, "table_change": change})
    return found


def _offset(version: int, cursor: Cursor) -> str | None:
    if not _flag(cursor):
        return None
    if version == 1:
        return json.dumps({"file": cursor.utf("binlog file"), "pos": str(cursor.i8())})
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


def _flag(cursor: Cursor) -> bool:
    start = cursor.position
    found = cursor.u1()
    if found > 1:
        raise cursor.corrupt(f"expected a flag 0 or 1, found {found}", start)
    return found == 1


def _split_offsets(split: dict[str, Any]) -> Iterator[SourceOffset]:
    details = {name: split[name] for name in ("split_kind", "split_id", "table_id") if split.get(name)}
    offsets = {}
    for name in ("starting_offset", "ending_offset", "high_watermark"):
        if split.get(name) is not None:
            offsets[name] = details[name] = json.loads(split[name])
    yield SourceOffset(
        starting_offset=_position(offsets.get("starting_offset")),
        stopping_offset=_position(offsets.get("ending_offset")),
        details={"source": "MySqlSource"} | details,
    )


def _position(offset: dict[str, Any] | None) -> int | None:
    """The position in its binlog file; None for places without one, such as "never"."""
    position = str((offset or {}).get("pos") or "")
    return int(position) if position.isascii() and position.isdecimal() and len(position) < 19 else None


SPLITS = versioned_layout(
    "mysql-cdc",
    "org.apache.flink.cdc.connectors.mysql.source.split.MySqlSplit",
    SPLIT,
    read_split,
    _split_offsets,
)
