"""What differs between two savepoints: a table with a row for each state, and what no row of it says.

Each row is a split: it reads the differing rows of one state, once for the counts and as far as needed for the samples. What cannot be
read stands in `error`; then the counts are NULL. Of a query that needs neither counts nor samples no state is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

from catalog.database import Database
from catalog.differences.splits import ADDED, CHANGED, REMOVED, Counts, DifferenceSplit, OneSideSplit
from catalog.differences.table import StateDifferences
from catalog.references import SavepointReference, is_gone
from catalog.savepointtables import SOURCE_OFFSETS_NAME
from catalog.scan import ANYTHING, Predicate, Scan, ScanCounter, Split
from catalog.statetables import StatesTable, StateTable, TableState, TimersTable
from catalog.table import Table
from readers import ReaderError, SavepointGoneError, State, StateKind, json_text, schema_of, source_offsets

SAME = "same"
_KINDS = (ADDED, REMOVED, CHANGED)
SAMPLES = 3
_LONGEST_SAMPLE = 300
_VALUE = "value"
_SAMPLE = pa.struct(
    [("change", pa.string()), ("identity", pa.string()), ("before", pa.string()), ("after", pa.string())]
)
SUMMARY_SCHEMA = schema_of(
    "operator_id, operator, state_name, table_name, change, type_before, type_after, added bigint, "
    "removed bigint, changed bigint, rows_before bigint, rows_after bigint, size_before bigint, "
    "size_after bigint, samples samples, error",
    samples=pa.list_(_SAMPLE),
)
# Without them no state is read.
_READ = frozenset({"change", *_KINDS, "rows_before", "rows_after", "samples", "error"})


class SummaryTable(Table):
    """A row for each state of two databases.

    Args:
        before, after: the databases.
    """

    name = "diff"
    schema = SUMMARY_SCHEMA

    def __init__(self, before: Database, after: Database) -> None:
        self.comment = f"states of {before.name} and {after.name}, and how many of their rows differ"
        self._before, self._after = before, after

    @cached_property
    def size_bytes(self) -> int:
        return self.plan().bytes_total

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        """Return a scan of the rows; reads headers only. What cannot be read has its error in its row."""
        names = {**self._before.operator_names, **self._after.operator_names}
        tasks: dict[str, list[StateTask | None]] = {}
        for task in state_tasks(self._before, self._after):
            tasks.setdefault(task.operator_id, []).append(task)
        # Operators without states, where they came or went.
        for one in names.keys() - tasks.keys():
            if operator_change(one, self._before, self._after) is not None:
                tasks[one] = [None]
        splits = (
            self._split(one, names[one], task, predicate) for one in names for task in tasks.get(one, ())
        )
        return Scan(schema=SUMMARY_SCHEMA, splits=tuple(split for split in splits if split is not None))

    def _split(
        self, operator_id: str, operator: str, task: StateTask | None, predicate: Predicate
    ) -> SummarySplit | None:
        """Return the split of a state, or of an operator without states; None if its row is not wanted."""
        row: dict[str, Any] = dict.fromkeys(SUMMARY_SCHEMA.names)
        row |= {"operator_id": operator_id, "operator": operator, "samples": []}
        row["change"] = operator_change(operator_id, self._before, self._after)
        if task is not None:
            # Its splits are planned only if it is wanted; they find some errors.
            if not _may_be_wanted(row | task.known(), predicate):
                return None
            rows = tuple(task.splits())
            row |= task.known()
        elif _may_be_wanted(row, predicate):
            rows = ()
        else:
            return None
        return SummarySplit(
            row=row,
            rows=rows,
            is_counted=task is not None and task.error is None,
            columns=tuple(SUMMARY_SCHEMA.names),
            savepoints=(self._before.reference, self._after.reference),
            size_bytes=sum(split.size_bytes for split in rows),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarySplit(Split):
    """One row of a summary.

    Attributes:
        row: what is known of it without reading.
        rows: the splits of its differing rows.
        is_counted: whether they are counted.
        columns: of the summary, that are wanted.
        savepoints: the two that are compared.
    """

    row: Mapping[str, Any]
    rows: tuple[DifferenceSplit | OneSideSplit, ...]
    is_counted: bool
    columns: tuple[str, ...]
    savepoints: tuple[SavepointReference, SavepointReference]
    size_bytes: int = 0

    def elsewhere(self) -> SummarySplit:
        before, after = self.savepoints
        return replace(
            self,
            rows=tuple(split.elsewhere() for split in self.rows),
            savepoints=(before.elsewhere(), after.elsewhere()),
        )

    def narrowed(self, columns: Sequence[str]) -> SummarySplit:
        is_read = not _READ.isdisjoint(columns)
        return replace(
            self,
            columns=tuple(name for name in SUMMARY_SCHEMA.names if name in columns),
            rows=self.rows if is_read else (),
            is_counted=self.is_counted and is_read,
            size_bytes=self.size_bytes if is_read else 0,
        )

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        made = dict(self.row)
        if self.is_counted:
            try:
                made |= self._counted(counter)
            except SavepointGoneError:
                raise
            except ReaderError as error:
                self._check_savepoints(error)
                made["error"] = error.told
        schema = pa.schema([SUMMARY_SCHEMA.field(name) for name in self.columns])
        # Without columns only the number of rows counts.
        one = pa.RecordBatch.from_pylist([made], SUMMARY_SCHEMA)
        yield one.select(schema.names) if self.columns else one

    def _counted(self, counter: ScanCounter | None) -> Mapping[str, Any]:
        counts = Counts()
        samples: list[Mapping[str, Any]] = []
        left = SAMPLES if "samples" in self.columns else 0
        for split in self.rows:
            found, rows = split.sampled(left - len(samples), counter)
            counts += found
            samples += _sample_rows(rows)
            if counter is not None:
                counter.check()
        return {
            "change": self.row["change"] or (CHANGED if counts.differing else SAME),
            "added": counts.added,
            "removed": counts.removed,
            "changed": counts.changed,
            "rows_before": counts.before,
            "rows_after": counts.after,
            "samples": samples,
        }

    def _check_savepoints(self, error: ReaderError) -> None:
        """Raise an error if a savepoint was removed: nothing is damaged then, and no row of the summary would be true."""
        for savepoint in self.savepoints:
            if is_gone(savepoint):
                raise SavepointGoneError(
                    "expected the file, found the whole savepoint deleted", path=savepoint.path
                ) from error


def _may_be_wanted(row: Mapping[str, Any], predicate: Predicate) -> bool:
    known = ("operator_id", "operator", "state_name", "table_name")
    return predicate.admits({column: row[column] for column in known})


def _sample_rows(batch: pa.RecordBatch) -> list[Mapping[str, Any]]:
    """Return rows of a diff as texts: what they are of, and the values before and after."""
    names: list[str] = batch.schema.names
    contents = [name.removesuffix("_before") for name in names if name.endswith("_before")]
    sides = {f"{name}{tail}" for name in contents for tail in ("_before", "_after")}
    identity = [name for name in names if name not in sides and name != "change" and not name.startswith("_")]
    rows = pa.table({name: _texts(batch.column(names.index(name))) for name in names}).to_pylist()
    return [
        {
            "change": row["change"],
            "identity": " · ".join(row[name] for name in identity if row[name] is not None),
            "before": None if row["change"] == ADDED else _shown(row, contents, "_before"),
            "after": None if row["change"] == REMOVED else _shown(row, contents, "_after"),
        }
        for row in rows
    ]


def _shown(row: Mapping[str, Any], contents: Sequence[str], tail: str) -> str | None:
    """Return the values of one side: the value alone, or with names those columns that differ."""
    differing = [name for name in contents if row[f"{name}_before"] != row[f"{name}_after"]]
    texts = [
        row[name + tail] if name == _VALUE else f"{name} {row[name + tail]}"
        for name in differing
        if row[name + tail] is not None
    ]
    return ", ".join(texts) if texts else None


def _texts(array: pa.Array) -> list[str | None]:
    shown = (array if pa.types.is_string(array.type) else json_text(array)).to_pylist()
    # Times and the like are texts in JSON; a person needs no quotes.
    is_quoted = not pa.types.is_string(array.type) and not pa.types.is_nested(array.type)
    return [None if text is None else _cut(text.strip('"') if is_quoted else text) for text in shown]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SAMPLE else f"{text[: _LONGEST_SAMPLE - 1]}…"


_Known: TypeAlias = tuple[StatesTable, TableState]
"""A state of a database, with its table."""


@dataclass(slots=True, kw_only=True)
class StateTask:
    """A state of two databases, and why it cannot be compared.

    Attributes:
        operator_id: of its operator.
        before, after: the state in either database; None where it is not known.
        unread: the error of a file that may hold it in a database that does not have it.
        error: the first error of its comparison.
    """

    operator_id: str
    before: _Known | None
    after: _Known | None
    unread: ReaderError | None
    error: ReaderError | None

    def splits(self) -> list[DifferenceSplit | OneSideSplit]:
        """Return what is to compare; nothing if the state cannot be opened, which becomes its error."""
        if self.error is not None:
            return []
        tables = [None if known is None else _table_of(*known) for known in (self.before, self.after)]
        try:
            differences = StateDifferences(self._either[0].name, *tables)
            return [split for pair in differences.pairs for split in differences.splits_of(*pair)]
        except ReaderError as error:
            self.error = error
            return []

    def known(self) -> dict[str, Any]:
        """Return the columns of the summary that are known before rows are read."""
        sides = {
            tail: None if side is None else side[1].state
            for tail, side in (("before", self.before), ("after", self.after))
        }
        types = {f"type_{tail}": None if state is None else _type_of(state) for tail, state in sides.items()}
        table, known = self._either
        return {
            "state_name": known.state.name,
            "table_name": table.name,
            "change": self._change(is_same_type=types["type_before"] == types["type_after"]),
            **types,
            **{
                f"size_{tail}": None if state is None else state.own_size.size_bytes
                for tail, state in sides.items()
            },
            "error": self.error.told if self.error else None,
        }

    def _change(self, *, is_same_type: bool) -> str | None:
        """Return what the headers say of the state; None where only its rows can tell."""
        if self.unread is not None:
            return None
        if self.before is None or self.after is None:
            return ADDED if self.before is None else REMOVED
        return None if is_same_type else CHANGED

    @property
    def _either(self) -> _Known:
        known = self.after or self.before
        assert known is not None
        return known


def state_tasks(before: Database, after: Database) -> Iterator[StateTask]:
    """Yield the states of two databases, in the order of their operators.

    Raises:
        ReaderError: a savepoint cannot be opened.
    """
    sides = [(database, _states(database)) for database in (before, after)]
    (_, old), (_, new) = sides
    for one in {**old, **new}:
        errors = (
            handle.error
            for database, side in sides
            if one not in side
            for operator in database.savepoint.operators
            if operator.operator_id == one[0]
            for handle in operator.unread
        )
        unread = next(errors, None)
        yield StateTask(
            operator_id=one[0], before=old.get(one), after=new.get(one), unread=unread, error=unread
        )


def _states(database: Database) -> dict[tuple[str, str, StateKind], _Known]:
    tables = [*(table for _, table in database.state_tables()), database.timers]
    return {
        (known.state.operator_id, known.state.name, known.state.kind): (table, known)
        for table in tables
        for known in table.states
    }


def _table_of(table: StatesTable, known: TableState) -> StatesTable:
    """Return the table of a single state; timers of all operators share one."""
    if isinstance(table, StateTable):
        return table
    return TimersTable(table.name, table.comment, table.savepoint, lambda: (known,))


def _type_of(state: State) -> str:
    """Return the types of what a state keeps, as `StateMeta` shows them."""
    entry = state.entry
    named = (
        {}
        if entry is None
        else {"key": entry.key, "namespace": entry.namespace, "map_key": entry.map_key, "value": entry.value}
    )
    shown = [f"{name} {tree.type_name}" for name, tree in named.items() if tree is not None]
    return f"{state.kind.value}({', '.join(shown)})"


def operator_change(operator_id: str, before: Database, after: Database) -> str | None:
    """Return `added` or `removed` if only one of two databases has an operator; None if both have it."""
    has = [operator_id in database.operator_names for database in (before, after)]
    return None if has == [True, True] else ADDED if has[1] else REMOVED


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDifference:
    """A position of a source that has moved; None where a savepoint does not have it."""

    operator: str
    topic: str | None
    partition: int | None
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffFacts:
    """What differs between two databases besides the rows of states.

    Attributes:
        operators: the names of the operators of both, by id, in their order.
        moved: the operators that only one of them has, by id: added or removed.
        offsets: where sources read on, or were set back.
        offsets_error: why some of these are not known; None if all are.
        size_before, size_after: bytes of the savepoints.
    """

    operators: Mapping[str, str]
    moved: Mapping[str, str]
    offsets: tuple[OffsetDifference, ...]
    offsets_error: str | None
    size_before: int
    size_after: int


def diff_facts(before: Database, after: Database) -> DiffFacts:
    """Return what differs between two databases besides the rows of states; reads the positions of sources.

    Raises:
        ReaderError: a savepoint cannot be opened.
    """
    names = {**before.operator_names, **after.operator_names}
    changes = {one: operator_change(one, before, after) for one in names}
    offsets, error = _offsets(before, after)
    return DiffFacts(
        operators=names,
        moved={one: change for one, change in changes.items() if change is not None},
        offsets=offsets,
        offsets_error=error,
        size_before=before.savepoint.metadata.size_bytes,
        size_after=after.savepoint.metadata.size_bytes,
    )


def _offsets(before: Database, after: Database) -> tuple[tuple[OffsetDifference, ...], str | None]:
    """Return the positions that have moved, and the reason why some were not compared."""
    errors: list[ReaderError] = []
    old, new = (
        {
            (
                row["operator_id"],
                row["topic"],
                row["partition"],
                None if row["topic"] else row["details"],
            ): row
            for row in _positions(database, errors.append)
        }
        for database in (before, after)
    )
    names = {**before.operator_names, **after.operator_names}
    found = []
    for one in {**old, **new}:
        start, end = (side[one]["starting_offset"] if one in side else None for side in (old, new))
        if start != end:
            moved = OffsetDifference(
                operator=names.get(one[0], one[0]), topic=one[1], partition=one[2], before=start, after=end
            )
            found.append(moved)
    return tuple(found), str(errors[0]) if errors else None


def _positions(database: Database, failed: Callable[[ReaderError], None]) -> list[dict[str, Any]]:
    """Return the rows of `source_offsets`; with masks those that show where their source stands."""
    rows: list[dict[str, Any]]
    if database.masks is None:
        rows = source_offsets(database.savepoint, failed).to_pylist()
        return rows
    try:
        rows = database.table(SOURCE_OFFSETS_NAME).scan().to_arrow().to_pylist()
    except ReaderError as error:
        failed(error)
        return []
    return [row for row in rows if row["topic"] is not None or row["details"] is not None]
