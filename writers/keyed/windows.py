"""Windows that statements left without a timer: Flink restores them, and never fires them.

A window of an operator is an entry of a state with the window as its namespace, and a timer with that key and namespace. Canonical
keys have both parts at their end, so the bytes tell which windows have a timer. Windows without one before are not warned of: those
of session windows, for example, are kept under the namespace of another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from readers import (
    Selection,
    Source,
    StateKind,
    StateName,
    StoredHeader,
    VoidNamespaceSerializer,
    key_group_bytes,
)
from writers.changes import StateChanges
from writers.keyed.assembly import page_of
from writers.keyed.carry import GroupByGroup, composed_part, state_names
from writers.keyed.editors import editor_of
from writers.keyed.keys import key_column
from writers.keyed.segments import EntrySegments
from writers.warnings import RestoreWarning

_NEVER_FIRES = "a window without a timer never fires: add its timer, or leave both"
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
            chosen = groups.intersection(np.concatenate(touched).tolist()) if touched else frozenset()
            found = [self._lost(name, timers, group) for group in sorted(chosen)]
            rows = sum(number for number, _ in found)
            if rows:
                example = next(text for number, text in found if number)
                yield RestoreWarning(state=name.name, rows=rows, example=example, text=_NEVER_FIRES)

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

    def _lost(self, name: StateName, timers: tuple[StateName, ...], group: int) -> tuple[int, str]:
        """Return how many windows of a key group are without a timer only now, and the key of one."""
        after = list(self._entries(name, group, changed=True))
        keys = self._joined(after, self._prefix)
        fires = self._keys(timers, group, changed=True)
        lost = pc.invert(pc.is_in(keys, value_set=fires))
        if not pc.any(lost).as_py():
            return 0, ""
        before = self._joined(list(self._entries(name, group, changed=False)), self._prefix)
        never = before.filter(pc.invert(pc.is_in(before, value_set=self._keys(timers, group, changed=False))))
        lost = pc.and_(lost, pc.invert(pc.is_in(keys, value_set=never)))
        rows = np.flatnonzero(np.asarray(lost))
        return len(rows), self._shown(name, group, after, int(rows[0])) if len(rows) else ""

    def _keys(self, names: tuple[StateName, ...], group: int, *, changed: bool) -> pa.Array:
        """Return key and namespace of timers."""
        entries = [one for name in names for one in self._entries(name, group, changed=changed)]
        return self._joined(entries, self._prefix + _TIME_BYTES)

    def _entries(self, name: StateName, group: int, *, changed: bool) -> Iterator[EntrySegments]:
        carrier = GroupByGroup(self._source, self._header, self._max_parallelism)
        pages = carrier.pages(self._names.index(name), Selection(key_groups=frozenset({group})))
        changes = self._changes.get(name)
        if changed and changes is not None and group in changes.groups:
            part = composed_part(self._source, name, self._max_parallelism)
            yield from editor_of(part, changes).edited(group, pages)
        else:
            yield from map(EntrySegments.of_page, pages)

    def _joined(self, entries: list[EntrySegments], skipped: int) -> pa.Array:
        keys = [key_column(one, skipped) for one in entries]
        return pa.concat_arrays([pa.array([], pa.large_binary()), *keys])

    def _shown(self, name: StateName, group: int, entries: list[EntrySegments], row: int) -> str:
        for one in entries:
            if row < len(one):
                part = composed_part(self._source, name, self._max_parallelism)
                coder = editor_of(part, self._changes.get(name) or StateChanges(now_ms=0)).coder
                page = page_of(one.take(np.array([row])), group, self._source)
                for batch in part.decoded([page]):
                    return coder.key_of(pa.table(coder.rows(batch)), 0)
            row -= len(one)
        return ""
