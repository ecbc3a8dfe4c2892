"""`POST /api/query`: SQL in, rows out (`service.doors.http.api.answers`); `/api/queries`: while the client does something else.

JSON has at most `max_rows` rows; other formats have all rows, unless `max_rows` is given.

`POST /api/queries` starts a query; `GET …/{id}` returns its progress; `GET …/{id}/result` waits for its rows and returns them, once, in
the format that `Accept` names; `DELETE …/{id}` cancels it. A query with a long answer stops until its rows are read, so
request the result as soon as `result_ready` is true. A query whose client sends no request for too long is cancelled.
Operators list the queries of all users, and end them.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from pydantic import AliasPath, BaseModel, ConfigDict, Field
from starlette.responses import Response
from starlette.status import HTTP_202_ACCEPTED, HTTP_204_NO_CONTENT
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.base.errors import QueryKilledError, ResultGoneError
from service.doors.http.api import answers
from service.doors.http.api.state import Asking, Everybody, ServiceState, State, check_operator, client_of
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import EXPECTED, FAILURES, ErrorBody, on_error
from service.doors.operations.logs import audit_kill
from service.doors.served import Client
from service.query.encode import Format
from service.query.engines.registry import AUTO, Role, choices_text, local_engine, titles_of
from service.query.running.request import QueryRequest
from service.query.running.run import QueryState
from service.query.serving.query import QueryRecord
from service.query.sql.schemas import FLINK
from service.query.sql.text import DIALECT
from service.tasks.saved.query import with_values

COMPAT = (
    "flink: tables may have the names of Flink's State Catalog, too; if not given, what the service is set to"
)


class QueryBody(BaseModel):
    """A query."""

    # A misspelt limit must not be ignored.
    model_config = ConfigDict(extra="forbid")

    sql: str = Field(description="one SELECT, EXPLAIN, SHOW, DESCRIBE or SUMMARIZE")
    engine: str = Field(
        default=AUTO,
        description=f"{choices_text()}; {AUTO} is {local_engine().title}, "
        f"{titles_of(Role.CLUSTER)} for reads that are too large for this machine, or {titles_of(Role.SCAN)} for lookups",
    )
    max_rows: int | None = Field(
        None, ge=0, description="most rows; if not given, 10000 for JSON and all for other formats"
    )
    max_bytes: int | None = Field(None, ge=0, description="most bytes of savepoints to read")
    timeout_s: float | None = Field(default=None, gt=0, description="most seconds; 60 if not given")
    explain: bool = Field(
        default=False,
        description="return the tables and columns that the query would read, without running it",
    )
    allow_partial: bool = Field(
        default=False,
        description="leave out the rows of files that cannot be read, and list the files; otherwise the query fails",
    )
    dialect: str = Field(
        default=DIALECT,
        description="SQL dialect: duckdb, trino or flink; flink if not given and compat is flink",
    )
    compat: str | None = Field(default=None, description=COMPAT)
    database: str | None = Field(
        None,
        max_length=1000,
        description="database whose tables need no qualifier; if not given, the only one, or the newest one, which a warning names",
    )
    parameters: dict[str, bool | int | float | str] | None = Field(
        default=None, description="a value for each `:name` in the statement, by name; it never becomes SQL"
    )

    def request_of(self, client: Client, wanted: Format) -> QueryRequest:
        """Return the request for the query registry.

        Args:
            client: who asks.
            wanted: the format of the answer.
        """
        sql, values = (self.sql, {}) if self.parameters is None else with_values(self.sql, self.parameters)
        return client.request(
            sql,
            written=self.sql,
            engine=self.engine,
            max_rows=answers.max_rows_of(self.max_rows, wanted, client.served.settings),
            max_bytes=self.max_bytes,
            timeout_s=self.timeout_s,
            dialect=self.dialect if "dialect" in self.model_fields_set else dialect_of(self.compat),
            compat=self.compat,
            explain=self.explain,
            allow_partial=self.allow_partial,
            schema=self.database,
            parameters=values,
        )


def dialect_of(compat: str | None) -> str:
    """Return the dialect of statements that name none: that of the names that their tables may have."""
    return FLINK if compat == FLINK else DIALECT


router = APIRouter(prefix="/api", tags=["query"], responses=FAILURES)


@router.post("/query", response_model=answers.QueryAnswer, responses=answers.ANSWERS)
async def query(
    body: QueryBody,
    request: Request,
    service: State,
    client: Asking,
    accept: Annotated[str | None, Header()] = None,
) -> Response:
    """Run a query and return its rows."""
    return await _answered(body, request, service, client, answers.accepted_format(accept))


async def _answered(
    body: QueryBody, request: Request, service: ServiceState, client: Client, wanted: Format
) -> Response:
    started = await service.starts.run(partial(service.queries.start, body.request_of(client, wanted)))
    return await answers.answer(request, service, started, wanted)


class PlainQueries:
    """The middleware that answers plain requests for queries itself, in a part of FastAPI's time.

    It answers with JSON what is JSON and a query; FastAPI answers all others, and says what is wrong.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; the signature is ASGI's."""
        if scope["type"] != "http" or scope["path"] != _PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        body, content = await _plain_body(request)
        if body is None:
            await self._app(scope, receive if content is None else _replayed(content, receive), send)
            return
        service: ServiceState = request.app.state.service
        response: Response
        try:
            response = await _answered(body, request, service, client_of(request), answers.JSON)
        except EXPECTED as error:
            response = await on_error(request, error)
        await response(scope, receive, send)


async def _plain_body(request: Request) -> tuple[QueryBody | None, bytes | None]:
    """Return the body of a request, None if it is not plain JSON or not a query; and its content, None if it was not read."""
    headers = request.headers
    if headers.get("content-type") != "application/json" or headers.get("accept", "*/*") not in _PLAIN:
        return None, None
    content = await request.body()
    try:
        return QueryBody.model_validate(json.loads(content)), content
    except (ValueError, RecursionError):
        return None, content


def _replayed(content: bytes, receive: Receive) -> Receive:
    """Return a function that receives a body once more, and then what follows."""
    waiting: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


_PATH = "/api/query"
_PLAIN = frozenset({"*/*", answers.JSON.media_type})


_QUERIES = "/queries"


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
    queued_ms: answers.Milliseconds
    elapsed_ms: answers.Milliseconds
    row_count: int = Field(description="rows of the answer so far")
    progress: ProgressBody
    databases: list[answers.DatabaseBody] = Field(
        validation_alias="origins", description="savepoints that the query reads"
    )
    incomplete: list[answers.UnreadFileBody] = Field(
        description="files that the answer lacks, with `allow_partial`"
    )
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


@router.post(_QUERIES, status_code=HTTP_202_ACCEPTED, response_model=QueryStatus)
async def start_query(
    body: QueryBody,
    response: Response,
    service: State,
    client: Asking,
    accept: Annotated[str | None, Header()] = None,
) -> QueryRecord:
    """Start a query. `Accept` names the format of the result: without `max_rows`, JSON has fewer rows than other formats."""
    query_request = body.request_of(client, answers.accepted_format(accept))
    query = await to_thread.run_sync(service.queries.start, query_request)
    response.headers["Location"] = f"{router.prefix}{_QUERIES}/{query.id}"
    return query.record


@router.get(_QUERIES, response_model=QueryList)
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


@router.get(_QUERIES + "/{query_id}", response_model=QueryStatus)
def describe_query(query_id: str, service: State, caller: Caller) -> QueryRecord:
    """Return the progress or the result of a query."""
    return service.queries.record(query_id, caller)


@router.get(_QUERIES + "/{query_id}/result", response_model=answers.QueryAnswer, responses=answers.ANSWERS)
async def query_result(
    query_id: str,
    request: Request,
    service: State,
    caller: Caller,
    accept: Annotated[str | None, Header()] = None,
) -> Response:
    """Return the rows of a query, as soon as the first rows are ready. Rows can be read once."""
    wanted = answers.JSON if accept is None else answers.accepted_format(accept)
    # From here on no other request can read the same rows.
    query = service.queries.take(query_id, caller)
    if query is None:
        error = service.queries.record(query_id, caller).error
        raise error or ResultGoneError("the result was already read, or dropped because no client read it")
    return await answers.answer(request, service, query, wanted)


@router.delete(_QUERIES + "/{query_id}", status_code=HTTP_204_NO_CONTENT)
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
