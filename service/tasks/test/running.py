"""One savepoint, the one before it, and rules → results.

A rule sees the tables of its savepoint, and those of the one before it as `previous.table`; no other savepoint, so that it means the
same wherever it runs. An error of a rule is never a violation, and a file that cannot be read is neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catalog import Catalog, Database, NoSuchDatabaseError, NoSuchTableError
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
from service.query.running.group import FirstRows, first_rows
from service.query.running.request import QueryRequest
from service.query.running.run import Run
from service.query.sql.edits import with_values
from service.tasks.test.results import RuleResult, SavepointResult, Status
from service.tasks.test.rules import CURRENT, PREVIOUS, ChosenState, Rule
from service.tasks.test.selection import Subject

ROWS_KEPT = 5
_ROWS_COUNTED = 10_000
_MOST_STATES = 10_000


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
        request = replace(
            self.asked, sql=sql, parameters=params, schema=subject.database.name, catalog=_catalog_of(subject)
        )
        return first_rows(self.start, request, kept=kept, counted=max(kept + 1, _ROWS_COUNTED))


def _catalog_of(subject: Subject) -> Catalog:
    return Catalog.of([subject.database], {PREVIOUS: subject.previous, CURRENT: subject.database})


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
_NO_STATE = "the savepoint has no state that it chooses"
_DELETED = "it was deleted while it was tested"
