"""What the tables about operators share: tables with a split an operator, which finds its operator again anywhere.

The table `xray`: how many entries and bytes the states of a savepoint have, and where.

A row has its place in `level`:

| level | a row per | its bytes |
|---|---|---|
| operator | operator | all that `_metadata` refers to for it |
| state | state of an operator | of its entries in the files |
| subtask | state and subtask that wrote a part of it | the same |
| key_group | state and key group that has entries | the same |

Nothing is decoded. What a format records is taken from there (`source`), else the entries are found, as for `count(*)`.

The tables about keys: `xray_keys`, `xray_largest` and `xray_orphan_timers`. Each reads all entries of its states once.

| table | a row per |
|---|---|
| xray_keys | keyed state, timers among them |
| xray_largest | key that is among the largest of its state, by bytes or by entries |
| xray_orphan_timers | key with timers, and nothing in any other keyed state of the operator |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from catalog import references
from catalog.scan import ANYTHING, Predicate, Scan, ScanCounter, Split
from catalog.statetables import timer_service_of
from catalog.table import Failed, Table, known_sum
from readers import (
    KeySurvey,
    LargeKey,
    MissingFileError,
    Operator,
    ReaderError,
    SavepointGoneError,
    Selection,
    Source,
    State,
    StateKind,
    StateName,
    Tally,
    garbage_share,
    has_one_entry_a_key,
    is_keyed,
    key_group_chunks,
    key_texts,
    orphan_timers,
    schema_of,
    survey,
    update_times,
)

if TYPE_CHECKING:
    from catalog.masks.columns import ColumnNames, MaskedColumns


@dataclass(frozen=True, slots=True)
class OperatorReference:
    """All that is needed to find an operator again, and to name it.

    Attributes:
        savepoint: that it is in.
        operator_id: of the operator.
        uid, name: of the operator; None if unknown.
        parts: how many its states have together; None where nothing was planned yet.
        names: by which masks know the columns of each of its states; empty without masks.
    """

    savepoint: references.SavepointReference
    operator_id: str
    uid: str | None
    name: str | None
    parts: int | None = None
    names: tuple[ColumnNames, ...] = ()

    def operator(self) -> Operator:
        """Return the operator.

        Raises:
            ReaderError: the savepoint cannot be opened, or less of the operator than before: on another machine, or later.
        """
        operators = references.open_savepoint(self.savepoint).operators
        found = next(one for one in operators if one.operator_id == self.operator_id)
        if self.parts is None or _parts_of(found) == self.parts:
            return found
        for handle in found.unread:
            raise handle.error
        raise MissingFileError(
            f"expected the operator {self.operator_id} in {self.parts} parts, found another",
            path=self.savepoint.path,
        )

    def masked(self, number: int, state: State) -> MaskedColumns | None:
        """Return the masks of one of its states; None without masks. For errors see `StateReference.masked`."""
        if self.savepoint.masks is None:
            return None
        return references.StateReference(
            self.savepoint, self.operator_id, number, state.name, len(state.parts), self.names[number]
        ).masked

    def key_texts(self, number: int, state: State, keys: Iterable[tuple[int, bytes]]) -> list[str]:
        """Return keys of one of its states as text, with their masks; see `readers.key_texts`."""
        masked = self.masked(number, state)
        return key_texts(state, keys) if masked is None else key_texts(state, keys, masked.mask_key)

    @property
    def values(self) -> dict[str, str | None]:
        """Its columns."""
        return {"operator_id": self.operator_id, "operator_uid": self.uid, "operator_name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSplit(Split):
    """The rows of one operator.

    Attributes:
        reference: finds the operator again in another process.
        columns: of the table that are wanted.
        size_bytes: about how many bytes it reads.
        may_be_partial: whether an error ends its rows, and goes to the counter.
    """

    reference: OperatorReference
    columns: tuple[str, ...]
    size_bytes: int
    may_be_partial: bool = False

    def elsewhere(self) -> OperatorSplit:
        savepoint = self.reference.savepoint.elsewhere()
        return replace(self, reference=replace(self.reference, savepoint=savepoint))

    def narrowed(self, columns: Sequence[str]) -> OperatorSplit:
        return replace(self, columns=tuple(columns))

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        if not self.may_be_partial or counter is None:
            with references.masked_errors(self.reference.savepoint):
                yield from self.batches(counter or ScanCounter(), _raised)
            return
        is_masked = self.reference.savepoint.masks is not None

        def failed(error: ReaderError) -> None:
            counter.add_failure(references.without_values(error) if is_masked else error)

        try:
            with references.masked_errors(self.reference.savepoint):
                yield from self.batches(counter, failed)
        except SavepointGoneError:
            # Nothing is damaged: Flink removed all of it.
            raise
        except ReaderError as error:
            counter.add_failure(error)

    @staticmethod
    def account(counter: ScanCounter) -> Callable[[int], None]:
        """Return what counts bytes that are read, and ends the split if nobody wants its rows: it reads long without one."""

        def add(bytes_read: int) -> None:
            counter.check()
            counter.add(bytes_read)

        return add

    @abstractmethod
    def batches(self, counter: ScanCounter, failed: Failed) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the wanted columns.

        Args:
            counter: counts the bytes read.
            failed: takes the error of a file that cannot be read, and raises it unless the rows may be partial.

        Raises:
            ReaderError: a file is missing or contradicts its format.
        """


def _raised(error: ReaderError) -> None:
    raise error


def _parts_of(operator: Operator) -> int:
    return sum(len(state.parts) for state in operator.states)


@dataclass(eq=False)
class OperatorsTable(Table):
    """A table whose rows come from operators, a split each.

    Attributes:
        find: returns the operators with their references; called once, when they are first needed.
    """

    name: str
    comment: str
    find: Callable[[], Sequence[tuple[Operator, OperatorReference]]]

    @abstractmethod
    def splits(
        self, operator: Operator, reference: OperatorReference, predicate: Predicate, *, may_be_partial: bool
    ) -> Iterator[OperatorSplit]:
        """Yield the splits of an operator."""

    @cached_property
    def size_bytes(self) -> int:
        return self.plan(allow_partial=True).bytes_total

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        wanted = [
            (operator, replace(reference, parts=_parts_of(operator)))
            for operator, reference in self.find()
            if predicate.admits(reference.values)
        ]
        unread = tuple(handle.error for operator, _ in wanted for handle in operator.unread)
        if unread and not allow_partial:
            raise unread[0]
        splits = tuple(
            split
            for operator, reference in wanted
            for split in self.splits(operator, reference, predicate, may_be_partial=allow_partial)
        )
        return Scan(schema=self.schema, splits=splits, unread=unread)


XRAY = schema_of(
    "level, operator_id, operator_uid, operator_name, state_name, state_kind, subtask int, key_group int, "
    "entries bigint, bytes bigint, is_estimate boolean, distinct_keys bigint, deleted_share double, source"
)
_BATCH_ROWS = 1 << 15
_METADATA = "metadata"


@dataclass(slots=True)
class _Total:
    """A sum of tallies; entries or bytes are None as soon as those of one tally are."""

    entries: int | None = 0
    size_bytes: int | None = 0
    is_estimate: bool = False
    stored: int = 0
    deleted: int = 0
    origins: set[str] = field(default_factory=set)

    def add(self, tally: Tally) -> None:
        self.entries = known_sum(self.entries, tally.entries)
        self.size_bytes = known_sum(self.size_bytes, tally.size_bytes)
        self.is_estimate |= tally.is_estimate
        self.stored += tally.stored
        self.deleted += tally.deleted
        self.origins.add(tally.origin)

    @property
    def row(self) -> dict[str, Any]:
        """The columns of the sum."""
        return {
            "entries": self.entries,
            "bytes": self.size_bytes,
            "is_estimate": self.is_estimate,
            "deleted_share": self.deleted / self.stored if self.stored else None,
            "source": ", ".join(sorted(self.origins)) or _METADATA,
        }


@dataclass(slots=True)
class _StateTotals:
    """The sums of one state."""

    state: State
    whole: _Total = field(default_factory=_Total)
    subtasks: dict[int, _Total] = field(default_factory=dict)
    groups: dict[tuple[int, int], _Total] = field(default_factory=dict)  # by key group and subtask

    def add(self, subtask: int, tally: Tally) -> None:
        self.whole.add(tally)
        self.subtasks.setdefault(subtask, _Total()).add(tally)
        if tally.key_group >= 0:
            self.groups.setdefault((tally.key_group, subtask), _Total()).add(tally)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield its rows: of the state, then of subtasks, then of key groups."""
        named = {"state_name": self.state.name, "state_kind": self.state.kind.value}
        known = _has_one_entry_a_key(self.state)

        def row(level: str, total: _Total, **places: int) -> dict[str, Any]:
            found = total.row
            return {
                "level": level,
                **named,
                **places,
                **found,
                "distinct_keys": found["entries"] if known and not total.is_estimate else None,
            }

        yield row("state", self.whole)
        for subtask, total in sorted(self.subtasks.items()):
            yield row("subtask", total, subtask=subtask)
        for (group, subtask), total in sorted(self.groups.items()):
            yield row("key_group", total, subtask=subtask, key_group=group)


def _has_one_entry_a_key(state: State) -> bool:
    """Return whether each entry of a state has a key of its own."""
    is_of_keys = is_keyed(state.kind) and state.kind is not StateKind.TIMER
    return is_of_keys and all(map(has_one_entry_a_key, state.parts))


class SizesTable(OperatorsTable):
    """The table `xray`."""

    schema = XRAY

    def splits(
        self, operator: Operator, reference: OperatorReference, predicate: Predicate, *, may_be_partial: bool
    ) -> Iterator[OperatorSplit]:
        yield SizesSplit(
            reference=reference,
            columns=tuple(XRAY.names),
            size_bytes=sum(source.tallied_bytes for source, _ in _sources(operator.states).values()),
            may_be_partial=may_be_partial,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesSplit(OperatorSplit):
    """The rows of `xray` of one operator."""

    def batches(self, counter: ScanCounter, failed: Failed) -> Iterator[pa.RecordBatch]:
        operator = self.reference.operator()
        rows: list[dict[str, Any]] = []
        for row in self._rows(operator, counter, failed):
            rows.append(self.reference.values | row)
            if len(rows) == _BATCH_ROWS:
                yield self._batch(rows)
                rows = []
        yield self._batch(rows)

    def _batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(rows, schema=XRAY).select(list(self.columns))

    def _rows(self, operator: Operator, counter: ScanCounter, failed: Failed) -> Iterator[dict[str, Any]]:
        totals = [_StateTotals(state) for state in operator.states]
        selection = Selection(account=self.account(counter))
        for source, numbers in _sources(operator.states).values():
            counter.check()
            by_name = {name: totals[number] for name, number in numbers.items()}
            for found in by_name.values():
                found.subtasks.setdefault(source.subtask, _Total())
            try:
                for tally in source.tallies(list(by_name), selection):
                    by_name[tally.state].add(source.subtask, tally)
            except ReaderError as error:
                failed(error.within(operator.operator_id, path=source.path))
        entries: int | None = 0
        for found in totals:
            entries = known_sum(entries, found.whole.entries)
        origins = set[str]().union(*(found.whole.origins for found in totals))
        yield {
            "level": "operator",
            "entries": entries,
            "bytes": operator.metadata.size_bytes,
            "is_estimate": any(found.whole.is_estimate for found in totals),
            "source": ", ".join(sorted(origins | {_METADATA})),
        }
        # With their key groups, few entries would tell which keys a masked key may be.
        masked = [self.reference.masked(number, state) for number, state in enumerate(operator.states)]
        hides_groups = any(one is not None and one.masks_key for one in masked)
        for found in totals:
            yield from (row for row in found.rows() if not (hides_groups and row["level"] == "key_group"))


def _sources(states: Iterable[State]) -> dict[int, tuple[Source, dict[StateName, int]]]:
    """Return the sources of states, each with the names that these have in it, and their numbers."""
    found: dict[int, tuple[Source, dict[StateName, int]]] = {}
    for number, state in enumerate(states):
        for part in state.parts:
            found.setdefault(id(part.source), (part.source, {}))[1][part.name] = number
    return found


_UPDATES = ("oldest_update", "median_update", "newest_update")

XRAY_KEYS = schema_of(
    "operator_id, operator_uid, operator_name, state_name, state_kind, entries bigint, "
    "distinct_keys bigint, is_estimate boolean, entry_bytes bigint, largest_entry_bytes bigint, "
    "garbage_share double, oldest_update timestamp, median_update timestamp, newest_update timestamp"
)
XRAY_LARGEST = schema_of(
    "operator_id, operator_uid, operator_name, state_name, state_kind, key, key_group int, subtask int, "
    "entries bigint, bytes bigint, rank_by_bytes int, rank_by_entries int, is_estimate boolean"
)
XRAY_ORPHAN_TIMERS = schema_of(
    "operator_id, operator_uid, operator_name, time_domain, timer_service, key, key_group int, subtask int, "
    "timers bigint, first_timestamp timestamp"
)
# As much as other scans read at once: timers of so many key groups are compared together.
_CHUNK_BYTES = 32 << 20


class StatesOfOperatorsTable(OperatorsTable):
    """A table with a split a keyed state."""

    split: ClassVar[type[StateOfOperatorSplit]]

    @cached_property
    def schema(self) -> pa.Schema:
        return self.split.schema

    def splits(
        self, operator: Operator, reference: OperatorReference, predicate: Predicate, *, may_be_partial: bool
    ) -> Iterator[OperatorSplit]:
        for number, state in enumerate(operator.states):
            named = {"state_name": state.name, "state_kind": state.kind.value}
            if is_keyed(state.kind) and predicate.admits(named):
                yield self.split(
                    reference=reference,
                    columns=tuple(self.schema.names),
                    size_bytes=state.size_bytes,
                    may_be_partial=may_be_partial,
                    number=number,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOfOperatorSplit(OperatorSplit):
    """The rows of one state of an operator.

    Attributes:
        number: of the state among those of the operator.
    """

    number: int
    schema: ClassVar[pa.Schema]

    def batches(self, counter: ScanCounter, failed: Failed) -> Iterator[pa.RecordBatch]:
        state = self.reference.operator().states[self.number]
        named = {**self.reference.values, "state_name": state.name, "state_kind": state.kind.value}
        selection = Selection(account=self.account(counter))
        rows = [named | row | self.hidden(state) for row in self.rows(state, selection, failed)]
        yield pa.RecordBatch.from_pylist(rows, schema=self.schema).select(list(self.columns))

    def hidden(self, state: State) -> dict[str, None]:
        """Return columns that would say something of masked columns."""
        masked = self.reference.masked(self.number, state)
        hidden: list[str] = []
        if masked is not None:
            hidden += ("key_group", "subtask") if masked.masks_key else ()
            hidden += _UPDATES if masked.hides("ttl_timestamp") else ()
        return dict.fromkeys(name for name in hidden if name in self.schema.names)

    @abstractmethod
    def rows(self, state: State, selection: Selection, failed: Failed) -> Iterator[dict[str, Any]]:
        """Yield the rows of the state; for `failed` see `OperatorSplit.batches`."""


def _surveyed(state: State, selection: Selection, failed: Failed) -> tuple[KeySurvey, list[int]]:
    """Return the survey of a state, and the numbers of the parts that could be read."""
    found, read = KeySurvey(), []
    for number in range(len(state.parts)):
        try:
            one = survey(state, number, selection)
        except ReaderError as error:
            failed(error.within(state.operator_id))
            continue
        found.add(one)
        read.append(number)
    return found, read


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysSplit(StateOfOperatorSplit):
    """The row of `xray_keys` of one state."""

    schema = XRAY_KEYS

    def rows(self, state: State, selection: Selection, failed: Failed) -> Iterator[dict[str, Any]]:
        found, read = _surveyed(state, selection, failed)
        # The times of updates take another pass, which decodes: it is made for those who ask.
        times = update_times(state, selection) if not set(_UPDATES).isdisjoint(self.columns) else None
        yield {
            "entries": found.entries,
            "distinct_keys": found.keys,
            "is_estimate": found.is_estimate,
            "entry_bytes": found.size_bytes,
            "largest_entry_bytes": found.largest_bytes,
            "garbage_share": garbage_share(state, found, read),
            "oldest_update": times and times.oldest,
            "median_update": times and times.median,
            "newest_update": times and times.newest,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestSplit(StateOfOperatorSplit):
    """The rows of `xray_largest` of one state."""

    schema = XRAY_LARGEST

    def rows(self, state: State, selection: Selection, failed: Failed) -> Iterator[dict[str, Any]]:
        found, _ = _surveyed(state, selection, failed)
        by_bytes = {_place(key): rank for rank, key in enumerate(found.by_bytes, 1)}
        by_entries = {_place(key): rank for rank, key in enumerate(found.by_entries, 1)}
        keys = list({_place(key): key for key in (*found.by_bytes, *found.by_entries)}.values())
        texts = self.reference.key_texts(self.number, state, ((key.part, key.key) for key in keys))
        for key, text in zip(keys, texts, strict=True):
            yield {
                "key": text,
                "key_group": key.key_group,
                "subtask": state.parts[key.part].source.subtask,
                "entries": key.entries,
                "bytes": key.size_bytes,
                "rank_by_bytes": by_bytes.get(_place(key)),
                "rank_by_entries": by_entries.get(_place(key)),
                "is_estimate": found.is_estimate,
            }


def _place(key: LargeKey) -> tuple[int, bytes]:
    return key.part, key.key


class KeysTable(StatesOfOperatorsTable):
    """The table `xray_keys`."""

    split = KeysSplit


class LargestTable(StatesOfOperatorsTable):
    """The table `xray_largest`."""

    split = LargestSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansSplit(OperatorSplit):
    """The rows of `xray_orphan_timers` of some key groups of an operator.

    Attributes:
        key_groups: to look at.
    """

    key_groups: frozenset[int]

    @property
    def wanted_key_groups(self) -> frozenset[int]:
        return self.key_groups

    def batches(self, counter: ScanCounter, failed: Failed) -> Iterator[pa.RecordBatch]:
        states = self.reference.operator().states
        selection = Selection(key_groups=self.key_groups, account=self.account(counter))
        rows: list[dict[str, Any]] = []
        try:
            rows.extend(self._rows(states, selection))
        except ReaderError as error:
            failed(error.within(self.reference.operator_id))
        yield pa.RecordBatch.from_pylist(rows, schema=XRAY_ORPHAN_TIMERS).select(list(self.columns))

    def _rows(self, states: Sequence[State], selection: Selection) -> Iterator[dict[str, Any]]:
        for orphan in orphan_timers(states, selection):
            state = states[orphan.state]
            domain, service = timer_service_of(state.name)
            (text,) = self.reference.key_texts(orphan.state, state, [(orphan.part, orphan.key)])
            masked = self.reference.masked(orphan.state, state)
            has_place = masked is None or not masked.masks_key
            has_time = masked is None or not masked.hides("timestamp")
            yield {
                **self.reference.values,
                "time_domain": domain,
                "timer_service": service,
                "key": text,
                "key_group": orphan.key_group if has_place else None,
                "subtask": state.parts[orphan.part].source.subtask if has_place else None,
                "timers": orphan.timers,
                "first_timestamp": orphan.first_time if has_time else None,
            }


class OrphansTable(OperatorsTable):
    """The table `xray_orphan_timers`."""

    schema = XRAY_ORPHAN_TIMERS

    def splits(
        self, operator: Operator, reference: OperatorReference, predicate: Predicate, *, may_be_partial: bool
    ) -> Iterator[OperatorSplit]:
        if not any(state.kind is StateKind.TIMER for state in operator.states):
            return
        # A condition on a column that masks hide chooses among the masks.
        asked = None if reference.savepoint.masks is not None else predicate.of("key_group")
        for groups, size_bytes in _chunks(operator):
            wanted = groups if asked is None else groups & frozenset(asked)
            if wanted:
                yield OrphansSplit(
                    reference=reference,
                    columns=tuple(XRAY_ORPHAN_TIMERS.names),
                    size_bytes=size_bytes,
                    may_be_partial=may_be_partial,
                    key_groups=wanted,
                )


def _chunks(operator: Operator) -> Iterator[tuple[frozenset[int], int]]:
    """Yield the key groups of an operator, so many together as have some megabytes, and their bytes."""
    sizes: dict[int, int] = {}
    for state in operator.states:
        for part in state.parts if is_keyed(state.kind) else ():
            for group, size in part.source.key_group_bytes(part.name) or ():
                sizes[group] = sizes.get(group, 0) + size
            # Raw timers do not say how many bytes their key groups have.
            held = part.source.key_group_range
            for group in range(held.start, held.end + 1) if held else ():
                sizes.setdefault(group, 0)
    yield from key_group_chunks(sorted(sizes.items()), _CHUNK_BYTES)
