"""What differs between two databases, in numbers: operators, states, rows, sizes, and the offsets of sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from catalog.database import Database
from catalog.differences.splits import ADDED, CHANGED, REMOVED, Counts, DifferenceSplit, OneSideSplit
from catalog.differences.table import StateDifferences
from catalog.savepointtables import TIMERS_NAME
from catalog.scan import ScanCounter
from catalog.statetables import StatesTable, StateTable, TableState, TimersTable
from readers import ReaderError, State, StateKind, source_offsets

SAME = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDifference:
    """One state of two savepoints.

    Attributes:
        state_name: the registered name.
        table_name: of its table in the database after; before where it was removed.
        change: `same`, `added`, `removed` or `changed`; None where rows were not compared, or cannot be.
        type_before, type_after: the types of key, namespace, map key and value; None where there is no such state.
        added, removed, changed: rows; None where they were not counted.
        rows_before, rows_after: all rows; None where they were not counted.
        size_before, size_after: bytes of the state alone, about.
        error: the reason why rows were not compared; None if they were.
    """

    state_name: str
    table_name: str
    change: str | None
    type_before: str | None
    type_after: str | None
    added: int | None = None
    removed: int | None = None
    changed: int | None = None
    rows_before: int | None = None
    rows_after: int | None = None
    size_before: int | None = None
    size_after: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorDifference:
    """One operator of two savepoints.

    Attributes:
        operator_id: 32 hex digits.
        name: of its table.
        change: `same`, `added`, `removed` or `changed`; None where that of a state is not known, and no other has changed.
        states: its states, timers among them.
    """

    operator_id: str
    name: str
    change: str | None
    states: tuple[StateDifference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDifference:
    """A position of a source that has moved; None where a savepoint does not have it."""

    operator: str
    topic: str | None
    partition: int | None
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffSummary:
    """What differs between two databases.

    Attributes:
        before, after: the names of the databases.
        operators: all operators of both.
        offsets: the positions of sources that have moved.
        offsets_error: the reason why positions were not compared; None if they were.
        size_before, size_after: bytes of the savepoints.
    """

    before: str
    after: str
    operators: tuple[OperatorDifference, ...]
    offsets: tuple[OffsetDifference, ...]
    offsets_error: str | None
    size_before: int
    size_after: int

    @property
    def is_same(self) -> bool:
        """True if everything was compared and nothing differs."""
        return (
            all(operator.change == SAME for operator in self.operators)
            and not self.offsets
            and self.offsets_error is None
        )

    @property
    def errors(self) -> tuple[str, ...]:
        """The reasons why something was not compared."""
        states = (state.error for operator in self.operators for state in operator.states)
        return tuple(dict.fromkeys(error for error in (*states, self.offsets_error) if error))

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        found = asdict(self)
        sizes = {"before": found.pop("size_before"), "after": found.pop("size_after")}
        return found | {"sizes": sizes}


Progress = Callable[[int, int], None]
"""Called with the bytes that were compared so far, and all that will be."""


def diff_summary(
    before: Database,
    after: Database,
    *,
    counts: bool = True,
    progress: Progress | None = None,
    threads: int = 2,
    check: Callable[[], None] = lambda: None,
) -> DiffSummary:
    """Return what differs between two databases.

    A state that cannot be read has its error in the summary; all others are compared.

    Args:
        before, after: the databases.
        counts: whether to count the rows that differ; else only headers and the positions of sources are read.
        progress: see `Progress`.
        threads: that compare at the same time.
        check: raises to stop; called between the pieces of the work.

    Raises:
        ReaderError: a savepoint cannot be opened.
    """
    tasks = state_tasks(before, after)
    if counts:
        _count(tasks, progress, threads, check)
    by_operator: dict[str, list[StateTask]] = {}
    for task in tasks:
        by_operator.setdefault(task.pair.operator_id, []).append(task)
    names = {**before.operator_names, **after.operator_names}
    operators = tuple(
        _operator(
            one, names[one], before, after, tuple(task.result(counts) for task in by_operator.get(one, ()))
        )
        for one in names
    )
    offsets, error = _offsets(before, after)
    return DiffSummary(
        before=before.name,
        after=after.name,
        operators=operators,
        offsets=offsets,
        offsets_error=error,
        size_before=_size(before),
        size_after=_size(after),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A state of a database, with its table."""

    table: StatesTable
    state: TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class _StatePair:
    """The same state of both databases; None where one has no such state, as far as its files can be read.

    Attributes:
        unread: why it may have one after all.
    """

    operator_id: str
    before: _Known | None
    after: _Known | None
    unread: tuple[ReaderError, ...]

    @property
    def known(self) -> _Known:
        known = self.after or self.before
        assert known is not None
        return known


def state_tasks(before: Database, after: Database) -> list[StateTask]:
    """Return the comparisons of all states of two databases; reads headers only.

    Raises:
        ReaderError: a savepoint cannot be opened.
    """
    return [StateTask(pair) for pair in _state_pairs(before, after)]


def operator_change(operator_id: str, before: Database, after: Database) -> str | None:
    """Return `added` or `removed` if only one of two databases has an operator; None if both have it."""
    has = [operator_id in database.operator_names for database in (before, after)]
    return None if has == [True, True] else ADDED if has[1] else REMOVED


def _state_pairs(before: Database, after: Database) -> Iterator[_StatePair]:
    old, new = ({_id_of(known): known for known in _states(database)} for database in (before, after))
    for one in {**old, **new}:
        unread = [
            handle.error
            for database, side in ((before, old), (after, new))
            if one not in side
            for operator in database.savepoint.operators
            if operator.operator_id == one[0]
            for handle in operator.unread
        ]
        yield _StatePair(operator_id=one[0], before=old.get(one), after=new.get(one), unread=tuple(unread))


def _id_of(known: _Known) -> tuple[str, str, StateKind]:
    state = known.state.state
    return state.operator_id, state.name, state.kind


def _states(database: Database) -> Iterator[_Known]:
    for _, table in database.state_tables():
        for state in table.states:
            yield _Known(table=table, state=state)
    timers = database.table(TIMERS_NAME)
    assert isinstance(timers, TimersTable)
    for state in timers.states:
        yield _Known(table=timers, state=state)


class StateTask:
    """Compares one state; its splits run in several threads."""

    def __init__(self, pair: _StatePair) -> None:
        self.pair = pair
        self.counts = Counts()
        self.error: ReaderError | None = next(iter(pair.unread), None)

    def splits(self) -> list[DifferenceSplit | OneSideSplit]:
        """Return the pieces of its work; none if it cannot be compared."""
        tables = [
            None if known is None else _table_of(known) for known in (self.pair.before, self.pair.after)
        ]
        if self.error is not None:
            return []
        try:
            differences = StateDifferences(self.pair.known.table.name, *tables)
            return [split for pair in differences.pairs for split in differences.splits_of(*pair)]
        except ReaderError as error:
            self.error = error
            return []

    def result(self, counted: bool) -> StateDifference:
        """Return what was found."""
        before, after = self.pair.before, self.pair.after
        known = self.pair.known
        found = self.counts if counted and self.error is None else None
        types = [None if one is None else _type_of(one.state.state) for one in (before, after)]
        sizes = [None if one is None else one.state.state.own_size.size_bytes for one in (before, after)]
        return StateDifference(
            state_name=known.state.state.name,
            table_name=known.table.name,
            change=None
            if self.pair.unread
            else _change(before is not None, after is not None, types[0] == types[1], found),
            type_before=types[0],
            type_after=types[1],
            added=found.added if found else None,
            removed=found.removed if found else None,
            changed=found.changed if found else None,
            rows_before=found.before if found else None,
            rows_after=found.after if found else None,
            size_before=sizes[0],
            size_after=sizes[1],
            error=str(self.error) if self.error else None,
        )


def _change(has_before: bool, has_after: bool, is_same_type: bool, counts: Counts | None) -> str | None:
    if not has_before:
        return ADDED
    if not has_after:
        return REMOVED
    if not is_same_type or (counts is not None and (counts.added or counts.removed or counts.changed)):
        return CHANGED
    return None if counts is None else SAME


def _table_of(known: _Known) -> StatesTable:
    """Return a table of one state alone."""
    table = known.table
    if isinstance(table, StateTable):
        return table
    return TimersTable(table.name, table.comment, table.savepoint, lambda: (known.state,))


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


def _count(
    tasks: Iterable[StateTask], progress: Progress | None, threads: int, check: Callable[[], None]
) -> None:
    """Count the rows that differ, of all states."""
    work = [(task, split) for task in tasks for split in task.splits()]
    total = sum(split.size_bytes for _, split in work)
    done = 0
    counter = ScanCounter()

    def run(item: tuple[StateTask, DifferenceSplit | OneSideSplit]) -> Counts | ReaderError:
        task, split = item
        if task.error is not None:
            return Counts()
        try:
            return split.counts(counter)
        except ReaderError as error:
            return error

    with ThreadPoolExecutor(max(1, threads), thread_name_prefix="diff") as pool:
        try:
            for (task, split), found in zip(work, pool.map(run, work), strict=True):
                check()
                if isinstance(found, ReaderError):
                    task.error = task.error or found
                else:
                    task.counts += found
                done += split.size_bytes
                if progress is not None:
                    progress(done, total)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _operator(
    operator_id: str, name: str, before: Database, after: Database, states: tuple[StateDifference, ...]
) -> OperatorDifference:
    change = operator_change(operator_id, before, after)
    if change is None:
        changes = {state.change for state in states}
        change = CHANGED if changes & {ADDED, REMOVED, CHANGED} else None if None in changes else SAME
    return OperatorDifference(operator_id=operator_id, name=name, change=change, states=states)


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
            for row in source_offsets(database.savepoint, errors.append).to_pylist()
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


def _size(database: Database) -> int:
    return sum(operator.size_bytes for operator in database.savepoint.metadata.operators)
