"""The checkpoints of one job, asked one query: the first one for which it returns a row.

| a checkpoint | is |
|---|---|
| has rows, has none | what it says |
| has no such table, and a newer one has it | without a row: the state did not exist yet |
| is gone or broken | left out and named |

A query that fails for another reason ends the search: an answer that is not known must not decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum

from catalog import Catalog, Database, Job, NoSuchTableError
from readers import ReaderError
from service.base.errors import (
    InvalidRequestError,
    QueryError,
    SavepointError,
    TableNotFoundError,
    query_error_of,
)
from service.query.serving.firstrows import FirstRows, first_rows
from service.query.serving.registry import Queries
from service.query.serving.request import QueryRequest
from service.tasks.bisect.search import Found, search, search_all
from service.tasks.bisect.singlerows import WARNING, always_has_a_row

ROWS_KEPT = 10


class Reply(StrEnum):
    """The reply of one checkpoint."""

    ROWS = "rows"
    NO_ROWS = "no rows"
    NO_TABLE = "no such table"
    UNREADABLE = "cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One checkpoint that was asked.

    Attributes:
        database: the checkpoint.
        checkpoint_id: the number that Flink gave it; None if it cannot be read.
        reply: what it replied.
        error: why it has no rows to show; None if it has some, or simply none.
        rows: the first rows; None without an answer.
    """

    database: Database
    checkpoint_id: int | None
    reply: Reply
    error: QueryError | None = None
    rows: FirstRows | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """What was found.

    Attributes:
        job: the job.
        sql: the query.
        databases: the checkpoints between which was searched, the oldest first.
        questions: those that were asked, in this order.
        first: the first with a row; None if there is none.
        last: the last without a row before it, or the newest of all if none has one; None if there is none.
        asked_all: True if every checkpoint was asked.
        warnings: why the answer may mean nothing, in sentences for the client.
    """

    job: Job
    sql: str
    databases: tuple[Database, ...]
    questions: tuple[Question, ...]
    first: Question | None
    last: Question | None
    asked_all: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def unreadable(self) -> tuple[Question, ...]:
        """The checkpoints that could not be asked."""
        return tuple(one for one in self.questions if one.reply is Reply.UNREADABLE)

    @property
    def between(self) -> tuple[Question, ...]:
        """Those of them that stand between the last without a row and the first with one: each may be the first itself."""
        if self.first is None:
            return ()
        places = {id(database): place for place, database in enumerate(self.databases)}
        start = -1 if self.last is None else places[id(self.last.database)]
        end = places[id(self.first.database)]
        return tuple(one for one in self.unreadable if start < places[id(one.database)] < end)

    @property
    def came_back(self) -> tuple[Question, ...]:
        """The checkpoints without a row behind the first with one; known only of those that were asked."""
        if self.first is None:
            return ()
        places = {id(database): place for place, database in enumerate(self.databases)}
        first = places[id(self.first.database)]
        good = (one for one in self.questions if one.reply in (Reply.NO_ROWS, Reply.NO_TABLE))
        return tuple(one for one in good if places[id(one.database)] > first)


@dataclass(slots=True)
class _Asking:
    """Asks the checkpoints of a job.

    Attributes:
        queries: run the query.
        request: the query.
        databases: the oldest first.
        heard: told of each question as soon as it is answered.
        questions: those that were asked, by place.
    """

    queries: Queries
    request: QueryRequest
    databases: Sequence[Database]
    heard: Callable[[Question], None]
    questions: dict[int, Question] = field(default_factory=dict)

    def ask(self, place: int) -> bool | None:
        """Ask one checkpoint; return None if it cannot be asked."""
        question = self._asked(self.databases[place])
        self.questions[place] = question
        self.heard(question)
        return None if question.reply is Reply.UNREADABLE else question.reply is Reply.ROWS

    def _asked(self, database: Database) -> Question:
        try:
            checkpoint_id = database.checkpoint_id
            rows = first_rows(
                self.queries,
                replace(self.request, schema=database.name),
                kept=ROWS_KEPT,
                counted=ROWS_KEPT,
            )
        except ReaderError as error:
            return Question(
                database=database, checkpoint_id=None, reply=Reply.UNREADABLE, error=query_error_of(error)
            )
        except SavepointError as error:
            return Question(database=database, checkpoint_id=None, reply=Reply.UNREADABLE, error=error)
        except QueryError as error:
            if self.questions:
                error.message = f"{database.name}: {error.message}"
            # Only a table that some checkpoint has is no mistake of the query.
            if not isinstance(error, TableNotFoundError) or not self._is_known(error):
                raise
            return Question(database=database, checkpoint_id=checkpoint_id, reply=Reply.NO_TABLE, error=error)
        reply = Reply.ROWS if rows.row_count else Reply.NO_ROWS
        return Question(database=database, checkpoint_id=checkpoint_id, reply=reply, rows=rows)

    def _is_known(self, error: TableNotFoundError) -> bool:
        """Return whether another checkpoint has all tables of the query."""
        is_answered = any(one.rows is not None for one in self.questions.values())
        return is_answered and isinstance(error.__cause__, NoSuchTableError)


def bisect(
    queries: Queries,
    catalog: Catalog,
    job: Job,
    request: QueryRequest,
    *,
    start: str | None = None,
    end: str | None = None,
    asks_all: bool = False,
    heard: Callable[[Question], None] = lambda _: None,
) -> Bisection:
    """Find the first checkpoint of a job for which a query returns a row.

    Args:
        queries: run the query.
        catalog: the databases that the query may name.
        job: the job.
        request: the query; its tables without a database are those of each checkpoint in turn.
        start, end: the oldest and the newest checkpoint to ask: a number, a name or a time; None for all.
        asks_all: True to ask every checkpoint: without it, all are taken to have a row once one has.
        heard: told of each question as soon as it is answered.

    Raises:
        InvalidRequestError: there is no such checkpoint, or none is left to ask.
        SavepointError: none of them can be read.
        QueryError: the query means nothing, is not allowed, or fails for another reason than that a checkpoint cannot be read.
    """
    databases = _between(tuple(reversed(job.databases)), start, end)
    # A look at the roots between two questions must not change what is asked.
    request = replace(request, catalog=Catalog.of(catalog.known()))
    asking = _Asking(queries, request, databases, heard)
    found: Found = (search_all if asks_all else search)(len(databases), asking.ask)
    questions = tuple(asking.questions.values())
    if all(one.reply is Reply.UNREADABLE for one in questions):
        raise _none_can_be_read(questions)
    last = found.last
    if found.first is None and asks_all:
        last = max(place for place, one in asking.questions.items() if one.reply is not Reply.UNREADABLE)
    return Bisection(
        job=job,
        sql=request.sql,
        databases=databases,
        questions=questions,
        first=None if found.first is None else asking.questions[found.first],
        last=None if last is None else asking.questions[last],
        asked_all=asks_all,
        warnings=(WARNING,) if always_has_a_row(request.sql) else (),
    )


def only_job(catalog: Catalog, name: str | None, *, option: str) -> Job:
    """Return the job of a name, or the only one.

    Args:
        catalog: the databases.
        name: of the job; None for the only one.
        option: how a user names a job, for the error.

    Raises:
        NoSuchJobError: there is no such job.
        InvalidRequestError: no name is given, and there are several jobs.
    """
    if name is not None:
        return catalog.job(name)
    jobs = catalog.jobs()
    if len(jobs) != 1:
        known = ", ".join(f"{job.name} ({len(job.databases)})" for job in jobs[:_JOBS_LISTED])
        more = f" and {len(jobs) - _JOBS_LISTED} more" if len(jobs) > _JOBS_LISTED else ""
        raise InvalidRequestError(
            f"expected one job, found {len(jobs)}: {known}{more}", hint=f"name it: {option}"
        )
    return jobs[0]


def _between(databases: Sequence[Database], start: str | None, end: str | None) -> tuple[Database, ...]:
    """Return the databases from one to another, both included; the oldest is the first."""
    first = 0 if start is None else _place_from(databases, start)
    last = len(databases) if end is None else _place_to(databases, end)
    if first >= last:
        raise InvalidRequestError(
            f"expected checkpoints from {start or 'the oldest'} to {end or 'the newest'}, found none",
            hint=f"the job has {len(databases)}, from {databases[0].name} to {databases[-1].name}",
        )
    return tuple(databases[first:last])


def _place_from(databases: Sequence[Database], text: str) -> int:
    """Return the place of the first database that is not before what a text names."""
    named = _named(databases, text)
    if named is not None:
        return named
    meets = _condition(text, lambda one, other: one >= other)
    return next((place for place, one in enumerate(databases) if meets(one)), len(databases))


def _place_to(databases: Sequence[Database], text: str) -> int:
    """Return the place behind the last database that is not behind what a text names."""
    named = _named(databases, text)
    if named is not None:
        return named + 1
    meets = _condition(text, lambda one, other: one <= other)
    return next((place + 1 for place in reversed(range(len(databases))) if meets(databases[place])), 0)


def _named(databases: Sequence[Database], text: str) -> int | None:
    folded = text.casefold()
    for place, database in enumerate(databases):
        if folded in (database.name.casefold(), _folder(database).casefold()):
            return place
    return None


def _condition(text: str, holds: Callable[[float, float], bool]) -> Callable[[Database], bool]:
    """Return a test of databases: by their numbers, or by their times.

    Raises:
        InvalidRequestError: the text is neither.
    """
    if text.isascii() and text.isdecimal() and len(text) < _MOST_DIGITS:
        number = int(text)
        return lambda database: (found := _number(database)) is not None and holds(found, number)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequestError(
            f"expected a checkpoint as its number, its name or a time, found {text!r:.100}",
            hint="42, chk-42 or 2026-09-01T12:00:00Z",
        ) from error
    seconds = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return lambda database: (made := database.created_at) is not None and holds(made.timestamp(), seconds)


def _number(database: Database) -> int | None:
    """Return the number of a checkpoint; None if neither its folder nor its file says it."""
    found = _CHECKPOINT.fullmatch(_folder(database))
    if found is not None:
        return int(found[1])
    try:
        return database.checkpoint_id
    except ReaderError:
        return None


def _folder(database: Database) -> str:
    return database.path.rstrip("/").rpartition("/")[2]


def _none_can_be_read(questions: Sequence[Question]) -> QueryError:
    newest = questions[0].error
    assert newest is not None
    if len(questions) > 1:
        newest.hint = f"none of {len(questions)} checkpoints can be read; this is the reason of the newest"
    return newest


_CHECKPOINT = re.compile(r"chk-(\d{1,18})")
_MOST_DIGITS = 19
_JOBS_LISTED = 20
