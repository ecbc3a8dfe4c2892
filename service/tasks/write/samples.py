"""Some of the rows that a statement changes, before and after, as texts for people; and what is near where it finds none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from catalog import Table
from catalog.changedtables import STATE, WritableState
from catalog.errors import near_names
from readers import KEY_GROUP, OUT_OF_RANGE, ROW, SUBTASK, UNDECODED, json_text
from service.base.errors import NothingChangesError, QueryError
from service.query.sql.edits import quoted
from service.query.sql.parser import parsed
from service.tasks.write.changes import ALLOW_EMPTY, Sample, ScriptContext
from service.tasks.write.composition import Composition
from service.tasks.write.statements.parser import Statement
from service.tasks.write.statements.rows import Insert, Merge
from writers import GROUP, AddedRows, RemovedRows, StateChanges, UpdatedRows

MOST_SAMPLES = 10
_MOST_CHARACTERS = 200
_MOST_NEAR = 3
_LOOKED_AT = 10_000
_PLACES = ("key", "namespace", "map_key", "list_index", "timestamp")
_HIDDEN = frozenset({STATE, GROUP, ROW, KEY_GROUP, SUBTASK, UNDECODED, OUT_OF_RANGE, "ttl_timestamp"})
Layer = UpdatedRows | RemovedRows | AddedRows


def samples_of(writable: WritableState, layers: Sequence[Layer], now_ms: int) -> list[Sample]:
    """Return samples of the rows of the layers of one statement.

    Args:
        writable: the state, before the statement.
        layers: of the statement.
        now_ms: the time of the write.
    """
    found: list[Sample] = []
    for layer in layers:
        if len(found) < MOST_SAMPLES:
            found += _samples(writable, layer, now_ms)
    return found[:MOST_SAMPLES]


def _samples(writable: WritableState, layer: Layer, now_ms: int) -> Iterator[Sample]:
    first = layer.rows.slice(0, MOST_SAMPLES)
    if isinstance(layer, AddedRows):
        for place, row in zip(_placed(first), _values(first), strict=True):
            yield Sample(place=place, before=None, after=row)
        return
    for group in dict.fromkeys(first.column(GROUP).to_pylist()):
        numbers = first.filter(pc.equal(first.column(GROUP), group)).column(ROW)
        before = writable.rows_at(group, numbers)
        if isinstance(layer, RemovedRows):
            for place, row in zip(_placed(before), _values(before), strict=True):
                yield Sample(place=place, before=row, after=None)
            continue
        after = StateChanges(layers=(layer,), now_ms=now_ms).applied(group, before)
        place_rows = _placed(before, [path[0] for path in layer.paths])
        for place, old, new in zip(
            place_rows, _parts(before, layer.paths), _parts(after, layer.paths), strict=True
        ):
            yield Sample(place=place, before=old, after=new)


def check_found(
    context: ScriptContext,
    statement: Statement,
    rows: int,
    name: str,
    tables: Mapping[str, Table] | None = None,
) -> None:
    """Refuse a statement that finds nothing to change: its conditions may have a typing error.

    Args:
        context: of the script.
        statement: the statement.
        rows: how many rows it has found; those that keep their values count.
        name: of its table in a SELECT.
        tables: that the SELECT reads.

    Raises:
        NothingChangesError: it has found none, and the client has not allowed that.
    """
    if rows or context.may_find_nothing(statement.name):
        return
    condition, near = getattr(statement, "condition", None), ""
    match statement:
        case Insert():
            message = f"the query has no rows to add to {statement.name}"
        case Merge():
            message = f"no clause of MERGE applies to a row of {statement.name} or of its source"
        case _ if condition is not None:
            message = f"no row of {statement.name} matches {_cut(' '.join(condition.split()))}"
            near = "; ".join(_near_values(context, condition, name, tables))
        case _:
            message = f"{statement.name} has no rows to change"
    raise NothingChangesError(message, hint="; ".join(filter(None, (near, ALLOW_EMPTY))))


def _near_values(
    context: ScriptContext, condition: str, name: str, tables: Mapping[str, Table] | None
) -> Iterator[str]:
    """Yield values of columns that are like the texts to which a condition compares them, among the first rows."""
    tree = parsed(f"SELECT 1 WHERE {condition}")
    for equal in islice(tree.find_all(exp.EQ), _MOST_NEAR):
        column, text = equal.this, equal.expression
        if not (isinstance(column, exp.Column) and isinstance(text, exp.Literal) and text.is_string):
            continue
        select = Composition(f"SELECT DISTINCT near FROM (SELECT {quoted(column.name)}::VARCHAR AS near ")
        select.add(f"FROM {name} LIMIT {_LOOKED_AT}) WHERE near IS NOT NULL")
        # The name may be that of a field, or of a column of another table.
        with suppress(QueryError):
            known = context.read(select, tables).column(0).to_pylist()
            near = () if text.this in known else near_names(text.this, known)
            if near:
                yield f"near values of {column.name}: {', '.join(map(_cut, near))}"


def place_text(rows: pa.Table) -> str:
    """Return what tells the first row from others, as a text: `key k1, map_key 5`."""
    return ", ".join(f"{name} {text}" for name, text in _placed(rows.slice(0, 1))[0].items())


def _placed(rows: pa.Table, changed: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return the columns that tell rows from others."""
    names = [
        name
        for name in _PLACES
        if name in rows.schema.names and name not in changed and rows.column(name).null_count < rows.num_rows
    ]
    if "key" not in rows.schema.names and SUBTASK in rows.schema.names:
        names.append(SUBTASK)
    return _dictionaries(rows, {name: rows.column(name) for name in names})


def _values(rows: pa.Table) -> list[dict[str, str]]:
    """Return all other columns."""
    names = [name for name in rows.schema.names if name not in _HIDDEN and name not in _PLACES]
    return _dictionaries(rows, {name: rows.column(name) for name in names})


def _parts(rows: pa.Table, paths: Sequence[tuple[str, ...]]) -> list[dict[str, str]]:
    columns = {}
    for path in paths:
        column = rows.column(path[0]).combine_chunks()
        columns[".".join(path)] = pc.struct_field(column, list(path[1:])) if path[1:] else column
    return _dictionaries(rows, columns)


def _dictionaries(rows: pa.Table, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> list[dict[str, str]]:
    texts = {name: _texts(column) for name, column in columns.items()}
    return [{name: column[number] for name, column in texts.items()} for number in range(rows.num_rows)]


def _texts(column: pa.Array | pa.ChunkedArray) -> list[str]:
    """Return values as a result shows them: texts as they are, all else as JSON."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    texts = array if pa.types.is_string(array.type) else json_text(array)
    return ["NULL" if text is None else _cut(text.strip('"')) for text in texts.to_pylist()]


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
