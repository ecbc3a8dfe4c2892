"""All states and timers of one key.

The key is a text, parsed as the key type of each operator (`catalog.keys`): `42` is a number for one operator and text for
another. An operator gives no rows if the text is not a key of its type. Only the key group of the key is read, if the hash of
the key type is known. Without any rows the outcome shows keys of the savepoint as examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from catalog import (
    ENTRIES,
    Database,
    Key,
    KeyedState,
    NotAKeyError,
    entries_of,
    keyed_states,
    shown_key,
    unread_operators,
)
from readers import ReaderError, json_text
from service.base.errors import QueryError, SavepointError, query_error_of
from service.query.encode import FORMATS, counted, section_lines
from service.query.encode.formats import columns_of
from service.tasks.task import Context, Task, TaskRequest, option

_LONGEST_KEY = 100_000
_MOST_EXAMPLES = 4
# A map or a list of one key may have any number of entries.
_MOST_ROWS = 10_000
_NOT_FOUND, _UNREADABLE = 1, 3
_ANSWER = pa.schema([*((name, pa.string()) for name in ("database", "operator", "state", "kind")), *ENTRIES])
_AS_JSON = frozenset({"namespace", "map_key", "value"})
COLUMNS = columns_of(_ANSWER, _AS_JSON)
_Failure = tuple[Database, str | None, QueryError]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupRequest(TaskRequest):
    """A key, and where it is looked up."""

    key: str = option(
        "text, number, or JSON if the key has several fields", argument=True, longest=_LONGEST_KEY
    )
    database: str | None = option("name or alias; default: all", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRows:
    """The rows of the key in a state.

    Attributes:
        database: its name.
        state: the state.
        batches: the rows, with the columns and types of the state's table.
        is_cut: True if the key has more rows there.
    """

    database: str
    state: KeyedState
    batches: tuple[pa.RecordBatch, ...]
    is_cut: bool = False

    def entries(self) -> Iterator[pa.RecordBatch]:
        """Yield them as rows of `COLUMNS`."""
        state = self.state
        for batch in self.batches:
            names = (self.database, state.operator, state.state, state.kind)
            repeated = [pa.repeat(pa.scalar(name, pa.string()), batch.num_rows) for name in names]
            entries = entries_of(batch, state.value, state.json_columns)
            yield pa.RecordBatch.from_arrays([*repeated, *entries.columns], schema=_ANSWER)


@dataclass(frozen=True, kw_only=True)
class LookupOutcome:
    """What there is of a key.

    Attributes:
        key: as it was given.
        databases: the names of those that were searched.
        left_out: how many others there are.
        states: those that have the key.
        examples: keys that there are, each with an operator, if no state has the key.
        reasons: why the text, though a struct, is no key of states with structs, if no state has the key.
        unread: what cannot be read: the database, the operator or None, and why.
    """

    key: str
    databases: tuple[str, ...]
    left_out: int
    states: tuple[StateRows, ...]
    examples: tuple[str, ...]
    reasons: tuple[str, ...]
    unread: tuple[_Failure, ...]

    @cached_property
    def rows(self) -> pa.Table:
        """All rows, as `COLUMNS` has them: namespace, map_key and value are JSON text."""
        return pa.Table.from_batches([one for state in self.states for one in state.entries()], _ANSWER)

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The rows of each table with their own types; `database.table` if several databases have the key."""
        several = len({one.database for one in self.states}) > 1
        found: dict[str, list[pa.RecordBatch]] = {}
        for one in self.states:
            name = one.state.table.name
            found.setdefault(f"{one.database}.{name}" if several else name, []).extend(one.batches)
        return {name: pa.Table.from_batches(batches) for name, batches in found.items()}

    @property
    def exit_code(self) -> int:
        """See `Outcome`: 1 if no state has the key, 3 if it may be in what cannot be read."""
        if self.states:
            return 0
        return _UNREADABLE if self.unread else _NOT_FOUND

    def to_dict(self) -> dict[str, Any]:
        """See `Outcome`."""
        json = b"".join(FORMATS["json"].write(COLUMNS, _ANSWER, self.rows.to_batches()))
        return {
            "key": self.key,
            "databases": list(self.databases),
            "databases_left_out": self.left_out,
            "rows": orjson.loads(json),
            "cut_tables": [f"{one.database}.{one.state.table.name}" for one in self.states if one.is_cut],
            "examples": list(self.examples),
            "reasons": list(self.reasons),
            "unread": [
                {
                    "database": database.name,
                    "operator": operator,
                    "code": error.code,
                    "message": error.message,
                }
                for database, operator, error in self.unread
            ],
        }

    def lines(self, width: int | None) -> Iterator[str]:
        """See `Outcome`."""
        yield self._head()
        for database, states in groupby(self.states, lambda one: one.database):
            rows = pa.Table.from_batches([batch for one in states for batch in one.entries()], _ANSWER)
            shown = [name for name in rows.column_names[1:] if rows[name].null_count < rows.num_rows]
            yield f"database {database}"
            yield from section_lines(rows, {name: name for name in shown}, width)
        for one in self.states:
            if one.is_cut:
                yield f"{one.state.table.name} of {one.database} has more rows of the key"

    def _head(self) -> str:
        if self.states:
            return f"key {self.key!r:.200}: {counted(self.rows.num_rows, 'row')}"
        told = f"no state has the key {self.key!r:.200}"
        if self.reasons:
            told = f"{told}: {', or '.join(self.reasons)}"
        shown = (
            f"keys here look like: {', '.join(self.examples)}" if self.examples else "no state here has keys"
        )
        # The key may be in what cannot be read.
        return f"{told}; {shown}{' (of what can be read)' if self.unread else ''}"


def run(request: LookupRequest, context: Context) -> LookupOutcome:
    """Look a key up in the states of one database, or of all.

    Raises:
        CatalogError: there is no such database.
        ReaderError: none of the databases can be read.
        QueryError: a statement is not allowed, or takes longer than it may.
    """
    databases = context.databases(request.database)
    failures: list[_Failure] = []
    states = [(one, state) for one in databases for state in _readable_states(one, failures)]
    if not states and failures:
        raise failures[0][2]
    find = _scanned if context.is_alone else _asked
    found = []
    for database, state in states:
        try:
            rows = find(context, database, state, request.key)
        except NotAKeyError:
            continue
        except (ReaderError, SavepointError) as error:
            failures.append((database, state.operator, query_error_of(error)))
            continue
        if rows.batches:
            found.append(rows)
    left_out = 0 if request.database is not None else len(context.catalog.databases) - len(databases)
    if left_out:
        context.warn(f"{counted(left_out, 'database')} not searched; name one to search it")
    for text in dict.fromkeys(f"{one.name}: {error.message}" for one, _, error in failures):
        context.warn(f"not all of it can be read: {text}")
    return LookupOutcome(
        key=request.key,
        databases=tuple(one.name for one in databases),
        left_out=left_out,
        states=tuple(found),
        examples=() if found else tuple(_examples(context, states)),
        reasons=() if found else tuple(_near_misses(request.key, states)),
        unread=tuple(failures),
    )


def _readable_states(database: Database, failures: list[_Failure]) -> Iterator[KeyedState]:
    try:
        yield from keyed_states(database)
        failures += [(database, name, query_error_of(error)) for name, error in unread_operators(database)]
    except ReaderError as error:
        failures.append((database, None, query_error_of(error)))


def _asked(context: Context, database: Database, state: KeyedState, text: str) -> StateRows:
    """Return the rows that a statement finds."""
    # A scan needs no SQL.
    from service.tasks.lookup.statements import rows_of_key

    request = replace(context.asked, sql=rows_of_key(database, state, text), max_rows=_MOST_ROWS)
    with context.start(request) as query:
        batches = [_shown(one) for one in query.batches() if one.num_rows]
        return StateRows(database=database.name, state=state, batches=tuple(batches), is_cut=query.truncated)


def _scanned(_: Context, database: Database, state: KeyedState, text: str) -> StateRows:
    """Return the rows that a scan finds."""
    key = state.parse(text)
    is_text = pa.types.is_string(state.column_type)
    shown = state.in_column(key)
    wanted = shown[0].as_py() if is_text else Key(shown).json
    rows = state.rows_of(
        key, state.table, lambda keys: pc.equal(keys if is_text else json_text(keys), wanted)
    )
    return StateRows(database=database.name, state=state, batches=tuple(map(_shown, rows)))


def _shown(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select([name for name in batch.schema.names if not name.startswith("_")])


def _near_misses(text: str, states: Sequence[tuple[Database, KeyedState]]) -> list[str]:
    """Return why a struct is no key of states with structs, each with the first operator for which this is so."""
    reasons: dict[str, str] = {}
    for _, state in states:
        try:
            state.parse(text)
        except NotAKeyError as error:
            if error.is_close:
                reasons.setdefault(str(error), state.operator)
    return [f"{reason} ({operator})" for reason, operator in reasons.items()][:_MOST_EXAMPLES]


def _examples(context: Context, states: Sequence[tuple[Database, KeyedState]]) -> list[str]:
    example: Callable[..., str | None] = _scanned_example if context.is_alone else _asked_example
    examples: dict[str, str] = {}
    for database, state in states:
        kind = str(state.key_type)
        if kind not in examples and len(examples) < _MOST_EXAMPLES:
            # The first failure is told already; other states may have examples.
            try:
                found = example(context, database, state)
            except (ReaderError, SavepointError):
                continue
            if found is not None:
                examples[kind] = f"{found} ({state.operator})"
    return list(examples.values())


def _asked_example(context: Context, database: Database, state: KeyedState) -> str | None:
    from service.tasks.lookup.statements import any_key

    keys = context.query(any_key(database, state))["key"].combine_chunks()
    return shown_key(keys) if len(keys) else None


def _scanned_example(_: Context, database: Database, state: KeyedState) -> str | None:
    scan = state.table.scan(["key"], state.predicate)
    for split in scan.splits:
        for batch in scan.read(split):
            keys = batch.column("key").drop_null()
            if len(keys):
                return shown_key(keys)
    return None


TASK = Task(request=LookupRequest, run=run, has_rows=True, table="rows", json_columns=_AS_JSON)
