"""`/v1/statement` and `/v1/info`.

Errors of SQL are answers with status 200. Any other status is about the request itself: 401 without a user, 404 for a
statement that does not exist or belongs to another user, 410 for a page that was already sent, 413 for a text that is
too long, 429 with `Retry-After` when too many queries wait.
"""

from __future__ import annotations

import secrets
import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response
from starlette.status import HTTP_204_NO_CONTENT

from catalog import Catalog, CatalogError
from service.base.errors import (
    InvalidRequestError,
    QueryNotFoundError,
    ResultGoneError,
    TooManyQueriesError,
    translated,
)
from service.base.hosts import KnownHosts
from service.base.settings import Settings
from service.base.version import installed_version
from service.doors.http.auth.gate import principal_of
from service.doors.trino.pages import Page, Statement
from service.doors.trino.session import session_of
from service.doors.trino.statements import Interpreter
from service.query.running.request import headers_of, may_read
from service.query.serving.registry import Queries
from service.query.sql.text import check_length

router = APIRouter(prefix="/v1", tags=["trino"], include_in_schema=False)
# A client that did not get the last page may request it again for so long.
_KEPT_AFTER_END_S = 10.0
_RETRY_AFTER_S = 1
# Besides those that run or wait, statements are open whose rows wait for their client.
_STATEMENTS_PER_QUEUED = 2


class Statements:
    """The statements that clients are reading, and those that have just ended.

    Args:
        catalog: the catalog that they read.
        queries: runs their queries.
        settings: their limits.
    """

    def __init__(self, catalog: Catalog, queries: Queries, settings: Settings) -> None:
        self._catalog = catalog
        self._queries = queries
        self._settings = settings
        self._statements: dict[str, Statement] = {}

    def start(self, sql: str, request: Request) -> Statement:
        """Accept a statement.

        Raises:
            QueryError: the request itself is wrong.
        """
        principal = principal_of(request)
        session = session_of(request.headers, principal)
        check_length(sql, self._settings.queries.max_sql_bytes)
        self._forget()
        self._queries.check_room(session.principal.identity)
        if len(self._statements) >= _STATEMENTS_PER_QUEUED * (self._settings.slots.max_queued + 1):
            raise TooManyQueriesError("too many statements are read already", retry_after_s=_RETRY_AFTER_S)
        query_id = secrets.token_hex(16)
        with translated(CatalogError):
            catalog = principal.part_of(self._catalog)
        interpreter = Interpreter(catalog, self._queries, self._settings, session, query_id)
        statement = Statement(sql, session, interpreter, self._queries)
        self._statements[statement.id] = statement
        return statement

    def find(self, query_id: str, slug: str, request: Request) -> Statement:
        """Return a statement of the user of a request; without a user in the request the slug suffices.

        Raises:
            QueryNotFoundError: there is no such statement.
        """
        statement = self._statements.get(query_id)
        # The slug is a secret: comparing it must take the same time for every wrong guess.
        if statement is None or not secrets.compare_digest(statement.slug.encode(), slug.encode()):
            raise QueryNotFoundError("there is no such query")
        check_reader(statement, request)
        return statement

    def _forget(self) -> None:
        """Drop statements that ended, and abandoned ones: the queries of these end by themselves."""
        now = time.monotonic()
        for statement in list(self._statements.values()):
            limit_s = _KEPT_AFTER_END_S if statement.has_ended else self._settings.queries.abandoned_after_s
            if now - statement.touched > limit_s:
                del self._statements[statement.id]


async def _statements(request: Request) -> Statements:
    statements: Statements = request.app.state.trino
    return statements


_Statements = Annotated[Statements, Depends(_statements)]


@router.post("/statement")
async def post_statement(request: Request, statements: _Statements) -> Response:
    """Accept a statement; its answer is at the address of the next page."""
    try:
        sql = (await request.body()).decode()
    except UnicodeDecodeError as error:
        raise InvalidRequestError("expected a statement in UTF-8") from error
    # Before it runs: its client could not read it.
    _base_url(request)
    statement = statements.start(sql, request)
    return _response(request, statement, 0, statement.first())


@router.get("/statement/executing/{query_id}/{slug}/{token}")
async def get_page(
    query_id: str, slug: str, token: int, request: Request, statements: _Statements
) -> Response:
    """Return a page of an answer."""
    statement = statements.find(query_id, slug, request)
    page = await statement.page(token)
    # Until the first rows come, nobody knows which savepoints the statement reads.
    check_reader(statement, request)
    if page is None:
        raise ResultGoneError("the page was already sent, or is not the next one")
    return _response(request, statement, token, page)


@router.head("/statement/executing/{query_id}/{slug}/{token}")
async def touch(query_id: str, slug: str, token: int, request: Request, statements: _Statements) -> Response:
    """Keep a statement open whose client does not read at the moment."""
    statement = statements.find(query_id, slug, request)
    statement.touch()
    return Response()


@router.delete("/statement/executing/{query_id}/{slug}/{token}")
async def cancel(query_id: str, slug: str, token: int, request: Request, statements: _Statements) -> Response:
    """Cancel a statement."""
    await statements.find(query_id, slug, request).cancel()
    return Response(status_code=HTTP_204_NO_CONTENT)


@router.get("/info")
async def info() -> dict[str, object]:
    """Return the facts of the service that Trino's clients request."""
    return {
        "nodeVersion": {"version": installed_version()},
        "environment": "savepointdb",
        "coordinator": True,
        "starting": False,
        "uptime": "1.00m",
    }


def check_reader(statement: Statement, request: Request) -> None:
    """Check that a request for a page is the owner's, and that the owner may still see what the statement reads.

    Raises:
        QueryNotFoundError: it is another user's, or reads what the user may not see.
    """
    principal = principal_of(request)
    name = principal.name or request.headers.get("x-trino-user")
    is_owner = name is None or principal.named(name).identity == statement.session.principal.identity
    if not is_owner or not may_read(principal, statement.origins):
        raise QueryNotFoundError("there is no such query")


def _base_url(request: Request) -> str:
    hosts: KnownHosts = request.app.state.hosts
    return hosts.base_url(request)


def _response(request: Request, statement: Statement, token: int, page: Page) -> Response:
    base = _base_url(request)
    addresses = {"infoUri": f"{base}/api/queries/{statement.id}"}
    if not page.is_last:
        addresses["nextUri"] = f"{base}/v1/statement/executing/{statement.id}/{statement.slug}/{token + 1}"
        # Trino ends the reading and answers with the rows so far, which may be wrong: here it cancels the whole query.
        addresses["partialCancelUri"] = addresses["nextUri"]
    return Response(
        page.content(addresses),
        media_type="application/json",
        headers={
            **page.headers,
            **headers_of(statement.origins, statement.incomplete),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        },
    )
