"""Which place is asked next, for any number of places, answers and places that cannot be asked."""

from __future__ import annotations

from math import ceil, log2

from hypothesis import given
from hypothesis import strategies as st

from service.tasks.time.bisect import Found, search, search_all


@st.composite
def _jobs(draw: st.DrawFn) -> list[bool | None]:
    """Places that have an answer from one on; any of them may be broken."""
    count = draw(st.integers(1, 80))
    first = draw(st.integers(0, count))
    broken = draw(st.sets(st.integers(0, count - 1)))
    return [None if place in broken else place >= first for place in range(count)]


def _meant(answers: list[bool | None]) -> Found:
    first = next((place for place, answer in enumerate(answers) if answer), None)
    before = answers if first is None else answers[:first]
    return Found(
        first=first, last=max((place for place, answer in enumerate(before) if answer is False), default=None)
    )


@given(answers=_jobs())
def test_the_first_place_is_found_with_few_questions(answers: list[bool | None]) -> None:
    asked: list[int] = []

    def ask(place: int) -> bool | None:
        asked.append(place)
        return answers[place]

    found = search(len(answers), ask)

    assert found == _meant(answers)
    broken = sum(answers[place] is None for place in asked)
    assert len(asked) <= ceil(log2(len(answers))) + 1 + broken
    assert len(asked) == len(set(asked))


@given(answers=st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=60))
def test_answers_that_come_and_go_are_found_by_asking_all(answers: list[bool | None]) -> None:
    assert search_all(len(answers), answers.__getitem__) == _meant(answers)


def test_a_place_that_cannot_be_asked_gives_its_turn_to_the_next_one() -> None:
    answers = [False, False, False, None, True, True, None]

    assert search(7, answers.__getitem__) == Found(first=4, last=2)


def test_nothing_is_found_where_no_place_can_be_asked() -> None:
    assert search(3, lambda _: None) == Found(first=None, last=None)
