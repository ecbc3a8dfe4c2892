"""`savepointdb lookup`: all states and timers of one key.

The key is a text, parsed as the key type of each operator (`catalog.keys`): `42` is a number for one operator and text for
another. An operator gives no rows if the text is not a key of its type. Only the key group of the key is read, if the hash of
the key type is known. Without any rows the command fails, as `grep` does, and shows keys of the savepoint as examples.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from catalog import Database, Key, Predicate, Table, parse_key, shown_key
from catalog.statetables import StatesTable, timer_service_of
from readers import ReaderError, State, conform, json_text
from service.commands.outcome import NothingFoundError, ended
from service.commands.output import check_output, write_rows
from service.commands.sources import catalog_of
from service.encode.columns import JSON_TEXT
from service.sql.types import Column, sql_type

_TIMERS = "timers"
_MOST_EXAMPLES = 4
_TEXT = pa.string()
_ANSWER = pa.schema(
    [
        ("database", pa.string()),
        ("operator", pa.string()),
        ("state", pa.string()),
        ("kind", pa.string()),
        ("namespace", pa.string()),
        ("map_key", pa.string()),
        ("list_index", pa.int32()),
        ("value", pa.string()),
    ]
)
_AS_JSON = frozenset({"namespace", "map_key", "value"})
_COLUMNS = [
    Column(field.name, JSON_TEXT if field.name in _AS_JSON else sql_type(field.type)) for field in _ANSWER
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyedState:
    """A state with a row per key.

    Attributes:
        table: a table with a column `key`.
        key_type: of the state's own keys; the table of several states may show them as text.
        unquoted: columns of the state's texts that never begin with a quotation mark.
        operator, state, kind: as shown.
        value: the column with the value.
        facts: columns that have these values in the rows of the state.
    """

    table: Table
    key_type: pa.DataType
    unquoted: frozenset[str]
    operator: str
    state: str
    kind: str
    value: str = "value"
    facts: dict[str, str] = field(default_factory=dict)

    def parse(self, text: str) -> Key | None:
        """Return the key that a text stands for; None if the state has no such keys."""
        return parse_key(text, self.key_type, is_unquoted="key" in self.unquoted)


def main(options: Namespace) -> int:
    """Show the states of the key; return the exit code."""
    return ended(_lookup, options)


def _lookup(options: Namespace) -> None:
    check_output(options.format, options.output)
    catalog = catalog_of([options.path], options)
    databases = [catalog.database(name) for name in catalog.databases]
    failures: list[tuple[str, ReaderError]] = []
    states = [(one, state) for one in databases for state in _readable_states(one, failures)]
    # The first rows are read before anything is written, so that an unknown key gives an error and no empty file.
    batches = _batches(states, options.key, failures)
    first = next(batches, None)
    if first is None and failures:
        # The key may be in what cannot be read.
        raise failures[0][1]
    if first is None:
        raise NothingFoundError(_nothing(options.key, [state for _, state in states]))
    rows = chain([first], batches)
    write_rows(_COLUMNS, _ANSWER, rows, format_name=options.format, path=options.output)
    for text in dict.fromkeys(f"{name}: {error}" for name, error in failures):
        print(f"savepointdb: not all of it can be read: {text}", file=sys.stderr)


def _batches(
    states: list[tuple[Database, _KeyedState]], text: str, failures: list[tuple[str, ReaderError]]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the key; what cannot be read is added to `failures`, and hides nothing else."""
    for database, state in states:
        try:
            yield from _rows(database, state, text)
        except ReaderError as error:
            failures.append((database.name, error))


def _readable_states(database: Database, failures: list[tuple[str, ReaderError]]) -> Iterator[_KeyedState]:
    try:
        yield from _states(database)
    except ReaderError as error:
        failures.append((database.name, error))


def _nothing(text: str, states: list[_KeyedState]) -> str:
    examples: dict[str, str] = {}
    for state in states:
        kind = str(state.key_type)
        if kind not in examples and len(examples) < _MOST_EXAMPLES:
            example = _example(state)
            if example is not None:
                examples[kind] = f"{example} ({state.operator})"
    if not examples:
        return f"no state has the key {text!r}; no state here has keys"
    return f"no state has the key {text!r}; keys here look like: {', '.join(examples.values())}"


def _example(state: _KeyedState) -> str | None:
    """Return a key of a state; None if it has none."""
    scan = state.table.scan(["key"], Predicate({name: (value,) for name, value in state.facts.items()}))
    for split in scan.splits:
        for batch in scan.read(split):
            keys = batch.column("key").drop_null()
            if len(keys):
                return shown_key(keys)
    return None


def _states(database: Database) -> Iterator[_KeyedState]:
    """Yield the keyed states of a database, its timers last."""
    for row in database.table("StateMeta").scan().to_arrow().to_pylist():
        if row["key_type"] is not None and row["table_name"] not in (None, _TIMERS):
            table = database.table(row["table_name"])
            if "key" in table.schema.names:
                yield _KeyedState(
                    table=table,
                    key_type=table.schema.field("key").type,
                    unquoted=table.unquoted,
                    operator=database.operator_names[row["operator_id"]],
                    state=row["state_name"],
                    kind=row["state_kind"],
                )
    timers = database.table(_TIMERS)
    if isinstance(timers, StatesTable):
        for known in timers.states:
            yield _timers(database, timers, known.state)


def _timers(database: Database, table: StatesTable, state: State) -> _KeyedState:
    domain, service = timer_service_of(state.name)
    return _KeyedState(
        table=table,
        key_type=state.schema.field("key").type,
        unquoted=state.unquoted,
        operator=database.operator_names[state.operator_id],
        state=service,
        kind=f"{domain} TIMER",
        value="timestamp",
        facts={"operator_id": state.operator_id, "timer_service": service, "time_domain": domain},
    )


def _rows(database: Database, state: _KeyedState, text: str) -> Iterator[pa.RecordBatch]:
    key = state.parse(text)
    if key is None:
        return
    column = state.table.schema.field("key").type
    # A column of several types of keys is text: texts are as they are, other keys are JSON text.
    is_text = pa.types.is_string(column)
    shown = key.array if is_text else conform(key.array, column)
    wanted = key.value if pa.types.is_string(state.key_type) else Key(shown).json
    predicate = Predicate({name: (value,) for name, value in state.facts.items()})
    if column.equals(state.key_type) and key.value is not None:
        predicate = predicate.and_("key", (key.value,))
    names = [name for name in state.table.schema.names if not name.startswith("_")]
    scan = state.table.scan(names, predicate)
    for split in scan.splits:
        for batch in scan.read(split):
            # Compared as text, because Arrow cannot compare nested values.
            keys = batch.column("key")
            kept = pc.equal(keys if is_text else json_text(keys), wanted)
            for name, value in state.facts.items():
                kept = pc.and_(kept, pc.equal(batch.column(name), value))
            rows = batch.filter(kept)
            if rows.num_rows:
                yield _answer(database, state, rows)


def _answer(database: Database, state: _KeyedState, batch: pa.RecordBatch) -> pa.RecordBatch:
    def repeated(text: str) -> pa.Array:
        return pa.repeat(pa.scalar(text, pa.string()), batch.num_rows)

    def column(name: str, kind: pa.DataType = _TEXT) -> pa.Array:
        if name not in batch.schema.names:
            return pa.nulls(batch.num_rows, kind)
        return json_text(batch.column(name)) if kind == pa.string() else batch.column(name)

    arrays = [
        repeated(database.name),
        repeated(state.operator),
        repeated(state.state),
        repeated(state.kind),
        column("namespace"),
        column("map_key"),
        column("list_index", pa.int32()),
        column(state.value),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_ANSWER)
