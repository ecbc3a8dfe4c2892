"""Work in threads that the event loop waits for, and may stop waiting for."""

from __future__ import annotations

from collections.abc import Callable
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
    failure: Exception | None = None
    found: list[_Found] = []

    async def end_with_the_caller() -> None:
        try:
            await sleep_forever()
        finally:
            end()

    async with create_task_group() as group:
        group.start_soon(end_with_the_caller)
        # Out of the group, an error would be one of a group of errors.
        try:
            found.append(await to_thread.run_sync(read, limiter=limiter))
        except Exception as error:
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return found[0]
