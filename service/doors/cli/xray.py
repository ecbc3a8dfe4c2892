"""`savepointdb xray`: how much state a savepoint has, where it is, and what of it nobody needs any more.

One page over the tables `xray`, `xray_keys`, `xray_largest` and `xray_orphan_timers`. All but the first read every keyed entry once;
`--quick` leaves them out.
"""

from __future__ import annotations

import os
import statistics
import sys
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from catalog import Catalog, Database, Scan
from readers import ReaderError, load_machine
from service.doors.cli.compile import log_compilation
from service.doors.cli.outcome import ended
from service.doors.cli.output import json_object, screen_width
from service.doors.cli.progress import ProgressLine
from service.doors.cli.sources import catalog_of, newest_of
from service.query.encode import counted, dated, section_lines, size_text
from service.query.engines.parallel import read_splits

_ON_PAGE = 40  # states
_KEYS_ON_PAGE = 10
_SCANNED = ("xray_keys", "xray_largest", "xray_orphan_timers")
_STATE = ("operator_id", "state_name", "state_kind")
_Row = dict[str, Any]


def main(options: Namespace) -> int:
    """Show the page; return the exit code."""
    return ended(_xray, options)


def _xray(options: Namespace) -> None:
    log_compilation()
    load_machine()
    catalog = catalog_of([options.path], options)
    database = newest_of(catalog, "shown")
    tables = {name: _rows(database, name) for name in ("xray", *(() if options.quick else _SCANNED))}
    if options.format == "json":
        print(_as_json(database, tables))
    else:
        print("\n".join(_Page(catalog, database, tables).lines()))
    sys.stdout.flush()


def _rows(database: Database, name: str) -> pa.Table:
    scan = database.table(name).scan()
    with ProgressLine(lambda: _progress(name, scan)):
        batches = read_splits(scan, os.cpu_count() or 1, lambda: None)
        return pa.Table.from_batches(list(batches), scan.schema)


def _progress(name: str, scan: Scan) -> str:
    total = f" of {size_text(scan.bytes_total)}" if scan.bytes_total else ""
    return f"{name}: {size_text(scan.bytes_read)}{total} read"


class _Page:
    """The page of a savepoint.

    Args:
        catalog: with the other savepoints of the job.
        database: the savepoint.
        tables: name → rows; those that read entries may be missing.
    """

    def __init__(self, catalog: Catalog, database: Database, tables: Mapping[str, pa.Table]) -> None:
        self._catalog = catalog
        self._database = database
        self._levels: defaultdict[str, list[_Row]] = defaultdict(list)
        for row in tables["xray"].to_pylist():
            self._levels[row["level"]].append(row)
        self._keys = {_state(row): row for row in _of(tables, "xray_keys")}
        self._largest = _of(tables, "xray_largest")
        self._orphans = _of(tables, "xray_orphan_timers") if "xray_orphan_timers" in tables else None

    def lines(self) -> Iterator[str]:
        """Yield its lines."""
        yield self._head()
        operators = sorted(self._levels["operator"], key=lambda row: -row["bytes"])
        yield f"\n{counted(len(operators), 'operator')}"
        yield from section_lines(
            _table([_operator(row) for row in operators]), _OPERATORS, screen_width(None)
        )
        states = sorted(self._levels["state"], key=lambda row: -(row["bytes"] or 0))
        yield f"\n{counted(len(states), 'state')}, the largest first{_left_out(states, _ON_PAGE)}"
        shown = list(self._states(states[:_ON_PAGE]))
        # Only RocksDB has garbage in its files, and keys are counted in a pass.
        titles = {name: title for name, title in _STATES.items() if any(row[name] != "-" for row in shown)}
        yield from section_lines(_table(shown), titles, screen_width(None))
        if any(row["is_estimate"] for row in states):
            yield "  ~ is an estimate, from what RocksDB's files say of themselves: overwritten entries count"
        yield from self._largest_keys()
        yield from self._orphan_timers()
        yield from self._updates()
        yield from self._growth()

    def _head(self) -> str:
        database = self._database
        kind = (database.kind or "savepoint or checkpoint").lower()
        made = database.created_at
        age = f"{dated(made)}, " if made else ""
        total = sum(row["bytes"] for row in self._levels["operator"])
        return f"{database.name}: {kind} {database.checkpoint_id}, {age}{size_text(total)}, {database.path}"

    def _states(self, states: Sequence[_Row]) -> Iterator[_Row]:
        subtasks, groups = (_by_state(self._levels[level]) for level in ("subtask", "key_group"))
        for row in states:
            known = self._keys.get(_state(row), {})
            garbage = known.get("garbage_share")
            distinct, is_sampled = row["distinct_keys"], False
            if known:
                distinct, is_sampled = known["distinct_keys"], known["is_estimate"]
            yield {
                "operator": _operator_name(row),
                "state": row["state_name"],
                "kind": row["state_kind"],
                # A pass knows better than properties.
                "entries": _number(known.get("entries", row["entries"]), row["is_estimate"] and not known),
                "keys": _number(distinct, is_sampled),
                "bytes": row["bytes"],
                "garbage": "-" if garbage is None else f"{garbage:.0%}",
                "subtasks": _skew(subtasks[_state(row)]),
                "key_groups": _skew(groups[_state(row)]),
            }

    def _largest_keys(self) -> Iterator[str]:
        keys = sorted(self._largest, key=lambda row: (-row["bytes"], row["state_name"], row["key"]))
        if keys:
            yield f"\nthe largest keys{_left_out(keys, _KEYS_ON_PAGE, 'xray_largest has more')}"
            rows = [
                row
                | {"operator": _operator_name(row), "entries": _number(row["entries"], row["is_estimate"])}
                for row in keys[:_KEYS_ON_PAGE]
            ]
            yield from section_lines(_table(rows), _KEYS, screen_width(None))

    def _orphan_timers(self) -> Iterator[str]:
        if self._orphans is None:
            return
        orphans = sorted(self._orphans, key=lambda row: (-row["timers"], row["key"]))
        if not orphans:
            if any(row["state_kind"] == "TIMER" and row["entries"] for row in self._levels["state"]):
                yield "\nno orphan timers: every key with a timer has other state"
            return
        timers = counted(sum(row["timers"] for row in orphans), "orphan timer")
        more = _left_out(orphans, _KEYS_ON_PAGE, "xray_orphan_timers has more")
        yield f"\n{timers}, of {counted(len(orphans), 'key')} without other state{more}"
        rows = [row | {"operator": _operator_name(row)} for row in orphans[:_KEYS_ON_PAGE]]
        yield from section_lines(_table(rows), _ORPHANS, screen_width(None))

    def _updates(self) -> Iterator[str]:
        updated = [row for row in self._keys.values() if row["oldest_update"] is not None]
        if updated:
            yield "\nlast updates of states with TTL"
            rows = [row | {"operator": _operator_name(row)} for row in updated[:_ON_PAGE]]
            yield from section_lines(_table(rows), _UPDATES, screen_width(None))

    def _growth(self) -> Iterator[str]:
        """Yield how large the other savepoints of the job are, by their `_metadata`."""
        job = next((job for job in self._catalog.jobs() if self._database in job.databases), None)
        if job is None or len(job.databases) < 2:
            return
        rows = []
        for database in job.databases[:_ON_PAGE]:
            try:
                size: int | None = database.savepoint.metadata.size_bytes
                number: int | None = database.checkpoint_id
            except ReaderError:
                size = number = None
            rows.append({"savepoint": database.name, "id": number, "bytes": size})
        yield f"\ngrowth{_left_out(job.databases, _ON_PAGE)}"
        yield from section_lines(_table(rows), _GROWTH, screen_width(None))


def _of(tables: Mapping[str, pa.Table], name: str) -> list[_Row]:
    found: list[_Row] = tables[name].to_pylist() if name in tables else []
    return found


def _state(row: _Row) -> tuple[str, ...]:
    return tuple(row[name] for name in _STATE)


def _by_state(rows: Sequence[_Row]) -> Mapping[tuple[str, ...], list[_Row]]:
    found: defaultdict[tuple[str, ...], list[_Row]] = defaultdict(list)
    for row in rows:
        found[_state(row)].append(row)
    return found


def _operator(row: _Row) -> _Row:
    entries = _number(row["entries"], row["is_estimate"])
    return row | {"operator": _operator_name(row), "entries": entries}


def _operator_name(row: _Row) -> str:
    return str(row["operator_uid"] or row["operator_name"] or row["operator_id"])


def _number(value: int | None, is_estimate: bool) -> str:
    return "-" if value is None else f"{'~' if is_estimate else ''}{value:,}"


def _skew(rows: Sequence[_Row]) -> str:
    """Return how many times as large as the median the largest is, if there are several."""
    sizes = [row["bytes"] for row in rows if row["bytes"]]
    if len(sizes) < 2:
        return "-"
    sign = "~" if any(row["level"] == "key_group" and row["is_estimate"] for row in rows) else ""
    return f"{sign}{max(sizes) / statistics.median(sizes):.1f} ×"


def _left_out(rows: Sequence[object], shown: int, where: str = "--format json has all") -> str:
    return f" ({shown} of {len(rows):,}; {where})" if len(rows) > shown else ""


def _table(rows: Sequence[_Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows))


def _as_json(database: Database, tables: Mapping[str, pa.Table]) -> str:
    facts = {
        "name": database.name,
        "path": database.path,
        "kind": database.kind,
        "checkpoint_id": database.checkpoint_id,
        "created_at": database.created_at,
    }
    return json_object(facts, tables)


_OPERATORS = {"operator": "operator", "entries": "entries", "bytes": "size"}
_STATES = {
    "operator": "operator",
    "state": "state",
    "kind": "kind",
    "entries": "entries",
    "keys": "keys",
    "bytes": "size",
    "garbage": "garbage",
    "key_groups": "largest / median key group",
    "subtasks": "largest / median subtask",
}
_KEYS = {
    "operator": "operator",
    "state_name": "state",
    "key": "key",
    "entries": "entries",
    "bytes": "size",
    "key_group": "key group",
    "subtask": "subtask",
}
_ORPHANS = {
    "operator": "operator",
    "time_domain": "domain",
    "timer_service": "timer service",
    "key": "key",
    "timers": "timers",
    "first_timestamp": "first",
}
_UPDATES = {
    "operator": "operator",
    "state_name": "state",
    "oldest_update": "oldest",
    "median_update": "median",
    "newest_update": "newest",
}
_GROWTH = {"savepoint": "savepoint", "id": "id", "bytes": "size"}
