"""What a statement has found to change in one state, and rows whose key, namespace or map key changes: they move.

A moved row is removed where it is, and added in the key group of its new key: with its value, its namespace and its time of access.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from catalog.changedtables import WritableState
from readers import OUT_OF_RANGE, ROW, UNDECODED
from service.base.errors import InvalidQueryError, translated
from service.tasks.write.changes import ScriptContext
from service.tasks.write.rows.layers import (
    IDENTITY,
    MOVED,
    Layer,
    added_schema,
    places_of_added,
)
from writers import GROUP, AddedRows, RemovedRows, StateChanges, UpdatedRows, WriterError


@dataclass(slots=True)
class Found:
    """What a statement has found to change in one state.

    Attributes:
        writable: the state.
        layers: the rows that change.
        kept: rows that stay as they are because the statement says so.
        same: rows that get the key that they have, and nothing else: they count as changed.
    """

    writable: WritableState
    layers: list[Layer] = field(default_factory=list)
    kept: int = 0
    same: int = 0

    @property
    def rows(self) -> tuple[int, int, int]:
        """How many rows are changed, added and removed."""
        return self.count(UpdatedRows) + self.same, self.count(AddedRows), self.count(RemovedRows)

    def count(self, kind: type[Layer]) -> int:
        """Return how many rows are of a kind."""
        return sum(layer.rows.num_rows for layer in self.layers if isinstance(layer, kind))


def identities(paths: Sequence[tuple[str, ...]]) -> list[int]:
    """Return the numbers of the paths that lead to what tells a row from others."""
    return [number for number, path in enumerate(paths) if path[0] in IDENTITY]


def with_new_identities(
    context: ScriptContext, writable: WritableState, layer: UpdatedRows, before: int = 0
) -> Found:
    """Return the layers of rows with other values: rows whose identity changes are removed, and added anew."""
    identity = identities(layer.paths)
    if not identity:
        return Found(writable, [layer])
    # The others stay where they are: an element of a list keeps its index.
    kept = [number for number in range(len(layer.paths)) if number not in identity]
    stays = _divided(context, layer, kept, is_moved=False)
    goes = _divided(context, layer, range(len(layer.paths)), is_moved=True)
    moves = moved(context, writable, goes, before)
    if kept:
        return Found(writable, [stays, *moves])
    return Found(writable, moves, same=layer.rows.num_rows - goes.rows.num_rows)


def moved(
    context: ScriptContext, writable: WritableState, layer: UpdatedRows, before: int = 0
) -> list[Layer]:
    """Return the layers of rows that all get another key, namespace or map key; this statement has added `before` rows already.

    Raises:
        QueryError: a row is not decoded as a whole, or the hash of a new key is not known.
    """
    rows = pa.RecordBatchReader.from_batches(
        added_schema(writable.state), _moved(context, writable, layer, before)
    )
    with translated(WriterError):
        added = context.states.spool.added(rows)
        places = pa.schema([layer.rows.schema.field(name) for name in (GROUP, ROW)])
        only = (batch.select(places.names) for batch in layer.batches())
        removed = context.states.spool.removed(pa.RecordBatchReader.from_batches(places, only))
    return [removed, added]


def _divided(
    context: ScriptContext, layer: UpdatedRows, numbers: Sequence[int], *, is_moved: bool
) -> UpdatedRows:
    """Return those rows of a layer whose identity changes, or the others, with some of its columns."""
    fields = [layer.rows.schema.field(str(number)) for number in numbers]
    places = [layer.rows.schema.field(name) for name in (GROUP, ROW)]
    schema = pa.schema([*places, *(field.with_name(str(at)) for at, field in enumerate(fields))])
    chosen = (
        batch.filter(pc.equal(batch.column(MOVED), is_moved)).select([GROUP, ROW, *map(str, numbers)])
        for batch in layer.batches()
    )
    batches = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in chosen)
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    return context.states.spool.updated(reader, [layer.paths[number] for number in numbers])


def _moved(
    context: ScriptContext, writable: WritableState, layer: UpdatedRows, before: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows with another identity, in their new groups."""
    first = context.states.of(writable.key).next_added + before
    alone = StateChanges(layers=(layer,), now_ms=context.states.now_ms)
    schema = added_schema(writable.state)
    for group in layer.groups.tolist():
        chosen = alone.applied(group, writable.rows_at(group, layer.of_group(group).column(ROW)))
        for name in (UNDECODED, OUT_OF_RANGE):
            if name in chosen.schema.names and chosen.column(name).null_count < chosen.num_rows:
                raise InvalidQueryError(
                    f"a row of {writable.table.name} whose key changes is written anew, but not all of its values can be "
                    f"decoded: {name} is not NULL"
                )
        for batch in chosen.combine_chunks().to_batches():
            columns = {name: batch.column(name) for name in schema.names if name in batch.schema.names}
            columns |= places_of_added(writable.state, columns, batch.num_rows, first)
            if "list_index" in columns:
                columns["list_index"] = pa.nulls(batch.num_rows, pa.int32())
            first += batch.num_rows
            yield pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
