"""States that an operator gets: their entries stand behind those of the states that it has, in every key group."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from readers.metadata import (
    KeyedStateHandle,
    KeyGroupRange,
    KeyGroupsSavepointStateHandle,
    RelativeFileStateHandle,
)
from writers.deferred import Create, KeyedStateMaker
from writers.headers import RegisteredState, write_keyed_header
from writers.keyed.assembly import KeyGroupAssembler, StateFile


class AddedState(Protocol):
    """A state with entries that no source has."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def groups(self) -> NDArray[np.int64]:
        """The key groups that have entries, ascending."""

    @property
    def size_bytes(self) -> int:
        """The bytes of its entries, as far as they are known."""

    def registered(self) -> RegisteredState:
        """Return its registration in the header of a state file."""

    def key_block(self) -> bytes:
        """Return the snapshot of its keys, as the header of a keyed state file has it."""

    def run(self, group: int) -> NDArray[np.uint8] | None:
        """Return the entries of a key group as a canonical file has them, the last of them marked; None if it has none."""


def add_states(assembler: KeyGroupAssembler, states: Sequence[AddedState], first_id: int, group: int) -> None:
    """Append the entries of states to a key group that is being assembled."""
    for number, state in enumerate(states):
        run = state.run(group)
        if run is not None:
            assembler.state(first_id + number)
            assembler.add_run(run)


@dataclass(frozen=True, slots=True)
class AddedStatesMaker(KeyedStateMaker):
    """Makes the keyed state of a subtask that has added states and no others.

    Attributes:
        states: the states.
        groups: the key groups of the subtask.
    """

    states: Sequence[AddedState]
    groups: KeyGroupRange

    @property
    def size_bytes(self) -> int:
        size = 0
        for state in self.states:
            own = int(
                np.count_nonzero((state.groups >= self.groups.start) & (state.groups <= self.groups.end))
            )
            size += state.size_bytes * own // max(1, len(state.groups))
        return size

    def make(self, create: Create) -> KeyedStateHandle:
        header = write_keyed_header(self.states[0].key_block(), [state.registered() for state in self.states])
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
        add_states(assembler, self.states, 0, group)
        return assembler.end()
