"""What rows that come and go leave behind: states that a subtask gets late, windows without a timer and timers without a window.

Flink registers a state in a subtask when the job first asks for it there. So the file of a subtask may lack a state that others have,
and a subtask may have no file at all; rows that are added to its key groups come with the registration of another subtask.

A window of an operator is an entry of a state with the window as its namespace, and a timer with that key and namespace. Canonical
keys have both parts at their end, so the bytes tell which windows have a timer. Windows without one before are not warned of: those
of session windows, for example, are kept under the namespace of another one. A timer without its window does nothing in a window of
the DataStream API; one of SQL sends the aggregates of no rows, COUNT 0 and SUM NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers import (
    Selection,
    Source,
    StateKind,
    StateName,
    StatePart,
    StoredHeader,
    VoidNamespaceSerializer,
    key_group_bytes,
)
from readers.metadata import KeyGroupRange
from writers.changes import StateChanges
from writers.errors import RestoreWarning
from writers.headers import RegisteredState, registered_state
from writers.keyed.assembly import EntrySegments, groups_within, key_column, marked_run, page_of
from writers.keyed.carry import GroupByGroup, check_carried, composed_part, key_block, state_names
from writers.keyed.values import editor_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LateState:
    """A state that one subtask gets: an `AddedState`.

    Attributes:
        part: the state in the layout of canonical entries, as another subtask has it.
        registration: its registration there.
        key: the snapshot of the keys there.
        changes: of the state.
        within: the key groups of the subtask.
    """

    part: StatePart
    registration: RegisteredState
    key: bytes
    changes: StateChanges
    within: KeyGroupRange

    @property
    def name(self) -> str:
        return self.part.name.name

    @property
    def groups(self) -> NDArray[np.int64]:
        return groups_within(self.changes.groups.astype(np.int64), self.within)

    @property
    def size_bytes(self) -> int:
        return 0

    def registered(self) -> RegisteredState:
        return self.registration

    def key_block(self) -> bytes:
        return self.key

    def run(self, group: int) -> NDArray[np.uint8] | None:
        return marked_run(list(editor_of(self.part, self.changes).edited(group, iter(()))))


def late_states(
    sources: Iterable[Source],
    changes: Mapping[StateName, StateChanges],
    within: KeyGroupRange,
    max_parallelism: int,
) -> tuple[LateState, ...]:
    """Return the changed states that have rows in key groups, as the first source that has each registers it."""
    found: dict[StateName, LateState] = {}
    for source in sources:
        missing = [name for name in changes if name in source.entries and name not in found]
        if not missing:
            continue
        header = check_carried(source, source.stored_header())
        names = state_names(header)
        for name in missing:
            state = LateState(
                part=composed_part(source, name, max_parallelism),
                registration=registered_state(header.header.states[names.index(name)], header.data),
                key=key_block(header),
                changes=changes[name],
                within=within,
            )
            found[name] = state
    return tuple(state for state in found.values() if len(state.groups))


_NEVER_FIRES = "a window without a timer never fires: add its timer, or leave both"
_OF_NOTHING = "a timer of SQL without its window sends the aggregates of no rows when it fires: remove it, too, from timers"
_SQL_WINDOWS = "window-aggs"
_TIME_BYTES = 8
_WINDOWED = frozenset({StateKind.VALUE, StateKind.LIST, StateKind.REDUCING, StateKind.AGGREGATING})


class WindowWatch:
    """Looks for windows that lost their timers, or came without, in one subtask.

    Args:
        source: of the subtask.
        header: its header.
        changes: what statements changed.
        max_parallelism: number of key groups of the operator.
    """

    def __init__(
        self,
        source: Source,
        header: StoredHeader,
        changes: Mapping[StateName, StateChanges],
        max_parallelism: int,
    ) -> None:
        self._source = source
        self._header = header
        self._changes = changes
        self._max_parallelism = max_parallelism
        self._prefix = key_group_bytes(max_parallelism)
        self._names = state_names(header)
        self._windows = {name: timers for name in self._names if (timers := self._timers_of(name))}

    def warnings(self, groups: frozenset[int]) -> Iterator[RestoreWarning]:
        """Yield what is to be said of the windows in some key groups."""
        for name, timers in self._windows.items():
            touched = [self._changes[one].groups for one in (name, *timers) if one in self._changes]
            chosen = sorted(groups.intersection(np.concatenate(touched).tolist())) if touched else []
            yield from _warned(name, _NEVER_FIRES, (self._alone((name,), timers, group) for group in chosen))
            if name.name == _SQL_WINDOWS:
                yield from _warned(
                    name, _OF_NOTHING, (self._alone(timers, (name,), group) for group in chosen)
                )

    def _timers_of(self, name: StateName) -> tuple[StateName, ...]:
        """Return the timers whose namespaces are those of a state; none if it has no windows."""
        entry = self._source.entries[name]
        namespace = entry.namespace
        if (
            name.timers
            or entry.kind not in _WINDOWED
            or namespace is None
            or isinstance(namespace, VoidNamespaceSerializer)
            or namespace.fixed_length < 0
        ):
            return ()
        return tuple(
            other
            for other in self._names
            if other.timers and self._source.entries[other].namespace == namespace
        )

    def _alone(
        self, names: tuple[StateName, ...], others: tuple[StateName, ...], group: int
    ) -> tuple[int, str]:
        """Return how many entries of a key group are without one of the others only now, and the key of one."""
        after = self._keys(names, group, changed=True)
        lost = pc.invert(pc.is_in(after, value_set=self._keys(others, group, changed=True)))
        if not pc.any(lost).as_py():
            return 0, ""
        before = self._keys(names, group, changed=False)
        never = before.filter(pc.invert(pc.is_in(before, value_set=self._keys(others, group, changed=False))))
        lost = pc.and_(lost, pc.invert(pc.is_in(after, value_set=never)))
        rows = np.flatnonzero(np.asarray(lost))
        return len(rows), self._shown(names, group, int(rows[0])) if len(rows) else ""

    def _keys(self, names: tuple[StateName, ...], group: int, *, changed: bool) -> pa.Array:
        """Return key and namespace of the entries of states: of timers, without their times."""
        keys = [
            key_column(one, self._prefix + (_TIME_BYTES if name.timers else 0))
            for name in names
            for one in self._entries(name, group, changed=changed)
        ]
        return pa.concat_arrays([pa.array([], pa.large_binary()), *keys])

    def _entries(self, name: StateName, group: int, *, changed: bool) -> Iterator[EntrySegments]:
        carrier = GroupByGroup(self._source, self._header, self._max_parallelism)
        pages = carrier.pages(self._names.index(name), Selection(key_groups=frozenset({group})))
        changes = self._changes.get(name)
        if changed and changes is not None and group in changes.groups:
            part = composed_part(self._source, name, self._max_parallelism)
            yield from editor_of(part, changes).edited(group, pages)
        else:
            yield from map(EntrySegments.of_page, pages)

    def _shown(self, names: tuple[StateName, ...], group: int, row: int) -> str:
        for name in names:
            for one in self._entries(name, group, changed=True):
                if row < len(one):
                    part = composed_part(self._source, name, self._max_parallelism)
                    coder = editor_of(part, self._changes.get(name) or StateChanges(now_ms=0)).coder
                    page = page_of(one.take(np.array([row])), group, self._source)
                    for batch in part.decoded([page]):
                        return coder.key_of(pa.table(coder.rows(batch)), 0)
                row -= len(one)
        return ""


def _warned(name: StateName, text: str, found: Iterable[tuple[int, str]]) -> Iterator[RestoreWarning]:
    counted = list(found)
    rows = sum(number for number, _ in counted)
    if rows:
        example = next(shown for number, shown in counted if number)
        yield RestoreWarning(state=name.name, rows=rows, example=example, text=text)
