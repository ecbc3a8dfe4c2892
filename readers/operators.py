"""One operator of a savepoint: opens its handles, and collects their states over all subtasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from readers.errors import LeftOverError, ReaderError, located
from readers.formats.entry import Entry, StateKind
from readers.formats.inflight import InFlightRecords
from readers.formats.opener import OpeningContext, framed, opener_of
from readers.formats.source import Selection, Source, StateName
from readers.keygroups import operator_id_of
from readers.metadata import OperatorState, StateObject, StateRole, SubtaskState
from readers.serializers.base import Serializer, nodes
from readers.serializers.named import serializer_named
from readers.serializers.pojo import PojoSerializer, with_subclasses
from readers.serializers.primitives import VoidNamespaceSerializer
from readers.stateinfo.refinement import Contradiction, Knowledge
from readers.states import State, StatePart, UnreadHandle
from readers.storage.location import SavepointLocation

if TYPE_CHECKING:
    from readers.connectors.layout import Layout
    from readers.jars.jobclasses import JobClasses

_LEFT_OUT = Contradiction(
    "this savepoint holds none for the windows: Flink leaves timers on the heap out of native savepoints of RocksDB, and a restored job "
    "never fires these windows",
    source="timers",
)
# Up to so many subtasks the files that lead to the entries (MANIFEST) are fetched with the headers: a lookup waits twice less.
_FEW_SUBTASKS = 8
_TRIED_ENTRIES = 1_000  # of a state, before the classes of jars are believed


class Operator:
    """One operator of a savepoint.

    Attributes:
        metadata: its record in `_metadata`.
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
        self._opened: list[Source] = []

    @property
    def operator_id(self) -> str:
        """32 hex digits."""
        return self.metadata.operator_id

    def answers_to(self, name: str) -> bool:
        """Return whether `name` is its uid (even if only the hash of it is stored), its name or its id, in any case."""
        folded = name.casefold()
        known = (self.metadata.uid, self.metadata.name, self.operator_id)
        return any(text is not None and text.casefold() == folded for text in known) or (
            operator_id_of(name) == self.operator_id
        )

    def described_by(self, jars: JobClasses) -> Operator:
        """Return the operator as the classes of jars describe its values; states that they do not fit say so."""
        return Operator(self.metadata, self._location, self._in_flight, replace(self._knowledge, jars=jars))

    @cached_property
    def states(self) -> tuple[State, ...]:
        """All states, in the order of their first registration; reads the headers of all state files of the operator."""
        return tuple(
            _with_layout(state, self._layouts[state.name]) if state.name in self._layouts else state
            for state in self._collected.states()
        )

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The opened handles that have states; reads the headers of all state files of the operator."""
        return tuple(self._collected.sources())

    @cached_property
    def unread(self) -> tuple[UnreadHandle, ...]:
        """The handles that cannot be opened; reads the headers of all state files of the operator."""
        return tuple(self._collected.unread)

    @property
    def lacks_timers(self) -> bool:
        """True if it has windows and no timers: native savepoints of RocksDB lack timers on the heap, and Flink restores none."""
        return bool(self._collected.windows_without_timers())

    @property
    def repeated_timers(self) -> frozenset[int]:
        """The subtasks whose raw keyed state repeats timers of their managed keyed state: it is not read."""
        return frozenset(self._collected.repeated)

    def outline(self) -> bytes | None:
        """Return bytes that decide on its states and their types; None where only reading the states shows these.

        Operators with the same outline, and the same knowledge beside the state files, have the same states and columns.

        Raises:
            ReaderError: a state file cannot be read.
        """
        metadata = self.metadata
        connectors: list[bytes] = []
        if self._may_have_connectors:
            if self.unread:
                return None
            # The values decide which connector has written them.
            connectors = [
                f"{name} {layout.connector} {layout.java_class} {layout.type}".encode()
                for name, layout in self._layouts.items()
            ]
            connectors.append(str(metadata.coordinator_state is not None).encode())
        context = self._context()
        handles = []
        for subtask in self._subtasks():
            for role, handle in subtask.recorded():
                opener = opener_of(role, handle)
                found = opener.outline(handle, context)
                if found is None:
                    return None
                handles.append(f"{role.name} {type(opener).__name__} ".encode() + found)
        texts = (metadata.operator_id, metadata.uid, metadata.name, str(metadata.max_parallelism))
        known = [(text or "").encode("utf-8", "surrogatepass") for text in texts]
        return framed((*known, framed(connectors), *handles))

    @property
    def _may_have_connectors(self) -> bool:
        """True if a state may be of a connector, so that its values decide on its type."""
        if self.metadata.coordinator_state is not None:
            return True
        handles = (subtask.managed_operator_state for subtask in self.metadata.subtasks)
        names = {info.name for handle in handles if handle is not None for info in handle.state_meta_infos}
        if not names:
            return False
        from readers.connectors.layout import CONNECTOR_STATES  # a lookup needs no connector

        return not names.isdisjoint(CONNECTOR_STATES)

    @cached_property
    def _layouts(self) -> dict[str, Layout]:
        """The layouts of the states of connectors whose layout is recognised."""
        return _recognised(self._collected.states()) if self._may_have_connectors else {}

    @cached_property
    def _collected(self) -> StateCollector:
        self.read_ahead()
        collector = StateCollector(self.metadata, self._knowledge)
        context = self._context()
        for subtask in self._subtasks():
            for role, handle in subtask.recorded():
                collector.open(role, handle, replace(context, subtask=subtask.index))
        if self.metadata.coordinator_state is not None:
            collector.open(StateRole.COORDINATOR, self.metadata.coordinator_state, context)
        collector.share_subclasses()
        if self._knowledge.jars is not None:
            collector.complete(self._knowledge.jars)
            collector.check_jars()
        self._opened += collector.sources()
        return collector

    def read_ahead(self) -> None:
        """Fetch the headers of remote state files, all at the same time; `states` waits for them."""
        subtasks = self._subtasks()
        few = len(subtasks) <= _FEW_SUBTASKS
        self._location.expect(
            ranges
            for number, subtask in enumerate(subtasks)
            for role, handle in subtask.recorded()
            for ranges in opener_of(role, handle).first_ranges(handle, first=number == 0, few=few)
        )

    def close(self) -> None:
        """Release the files that its states hold open."""
        for source in self._opened:
            source.close()

    def _subtasks(self) -> list[SubtaskState]:
        return sorted(self.metadata.subtasks, key=lambda subtask: subtask.index)

    def _context(self) -> OpeningContext:
        keyed = (subtask.managed_keyed_state for subtask in self.metadata.subtasks)
        return OpeningContext(
            location=self._location,
            operator_id=self.operator_id,
            max_parallelism=max(self.metadata.max_parallelism, 1),
            siblings=tuple(handle for handle in keyed if handle is not None),
            stated_key=self._stated_key(),
            in_flight=self._in_flight,
        )

    def _stated_key(self) -> Serializer | None:
        """Return the type of the keys that `stateInfo` names."""
        info = self._knowledge.operator
        stated = info.key.type if info and info.key else None
        return serializer_named(stated) if stated else None


StateId = tuple[StateKind, str]
"""Kind and name of a state: unique in an operator."""


@dataclass
class StateCollector:
    """Gathers the states of one operator over its subtasks.

    Attributes:
        operator: the operator.
        knowledge: what is known of its types beside the state files.
        parts: the parts of each state.
        contradictions: between `stateInfo` and the state files.
        unread: the handles that cannot be opened.
        families: the family of each state, to find the handles that may have a part of it.
        without_jars: the entries of states as they are without the jars, by the source's id and the state's name.
        repeated: the subtasks whose raw keyed state repeats timers of their managed keyed state.
    """

    operator: OperatorState
    knowledge: Knowledge
    parts: dict[StateId, list[StatePart]] = field(default_factory=dict)
    contradictions: dict[StateId, tuple[Contradiction, ...]] = field(default_factory=dict)
    unread: list[UnreadHandle] = field(default_factory=list)
    families: dict[StateId, StateKind] = field(default_factory=dict)
    without_jars: dict[tuple[int, StateName], Entry] = field(default_factory=dict)
    repeated: set[int] = field(default_factory=set)

    def open(self, role: StateRole, handle: StateObject, context: OpeningContext) -> None:
        """Open a handle and add its states; an error is kept for the states of the handle's family."""
        opener = opener_of(role, handle)
        try:
            with located(
                self.operator.operator_id, what=lambda: f"the header of {opener.family.value} state"
            ):
                plain = replace(opener.open(handle, context), location=context.location)
                source = plain.refine(lambda _, entry: entry.refined(self.knowledge.inform))
        except ReaderError as error:
            context.location.note_failure(error)
            self.unread.append(UnreadHandle(family=opener.family, key_groups=handle.key_groups, error=error))
            return
        if role is StateRole.RAW_KEYED and self._are_managed(source):
            self.repeated.add(source.subtask)
            source.close()
            return
        # Types as far as the bytes have them come first: `stateInfo` is compared with these.
        contradictions = {
            name: self.knowledge.refine(name.name, entry)[1] for name, entry in source.entries.items()
        }
        source = source.refine(lambda name, entry: self.knowledge.refine(name.name, entry)[0])
        if self.knowledge.jars is not None:
            self.without_jars |= self._without_jars(plain, source)
        for name, entry in source.entries.items():
            state = entry.kind, name.name
            self.families[state] = opener.family
            self.contradictions[state] = contradictions[name]
            known = self.parts.setdefault(state, [])
            # Every subtask has a copy of a broadcast state: the first that is not empty is read.
            if entry.kind is StateKind.BROADCAST and any(part.source.cost_bytes(part.name) for part in known):
                continue
            known.append(StatePart(source=source, name=name, entry=entry))

    def _are_managed(self, timers: Source) -> bool:
        """Return whether the canonical keyed state of a subtask has the timers of its raw keyed state.

        Flink 1.13 to 1.15 wrote the heap timers of a full RocksDB checkpoint into both, and restores each of them once.
        """
        managed = {
            (part.source.subtask, state)
            for state, parts in self.parts.items()
            for part in parts
            if part.source.backend == "canonical"
        }
        return bool(timers.entries) and all(
            (timers.subtask, (entry.kind, name.name)) in managed for name, entry in timers.entries.items()
        )

    def _without_jars(self, plain: Source, source: Source) -> dict[tuple[int, StateName], Entry]:
        """Return the entries of the states whose types the jars say more of, as they are without these."""
        known = replace(self.knowledge, jars=None)
        return {
            (id(source), name): known.refine(name.name, plain.entries[name].refined(known.inform))[0]
            for name, entry in source.entries.items()
            if entry.is_assumed
        }

    def complete(self, jars: JobClasses) -> None:
        """Give every POJO the subclasses that the jars have and the savepoint does not describe."""
        from readers.jars.jobclasses import MAX_SUBCLASSES  # loaded with the jars

        trees = (tree for parts in self.parts.values() for part in parts for tree in part.entry.serializers())
        completion = jars.completion(self.knowledge.kryo, trees)

        def completed(source: Source) -> Source:
            def change(name: StateName, entry: Entry) -> Entry:
                found = entry.refined(completion.complete).refined(self.knowledge.inform)
                if found is not entry:
                    self.without_jars.setdefault((id(source), name), entry)
                return found

            return source if source.describes_all else source.refine(change)

        self._replace({id(source): completed(source) for source in self.sources()})
        self._replace({id(source): self._assuming(source) for source in self.sources()})
        for state in self.parts:
            for pojo_class, number in completion.too_many.items():
                reason = (
                    f"{pojo_class} has {number} subclasses, more than {MAX_SUBCLASSES}: those that the savepoint does not "
                    "describe are not decoded unless stateInfo describes them"
                )
                self.contradictions[state] = (
                    *self.contradictions[state],
                    Contradiction(reason, source="jars"),
                )

    def _assuming(self, source: Source) -> Source:
        """Return a source that knows its entries without the jars, if these say something of them."""
        described = {
            name: self.without_jars.get((id(source), name), entry) for name, entry in source.entries.items()
        }
        return source.assuming(described) if described != source.entries else source

    def check_jars(self) -> None:
        """Read some entries of each state whose types the jars say more of, and leave the jars aside where these do not fit.

        A native heap snapshot is walked from state to state: one whose classes do not fit spoils those behind it.
        """
        while (found := self._misfit()) is not None:
            state, error = found
            reason = f"the jars are not used for this state, because its bytes do not fit to their classes: {error.message}"
            known = self.contradictions[state]
            leaves_bytes = isinstance(error, LeftOverError)
            self.contradictions[state] = (*known, Contradiction(reason, "jars", leaves_bytes))
            names = {id(part.source): part.name for part in self.parts[state]}
            self._replace(
                {
                    id(source): self._without_jars_for(source, names.get(id(source)))
                    for source in self.sources()
                }
            )

    def _without_jars_for(self, source: Source, wanted: StateName | None) -> Source:
        """Return a source that reads one state without the jars."""
        if wanted is None:
            return source
        plain = self.without_jars[id(source), wanted]
        return source.refine(lambda name, entry: plain if name == wanted else entry)

    def _misfit(self) -> tuple[StateId, ReaderError] | None:
        """Return the first state whose entries contradict the jars, with the error."""
        for state, parts in self.parts.items():
            left = _TRIED_ENTRIES
            for part in parts:
                # Of another machine each part takes a request; entries are checked again when they are read.
                if left <= 0 or not part.entry.is_assumed or not part.source.is_near:
                    break
                tried, error = part.misfit(left)
                left -= tried
                if error is not None:
                    return state, error
        return None

    def _replace(self, refined: Mapping[int, Source]) -> None:
        """Put other sources of the same handles in the place of those with these ids."""
        self.without_jars = {
            (id(refined[number]), name): entry for (number, name), entry in self.without_jars.items()
        }
        for state, old in self.parts.items():
            sources = [(part.name, refined[id(part.source)]) for part in old]
            self.parts[state] = [
                StatePart(source=source, name=name, entry=source.entries[name]) for name, source in sources
            ]

    def sources(self) -> list[Source]:
        """Return the sources of all parts."""
        sources = {id(part.source): part.source for parts in self.parts.values() for part in parts}
        return list(sources.values())

    def states(self) -> tuple[State, ...]:
        """Return the states; a family of which no handle can be opened is one state with a name in parentheses."""
        for state in self.windows_without_timers():
            known = self.contradictions[state]
            self.contradictions[state] = known if _LEFT_OUT in known else (*known, _LEFT_OUT)
        states = [
            self._state(kind, name, self.families[kind, name], tuple(parts))
            for (kind, name), parts in self.parts.items()
        ]
        families = dict.fromkeys(handle.family for handle in self.unread)
        unread = [family for family in families if family not in self.families.values()]
        states += [self._state(family, _UNREADABLE[family], family, ()) for family in unread]
        return tuple(states)

    def _state(self, kind: StateKind, name: str, family: StateKind, parts: tuple[StatePart, ...]) -> State:
        return State(
            operator_id=self.operator.operator_id,
            name=name,
            kind=kind,
            max_parallelism=max(self.operator.max_parallelism, 1),
            parts=parts,
            unread=tuple(handle for handle in self.unread if handle.family is family),
            contradictions=self.contradictions.get((kind, name), ()),
        )

    def windows_without_timers(self) -> frozenset[StateId]:
        """Return the states of windows in RocksDB's own files, if the operator has no timers: those on the heap were left out.

        Operators with windows have a timer service always. It is a state, also without timers, where RocksDB keeps these.
        """
        has_timers = any(kind is StateKind.TIMER for kind, _ in self.parts)
        if has_timers or any(subtask.raw_keyed_state for subtask in self.operator.subtasks):
            return frozenset()
        return frozenset(
            state
            for state, (part, *_) in self.parts.items()
            if part.source.backend == "rocksdb" and _is_of_windows(part.entry)
        )

    def share_subclasses(self) -> None:
        """Give every state the subclasses of a POJO that any subtask or state describes."""
        parts = [part for parts in self.parts.values() for part in parts]
        known: dict[str, dict[str, Serializer]] = {}
        for node in nodes(tuple(tree for part in parts for tree in part.entry.serializers())):
            if isinstance(node, PojoSerializer) and node.non_registered:
                known.setdefault(node.pojo_class, {}).update(node.non_registered)
        if not known:
            return

        def described(tree: Serializer) -> Serializer:
            return with_subclasses(tree, known)

        self.without_jars = {place: entry.refined(described) for place, entry in self.without_jars.items()}
        self._replace(
            {
                id(source): source.refine(lambda _, entry: entry.refined(described))
                for source in self.sources()
            }
        )


def _is_of_windows(entry: Entry) -> bool:
    return entry.namespace is not None and not isinstance(entry.namespace, VoidNamespaceSerializer)


def _recognised(states: tuple[State, ...]) -> dict[str, Layout]:
    """Return name → layout for the states of an operator that are of connectors and whose layout is recognised."""
    from readers.connectors.recognition import MAX_BYTES, is_candidate, recognised  # knows all connectors

    values: dict[str, list[bytes]] = {}
    for state in states:
        if (
            state.entry is not None
            and is_candidate(state.name, state.entry)
            and state.size_bytes <= MAX_BYTES
        ):
            values[state.name] = [value for part in state.parts for value in _readable_values(part)]
    return recognised(values)


def _readable_values(part: StatePart) -> Iterator[bytes]:
    """Yield the values of a part up to the first that cannot be read: whoever reads the part gets the error."""
    from readers.connectors.recognition import bytes_of

    with suppress(ReaderError):
        for page in part.source.pages(part.name, Selection()):
            yield from bytes_of(page, part.entry)


def _with_layout(state: State, layout: Layout) -> State:
    from readers.connectors.recognition import ConnectorSource

    sources = [(part.name, ConnectorSource.open(part.source, part.name, layout)) for part in state.parts]
    parts = tuple(StatePart(source=source, name=name, entry=source.entries[name]) for name, source in sources)
    return replace(state, parts=parts)


# Names of states of which only the family is known, because no handle can be opened.
_UNREADABLE = {
    StateKind.VALUE: "(keyed state)",
    StateKind.OPERATOR_LIST: "(operator state)",
    StateKind.RAW_KEYED: "(raw keyed state)",
    StateKind.RAW_OPERATOR: "(raw operator state)",
    StateKind.COORDINATOR: "(coordinator state)",
    StateKind.CHANNEL: "(channel state)",
}
