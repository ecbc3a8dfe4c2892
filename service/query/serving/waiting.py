"""Waiting for a query, or for other work, without a thread per client: hundreds of clients may wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from anyio import CancelScope
from starlette.requests import Request

from service.base.errors import QueryCancelledError
from service.query.serving.query import Query


async def wait_until_ready(query: Query, timeout_s: float | None = None) -> bool:
    """Wait until rows are ready, or the query has ended; return False after the timeout."""
    return await _wait_until(lambda: query.is_ready, query, timeout_s)


async def wait_until_ended(query: Query, timeout_s: float) -> bool:
    """Wait until the query has found all rows, or failed; return False after the timeout."""
    return await _wait_until(lambda: query.state.has_ended, query, timeout_s)


async def _wait_until(happens: Callable[[], bool], query: Query, timeout_s: float | None) -> bool:
    if happens():
        return True
    loop = asyncio.get_running_loop()
    happened = asyncio.Event()

    def notify() -> None:
        # The query may outlive the client's request, and the loop.
        if happens() and not loop.is_closed():
            loop.call_soon_threadsafe(happened.set)

    query.results.add_listener(notify)
    try:
        async with asyncio.timeout(timeout_s):
            with query.attendance.attended():
                # It may have happened between the first check and the listener.
                if not happens():
                    await happened.wait()
    except TimeoutError:
        return happens()
    finally:
        query.results.remove_listener(notify)
    return True


@asynccontextmanager
async def cancelled_on_disconnect(request: Request, query: Query) -> AsyncIterator[None]:
    """Cancel the query if its client disconnects before the block ends."""

    watching = asyncio.create_task(_call_on_disconnect(request, query.cancel))
    try:
        yield
    finally:
        watching.cancel()


@asynccontextmanager
async def ended_on_disconnect(request: Request) -> AsyncIterator[None]:
    """Cancel the block if its client disconnects before the block ends.

    Raises:
        QueryCancelledError: it did.
    """
    with CancelScope() as scope:
        watching = asyncio.create_task(_call_on_disconnect(request, scope.cancel))
        try:
            yield
        finally:
            watching.cancel()
    if scope.cancelled_caught:
        raise QueryCancelledError("the client is gone")


async def _call_on_disconnect(request: Request, call: Callable[[], object]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    call()
