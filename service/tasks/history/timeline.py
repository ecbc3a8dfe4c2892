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

from catalog import (
    Catalog,
    Database,
    HistoryDatabase,
    Job,
    KeyedState,
    NotAKeyError,
    entries_of,
    keyed_states,
)
from catalog.history import DATABASE, HistoryTable
from readers import ReaderError
from service.base.errors import InvalidRequestError, query_error_of
from service.query.sql.edits import quoted
from service.query.sql.literals import condition_of, text_constant
from service.tasks.request import TaskRequest, option
from service.tasks.task import Context

# A map or a list of one key may have any number of entries in each checkpoint.
_MOST_ROWS = 10_000
_LISTED = 10
_ENTRY = ("namespace", "map_key", "list_index")

_STATES_LISTED = 5
_LONGEST_KEY = 100_000

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
        return {
            "operator": self.operator,
            "state": self.state,
            "kind": self.kind,
            "table_name": self.table_name,
            "is_cut": self.is_cut,
            "points": [point.to_dict() for point in self.points],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTimelines:
    """The timelines of a key.

    Attributes:
        job: the name of the job.
        key: as it was given.
        states: of all states that may have the key, whether or not they do.
        misses: why the text is no key of other states, though it is like one; each with the operator.
    """

    job: str
    key: str
    states: tuple[StateTimeline, ...]
    misses: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return them as values that are JSON."""
        return {"job": self.job, "key": self.key, "states": [state.to_dict() for state in self.states]}


def chosen_job(catalog: Catalog, name: str | None) -> Job:
    """Return the job of a name; the only one if there is no name.

    Raises:
        InvalidRequestError: there are several jobs, and none is named.
        CatalogError: there is no such job, or several have this title.
    """
    if name is not None:
        return catalog.job(name)
    jobs = catalog.jobs()
    if len(jobs) != 1:
        listed = ", ".join(job.name for job in jobs[:_LISTED])
        more = f" and {len(jobs) - _LISTED} more" if len(jobs) > _LISTED else ""
        raise InvalidRequestError(
            f"expected the folder of one job, found {len(jobs)}", hint=f"name one of them: {listed}{more}"
        )
    return jobs[0]


def run(request: HistoryRequest, context: Context) -> KeyTimelines:
    """Return what each state of a job has of a key in each of its checkpoints.

    Raises:
        InvalidRequestError: there are several jobs, and none is named; or the job has no state of these names.
        CatalogError: there is no such job, or several have this title.
        QueryError: a statement fails.
        ReaderError: no checkpoint can be read.
    """
    job = chosen_job(context.catalog, request.job)
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
    return KeyTimelines(
        job=job.name, key=request.key, states=tuple(states), misses=tuple(dict.fromkeys(misses))
    )


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
    state: KeyedState,
    history: HistoryDatabase,
    checkpoints: Sequence[Point],
    context: Context,
    sql: str,
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
