"""Starts of queries: a few at a time, more while these take long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from service.query.serving.starts import QueryStarts
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def starts() -> Iterator[QueryStarts]:
    made = QueryStarts(1.0, 1)
    yield made
    made.close()


def test_a_start_that_takes_long_holds_none_up(starts: QueryStarts) -> None:
    go_on = threading.Event()

    async def all_started() -> list[int]:
        slow = [asyncio.create_task(starts.run(lambda: go_on.wait(PATIENCE_S))) for _ in range(8)]
        quick = await asyncio.gather(*(starts.run(partial(int, number)) for number in range(20)))
        go_on.set()
        assert all(await asyncio.gather(*slow))
        return quick

    assert asyncio.run(all_started()) == list(range(20))


def test_a_start_raises_what_its_function_raises(starts: QueryStarts) -> None:
    async def outcomes() -> list[int | BaseException]:
        return await asyncio.gather(*(starts.run(lambda: int("x")) for _ in range(3)), return_exceptions=True)

    assert [type(outcome) for outcome in asyncio.run(outcomes())] == [ValueError] * 3


def test_nobody_needs_to_wait_for_a_start(starts: QueryStarts) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def start() -> None:
        begun.set()
        go_on.wait(PATIENCE_S)

    async def one() -> int:
        return await starts.run(lambda: 1)

    async def left_alone() -> None:
        waiting = asyncio.create_task(starts.run(start))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(left_alone())
    # Its end is for a loop that has ended before.
    go_on.set()

    assert asyncio.run(one()) == 1
