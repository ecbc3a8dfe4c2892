"""One statement, from its first page to its last.

Each page has a number, the token in its address, and names the address of the next page. A request for the last page
sent returns the same page again, so a client may repeat a request that broke. A request for the next page waits a second
at most, then a page without rows keeps the client waiting. A page is made when it is requested; until then its rows wait
in the query's buffer, which is bounded.

Source: Trino: StandardErrorCode, for names and numbers of errors.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
from anyio import to_thread
from starlette.status import HTTP_500_INTERNAL_SERVER_ERROR

from service.base.errors import QueryCancelledError, QueryError, ScanLimitExceededError, query_error_of
from service.doors.trino.session import Session
from service.doors.trino.show import AnswerTable
from service.doors.trino.statements import ImmediateAnswer, Interpreter, Shape, output_columns
from service.doors.trino.types import column_of, named_column, rows_of, values_of, with_bigints
from service.query.engines.engine import Progress
from service.query.running.request import Origin
from service.query.running.run import QueryState
from service.query.serving.query import Query, wait_until_ready
from service.query.serving.registry import Queries
from service.query.sql.plan import UnreadFile

logger = logging.getLogger("savepointdb")

_WAIT_S = 1.0
_PAGE_BYTES = 1 << 20
_SLICE_ROWS = 4096
_PLAN = "Query Plan"
# The code of a warning means nothing to clients: they show the message.
_PARTIAL = 1
_ASSUMED = 2
_SKIPPED = 3
# Clients expect every member of the statistics; 0 stands for those that mean nothing here.
_MEANINGLESS = (
    "queuedSplits planningTimeMillis analysisTimeMillis finishingTimeMillis physicalInputTimeMillis "
    "physicalWrittenBytes internalNetworkInputBytes peakMemoryBytes spilledBytes"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of an answer.

    Attributes:
        facts: the members of its JSON object, except rows and addresses.
        rows: JSON arrays with commas between them; None for no rows.
        is_last: True if no page follows.
        headers: changes of the client's session.
    """

    facts: Mapping[str, Any]
    rows: bytes | None
    is_last: bool
    headers: Mapping[str, str] = field(default_factory=dict)

    def content(self, addresses: Mapping[str, str]) -> bytes:
        """Return the page as JSON."""
        content = orjson.dumps({**self.facts, **addresses})
        return content if self.rows is None else b"".join((content[:-1], b',"data":[', self.rows, b"]}"))


class Statement:
    """A statement of a client.

    Args:
        sql: its text.
        session: the session of the client.
        interpreter: interprets the text.
        queries: runs the query, if the statement is one.
    """

    def __init__(self, sql: str, session: Session, interpreter: Interpreter, queries: Queries) -> None:
        self.id = interpreter.query_id
        self.slug = secrets.token_urlsafe(16)
        self.session = session
        self.touched = time.monotonic()
        self.has_ended = False
        self._interpreter = interpreter
        self._queries = queries
        self._created = time.monotonic()
        self._query: Query | None = None
        self._shape = Shape.ROWS
        self._columns: list[dict[str, Any]] | None = None
        self._rest: pa.RecordBatch | None = None
        # The page sent last, which the client may request again, and the one before it.
        self._pages: dict[int, Page] = {}
        # A client may send the same request twice at once: both get the same page.
        self._turn = asyncio.Lock()
        self._is_cancelled = False
        # Planning may read from a slow store, and the POST is answered before.
        self._started = asyncio.create_task(to_thread.run_sync(self._start, sql))

    def first(self) -> Page:
        """Return the page that answers the POST: the statement is accepted."""
        self._pages = {0: Page(facts=self._facts("QUEUED"), rows=None, is_last=False)}
        return self._pages[0]

    async def page(self, token: int) -> Page | None:
        """Return a page; None if it is neither the last page sent nor the next one."""
        self.touched = time.monotonic()
        async with self._turn:
            if token in self._pages:
                return self._pages[token]
            last = max(self._pages)
            if token != last + 1 or self._pages[last].is_last:
                return None
            page = await self._next()
            self._pages = {token: page} if page.is_last else {last: self._pages[last], token: page}
            self.has_ended = page.is_last
            self.touched = time.monotonic()
            return page

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Savepoints that the statement reads; empty until they are known."""
        query = self._query
        return () if query is None else query.origins

    @property
    def incomplete(self) -> tuple[UnreadFile, ...]:
        """Files that the answer lacks, as far as they are known."""
        query = self._query
        return () if query is None else query.incomplete

    def touch(self) -> None:
        """Keep the statement open: its client still reads."""
        self.touched = time.monotonic()
        if self._query is not None:
            self._query.attendance.touch()

    async def cancel(self) -> None:
        """Cancel the statement."""
        self._is_cancelled = True
        query = self._query
        if query is not None:
            await to_thread.run_sync(query.close)

    async def _next(self) -> Page:
        try:
            done, _ = await asyncio.wait([self._started], timeout=_WAIT_S)
            if not done:
                return Page(facts=self._facts("PLANNING"), rows=None, is_last=False)
            answer = self._started.result()
            # A query reports its own end: it may have failed before it was cancelled.
            if self._is_cancelled and self._query is None:
                raise QueryCancelledError("the query was cancelled")
            if isinstance(answer, QueryError):
                return await self._failed(answer)
            return await self._of_query() if answer is None else self._immediate(answer)
        except QueryError as error:
            return await self._failed(error)

    async def _failed(self, error: QueryError) -> Page:
        facts = {**self._facts("FAILED"), "error": error_of(error)}
        await self.cancel()
        return Page(facts=facts, rows=None, is_last=True)

    def _start(self, sql: str) -> ImmediateAnswer | QueryError | None:
        """Interpret the text and start its query, if it is one; the next page reports the error."""
        try:
            statement = self._interpreter.interpret(sql)
            if isinstance(statement, ImmediateAnswer):
                return statement
            query = self._queries.start(statement.request)
        except Exception as error:
            found = query_error_of(error)
            if found.status == HTTP_500_INTERNAL_SERVER_ERROR:
                logger.exception("POST /v1/statement: %s", found.detail)
            return found
        self._shape = statement.shape
        self._query = query
        # The client may have cancelled while this thread was planning: `cancel` then saw no query to close.
        if self._is_cancelled:
            query.close()
            return QueryCancelledError("the query was cancelled")
        return None

    def _immediate(self, answer: ImmediateAnswer) -> Page:
        facts = self._facts("FINISHED")
        if answer.update_type is not None:
            facts["updateType"] = answer.update_type
        facts["columns"], rows = _columns_and_rows(answer.table)
        return Page(facts=facts, rows=rows, is_last=True, headers=answer.headers)

    async def _of_query(self) -> Page:
        query = self._query
        assert query is not None
        # A client that waits for a page has not abandoned its query.
        with query.attendance.attended():
            is_ready = self._rest is not None or await wait_until_ready(query, _WAIT_S)
        if not is_ready:
            facts = self._facts("QUEUED" if query.state is QueryState.QUEUED else "RUNNING")
            return Page(facts=facts, rows=None, is_last=False)
        return await to_thread.run_sync(self._filled, query)

    def _filled(self, query: Query) -> Page:
        """Return a page with the rows that are ready, up to the size of a page."""
        if self._shape is Shape.COLUMNS:
            page = self._described(query)
        else:
            parts: list[bytes] = []
            size_bytes, is_last = 0, False
            while size_bytes < _PAGE_BYTES and (self._rest is not None or query.is_ready):
                found = self._slice(query)
                if found is None:
                    is_last = True
                    break
                parts.append(rows_of(found, parametric=self.session.is_parametric))
                size_bytes += len(parts[-1])
            columns = self._described_columns(query)
            facts = {**self._facts("FINISHED" if is_last else "RUNNING"), "columns": columns}
            page = Page(facts=facts, rows=b",".join(parts) if parts else None, is_last=is_last)
        if page.is_last:
            query.close()
        return page

    def _slice(self, query: Query) -> pa.RecordBatch | None:
        """Return the next rows, a small part of a page; None at the end."""
        batch = query.take() if self._rest is None else self._rest
        if batch is None:
            return None
        rows = max(1, min(_SLICE_ROWS, _PAGE_BYTES * batch.num_rows // max(1, batch.nbytes)))
        self._rest = batch.slice(rows) if batch.num_rows > rows else None
        found = batch.slice(0, rows)
        # EXPLAIN of DuckDB returns the kind of the plan and its text.
        if self._shape is Shape.PLAN:
            return found.select([found.num_columns - 1])
        return with_bigints(found, query.columns)

    def _described_columns(self, query: Query) -> list[dict[str, Any]]:
        if self._columns is None:
            if self._shape is Shape.PLAN:
                self._columns = [named_column(_PLAN, pa.string())]
            else:
                self._columns = [
                    column_of(column, field.type, parametric=self.session.is_parametric)
                    for column, field in zip(query.columns, query.schema, strict=True)
                ]
        return self._columns

    def _described(self, query: Query) -> Page:
        """Return the answer of DESCRIBE OUTPUT: its rows are the columns of the query."""
        types = [
            str(column_of(column, found.type)["type"])
            for column, found in zip(query.columns, query.schema, strict=True)
        ]
        facts = self._facts("FINISHED")
        facts["columns"], rows = _columns_and_rows(
            output_columns([column.name for column in query.columns], types)
        )
        return Page(facts=facts, rows=rows, is_last=True)

    def _facts(self, state: str) -> dict[str, Any]:
        return {"id": self.id, "stats": self._stats(state), "warnings": self._warnings()}

    def _warnings(self) -> list[dict[str, Any]]:
        """Return a warning for each file that the answer lacks, and for each assumption; clients show them."""
        if self._query is None:
            return []
        kinds = ((_ASSUMED, "DEFAULT_SCHEMA"), (_SKIPPED, "SKIPPED_SAVEPOINT"))
        skipped = self._query.plan.skipped
        found = [
            *((*kinds[text in skipped], text) for text in self._query.warnings),
            *((_PARTIAL, "PARTIAL_RESULT", file.text()) for file in self._query.incomplete),
        ]
        return [{"warningCode": {"code": code, "name": name}, "message": text} for code, name, text in found]

    def _stats(self, state: str) -> dict[str, Any]:
        query = self._query
        elapsed_ms = round((time.monotonic() - self._created) * 1000)
        progress = Progress() if query is None else query.progress
        total, done = progress.splits_total or 0, progress.splits_read or 0
        numbers = {
            **dict.fromkeys(_MEANINGLESS.split(), 0),
            "totalSplits": total,
            "runningSplits": total - done,
            "completedSplits": done,
            "cpuTimeMillis": elapsed_ms,
            "wallTimeMillis": elapsed_ms,
            "queuedTimeMillis": 0 if query is None else round(query.lifecycle.queued_ms),
            "elapsedTimeMillis": elapsed_ms,
            "processedRows": progress.rows_read or 0,
            "processedBytes": progress.bytes_read,
            "physicalInputBytes": progress.bytes_read,
        }
        known = 0.0
        if progress.bytes_total:
            known = min(100.0, 100.0 * progress.bytes_read / progress.bytes_total)
        share = 100.0 if state == "FINISHED" else known
        return {
            "state": state,
            "queued": state == "QUEUED",
            "scheduled": state not in ("QUEUED", "PLANNING"),
            "progressPercentage": share,
            "runningPercentage": 0.0 if state == "FINISHED" else 100.0 - share,
            "nodes": 1,
            **numbers,
        }


def _columns_and_rows(table: AnswerTable) -> tuple[list[dict[str, Any]], bytes | None]:
    """Return the columns and the JSON rows of a table."""
    columns = [named_column(name, kind) for name, kind in table.columns]
    if not table.rows:
        return columns, None
    arrays = [
        pa.array([row[index] for row in table.rows], kind) for index, (_, kind) in enumerate(table.columns)
    ]
    rows = list(zip(*map(values_of, arrays), strict=True))
    return columns, orjson.dumps(rows)[1:-1]


_USER, _INTERNAL, _RESOURCES = "USER_ERROR", "INTERNAL_ERROR", "INSUFFICIENT_RESOURCES"
_UNKNOWN_FUNCTION = re.compile(r"(?:\w+ )?Function with name \S+ does not exist")
_GENERIC = ("GENERIC_INTERNAL_ERROR", 65_536, _INTERNAL)


def error_of(error: QueryError) -> dict[str, Any]:
    """Return the error object of the protocol."""
    # Our code for a division by zero is that of any invalid value; Trino has one of its own.
    code = "DIVISION_BY_ZERO" if error.message.startswith("Division by zero") else error.code
    if error.detail.startswith("Out of Range Error"):
        code = "NUMERIC_VALUE_OUT_OF_RANGE"
    elif _UNKNOWN_FUNCTION.match(error.message):
        code = "FUNCTION_NOT_FOUND"
    # So is the code of a scan that is too large.
    code = "EXCEEDED_SCAN_LIMIT" if isinstance(error, ScanLimitExceededError) else code
    name, number, kind = _ERRORS.get(code) or _BY_STATUS.get(error.status // 100, _GENERIC)
    message = error.message if error.hint is None else f"{error.message} ({error.hint})"
    position = error.position
    if position is not None:
        message = f"line {position.line}:{position.column}: {message}"
    content: dict[str, Any] = {
        "message": message,
        "errorCode": number,
        "errorName": name,
        "errorType": kind,
        "failureInfo": {"type": error.code, "message": message, "stack": [], "suppressed": []},
    }
    if position is not None:
        content["errorLocation"] = {"lineNumber": position.line, "columnNumber": position.column}
    return content


_BY_STATUS = {4: ("GENERIC_USER_ERROR", 0, _USER)}
# Our code → Trino's name, number and kind.
_ERRORS: dict[str, tuple[str, int, str]] = {
    "SYNTAX_ERROR": ("SYNTAX_ERROR", 1, _USER),
    "ABANDONED": ("ABANDONED_QUERY", 2, _USER),
    "STALLED": ("ABANDONED_QUERY", 2, _USER),
    "CANCELLED": ("USER_CANCELED", 3, _USER),
    "FORBIDDEN": ("PERMISSION_DENIED", 4, _USER),
    "NOT_FOUND": ("NOT_FOUND", 5, _USER),
    "QUERY_NOT_FOUND": ("NOT_FOUND", 5, _USER),
    "FUNCTION_NOT_FOUND": ("FUNCTION_NOT_FOUND", 6, _USER),
    "DIVISION_BY_ZERO": ("DIVISION_BY_ZERO", 8, _USER),
    "INVALID_VALUE": ("INVALID_CAST_ARGUMENT", 9, _USER),
    "INVALID_FUNCTION_ARGUMENT": ("INVALID_FUNCTION_ARGUMENT", 7, _USER),
    "NOT_SUPPORTED": ("NOT_SUPPORTED", 13, _USER),
    "INVALID_SESSION_PROPERTY": ("INVALID_SESSION_PROPERTY", 14, _USER),
    "NUMERIC_VALUE_OUT_OF_RANGE": ("NUMERIC_VALUE_OUT_OF_RANGE", 19, _USER),
    "LIMIT_EXCEEDED": ("QUERY_TEXT_TOO_LARGE", 35, _USER),
    "KILLED": ("ADMINISTRATIVELY_KILLED", 38, _USER),
    "CATALOG_NOT_FOUND": ("CATALOG_NOT_FOUND", 44, _USER),
    "DATABASE_NOT_FOUND": ("SCHEMA_NOT_FOUND", 45, _USER),
    "TABLE_NOT_FOUND": ("TABLE_NOT_FOUND", 46, _USER),
    "COLUMN_NOT_FOUND": ("COLUMN_NOT_FOUND", 47, _USER),
    "ENGINE_ERROR": _GENERIC,
    "ENGINE_UNAVAILABLE": ("REMOTE_TASK_ERROR", 65_542, _INTERNAL),
    "SERVICE_ENDING": ("SERVER_SHUTTING_DOWN", 65_545, _INTERNAL),
    "WORKER_LOST": ("REMOTE_HOST_GONE", 65_558, _INTERNAL),
    "EXCEEDED_MEMORY": ("EXCEEDED_LOCAL_MEMORY_LIMIT", 131_079, _RESOURCES),
    "TOO_MANY_QUERIES": ("QUERY_QUEUE_FULL", 131_074, _RESOURCES),
    "EXCEEDED_TIME_LIMIT": ("EXCEEDED_TIME_LIMIT", 131_075, _RESOURCES),
    "EXCEEDED_SCAN_LIMIT": ("EXCEEDED_SCAN_LIMIT", 131_081, _RESOURCES),
}
