"""`savepointdb lookup`: all states and timers of one key.

The key is a text, parsed as the key type of each operator (`catalog.keys`): `42` is a number for one operator and text for
another. An operator gives no rows if the text is not a key of its type. Only the key group of the key is read, if the hash of
the key type is known. Without any rows the command fails, as `grep` does, and shows keys of the savepoint as examples.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from catalog import (
    ENTRIES,
    Database,
    Key,
    KeyedState,
    NotAKeyError,
    Predicate,
    entries_of,
    keyed_states,
    shown_key,
    unread_operators,
)
from readers import ReaderError, json_text
from service.base.errors import query_error_of
from service.doors.cli.compile import log_compilation
from service.doors.cli.outcome import NothingFoundError, ended
from service.doors.cli.output import output_format, write_rows
from service.doors.cli.sources import catalog_of
from service.query.encode.columns import JSON_TEXT
from service.query.sql.types import Column, sql_type

_MOST_EXAMPLES = 4
_ANSWER = pa.schema(
    [
        ("database", pa.string()),
        ("operator", pa.string()),
        ("state", pa.string()),
        ("kind", pa.string()),
        *ENTRIES,
    ]
)
_AS_JSON = frozenset({"namespace", "map_key", "value"})
_COLUMNS = [
    Column(field.name, JSON_TEXT if field.name in _AS_JSON else sql_type(field.type)) for field in _ANSWER
]


def main(options: Namespace) -> int:
    """Show the states of the key; return the exit code."""
    return ended(_lookup, options)


def _lookup(options: Namespace) -> None:
    format_name = output_format(options.format, options.output)
    log_compilation()
    catalog = catalog_of([options.path], options)
    databases = [catalog.database(name) for name in catalog.databases]
    failures: list[tuple[str, ReaderError]] = []
    states = [(one, state) for one in databases for state in _readable_states(one, failures)]
    # The first rows are read before anything is written, so that an unknown key gives an error and no empty file.
    batches = _batches(states, options.key, failures)
    first = next(batches, None)
    if first is not None:
        rows = chain([first], batches)
        write_rows(_COLUMNS, _ANSWER, rows, format_name=format_name, path=options.output)
    for text in dict.fromkeys(f"{name}: {query_error_of(error).message}" for name, error in failures):
        print(f"savepointdb: not all of it can be read: {text}", file=sys.stderr)
    if first is None:
        told = _nothing(options.key, [state for _, state in states])
        # The key may be in what cannot be read.
        raise ReaderError(f"{told} (of what can be read)") if failures else NothingFoundError(told)


def _batches(
    states: list[tuple[Database, KeyedState]], text: str, failures: list[tuple[str, ReaderError]]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the key; what cannot be read is added to `failures`, and hides nothing else."""
    for database, state in states:
        try:
            yield from _rows(database, state, text)
        except ReaderError as error:
            failures.append((database.name, error))


def _readable_states(database: Database, failures: list[tuple[str, ReaderError]]) -> Iterator[KeyedState]:
    try:
        yield from keyed_states(database)
        failures += [(database.name, error) for _, error in unread_operators(database)]
    except ReaderError as error:
        failures.append((database.name, error))


def _nothing(text: str, states: list[KeyedState]) -> str:
    examples: dict[str, str] = {}
    for state in states:
        kind = str(state.key_type)
        if kind not in examples and len(examples) < _MOST_EXAMPLES:
            example = _example(state)
            if example is not None:
                examples[kind] = f"{example} ({state.operator})"
    told = f"no state has the key {text!r}"
    reasons = [f"{reason} ({operator})" for reason, operator in _near_misses(text, states).items()]
    if reasons:
        told = f"{told}: {', or '.join(reasons[:_MOST_EXAMPLES])}"
    if not examples:
        return f"{told}; no state here has keys"
    return f"{told}; keys here look like: {', '.join(examples.values())}"


def _near_misses(text: str, states: list[KeyedState]) -> dict[str, str]:
    """Return why a struct is no key of states with structs → the first operator for which this is so."""
    reasons: dict[str, str] = {}
    for state in states:
        try:
            state.parse(text)
        except NotAKeyError as error:
            if error.is_close:
                reasons.setdefault(str(error), state.operator)
    return reasons


def _example(state: KeyedState) -> str | None:
    """Return a key of a state; None if it has none."""
    scan = state.table.scan(["key"], Predicate({name: (value,) for name, value in state.facts.items()}))
    try:
        for split in scan.splits:
            for batch in scan.read(split):
                keys = batch.column("key").drop_null()
                if len(keys):
                    return shown_key(keys)
    except ReaderError:
        # The first failure is told already; other states may have examples.
        return None
    return None


def _rows(database: Database, state: KeyedState, text: str) -> Iterator[pa.RecordBatch]:
    try:
        key = state.parse(text)
    except NotAKeyError:
        return
    column = state.column_type
    # Compared as text, because Arrow cannot compare nested values.
    is_text = pa.types.is_string(column)
    shown = state.in_column(key)
    wanted = shown[0].as_py() if is_text else Key(shown).json
    predicate = Predicate({name: (value,) for name, value in state.facts.items()})
    if column.equals(state.key_type) and key.value is not None:
        predicate = predicate.and_("key", (key.value,))
    names = [name for name in state.table.schema.names if not name.startswith("_")]
    scan = state.table.scan(names, predicate)
    for split in scan.splits:
        for batch in scan.read(split):
            keys = batch.column("key")
            kept = pc.equal(keys if is_text else json_text(keys), wanted)
            for name, value in state.facts.items():
                kept = pc.and_(kept, pc.equal(batch.column(name), value))
            rows = batch.filter(kept)
            if rows.num_rows:
                yield _answer(database, state, rows)


def _answer(database: Database, state: KeyedState, batch: pa.RecordBatch) -> pa.RecordBatch:
    def repeated(text: str) -> pa.Array:
        return pa.repeat(pa.scalar(text, pa.string()), batch.num_rows)

    names = (database.name, state.operator, state.state, state.kind)
    entries = entries_of(batch, state.value, state.json_columns)
    return pa.RecordBatch.from_arrays([*map(repeated, names), *entries.columns], schema=_ANSWER)
