"""Layouts of fields: which of them fit the bytes of some objects.

Objects whose class no snapshot describes are fields one after the other. What a field may be is a step: from a position in the bytes
to the one behind the field. A layout is a list of steps, and fits objects if it leads from the start of each to its very end. All
layouts are tried at once: a place is a position in each object, and a step leads from one place to another.

What a class wrote, it reads: if no layout fits the objects of two savepoints, two different classes wrote them. Parts that need not be
alike in objects of one class, such as lists, are passed over where they may stand, so that they never count as a difference.

Flink ignores bytes that are left over. So a class fails to read objects of another one if each layout that fits its own objects
leads over the end of one of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

# In place of a position: a part of any length may stand here, and what is behind it is not known.
ANYWHERE = -1
_MOST_PLACES = 4_000
# One object alone fits too many layouts that its class does not have.
_LEAST_OBJECTS, _MOST_OBJECTS = 2, 5
_MOST_BYTES = 256


class Mode(Enum):
    """How bytes are tried."""

    EXACT = auto()  # as a writer of Flink wrote them
    OPEN = auto()  # the same, and parts of any length are passed over
    TEXTS = auto()  # as a writer of Flink wrote them, and what is a text beyond doubt is no number
    LENIENT = auto()  # as Flink reads them, whoever wrote them


Steps = Callable[[bytes, int, Mode], dict[str, int]]
"""The steps that are possible at a position of an object: the kind of field, and the position behind it."""


class _TooManyPlacesError(Exception):
    """There are more places than are tried."""


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    mode: Mode

    def is_read(self, position: int) -> bool:
        """Return whether nothing is left of it, as far as that matters."""
        return self.mode is Mode.LENIENT or position in (ANYWHERE, len(self.data))


def cannot_read(new: Sequence[bytes], old: Sequence[bytes], steps: Steps) -> bool:
    """Return whether the class that wrote some objects surely is another one than that of other objects, and fails to read these.

    Args:
        new: objects of the class that reads.
        old: objects that are to be read.
        steps: what fields may be.
    """
    new, old = _chosen(new), _chosen(old)
    if min(len(new), len(old)) < _LEAST_OBJECTS:
        return False
    try:
        return (
            _some_fits(_objects(new, Mode.EXACT), steps)
            and _some_fits(_objects(old, Mode.EXACT), steps)
            and not _some_fits(_objects([*new, *old], Mode.OPEN), steps)
            and not _some_fits(_objects(new, Mode.TEXTS) + _objects(old, Mode.LENIENT), steps)
        )
    except _TooManyPlacesError:
        return False


def is_explained(objects: Sequence[bytes], steps: Steps) -> bool:
    """Return whether a layout fits these objects."""
    try:
        return _some_fits(_objects(_chosen(objects), Mode.EXACT), steps)
    except _TooManyPlacesError:
        return False


def _chosen(objects: Sequence[bytes]) -> list[bytes]:
    """Return some objects that differ."""
    return [each for each in dict.fromkeys(objects) if len(each) <= _MOST_BYTES][:_MOST_OBJECTS]


def _objects(data: Sequence[bytes], mode: Mode) -> list[_Object]:
    return [_Object(each, mode) for each in data]


def _some_fits(objects: list[_Object], steps: Steps) -> bool:
    """Return whether a layout leads to the end of all objects."""
    known: list[dict[int, dict[str, int]]] = [{} for _ in objects]
    start = (0,) * len(objects)
    seen, left = {start}, [start]
    while left:
        place = left.pop()
        if all(each.is_read(position) for each, position in zip(objects, place, strict=True)):
            return True
        moves = []
        for each, position, own in zip(objects, place, known, strict=True):
            if position != ANYWHERE and position not in own:
                own[position] = steps(each.data, position, each.mode) if position < len(each.data) else {}
            moves.append(None if position == ANYWHERE else own[position])
        bound = [each for each in moves if each is not None]
        for kind in set(bound[0]).intersection(*bound[1:]):
            found = tuple(ANYWHERE if each is None else each[kind] for each in moves)
            if found not in seen:
                if len(seen) >= _MOST_PLACES:
                    raise _TooManyPlacesError
                seen.add(found)
                left.append(found)
    return False
