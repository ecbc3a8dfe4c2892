"""The tables of one open savepoint.

`_metadata` names all operators, so the names of their tables are known without a state file. The tables of an operator are
made from the headers of its own state files, when a name leads to that operator. Only listings read all headers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

import readers
from catalog.cache.states import StateCache
from catalog.errors import NoSuchTableError
from catalog.facts import (
    FILES,
    OPERATORS,
    REQUIRED_CLASSES,
    RESTORE_CHECK,
    STATE_META,
    file_rows,
    operator_rows,
    source_offset_rows,
    state_meta_rows,
)
from catalog.references import SavepointReference, unique_names, without_values
from catalog.statetables import OperatorTable, StateTable, TableState, TimersTable, UnreadOperator
from catalog.table import FactsTable, Failed, ReadFactsTable, Table, rows_from_above
from catalog.views import View, ViewTable, WideTable, view_of
from readers import Operator, Savepoint, State, StateKind, is_keyed

if TYPE_CHECKING:
    from catalog.masks.columns import ColumnNames
    from catalog.masks.masks import Masks
    from catalog.upstream import UpstreamTables

STATE_META_NAME = "StateMeta"
OPERATORS_NAME = "operators"
FILES_NAME = "files"
SOURCE_OFFSETS_NAME = "source_offsets"
TIMERS_NAME = "timers"
RESTORE_CHECK_NAME = "restore_check"
REQUIRED_CLASSES_NAME = "required_classes"
XRAY_NAME = "xray"
XRAY_KEYS_NAME = "xray_keys"
XRAY_LARGEST_NAME = "xray_largest"
XRAY_ORPHAN_TIMERS_NAME = "xray_orphan_timers"
_RESERVED = (
    STATE_META_NAME, OPERATORS_NAME, FILES_NAME, SOURCE_OFFSETS_NAME, TIMERS_NAME, RESTORE_CHECK_NAME,
    REQUIRED_CLASSES_NAME, XRAY_NAME, XRAY_KEYS_NAME, XRAY_LARGEST_NAME, XRAY_ORPHAN_TIMERS_NAME,
)  # fmt: skip
_FOLDED_RESERVED = frozenset(name.casefold() for name in _RESERVED)
# What it says of the state of a source.
_POSITIONS = ("topic", "partition", "starting_offset", "stopping_offset", "details")
_SEPARATOR = "__"
_WIDE = "wide"
# The families of handles that may hold timers: RocksDB's timers on the heap are raw keyed state.
_WITH_TIMERS = frozenset({StateKind.VALUE, StateKind.RAW_KEYED})
TableT = TypeVar("TableT", bound=Table)


class SavepointTables:
    """The tables of one open savepoint, each made when it is first needed.

    Args:
        database: the name of the database, for errors.
        savepoint: the savepoint.
        reference: opens it in another process.
        uids: operator id → uid, for uids that the savepoint does not store.
        cache: of decoded states; None for none.
    """

    def __init__(
        self,
        database: str,
        savepoint: Savepoint,
        reference: SavepointReference,
        uids: Mapping[str, str],
        cache: StateCache | None,
    ) -> None:
        self.savepoint = savepoint
        self._database = database
        self.reference = reference
        self._uids = uids
        self._cache = cache
        self._lock = threading.Lock()
        self._operator_tables: dict[str, tuple[Table, ...]] = {}
        self._state_tables: dict[str, tuple[StateTable, ...]] = {}
        self._fetched_ahead: set[str] = set()

    def all(self) -> Iterable[Table]:
        """Return all tables in the order of their listing; of several with one name the last, as `find` does."""
        self._read_ahead()
        tables: list[Table] = [*self._own_tables.values()]
        for operator in self.savepoint.operators:
            tables += self._tables_of(operator)
        return {table.name.casefold(): table for table in tables}.values()

    @property
    def is_whole(self) -> bool:
        """True if the headers of all state files could be read."""
        return not self.savepoint.has_failed and not any(
            operator.unread for operator in self.savepoint.operators
        )

    def find(self, name: str) -> Table:
        """Return a table by name, in any case; reads the headers of the operators that the name may mean, mostly one.

        An operator answers to uid, name and id, whichever of them its table is named after.

        Raises:
            NoSuchTableError: near names in the error; reads the headers of all state files for them.
            ReaderError: a file that may hold the state of this name cannot be read.
        """
        table = self._find(name.casefold()) or self._by_alias(name)
        if table is None:
            self._check_headers(name)
            names = [table.name for table in self.all()]
            raise NoSuchTableError(name, names, f"database {self._database!r}")
        return table

    @cached_property
    def upstream(self) -> UpstreamTables:
        """The same by the names of Flink's State Catalog."""
        from catalog.upstream import UpstreamTables  # heavy, and few statements ask for its names

        return UpstreamTables(self)

    @cached_property
    def operator_names(self) -> dict[str, str]:
        """Operator id → the name of its table."""
        operators = self.savepoint.operators
        wanted = [(self._label(operator), operator.operator_id) for operator in operators]
        # An operator may be called `files`: the table of facts keeps its name.
        free = [
            (f"{name}_{tail}" if name.casefold() in _FOLDED_RESERVED else name, tail) for name, tail in wanted
        ]
        return dict(zip((tail for _, tail in wanted), unique_names(free), strict=True))

    def operator_of(self, name: str) -> str:
        """Return the id of an operator by the name of its table, or another of its names, in any case.

        Raises:
            NoSuchTableError: near names in the error.
        """
        for operator_id, known in self._folded_names.items():
            if known == name.casefold():
                return operator_id
        for operator in self.savepoint.operators:
            if operator.answers_to(name):
                return operator.operator_id
        raise NoSuchTableError(name, list(self.operator_names.values()), f"database {self._database!r}")

    @cached_property
    def _own_names(self) -> frozenset[str]:
        return frozenset(self._folded_names.values())

    @cached_property
    def _folded_names(self) -> dict[str, str]:
        return {operator_id: name.casefold() for operator_id, name in self.operator_names.items()}

    def _label(self, operator: Operator) -> str:
        metadata = operator.metadata
        return metadata.uid or self._uids.get(operator.operator_id) or metadata.name or operator.operator_id

    def state_tables(self) -> Iterator[tuple[str, StateTable]]:
        """Yield the table of each state but timers, with the id of its operator."""
        self._read_ahead()
        for operator in self.savepoint.operators:
            for table in self._state_tables_of(operator):
                yield operator.operator_id, table

    def _find(self, folded: str) -> Table | None:
        """Return the table of a casefolded name; None if there is none."""
        if folded in _FOLDED_RESERVED:
            return self._own_tables[folded]
        # `a__b__c` may be state `b__c` of operator `a` and state `c` of operator `a__b`: the last operator wins.
        for operator in reversed(self.savepoint.operators):
            own = self._folded_names[operator.operator_id]
            if folded == own or folded.startswith(own + _SEPARATOR):
                # The others of the operator have names that none of these has.
                for tables in (self._state_tables_of, self._tables_of):
                    for table in reversed(tables(operator)):
                        if table.name.casefold() == folded:
                            return table
        return None

    def _by_alias(self, name: str) -> Table | None:
        """Return the table of an operator by another of its names, with or without a state; None if there is none."""
        label, separator, state = name.partition(_SEPARATOR)
        while True:
            for operator in self.savepoint.operators:
                if operator.answers_to(label):
                    known = self.operator_names[operator.operator_id]
                    return self._find((known + separator + state).casefold())
            if not separator:
                return None
            before, separator, state = state.partition(_SEPARATOR)
            label = label + _SEPARATOR + before

    def _check_headers(self, name: str) -> None:
        """Raise the error of a file that may name the state of an unknown table, so that the state does not seem to be absent."""
        label, separator, rest = name.partition(_SEPARATOR)
        while separator:
            for operator in self.savepoint.operators:
                is_meant = label.casefold() == self._folded_names[operator.operator_id]
                if operator.unread and (is_meant or operator.answers_to(label)):
                    raise operator.unread[0].error
            before, separator, rest = rest.partition(_SEPARATOR)
            label = label + _SEPARATOR + before

    def _tables_of(self, operator: Operator) -> tuple[Table, ...]:
        """Return the tables of an operator, made the first time; engines know a table again by being the same object."""
        return self._kept(self._operator_tables, operator, self._made_tables)

    def _state_tables_of(self, operator: Operator) -> tuple[StateTable, ...]:
        """Return those of the states of an operator."""
        return self._kept(self._state_tables, operator, self._made_state_tables)

    def _kept(
        self,
        kept: dict[str, tuple[TableT, ...]],
        operator: Operator,
        make: Callable[[Operator], Iterator[TableT]],
    ) -> tuple[TableT, ...]:
        known = kept.get(operator.operator_id)
        if known is not None:
            return known
        self._fetched_ahead.add(operator.operator_id)
        made = tuple(make(operator))
        with self._lock:
            return kept.setdefault(operator.operator_id, made)

    def _read_ahead(self) -> None:
        """Fetch the headers of all operators at the same time, except those that were read already."""
        for operator in self.savepoint.operators:
            if operator.operator_id not in self._fetched_ahead:
                self._fetched_ahead.add(operator.operator_id)
                operator.read_ahead()

    # ---- making tables ----

    @cached_property
    def _own_tables(self) -> dict[str, Table]:
        """Casefolded name → the tables that are of no single operator."""
        return {
            table.name.casefold(): table
            for table in (*self._facts(), self.timers, *self._checks(), *self._xray())
        }

    def _facts(self) -> Iterator[Table]:
        savepoint, uids, masks = self.savepoint, self._uids, self.reference.masks

        def state_meta() -> pa.RecordBatch:
            self._read_ahead()
            rows = state_meta_rows(savepoint, uids, self._table_name)
            # A note may show bytes of the state.
            return rows if masks is None else _without(rows, "decode_note")

        def source_offsets(failed: Failed) -> pa.RecordBatch:
            self._read_ahead()
            if masks is None:
                return source_offset_rows(savepoint, uids, failed)
            rows = source_offset_rows(savepoint, uids, lambda error: failed(without_values(error)))
            return self._masked_positions(rows, masks)

        yield FactsTable(STATE_META_NAME, "what states there are, and in which types", STATE_META, state_meta)
        yield FactsTable(OPERATORS_NAME, "the operators", OPERATORS, lambda: operator_rows(savepoint, uids))
        yield FactsTable(FILES_NAME, "the files and inline parts", FILES, lambda: file_rows(savepoint))
        yield ReadFactsTable(
            SOURCE_OFFSETS_NAME, "where the sources stand", readers.SOURCE_OFFSETS, source_offsets
        )

    def _masked_positions(self, rows: pa.RecordBatch, masks: Masks) -> pa.RecordBatch:
        """Return where sources stand, with masks: nothing of a source of whose state a rule masks something, unless it has a rule here."""
        found = replace(masks, refuses=False).for_table(SOURCE_OFFSETS_NAME, rows.schema)
        masked = found.apply(rows)
        hidden = [
            operator.operator_id
            for operator in self.savepoint.operators
            if masks.hides_positions(
                (known.state, known.names) for known in self.states_of(operator) if known.names is not None
            )
        ]
        is_hidden = pc.is_in(masked.column("operator_id"), pa.array(hidden, pa.string()))
        return pa.RecordBatch.from_arrays(
            [
                pc.if_else(is_hidden, pa.scalar(None, one.type), one)
                if name in _POSITIONS and not found.hides(name)
                else one
                for name, one in zip(masked.schema.names, masked.columns, strict=True)
            ],
            schema=masked.schema,
        )

    def _checks(self) -> Iterator[Table]:
        def rows(name: str) -> pa.RecordBatch:
            self._read_ahead()
            return rows_from_above(name, self.savepoint, self._uids)

        for name, comment, schema in (
            (RESTORE_CHECK_NAME, "what a restore by Flink 2.3 does to each state", RESTORE_CHECK),
            (REQUIRED_CLASSES_NAME, "the classes that a restore needs", REQUIRED_CLASSES),
        ):
            yield FactsTable(name, comment, schema, partial(rows, name))

    def _xray(self) -> Iterator[Table]:
        # Heavy: they read in ways that no other table does.
        from catalog.xray import KeysTable, LargestTable, OperatorReference, OrphansTable, SizesTable

        def find() -> tuple[tuple[Operator, OperatorReference], ...]:
            self._read_ahead()
            return tuple(
                (
                    operator,
                    OperatorReference(
                        self.reference,
                        operator.operator_id,
                        self.uid_of(operator),
                        operator.metadata.name,
                        names=tuple(
                            names
                            for number in range(len(operator.states))
                            if (names := self._column_names(operator, number)) is not None
                        ),
                    ),
                )
                for operator in self.savepoint.operators
            )

        yield SizesTable(XRAY_NAME, "entries and bytes by state, subtask and key group", find)
        yield KeysTable(XRAY_KEYS_NAME, "how many keys the states have; reads all entries", find)
        yield LargestTable(XRAY_LARGEST_NAME, "the largest keys of each state; reads all entries", find)
        yield OrphansTable(
            XRAY_ORPHAN_TIMERS_NAME, "keys that have timers and no other state; reads all entries", find
        )

    @cached_property
    def timers(self) -> TimersTable:
        """The table of the timers of all operators."""

        def find() -> tuple[TableState, ...]:
            self._read_ahead()
            return tuple(
                state
                for operator in self.savepoint.operators
                for state in self._states(operator, lambda state: state.kind is StateKind.TIMER)
            )

        def find_unread() -> tuple[UnreadOperator, ...]:
            return tuple(
                UnreadOperator(operator.operator_id, self.uid_of(operator), unread)
                for operator in self.savepoint.operators
                for unread in [tuple(handle for handle in operator.unread if handle.family in _WITH_TIMERS)]
                if unread
            )

        comment = "the registered timers of all operators"
        return TimersTable(TIMERS_NAME, comment, self.reference, find, self._cache, find_unread)

    def _made_tables(self, operator: Operator) -> Iterator[Table]:
        states = self.states_of(operator)
        if not states:
            return
        name = self.operator_names[operator.operator_id]
        yield OperatorTable(
            name,
            f"all states of operator {name}",
            self.reference,
            lambda: states,
            self._cache,
            lambda: (UnreadOperator(operator.operator_id, self.uid_of(operator), operator.unread),),
        )
        yield from self._state_tables_of(operator)
        for number, (view_name, view) in self._views(operator).items():
            state = operator.states[number]
            comment = f"state {state.name} of operator {name}, with a column a field"
            known = TableState(state, number, names=self._column_names(operator, number))
            yield ViewTable(view_name, comment, known, self.reference, view, self._cache)
        yield from self._wide_table(operator, states)

    def _made_state_tables(self, operator: Operator) -> Iterator[StateTable]:
        for known in self.states_of(operator):
            if known.state.parts:
                table = self._state_table_name(operator, known.number)
                comment = f"state {known.state.name} of operator {self.operator_names[operator.operator_id]}"
                yield StateTable(table, comment, self.reference, partial(tuple, [known]), self._cache)

    def _wide_table(self, operator: Operator, states: tuple[TableState, ...]) -> Iterator[Table]:
        """Yield the wide table of an operator that has keyed state."""
        keyed = tuple(known for known in states if is_keyed(known.state.kind) and known.state.parts)
        if not keyed:
            return
        name = self.operator_names[operator.operator_id]
        taken = {tail.casefold() for tail in self._state_tails(operator)}
        taken |= {view.name.casefold() for _, view in self._views(operator).values()}
        tail = _WIDE
        while tail in taken or (name + _SEPARATOR + tail).casefold() in self._own_names:
            tail = f"~{tail}"
        unread = self.unread_of(operator)
        yield WideTable(name + _SEPARATOR + tail, name, self.reference, keyed, lambda: unread)

    def states_of(self, operator: Operator) -> tuple[TableState, ...]:
        """Return the states of an operator, without its timers."""
        return self._states(operator, lambda state: state.kind is not StateKind.TIMER)

    def state_table(self, operator: Operator, number: int) -> StateTable:
        """Return the table of a state of an operator, by the number of the state, which has parts."""
        return next(table for table in self._state_tables_of(operator) if table.states[0].number == number)

    def unread_of(self, operator: Operator) -> tuple[UnreadOperator, ...]:
        """Return the handles of an operator that cannot be opened and may hold keyed state."""
        unread = tuple(handle for handle in operator.unread if is_keyed(handle.family))
        return (UnreadOperator(operator.operator_id, self.uid_of(operator), unread),)

    def _states(self, operator: Operator, wanted: Callable[[State], bool]) -> tuple[TableState, ...]:
        uid = self.uid_of(operator)
        return tuple(
            TableState(state, number, uid, self._column_names(operator, number))
            for number, state in enumerate(operator.states)
            if wanted(state)
        )

    def _column_names(self, operator: Operator, number: int) -> ColumnNames | None:
        """Return the names by which masks know the columns of a state; None without masks."""
        if self.reference.masks is None:
            return None
        from catalog.masks.columns import ColumnNames  # most readers have no masks

        tails = self._state_tails(operator)
        own = self.operator_names[operator.operator_id]
        is_timer = [state.kind is StateKind.TIMER for state in operator.states]
        tables = [
            TIMERS_NAME if timer else own + _SEPARATOR + tail
            for timer, tail in zip(is_timer, tails, strict=True)
        ]
        view = self._views(operator).get(number)
        columns = () if view is None else (*view[1].keys, *view[1].columns)
        return ColumnNames(
            tables[number],
            own,
            siblings=tuple(dict.fromkeys(tables)),
            views=((view[0], tuple((one.name, (one.source, *one.path)) for one in columns)),) if view else (),
        )

    def uid_of(self, operator: Operator) -> str | None:
        """Return the uid of an operator; None if it is not known."""
        return operator.metadata.uid or self._uids.get(operator.operator_id)

    def _table_name(self, operator: Operator, number: int) -> str:
        """Return the name of the table of a state that is the easiest to read: of its view if it has one."""
        if operator.states[number].kind is StateKind.TIMER:
            return TIMERS_NAME
        view = self._views(operator).get(number)
        return self._state_table_name(operator, number) if view is None else view[0]

    def _views(self, operator: Operator) -> dict[int, tuple[str, View]]:
        """Return the number of a state of a SQL operator → the name of its view, and the view."""
        found = [(number, view_of(state)) for number, state in enumerate(operator.states)]
        prefix = self.operator_names[operator.operator_id] + _SEPARATOR
        # A state keeps its own name: a view that would take it is left out.
        taken = {state.name.casefold() for state in operator.states}
        named: dict[int, tuple[str, View]] = {}
        for number, view in found:
            if view is not None and view.name.casefold() not in taken:
                taken.add(view.name.casefold())
                named[number] = prefix + view.name, view
        return named

    def _state_table_name(self, operator: Operator, number: int) -> str:
        return self.operator_names[operator.operator_id] + _SEPARATOR + self._state_tails(operator)[number]

    def _state_tails(self, operator: Operator) -> list[str]:
        """Return what stands behind the operator in the name of the table of each state."""
        return unique_names((state.name, state.kind.value.lower()) for state in operator.states)


def _without(rows: pa.RecordBatch, column: str) -> pa.RecordBatch:
    index = rows.schema.get_field_index(column)
    return rows.set_column(
        index, rows.schema.field(index), pa.nulls(rows.num_rows, rows.schema.field(index).type)
    )
