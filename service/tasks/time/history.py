"""What each state of a job has of a key in each checkpoint: one statement of SQL a state, over the history of the job.

The statements run as those of users do, with the same engines, limits and grants. A checkpoint that cannot be read, or that is removed
meanwhile, has a point with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from catalog import Database, HistoryDatabase, Job, KeyedState, NotAKeyError, entries_of, keyed_states
from catalog.history import DATABASE, HistoryTable
from readers import ReaderError
from service.base.errors import InvalidRequestError, query_error_of
from service.query.encode import counted, section_lines
from service.query.sql.text import condition_of, quoted, text_constant
from service.tasks.task import Context, Exits, Task, TaskRequest, option

# A map or a list of one key may have any number of entries in each checkpoint.
_MOST_ROWS = 10_000
_ENTRY = ("namespace", "map_key", "list_index")

_STATES_LISTED = 5
_LONGEST_KEY = 100_000
_MOST_ENTRIES = 5
_JSON = frozenset({"namespace", "map_key", "value"})

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest(TaskRequest):
    """A key of a job."""

    key: str = option(
        "Key as people write it: key_662, 42, (a,1), or JSON if it has several fields.",
        argument=True,
        longest=_LONGEST_KEY,
    )
    job: str | None = option(
        "Job whose checkpoints are read; if not given, the only one.", default=None, metavar="NAME"
    )
    operator: str | None = option("Only the states of this operator.", default=None, metavar="NAME")
    state: str | None = option("Only the states of this name.", default=None, metavar="NAME")
    last: int | None = option(
        "Read only the newest N checkpoints; if not given, all.", default=None, metavar="N", at_least=1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What a state has of a key in one checkpoint.

    Attributes:
        database: its name.
        folder: the last folder of its path, such as `chk-41`.
        checkpoint_id: the number that Flink gave it; None if it cannot be read, and its path does not say.
        created_at: when Flink made it; None if that is not known.
        rows: the entries: namespace, map_key and value as JSON text, and list_index.
        changed: True if they differ from those of the checkpoint before that can be read.
        error: why it cannot be read; None if it can.
    """

    database: str
    folder: str
    checkpoint_id: int | None
    created_at: datetime | None
    rows: tuple[Entry, ...]
    changed: bool
    error: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that are JSON."""
        return {
            "database": self.database,
            "checkpoint_id": self.checkpoint_id,
            "created_at": None if self.created_at is None else self.created_at.isoformat(),
            "rows": list(self.rows),
            "changed": self.changed,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTimeline:
    """What a state has of a key in all checkpoints.

    Attributes:
        operator: the name of the operator's table.
        state: the name of the state.
        kind: of the state.
        table_name: the table in the history.
        points: of all checkpoints, the oldest first.
        is_cut: True if the key has more rows than were read: what changed is known of the others only.
    """

    operator: str
    state: str
    kind: str
    table_name: str
    points: tuple[Point, ...]
    is_cut: bool = False

    @property
    def has_rows(self) -> bool:
        """True if any checkpoint has the key."""
        return any(point.rows for point in self.points)

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that are JSON."""
        names = ("operator", "state", "kind", "table_name", "is_cut")
        told = {name: getattr(self, name) for name in names}
        return told | {"points": [point.to_dict() for point in self.points]}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTimelines:
    """The timelines of a key.

    Attributes:
        job: the job.
        key: as it was given.
        states: of all states that may have the key, whether or not they do.
        misses: why the text is no key of other states, though it is like one; each with the operator.
    """

    job: Job
    key: str
    states: tuple[StateTimeline, ...]
    misses: tuple[str, ...] = ()

    @property
    def rows(self) -> pa.Table:
        """A row for each entry in each checkpoint; a checkpoint without an entry, or that cannot be read, has one row."""
        nothing: Entry = dict.fromkeys(("namespace", "map_key", "list_index", "value"))
        rows = [
            {
                **{name: getattr(state, name) for name in _OF_STATE},
                **{name: getattr(point, name) for name in _OF_POINT},
                **entry,
                "error": point.error,
            }
            for state in self.states
            if state.has_rows
            for point in state.points
            for entry in point.rows or (nothing,)
        ]
        return pa.Table.from_pylist(rows, schema=_ROWS)

    @property
    def folded(self) -> pa.Table:
        """A row for each run of checkpoints with the same entries, the oldest first."""
        rows = [row for state in self.states if state.has_rows for row in _folded(state)]
        return pa.Table.from_pylist(rows, schema=_FOLDED)

    @property
    def exit_code(self) -> int:
        """See `Outcome`: 1 if no checkpoint has the key."""
        return int(not any(state.has_rows for state in self.states))

    def to_dict(self) -> dict[str, Any]:
        """See `Outcome`."""
        return {"job": self.job.name, "key": self.key, "states": [state.to_dict() for state in self.states]}

    @property
    def _nothing(self) -> str:
        """Why there are no rows."""
        reasons = f": {', or '.join(self.misses)}" if self.misses else ""
        return f"no state of job {self.job.name} has the key {self.key!r:.200}{reasons}"

    def brief(self) -> dict[str, Any]:
        """Return it as agents read it: checkpoints in which nothing changed are one row."""
        rows = [list(row.values()) for row in self.folded.to_pylist()]
        names = {"job": self.job.name, "history": self.job.history, "key": self.key}
        missed = [f"{self._nothing}; lookup_key shows what keys look like"] if self.exit_code else []
        return {**names, "columns": _FOLDED.names, "rows": rows, "notes": missed}

    def lines(self, width: int | None) -> Iterator[str]:
        """See `Outcome`."""
        if self.exit_code:
            yield self._nothing
            return
        count = counted(len(self.job.databases), "checkpoint")
        yield f"{self.key} in job {self.job.name}: {count}; schema of its history: {self.job.history}"
        yield from section_lines(self.folded, {name: name for name in _FOLDED.names}, width)


def run(request: HistoryRequest, context: Context) -> KeyTimelines:
    """Return what each state of a job has of a key in each of its checkpoints.

    Raises:
        InvalidRequestError: there are several jobs, and none is named; or the job has no state of these names.
        CatalogError: there is no such job, or several have this title.
        QueryError: a statement fails.
        ReaderError: no checkpoint can be read.
    """
    job = context.job(request.job)
    history = context.catalog.history(job)
    databases = job.databases[: request.last]
    checkpoints = [_checkpoint(database) for database in databases]
    states, misses = [], []
    for state in _wanted(job, request, list(_states(databases))):
        try:
            condition = _condition(state, history, request.key)
        except NotAKeyError as error:
            if error.is_close:
                misses.append(f"{error} ({state.operator})")
            continue
        facts = [f"{name} = {text_constant(value)}" for name, value in state.facts.items()]
        among = ", ".join(text_constant(one.database) for one in checkpoints)
        sql = (
            f"SELECT * FROM {quoted(history.name)}.{quoted(state.table.name)} "
            f"WHERE {' AND '.join([condition, *facts, f'{DATABASE} IN ({among})'])}"
        )
        states.append(_timeline(state, history, checkpoints, context, sql))
    lacking = {f"{point.database}: {point.error}" for one in states for point in one.points if point.error}
    for text in sorted(lacking):
        context.warn(f"not all of it can be read: {text}")
    for one in states:
        if one.is_cut:
            context.warn(f"{one.table_name} has more rows of the key than are shown")
    return KeyTimelines(job=job, key=request.key, states=tuple(states), misses=tuple(dict.fromkeys(misses)))


def _wanted(job: Job, request: HistoryRequest, states: Sequence[KeyedState]) -> list[KeyedState]:
    """Return the states of the names that a request has.

    Raises:
        InvalidRequestError: there are states, and none of these names.
    """
    found = [
        state
        for state in states
        if _is_named(request.operator, state.operator, state.operator_id)
        and _is_named(request.state, state.state)
    ]
    if states and not found:
        known = list(dict.fromkeys(f"{state.operator} › {state.state}" for state in states))
        more = f" and {len(known) - _STATES_LISTED} more" if len(known) > _STATES_LISTED else ""
        raise InvalidRequestError(
            f"operator and state leave no state; job {job.name} has {', '.join(known[:_STATES_LISTED])}{more}"
        )
    return found


def _is_named(name: str | None, *names: str) -> bool:
    return name is None or name.casefold() in map(str.casefold, names)


def _timeline(
    state: KeyedState, history: HistoryDatabase, checkpoints: Sequence[Point], context: Context, sql: str
) -> StateTimeline:
    found: dict[str, list[Entry]] = {}
    json_columns = _json_columns(state, history.table(state.table.name))
    with context.start(replace(context.asked, sql=sql, max_rows=_MOST_ROWS)) as query:
        for batch in query.batches():
            entries = entries_of(batch, state.value, json_columns).to_pylist()
            for name, entry in zip(batch.column(DATABASE).to_pylist(), entries, strict=True):
                found.setdefault(name, []).append(entry)
        left_out = [file.message for file in query.incomplete]
        is_cut = query.truncated
    points = []
    before: tuple[Entry, ...] = ()
    for checkpoint in reversed(checkpoints):
        rows = tuple(sorted(found.get(checkpoint.database, ()), key=_place))
        mark = f'"{checkpoint.database}"'
        error = checkpoint.error or next((text for text in left_out if mark in text), None)
        changed = error is None and rows != before
        points.append(replace(checkpoint, rows=rows, changed=changed, error=error))
        before = rows if error is None else before
    return StateTimeline(
        operator=state.operator,
        state=state.state,
        kind=state.kind,
        table_name=state.table.name,
        points=tuple(points),
        is_cut=is_cut,
    )


def _states(databases: Sequence[Database]) -> Iterator[KeyedState]:
    """Yield the states with keys of any checkpoint, as the newest that has them knows them.

    Raises:
        ReaderError: no checkpoint can be read.
    """
    seen: set[tuple[str, str, str]] = set()
    failures: list[ReaderError] = []
    for database in databases:
        try:
            found = list(keyed_states(database))
        except ReaderError as error:
            failures.append(error)
            continue
        for state in found:
            identity = state.operator_id, state.kind, state.state
            if identity not in seen:
                seen.add(identity)
                yield state
    if len(failures) == len(databases):
        raise failures[0]


def _condition(state: KeyedState, history: HistoryDatabase, text: str) -> str:
    """Return the condition that is true for the key in the history.

    Raises:
        NotAKeyError: the state has no such keys.
    """
    in_history = replace(state, table=history.table(state.table.name))
    return condition_of("key", in_history.in_column(state.parse(text)))


def _json_columns(state: KeyedState, table: HistoryTable) -> frozenset[str]:
    """Return the columns in which values stand as JSON text, because checkpoints, or states, have them in several types."""
    own = state.table.schema
    unified = {
        name
        for name in (*_ENTRY, state.value)
        if name in own.names
        and pa.types.is_string(table.schema.field(name).type)
        and not pa.types.is_string(own.field(name).type)
    }
    return state.json_columns | unified


def _checkpoint(database: Database) -> Point:
    """Return a point of a checkpoint without rows."""
    number, failure = database.job.checkpoint, None
    try:
        number = database.checkpoint_id
    except ReaderError as error:
        failure = query_error_of(error).message
    return Point(
        database=database.name,
        folder=database.folder,
        checkpoint_id=number,
        created_at=database.created_at,
        rows=(),
        changed=False,
        error=failure,
    )


def _place(entry: Entry) -> tuple[str, str, int, str]:
    """Return the place of an entry in an order that is the same in all checkpoints, whatever backend wrote them."""
    index = entry["list_index"]
    return (
        entry["namespace"] or "",
        entry["map_key"] or "",
        -1 if index is None else index,
        entry["value"] or "",
    )


def _folded(state: StateTimeline) -> Iterator[dict[str, Any]]:
    for run in _runs(state.points):
        first, last = run[0], run[-1]
        yield {
            "operator": state.operator,
            "state": state.state,
            "checkpoints": first.folder if first is last else f"{first.folder} … {last.folder}",
            "since": None if first.created_at is None else f"{first.created_at:%Y-%m-%d %H:%M:%S}",
            "value": f"cannot be read: {first.error}" if first.error else _value(first.rows),
        }


def _runs(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Yield the checkpoints that follow each other and have the same entries, or cannot be read for the same reason."""
    run: list[Point] = []
    for point in points:
        if run and (point.changed or point.error != run[-1].error):
            yield run
            run = []
        run.append(point)
    if run:
        yield run


def _value(rows: Sequence[Entry]) -> str:
    if not rows:
        return "no row"
    shown = ", ".join(map(_entry, rows[:_MOST_ENTRIES]))
    more = len(rows) - _MOST_ENTRIES
    return shown if more <= 0 else f"{shown} and {counted(more, 'more row')}"


def _entry(entry: Entry) -> str:
    index = entry["list_index"]
    places = (entry["namespace"], entry["map_key"], None if index is None else f"[{index}]")
    place = " ".join(text for text in places if text is not None)
    value = "NULL" if entry["value"] is None else str(entry["value"])
    return f"{place}: {value}" if place else value


_OF_STATE = ("operator", "state", "kind")
_OF_POINT = ("database", "checkpoint_id", "created_at", "changed")
_FOLDED = pa.schema([(name, pa.string()) for name in ("operator", "state", "checkpoints", "since", "value")])
_ROWS = pa.schema(
    [
        *((name, pa.string()) for name in (*_OF_STATE, "database")),
        ("checkpoint_id", pa.int64()),
        ("created_at", pa.timestamp("us", "UTC")),
        ("changed", pa.bool_()),
        ("namespace", pa.string()),
        ("map_key", pa.string()),
        ("list_index", pa.int32()),
        ("value", pa.string()),
        ("error", pa.string()),
    ]
)
TASK = Task(
    request=HistoryRequest, run=run, has_rows=True, table="folded", json_columns=_JSON, exits=Exits(failed=2)
)
