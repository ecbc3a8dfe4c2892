"""X-ray: how much state a savepoint has, where it is, and how much of it is garbage.

The outcome has the tables `xray`, `xray_keys`, `xray_largest` and `xray_orphan_timers` (docs/reference/tables.md). All but the first read
every keyed entry once; `quick` leaves them out.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from catalog import Catalog, Database
from readers import ReaderError
from service.query.encode import counted, section_lines
from service.query.running.request import sendable
from service.tasks.inspect import head_of, json_rows
from service.tasks.task import Context, Task, TaskRequest, option

_ON_PAGE = 40  # states
_KEYS_ON_PAGE = 10
_SCANNED = ("xray_keys", "xray_largest", "xray_orphan_timers")
_STATE = ("operator_id", "state_name", "state_kind")
_Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class XrayRequest(TaskRequest):
    """A savepoint, and how closely it is looked at."""

    database: str | None = option("name or alias; default: the newest", default=None)
    quick: bool = option(
        "Skip figures that require reading every entry: keys, garbage, orphan timers, update times.",
        default=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class XrayOutcome:
    """What a savepoint is made of.

    Attributes:
        database: the savepoint.
        tables: name → rows; those that read entries are missing from a quick look.
        growth: the savepoints of its job, the newest first: `savepoint`, `id`, `bytes`; None where one cannot be read.
    """

    database: Database
    tables: Mapping[str, pa.Table]
    growth: Sequence[_Row]

    exit_code = 0

    def to_dict(self) -> dict[str, Any]:
        """See `Outcome`."""
        database, made = self.database, self.database.created_at
        facts = {
            "name": sendable(database.name),
            "path": sendable(database.path),
            "kind": database.kind,
            "checkpoint_id": database.checkpoint_id,
            "created_at": None if made is None else made.isoformat(),
        }
        return facts | {name: json_rows(table) for name, table in self.tables.items()}

    def lines(self, width: int | None) -> Iterator[str]:
        """See `Outcome`."""
        return _Page(self, width).lines()


def run(request: XrayRequest, context: Context) -> XrayOutcome:
    """Look at a savepoint.

    Raises:
        CatalogError: there is no such database.
        QueryError: a table cannot be read, or takes longer than it may.
    """
    database = context.database(request.database)
    database.describe()
    names = ("xray", *(() if request.quick else _SCANNED))
    return XrayOutcome(
        database=database,
        tables={name: context.table(database, name) for name in names},
        growth=_growth(context.catalog, database),
    )


def _growth(catalog: Catalog, database: Database) -> list[_Row]:
    job = next((job for job in catalog.jobs() if database in job.databases), None)
    rows: list[_Row] = []
    for one in () if job is None else job.databases:
        size = number = None
        with suppress(ReaderError):
            size, number = one.savepoint.metadata.size_bytes, one.checkpoint_id
        rows.append({"savepoint": one.name, "id": number, "bytes": size})
    return rows


class _Page:
    """The page of a savepoint.

    Args:
        found: what is shown.
        width: characters per line of the screen; None if there is none.
    """

    def __init__(self, found: XrayOutcome, width: int | None) -> None:
        self._found = found
        self._width = width
        tables = found.tables
        self._levels: defaultdict[str, list[_Row]] = defaultdict(list)
        for row in tables["xray"].to_pylist():
            self._levels[row["level"]].append(row)
        self._keys = {_state(row): row for row in _of(tables, "xray_keys")}
        self._largest = _of(tables, "xray_largest")
        self._orphans = _of(tables, "xray_orphan_timers") if "xray_orphan_timers" in tables else None

    def lines(self) -> Iterator[str]:
        """Yield its lines."""
        yield head_of(self._found.database, sum(row["bytes"] for row in self._levels["operator"]))
        operators = sorted(self._levels["operator"], key=lambda row: -row["bytes"])
        yield f"\n{counted(len(operators), 'operator')}"
        yield from section_lines(_table([_operator(row) for row in operators]), _OPERATORS, self._width)
        states = sorted(self._levels["state"], key=lambda row: -(row["bytes"] or 0))
        yield f"\n{counted(len(states), 'state')}, the largest first{_left_out(states, _ON_PAGE)}"
        shown = list(self._states(states[:_ON_PAGE]))
        # Only RocksDB has garbage in its files, and keys are counted in a pass.
        titles = {name: title for name, title in _STATES.items() if any(row[name] != "-" for row in shown)}
        yield from section_lines(_table(shown), titles, self._width)
        if any(row["is_estimate"] for row in states):
            yield "  ~ is an estimate, from what RocksDB's files say of themselves: overwritten entries count"
        yield from self._largest_keys()
        yield from self._orphan_timers()
        yield from self._updates()
        yield from self._growth()

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
            yield from section_lines(_table(rows), _KEYS, self._width)

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
        yield from section_lines(_table(rows), _ORPHANS, self._width)

    def _updates(self) -> Iterator[str]:
        updated = [row for row in self._keys.values() if row["oldest_update"] is not None]
        if updated:
            yield "\nlast updates of states with TTL"
            rows = [row | {"operator": _operator_name(row)} for row in updated[:_ON_PAGE]]
            yield from section_lines(_table(rows), _UPDATES, self._width)

    def _growth(self) -> Iterator[str]:
        """Yield how large the other savepoints of the job are, by their `_metadata`."""
        growth = self._found.growth
        if len(growth) > 1:
            yield f"\ngrowth{_left_out(growth, _ON_PAGE)}"
            yield from section_lines(_table(growth[:_ON_PAGE]), _GROWTH, self._width)


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

TASK = Task(request=XrayRequest, run=run)
