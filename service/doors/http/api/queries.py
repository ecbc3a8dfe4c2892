"""`/api/queries`: a query that runs while its client does something else.

`POST` starts a query; `GET …/{id}` returns its progress; `GET …/{id}/result` waits for its rows and returns them, once, in
the format that `Accept` names; `DELETE …/{id}` cancels it. A query with a long answer stops until its rows are read, so
request the result as soon as `result_ready` is true. A query whose client sends no request for too long is cancelled.
Operators list the queries of all users, and end them.
"""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response
from starlette.status import HTTP_202_ACCEPTED, HTTP_204_NO_CONTENT

from service.base.errors import QueryKilledError, ResultGoneError
from service.doors.http.api.answers import (
    ANSWERS,
    JSON,
    DatabaseBody,
    QueryAnswer,
    UnreadFileBody,
    accepted_format,
    answer,
)
from service.doors.http.api.query import QueryBody
from service.doors.http.api.state import Everybody, State, check_operator
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import FAILURES, ErrorBody, error_body
from service.doors.operations.logs import audit_kill
from service.query.running.run import QueryState
from service.query.serving.query import QueryRecord

router = APIRouter(prefix="/api/queries", tags=["query"], responses=FAILURES)


class ProgressBody(BaseModel):
    """The bytes, rows and splits that a query has read."""

    bytes_read: int
    bytes_total: int = Field(description="estimate for the scans started so far")
    rows_read: int | None = Field(default=None, description="rows of savepoints, if the engine counts them")
    splits_read: int | None = None
    splits_total: int | None = None


class QueryStatus(BaseModel):
    """A query and its progress."""

    query_id: str
    state: QueryState
    result_ready: bool = Field(description="rows, or their end, are ready to be read")
    sql: str
    database: str | None = Field(default=None, description="database of tables without one, as it was asked")
    user: str
    source: str
    engine: str
    engine_reason: str
    created: float = Field(description="seconds since 1970")
    queued_ms: float
    elapsed_ms: float
    row_count: int = Field(description="rows of the answer so far")
    progress: ProgressBody
    databases: list[DatabaseBody] = Field(description="savepoints that the query reads")
    incomplete: list[UnreadFileBody] = Field(description="files that the answer lacks, with `allow_partial`")
    warnings: list[str] = Field(
        description="what the service assumed, such as the database of tables without one, and which savepoints `latest` skipped"
    )
    error: ErrorBody | None = None


class QueryList(BaseModel):
    """Queries, the latest first."""

    may_see_all: bool = Field(
        description="whether this user is an operator: may ask for `all`, and end queries of others"
    )
    queries: list[QueryStatus]


@router.post("", status_code=HTTP_202_ACCEPTED)
async def start_query(
    body: QueryBody,
    request: Request,
    response: Response,
    service: State,
    caller: Caller,
    accept: Annotated[str | None, Header()] = None,
) -> QueryStatus:
    """Start a query. `Accept` names the format of the result: without `max_rows`, JSON has fewer rows than other formats."""
    query_request = body.request_of(request, service, caller, accepted_format(accept))
    query = await to_thread.run_sync(service.queries.start, query_request)
    response.headers["Location"] = f"{router.prefix}/{query.id}"
    return _status(query.record)


@router.get("")
def list_queries(
    service: State,
    caller: Caller,
    everybody: Everybody = False,
    limit: Annotated[int | None, Query(ge=0, description="most queries")] = None,
) -> QueryList:
    """List the queries of this user, or of all users: open queries, and the latest ones that ended."""
    if everybody:
        check_operator(service, caller)
    records = service.queries.all_records(caller) if everybody else service.queries.records(caller)
    return QueryList(
        may_see_all=service.queries.may_operate(caller),
        queries=[_status(record) for record in records[:limit]],
    )


@router.get("/{query_id}")
def describe_query(query_id: str, service: State, caller: Caller) -> QueryStatus:
    """Return the progress or the result of a query."""
    return _status(service.queries.record(query_id, caller))


@router.get("/{query_id}/result", response_model=QueryAnswer, responses=ANSWERS)
async def query_result(
    query_id: str,
    request: Request,
    service: State,
    caller: Caller,
    accept: Annotated[str | None, Header()] = None,
) -> Response:
    """Return the rows of a query, as soon as the first rows are ready. Rows can be read once."""
    wanted = JSON if accept is None else accepted_format(accept)
    # From here on no other request can read the same rows.
    query = service.queries.take(query_id, caller)
    if query is None:
        error = service.queries.record(query_id, caller).error
        raise error or ResultGoneError("the result was already read, or dropped because no client read it")
    return await answer(request, service, query, wanted)


@router.delete("/{query_id}", status_code=HTTP_204_NO_CONTENT)
async def cancel_query(query_id: str, service: State, caller: Caller) -> None:
    """Cancel a query, and drop its result; an operator ends the query of another user."""
    query, record = service.queries.find_any(query_id, caller)
    if record.owner != caller.identity:
        # Its user reads why it ended, so the result is not dropped.
        if query is not None and not query.state.has_ended:
            query.cancel(QueryKilledError("an operator ended the query"))
            audit_kill(caller.identity, record)
    elif query is not None:
        # Closing may wait for the engine.
        await to_thread.run_sync(query.close)


def _status(record: QueryRecord) -> QueryStatus:
    progress = record.progress
    return QueryStatus(
        query_id=record.id,
        state=record.state,
        result_ready=record.is_ready,
        sql=record.sql,
        database=record.database,
        user=record.owner.name,
        source=record.source,
        engine=record.engine,
        engine_reason=record.engine_reason,
        created=record.created,
        queued_ms=round(record.queued_ms, 3),
        elapsed_ms=round(record.elapsed_ms, 3),
        row_count=record.row_count,
        progress=ProgressBody(
            bytes_read=progress.bytes_read,
            bytes_total=progress.bytes_total,
            rows_read=progress.rows_read,
            splits_read=progress.splits_read,
            splits_total=progress.splits_total,
        ),
        databases=[
            DatabaseBody(name=origin.name, checkpoint_id=origin.checkpoint_id, path=origin.path)
            for origin in record.origins
        ],
        incomplete=[
            UnreadFileBody(table=file.table, path=file.path, code=file.code, message=file.message)
            for file in record.incomplete
        ],
        warnings=list(record.warnings),
        error=error_body(record.error) if record.error else None,
    )
