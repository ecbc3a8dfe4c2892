"""New states in the metadata: of new operators, and operator states of those that the savepoint has.

New keyed states of those are `writers.keyed`'s: `RewriteKeyedState.added`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from readers import SavepointLocation, key_groups_of_subtask, operator_id_of
from readers.metadata import KeyGroupRange, OperatorState, SavepointMetadata, SubtaskState
from writers.creation.elements import CollectedElements
from writers.creation.spool import SpooledEntries
from writers.creation.streams import extended_operator_state, new_operator_state
from writers.deferred import DeferredKeyedState
from writers.edits import Edit, find_operator, with_operator
from writers.errors import RefusedEditError
from writers.keyed.added import AddedStatesMaker
from writers.keyed.resharding import check_new_subtasks
from writers.metadata.writer import NAMES_SINCE

MOST_KEY_GROUPS = 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOperator(Edit):
    """A new operator and its states.

    Attributes:
        uid: of the operator in the job.
        parallelism: the number of its subtasks.
        max_parallelism: the number of its key groups.
        keyed: its keyed states, all with keys of one type.
        elements: its operator states.
    """

    uid: str
    parallelism: int
    max_parallelism: int
    keyed: tuple[SpooledEntries, ...] = ()
    elements: tuple[CollectedElements, ...] = ()

    def applied(self, metadata: SavepointMetadata, source: SavepointLocation) -> SavepointMetadata:
        check_new_subtasks(self.uid, self.parallelism)
        operator_id = operator_id_of(self.uid)
        if any(one.operator_id == operator_id for one in metadata.operators):
            raise RefusedEditError(f"expected a new operator, found one with the uid {self.uid!r}")
        has_names = metadata.version >= NAMES_SINCE
        operator = OperatorState(
            operator_id=operator_id,
            uid=self.uid if has_names else None,
            name=self.uid if has_names else None,
            parallelism=self.parallelism,
            max_parallelism=self.max_parallelism,
            subtasks=tuple(map(self._subtask, range(self.parallelism))),
        )
        return replace(metadata, operators=(*metadata.operators, operator))

    def _subtask(self, index: int) -> SubtaskState:
        return SubtaskState(
            index=index,
            managed_operator_state=new_operator_state(self.elements, index) if self.elements else None,
            managed_keyed_state=self._keyed_state(index) if self.keyed else None,
        )

    def _keyed_state(self, subtask: int) -> DeferredKeyedState:
        groups = KeyGroupRange(*key_groups_of_subtask(subtask, self.parallelism, self.max_parallelism))
        return DeferredKeyedState(key_group_range=groups, maker=AddedStatesMaker(self.keyed, groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendOperatorState(Edit):
    """New list, union and broadcast states of an operator that the savepoint has.

    Attributes:
        operator_id: whose.
        elements: the states, for its parallelism.
    """

    operator_id: str
    elements: tuple[CollectedElements, ...]

    def applied(self, metadata: SavepointMetadata, source: SavepointLocation) -> SavepointMetadata:
        operator = find_operator(metadata, self.operator_id)
        for one in self.elements:
            # Elements of subtasks that are no more would be lost.
            if one.parallelism != operator.parallelism:
                raise RefusedEditError(
                    f"expected the new state {one.state.name} to be dealt out to {operator.parallelism} subtasks, found "
                    f"{one.parallelism}: create it in a script of its own"
                )
        known = {one.index: one for one in operator.subtasks}
        subtasks = tuple(
            self._extended(known.get(index, SubtaskState(index=index)), source)
            for index in range(operator.parallelism)
        )
        return with_operator(metadata, operator, replace(operator, subtasks=subtasks))

    def _extended(self, subtask: SubtaskState, source: SavepointLocation) -> SubtaskState:
        handle = subtask.managed_operator_state
        if handle is None or not any(True for _ in handle.streams()):
            state = new_operator_state(self.elements, subtask.index)
        else:
            state = extended_operator_state(handle, self.elements, subtask.index, source)
        return replace(subtask, managed_operator_state=state)
