"""The rules on one savepoint and the one before it → results.

A rule sees the tables of its savepoint, and those of the one before it as `previous.table`; no other savepoint, so that it means the
same wherever it runs. The one before is of the same job, next in age, and readable, as far as `_metadata` says; newer ones that are not
are named. Of a job that has none the rules that need one are skipped. An error of a rule is never a violation, and a file that cannot be
read is neither.

| exit code | when |
|---|---|
| 0 | no rule is violated, or only rules of less severity than asked for |
| 1 | a rule is violated |
| 2 | a rule has an error, or the command line is wrong |
| 3 | a savepoint, or a part of it that a rule needs, cannot be read |

Of several the greatest counts: what was not tested may be violated, too.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from catalog import Catalog, Database, Job, NoSuchDatabaseError, NoSuchTableError
from readers import ReaderError, SavepointGoneError
from service.base.errors import (
    DatabaseNotFoundError,
    InvalidQueryError,
    QueryCancelledError,
    QueryError,
    SavepointError,
    ServiceEndingError,
    TableNotFoundError,
    TooManyQueriesError,
    query_error_of,
)
from service.query.encode import counted
from service.query.running.request import QueryRequest, sendable
from service.query.running.run import Run
from service.query.running.session import FirstRows, first_rows
from service.query.sql.text import with_values
from service.tasks.time.test.rules import CURRENT, PREVIOUS, ChosenState, Rule, Severity

KEPT, VIOLATED, BROKEN, UNREADABLE = range(4)
ROWS_KEPT = 5
_ROWS_COUNTED = 10_000
_MOST_STATES = 10_000


class Status(StrEnum):
    """How a rule ended on a savepoint."""

    PASSED = "passed"
    VIOLATED = "violated"
    SKIPPED = "skipped"
    ERROR = "error"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """The result of a rule on a savepoint, or on one of its states.

    Attributes:
        rule: the rule.
        status: how it ended.
        table: the table of the state; empty if the rule is not tested for each state.
        message: what was found, or why it was not tested; empty if it passed.
        rows: the first rows that violate it; None if there are none.
        sql: the query whose rows these are, with the values of its parameters; empty if it was not asked.
        elapsed_s: seconds that it took.
    """

    rule: Rule
    status: Status
    table: str = ""
    message: str = ""
    rows: FirstRows | None = None
    sql: str = ""
    elapsed_s: float = 0.0

    @property
    def title(self) -> str:
        """The name of the rule, with the table if it is tested for each state."""
        return f"{self.rule.name} › {self.table}" if self.table else self.rule.name

    def fails(self, fail_on: Severity) -> bool:
        """Return whether it is a violation of at least this severity."""
        return self.status is Status.VIOLATED and self.rule.severity.weight <= fail_on.weight

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that are JSON."""
        return {
            "rule": self.rule.name,
            "severity": self.rule.severity.value,
            "description": self.rule.description,
            "table": sendable(self.table) or None,
            "status": self.status.value,
            "message": sendable(self.message) or None,
            "expected": self.rule.expectation,
            "rows": None if self.rows is None else self.rows.to_dict(),
            "sql": sendable(self.sql) or None,
            "elapsed_s": round(self.elapsed_s, 3),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointResult:
    """The results of all rules on a savepoint.

    Attributes:
        name: of its database.
        path: its directory.
        job: the name of its job.
        checkpoint_id: the number that Flink gave it; None if it cannot be read.
        kind: `SAVEPOINT` or `CHECKPOINT`; None if it does not say, or cannot be read.
        created_at: the time of its `_metadata`; None where it is not known.
        previous: the name of the one before it; None if there is none.
        previous_path: its directory; empty if there is none.
        notes: what a reader should know of the choice of these savepoints, in sentences.
        error: why it cannot be read; empty if it can.
        is_gone: True if it was deleted meanwhile.
        results: of the rules; none if it cannot be read.
    """

    name: str
    path: str
    job: str
    checkpoint_id: int | None = None
    kind: str | None = None
    created_at: datetime | None = None
    previous: str | None = None
    previous_path: str = ""
    notes: tuple[str, ...] = ()
    error: str = ""
    is_gone: bool = False
    results: tuple[RuleResult, ...] = ()

    def exit_code(self, fail_on: Severity) -> int:
        """Return what it contributes to the exit code."""
        statuses = {one.status for one in self.results}
        if self.error or Status.UNREADABLE in statuses:
            return UNREADABLE
        if Status.ERROR in statuses:
            return BROKEN
        return VIOLATED if any(one.fails(fail_on) for one in self.results) else KEPT

    def all_rows(self, one: RuleResult) -> str:
        """Return the command that shows all rows that violate a rule; empty if the report has them all."""
        if one.rows is None or one.rows.row_count <= one.rows.batch.num_rows:
            return ""
        savepoints = [f"{CURRENT}={self.path}"]
        if PREVIOUS in one.sql.casefold() and self.previous_path:
            savepoints.append(f"{PREVIOUS}={self.previous_path}")
        return shlex.join(["savepointdb", "query", *savepoints, _in_a_line(one.sql), "--database", CURRENT])

    def counts(self) -> Counter[Status]:
        """Return how many results have each status."""
        return Counter(one.status for one in self.results)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that are JSON."""
        return {
            "name": sendable(self.name),
            "path": sendable(self.path),
            "job": sendable(self.job),
            "checkpoint_id": self.checkpoint_id,
            "kind": self.kind,
            "created_at": None if self.created_at is None else self.created_at.isoformat(),
            "previous": None if self.previous is None else sendable(self.previous),
            "notes": [sendable(note) for note in self.notes],
            "error": sendable(self.error) or None,
            "results": [one.to_dict() for one in self.results],
        }


def _in_a_line(sql: str) -> str:
    """Return a query on one line, unless a line of it may end in a comment, or within quotation marks."""
    lines = sql.strip().splitlines()
    is_safe = "--" not in sql and all(line.count(mark) % 2 == 0 for line in lines for mark in "'\"")
    return " ".join(line.strip() for line in lines) if is_safe else sql.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A savepoint to test.

    Attributes:
        database: the savepoint.
        job: the name of its job.
        previous: the one before it; None if there is none.
        notes: what a reader should know of this choice, in sentences.
    """

    database: Database
    job: str
    previous: Database | None = None
    notes: tuple[str, ...] = ()

    @property
    def no_previous(self) -> str:
        """The reason why rules that need the one before it are skipped."""
        return f"there is no checkpoint before {self.database.name} that can be read"


def newest_ones(catalog: Catalog, previous: Database | None = None) -> list[Subject]:
    """Return the newest savepoint of each job.

    Args:
        catalog: the savepoints.
        previous: the one before the only one that is tested, in place of that of its job; None for that.
    """
    return [subject_of(job, 0, previous) for job in catalog.jobs()]


def all_of(catalog: Catalog) -> list[Subject]:
    """Return every savepoint, those of each job from the oldest to the newest."""
    return [subject_of(job, place) for job in catalog.jobs() for place in reversed(range(len(job.databases)))]


def subject_of(job: Job, place: int, previous: Database | None = None) -> Subject:
    """Return a savepoint of a job to test.

    Args:
        job: the job.
        place: of the savepoint among those of the job; the newest is 0.
        previous: the one before it; None for that of the job.
    """
    notes: list[str] = []
    if previous is None:
        previous = next(_readable(job.databases[place + 1 :], notes), None)
    return Subject(database=job.databases[place], job=job.name, previous=previous, notes=tuple(notes))


def _readable(databases: Sequence[Database], notes: list[str]) -> Iterator[Database]:
    for database in databases:
        try:
            database.describe()
        except ReaderError as error:
            notes.append(f"{database.name} is left out: {query_error_of(error).message}")
        else:
            yield database


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Tests savepoints.

    Attributes:
        start: starts queries.
        rules: the rules.
        asked: what all queries have: the engine, the user, limits.
        spend: gets each result; what it raises ends the run.
    """

    start: Callable[[QueryRequest], Run]
    rules: Sequence[Rule]
    asked: QueryRequest = field(default_factory=lambda: QueryRequest(sql=""))
    spend: Callable[[RuleResult], None] = lambda _: None

    def run(self, subject: Subject) -> SavepointResult:
        """Test one savepoint."""
        database, previous = subject.database, subject.previous
        known = SavepointResult(
            name=database.name,
            path=database.path,
            job=subject.job,
            created_at=database.created_at,
            previous=None if previous is None else previous.name,
            previous_path="" if previous is None else previous.path,
            notes=subject.notes,
        )
        try:
            checkpoint_id, kind = database.describe()
        except ReaderError as error:
            gone = isinstance(error, SavepointGoneError) or database.is_gone
            return replace(known, error=query_error_of(error).told, is_gone=gone)
        results = tuple(self._spent(subject))
        is_gone = any(one.status is Status.UNREADABLE for one in results) and database.is_gone
        return replace(
            known,
            checkpoint_id=checkpoint_id,
            kind=kind,
            # What was read before it was deleted says nothing of the whole savepoint.
            error=_DELETED if is_gone else "",
            is_gone=is_gone,
            results=() if is_gone else results,
        )

    def _spent(self, subject: Subject) -> Iterator[RuleResult]:
        for rule in self.rules:
            for one in self._results(rule, subject):
                self.spend(one)
                yield one

    def _results(self, rule: Rule, subject: Subject) -> Iterator[RuleResult]:
        """Yield the result of a rule, one for each state that it chooses."""
        if not rule.is_for(subject.job):
            yield RuleResult(rule=rule, status=Status.SKIPPED, message=_OTHER_JOBS)
            return
        if not rule.is_for_each_state:
            yield self._result(rule, subject, None)
            return
        started = time.monotonic()
        try:
            chosen = self._chosen(rule, subject)
        except QueryError as error:
            yield _failed(rule, error, "", started)
            return
        if not chosen:
            yield RuleResult(rule=rule, status=Status.SKIPPED, message=_NO_STATE)
        for one in chosen:
            yield self._result(rule, subject, one)

    def _chosen(self, rule: Rule, subject: Subject) -> list[ChosenState]:
        sql = (
            "SELECT operator_uid, operator_name, operator_id, state_name, table_name FROM StateMeta "
            # On a line of its own: the condition may end in a comment.
            f"WHERE table_name IS NOT NULL AND state_kind <> 'TIMER' AND (\n{rule.states}\n) ORDER BY ALL"
        )
        found = self._asked(sql, {}, subject, _MOST_STATES)
        if found.row_count > _MOST_STATES:
            raise InvalidQueryError(f"expected at most {_MOST_STATES:,} states, found {found.count_text}")
        rows = (tuple(row.values()) for row in found.batch.to_pylist())
        return [
            ChosenState(operator=uid or name or operator_id, state=state, table=table)
            for uid, name, operator_id, state, table in rows
            if rule.chooses((uid, name, operator_id), state)
        ]

    def _result(self, rule: Rule, subject: Subject, chosen: ChosenState | None) -> RuleResult:
        table = "" if chosen is None else chosen.table
        started = time.monotonic()
        try:
            sql = rule.query(created_at=subject.database.created_at, chosen=chosen)
            found = self._asked(sql, rule.params, subject, ROWS_KEPT)
            violation = _violation(rule, found)
        except QueryError as error:
            skipped = _reason_to_skip(error, subject, chosen)
            if skipped:
                return RuleResult(rule=rule, status=Status.SKIPPED, table=table, message=skipped)
            return _failed(rule, error, table, started)
        return RuleResult(
            rule=rule,
            status=Status.VIOLATED if violation else Status.PASSED,
            table=table,
            message=violation,
            rows=found if violation and found.row_count else None,
            sql=with_values(sql, rule.params) if rule.params else sql,
            elapsed_s=time.monotonic() - started,
        )

    def _asked(self, sql: str, params: Mapping[str, Any], subject: Subject, kept: int) -> FirstRows:
        names = {PREVIOUS: subject.previous, CURRENT: subject.database}
        catalog = Catalog.of([subject.database], names)
        request = replace(
            self.asked, sql=sql, parameters=params, schema=subject.database.name, catalog=catalog
        )
        return first_rows(self.start, request, kept=kept, counted=max(kept + 1, _ROWS_COUNTED))


def _violation(rule: Rule, found: FirstRows) -> str:
    """Return how an answer violates a rule; empty if it does not.

    Raises:
        InvalidQueryError: the answer is no single value, or one that has no bounds.
    """
    if rule.bounds is None:
        return f"expected no row, found {found.count_text}" if found.row_count else ""
    columns = len(found.columns)
    if columns != 1 or found.row_count != 1:
        raise InvalidQueryError(
            f"expected one value, found {found.count_text} of {counted(columns, 'column')}"
        )
    value = found.batch.column(0)[0].as_py()
    try:
        holds = rule.bounds.holds(value)
    except TypeError as error:
        raise InvalidQueryError(
            f"expected a value that can be compared with {rule.bounds}, found {found.columns[0].type}"
        ) from error
    return "" if holds else f"expected {rule.bounds}, found {'NULL' if value is None else value}"


def _reason_to_skip(error: QueryError, subject: Subject, chosen: ChosenState | None) -> str:
    """Return why a rule cannot be tested on a savepoint although nothing is wrong; empty if something is."""
    cause, previous = error.__cause__, subject.previous
    if isinstance(error, DatabaseNotFoundError) and previous is None:
        is_meant = isinstance(cause, NoSuchDatabaseError) and cause.name.casefold() == PREVIOUS
        return subject.no_previous if is_meant else ""
    if previous is None:
        return ""
    if isinstance(error, SavepointError) and previous.is_gone and not subject.database.is_gone:
        return f"the checkpoint before it, {previous.name}, was deleted meanwhile"
    if isinstance(error, TableNotFoundError) and chosen is not None and not _has(previous, chosen.table):
        return f"the checkpoint before it, {previous.name}, has no state of this name"
    return ""


def _has(database: Database, table: str) -> bool:
    try:
        database.table(table)
    except NoSuchTableError:
        return False
    except ReaderError:
        # The error of the query tells of the file.
        return True
    return True


def _failed(rule: Rule, error: QueryError, table: str, started: float) -> RuleResult:
    if isinstance(error, _OF_THE_RUN):
        raise error
    is_unread = isinstance(error, SavepointError)
    return RuleResult(
        rule=rule,
        status=Status.UNREADABLE if is_unread else Status.ERROR,
        table=table,
        message=" ".join(error.told.split()),
        elapsed_s=time.monotonic() - started,
    )


# No rule is at fault: the caller is gone, or the service has no room.
_OF_THE_RUN = (QueryCancelledError, ServiceEndingError, TooManyQueriesError)
_OTHER_JOBS = "it is for other jobs"
_NO_STATE = "the savepoint has no state that it chooses"
_DELETED = "it was deleted while it was tested"
