"""The rows of one key that differ between two savepoints, over all states and timers.

The key is a text, parsed as the key type of each operator, as `savepointdb lookup` does it. Only the key group of the key is read, if
the hash of the key type is known.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from catalog import Database, Key, KeyedState, NotAKeyError, Predicate, keyed_states
from catalog.differences.table import diff_table
from readers import conform, json_text

KEY_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("operator", "state", "kind", "change", "namespace", "map_key")),
        ("list_index", pa.int32()),
        ("value_before", pa.string()),
        ("value_after", pa.string()),
    ]
)
KEY_JSON = frozenset({"namespace", "map_key", "value_before", "value_after"})
_TIMESTAMP = "timestamp"


def states_of_keys(before: Database, after: Database) -> list[KeyedState]:
    """Return the keyed states of two databases: of those that both have, that of the later one.

    Raises:
        ReaderError: `_metadata` or the headers of an operator cannot be read.
    """
    found = {
        (state.operator_id, state.state, state.kind): state
        for database in (before, after)
        for state in keyed_states(database)
    }
    return list(found.values())


def compared_key(before: Database, after: Database, state: KeyedState, text: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a key in a state that differ, with `KEY_SCHEMA`; none if the text is no key of the state.

    Args:
        before, after: the databases.
        state: of one of them.
        text: the key, as people write it.

    Raises:
        ReaderError: a file is missing or contradicts its format.
    """
    try:
        key = state.parse(text)
    except NotAKeyError:
        return
    table = diff_table(before, after, state.table.name)
    column = table.schema.field("key").type
    predicate = Predicate({name: (value,) for name, value in state.facts.items()})
    if column.equals(state.key_type) and key.value is not None:
        predicate = predicate.and_("key", (key.value,))
    scan = table.scan(predicate=predicate)
    for split in scan.splits:
        for batch in scan.read(split):
            kept = _is_key(batch.column("key"), key, state)
            for name, value in state.facts.items():
                kept = pc.and_(kept, pc.equal(batch.column(name), value))
            rows = batch.filter(kept)
            if rows.num_rows:
                yield _answer(state, rows)


def _is_key(keys: pa.Array, key: Key, state: KeyedState) -> pa.Array:
    # Compared as text, because Arrow cannot compare nested values.
    if not pa.types.is_string(keys.type):
        return pc.equal(json_text(keys), Key(conform(key.array, keys.type)).json)
    is_text = pa.types.is_string(state.key_type)
    return pc.equal(keys, key.array[0].as_py() if is_text else key.json)


def _answer(state: KeyedState, batch: pa.RecordBatch) -> pa.RecordBatch:
    names: list[str] = batch.schema.names

    def repeated(text: str) -> pa.Array:
        return pa.repeat(pa.scalar(text, pa.string()), batch.num_rows)

    def column(name: str) -> pa.Array:
        if name not in names:
            return pa.nulls(batch.num_rows, pa.string())
        return batch.column(name) if name in state.json_columns else json_text(batch.column(name))

    change = batch.column("change")
    if _TIMESTAMP in names and "value_before" not in names:
        # A timer is its time: what was added has it after, what was removed has it before.
        times = column(_TIMESTAMP)
        before = pc.if_else(pc.equal(change, "added"), None, times)
        after = pc.if_else(pc.equal(change, "removed"), None, times)
    else:
        before, after = column("value_before"), column("value_after")
    index = (
        batch.column("list_index").cast(pa.int32())
        if "list_index" in names
        else pa.nulls(batch.num_rows, pa.int32())
    )
    arrays = [
        repeated(state.operator),
        repeated(state.state),
        repeated(state.kind),
        change,
        column("namespace"),
        column("map_key"),
        index,
        before,
        after,
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=KEY_SCHEMA)
