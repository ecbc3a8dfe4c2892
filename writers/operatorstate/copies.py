"""The copies of a broadcast state: Flink gives each subtask its own back, and never compares them.

Copies that differ would stay different, and a job of another parallelism would have a third of them at random. So rows of a
broadcast state are changed only where its copies have the same entries, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

from readers import Selection, StatePart
from writers.errors import RefusedEditError
from writers.operatorstate.elements import stored_entries


def check_alike(copies: Sequence[StatePart], subtask: int) -> StatePart:
    """Return the copy of a subtask; every other copy has the same entries.

    Raises:
        RefusedEditError: a copy has others.
        ReaderError: a copy cannot be read.
    """
    first = next(copy for copy in copies if copy.source.subtask == subtask)
    expected = _entries(first)
    for copy in copies:
        if copy is not first and _entries(copy) != expected:
            raise RefusedEditError(
                f"expected equal copies of the broadcast state {first.name.name} in all subtasks, found others in subtasks "
                f"{subtask} and {copy.source.subtask}: to write them alike would lose entries"
            )
    return first


def _entries(copy: StatePart) -> list[bytes]:
    found: list[bytes] = []
    for page in copy.source.pages(copy.name, Selection()):
        found += stored_entries(page).to_pylist()
    return sorted(found)
