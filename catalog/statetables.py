"""The tables of one savepoint's states.

| table | rows |
|---|---|
| StateTable | the entries of one state |
| OperatorTable | the entries of all states of an operator, told apart by `state_name` |
| TimersTable | the timers of all operators |
| FactsTable | what is known without reading state: StateMeta, operators, files |

Where several states share a table, a column has their common type, else it is JSON text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from catalog.cache.states import CacheEntry, Chunk, StateCache, StatePlace, entry_footer
from catalog.errors import NoSuchColumnError
from catalog.predicate import ANYTHING, Predicate
from catalog.references import SavepointReference
from catalog.scan import Scan, ScanCounter, Split
from readers import (
    KEY_GROUP,
    OUT_OF_RANGE,
    SUBTASK,
    UNDECODED,
    Savepoint,
    Selection,
    State,
    VoidNamespaceSerializer,
    conform,
    json_text,
    merged_type,
)

STATE_NAME = "state_name"
_SPLIT_BYTES = 32 << 20
_UNIFIED = (
    "key",
    "namespace",
    "value",
    "map_key",
    "list_index",
    "ttl_timestamp",
    UNDECODED,
    OUT_OF_RANGE,
    KEY_GROUP,
    SUBTASK,
)


class Table(ABC):
    """A table of a database.

    Attributes:
        name: as listed.
        comment: what it holds, for people.
    """

    name: str
    comment: str

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Its columns, in order."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """About how many bytes a scan of it reads."""

    @abstractmethod
    def _splits(self, columns: Sequence[str], predicate: Predicate) -> Iterable[Split]: ...

    def scan(
        self,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        expression: pc.Expression | None = None,
        **values: Any,  # key="key_662"
    ) -> Scan:
        """The rows that have the conditions, with these columns of theirs.

        Args:
            columns: all if None.
            predicate: saves reading; may leave rows that do not have it.
            expression: exact.
            **values: column = value, exact: `scan(key="key_662")`.

        Raises:
            NoSuchColumnError: near names in the error.
        """
        names = [self._column(name) for name in (self.schema.names if columns is None else columns)]
        predicate = predicate or ANYTHING
        for given, value in values.items():
            column = self._column(given)
            predicate = predicate.and_(column, (value,))
            same = pc.field(column) == pa.scalar(value, self.schema.field(column).type)
            expression = same if expression is None else expression & same
        needed = [*names, *(name for name in self._named_in(expression) if name not in names)]
        return Scan(
            schema=pa.schema([self.schema.field(name) for name in names]),
            parts=tuple(self._splits(needed, predicate)),
            expression=expression,
            counter=ScanCounter(),
            completed=self._completed(predicate),
        )

    def _completed(self, predicate: Predicate) -> Callable[[float], None]:
        """What is to be done when a scan has ended."""
        return lambda _: None

    def _column(self, name: str) -> str:
        for known in self.schema.names:
            if known.casefold() == name.casefold():
                return str(known)
        raise NoSuchColumnError(name, self.schema.names, self.name)

    def _named_in(self, expression: pc.Expression | None) -> list[str]:
        """The columns an expression may read: those whose names its text has, for expressions cannot be walked."""
        if expression is None:
            return []
        text = str(expression)
        return [name for name in self.schema.names if name in text]


@dataclass(frozen=True, slots=True)
class Output:
    """How a column of a table comes from a state: a column of it, or the field that `path` leads to, as it is or as
    JSON text; or a constant; else null.
    """

    name: str
    type: pa.DataType
    source: str | None = None
    constant: str | None = None
    as_json: bool = False
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StateSplit(Split):
    """A part of a state, by number: what it takes to find it again in another process.

    `exploded` is a column of lists whose elements become rows.
    """

    place: StatePlace
    part: int
    outputs: tuple[Output, ...]
    key_groups: frozenset[int] | None
    keys: tuple[tuple[int, Any], ...] | None
    size_bytes: int
    exploded: str | None = None

    def through(self, savepoint: SavepointReference) -> StateSplit:
        """As `Split.through`."""
        return replace(self, place=replace(self.place, savepoint=savepoint))

    @property
    def order(self) -> tuple[int, int]:
        """As `Split.order`."""
        return self.part, min(self.wanted_key_groups, default=0)

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        """As `Split.read`."""
        state = self.place.state()
        account = (counter or ScanCounter()).add
        selection = Selection(key_groups=self.key_groups, keys=self.keys, account=account)
        state.check(selection)
        rows = state.parts[self.part].read(self.sources, state.schema, selection)
        return map(self.shown, rows)

    @property
    def wanted_key_groups(self) -> frozenset[int]:
        """As `Split.wanted_key_groups`."""
        return self.key_groups or frozenset()

    @property
    def sources(self) -> set[str]:
        """The columns of the state that it needs."""
        sources = {output.source for output in self.outputs if output.source is not None}
        return sources if self.exploded is None else sources | {self.exploded}

    def shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the table from rows of the state."""
        if self.exploded is not None:
            batch = _exploded(batch, self.exploded)
        schema = pa.schema([pa.field(output.name, output.type) for output in self.outputs])
        arrays = [_output(output, batch) for output in self.outputs]
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch


@dataclass(frozen=True, slots=True)
class CachedSplit(Split):
    """A part of a state, from the cache; from the savepoint if the file has been evicted meanwhile.

    Attributes:
        origin: what it stands for.
        path: the file.
        row_groups: of the file.
        cached_bytes: of these.
    """

    origin: StateSplit
    path: Path
    row_groups: tuple[int, ...]
    cached_bytes: int
    size_bytes: int = 0

    @property
    def origin_bytes(self) -> int:
        """As `Split.origin_bytes`."""
        return self.origin.size_bytes

    @property
    def wanted_key_groups(self) -> frozenset[int]:
        """As `Split.wanted_key_groups`."""
        return self.origin.wanted_key_groups

    def through(self, savepoint: SavepointReference) -> StateSplit:
        """As `Split.through`."""
        return self.origin.through(savepoint)

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        """As `Split.read`."""
        try:
            footer = entry_footer(self.path)
            source = pa.OSFile(str(self.path))
        except FileNotFoundError:
            yield from self.origin.read(counter)
            return
        with source, parquet.ParquetFile(source, metadata=footer) as file:
            names = sorted(self.origin.sources) or [SUBTASK]
            for number in self.row_groups:
                rows = file.read_row_group(number, columns=names, use_threads=False)
                if counter is not None:
                    counter.add_cached(_column_bytes(footer.row_group(number), names))
                yield from map(self.origin.shown, rows.to_batches())


@dataclass(frozen=True, slots=True)
class FactsSplit(Split):
    """Rows that are there already."""

    batch: pa.RecordBatch
    size_bytes: int = 0

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        """As `Split.read`."""
        yield self.batch


@dataclass(frozen=True, slots=True)
class StateReference:
    """A state and where it is: the operator and the number among its states."""

    state: State
    number: int
    operator_uid: str | None = None


class StatesTable(Table):
    """A table whose rows come from states; the subclasses say which, and how columns come about."""

    def __init__(
        self,
        name: str,
        comment: str,
        savepoint: SavepointReference,
        references: Callable[[], tuple[StateReference, ...]],
        cache: StateCache | None = None,
    ) -> None:
        self.name = name
        self.comment = comment
        self._savepoint = savepoint
        self._find = references
        self._cache = cache

    @cached_property
    def references(self) -> tuple[StateReference, ...]:
        """The states its rows come from."""
        return self._find()

    @abstractmethod
    def _output(self, column: pa.Field, reference: StateReference) -> Output:
        """How a column comes from a state."""

    @property
    def exploded(self) -> str | None:
        """The states' column of lists whose elements are the rows; None where an entry is a row."""
        return None

    def _wanted(self, reference: StateReference, predicate: Predicate) -> bool:
        """Whether a state may have wanted rows."""
        return True

    @property
    def size_bytes(self) -> int:
        sources = {
            id(part.source): part.source for reference in self.references for part in reference.state.parts
        }
        return sum(source.size_bytes for source in sources.values())

    def _splits(self, columns: Sequence[str], predicate: Predicate) -> Iterator[Split]:
        for reference in self.references:
            if not self._wanted(reference, predicate):
                continue
            outputs = tuple(self._output(self.schema.field(name), reference) for name in columns)
            yield from self._state_splits(reference, outputs, predicate)

    def _keys(self, state: State, predicate: Predicate) -> tuple[tuple[int, Any], ...] | None:
        """The wanted keys and their key groups; None where they cannot be told: keys are shown as JSON text, say."""
        keys = predicate.of("key")
        if keys is None or "key" not in state.schema.names:
            return None
        shown, own = self.schema.field("key").type, state.schema.field("key").type
        return state.key_groups_of(keys) if shown.equals(own) or not pa.types.is_string(shown) else None

    def _state_splits(
        self, reference: StateReference, outputs: tuple[Output, ...], predicate: Predicate
    ) -> Iterator[Split]:
        state, place = reference.state, self.place(reference)
        keys = self._keys(state, predicate)
        groups = _key_groups(predicate, keys)
        subtasks = predicate.of(SUBTASK)
        state.check(Selection(key_groups=groups))
        wanted = [part.source.subtask for part in state.parts]
        parts = {number for number, subtask in enumerate(wanted) if subtasks is None or subtask in subtasks}

        def split(part: int, key_groups: frozenset[int] | None, size_bytes: int) -> StateSplit:
            return StateSplit(
                place=place,
                part=part,
                outputs=outputs,
                key_groups=key_groups,
                keys=keys,
                size_bytes=size_bytes,
                exploded=self.exploded,
            )

        entry = self._cache.find(place, state) if self._cache and parts else None
        if entry is not None:
            sizes = {
                number: dict(state.parts[number].source.key_group_bytes(state.parts[number].name) or ())
                for number in parts
            }
            for chunk, key_groups, row_groups in _cached_chunks(entry, parts, groups):
                size_bytes = sum(sizes[chunk.part][group] for group in key_groups)
                yield CachedSplit(
                    origin=split(chunk.part, key_groups, size_bytes),
                    path=entry.path,
                    row_groups=row_groups,
                    cached_bytes=sum(entry.row_group_bytes[number] for number in row_groups),
                )
            return
        for number in sorted(parts):
            part = state.parts[number]
            for chosen, size_bytes in _chunks(part.source.key_group_bytes(part.name), groups):
                yield split(number, chosen, size_bytes)

    def _completed(self, predicate: Predicate) -> Callable[[float], None]:
        cache = self._cache
        if cache is None or not predicate.values.keys().isdisjoint(("key", KEY_GROUP, SUBTASK)):
            return lambda _: None

        def scanned(elapsed_s: float) -> None:
            for reference in self.references:
                if self._wanted(reference, predicate):
                    cache.scanned(self.place(reference), reference.state, elapsed_s)

        return scanned

    def place(self, reference: StateReference) -> StatePlace:
        """Where a state is, for its splits and the cache."""
        state = reference.state
        return StatePlace(self._savepoint, state.operator_id, reference.number, state.name, len(state.parts))


class StateTable(StatesTable):
    """The entries of one state, fully typed."""

    @cached_property
    def schema(self) -> pa.Schema:
        return self.references[0].state.schema

    def _output(self, column: pa.Field, reference: StateReference) -> Output:
        return Output(column.name, column.type, source=column.name)


class OperatorTable(StatesTable):
    """The entries of all states of an operator but its timers."""

    @cached_property
    def schema(self) -> pa.Schema:
        schemas = [_own_schema(reference.state) for reference in self.references if reference.state.parts]
        unified = dict(_unified(schemas, _UNIFIED))
        always = {name: unified.pop(name, pa.string()) for name in ("key", "namespace", "value")}
        return pa.schema([(STATE_NAME, pa.string()), *(always | unified).items()])

    def _wanted(self, reference: StateReference, predicate: Predicate) -> bool:
        names = predicate.of(STATE_NAME)
        return names is None or reference.state.name in names

    def _output(self, column: pa.Field, reference: StateReference) -> Output:
        if column.name == STATE_NAME:
            return Output(column.name, column.type, constant=reference.state.name)
        return _from(column, _own_schema(reference.state))


class TimersTable(StatesTable):
    """The timers of all operators."""

    @cached_property
    def schema(self) -> pa.Schema:
        schemas = [_own_schema(reference.state) for reference in self.references]
        facts = [
            (name, pa.string()) for name in ("operator_id", "operator_uid", "timer_service", "time_domain")
        ]
        unified = dict(_unified(schemas, ("key", "namespace", "timestamp", OUT_OF_RANGE, KEY_GROUP, SUBTASK)))
        defaults = {"key": pa.string(), "namespace": pa.string(), "timestamp": pa.timestamp("ms")}
        numbers = {KEY_GROUP: pa.int32(), SUBTASK: pa.int32()}
        return pa.schema([*facts, *(defaults | numbers | unified).items()])

    def _wanted(self, reference: StateReference, predicate: Predicate) -> bool:
        facts = self._facts(reference)
        return all(
            predicate.of(name) is None or fact in (predicate.of(name) or ()) for name, fact in facts.items()
        )

    def _output(self, column: pa.Field, reference: StateReference) -> Output:
        facts = self._facts(reference)
        if column.name in facts:
            return Output(column.name, column.type, constant=facts[column.name])
        return _from(column, _own_schema(reference.state))

    def _facts(self, reference: StateReference) -> dict[str, str | None]:
        domain, service = timer_service_of(reference.state.name)
        return {
            "operator_id": reference.state.operator_id,
            "operator_uid": reference.operator_uid,
            "timer_service": service,
            "time_domain": domain,
        }


class FactsTable(Table):
    """A table that is known without reading state; made when first asked for."""

    def __init__(
        self, name: str, comment: str, schema: pa.Schema, make: Callable[[], pa.RecordBatch]
    ) -> None:
        self.name = name
        self.comment = comment
        self._schema = schema
        self._make = make

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def size_bytes(self) -> int:
        return 0

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """Its rows."""
        return self._make()

    def _splits(self, columns: Sequence[str], predicate: Predicate) -> Iterator[Split]:
        yield FactsSplit(self.batch.select(list(columns)))


def timer_service_of(state_name: str) -> tuple[str, str]:
    """(time domain, timer service) of a timer state: `_timer_state/event_user-timers`."""
    _, _, rest = state_name.rpartition("/")
    domain, _, service = rest.partition("_")
    return domain.upper(), service or rest


def states_of(savepoint: Savepoint, operator_id: str) -> tuple[State, ...]:
    """The states of an operator."""
    return next(known.states for known in savepoint.operators if known.operator_id == operator_id)


def _key_groups(predicate: Predicate, keys: tuple[tuple[int, Any], ...] | None) -> frozenset[int] | None:
    """The key groups that a predicate leaves; None for all."""
    groups = None if keys is None else frozenset(group for group, _ in keys)
    asked = predicate.of(KEY_GROUP)
    if asked is None:
        return groups
    return frozenset(asked) if groups is None else groups & frozenset(asked)


def _cached_chunks(
    entry: CacheEntry, parts: Set[int], wanted: frozenset[int] | None
) -> Iterator[tuple[Chunk, frozenset[int], tuple[int, ...]]]:
    """The chunks of a cached state that may have wanted rows, with their key groups and row groups that may."""
    for chunk in entry.chunks:
        groups = chunk.key_groups if wanted is None else chunk.key_groups & wanted
        row_groups = chunk.row_groups_of(wanted)
        if chunk.part in parts and groups and row_groups:
            yield chunk, groups, row_groups


def _column_bytes(row_group: Any, names: Sequence[str]) -> int:
    """Bytes of these columns in a row group of a file."""
    columns = map(row_group.column, range(row_group.num_columns))
    return sum(
        column.total_compressed_size for column in columns if column.path_in_schema.partition(".")[0] in names
    )


def _chunks(
    sizes: list[tuple[int, int]] | None, wanted: frozenset[int] | None
) -> Iterator[tuple[frozenset[int] | None, int]]:
    """Key groups in chunks of about `_SPLIT_BYTES`: (key groups, bytes). `sizes` is None where there are none."""
    if sizes is None:
        yield None, 0
        return
    chosen: list[int] = []
    size_bytes = 0
    for group, size in sizes:
        if wanted is not None and group not in wanted:
            continue
        if chosen and size_bytes + size > _SPLIT_BYTES:
            yield frozenset(chosen), size_bytes
            chosen, size_bytes = [], 0
        chosen.append(group)
        size_bytes += size
    if chosen:
        yield frozenset(chosen), size_bytes


def _unified(schemas: list[pa.Schema], order: tuple[str, ...]) -> Iterator[tuple[str, pa.DataType]]:
    """The columns that any of the schemas has, with their common type, JSON text if they have none."""
    for name in order:
        types = [schema.field(name).type for schema in schemas if name in schema.names]
        if types:
            yield name, _common_type(types)


def _own_schema(state: State) -> pa.Schema:
    """A state's columns without a namespace that is always null, which fits any type."""
    entry, schema = state.entry, state.schema
    if entry is not None and isinstance(entry.namespace, VoidNamespaceSerializer):
        return schema.remove(schema.get_field_index("namespace"))
    return schema


def _common_type(types: list[pa.DataType]) -> pa.DataType:
    common = types[0]
    for other in types[1:]:
        merged = merged_type(common, other) or _wider(common, other)
        if merged is None:
            return pa.string()
        common = merged
    return common


def _wider(first: pa.DataType, second: pa.DataType) -> pa.DataType | None:
    """The wider of two integer or of two float types."""
    for test in (pa.types.is_integer, pa.types.is_floating):
        if test(first) and test(second):
            return first if first.bit_width >= second.bit_width else second
    return None


def _from(column: pa.Field, schema: pa.Schema) -> Output:
    """A unified column from a state's own."""
    if column.name not in schema.names:
        return Output(column.name, column.type)
    own = schema.field(column.name).type
    needs_json = pa.types.is_string(column.type) and not pa.types.is_string(own)
    return Output(column.name, column.type, source=column.name, as_json=needs_json)


def _output(output: Output, batch: pa.RecordBatch) -> pa.Array:
    if output.constant is not None:
        return pa.repeat(pa.scalar(output.constant, output.type), batch.num_rows)
    if output.source is None:
        return pa.nulls(batch.num_rows, output.type)
    array = batch.column(batch.schema.get_field_index(output.source))
    for name in output.path:
        array = pc.struct_field(array, name)
    return json_text(array) if output.as_json else conform(array, output.type)


def _exploded(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """A row an element of the lists in a column, with its `list_index`."""
    lists = batch.column(batch.schema.get_field_index(name))
    parents = pc.list_parent_indices(lists)
    columns = {
        column: batch.column(index).take(parents)
        for index, column in enumerate(batch.schema.names)
        if column != name
    }
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_pylist()
    indexes = pa.array([index for length in lengths for index in range(length)], pa.int32())
    return pa.RecordBatch.from_pydict(columns | {name: pc.list_flatten(lists), "list_index": indexes})
