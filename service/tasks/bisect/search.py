"""Which of some places in a row is the first one with an answer, found with few questions.

The newest place is asked first: if it has no answer, nothing is looked for. After that each question halves the places that may
be the first one. Once a place has an answer, all later ones are taken to have one, too. A place that cannot be asked costs a
question and is left out; the next one to the middle takes its turn. So `ceil(log2(places)) + 1` questions are enough, and one
more for each place that cannot be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Ask = Callable[[int], bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a search.

    Attributes:
        first: the first place with an answer; None if there is none.
        last: the last place without an answer before it; None if there is none.
    """

    first: int | None
    last: int | None


def search(places: int, ask: Ask) -> Found:
    """Search with as few questions as possible.

    Args:
        places: how many there are, the oldest is 0.
        ask: returns True for an answer, False for none, None where a place cannot be asked.
    """
    left = list(range(places))
    newest: bool | None = None
    place = -1
    while left and newest is None:
        place = left.pop()
        newest = ask(place)
    if not newest:
        return Found(first=None, last=None if newest is None else place)
    first, last = place, None
    while left:
        middle = len(left) // 2
        place = left[middle]
        answer = ask(place)
        if answer is None:
            del left[middle]
        elif answer:
            first, left = place, left[:middle]
        else:
            last, left = place, left[middle + 1 :]
    return Found(first=first, last=last)


def search_all(places: int, ask: Ask) -> Found:
    """Ask every place, from the oldest to the newest; the arguments are those of `search`."""
    answers = [ask(place) for place in range(places)]
    first = next((place for place, answer in enumerate(answers) if answer), None)
    return Found(first=first, last=_last_false(answers[:first]))


def _last_false(answers: Sequence[bool | None]) -> int | None:
    return next((place for place in reversed(range(len(answers))) if answers[place] is False), None)
