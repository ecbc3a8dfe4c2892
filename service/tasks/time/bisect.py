"""The checkpoints of a job and a query → the first checkpoint for which the query returns a row, found with few questions.

The newest place is asked first: if it has no answer, nothing is looked for. After that each question halves the places that may
be the first one. Once a place has an answer, all later ones are taken to have one, too. A place that cannot be asked costs a
question and is left out; the next one to the middle takes its turn. So `ceil(log2(places)) + 1` questions are enough, and one
more for each place that cannot be asked.

| a checkpoint | is |
|---|---|
| has rows, has none | what it says |
| has no such table, and another one has it | without a row |
| is gone or broken | left out and named |

A query that fails for another reason ends the search: an answer that is not known must not decide.
A query that has a row whatever a checkpoint holds, such as `SELECT count(*) FROM t`, tells no checkpoint from another: it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any

from sqlglot import exp

from catalog import Catalog, Database, Job, NoSuchTableError
from readers import ReaderError
from service.base import errors
from service.query.encode import counted, dated, printable
from service.query.engines.registry import AUTO, choices
from service.query.running.request import QueryRequest, sendable
from service.query.running.run import Run
from service.query.running.session import FirstRows, describe_in_any, first_rows
from service.query.sql.text import parsed
from service.tasks.task import JUDGED, LONGEST_TEXT, Context, Task, TaskRequest, option

WARNING = (
    "the query has a row for every checkpoint that has its tables, because an aggregate without GROUP BY always returns one row; "
    "add a condition on the value, such as HAVING count(*) > 0"
)
# Aggregates of DuckDB whose names sqlglot does not know.
_AGGREGATES = frozenset(
    (
        "arg_max_null", "arg_max_nulls_last", "arg_min_null", "arg_min_nulls_last", "bitstring_agg", "count_star", "entropy",
        "favg", "fsum", "histogram", "histogram_exact", "kahan_sum", "kurtosis_pop", "mad", "mean", "product",
        "reservoir_quantile", "sem", "sum_no_overflow", "sumkahan",
    )
)  # fmt: skip
ROWS_KEPT = 10
_CHECKPOINT = re.compile(r"chk-(\d{1,18})")
_MOST_DIGITS = 19


def always_has_a_row(sql: str) -> bool:
    """Return whether a query returns a row even where its tables have none; False if that is not certain."""
    try:
        tree = parsed(sql)
    except errors.QueryError:
        return False
    return _always(tree, {})


def _always(tree: exp.Expr | None, named: dict[str, exp.Expr]) -> bool:
    """Return whether a query always has a row.

    Args:
        tree: the query.
        named: those of WITH, by their names.
    """
    if isinstance(tree, exp.Subquery):
        return _always(tree.this, named)
    if isinstance(tree, exp.Union):
        return not _limited(tree) and (_always(tree.left, named) or _always(tree.right, named))
    if not isinstance(tree, exp.Select) or _limited(tree):
        return False
    if any(tree.args.get(part) is not None for part in ("group", "having", "qualify")):
        return False
    if any(map(_is_aggregated, tree.expressions)):
        return True
    if tree.args.get("where") is not None or tree.args.get("joins"):
        return False
    source = tree.args.get("from_")
    if source is None:
        return True
    named = named | {one.alias.casefold(): one.this for one in tree.ctes}
    table = source.this
    if isinstance(table, exp.Table) and not table.db:
        # A query of WITH that names itself is asked once.
        known = named.pop(table.name.casefold(), None)
        return known is not None and _always(known, named)
    return isinstance(table, exp.Subquery) and _always(table, named)


def _limited(tree: exp.Expr) -> bool:
    """Return whether LIMIT or OFFSET may leave out the only row."""
    limit = tree.args.get("limit")
    count = None if limit is None else limit.args.get("expression")
    is_some = limit is None or (isinstance(count, exp.Literal) and count.this not in ("0", "0.0"))
    return not is_some or tree.args.get("offset") is not None


def _is_aggregated(column: exp.Expr) -> bool:
    """Return whether a column of SELECT calls an aggregate, neither in a window nor in a query of its own."""
    if isinstance(column, exp.Window | exp.Query):
        return False
    if isinstance(column, exp.AggFunc):
        return True
    if isinstance(column, exp.Anonymous) and column.name.casefold() in _AGGREGATES:
        return True
    return any(map(_is_aggregated, column.iter_expressions()))


Ask = Callable[[int], bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a search.

    Attributes:
        first: the first place with an answer; None if there is none.
        last: the last place without an answer before it; None if there is none.
    """

    first: int | None
    last: int | None


def search(places: int, ask: Ask) -> Found:
    """Search with as few questions as possible.

    Args:
        places: how many there are, the oldest is 0.
        ask: returns True for an answer, False for none, None where a place cannot be asked.
    """
    left = list(range(places))
    newest: bool | None = None
    place = -1
    while left and newest is None:
        place = left.pop()
        newest = ask(place)
    if not newest:
        return Found(first=None, last=None if newest is None else place)
    first, last = place, None
    while left:
        middle = len(left) // 2
        place = left[middle]
        answer = ask(place)
        if answer is None:
            del left[middle]
        elif answer:
            first, left = place, left[:middle]
        else:
            last, left = place, left[middle + 1 :]
    return Found(first=first, last=last)


def search_all(places: int, ask: Ask) -> Found:
    """Ask every place, from the oldest to the newest; the arguments are those of `search`."""
    answers = [ask(place) for place in range(places)]
    first = next((place for place, answer in enumerate(answers) if answer), None)
    before = (place for place, answer in enumerate(answers[:first]) if answer is False)
    return Found(first=first, last=max(before, default=None))


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
        place: of the checkpoint among those between which is searched, the oldest first.
        database: the checkpoint.
        checkpoint_id: the number that Flink gave it; None if it cannot be read.
        reply: what it replied.
        error: why it has no rows to show; None if it has some, or simply none.
        rows: the first rows; None without an answer.
    """

    place: int
    database: Database
    checkpoint_id: int | None = None
    reply: Reply
    error: errors.QueryError | None = None
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
        start = -1 if self.last is None else self.last.place
        return tuple(one for one in self.unreadable if start < one.place < self.first.place)

    @property
    def came_back(self) -> tuple[Question, ...]:
        """The checkpoints without a row behind the first with one; known only of those that were asked."""
        if self.first is None:
            return ()
        good = (one for one in self.questions if one.reply in (Reply.NO_ROWS, Reply.NO_TABLE))
        return tuple(one for one in good if one.place > self.first.place)

    @property
    def outcome(self) -> str:
        """`found`; `oldest` if all that were asked have a row, so that it may be older; `none` if none has one."""
        if self.first is None:
            return "none"
        return "found" if self.last is not None else "oldest"

    @property
    def exit_code(self) -> int:
        """See `Outcome`: 1 if no checkpoint has a row."""
        return int(self.first is None)

    def to_dict(self) -> dict[str, Any]:
        """See `Outcome`."""
        return {
            "job": sendable(self.job.name),
            "sql": self.sql,
            "outcome": self.outcome,
            "checkpoints": len(self.databases),
            "asked_all": self.asked_all,
            "questions": [_question(one) for one in self.questions],
            "first": None if self.first is None else _question(self.first, rows=True),
            "last": None if self.last is None else _question(self.last),
            "unreadable": [sendable(one.database.name) for one in self.unreadable],
            "maybe_first": [sendable(one.database.name) for one in self.between],
            "came_back": [sendable(one.database.name) for one in self.came_back],
            "warnings": list(self.warnings),
        }

    def lines(self, width: int | None) -> Iterator[str]:
        """See `Outcome`: the questions, and what they say."""
        yield _title(self.job)
        yield from (question_line(number, one) for number, one in enumerate(self.questions, start=1))
        yield ""
        yield from self.conclusion(width)

    def conclusion(self, width: int | None = None) -> Iterator[str]:
        """Yield what the questions say.

        Args:
            width: characters per line of the screen; None for lines of any length.
        """
        yield printable(_headline(self))
        yield from (printable(line) for line in _doubts(self))
        if self.first is not None:
            yield ""
            yield printable(f"first with a row     {_titled(self.first.database)}")
            if self.first.rows is not None:
                yield from (
                    f"{_INDENT}{line}" for line in self.first.rows.lines(width and width - len(_INDENT))
                )
            yield ""
            last = "none that was asked" if self.last is None else _titled(self.last.database)
            yield printable(f"last without a row   {last}")


@dataclass(slots=True)
class _Asking:
    """Asks the checkpoints of a job.

    Attributes:
        start: starts the query.
        request: the query.
        databases: the oldest first.
        note: told the line of each question as soon as it is answered.
        questions: those that were asked, by place.
    """

    start: Callable[[QueryRequest], Run]
    request: QueryRequest
    databases: Sequence[Database]
    note: Callable[[str], None]
    questions: dict[int, Question] = field(default_factory=dict)

    def ask(self, place: int) -> bool | None:
        """Ask one checkpoint; return None if it cannot be asked."""
        question = self._asked(place, self.databases[place])
        self.questions[place] = question
        self.note(question_line(len(self.questions), question))
        return None if question.reply is Reply.UNREADABLE else question.reply is Reply.ROWS

    def _asked(self, place: int, database: Database) -> Question:
        answered = partial(Question, place=place, database=database)
        try:
            checkpoint_id = database.checkpoint_id
            rows = first_rows(
                self.start, replace(self.request, schema=database.name), kept=ROWS_KEPT, counted=ROWS_KEPT
            )
        except ReaderError as error:
            return answered(reply=Reply.UNREADABLE, error=errors.query_error_of(error))
        except errors.SavepointError as error:
            return answered(reply=Reply.UNREADABLE, error=error)
        except errors.QueryError as error:
            if self.questions:
                error.message = f"{database.name}: {error.message}"
            if not isinstance(error.__cause__, NoSuchTableError):
                raise
            self._check_known()
            return answered(checkpoint_id=checkpoint_id, reply=Reply.NO_TABLE, error=error)
        reply = Reply.ROWS if rows.row_count else Reply.NO_ROWS
        return answered(checkpoint_id=checkpoint_id, reply=reply, rows=rows)

    def _check_known(self) -> None:
        """Check that a checkpoint has all tables of the query: only then it is no mistake that another one lacks them.

        Raises:
            QueryError: none has them, or the query means nothing where they are.
        """
        if all(one.reply is Reply.UNREADABLE for one in self.questions.values()):
            describe_in_any(self.start, self.request, reversed(self.databases))


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectRequest(TaskRequest):
    """The checkpoints of a job, and a query."""

    sql: str = option(
        "query that returns a row if something is wrong",
        argument=True,
        longest=LONGEST_TEXT,
        reads_input=True,
    )
    job: str | None = option("job; default: the only one", default=None, metavar="NAME")
    start: str | None = option(
        "oldest checkpoint to ask: 42, chk-42 or 2026-09-01T12:00:00Z; default: the oldest of all",
        default=None,
        metavar="CHECKPOINT",
        flag="from",
    )
    end: str | None = option(
        "newest checkpoint to ask; default: the newest of all", default=None, metavar="CHECKPOINT", flag="to"
    )
    check_all: bool = option(
        "Query every checkpoint; by default, all after the first with a row count as having one.",
        default=False,
    )
    engine: str = option("engine that runs the query", default=AUTO, choices=choices())


def run(request: BisectRequest, context: Context) -> Bisection:
    """Find the first checkpoint of a job for which a query returns a row.

    Raises:
        NoSuchJobError: there is no such job.
        InvalidRequestError: there are several jobs, or no such checkpoint, or none is left to ask.
        SavepointError: none of them can be read.
        QueryError: the query means nothing, is not allowed, or fails for another reason than that a checkpoint cannot be read.
    """
    catalog = context.catalog
    job = context.job(request.job)
    databases = _between(tuple(reversed(job.databases)), request.start, request.end)
    # A look at the roots between two questions must not change what is asked.
    query = replace(
        context.asked, sql=request.sql, engine=request.engine, catalog=Catalog.of(catalog.known())
    )
    context.note(_title(job))
    asking = _Asking(context.start, query, databases, context.note)
    found: Found = (search_all if request.check_all else search)(len(databases), asking.ask)
    questions = tuple(asking.questions.values())
    if all(one.reply is Reply.UNREADABLE for one in questions):
        raise _none_can_be_read(questions)
    last = found.last
    if found.first is None and request.check_all:
        last = max(place for place, one in asking.questions.items() if one.reply is not Reply.UNREADABLE)
    return Bisection(
        job=job,
        sql=request.sql,
        databases=databases,
        questions=questions,
        first=None if found.first is None else asking.questions[found.first],
        last=None if last is None else asking.questions[last],
        asked_all=request.check_all,
        warnings=(WARNING,) if always_has_a_row(request.sql) else (),
    )


def _between(databases: Sequence[Database], start: str | None, end: str | None) -> tuple[Database, ...]:
    """Return the databases from one to another, both included; the oldest is the first."""
    first = 0 if start is None else _place_from(databases, start)
    last = len(databases) if end is None else _place_to(databases, end)
    if first >= last:
        raise errors.InvalidRequestError(
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
        raise errors.InvalidRequestError(
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


def _none_can_be_read(questions: Sequence[Question]) -> errors.QueryError:
    newest = questions[0].error
    assert newest is not None
    if len(questions) > 1:
        newest.hint = f"none of {len(questions)} checkpoints can be read; this is the reason of the newest"
    return newest


def _title(job: Job) -> str:
    return printable(f"{job.name}: {counted(len(job.databases), 'checkpoint')}")


def question_line(number: int, question: Question) -> str:
    """Return the line of one question."""
    told = question.rows.count_text if question.rows is not None else question.reply.value
    reason = f": {_reason(question)}" if question.error is not None else ""
    return printable(
        f"{number:>3}  {question.database.name}  {dated(question.database.created_at)}  {told}{reason}"
    )


def _headline(found: Bisection) -> str:
    asked = f"{counted(len(found.questions), 'question')} to {counted(len(found.databases), 'checkpoint')} of {found.job.name}"
    match found.outcome:
        case "none":
            assert found.last is not None
            which = "none of them has a row" if found.asked_all else "the newest has no row"
            return f"{asked}: {which}"
        case "oldest":
            # What is before the checkpoints that were asked is gone, or was left out by the caller.
            is_oldest = found.databases[0] is found.job.databases[-1]
            older = "what is retained" if is_oldest else "what was asked"
            return f"{asked}: the oldest has a row already; it may be older than {older}"
        case _:
            assert found.first is not None
            return f"{asked}: it begins with {found.first.database.name}"


def _doubts(found: Bisection) -> Iterator[str]:
    """Yield what the answer leaves open."""
    yield from (f"warning: {warning}" for warning in found.warnings)
    between = {id(one) for one in found.between}
    for one in found.unreadable:
        may_be = "; it may be the first itself" if id(one) in between else ""
        yield f"left out: {one.database.name} cannot be read{may_be}: {_reason(one)}"
    back = found.came_back
    if back:
        names = ", ".join(one.database.name for one in back[:_NAMES_SHOWN])
        more = f" and {len(back) - _NAMES_SHOWN} more" if len(back) > _NAMES_SHOWN else ""
        yield f"it does not stay: later checkpoints have no row: {names}{more}"


def _titled(database: Database) -> str:
    return f"{database.name}  {dated(database.created_at)}"


def _reason(question: Question) -> str:
    error = question.error
    return "" if error is None else _told(error)


def _told(error: errors.QueryError) -> str:
    return " ".join(error.told.split())


def _question(question: Question, *, rows: bool = False) -> dict[str, Any]:
    made = question.database.created_at
    told: dict[str, Any] = {
        "database": sendable(question.database.name),
        "path": sendable(question.database.path),
        "checkpoint_id": question.checkpoint_id,
        "created_at": None if made is None else made.isoformat(),
        "reply": question.reply.value,
        "row_count": None if question.rows is None else question.rows.row_count,
        "error": None if question.error is None else _told(question.error),
    }
    if rows and question.rows is not None:
        told["rows"] = question.rows.to_dict()
    return told


_NAMES_SHOWN = 10
_INDENT = "  "
TASK = Task(request=BisectRequest, run=run, exits=JUDGED)
