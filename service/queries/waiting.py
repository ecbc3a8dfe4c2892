"""Waiting for a query without a thread that waits: hundreds of clients may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.requests import Request

from service.queries.query import Query


async def wait_until_ready(query: Query, timeout_s: float | None = None) -> bool:
    """Wait until rows, or the end of them, are there; whether they are."""
    return await _wait_until(lambda: query.is_ready, query, timeout_s)


async def wait_until_ended(query: Query, timeout_s: float) -> bool:
    """Wait until all rows were found, or the query failed; whether that is so."""
    return await _wait_until(lambda: query.state.has_ended, query, timeout_s)


async def _wait_until(happens: Callable[[], bool], query: Query, timeout_s: float | None) -> bool:
    if happens():
        return True
    loop = asyncio.get_running_loop()
    happened = asyncio.Event()

    def tell() -> None:
        # The loop may have closed: the query outlives those who wait for it.
        if happens() and not loop.is_closed():
            loop.call_soon_threadsafe(happened.set)

    query.add_listener(tell)
    try:
        async with asyncio.timeout(timeout_s):
            with query.attended():
                if not happens():
                    await happened.wait()
    except TimeoutError:
        return happens()
    finally:
        query.remove_listener(tell)
    return True


@asynccontextmanager
async def cancelled_on_disconnect(request: Request, query: Query) -> AsyncIterator[None]:
    """A client that goes away in the meantime cancels the query."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        query.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
