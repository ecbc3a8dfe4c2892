"""The tables whose rows come from states.

| table | rows |
|---|---|
| StateTable | the entries of one state |
| OperatorTable | the entries of all states of an operator, each with its `state_name` |
| TimersTable | the timers of all operators |

Where several states share a table, a column has their common type, else it is JSON text. A row without fields has no common type
with rows of fields.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog.cache.states import CacheEntry, CacheFile, CacheUse, Chunk, StateCache
from catalog.references import SavepointReference, StateReference, open_savepoint
from catalog.scan import ANYTHING, CachedSplit, Output, Predicate, Scan, Split, StateSplit
from catalog.table import Extent, Table
from readers import (
    KEY_GROUP,
    OUT_OF_RANGE,
    ROW_KIND,
    SUBTASK,
    UNDECODED,
    ReaderError,
    Selection,
    State,
    StateSize,
    UnreadHandle,
    VoidNamespaceSerializer,
    key_group_chunks,
    merged_type,
)

if TYPE_CHECKING:
    from catalog.masks.columns import ColumnNames

STATE_NAME = "state_name"
# As much as the chunks of cache entries have (`CHUNK_BYTES`), so that a chunk and a split stand for each other.
SPLIT_BYTES = 32 << 20
# Key groups of so many bytes are walked, or asked, for keys on this machine in less time than the cache decodes their row groups.
_WALKED_BYTES = SPLIT_BYTES
_UNIFIED = (
    "key", "namespace", "value", "map_key", "list_index", "ttl_timestamp", UNDECODED, OUT_OF_RANGE,
    KEY_GROUP, SUBTASK,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableState:
    """A state of a table.

    Attributes:
        state: the state.
        number: among the states of its operator.
        operator_uid: of its operator; None if unknown.
        names: by which masks know its columns; None without masks.
    """

    state: State
    number: int
    operator_uid: str | None = None
    names: ColumnNames | None = None


@dataclass(frozen=True, slots=True)
class UnreadOperator:
    """Handles of an operator that cannot be opened: which states they hold is not known.

    Attributes:
        operator_id: of the operator.
        operator_uid: of the operator; None if unknown.
        handles: the handles.
    """

    operator_id: str
    operator_uid: str | None
    handles: tuple[UnreadHandle, ...]


@dataclass(eq=False)
class StatesTable(Table):
    """A table whose rows come from states. The subclasses choose the states, and how columns come from them.

    Attributes:
        savepoint: that the states are in.
        find: returns the states; called once, when they are first needed.
        cache: of decoded states; None for none.
        find_unread: returns the handles that may hold more states of the table; called once, with `find`.
    """

    name: str
    comment: str
    savepoint: SavepointReference
    find: Callable[[], tuple[TableState, ...]]
    cache: StateCache | None = None
    find_unread: Callable[[], tuple[UnreadOperator, ...]] = tuple
    _outputs: dict[tuple[str, int], tuple[Output, ...]] = field(default_factory=dict, init=False)
    exploded: str | None = field(default=None, init=False)

    @cached_property
    def states(self) -> tuple[TableState, ...]:
        """States that its rows come from."""
        return self.find()

    @cached_property
    def unread(self) -> tuple[UnreadOperator, ...]:
        """Operators of which some states may be unknown."""
        return self.find_unread()

    @cached_property
    def unquoted(self) -> frozenset[str]:
        known = [state.state.unquoted for state in self.states]
        return frozenset.intersection(*known) if known else frozenset()

    @abstractmethod
    def _output(self, column: pa.Field, state: TableState) -> Output:
        """Return how a column comes from a state."""

    def outputs(self, state: TableState) -> tuple[Output, ...]:
        """Return how its columns come from a state, in order."""
        # Neither changes, and each scan asks.
        place = state.state.operator_id, state.number
        found = self._outputs.get(place)
        if found is None:
            found = self._outputs[place] = tuple(self._output(column, state) for column in self.schema)
        return found

    def may_have_rows(self, state: TableState, predicate: Predicate) -> bool:
        """Return whether a state may have wanted rows."""
        return True

    @cached_property
    def size_bytes(self) -> int:
        # States of one operator share their sources: each counts once.
        sources = {id(part.source): part.source for known in self.states for part in known.state.parts}
        return sum(source.size_bytes for source in sources.values())

    @cached_property
    def own_size(self) -> StateSize:
        return StateSize.of_all(known.state.own_size for known in self.states)

    @property
    def extent(self) -> Extent:
        # A scan of the cache has its chunks as splits.
        splits = 0
        for known, extent in zip(self.states, self._extents, strict=True):
            entry = self.cache.find(self.reference(known).unmasked, known.state) if self.cache else None
            splits += extent.splits if entry is None else len(entry.chunks)
        return Extent(
            splits=splits,
            key_groups=len(self._all_key_groups),
            size_bytes=sum(extent.size_bytes for extent in self._extents),
        )

    @cached_property
    def _extents(self) -> tuple[Extent, ...]:
        """The extent of each state in the savepoint: sums of what its headers say, which do not change."""
        return tuple(_extent_of(known.state) for known in self.states)

    @cached_property
    def _all_key_groups(self) -> frozenset[int]:
        return frozenset(
            group
            for known in self.states
            for part in known.state.parts
            for group, _ in part.source.key_group_bytes(part.name) or ()
        )

    @cached_property
    def _whole_splits(self) -> dict[StateReference, tuple[CacheEntry, tuple[CachedSplit, ...]]]:
        """The last entry of each state, with the splits of all its rows: the next query of a dashboard has the same."""
        return {}

    def reference(self, state: TableState) -> StateReference:
        """Return what finds a state again in another process."""
        known = state.state
        return StateReference(
            self.savepoint, known.operator_id, state.number, known.name, len(known.parts), state.names
        )

    def _visible(self, predicate: Predicate) -> Predicate:
        """Return the conditions on columns that show what they hold: those on masked columns choose among masks."""
        if self.savepoint.masks is None:
            return predicate
        hidden = set[str]()
        for known in self.states:
            masked = self.reference(known).masked
            assert masked is not None
            hidden |= {
                output.name
                for output in self.outputs(known)
                if output.source is not None and (masked.needs_all_rows or masked.hides(output.source))
            }
        return Predicate({name: values for name, values in predicate.values.items() if name not in hidden})

    def _may_miss_rows(self, operator: UnreadOperator, predicate: Predicate) -> bool:
        """Return whether a state of which no header can be read may have wanted rows."""
        return True

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        predicate = self._visible(predicate)
        wanted = [state for state in self.states if self.may_have_rows(state, predicate)]
        unread, damages = self._unreadable(wanted, predicate, allow_partial=allow_partial)
        splits = tuple(
            split for state in wanted for split in self._splits(state, predicate, allow_partial, damages)
        )
        if self.savepoint.masks is not None:
            splits = self.savepoint.masks.mixed(splits)
        use = None
        if self.cache is not None:
            use = CacheUse(
                cache=self.cache,
                states=tuple(self.reference(known).unmasked for known in wanted),
                reads_whole_states=self._reads_whole_states(predicate),
            )
        # The file of the cache has the values themselves.
        is_one = len(wanted) == 1 and not unread and self.savepoint.masks is None
        cached = _cached_file(wanted[0].state.schema, splits) if is_one else None
        return Scan(schema=self.schema, splits=splits, cache_use=use, unread=unread, cached=cached)

    def _unreadable(
        self, wanted: Sequence[TableState], predicate: Predicate, *, allow_partial: bool
    ) -> tuple[tuple[ReaderError, ...], Mapping[int, ReaderError]]:
        """Return the errors of files that may hold wanted rows, and the id of each source that lacks files with its error.

        Raises:
            ReaderError: a file cannot be opened, unless `allow_partial`.
        """
        predicate = self._visible(predicate)
        unread = tuple(dict.fromkeys(self._failures(wanted, predicate)))
        if unread and not allow_partial:
            raise unread[0]
        # An executor of another engine cannot tell of a file that it misses: what is known to lack files is not sent there.
        damages = _damages(wanted) if allow_partial else {}
        return tuple(dict.fromkeys((*unread, *self._damages_of(wanted, predicate, damages)))), damages

    def check(self, known: TableState, predicate: Predicate) -> None:
        """Raise the error of a file that cannot be opened or lacks others, if it may hold wanted rows of a state.

        Raises:
            ReaderError: the error of the first such file.
        """
        predicate = self._visible(predicate)
        for error in (
            *self._failures([known], predicate),
            *self._damages_of([known], predicate, _damages([known])),
        ):
            raise error

    def whole_split(self, known: TableState, predicate: Predicate) -> StateSplit:
        """Return one split of all parts of a state, for a reader that takes the parts from it; it reads no cache."""
        predicate = self._visible(predicate)
        keys = self._keys(known.state, predicate)
        return StateSplit(
            reference=self.reference(known),
            part=_ALL_PARTS,
            outputs=self.outputs(known),
            key_groups=_key_groups(predicate, keys),
            keys=keys,
            size_bytes=0,
            exploded=self.exploded,
        )

    def _failures(self, wanted: Sequence[TableState], predicate: Predicate) -> Iterator[ReaderError]:
        """Yield the errors of files that cannot be opened; a file counts only if it may hold wanted rows."""
        for known in wanted:
            # To hash the keys of a lookup takes long enough to do it once only, for the splits.
            if known.state.unread:
                groups = self._wanted_groups(known.state, predicate)
                yield from known.state.failures(Selection(key_groups=groups))
        for operator in self.unread:
            if self._may_miss_rows(operator, predicate):
                # All keyed states of an operator have the same keys.
                own = [one.state for one in self.states if one.state.operator_id == operator.operator_id]
                keyed = next((state for state in own if "key" in state.schema.names), None)
                groups = self._wanted_groups(keyed, predicate) if keyed else _key_groups(predicate, None)
                selection = Selection(key_groups=groups)
                yield from (handle.error for handle in operator.handles if handle.may_hold(selection))

    def _damages_of(
        self, wanted: Sequence[TableState], predicate: Predicate, damages: Mapping[int, ReaderError]
    ) -> Iterator[ReaderError]:
        """Yield the errors of opened parts that lack files; a part counts only if it may hold wanted rows."""
        if not damages:
            return
        subtasks = predicate.of(SUBTASK)
        for known in wanted:
            groups = self._wanted_groups(known.state, predicate)
            for part in known.state.parts:
                if subtasks is not None and part.source.subtask not in subtasks:
                    continue
                own = part.source.key_group_range
                is_wanted = (
                    own is None or groups is None or any(own.start <= group <= own.end for group in groups)
                )
                if is_wanted and id(part.source) in damages:
                    yield damages[id(part.source)]

    def _wanted_groups(self, state: State, predicate: Predicate) -> frozenset[int] | None:
        return _key_groups(predicate, self._keys(state, predicate))

    def _reads_whole_states(self, predicate: Predicate) -> bool:
        """Return whether a scan reads all rows of its states."""
        return predicate.values.keys().isdisjoint(("key", KEY_GROUP, SUBTASK))

    def _keys(self, state: State, predicate: Predicate) -> tuple[tuple[int, Any], ...] | None:
        """Return the wanted keys with their key groups; None if unknown, as where keys are shown as JSON text."""
        keys = predicate.of("key")
        if keys is None or "key" not in state.schema.names:
            return None
        # A key that is shown as JSON text cannot be hashed as Flink hashed it, unless it is a text itself.
        shown, own = self.schema.field("key").type, state.schema.field("key").type
        return state.key_groups_of(keys) if shown.equals(own) or not pa.types.is_string(shown) else None

    def _is_quick(self, state: State, groups: frozenset[int] | None) -> bool:
        """Return whether keys of these key groups are found faster in the savepoint than in the cache."""
        wanted = (
            size_bytes
            for part in state.parts
            for group, size_bytes in part.source.key_group_bytes(part.name) or ()
            if groups is None or group in groups
        )
        return sum(wanted) <= _WALKED_BYTES and open_savepoint(self.savepoint).location.is_local

    def _splits(
        self,
        known: TableState,
        predicate: Predicate,
        may_be_partial: bool,
        damages: Mapping[int, ReaderError],
    ) -> Iterator[Split]:
        """Yield the splits of a state that may have wanted rows, from the cache if the state is there.

        Args:
            known: the state.
            predicate: of the query.
            may_be_partial: whether an error ends a split, and no more.
            damages: id of a source that lacks files → the error; its parts have no splits.
        """
        state, reference = known.state, self.reference(known)
        outputs = self.outputs(known)
        keys = self._keys(state, predicate)
        groups = _key_groups(predicate, keys)
        subtasks = predicate.of(SUBTASK)
        wanted = [part.source.subtask for part in state.parts]
        parts = {
            number
            for number, subtask in enumerate(wanted)
            if (subtasks is None or subtask in subtasks) and id(state.parts[number].source) not in damages
        }

        def split(part: int, key_groups: frozenset[int] | None, size_bytes: int) -> StateSplit:
            return StateSplit(
                reference=reference,
                part=part,
                outputs=outputs,
                key_groups=key_groups,
                keys=keys,
                size_bytes=size_bytes,
                exploded=self.exploded,
                may_be_partial=may_be_partial,
            )

        entry = None
        if self.cache is not None and parts:
            self.cache.remember(reference.unmasked, lambda: state)
            if keys is None or not self._is_quick(state, groups):
                entry = self.cache.find(reference.unmasked, state)
        if entry is not None:
            is_whole = (
                keys is None and groups is None and len(parts) == len(state.parts) and not may_be_partial
            )
            kept = self._whole_splits.get(reference) if is_whole else None
            if kept is None or kept[0] is not entry:
                kept = entry, tuple(_cached_splits(entry, state, parts, groups, split))
                if is_whole:
                    self._whole_splits[reference] = kept
            yield from kept[1]
            return
        for number in sorted(parts):
            part = state.parts[number]
            for chosen, size_bytes in divided(part.source.key_group_bytes(part.name), groups):
                yield split(number, chosen, size_bytes)


_ALL_PARTS = -1


class StateTable(StatesTable):
    """The entries of one state, fully typed."""

    @cached_property
    def schema(self) -> pa.Schema:
        return self.states[0].state.schema

    def _output(self, column: pa.Field, state: TableState) -> Output:
        return Output(column.name, column.type, source=column.name)


class OperatorTable(StatesTable):
    """The entries of all states of an operator except its timers."""

    @cached_property
    def schema(self) -> pa.Schema:
        unified = unified_columns([known.state for known in self.states if known.state.parts], _UNIFIED)
        # Queries over any operator may name these three, also where no state has them.
        always = {name: unified.pop(name, pa.string()) for name in ("key", "namespace", "value")}
        return pa.schema([(STATE_NAME, pa.string()), *(always | unified).items()])

    def may_have_rows(self, state: TableState, predicate: Predicate) -> bool:
        return predicate.admits({STATE_NAME: state.state.name})

    def _may_miss_rows(self, operator: UnreadOperator, predicate: Predicate) -> bool:
        names = predicate.of(STATE_NAME)
        # Known states have these handles themselves, with the key groups that their own keys leave.
        return names is None or not {known.state.name for known in self.states}.issuperset(names)

    def _output(self, column: pa.Field, state: TableState) -> Output:
        if column.name == STATE_NAME:
            return Output(column.name, column.type, constant=state.state.name)
        return unified_output(column, state.state)


class TimersTable(StatesTable):
    """The timers of all operators."""

    @cached_property
    def schema(self) -> pa.Schema:
        facts = [
            (name, pa.string()) for name in ("operator_id", "operator_uid", "timer_service", "time_domain")
        ]
        names = ("key", "namespace", "timestamp", OUT_OF_RANGE, KEY_GROUP, SUBTASK)
        unified = unified_columns([known.state for known in self.states], names)
        defaults = {"key": pa.string(), "namespace": pa.string(), "timestamp": pa.timestamp("ms")}
        numbers = {KEY_GROUP: pa.int32(), SUBTASK: pa.int32()}
        return pa.schema([*facts, *(defaults | numbers | unified).items()])

    def may_have_rows(self, state: TableState, predicate: Predicate) -> bool:
        return predicate.admits(self._facts(state))

    def _may_miss_rows(self, operator: UnreadOperator, predicate: Predicate) -> bool:
        return predicate.admits({"operator_id": operator.operator_id, "operator_uid": operator.operator_uid})

    def _output(self, column: pa.Field, state: TableState) -> Output:
        facts = self._facts(state)
        if column.name in facts:
            return Output(column.name, column.type, constant=facts[column.name])
        return unified_output(column, state.state)

    def _facts(self, state: TableState) -> dict[str, str | None]:
        domain, service = timer_service_of(state.state.name)
        return {
            "operator_id": state.state.operator_id,
            "operator_uid": state.operator_uid,
            "timer_service": service,
            "time_domain": domain,
        }


def timer_service_of(state_name: str) -> tuple[str, str]:
    """Return (time domain, timer service) of a timer state: `_timer_state/event_user-timers`."""
    _, _, rest = state_name.rpartition("/")
    domain, _, service = rest.partition("_")
    return domain.upper(), service or rest


def _damages(states: Iterable[TableState]) -> dict[int, ReaderError]:
    """Return the id of each source that is open and lacks files, with the error."""
    sources = {id(part.source): part.source for known in states for part in known.state.parts}
    return {number: error for number, source in sources.items() if (error := source.damage()) is not None}


def _key_groups(predicate: Predicate, keys: tuple[tuple[int, Any], ...] | None) -> frozenset[int] | None:
    """Return the key groups that a predicate leaves; None for all."""
    groups = None if keys is None else frozenset(group for group, _ in keys)
    asked = predicate.of(KEY_GROUP)
    if asked is None:
        return groups
    return frozenset(asked) if groups is None else groups & frozenset(asked)


def _cached_splits(
    entry: CacheEntry,
    state: State,
    parts: Set[int],
    wanted: frozenset[int] | None,
    origin: Callable[[int, frozenset[int] | None, int], StateSplit],
) -> Iterator[CachedSplit]:
    """Yield the splits of a cached state that may have wanted rows, each with the split of the savepoint that it replaces."""
    sizes = {
        number: dict(state.parts[number].source.key_group_bytes(state.parts[number].name) or ())
        for number in parts
    }
    for chunk, key_groups, row_groups in _cached_chunks(entry, parts, wanted):
        size_bytes = sum(sizes[chunk.part][group] for group in key_groups)
        yield CachedSplit(
            origin=origin(chunk.part, key_groups, size_bytes),
            file=entry.file,
            row_groups=row_groups,
            cached_bytes=sum(entry.row_group_bytes[number] for number in row_groups),
        )


def _cached_chunks(
    entry: CacheEntry, parts: Set[int], wanted: frozenset[int] | None
) -> Iterator[tuple[Chunk, frozenset[int], tuple[int, ...]]]:
    """Yield the chunks of a cached state that may have wanted rows, with their wanted key groups and row groups."""
    for chunk in entry.chunks:
        groups = chunk.key_groups if wanted is None else chunk.key_groups & wanted
        row_groups = chunk.row_groups_of(wanted)
        if chunk.part in parts and groups and row_groups:
            yield chunk, groups, row_groups


def _cached_file(schema: pa.Schema, splits: Sequence[Split]) -> CacheFile | None:
    """Return the file that has all rows of the splits of a state and no others, in the same columns; None if there is none."""
    cached = [split for split in splits if isinstance(split, CachedSplit)]
    if not cached or len(cached) < len(splits):
        return None
    file, origin = cached[0].file, cached[0].origin
    if sum(len(split.row_groups) for split in cached) < file.row_groups or origin.exploded is not None:
        return None
    same = (Output(field.name, field.type, source=field.name) for field in schema)
    return file if origin.outputs == tuple(same) else None


def _extent_of(state: State) -> Extent:
    sizes = [part.source.key_group_bytes(part.name) for part in state.parts]
    return Extent(
        splits=sum(1 for part in sizes for _ in divided(part, None)),
        key_groups=len({group for part in sizes for group, _ in part or ()}),
        size_bytes=sum(size for part in sizes for _, size in part or ()),
    )


def divided(
    sizes: list[tuple[int, int]] | None, wanted: frozenset[int] | None, split_bytes: int = SPLIT_BYTES
) -> Iterator[tuple[frozenset[int] | None, int]]:
    """Yield (key groups, bytes) for splits of about `split_bytes`. `sizes` is None where there are no key groups."""
    # Operator state has no key groups: each part is one split, and counts as no bytes.
    if sizes is None:
        yield None, 0
        return
    yield from key_group_chunks(
        ((group, size) for group, size in sizes if wanted is None or group in wanted), split_bytes
    )


def unified_columns(states: Sequence[State], order: tuple[str, ...]) -> dict[str, pa.DataType]:
    """Return those of some columns that any of the states has, with their common type, JSON text if they have none."""
    schemas = [_own_schema(state) for state in states]
    found = {name: [schema.field(name).type for schema in schemas if name in schema.names] for name in order}
    return {name: common_type(types) for name, types in found.items() if types}


def unified_output(column: pa.Field, state: State) -> Output:
    """Return how a column of `unified_columns` comes from a state's own."""
    schema = _own_schema(state)
    if column.name not in schema.names:
        return Output(column.name, column.type)
    own = schema.field(column.name).type
    needs_json = pa.types.is_string(column.type) and not pa.types.is_string(own)
    return Output(column.name, column.type, source=column.name, as_json=needs_json)


def _own_schema(state: State) -> pa.Schema:
    """Return a state's columns without a namespace that is always null, which fits any type."""
    entry, schema = state.entry, state.schema
    if entry is not None and isinstance(entry.namespace, VoidNamespaceSerializer):
        return schema.remove(schema.get_field_index("namespace"))
    return schema


def common_type(types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type that values of all these types can have without a loss: JSON text if there is no other."""
    common = types[0]
    # A row without fields would be a row of NULLs beside one with fields.
    if len({any(field.name != ROW_KIND for field in kind) for kind in types if pa.types.is_struct(kind)}) > 1:
        return pa.string()
    # Not every pair has a common type that loses nothing (INT and STRING); JSON text can hold any.
    for other in types[1:]:
        merged = merged_type(common, other) or _wider(common, other)
        if merged is None:
            return pa.string()
        common = merged
    return common


def _wider(first: pa.DataType, second: pa.DataType) -> pa.DataType | None:
    """Return the wider of two integer or of two float types; None for other types."""
    for test in (pa.types.is_integer, pa.types.is_floating):
        if test(first) and test(second):
            return first if first.bit_width >= second.bit_width else second
    return None
