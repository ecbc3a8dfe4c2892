"""Work in threads that the event loop waits for, and may stop waiting for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from anyio import CapacityLimiter, create_task_group, sleep_forever, to_thread

_Found = TypeVar("_Found")


async def found_in_thread(
    read: Callable[[], _Found], end: Callable[[], None], limiter: CapacityLimiter | None = None
) -> _Found:
    """Return what a function finds in a thread.

    A thread cannot be cancelled: its caller waits for it in any case, so what it waits for must end.

    Args:
        read: the function.
        end: ends what `read` waits for; called when the caller is cancelled, and when `read` has returned.
        limiter: how many threads may run; None for those of all calls.
    """

    async def end_with_the_caller() -> None:
        try:
            await sleep_forever()
        finally:
            end()

    return (await found_beside(lambda: to_thread.run_sync(read, limiter=limiter), end_with_the_caller))[0]


async def found_beside(
    work: Callable[[], Awaitable[_Found]], *companions: Callable[[], Awaitable[object]]
) -> list[_Found]:
    """Return what some work finds, alone in a list; nothing if a companion has ended before, which cancels the work.

    Args:
        work: the work.
        companions: what runs beside it, and no longer than it.
    """
    failure: Exception | None = None
    found: list[_Found] = []

    async def accompany(companion: Callable[[], Awaitable[object]]) -> None:
        await companion()
        group.cancel_scope.cancel()

    async with create_task_group() as group:
        for companion in companions:
            group.start_soon(accompany, companion)
        # Out of the group, an error would be one of a group of errors.
        try:
            found.append(await work())
        except Exception as error:
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return found
