"""The rows of `diff('before', 'after')` → `Comparison` → JSON, and lines for people.

| word | means |
|---|---|
| UNKNOWN | the rows of the state cannot be compared; the reason follows |
| ADDED, REMOVED | only one savepoint has the state |
| CHANGED | rows differ, or the type of the values |
| same | nothing differs |

Of each state three rows stand below it: `+` was added, `-` was removed, `~` was changed.

`compared_key`: the rows of one key that differ, over all states and timers. The key is a text, parsed as the key type of each
operator, as `savepointdb lookup` does it. Only the key group of the key is read, if the hash of the key type is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog import Database, Key, KeyedState, NotAKeyError, keyed_states
from catalog.differences.summary import OffsetDifference, diff_facts
from catalog.differences.table import diff_table
from readers import conform, json_text
from service.base.errors import QueryError, SavepointError
from service.query.encode import age_text, counted, printable, size_text
from service.query.sql.plan import DIFFERENCES
from service.query.sql.text import text_constant

SAME = "same"
_ONE_SIDED = ("added", "removed")
_UNREADABLE = 3
_INDENT = " " * 9
_NAMES_SHOWN = 20
_OFFSETS_SHOWN = 40
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}
_SEVERITIES = {"removed": 1, "added": 2, "changed": 3}
_UNKNOWN = "UNKNOWN"
_OFFSETS = ("operator", "topic", "partition", "before", "after")
_BRIEF = ("change", "added", "removed", "changed", "rows_before", "rows_after", "error")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A row that differs, as texts.

    Attributes:
        change: added, removed or changed.
        identity: its key, namespace and the like.
        before, after: its values; None where it has none.
    """

    change: str
    identity: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateComparison:
    """One state of two savepoints.

    Attributes:
        operator_id, operator: the id of its operator, and the name of the operator's table.
        state_name: as Flink has it; None for an operator without states.
        table_name: of its rows; None where they cannot be compared.
        change: same, changed, added or removed; None where that is not known.
        type_before, type_after: the types of its values; None where there is no such state.
        added, removed, changed: how many rows are; None where that is not known.
        rows_before, rows_after: how many rows there are; None where that is not known.
        size_before, size_after: bytes of its entries; None where that is not known.
        samples: the first rows that differ.
        error: why its rows cannot be compared; None if they can.
    """

    operator_id: str
    operator: str
    state_name: str | None
    table_name: str | None
    change: str | None
    type_before: str | None
    type_after: str | None
    added: int | None
    removed: int | None
    changed: int | None
    rows_before: int | None
    rows_after: int | None
    size_before: int | None
    size_after: int | None
    samples: tuple[Sample, ...] = ()
    error: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> StateComparison:
        """Return a row of the table as a comparison."""
        return cls(**{**row, "samples": tuple(Sample(**sample) for sample in row["samples"] or ())})

    @property
    def place(self) -> str:
        """Its operator and state, for people."""
        return self.operator if self.state_name is None else f"{self.operator} › {self.state_name}"

    @property
    def rows(self) -> int:
        """How many rows differ, as far as is known."""
        return (self.added or 0) + (self.removed or 0) + (self.changed or 0)

    @property
    def has_other_type(self) -> bool:
        """True if the types of its values differ."""
        return self.change not in _ONE_SIDED and self.type_before != self.type_after

    @property
    def is_equal(self) -> bool:
        """True if nothing differs, for certain."""
        return self.change == SAME and self.error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two savepoints, compared.

    Attributes:
        before, after: the databases.
        states: all states of both, by operator; those of one operator may be only a part of them.
        moved: id of an operator that only one of them has → `added` or `removed`.
        offsets: of sources, that moved.
        offsets_error: why some offsets cannot be compared; None if they can.
        size_before, size_after: bytes of the savepoints.
        rows: a row for each state, as the query found it.
        skipped: savepoints between the two that cannot be read, in sentences.
    """

    before: Database
    after: Database
    states: tuple[StateComparison, ...]
    moved: Mapping[str, str]
    offsets: tuple[OffsetDifference, ...]
    offsets_error: str | None
    size_before: int
    size_after: int
    rows: pa.Table
    skipped: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """True if no state, row or offset differs, for certain."""
        return (
            all(state.is_equal for state in self.states) and not self.offsets and self.offsets_error is None
        )

    @property
    def errors(self) -> tuple[str, ...]:
        """Why something cannot be compared."""
        found = [*(state.error for state in self.states), self.offsets_error]
        return tuple(error for error in found if error is not None)

    @property
    def exit_code(self) -> int:
        """See `Outcome`: 1 if something differs, 3 if something cannot be compared."""
        return _UNREADABLE if self.errors else int(not self.is_equal)

    def to_dict(self) -> dict[str, Any]:
        """See `Outcome`."""
        return {
            "before": self.before.name,
            "after": self.after.name,
            "is_equal": self.is_equal,
            "operators": [
                _operator(list(states), self.moved)
                for _, states in groupby(self.states, lambda state: state.operator_id)
            ],
            "offsets": [asdict(offset) for offset in self.offsets],
            "offsets_error": self.offsets_error,
            "sizes": {"before": self.size_before, "after": self.size_after},
            "skipped": list(self.skipped),
        }

    def brief(self) -> dict[str, Any]:
        """Return it as agents read it: only what differs; what cannot be compared comes first, then the states with most rows."""
        differing = sorted(
            (state for state in self.states if not state.is_equal),
            key=lambda state: (state.error is None, -state.rows),
        )
        return {
            "before": self.before.name,
            "after": self.after.name,
            "is_equal": self.is_equal,
            "headline": headline(self),
            "states": [_brief_state(state, self) for state in differing],
            "offset_columns": list(_OFFSETS),
            "offsets": [[getattr(one, name) for name in _OFFSETS] for one in self.offsets],
            "offsets_error": self.offsets_error,
            "size_before": self.size_before,
            "size_after": self.size_after,
        }

    def lines(self, width: int | None) -> Iterator[str]:
        """See `Outcome`."""
        return text_lines(self, width, "--state {}".format)


def summary_statement(before: str, after: str, operator_id: str | None = None) -> str:
    """Return the statement whose rows become a `Comparison`.

    Args:
        before, after: names of databases.
        operator_id: of the only operator to compare; None for all.
    """
    return f"SELECT * FROM {_call(before, after)}{_only(operator_id)}"


def states_statement(before: str, after: str, operator_id: str | None = None) -> str:
    """Return the statement whose rows are the names of the states; it reads none of them."""
    return f"SELECT state_name, table_name FROM {_call(before, after)}{_only(operator_id)}"


def rows_statement(before: str, after: str, table: str) -> str:
    """Return the statement whose rows are those of a table that differ."""
    return f"SELECT * FROM {_call(before, after, table)}"


def comparison_of(
    before: Database, after: Database, rows: pa.Table, operator_id: str | None = None
) -> Comparison:
    """Return the comparison whose rows a query found.

    Args:
        before, after: the databases.
        rows: those of `summary_statement`.
        operator_id: of the only operator to compare; None for all.

    Raises:
        ReaderError: a savepoint cannot be read any more.
    """
    states = [StateComparison.of(row) for row in rows.to_pylist()]
    known = diff_facts(before, after)
    order = {one: number for number, one in enumerate(known.operators)}
    return Comparison(
        before=before,
        after=after,
        # Splits are read side by side.
        states=tuple(
            sorted(states, key=lambda one: (order.get(one.operator_id, len(order)), one.state_name or ""))
        ),
        moved=known.moved,
        offsets=tuple(
            offset
            for offset in sorted(known.offsets, key=_place_of)
            if operator_id is None or offset.operator == known.operators.get(operator_id)
        ),
        offsets_error=known.offsets_error,
        size_before=known.size_before,
        size_after=known.size_after,
        rows=rows,
    )


def gone_or(error: QueryError, databases: Iterable[Database]) -> QueryError:
    """Return the error that names the savepoints that were removed meanwhile; the error itself if none was."""
    gone = [f'"{database.name}"' for database in databases if database.is_gone]
    if not gone or not isinstance(error, SavepointError):
        return error
    return SavepointError(
        f"savepoint {', '.join(gone)} was removed while it was compared",
        hint="SHOW SCHEMAS lists those that are there",
        detail=error.detail,
        code="SAVEPOINT_GONE",
        status=410,
    )


def _call(*names: str) -> str:
    return f"{DIFFERENCES}({', '.join(map(text_constant, names))})"


def _only(operator_id: str | None) -> str:
    return "" if operator_id is None else f" WHERE operator_id = {text_constant(operator_id)}"


def _place_of(offset: OffsetDifference) -> tuple[str, str, int]:
    return offset.operator, offset.topic or "", -1 if offset.partition is None else offset.partition


def _operator(states: list[StateComparison], moved: Mapping[str, str]) -> dict[str, Any]:
    changes = {state.change for state in states}
    # What is not known is no change, unless another state has one.
    change = "changed" if changes - {SAME, None} else None if None in changes else SAME
    return {
        "operator_id": states[0].operator_id,
        "name": states[0].operator,
        "change": moved.get(states[0].operator_id, change),
        "states": [_state(state) for state in states if state.state_name is not None],
    }


def _state(state: StateComparison) -> dict[str, Any]:
    made = asdict(state)
    del made["operator_id"], made["operator"]
    return made | {"samples": list(made["samples"])}


def _brief_state(state: StateComparison, found: Comparison) -> dict[str, Any]:
    """Return what differs in a state, without what does not."""
    row: dict[str, Any] = {"operator": state.operator, "state": state.state_name}
    row |= {name: getattr(state, name) for name in _BRIEF}
    if state.has_other_type:
        row |= {"type_before": state.type_before, "type_after": state.type_after}
    if state.samples:
        row["samples"] = [[one.change, one.identity, one.before, one.after] for one in state.samples]
    if state.table_name is not None and state.change != SAME:
        row["rows_sql"] = rows_statement(found.before.name, found.after.name, state.table_name)
    return {name: value for name, value in row.items() if value is not None}


def text_lines(comparison: Comparison, width: int | None, more: Callable[[str], str]) -> Iterator[str]:
    """Yield the lines.

    Args:
        comparison: of two savepoints.
        width: characters per line of the screen, at which samples are cut; None for lines of any length.
        more: returns what shows all rows of a table.
    """
    for line in _lines(comparison, more):
        text = printable(line)
        yield (
            text
            if width is None or len(text) <= width or not line.startswith(_INDENT)
            else f"{text[: width - 1]}…"
        )


def headline(comparison: Comparison) -> str:
    """Return what differs, in one sentence."""
    differing = [state for state in comparison.states if state.change != SAME]
    if comparison.is_equal:
        return f"the same: {counted(len(comparison.states), 'state')}, no row differs"
    counts = [
        f"{total:,} {word}"
        for word in ("changed", "added", "removed")
        if (total := sum(getattr(state, word) or 0 for state in comparison.states))
    ]
    parts = [f"{len(differing)} of {counted(len(comparison.states), 'state')} differ"]
    parts += [f"rows: {', '.join(counts)}"] if counts else []
    parts += [f"{counted(len(comparison.offsets), 'offset')} moved"] if comparison.offsets else []
    parts += [f"{len(comparison.errors)} cannot be compared"] if comparison.errors else []
    return "; ".join(parts)


def _lines(comparison: Comparison, more: Callable[[str], str]) -> Iterator[str]:
    yield f"{'before':<{len(_INDENT)}}{_facts(comparison.before, comparison.size_before)}"
    yield f"{'after':<{len(_INDENT)}}{_facts(comparison.after, comparison.size_after)}"
    yield ""
    yield headline(comparison)
    for state in sorted(comparison.states, key=_rank):
        if not state.is_equal:
            yield ""
            yield from _state_lines(state, more)
    alike = [state.place for state in comparison.states if state.is_equal]
    if alike and not comparison.is_equal:
        others = f" and {len(alike) - _NAMES_SHOWN} more" if len(alike) > _NAMES_SHOWN else ""
        yield ""
        yield f"{SAME:<{len(_INDENT)}}{', '.join(alike[:_NAMES_SHOWN])}{others}"
    if comparison.offsets or comparison.offsets_error:
        yield ""
        yield from _offset_lines(comparison)


def _facts(database: Database, size_bytes: int) -> str:
    made = database.created_at
    facts = [
        database.name,
        f"{(database.kind or 'checkpoint').lower()} {database.checkpoint_id}",
        "" if made is None else f"{age_text(made, datetime.now(UTC))} ({made:%Y-%m-%d %H:%M:%S} UTC)",
        size_text(size_bytes),
    ]
    return ", ".join(filter(None, facts))


def _rank(state: StateComparison) -> tuple[int, int]:
    """Return the place of a state: first what is not known, then what is gone, then by the number of rows."""
    return (0 if state.error else _SEVERITIES.get(state.change or "", 3)), -state.rows


def _state_lines(state: StateComparison, more: Callable[[str], str]) -> Iterator[str]:
    word = _UNKNOWN if state.error else (state.change or _UNKNOWN).upper()
    yield f"{word:<{len(_INDENT)}}{'  '.join(filter(None, [state.place, _counts(state), _sizes(state)]))}"
    if state.error:
        yield f"{_INDENT}{' '.join(state.error.split())}"
    if state.has_other_type:
        yield f"{_INDENT}type {state.type_before} → {state.type_after}"
    yield from (f"{_INDENT}{_sample(sample)}" for sample in state.samples)
    left = state.rows - len(state.samples)
    if state.samples and left > 0:
        shown = "" if state.table_name is None else f": {more(state.table_name)}"
        yield f"{_INDENT}and {counted(left, 'more row')}{shown}"


def _counts(state: StateComparison) -> str:
    counts = ((_SIGNS[word], getattr(state, word)) for word in ("added", "removed", "changed"))
    return " ".join(f"{sign}{count:,}" for sign, count in counts if count)


def _sizes(state: StateComparison) -> str:
    sizes = [
        size_text(size)
        for size, is_there in (
            (state.size_before, state.change != "added"),
            (state.size_after, state.change != "removed"),
        )
        if is_there and size is not None
    ]
    return " → ".join(dict.fromkeys(sizes))


def _sample(sample: Sample) -> str:
    values = [value for value in (sample.before, sample.after) if value is not None]
    if sample.change == "changed":
        values = [sample.before or "NULL", sample.after or "NULL"]
    shown = " → ".join(values)
    return f"{_SIGNS[sample.change]} {': '.join(filter(None, (sample.identity, shown)))}"


def _offset_lines(comparison: Comparison) -> Iterator[str]:
    yield "offsets"
    for offset in comparison.offsets[:_OFFSETS_SHOWN]:
        place = " ".join(
            str(part) for part in (offset.operator, offset.topic, offset.partition) if part is not None
        )
        before = "none" if offset.before is None else offset.before
        after = "none" if offset.after is None else offset.after
        moved = ""
        if offset.before is not None and offset.after is not None:
            moved = f"  ({offset.after - offset.before:+,})"
        yield f"{_INDENT}{place}: {before} → {after}{moved}"
    if comparison.offsets_error:
        yield f"{_INDENT}not all are known: {' '.join(comparison.offsets_error.split())}"
    if len(comparison.offsets) > _OFFSETS_SHOWN:
        yield f"{_INDENT}and {len(comparison.offsets) - _OFFSETS_SHOWN} more"


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
    for rows in state.rows_of(key, table, lambda keys: _is_key(keys, key, state)):
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
    texts = map(repeated, (state.operator, state.state, state.kind))
    arrays = [*texts, change, column("namespace"), column("map_key"), index, before, after]
    return pa.RecordBatch.from_arrays(arrays, schema=KEY_SCHEMA)
