"""Waiting for a query without a thread that waits: hundreds of clients may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request

from service.query import Query


async def wait_until_ready(query: Query, timeout_s: float | None = None) -> bool:
    """Wait until rows, or the end of them, are there; whether they are."""
    if query.is_ready:
        return True
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()

    def tell() -> None:
        # The loop may have closed: the query outlives those who wait for it.
        if not loop.is_closed():
            loop.call_soon_threadsafe(changed.set)

    query.add_listener(tell)
    try:
        async with asyncio.timeout(timeout_s):
            with query.attended():
                while not query.is_ready:
                    await changed.wait()
                    changed.clear()
    except TimeoutError:
        return query.is_ready
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
