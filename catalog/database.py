"""`Database`: one savepoint as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa

from catalog.cache.states import StateCache
from catalog.errors import NoSuchTableError
from catalog.naming import unique_names
from catalog.references import SavepointReference, is_gone, open_savepoint
from catalog.scan import Scan
from catalog.sqlviews import View, ViewTable, view_of
from catalog.statemeta import (
    FILES,
    OPERATORS,
    STATE_META,
    file_rows,
    operator_rows,
    source_offset_rows,
    state_meta_rows,
)
from catalog.statetables import FactsTable, OperatorTable, StateReference, StateTable, Table, TimersTable
from readers import SOURCE_OFFSETS, Operator, Savepoint, State, StateKind, operator_id_of

STATE_META_NAME = "StateMeta"
OPERATORS_NAME = "operators"
FILES_NAME = "files"
SOURCE_OFFSETS_NAME = "source_offsets"
TIMERS_NAME = "timers"
_RESERVED = (STATE_META_NAME, OPERATORS_NAME, FILES_NAME, SOURCE_OFFSETS_NAME, TIMERS_NAME)
_SEPARATOR = "__"


class Database:
    """One savepoint or checkpoint: opened when first asked, its state files when their tables are.

    Attributes:
        name: in the catalog.
        reference: what it takes to open it.
        uids: operator id → uid, known from elsewhere than `_metadata`.
        cache: of decoded states; None for none.
    """

    def __init__(
        self,
        name: str,
        reference: SavepointReference,
        uids: Iterable[str] = (),
        cache: StateCache | None = None,
    ) -> None:
        self.name = name
        self.reference = reference
        self.cache = cache
        self.uids: Mapping[str, str] = {operator_id_of(uid): uid for uid in uids}

    @property
    def savepoint(self) -> Savepoint:
        """The open savepoint.

        Raises:
            ReaderError: it cannot be opened.
        """
        return open_savepoint(self.reference)

    @property
    def is_gone(self) -> bool:
        """Whether it was removed: Flink removes `_metadata` first. Looks anew, also if it is open."""
        return is_gone(self.reference)

    @property
    def path(self) -> str:
        """Its directory."""
        return self.reference.path

    @property
    def is_described(self) -> bool:
        """Whether `describe` knows without reading."""
        return "_description" in self.__dict__

    def describe(self) -> tuple[int, str | None]:
        """`checkpoint_id` and `kind`; reads `_metadata` once, and does not keep it open.

        Raises:
            ReaderError: it cannot be opened.
        """
        return self._description

    @cached_property
    def _description(self) -> tuple[int, str | None]:
        metadata = self.savepoint.metadata
        return metadata.checkpoint_id, str(metadata.properties.kind) if metadata.properties else None

    @property
    def checkpoint_id(self) -> int:
        """As Flink counted it."""
        return self.describe()[0]

    @property
    def kind(self) -> str | None:
        """`SAVEPOINT` or `CHECKPOINT`; None where the savepoint does not say (before Flink 1.16)."""
        return self.describe()[1]

    @property
    def tables(self) -> list[str]:
        """The names of its tables; reads the headers of its state files."""
        return [table.name for table in self._tables.values()]

    def table(self, name: str) -> Table:
        """A table by name, in any case. Operators answer to uid, name and id, whichever their table is named after.

        Raises:
            NoSuchTableError: near names in the error.
        """
        table = self._tables.get(name.casefold()) or self._by_alias(name)
        if table is None:
            raise NoSuchTableError(name, self.tables, f"database {self.name!r}")
        return table

    def scan(self, table: str, **arguments: Any) -> Scan:  # as Table.scan
        """`table(table).scan(…)`."""
        return self.table(table).scan(**arguments)

    @cached_property
    def operator_names(self) -> dict[str, str]:
        """Operator id → the name of its table."""
        savepoint = self.savepoint
        wanted = [(self._label(operator), operator.operator_id) for operator in savepoint.operators]
        reserved = {name.casefold() for name in _RESERVED}
        free = [(f"{name}_{tail}" if name.casefold() in reserved else name, tail) for name, tail in wanted]
        return dict(zip((tail for _, tail in wanted), unique_names(free), strict=True))

    def _label(self, operator: Operator) -> str:
        metadata = operator.metadata
        return metadata.uid or self.uids.get(operator.operator_id) or metadata.name or operator.operator_id

    @cached_property
    def _tables(self) -> dict[str, Table]:
        """Casefolded name → table, in the order of their listing."""
        self.savepoint.read_ahead()
        tables: list[Table] = [*self._facts(), self._timers()]
        for operator in self.savepoint.operators:
            tables += self._operator_tables(operator)
        return {table.name.casefold(): table for table in tables}

    def _facts(self) -> Iterator[Table]:
        savepoint, uids = self.savepoint, self.uids
        yield FactsTable(
            STATE_META_NAME,
            "what states there are, and in which types",
            STATE_META,
            lambda: state_meta_rows(savepoint, uids, self._table_name),
        )
        yield FactsTable(OPERATORS_NAME, "the operators", OPERATORS, lambda: operator_rows(savepoint, uids))
        yield FactsTable(FILES_NAME, "the files and inline parts", FILES, lambda: file_rows(savepoint))
        yield FactsTable(
            SOURCE_OFFSETS_NAME,
            "where the sources stand",
            SOURCE_OFFSETS,
            lambda: source_offset_rows(savepoint, uids),
        )

    def _timers(self) -> Table:
        def find() -> tuple[StateReference, ...]:
            return tuple(
                reference
                for operator in self.savepoint.operators
                for reference in self._references(operator, lambda state: state.kind is StateKind.TIMER)
            )

        return TimersTable(
            TIMERS_NAME, "the registered timers of all operators", self.reference, find, self.cache
        )

    def _operator_tables(self, operator: Operator) -> Iterator[Table]:
        references = self._references(operator, lambda state: state.kind is not StateKind.TIMER)
        if not references:
            return
        name = self.operator_names[operator.operator_id]
        yield OperatorTable(
            name, f"all states of operator {name}", self.reference, lambda: references, self.cache
        )
        for reference in references:
            if reference.state.parts:
                table = self._state_table_name(operator, reference.number)
                comment = f"state {reference.state.name} of operator {name}"
                yield StateTable(table, comment, self.reference, _just(reference), self.cache)
        for number, (view_name, view) in self._views(operator).items():
            state = operator.states[number]
            comment = f"state {state.name} of operator {name}, with a column a field"
            yield ViewTable(
                view_name, comment, StateReference(state, number), self.reference, view, self.cache
            )

    def _references(self, operator: Operator, wanted: Callable[[State], bool]) -> tuple[StateReference, ...]:
        uid = operator.metadata.uid or self.uids.get(operator.operator_id)
        return tuple(
            StateReference(state, number, uid)
            for number, state in enumerate(operator.states)
            if wanted(state)
        )

    def _table_name(self, operator: Operator, number: int) -> str:
        """The table of an operator's state that is the easiest to read: a view if it has one."""
        if operator.states[number].kind is StateKind.TIMER:
            return TIMERS_NAME
        view = self._views(operator).get(number)
        return self._state_table_name(operator, number) if view is None else view[0]

    def _views(self, operator: Operator) -> dict[int, tuple[str, View]]:
        """The number of a state of a SQL operator → the name of its view, and the view."""
        found = [(number, view_of(state)) for number, state in enumerate(operator.states)]
        prefix = self.operator_names[operator.operator_id] + _SEPARATOR
        taken = {state.name.casefold() for state in operator.states}
        named: dict[int, tuple[str, View]] = {}
        for number, view in found:
            if view is not None and view.name.casefold() not in taken:
                taken.add(view.name.casefold())
                named[number] = prefix + view.name, view
        return named

    def _state_table_name(self, operator: Operator, number: int) -> str:
        names = unique_names((state.name, state.kind.value.lower()) for state in operator.states)
        return self.operator_names[operator.operator_id] + _SEPARATOR + names[number]

    def _by_alias(self, name: str) -> Table | None:
        """The table of an operator by another of its names, with or without a state."""
        label, separator, state = name.partition(_SEPARATOR)
        while True:
            for operator in self.savepoint.operators:
                if operator.answers_to(label):
                    known = self.operator_names[operator.operator_id] + (
                        separator + state if separator else ""
                    )
                    return self._tables.get(known.casefold())
            if not separator:
                return None
            before, separator, state = state.partition(_SEPARATOR)
            label = label + _SEPARATOR + before

    @property
    def table_schemas(self) -> Iterator[tuple[str, pa.Schema]]:
        """(table, its columns) of all tables."""
        return ((table.name, table.schema) for table in self._tables.values())


def _just(reference: StateReference) -> Callable[[], tuple[StateReference, ...]]:
    return lambda: (reference,)
