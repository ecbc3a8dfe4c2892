"""Slots: which query runs next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.base.errors import TooManyQueriesError
from service.base.principal import Identity, Source
from service.query.serving.slots import SlotLimits, Slots, Ticket

KINDS: tuple[dict[str, bool], ...] = ({}, {"is_large": True}, {"is_lookup": True})


class Line:
    """Tickets before slots, and the order in which they came through."""

    def __init__(self, **limits: int) -> None:
        given = {"running": 4, "running_per_user": 4, "queued": 100, "queued_per_user": 100, **limits}
        self.slots = Slots(SlotLimits(**given))
        self.granted: list[str] = []
        self.tickets: dict[str, Ticket] = {}

    def enter(
        self,
        name: str,
        user: str = "a",
        *,
        is_large: bool = False,
        is_lookup: bool = False,
        size_bytes: int = 0,
    ) -> None:
        ticket = Ticket(
            user=Identity(Source.NOBODY, user),
            is_large=is_large,
            is_lookup=is_lookup,
            size_bytes=size_bytes,
            grant=lambda: self.granted.append(name),
        )
        self.tickets[name] = ticket
        self.slots.enter(ticket)

    def leave(self, name: str) -> None:
        self.slots.leave(self.tickets[name])


def test_the_first_to_arrive_goes_first() -> None:
    line = Line(running=1)
    for name in "abc":
        line.enter(name)
    line.leave("a")
    line.leave("b")

    assert line.granted == ["a", "b", "c"]


def test_a_small_query_finds_a_slot_while_large_ones_run() -> None:
    line = Line(running=8)
    for number in range(8):
        line.enter(f"large {number}", is_large=True)
    line.enter("small", "b")

    assert line.granted == [*(f"large {number}" for number in range(4)), "small"]


def test_a_lookup_finds_a_slot_while_others_fill_theirs() -> None:
    line = Line(running=4)
    for number in range(5):
        line.enter(f"unknown {number}", f"user {number}")
    for number in range(3):
        line.enter(f"lookup {number}", f"user {number}", is_lookup=True)

    assert line.granted == [*(f"unknown {number}" for number in range(4)), "lookup 0", "lookup 1"]


def test_lookups_take_all_slots_and_then_wait_in_turn() -> None:
    line = Line(running=2)
    for name in "abc":
        line.enter(f"lookup {name}", name, is_lookup=True)
    line.enter("early scan", "d")
    line.tickets["early scan"].arrived -= 60
    line.enter("scan", "e")
    line.enter("lookup f", "f", is_lookup=True)
    line.leave("lookup a")
    line.leave("lookup b")

    assert line.granted == ["lookup a", "lookup b", "lookup c", "early scan", "lookup f"]


def test_a_small_query_goes_before_a_large_one_that_arrived_shortly_before() -> None:
    line = Line(running=1)
    line.enter("first")
    line.enter("large", is_large=True)
    line.enter("small")
    line.leave("first")

    assert line.granted == ["first", "small"]


def test_a_large_query_that_has_waited_long_goes_in_turn() -> None:
    line = Line(running=1)
    line.enter("first")
    line.enter("large", is_large=True)
    line.tickets["large"].arrived -= 60
    line.enter("small")
    line.leave("first")

    assert line.granted == ["first", "large"]


def test_a_query_that_reads_more_counts_as_arrived_later() -> None:
    line = Line(running=1)
    line.enter("first")
    line.enter("scan", "a", size_bytes=2 << 20)
    line.enter("lookup", "b")
    line.leave("first")
    line.tickets["scan"].arrived -= 2
    line.enter("late", "c")
    line.leave("lookup")

    assert line.granted == ["first", "lookup", "scan"]


def test_a_user_with_long_queries_leaves_the_last_slots_to_others_for_a_while() -> None:
    line = Line(running=4, running_per_user=4)
    line.enter("endless", "greedy")
    line.tickets["endless"]._started -= 60
    line.leave("endless")
    for number in range(4):
        line.enter(f"next {number}", "greedy")
    line.enter("small", "modest")

    assert line.granted == ["endless", "next 0", "next 1", "small"]


def test_the_user_with_the_fewest_running_queries_goes_first() -> None:
    line = Line(running=2)
    for name in ("a1", "a2", "a3"):
        line.enter(name, "a")
    line.enter("b1", "b")
    line.leave("a1")

    assert line.granted == ["a1", "a2", "b1"]


def test_each_user_has_limits() -> None:
    line = Line(running_per_user=1, queued_per_user=1)
    line.enter("a1", "a")
    line.enter("a2", "a")
    with pytest.raises(TooManyQueriesError, match="of yours"):
        line.enter("a3", "a")
    line.enter("b1", "b")

    assert line.granted == ["a1", "b1"]


def test_a_query_that_has_run_for_long_counts_as_large() -> None:
    line = Line(running=4)
    for name in ("s1", "s2", "s3"):
        line.enter(name)
        line.tickets[name]._started -= 60
    line.enter("large", is_large=True)
    line.enter("small")

    assert line.granted == ["s1", "s2", "s3", "small"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(KINDS), st.booleans()), max_size=60))
def test_no_slot_is_given_twice_and_no_query_is_forgotten(
    steps: list[tuple[str, dict[str, bool], bool]],
) -> None:
    line = Line(running=4, running_per_user=2)
    inside: list[str] = []
    for number, (user, kind, leaves) in enumerate(steps):
        line.enter(str(number), user, **kind)
        assert line.slots.running <= 6
        inside = list(line.granted)
        if leaves and inside:
            line.leave(inside[0])
            line.granted.remove(inside[0])
            line.tickets.pop(inside[0])
    while line.granted:
        name = line.granted.pop(0)
        line.leave(name)
        line.tickets.pop(name)

    assert line.tickets == {}
    assert (line.slots.running, line.slots.waiting) == (0, 0)


def test_a_limited_number_of_stalled_queries_give_their_slots_back() -> None:
    line = Line(running=1, stalled=1)
    line.enter("a")
    paused = line.slots.pause(line.tickets["a"])
    line.enter("b")
    kept = line.slots.pause(line.tickets["b"])
    line.slots.enter_again(line.tickets["a"])
    line.leave("b")

    assert (paused, kept) == (True, False)
    assert line.granted == ["a", "b", "a"]
