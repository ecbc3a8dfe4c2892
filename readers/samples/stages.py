"""The stages of a CEP pattern, as far as partial matches name them. The bytes are those of `serializers/cep.py`.

Each key has a computation that waits in the first stage, always; the others wait in later ones.

Flink: NFA#doProcess ("Handle the Start State, as it always have to remain"), NFAStateSerializer#serializeComputationStates
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from readers.cursor import Cursor
from readers.errors import ReaderError

_EVENT_BYTES, _LONG_BYTES, _INT_BYTES = 12, 8, 4
_LEAST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """Names of stages.

    Attributes:
        first: those in which a match begins.
        later: those that wait for events behind the first one.
    """

    first: frozenset[str]
    later: frozenset[str]


def stages_of(values: Iterable[bytes], *, has_previous_timestamps: bool) -> Stages:
    """Return the stages that stored states of automata name; values that cannot be read name none."""
    first: set[str] = set()
    later: set[str] = set()
    for value in values:
        try:
            cursor = Cursor(value)
            for _ in range(2):
                for _ in range(cursor.count("computations", _LEAST_BYTES)):
                    name, is_first = _computation(cursor, has_previous_timestamps)
                    (first if is_first else later).add(name)
        except ReaderError:
            continue
    return Stages(first=frozenset(first), later=frozenset(later))


def _computation(cursor: Cursor, has_previous_timestamps: bool) -> tuple[str, bool]:
    """Read a computation; return its stage, and whether no event came before it."""
    name = cursor.string("stage") or ""
    is_first = not cursor.boolean()
    if not is_first:
        cursor.read(_EVENT_BYTES, "event")
        cursor.string("stage")
    cursor.read(cursor.count("version", _INT_BYTES) * _INT_BYTES, "version")
    cursor.read(_LONG_BYTES * (1 + has_previous_timestamps), "timestamps")
    if cursor.boolean():
        cursor.read(_EVENT_BYTES, "event")
    return name, is_first
