"""`/api/queries`: a query that runs while its client does something else.

`POST` starts a query; `GET …/{id}` returns its progress; `GET …/{id}/result` waits for its rows and returns them, once, in
the format that `Accept` names; `DELETE …/{id}` cancels it. A query with a long answer stops until its rows are read, so
request the result as soon as `result_ready` is true. A query whose client sends no request for too long is cancelled.
Operators list the queries of all users, and end them.
"""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from pydantic import AliasPath, BaseModel, Field
from starlette.responses import Response
from starlette.status import HTTP_202_ACCEPTED, HTTP_204_NO_CONTENT

from service.base.errors import QueryKilledError, ResultGoneError
from service.doors.http.api.answers import (
    ANSWERS,
    JSON,
    DatabaseBody,
    Milliseconds,
    QueryAnswer,
    UnreadFileBody,
    accepted_format,
    answer,
)
from service.doors.http.api.query import QueryBody
from service.doors.http.api.state import Asking, Everybody, State, check_operator
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import FAILURES, ErrorBody
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

    query_id: str = Field(validation_alias="id")
    state: QueryState
    result_ready: bool = Field(
        validation_alias="is_ready", description="rows, or their end, are ready to be read"
    )
    sql: str
    database: str | None = Field(default=None, description="database of tables without one, as it was asked")
    user: str = Field(validation_alias=AliasPath("owner", "name"))
    source: str
    engine: str
    engine_reason: str
    created: float = Field(description="seconds since 1970")
    queued_ms: Milliseconds
    elapsed_ms: Milliseconds
    row_count: int = Field(description="rows of the answer so far")
    progress: ProgressBody
    databases: list[DatabaseBody] = Field(
        validation_alias="origins", description="savepoints that the query reads"
    )
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


@router.post("", status_code=HTTP_202_ACCEPTED, response_model=QueryStatus)
async def start_query(
    body: QueryBody,
    response: Response,
    service: State,
    client: Asking,
    accept: Annotated[str | None, Header()] = None,
) -> QueryRecord:
    """Start a query. `Accept` names the format of the result: without `max_rows`, JSON has fewer rows than other formats."""
    query_request = body.request_of(client, accepted_format(accept))
    query = await to_thread.run_sync(service.queries.start, query_request)
    response.headers["Location"] = f"{router.prefix}/{query.id}"
    return query.record


@router.get("", response_model=QueryList)
def list_queries(
    service: State,
    caller: Caller,
    everybody: Everybody = False,
    limit: Annotated[int | None, Query(ge=0, description="most queries")] = None,
) -> dict[str, Any]:
    """List the queries of this user, or of all users: open queries, and the latest ones that ended."""
    if everybody:
        check_operator(service, caller)
    records = service.queries.all_records(caller) if everybody else service.queries.records(caller)
    return {"may_see_all": service.queries.may_operate(caller), "queries": records[:limit]}


@router.get("/{query_id}", response_model=QueryStatus)
def describe_query(query_id: str, service: State, caller: Caller) -> QueryRecord:
    """Return the progress or the result of a query."""
    return service.queries.record(query_id, caller)


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
