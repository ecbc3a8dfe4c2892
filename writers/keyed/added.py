"""States that an operator gets: their entries stand behind those of the states that it has, in every key group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from readers.metadata import KeyedStateHandle, KeyGroupRange, Offsets
from writers.deferred import Create, KeyedStateMaker
from writers.headers import RegisteredState, write_keyed_header
from writers.keyed.assembly import KeyGroupAssembler, StateFile, made_file
from writers.keyed.segments import groups_within


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
        owned = ((state, len(groups_within(state.groups, self.groups))) for state in self.states)
        return sum(state.size_bytes * own // max(1, len(state.groups)) for state, own in owned)

    def make(self, create: Create) -> KeyedStateHandle:
        header = write_keyed_header(self.states[0].key_block(), [state.registered() for state in self.states])

        def write(file: StateFile) -> Offsets:
            file.write(header)
            assembler = KeyGroupAssembler(file, compressed=False)
            offsets: Offsets = np.zeros(self.groups.number_of_key_groups, dtype=np.int64)
            for number in range(len(offsets)):
                assembler.begin()
                add_states(assembler, self.states, 0, self.groups.start + number)
                offsets[number] = assembler.end()
            return offsets

        return made_file(create, self.groups, write)
