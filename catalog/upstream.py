"""How a column of Flink's State Catalog comes from a column of ours.

`RenamedTable`: one of our tables with other columns and another name.

`UpstreamTables`: the tables of a savepoint by the names of Flink's State Catalog.

A database there has tables of what its connector can read. Here they are of all states, with these limits of theirs: of timers and
of the bookkeeping of merging windows there are none, and of two tables of one name the first one counts. All the rest is in our own
tables.

Source: Flink: StateCatalog#tableName, StateTableUtils (FLINK-40175, FLINK-40179, FLINK-40180; not yet released).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import readers
from catalog.facts import OPERATORS
from catalog.references import SavepointReference
from catalog.scan import ANYTHING, DerivedSplit, Predicate, Scan, ScanCounter, Split
from catalog.statetables import StateTable, TableState, UnreadOperator
from catalog.table import Extent, FactsTable, Table
from catalog.views import WideTable

if TYPE_CHECKING:
    from readers import StateSize


_WINDOW_FIELDS = ("window_start", "window_end")


class Form(Enum):
    """What is done to the values of a column."""

    SAME = "nothing"
    WINDOW = "the fields of windows get other names"
    FILLED = "a key without a list or map has an empty one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a renamed table.

    Attributes:
        name: of the column.
        type: of the column.
        source: the column of our table.
        form: what is done to its values.
        path: the names of the fields that lead from the source to the value.
        beside: columns of our table that say why a value is NULL.
    """

    name: str
    type: pa.DataType
    source: str
    form: Form = Form.SAME
    path: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of our table that it is made from."""
        return (self.source, *self.beside)

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the column from rows of our table."""
        array = batch.column(batch.schema.get_field_index(self.source))
        for name in self.path:
            array = pc.struct_field(array, name)
        if self.form is Form.WINDOW:
            children = [array.field(index) for index in range(array.type.num_fields)]
            return pa.StructArray.from_arrays(children, fields=list(self.type), mask=array.is_null())
        if self.form is Form.FILLED:
            return _filled(array, [batch.column(batch.schema.get_field_index(name)) for name in self.beside])
        return readers.conform(array, self.type)


def same(name: str, field: pa.Field) -> Column:
    """Return a column that only has another name."""
    return Column(name=name, type=field.type, source=field.name)


def window(name: str, field: pa.Field) -> Column:
    """Return the column of windows: those of time have `window_start` and `window_end` there."""
    kind = field.type
    if not pa.types.is_struct(kind) or [one.name for one in kind] != ["start", "end"]:
        return same(name, field)
    renamed = pa.struct([pa.field(one, old.type) for one, old in zip(_WINDOW_FIELDS, kind, strict=True)])
    return Column(name=name, type=renamed, source=field.name, form=Form.WINDOW)


def filled(name: str, field: pa.Field, schema: pa.Schema) -> Column:
    """Return the column of a list or a map of the wide table with this schema."""
    beside = tuple(one for one in (readers.UNDECODED, readers.OUT_OF_RANGE) if one in schema.names)
    return Column(name=name, type=field.type, source=field.name, form=Form.FILLED, beside=beside)


def _filled(array: pa.Array, beside: list[pa.Array]) -> pa.Array:
    """Return lists or maps with empty ones in place of NULL, except where a remark says that there is something."""
    is_told = pa.array(np.zeros(len(array), dtype=np.bool_))
    for remark in beside:
        is_told = pc.or_(is_told, remark.is_valid())
    unknown = pc.and_(array.is_null(), is_told)
    kind = array.type
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, type=kind, mask=unknown)
    return pa.ListArray.from_arrays(array.offsets, array.values, type=kind, mask=unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamedSplit(DerivedSplit):
    """A split of our table, with other columns.

    Attributes:
        columns: of its rows.
    """

    columns: tuple[Column, ...]

    def elsewhere(self) -> RenamedSplit:
        return self.over(self.origin.elsewhere())

    def narrowed(self, columns: Sequence[str]) -> RenamedSplit:
        by_name = {column.name: column for column in self.columns}
        chosen = tuple(by_name[name] for name in columns)
        sources = dict.fromkeys(source for column in chosen for source in column.sources)
        return self.over(self.origin.narrowed(list(sources)), columns=chosen)

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([(column.name, column.type) for column in self.columns])
        for batch in self.origin.read(counter):
            arrays = [column.array(batch) for column in self.columns]
            # Without columns only the number of rows counts, which a batch without arrays would lose.
            yield pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch


def renamed_split(origin: Split, columns: tuple[Column, ...]) -> RenamedSplit:
    """Return a split with these columns in place of its own."""
    return RenamedSplit(
        origin=origin, columns=columns, size_bytes=origin.size_bytes, cached_bytes=origin.cached_bytes
    )


@dataclass(eq=False)
class RenamedTable(Table):
    """One of our tables with other columns and another name.

    Attributes:
        origin: our table.
        columns: of the table.
        fixed: conditions that hold for all rows, as values of columns of our table that leave out other rows exactly.
    """

    name: str
    origin: Table
    columns: tuple[Column, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.comment = self.origin.comment
        self.schema = pa.schema([(column.name, column.type) for column in self.columns])

    @cached_property
    def unquoted(self) -> frozenset[str]:
        known = self.origin.unquoted
        return frozenset(column.name for column in self.columns if column.source in known and not column.path)

    @cached_property
    def size_bytes(self) -> int:
        return self.origin.size_bytes

    @cached_property
    def own_size(self) -> StateSize | None:
        return self.origin.own_size

    @property
    def extent(self) -> Extent:
        return self.origin.extent

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        own = Predicate({name: (value,) for name, value in self.fixed.items()})
        for column in self.columns:
            values = predicate.of(column.name)
            is_same = column.form is Form.SAME and not column.path
            if values is not None and is_same and column.source not in self.fixed:
                own = own.and_(column.source, values)
        scan = self.origin.plan(own, allow_partial=allow_partial)
        splits = tuple(renamed_split(split, self.columns) for split in scan.splits)
        return replace(scan, schema=self.schema, splits=splits, counter=ScanCounter())


METADATA = "metadata"
_STATE_KEY, _STATE_WINDOW = "state_key", "state_window"
_LIST_INDEX, _LIST_VALUE, _MAP_KEY, _MAP_VALUE = "list_index", "list_value", "map_key", "map_value"
_INTERNAL = frozenset({"merging-window-set"})
_OPERATOR_STATES = {
    readers.StateKind.OPERATOR_LIST: "list",
    readers.StateKind.UNION_LIST: "union",
    readers.StateKind.BROADCAST: "broadcast",
}


class KnownTables(Protocol):
    """The tables of a savepoint by our own names."""

    savepoint: readers.Savepoint
    reference: SavepointReference

    @property
    def operator_names(self) -> dict[str, str]:
        """Operator id → the name of its table."""

    def find(self, name: str) -> Table:
        """Return a table by one of our names."""

    def states_of(self, operator: readers.Operator) -> tuple[TableState, ...]:
        """Return the states of an operator, without its timers."""

    def state_table(self, operator: readers.Operator, number: int) -> StateTable:
        """Return the table of one state."""

    def unread_of(self, operator: readers.Operator) -> tuple[UnreadOperator, ...]:
        """Return the handles of an operator that may hold more keyed state."""

    def uid_of(self, operator: readers.Operator) -> str | None:
        """Return the uid of an operator; None if it is not known."""


class UpstreamTables:
    """The tables of one savepoint, each made when it is first needed.

    Args:
        tables: of the savepoint, by our own names.
    """

    def __init__(self, tables: KnownTables) -> None:
        self._tables = tables
        self._lock = threading.Lock()
        self._metadata: Table | None = None
        self._of_operators: dict[str, dict[str, Table]] = {}

    @property
    def names(self) -> list[str]:
        """Names of all tables; reads the headers of all state files."""
        found = [METADATA]
        for operator in self._tables.savepoint.operators:
            found += (table.name for table in self._tables_of(operator).values())
        return list({name.casefold(): name for name in reversed(found)}.values())[::-1]

    def find(self, name: str) -> Table | None:
        """Return a table by name, in any case; None if there is none. Reads the headers of the operators that the name may mean.

        Raises:
            ReaderError: a file that may hold the state of this name cannot be read.
        """
        folded = name.casefold()
        if folded == METADATA:
            return self._metadata_table()
        operators = self._tables.savepoint.operators
        meant = [one for one in operators if folded.startswith(tuple(self._prefixes(one)))]
        for operator in meant:
            for prefix in self._prefixes(operator):
                if folded.startswith(prefix):
                    found = self._tables_of(operator).get(folded.removeprefix(prefix))
                    if found is not None:
                        return found
        for operator in meant:
            for handle in operator.unread:
                raise handle.error
        return None

    def _prefixes(self, operator: readers.Operator) -> list[str]:
        uid = self._tables.uid_of(operator)
        return [*([f"uid_{uid}_".casefold()] if uid else []), f"id_{operator.operator_id}_"]

    def _metadata_table(self) -> Table:
        with self._lock:
            if self._metadata is None:
                self._metadata = _renamed_facts(self._tables.find("operators"))
            return self._metadata

    def _tables_of(self, operator: readers.Operator) -> dict[str, Table]:
        """Return the tables of an operator by the casefolded ends of their names; engines know a table again by being the same object."""
        known = self._of_operators.get(operator.operator_id)
        if known is not None:
            return known
        uid = self._tables.uid_of(operator)
        prefix = f"uid_{uid}_" if uid else f"id_{operator.operator_id}_"
        made: dict[str, Table] = {}
        for tail, make in self._made(operator):
            if tail.casefold() not in made:
                made[tail.casefold()] = make(prefix + tail)
        with self._lock:
            return self._of_operators.setdefault(operator.operator_id, made)

    def _made(self, operator: readers.Operator) -> Iterator[tuple[str, Callable[[str], Table]]]:
        """Yield the end of the name of each table, and what makes the table from its whole name."""
        states = [known for known in self._tables.states_of(operator) if known.state.parts]
        keyed = [
            known
            for known in states
            if readers.is_keyed(known.state.kind) and known.state.name not in _INTERNAL
        ]
        plain = tuple(known for known in keyed if not _has_window(known.state))
        windowed = tuple(known for known in keyed if _has_window(known.state))
        for group, tail in ((plain, "keyed"), (windowed, "windowed")):
            if group:
                yield tail, self._wide(operator, group)
            for known in group:
                if known.state.kind in (readers.StateKind.LIST, readers.StateKind.MAP):
                    yield f"{known.state.name}_{tail}_flat", self._flat(operator, known)
        for known in states:
            kind = _OPERATOR_STATES.get(known.state.kind)
            if kind is not None:
                yield f"{known.state.name}_{kind}", self._operator_state(operator, known)

    def _wide(self, operator: readers.Operator, states: tuple[TableState, ...]) -> Callable[[str], Table]:
        def make(name: str) -> Table:
            unread = self._tables.unread_of(operator)
            own = self._tables.operator_names[operator.operator_id]
            origin = WideTable(name, own, self._tables.reference, states, lambda: unread)
            schema = origin.schema
            columns = [same(_STATE_KEY, schema.field("key"))]
            if "namespace" in schema.names:
                columns.append(window(_STATE_WINDOW, schema.field("namespace")))
            for known, column in zip(states, origin.columns, strict=True):
                field = schema.field(column.name)
                is_filled = pa.types.is_list(field.type) or pa.types.is_map(field.type)
                is_filled = is_filled and known.state.kind in (readers.StateKind.LIST, readers.StateKind.MAP)
                shown = known.state.name
                columns.append(filled(shown, field, schema) if is_filled else same(shown, field))
            return RenamedTable(name, origin, _distinct(columns))

        return make

    def _flat(self, operator: readers.Operator, known: TableState) -> Callable[[str], Table]:
        def make(name: str) -> Table:
            origin = self._tables.state_table(operator, known.number)
            schema = origin.schema
            columns = [same(_STATE_KEY, schema.field("key"))]
            if _has_window(known.state):
                columns.append(window(_STATE_WINDOW, schema.field("namespace")))
            if known.state.kind is readers.StateKind.LIST:
                columns.append(Column(name=_LIST_INDEX, type=pa.int64(), source="list_index"))
                columns.append(same(_LIST_VALUE, schema.field("value")))
            else:
                columns.append(same(_MAP_KEY, schema.field("map_key")))
                columns.append(same(_MAP_VALUE, schema.field("value")))
            return RenamedTable(name, origin, _distinct(columns))

        return make

    def _operator_state(self, operator: readers.Operator, known: TableState) -> Callable[[str], Table]:
        def make(name: str) -> Table:
            origin = self._tables.state_table(operator, known.number)
            schema = origin.schema
            value = schema.field("value")
            if known.state.kind is readers.StateKind.BROADCAST:
                columns = [same(_MAP_KEY, schema.field("map_key")), same(_MAP_VALUE, value)]
                # Each subtask has a copy: an entry is a row once.
                first = min(part.source.subtask for part in known.state.parts)
                return RenamedTable(name, origin, _distinct(columns), {readers.SUBTASK: first})
            if not pa.types.is_struct(value.type):
                return RenamedTable(name, origin, (same(known.state.name, value),))
            fields = [
                Column(name=field.name, type=field.type, source="value", path=(field.name,))
                for field in value.type
                if field.name != readers.ROW_KIND
            ]
            return RenamedTable(name, origin, _distinct(fields))

        return make


def _has_window(state: readers.State) -> bool:
    entry = state.entry
    return entry is not None and not isinstance(entry.namespace, readers.VoidNamespaceSerializer)


def _distinct(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns; of two of one name only the first, which a state cannot hide."""
    return tuple({column.name.casefold(): column for column in reversed(columns)}.values())[::-1]


def _renamed_facts(operators: Table) -> Table:
    names = [name.replace("_", "-") for name in OPERATORS.names]
    schema = pa.schema([pa.field(name, field.type) for name, field in zip(names, OPERATORS, strict=True)])

    def rows() -> pa.RecordBatch:
        found = operators.plan().to_arrow().combine_chunks().to_batches()
        arrays = found[0].columns if found else [pa.array([], field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return FactsTable(METADATA, operators.comment, schema, rows)
