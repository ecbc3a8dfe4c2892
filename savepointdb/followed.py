"""What `Connection.follow` gives: a checkpoint at a time, as Arrow tables or data frames; in `for` and in `async for`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa

from catalog.follow.steps import Gap
from savepointdb.errors import translated
from savepointdb.results import Rows
from service.tasks.follow.following import CheckpointChanges, FollowRequest, follow
from service.tasks.task import Context


class FollowedCheckpoint(Rows):
    """What a checkpoint changed: its rows, with `_checkpoint_id`, `_checkpoint_at` and `_database` in front.

    Args:
        found: the changes.
    """

    def __init__(self, found: CheckpointChanges) -> None:
        self._found = found

    @property
    def _table(self) -> pa.Table:
        return pa.Table.from_batches(self._found.batches(), self._found.schema)

    def __len__(self) -> int:
        return self._found.changes.row_count

    def __bool__(self) -> bool:
        return True

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches, without holding all of them."""
        return self._found.batches()

    @property
    def checkpoint_id(self) -> int:
        """The number of the checkpoint."""
        return self._found.checkpoint_id

    @property
    def checkpoint_at(self) -> datetime | None:
        """When Flink made it, in UTC."""
        return self._found.checkpoint_at

    @property
    def database(self) -> str:
        """The name of its database."""
        return self._found.step.database.name

    @property
    def token(self) -> str:
        """What `since` takes to go on after this checkpoint; keep it with what you made of the rows."""
        return self._found.token

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The checkpoints that these rows span: the first, the last, and why they cannot be read."""
        return self._found.step.gaps

    @property
    def restarted(self) -> str:
        """Why this is another run of the job; empty if it is not."""
        return self._found.step.restarted

    @property
    def reset(self) -> str:
        """Why the rows are all rows of the checkpoint, which replace those of before; empty if they are changes."""
        return self._found.step.reset

    def __repr__(self) -> str:
        return f"<checkpoint {self.checkpoint_id}: {len(self):,} changes, token {self.token!r}>"


class Following:
    """The checkpoints of a job, as they come. Read it once, in `for` or in `async for`; `close` ends it, from any thread.

    Args:
        request: what is followed.
        context: the checkpoints, and what runs the statements.
        interval_s: seconds between two looks at the folder.
    """

    def __init__(self, request: FollowRequest, context: Context, interval_s: float) -> None:
        self._closed = threading.Event()
        self._found = follow(
            request, context, interval_s=interval_s, wait=self._closed.wait, is_over=self._closed.is_set
        )

    def __iter__(self) -> Iterator[FollowedCheckpoint]:
        return self

    def __next__(self) -> FollowedCheckpoint:
        with translated():
            return FollowedCheckpoint(next(self._found))

    def __aiter__(self) -> AsyncIterator[FollowedCheckpoint]:
        return self

    async def __anext__(self) -> FollowedCheckpoint:
        try:
            found = await asyncio.to_thread(next, self, None)
        except asyncio.CancelledError:
            # The thread waits for the next look only.
            self.close()
            raise
        if found is None:
            raise StopAsyncIteration
        return found

    def close(self) -> None:
        """End the waiting; `for` ends as if no checkpoint came any more."""
        self._closed.set()

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
