"""`FollowRequest`, and the loop of one follower: look, step, read, hand over.

A checkpoint is handed over whole. One whose rows cannot be read is left out, and the next step spans it; a follower that ends there
fails with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from catalog import Catalog, CatalogError
from catalog.differences.table import diff_table
from catalog.follow.steps import LATEST, Step, Steps
from catalog.history import FACTS
from readers import ReaderError
from service.base.errors import (
    DatabaseNotFoundError,
    QueryError,
    SavepointError,
    query_error_of,
)
from service.query.engines.registry import AUTO, choices
from service.query.running.session import describe_in_any
from service.tasks.follow.changes import Changes, changes_of, is_statement
from service.tasks.task import LONGEST_TEXT, Context, TaskRequest, option

INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRequest(TaskRequest):
    """What is followed, and from where."""

    what: str = option(
        "Table, or a SELECT that is run in each checkpoint.",
        argument=True,
        metavar="TABLE|SELECT",
        longest=LONGEST_TEXT,
    )
    job: str | None = option(
        "Job that is followed; if not given, the only one.", default=None, metavar="NAME"
    )
    since: str = option(
        "The last checkpoint that you have: its number, such as 42, or the token of an earlier follower; latest for what comes from now "
        "on; earliest or snapshot to begin with all rows of the oldest or the newest checkpoint.",
        default=LATEST,
        metavar="CHECKPOINT",
    )
    once: bool = option("End at the newest checkpoint, in place of waiting for more.", default=False)
    successors: bool = option(
        "Go on with the job that was started from this one's state: the only newer one in the same folder with the same operators.",
        default=False,
    )
    engine: str = option("Engine that runs the queries.", default=AUTO, choices=choices())


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointChanges:
    """What a checkpoint changed.

    Attributes:
        step: the checkpoint, and how the follower came to it.
        changes: its rows.
        token: what a follower goes on from that has this checkpoint.
    """

    step: Step
    changes: Changes
    token: str

    @property
    def checkpoint_id(self) -> int:
        """The number of the checkpoint."""
        return self.step.position.number

    @property
    def checkpoint_at(self) -> datetime | None:
        """When Flink made it, in UTC."""
        return self.step.database.created_at

    @property
    def schema(self) -> pa.Schema:
        """The columns of `batches`: three that say which checkpoint it is, as in SQL's `changes`, and those of the changes."""
        return pa.schema([*FACTS, *(field for field in self.changes.schema if field.name not in FACTS.names)])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the columns of `schema`."""
        facts = (self.checkpoint_id, self.checkpoint_at, self.step.database.name)
        schema = self.schema
        for batch in self.changes.batches():
            own = [
                pa.repeat(pa.scalar(fact, kind), batch.num_rows)
                for fact, kind in zip(facts, FACTS.types, strict=True)
            ]
            others = [batch.column(name) for name in schema.names[len(own) :]]
            yield pa.RecordBatch.from_arrays([*own, *others], schema=schema)


class Follower:
    """Where one follower is, and what it does about checkpoints that cannot be read.

    Args:
        request: what it follows.
        context: the checkpoints, for the beginning, and what runs a statement.

    Attributes:
        steps: its steps.
        failure: why the last checkpoint was left out; None if it was not.

    Raises:
        CatalogError: there is no such job or table, or one without differences.
        QueryError: the statement means nothing, or the beginning is none.
        ReaderError: no checkpoint can be read.
    """

    def __init__(self, request: FollowRequest, context: Context) -> None:
        self.request = request
        job = context.job(request.job)
        if is_statement(request.what):
            # What means nothing is an error at once, and not a stream without rows.
            describe_in_any(context.start, replace(context.asked, sql=request.what), job.databases)
        else:
            found = context.catalog.history(job).table(request.what)
            diff_table(None, found.members[0].database, found.name)
        self.steps = Steps(
            context.catalog,
            job,
            request.since,
            takes_successors=request.successors,
            told=lambda error: query_error_of(error).message,
        )
        self.failure: QueryError | None = None
        self._again: Step | None = None

    def next(self, catalog: Catalog) -> Step | None:
        """Return the next step; None if there is none yet.

        Raises:
            QueryError: a checkpoint was left out, and the follower wants to end there.
        """
        step = self.steps.next(catalog)
        if step is None and self.failure is not None and self.request.once:
            raise self.failure
        return step

    def took(self, step: Step, changes: Changes) -> CheckpointChanges:
        """Go on from a step whose rows were read."""
        self.steps.took(step)
        self.failure = self._again = None
        return CheckpointChanges(step=step, changes=changes, token=self.steps.token or "")

    def failed(self, step: Step, error: QueryError) -> None:
        """Leave out a checkpoint whose rows cannot be read, unless it only went away: then the next look knows more.

        Raises:
            QueryError: the error itself, if it says nothing of the checkpoint, or if nothing else can be begun with.
        """
        if not isinstance(error, SavepointError | DatabaseNotFoundError):
            raise error
        if self.steps.position is None:
            raise error
        self.failure = error
        # Once it may have gone away; twice it is there and cannot be read.
        if self._again == step:
            self.steps.failed(step, error.message)
        self._again = step


def follow(
    request: FollowRequest,
    context: Context,
    *,
    interval_s: float = INTERVAL_S,
    wait: Callable[[float], object] = time.sleep,
    is_over: Callable[[], bool] = lambda: False,
) -> Iterator[CheckpointChanges]:
    """Yield what each new checkpoint changed, until the caller stops or, with `once`, the newest is reached.

    Args:
        request: what is followed.
        context: the checkpoints, and what runs the statements.
        interval_s: seconds between two looks at the folders.
        wait: waits for so many seconds.
        is_over: whether to end.

    Raises:
        CatalogError, QueryError, ReaderError: as for `Follower`; or a statement fails.
    """
    follower = Follower(request, context)
    told = ""
    while not is_over():
        step = follower.next(context.catalog)
        if step is not None:
            try:
                changes = changes_of(request.what, step, context)
            except (QueryError, CatalogError, ReaderError) as error:
                follower.failed(step, query_error_of(error))
            else:
                yield follower.took(step, changes)
                continue
        elif request.once:
            return
        wait(interval_s)
        told = look_again(context, told)


def look_again(context: Context, told: str) -> str:
    """Look at the folders again; warn, once, if they cannot be listed, which is no reason to stop.

    Args:
        context: the checkpoints.
        told: the last warning.

    Returns:
        The warning of this look; empty if there is none.
    """
    try:
        context.catalog.refresh()
    except (ReaderError, OSError) as error:
        message = query_error_of(error).message if isinstance(error, ReaderError) else str(error)
        if message != told:
            context.warn(message)
        return message
    return ""
