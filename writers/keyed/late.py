"""States that some subtasks of a job have not used yet, when rows are added to their key groups.

Flink registers a state in a subtask when the job first asks for it there. So the file of a subtask may lack a state that others have,
and a subtask may have no file at all; rows that are added to its key groups come with the registration of another subtask.

The editor of a state, by its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readers import Source, StateKind, StateName, StatePart
from readers.metadata import KeyGroupRange
from writers.changes import StateChanges
from writers.headers import RegisteredState, registered_state
from writers.keyed.assembly import marked_run
from writers.keyed.carry import check_carried, composed_part, key_block, state_names
from writers.keyed.lists import ListEditor
from writers.keyed.segments import groups_within
from writers.keyed.values import StateEditor, TimerEditor, ValueEditor


def editor_of(part: StatePart, changes: StateChanges) -> StateEditor:
    """Return the editor of a state in the layout of canonical entries."""
    kind = part.entry.kind
    # A list whose elements are not decoded is one row.
    if kind is StateKind.LIST and part.entry.is_raw("value"):
        return ValueEditor(part, changes)
    return EDITORS.get(kind, ValueEditor)(part, changes)


EDITORS: dict[StateKind, type[StateEditor]] = {StateKind.LIST: ListEditor, StateKind.TIMER: TimerEditor}


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
