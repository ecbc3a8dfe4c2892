"""`POST /api/query`: SQL in, rows out (`service.doors.http.api.answers`).

JSON has at most `max_rows` rows; other formats have all rows, unless `max_rows` is given.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.doors.http.api.answers import ANSWERS, JSON, QueryAnswer, accepted_format, answer, max_rows_of
from service.doors.http.api.state import Asking, ServiceState, State, client_of
from service.doors.http.errors import EXPECTED, on_error
from service.doors.served import Client
from service.query.encode import Format
from service.query.engines.registry import AUTO, Role, choices_text, local_engine, titles_of
from service.query.running.request import QueryRequest
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
            max_rows=max_rows_of(self.max_rows, wanted, client.served.settings),
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


router = APIRouter(prefix="/api", tags=["query"])


@router.post("/query", response_model=QueryAnswer, responses=ANSWERS)
async def query(
    body: QueryBody,
    request: Request,
    service: State,
    client: Asking,
    accept: Annotated[str | None, Header()] = None,
) -> Response:
    """Run a query and return its rows."""
    return await _answered(body, request, service, client, accepted_format(accept))


async def _answered(
    body: QueryBody, request: Request, service: ServiceState, client: Client, wanted: Format
) -> Response:
    started = await service.starts.run(partial(service.queries.start, body.request_of(client, wanted)))
    return await answer(request, service, started, wanted)


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
            response = await _answered(body, request, service, client_of(request), JSON)
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
_PLAIN = frozenset({"*/*", JSON.media_type})
