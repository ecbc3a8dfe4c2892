"""The followers of a service: one look at the folders, and one diff of each table and checkpoint, for all of them.

A follower waits without a thread. While any does, one task looks at the folders, and wakes all when something is new. Rows that one
follower has asked for are kept for the others, a bounded number of bytes; who comes later asks again.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass

from anyio import CapacityLimiter, to_thread

from catalog import Catalog, CatalogError
from catalog.errors import NoSuchCheckpointError
from catalog.follow.steps import Step
from readers import ReaderError
from service.base.errors import QueryError, ServiceEndingError, query_error_of
from service.query.serving.results import Spool
from service.tasks.follow.changes import Changes, changes_of, is_statement
from service.tasks.follow.following import INTERVAL_S, CheckpointChanges, Follower, FollowRequest
from service.tasks.task import Context

_MOST_BYTES = 256 << 20
_MOST_KEPT = 256
_MOST_DIFFS = 4
# Looks take a fifth of the time of one thread at most.
_LOOK_SHARE = 4
HEARTBEAT_S = 15.0


@dataclass(frozen=True, slots=True)
class View:
    """Who follows, as it is now.

    Attributes:
        context: what the follower sees and may run.
        user: equal for all who get the same rows of any statement.
        mask: of all that the follower sees; None for none.
    """

    context: Context
    user: Hashable
    mask: str | None


class Followers:
    """All followers of a service; used in one event loop.

    Args:
        catalog: the checkpoints of all.
        spool: has the room for rows on the disk.
        is_ending: whether the service takes no more queries.

    Attributes:
        count: how many there are.
        diffs: how many were made so far.
    """

    def __init__(self, catalog: Catalog, spool: Spool, is_ending: Callable[[], bool]) -> None:
        self.count = self.diffs = 0
        self._catalog = catalog
        self._spool = spool
        self._is_ending = is_ending
        self._kept: OrderedDict[Hashable, asyncio.Task[Changes]] = OrderedDict()
        self._look: asyncio.Task[None] | None = None
        self._known: Hashable = None
        self._limiter: CapacityLimiter | None = None

    async def follow(
        self, request: FollowRequest, view: Callable[[], Awaitable[View]]
    ) -> AsyncIterator[CheckpointChanges | None]:
        """Return what each new checkpoint changes, as it comes; None if nothing was new for a while.

        Args:
            request: what is followed.
            view: says who follows; asked for each checkpoint.

        Raises:
            CatalogError, QueryError, ReaderError: as for `Follower`; later, a statement fails, or the job is not theirs any more.
        """
        seen = await view()
        try:
            follower = await to_thread.run_sync(Follower, request, seen.context)
        except NoSuchCheckpointError:
            # Another service may have told of a checkpoint that this one has not found yet.
            await to_thread.run_sync(self._catalog.refresh)
            seen = await view()
            follower = await to_thread.run_sync(Follower, request, seen.context)
        return self._checkpoints(follower, seen, view)

    async def _checkpoints(
        self, follower: Follower, seen: View, view: Callable[[], Awaitable[View]]
    ) -> AsyncIterator[CheckpointChanges | None]:
        request = follower.request
        self.count += 1
        try:
            while True:
                # Before the folders are looked at: what comes meanwhile is found by the next look.
                look = self._next_look()
                step = await to_thread.run_sync(follower.next, seen.context.catalog)
                if step is not None:
                    reading = self._reading(request.what, step, seen)
                    while not (await asyncio.wait([reading], timeout=HEARTBEAT_S))[0]:
                        yield None
                    try:
                        changes = reading.result()
                    except (QueryError, CatalogError, ReaderError) as error:
                        follower.failed(step, query_error_of(error))
                        yield None
                        # The next try tells whether it only went away.
                        await asyncio.wait([look], timeout=INTERVAL_S)
                    else:
                        yield follower.took(step, changes)
                elif request.once:
                    return
                elif not (await asyncio.wait([look], timeout=HEARTBEAT_S))[0]:
                    yield None
                if self._is_ending():
                    raise ServiceEndingError("the service ends", hint="follow again from the last token")
                seen = await view()
        finally:
            self.count -= 1

    def close(self) -> None:
        """End what looks and reads."""
        for task in (*self._kept.values(), *([] if self._look is None else [self._look])):
            task.cancel()
        self._kept.clear()

    def _reading(self, what: str, step: Step, view: View) -> asyncio.Task[Changes]:
        """Return what reads the rows of a step, for all who ask for them; it goes on where the first of them leaves."""
        places = [one and (one.path, one.modified_ns) for one in (step.before, step.database)]
        # The rows of a table depend on nothing but the two checkpoints and the mask; a statement may read any other table.
        key = (what, *places, view.mask, view.user if is_statement(what) else None)
        known = self._kept.get(key)
        if known is None or (known.done() and (known.cancelled() or known.exception() is not None)):
            self._forget()
            self.diffs += 1
            known = self._kept[key] = asyncio.create_task(self._read(what, step, view.context))
        self._kept.move_to_end(key)
        return known

    async def _read(self, what: str, step: Step, context: Context) -> Changes:
        if self._limiter is None:
            self._limiter = CapacityLimiter(_MOST_DIFFS)
        return await to_thread.run_sync(changes_of, what, step, context, self._spool, limiter=self._limiter)

    def _forget(self) -> None:
        """Drop the oldest rows while there are too many; their readers go on."""
        sizes = {key: _size_of(task) for key, task in self._kept.items() if task.done()}
        total = sum(sizes.values())
        for key, size_bytes in sizes.items():
            if total <= _MOST_BYTES and len(self._kept) < _MOST_KEPT:
                return
            del self._kept[key]
            total -= size_bytes

    def _next_look(self) -> asyncio.Task[None]:
        """Return what is done when something is new under the roots."""
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._find_new())
        return self._look

    async def _find_new(self) -> None:
        took_s = 0.0
        while not self._is_ending():
            # Folders of thousands of jobs take long to look through: that is not all that a service does.
            await asyncio.sleep(max(INTERVAL_S, _LOOK_SHARE * took_s))
            began_s = time.monotonic()
            # A root that cannot be listed for a moment is no reason to stop.
            with suppress(ReaderError, OSError):
                known = await to_thread.run_sync(self._looked)
                if known != self._known:
                    self._known = known
                    return
            took_s = time.monotonic() - began_s
            if not self.count:
                return

    def _looked(self) -> Hashable:
        self._catalog.refresh()
        return frozenset((one.path, one.modified_ns) for one in self._catalog.known())


def _size_of(task: asyncio.Task[Changes]) -> int:
    return 0 if task.cancelled() or task.exception() is not None else task.result().size_bytes
