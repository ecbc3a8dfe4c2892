"""One savepoint or checkpoint: its operators, their states, and the rows of these.

    Savepoint        opens `_metadata`; nothing else is read until it is asked for
      Operator       the headers of its state files tell the states
        State        one state, from all subtasks: schema and parts
          StatePart  what one source has of it; `read()` gives rows

Of a broadcast state every subtask holds the same copy; it is read once, from the lowest subtask that has it. A state that
cannot be decoded is still listed, with the reason in `note`, and shows bytes where the format frames them. A state file
that cannot be opened does not hide the others: the states it may hold part of carry the error, and raise it when read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from readers.connectors.layout import Layout
from readers.connectors.recognition import MAX_BYTES, is_candidate, recognised
from readers.connectors.source import ConnectorSource, bytes_of
from readers.decode.decoder import Batch
from readers.errors import CorruptDataError, MissingFileError, ReaderError
from readers.formats.channelstate.layout import InFlightRecords
from readers.formats.channelstate.source import ChannelSource
from readers.formats.entry import Entry, EntryLayout, StateKind, emit_undivided
from readers.formats.opening import (
    coordinator_source,
    keyed_source,
    master_source,
    operator_source,
    raw_keyed_source,
    raw_operator_source,
)
from readers.formats.prefetch import beginnings
from readers.formats.source import Selection, Source, StateName
from readers.keygroups import key_group_of, operator_id_of
from readers.metadata import KeyGroupRange, OperatorState, SavepointMetadata, SubtaskState, read_metadata
from readers.rows import (
    COUNTED,
    conform,
    counted_rows,
    entry_columns,
    is_keyed,
    is_row,
    merged_type,
    rows,
    shown,
    state_schema,
)
from readers.serializers.base import Serializer
from readers.serializers.named import serializer_named
from readers.serializers.pojo import known_subclasses, with_subclasses
from readers.stateinfo.file import (
    MAX_STATE_INFO_BYTES,
    NOTHING,
    STATE_INFO_FILE_NAME,
    SavepointInfo,
    read_state_info,
)
from readers.stateinfo.refinement import Contradiction, Knowledge, kryo_of
from readers.storage.location import DEFAULT_OPTIONS, ReadCounter, SavepointLocation, StorageOptions

_STREAM_ELEMENT = re.compile(r"StreamElement<(.*)>")
_UNDIVIDED = "native heap snapshots do not tell where entries end: where that is not certain, a row is what stands in a key group"
_FEW_SUBTASKS = 8
DECODED, PARTIAL, RAW = "decoded", "partial", "raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePart:
    """The part of a state in one source."""

    source: Source
    name: StateName
    entry: Entry

    def read(
        self, columns: Iterable[str], schema: pa.Schema, selection: Selection
    ) -> Iterator[pa.RecordBatch]:
        """Its rows, with these columns of `schema` (the whole state's), in the order of that.

        Raises:
            ReaderError: the file contradicts its format, with the state in its breadcrumbs.
        """
        wanted = frozenset(columns)
        own = state_schema(self.entry)
        made = pa.schema([own.field(name) for name in own.names if name in wanted])
        target = pa.schema([schema.field(name) for name in schema.names if name in wanted])
        source, entry = self.source, shown(self.entry, wanted)
        layout = EntryLayout(source.columns(entry), entry_columns(entry, wanted))
        decoder = layout.decoder(
            lambda program, columns: source.emit(program, columns, entry),
            (lambda program, columns: source.emit_undescribed(program, columns, entry))
            if source.frames_values and entry.is_open
            else None,
        )
        undivided = layout.decoder(lambda program, columns: emit_undivided(program, columns, entry))

        def conformed(batch: Batch) -> pa.RecordBatch:
            return _conformed(rows(batch, layout.names, entry, made), target)

        try:
            if COUNTED.issuperset(made.names) and is_row(entry, layout.names):
                counted = counted_rows(source.counts(self.name, selection), source.subtask, made)
                yield from (_conformed(batch, target) for batch in counted)
                return
            for page in source.pages(self.name, selection):
                batches = (undivided if page.undivided else decoder).decode(page)
                yield from map(conformed, batches)
        except ReaderError as error:
            raise error.within(self.name.name, path=self.source.path) from error


@dataclass(frozen=True, kw_only=True)
class State:
    """One state of an operator.

    Attributes:
        operator_id: 32 hex digits.
        name: as registered; of timers, the name of the state that holds them.
        kind: what it is.
        parts: one for each source that has it.
        max_parallelism: the number of key groups.
        failures: the state files that may hold more of it but cannot be opened, with their key groups.
        contradictions: what `stateInfo` says of it and is not so.
    """

    operator_id: str
    name: str
    kind: StateKind
    max_parallelism: int
    parts: tuple[StatePart, ...]
    failures: tuple[tuple[KeyGroupRange | None, ReaderError], ...] = ()
    contradictions: tuple[Contradiction, ...] = ()

    @property
    def entry(self) -> Entry | None:
        """The serializers, as the first part has them; None if no part can be opened."""
        return self.parts[0].entry if self.parts else None

    @property
    def backend(self) -> str:
        """`hashmap`, `rocksdb`, `forst`, `changelog` or `canonical` (one layout for all); empty for operator state."""
        return self.parts[0].source.backend if self.parts and is_keyed(self.kind) else ""

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns; the union of what the parts have (subclasses of a POJO that only some subtasks saw).

        Raises:
            CorruptDataError: the parts contradict each other.
        """
        schemas = [state_schema(part.entry) for part in self.parts]
        merged = {column.name: column.type for column in schemas[0]} if schemas else {}
        for schema in schemas[1:]:
            for column in schema:
                common = merged_type(merged.get(column.name, column.type), column.type)
                if common is None:
                    raise CorruptDataError(
                        f"expected subtasks to agree on the type of {column.name}, found {merged[column.name]} "
                        f"and {column.type}",
                        breadcrumbs=(self.operator_id, self.name),
                    )
                merged[column.name] = common
        return pa.schema(list(merged.items()))

    @property
    def status(self) -> str:
        """`decoded`; `partial` if a part of a value is shown as bytes; `raw` if key or value is."""
        if self.entry is None:
            return RAW
        problems = list(self.entry.problems())
        if any(not problem.sized for problem in problems):
            return RAW
        return PARTIAL if problems else DECODED

    @property
    def note(self) -> str:
        """What is not decoded and why, or which file cannot be opened; empty if all is well."""
        problems = self.entry.problems() if self.entry else ()
        reasons = [f"{'.'.join(problem.path)}: {problem.reason}" for problem in problems]
        if self.status == RAW and not all(part.source.frames_entries for part in self.parts):
            reasons.append(_UNDIVIDED)
        failures = [str(error) for _, error in self.failures]
        return "; ".join(dict.fromkeys([*reasons, *failures, *map(str, self.contradictions)]))

    @property
    def size_bytes(self) -> int:
        """About how many bytes a scan of it reads: of keyed state, the files it shares with other states."""
        return sum(part.source.cost_bytes(part.name) for part in self.parts)

    def key_groups_of(self, keys: Iterable[Any]) -> tuple[tuple[int, Any], ...] | None:
        """(key group, key) of keys; None where the type of the keys does not tell their hash."""
        if self.entry is None or self.entry.key is None:
            return None
        found = []
        for key in keys:
            code = self.entry.key.hash_code(key)
            if code is None:
                return None
            found.append((key_group_of(code, self.max_parallelism), key))
        return tuple(found)

    def check(self, selection: Selection) -> None:
        """Raise the error of a state file that cannot be opened, if the selection may need it.

        Raises:
            ReaderError: that error.
        """
        for key_groups, error in self.failures:
            if key_groups is None or any(map(selection.wants, range(key_groups.start, key_groups.end + 1))):
                raise error

    def read(
        self, columns: Iterable[str] | None = None, selection: Selection | None = None
    ) -> Iterator[pa.RecordBatch]:
        """All rows of all parts, in no particular order.

        Raises:
            ReaderError: a file is missing or contradicts its format.
        """
        selection = selection or Selection()
        self.check(selection)
        names = self.schema.names if columns is None else list(columns)
        for part in self.parts:
            yield from part.read(names, self.schema, selection)


class Operator:
    """One operator of a savepoint.

    Attributes:
        metadata: what `_metadata` says of it.
    """

    def __init__(
        self,
        metadata: OperatorState,
        location: SavepointLocation,
        in_flight: InFlightRecords,
        knowledge: Knowledge,
    ) -> None:
        self.metadata = metadata
        self._location = location
        self._in_flight = in_flight
        self._knowledge = knowledge

    @property
    def operator_id(self) -> str:
        """32 hex digits."""
        return self.metadata.operator_id

    def answers_to(self, name: str) -> bool:
        """Whether `name` is its uid (also where only the hash of it is stored), name or id, in any case."""
        folded = name.casefold()
        known = (self.metadata.uid, self.metadata.name, self.operator_id)
        return any(text is not None and text.casefold() == folded for text in known) or (
            operator_id_of(name) == self.operator_id
        )

    @cached_property
    def states(self) -> tuple[State, ...]:
        """Its states, in the order of their first registration; reads the headers of all its state files."""
        self.read_ahead()
        collector = _Collector(self.metadata, self._knowledge)
        maximum = max(self.metadata.max_parallelism, 1)
        for subtask in sorted(self.metadata.subtasks, key=lambda state: state.index):
            self._collect_subtask(collector, subtask, maximum)
        coordinator = self.metadata.coordinator_state
        if coordinator is not None:
            collector.add(
                StateKind.COORDINATOR, None, lambda: coordinator_source(coordinator, self._location)
            )
        return _typed(collector.states())

    def read_ahead(self) -> None:
        """Have remote state files send their headers, all at the same time; `states` will ask for them."""
        subtasks = sorted(self.metadata.subtasks, key=lambda state: state.index)
        self._location.expect(
            beginning
            for number, subtask in enumerate(subtasks)
            for handle in (subtask.managed_operator_state, subtask.managed_keyed_state)
            if handle is not None
            for beginning in beginnings(handle, first=number == 0, few=len(subtasks) <= _FEW_SUBTASKS)
        )

    def _collect_subtask(self, collector: _Collector, subtask: SubtaskState, maximum: int) -> None:
        location, index = self._location, subtask.index
        operator, raw_operator = subtask.managed_operator_state, subtask.raw_operator_state
        keyed, raw_keyed = subtask.managed_keyed_state, subtask.raw_keyed_state
        if operator is not None and any(True for _ in operator.streams()):
            collector.add(StateKind.OPERATOR_LIST, None, lambda: operator_source(index, operator, location))
        if raw_operator is not None and any(True for _ in raw_operator.streams()):
            collector.add(
                StateKind.RAW_OPERATOR, None, lambda: raw_operator_source(index, raw_operator, location)
            )
        if keyed is not None:
            groups = keyed.key_group_range
            siblings = tuple(
                state.managed_keyed_state for state in self.metadata.subtasks if state.managed_keyed_state
            )
            key = self._stated_key()
            collector.add(
                StateKind.VALUE,
                groups,
                lambda: keyed_source(index, keyed, location, maximum, siblings, key),
            )
        if raw_keyed is not None:
            groups = raw_keyed.key_group_range
            collector.add(StateKind.RAW_KEYED, groups, lambda: raw_keyed_source(index, raw_keyed, location))
        channels = (*subtask.input_channels, *subtask.result_subpartitions)
        if any(handle.channels for handle in channels):
            collector.add(
                StateKind.CHANNEL, None, lambda: ChannelSource(index, self.operator_id, self._in_flight)
            )

    def _stated_key(self) -> Serializer | None:
        """The key's type as `stateInfo` names it."""
        info = self._knowledge.operator
        stated = info.key.type if info and info.key else None
        return serializer_named(stated) if stated else None

    def close(self) -> None:
        """Release the sources that were opened."""
        for state in self.__dict__.get("states", ()):
            for part in state.parts:
                part.source.close()


@dataclass
class _Collector:
    """Gathers the states of one operator over its subtasks; `knowledge` is what its bytes do not say."""

    operator: OperatorState
    knowledge: Knowledge
    contradictions: dict[tuple[StateKind, str], tuple[Contradiction, ...]] = field(default_factory=dict)
    parts: dict[tuple[StateKind, str], list[StatePart]] = field(default_factory=dict)
    failures: dict[StateKind, list[tuple[KeyGroupRange | None, ReaderError]]] = field(default_factory=dict)

    def add(self, family: StateKind, groups: KeyGroupRange | None, open_source: Callable[[], Source]) -> None:
        """Open a source and take its states; if it cannot be opened, keep the error for the states of its family."""
        try:
            source = open_source()
            source.refine(self.knowledge.informed)
            entries = source.entries
        except ReaderError as error:
            self.failures.setdefault(family, []).append((groups, error.within(self.operator.operator_id)))
            return
        for name, entry in entries.items():
            entry, contradictions = self.knowledge.refined(name.name, entry)
            entries[name] = entry
            self.contradictions[entry.kind, name.name] = contradictions
            known = self.parts.setdefault((entry.kind, name.name), [])
            if entry.kind is StateKind.BROADCAST and any(part.source.cost_bytes(part.name) for part in known):
                continue
            known.append(StatePart(source=source, name=name, entry=entry))

    def _share_subclasses(self) -> None:
        """What one subtask or state knows of the subclasses of a POJO, all do."""
        parts = [part for parts in self.parts.values() for part in parts]
        known = known_subclasses(tree for part in parts for tree in part.entry.serializers())
        if known:
            for source in {id(part.source): part.source for part in parts}.values():
                source.refine(lambda tree: with_subclasses(tree, known))
            for key, old in self.parts.items():
                self.parts[key] = [replace(part, entry=part.source.entries[part.name]) for part in old]

    def states(self) -> tuple[State, ...]:
        """The states; families of which no source could be opened are one nameless state each."""
        self._share_subclasses()
        found = [
            State(
                operator_id=self.operator.operator_id,
                name=name,
                kind=kind,
                max_parallelism=max(self.operator.max_parallelism, 1),
                parts=tuple(parts),
                failures=tuple(self.failures.get(_family(kind), ())),
                contradictions=self.contradictions.get((kind, name), ()),
            )
            for (kind, name), parts in self.parts.items()
        ]
        seen = {_family(state.kind) for state in found}
        for family, failures in self.failures.items():
            if family not in seen:
                found.append(
                    State(
                        operator_id=self.operator.operator_id,
                        name=_UNREADABLE[family],
                        kind=family,
                        max_parallelism=max(self.operator.max_parallelism, 1),
                        parts=(),
                        failures=tuple(failures),
                    )
                )
        return tuple(found)


class Savepoint:
    """A savepoint or checkpoint.

    Args:
        path: its directory or its `_metadata`; see `SavepointLocation`.
        roots: more directories that it may refer to.
        path_map: recorded path prefixes → where that is now.
        state_info: what is known beside the bytes; else the file beside `_metadata` says it, if there is one. A file
            that cannot be used does not hide the savepoint: the note of every state tells.
        options: how files are reached.

    Raises:
        NotASavepointError: there is none.
        UnsupportedVersionError: a version that is not known here.
        CorruptDataError: `_metadata` contradicts the format.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        roots: Iterable[str] = (),
        path_map: Mapping[str, str] | None = None,
        counter: ReadCounter | None = None,
        state_info: SavepointInfo | None = None,
        options: StorageOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.location = SavepointLocation(
            path, roots=roots, path_map=path_map, counter=counter, options=options
        )
        if state_info is None:
            self.location.look_beside(STATE_INFO_FILE_NAME)
        with self.location.open_metadata() as stream:
            metadata = read_metadata(stream.view(0, stream.size_bytes).data, stream.path)
        problems: tuple[Contradiction, ...] = ()
        if state_info is None:
            state_info, problems = _state_info_beside(self.location)
        self.state_info = state_info
        self.metadata: SavepointMetadata = _named(metadata, state_info)
        in_flight = InFlightRecords(self.metadata.operators, self.location, _stated_records(state_info))
        known = Knowledge(
            kryo=kryo_of(metadata.version),
            classes=state_info.classes,
            subclasses=state_info.subclasses,
            descriptors=state_info.descriptors,
            problems=problems,
        )
        self.operators = tuple(
            Operator(operator, self.location, in_flight, replace(known, operator=info))
            for operator in self.metadata.operators
            for info in [state_info.operators.get(operator.operator_id)]
        )

    @property
    def path(self) -> str:
        """Its directory."""
        return str(self.location.exclusive_directory)

    def read_ahead(self) -> None:
        """As `Operator.read_ahead`, of all operators."""
        for operator in self.operators:
            operator.read_ahead()

    @cached_property
    def master_states(self) -> tuple[State, ...]:
        """The states of the job manager's hooks."""
        return tuple(
            State(
                operator_id="",
                name=master.name,
                kind=StateKind.MASTER,
                max_parallelism=1,
                parts=tuple(
                    StatePart(source=source, name=name, entry=entry)
                    for source in [master_source(master)]
                    for name, entry in source.entries.items()
                ),
            )
            for master in self.metadata.master_states
        )

    def close(self) -> None:
        """Release what its states hold open."""
        for operator in self.operators:
            operator.close()


def _state_info_beside(location: SavepointLocation) -> tuple[SavepointInfo, tuple[Contradiction, ...]]:
    """What the `stateInfo` beside `_metadata` says, and why it is not used."""
    try:
        with location.open_beside(STATE_INFO_FILE_NAME, MAX_STATE_INFO_BYTES) as stream:
            return read_state_info(bytes(stream.view(0, stream.size_bytes)), stream.path), ()
    except MissingFileError:
        return NOTHING, ()
    except ReaderError as error:
        return NOTHING, (Contradiction(f"the file is not used: {error}"),)


def _named(metadata: SavepointMetadata, info: SavepointInfo) -> SavepointMetadata:
    """The metadata with the uids and names that only `stateInfo` says."""

    def named(operator: OperatorState) -> OperatorState:
        known = info.operators.get(operator.operator_id)
        if known is None:
            return operator
        return replace(operator, uid=operator.uid or known.uid, name=operator.name or known.name)

    return replace(metadata, operators=tuple(map(named, metadata.operators)))


def _stated_records(info: SavepointInfo) -> dict[tuple[str, str], Serializer]:
    """The types of records in flight that `stateInfo` names, as `StreamElement<Long>`."""
    found = {}
    for operator in info.operators.values():
        for state in operator.states:
            stated = state.value.type if state.kind is StateKind.CHANNEL and state.value else None
            element = _STREAM_ELEMENT.fullmatch(stated or "")
            serializer = serializer_named(element[1]) if element else None
            if serializer is not None:
                found[operator.operator_id, state.name] = serializer
    return found


def _typed(states: tuple[State, ...]) -> tuple[State, ...]:
    """The states of an operator; those of connectors whose layout is recognised with typed values."""
    values: dict[str, list[bytes]] = {}
    for state in states:
        if (
            state.entry is not None
            and is_candidate(state.name, state.entry)
            and state.size_bytes <= MAX_BYTES
        ):
            try:
                values[state.name] = [value for part in state.parts for value in _values(part)]
            except ReaderError:
                continue
    layouts = recognised(values)
    return tuple(
        _with_layout(state, layouts[state.name]) if state.name in layouts else state for state in states
    )


def _values(part: StatePart) -> Iterator[bytes]:
    for page in part.source.pages(part.name, Selection()):
        yield from bytes_of(page, part.entry)


def _with_layout(state: State, layout: Layout) -> State:
    sources = [(part.name, ConnectorSource(part.source, part.name, layout)) for part in state.parts]
    parts = tuple(StatePart(source=source, name=name, entry=source.entries[name]) for name, source in sources)
    return replace(state, parts=parts)


def _conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema) or not schema.names:
        return batch
    columns = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
    arrays = [
        conform(columns[column.name], column.type)
        if column.name in columns
        else pa.nulls(batch.num_rows, column.type)
        for column in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _family(kind: StateKind) -> StateKind:
    """The kind that stands for all states of one handle."""
    if is_keyed(kind):
        return StateKind.VALUE
    return StateKind.OPERATOR_LIST if kind in (StateKind.UNION_LIST, StateKind.BROADCAST) else kind


_UNREADABLE = {
    StateKind.VALUE: "(keyed state)",
    StateKind.OPERATOR_LIST: "(operator state)",
    StateKind.RAW_KEYED: "(raw keyed state)",
    StateKind.RAW_OPERATOR: "(raw operator state)",
    StateKind.COORDINATOR: "(coordinator state)",
    StateKind.CHANNEL: "(channel state)",
}
