"""`savepointdb lookup`: all states and timers of one key.

The key is a text, parsed as the key type of each operator: `42` is a number for one operator and text for another. Structs,
lists and maps are written as JSON. An operator gives no rows if the text is not a key of its type. Only the key group of the
key is read, if the hash of the key type is known.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from catalog import Database, Predicate, Table
from readers import ReaderError, json_text
from service.commands.outcome import WrongUsageError, ended
from service.commands.output import check_output, write_rows
from service.commands.sources import catalog_of
from service.encode.columns import JSON_TEXT
from service.sql.types import Column, sql_type

_TIMERS = "timers"
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
    """A table with a row per key.

    Attributes:
        table: a table with a column `key`.
        operator: the operator of the state; None for the timers, whose rows name theirs.
        state: the name of the state; for the timers, the column with the name.
        kind: the kind of the state.
        value: the column with the value.
    """

    table: Table
    operator: str | None
    state: str
    kind: str
    value: str = "value"


def main(options: Namespace) -> int:
    """Show the states of the key; return the exit code."""
    return ended(_lookup, options)


def _lookup(options: Namespace) -> None:
    check_output(options.format, options.output)
    catalog = catalog_of([options.path], options)
    databases = [catalog.database(name) for name in catalog.databases]
    failures: list[tuple[str, ReaderError]] = []
    states = [(one, state) for one in databases for state in _readable_states(one, failures)]
    key_types = {sql_type(state.table.schema.field("key").type) for _, state in states}
    # The first rows are read before anything is written, so that a wrong key gives an error and no empty file.
    batches = _batches(states, options.key, failures)
    first = next(batches, None)
    if first is None and failures:
        # The key may be in what cannot be read.
        raise failures[0][1]
    if first is None and not any(_could_be(options.key, state) for _, state in states):
        raise WrongUsageError(
            f"expected a key of type {' or '.join(sorted(key_types)) or 'any state'}, found {options.key!r}"
        )
    rows = batches if first is None else chain([first], batches)
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


def _states(database: Database) -> Iterator[_KeyedState]:
    """Yield the tables with keys: one for each keyed state, and the timers."""
    for row in database.table("StateMeta").scan().to_arrow().to_pylist():
        if row["key_type"] is not None and row["table_name"] not in (None, _TIMERS):
            table = database.table(row["table_name"])
            if "key" in table.schema.names:
                operator = database.operator_names[row["operator_id"]]
                yield _KeyedState(
                    table=table, operator=operator, state=row["state_name"], kind=row["state_kind"]
                )
    timers = database.table(_TIMERS)
    yield _KeyedState(table=timers, operator=None, state="timer_service", kind="TIMER", value="timestamp")


def _could_be(text: str, state: _KeyedState) -> bool:
    return key_of(text, state.table.schema.field("key").type) is not None


def key_of(text: str, key_type: pa.DataType) -> pa.Scalar | None:
    """Parse a text as a key of this type; return None if it is none."""
    for test, parse in _PARSERS:
        if test(key_type):
            try:
                return pa.scalar(parse(text, key_type), key_type)
            except (ValueError, TypeError, LookupError, ArithmeticError, pa.ArrowException):
                return None
    try:
        return pa.scalar(text).cast(key_type)
    except pa.ArrowException:
        return None


def _rows(database: Database, state: _KeyedState, text: str) -> Iterator[pa.RecordBatch]:
    key = key_of(text, state.table.schema.field("key").type)
    if key is None:
        return
    wanted = json_text(pa.array([key.as_py()], key.type))[0]
    names = [name for name in state.table.schema.names if not name.startswith("_")]
    scan = state.table.scan(names, Predicate({"key": (key.as_py(),)}))
    for split in scan.splits:
        for batch in scan.read(split):
            # Compared as text, because Arrow cannot compare nested values.
            kept = batch.filter(pc.equal(json_text(batch.column("key")), wanted))
            if kept.num_rows:
                yield _answer(database, state, kept)


def _answer(database: Database, state: _KeyedState, batch: pa.RecordBatch) -> pa.RecordBatch:
    def repeated(text: str) -> pa.Array:
        return pa.repeat(pa.scalar(text, pa.string()), batch.num_rows)

    def column(name: str, kind: pa.DataType = _TEXT) -> pa.Array:
        if name not in batch.schema.names:
            return pa.nulls(batch.num_rows, kind)
        return json_text(batch.column(name)) if kind == pa.string() else batch.column(name)

    if state.operator is None:
        operators = pa.array(
            [database.operator_names[one] for one in batch.column("operator_id").to_pylist()]
        )
        names = batch.column(state.state)
        kinds = pc.binary_join_element_wise(batch.column("time_domain"), state.kind, " ")
    else:
        operators, names, kinds = repeated(state.operator), repeated(state.state), repeated(state.kind)
    arrays = [
        repeated(database.name),
        operators,
        names,
        kinds,
        column("namespace"),
        column("map_key"),
        column("list_index", pa.int32()),
        column(state.value),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_ANSWER)


def _boolean(text: str, _type: pa.DataType) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _nested(text: str, key_type: pa.DataType) -> Any:
    value = orjson.loads(text)
    if isinstance(value, list) and pa.types.is_struct(key_type):
        return dict(zip([field.name for field in key_type], value, strict=True))
    return value


_Parse = Callable[[str, pa.DataType], Any]
_PARSERS: tuple[tuple[Callable[[pa.DataType], bool], _Parse], ...] = (
    (pa.types.is_string, lambda text, _type: text),
    (pa.types.is_integer, lambda text, _type: int(text)),
    (pa.types.is_floating, lambda text, _type: float(text)),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_decimal, lambda text, _type: Decimal(text)),
    (pa.types.is_nested, _nested),
)
