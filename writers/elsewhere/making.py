"""The states of all makers, by parcels: first what several of them need, then the file of each subtask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from readers import Operator
from readers.metadata import KeyGroupRange
from writers.deferred import KeyedStateMaker, MadeState, Work
from writers.elsewhere.parcels import Packer, result_of
from writers.target import JoinedTarget, Target

Run = Callable[[Sequence[bytes]], Sequence[bytes]]
"""Has `writers.done` called for each of some parcels in other processes; returns what it returned, in their order."""


@dataclass(frozen=True, slots=True, eq=False)
class Making(Work):
    """Makes the state of one subtask.

    Attributes:
        maker: makes it.
    """

    maker: KeyedStateMaker

    @property
    def groups(self) -> KeyGroupRange:
        return self.maker.groups

    def do(self, target: JoinedTarget) -> MadeState:
        return MadeState(handle=self.maker.make(target.create), warnings=self.maker.warnings)


def made_elsewhere(
    makers: Sequence[KeyedStateMaker], target: Target, operators: Iterable[Operator], run: Run
) -> Sequence[MadeState]:
    """Make states in other processes.

    Args:
        makers: make them.
        target: where their files go.
        operators: those of the source that makers have handles of.
        run: runs the parcels.

    Raises:
        WriterError, ReaderError: see `KeyedStateMaker.make`.
    """
    packer = Packer(target, operators)

    def results(works: Sequence[Work]) -> list[Any]:
        return [result_of(answer) for answer in run(packer.parcels(works))] if works else []

    # Makers may share what they need: it is done once.
    shared = {id(work): work for maker in makers for work in maker.preparations}
    done = dict(zip(shared, results(list(shared.values())), strict=True))
    prepared = [maker.prepared([done[id(work)] for work in maker.preparations]) for maker in makers]
    return results([Making(maker) for maker in prepared])
