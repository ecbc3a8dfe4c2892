"""The edit of operator state: the changed states of one operator, in all of its subtasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from readers import ConnectorSource, Operator, OperatorSource, SavepointLocation, State, StateKind, StatePart
from readers.metadata import SavepointMetadata, SubtaskState
from writers.changes import StateChanges
from writers.edits import Edit, find_operator, with_operator
from writers.errors import RefusedEditError
from writers.operatorstate.connectors import check_changeable
from writers.operatorstate.elements import changed_elements, check_alike
from writers.operatorstate.stream import Elements, new_handle, rewritten


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RewriteOperatorState(Edit):
    """Change rows of list, union and broadcast states of one operator.

    Rows are in the groups of their subtasks; those of a broadcast state in that of its first copy with entries, and every copy
    is written alike.

    Attributes:
        operator: of the source savepoint.
        changes: by the name of the state.
    """

    operator: Operator
    changes: Mapping[str, StateChanges]

    def applied(self, metadata: SavepointMetadata, source: SavepointLocation) -> SavepointMetadata:
        operator = find_operator(metadata, self.operator.operator_id)
        states = {state.name: state for state in self.operator.states if state.kind in KINDS}
        for name, changes in self.changes.items():
            if name not in states:
                raise RefusedEditError(
                    f"rows of {name} cannot be changed: they are bytes of a coordinator, of a hook, of records in flight or of "
                    "raw state, which no statement writes"
                )
            check_changeable(states[name], changes)
            _check_places(states[name], changes)
        shared = self._shared(operator.subtasks, states, source)
        subtasks = tuple(self._subtask(one, states, shared, source) for one in operator.subtasks)
        return with_operator(metadata, operator, replace(operator, subtasks=subtasks))

    def _shared(
        self, subtasks: tuple[SubtaskState, ...], states: Mapping[str, State], source: SavepointLocation
    ) -> dict[str, Elements]:
        """Return the new entries of each broadcast state that changes: every copy has them.

        Raises:
            RefusedEditError: the copies differ.
        """
        found = {}
        for name, changes in self.changes.items():
            state = states[name]
            if state.kind is not StateKind.BROADCAST or not len(changes.groups):
                continue
            part = state.parts[0]
            copies = [
                _part(part, opened)
                for subtask in subtasks
                if (opened := _opened(subtask, source)) is not None and part.name in opened.entries
            ]
            first = check_alike(copies, part.source.subtask)
            found[name] = changed_elements(first, changes.of_group(part.source.subtask))
        return found

    def _subtask(
        self,
        subtask: SubtaskState,
        states: Mapping[str, State],
        shared: Mapping[str, Elements],
        source: SavepointLocation,
    ) -> SubtaskState:
        touched = [
            name
            for name, changes in self.changes.items()
            if states[name].kind is not StateKind.BROADCAST and subtask.index in changes.groups
        ]
        handle = subtask.managed_operator_state
        if handle is None or not (touched or shared):
            return subtask
        opened = OperatorSource.open(subtask.index, handle, source.open_stream(handle.delegate))
        changed = {name: one for name, one in shared.items() if states[name].parts[0].name in opened.entries}
        for name in touched:
            part = next(part for part in states[name].parts if part.source.subtask == subtask.index)
            changed[name] = changed_elements(_part(part, opened), self.changes[name].of_group(subtask.index))
        if not changed:
            return subtask
        return replace(subtask, managed_operator_state=new_handle(rewritten(opened, changed)))


def _check_places(state: State, changes: StateChanges) -> None:
    """Check that each changed row is in a subtask that has the state.

    Raises:
        RefusedEditError: one is elsewhere.
    """
    have = {part.source.subtask for part in state.parts}
    if state.kind is StateKind.BROADCAST:
        have = {state.parts[0].source.subtask}
    for group in changes.groups.tolist():
        if group not in have:
            raise RefusedEditError(
                f"expected rows in subtasks that have the state {state.name} "
                f"({', '.join(map(str, sorted(have)))}), found subtask {group}"
            )


def _opened(subtask: SubtaskState, source: SavepointLocation) -> OperatorSource | None:
    handle = subtask.managed_operator_state
    if handle is None:
        return None
    return OperatorSource.open(subtask.index, handle, source.open_stream(handle.delegate))


def _part(part: StatePart, opened: OperatorSource) -> StatePart:
    """Return a state as it is in a stream, with what is known of its types."""
    if isinstance(part.source, ConnectorSource):
        return replace(part, source=part.source.over(opened))
    return replace(part, source=opened.refine(lambda name, entry: part.entry if name == part.name else entry))


KINDS = frozenset({StateKind.OPERATOR_LIST, StateKind.UNION_LIST, StateKind.BROADCAST})
"""The kinds of states whose rows it changes."""
