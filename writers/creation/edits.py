"""New states in the metadata: of operators that the savepoint does not have yet."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from readers import SavepointLocation, key_groups_of_subtask, operator_id_of
from readers.metadata import (
    KeyedStateHandle,
    KeyGroupRange,
    KeyGroupsSavepointStateHandle,
    OperatorState,
    OperatorStreamStateHandle,
    RelativeFileStateHandle,
    SavepointMetadata,
    SubtaskState,
)
from writers.creation.elements import CollectedElements, operator_stream
from writers.creation.spool import SpooledEntries
from writers.deferred import Create, DeferredKeyedState, KeyedStateMaker
from writers.edits import Edit, NewBytes
from writers.errors import RefusedEditError
from writers.headers import write_keyed_header
from writers.keyed.assembly import KeyGroupAssembler, StateFile
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
        return DeferredKeyedState(key_group_range=groups, maker=NewKeyedStates(self.keyed, groups))


def new_operator_state(elements: Sequence[CollectedElements], subtask: int) -> OperatorStreamStateHandle:
    """Return the operator state of a subtask."""
    stream = operator_stream(elements, subtask)
    # A name of its own: handles of one name are one handle to Flink.
    delegate = NewBytes(handle_name=str(uuid.uuid4()), data=stream.data)
    return OperatorStreamStateHandle(state_meta_infos=stream.infos, delegate=delegate)


@dataclass(frozen=True, slots=True)
class NewKeyedStates(KeyedStateMaker):
    """The keyed states of one subtask.

    Attributes:
        states: their entries.
        groups: the key groups of the subtask.
    """

    states: tuple[SpooledEntries, ...]
    groups: KeyGroupRange

    def make(self, create: Create) -> KeyedStateHandle:
        header = write_keyed_header(
            self.states[0].state.key_block(), [one.state.registered() for one in self.states]
        )
        name = str(uuid.uuid4())
        with create(name) as file:
            output = StateFile(file)
            output.write(header)
            assembler = KeyGroupAssembler(output, compressed=False)
            numbers = range(self.groups.start, self.groups.end + 1)
            offsets = [self._group(assembler, number) for number in numbers]
            output.flush()
        return KeyGroupsSavepointStateHandle(
            key_group_range=self.groups,
            offsets=np.array(offsets, dtype=np.int64),
            delegate=RelativeFileStateHandle(relative_path=name, state_size=output.position),
        )

    def _group(self, assembler: KeyGroupAssembler, group: int) -> int:
        """Assemble a key group; return its position."""
        assembler.begin()
        for number, one in enumerate(self.states):
            found = one.entries(group)
            if found is not None:
                assembler.state(number)
                assembler.add_run(found.marked())
        return assembler.end()
