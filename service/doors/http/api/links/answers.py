"""What links share: parameters, and the answer: rows with an ETag, `304` for a client that has them, or headers alone for HEAD.

The ETag of a link changes when its rows may change. Savepoints do not change, so the rows of a statement follow from its text and from the
savepoints that it reads. A statement has no tag if it reads the catalog itself, the clock or a random number, or if the storage does not
say when a savepoint was written.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import partial
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import Request
from pydantic import Field
from starlette.responses import Response
from starlette.status import HTTP_304_NOT_MODIFIED

from service.base.errors import InvalidRequestError
from service.base.version import installed_version
from service.doors.http.api.answers import JSON, answer
from service.doors.served import Client, Served
from service.query.encode import SPREADSHEET_CSV, Format
from service.query.running.request import QueryRequest
from service.query.serving.query import Query as RunningQuery
from service.query.sql.plan import Plan

_DIGEST_BYTES = 16
_WORD = re.compile(r"\w+")
# DuckDB's functions that may answer otherwise the next time, the words that are such functions without parentheses, and samples.
# A column of such a name costs a tag, and nothing else.
_CHANGING_WORDS = """
    age current_catalog current_connection_id current_database current_date current_localtime
    current_localtimestamp current_query current_query_id current_role current_schema current_schemas
    current_setting current_time current_timestamp current_transaction_id current_user currval error
    gen_random_uuid get_current_time get_current_timestamp getvariable in_search_path localtime localtimestamp
    nextval now rand random reservoir sample session_user setseed setval sleep_ms stats tablesample today tomorrow
    transaction_timestamp txid_current user uuid uuidv4 uuidv7 vector_type write_log yesterday
"""
CHANGING = frozenset(_CHANGING_WORDS.split())
# An answer is data of its user: no other page may use it, and its address may hold a key.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept, Authorization",
    "X-Content-Type-Options": "nosniff",
}
MostRows = Annotated[
    int | None, Field(ge=0, description="most rows; if not given, 10000 for JSON and all for other formats")
]
Formulas = Annotated[
    Literal["exact", "escape"] | None,
    Field(description="`escape` keeps a spreadsheet from reading a text of CSV as a formula"),
]
UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "the client has this answer already"}}


def tag_of(asked: QueryRequest, plan: Plan, wanted: Format) -> str | None:
    """Return the ETag of an answer; None if the same link may have other rows while its savepoints are the same."""
    is_of_savepoints = all(reference.database is not None for reference in plan.tables)
    words = frozenset(map(str.casefold, _WORD.findall(asked.sql)))
    if not is_of_savepoints or plan.incomplete or plan.prefix.startswith("EXPLAIN") or words & CHANGING:
        return None
    versions = [(database.name, database.version) for database in plan.databases]
    if not all(version for _, version in versions):
        return None
    facts = [
        installed_version(), wanted.media_type, wanted == SPREADSHEET_CSV, asked.sql, asked.dialect, asked.schema,
        asked.compat, asked.max_rows, repr(asked.parameters), versions, plan.warnings,
    ]  # fmt: skip
    digest = hashlib.blake2b(json.dumps(facts).encode(), digest_size=_DIGEST_BYTES).hexdigest()
    # Weak: answers with the same rows differ in the id of the query.
    return f'W/"{digest}"'


def matches(tag: str, header: str) -> bool:
    """Return whether the header If-None-Match names a tag."""
    strong = tag.removeprefix("W/")
    known = {part.strip().removeprefix("W/") for part in header.split(",")}
    return strong in known


def check_each_once(request: Request) -> None:
    """Check that no parameter of a link stands there twice: one of the two would be ignored.

    Raises:
        InvalidRequestError: one does.
    """
    if len(request.query_params.multi_items()) != len(request.query_params):
        raise InvalidRequestError("expected each parameter of a link once, found one of them twice")


async def link_answer(
    request: Request, client: Client, asked: QueryRequest, wanted: Format, name: str
) -> Response:
    """Answer a link.

    Args:
        request: the HTTP request.
        service: the service.
        asked: the statement that the link means.
        catalog: the databases that its user sees.
        wanted: the format of the answer.
        name: the name of a file with the answer, without its suffix.

    Raises:
        QueryError: the query is refused, or failed before the first rows.
    """
    known = request.headers.get("if-none-match")
    if known is not None or request.method == "HEAD":
        # Planned and not run: this costs no slot, and refuses as the query would be refused.
        limits = client.served.settings.queries
        plan = await to_thread.run_sync(
            partial(asked.plan, client.visible, limits.max_sql_bytes, limits.compat)
        )
        tag = await to_thread.run_sync(tag_of, asked, plan, wanted)
        headers = _headers(tag)
        if known is not None and tag is not None and matches(tag, known):
            return Response(status_code=HTTP_304_NOT_MODIFIED, headers=headers)
        if request.method == "HEAD":
            response = Response(media_type=wanted.media_type, headers=headers)
            # The length is not known before the rows are, and 0 would mean an empty file.
            del response.headers["Content-Length"]
            return response
    started, tag = await to_thread.run_sync(_started, client.served, asked, wanted)
    response = await answer(request, client.served, started, wanted)
    response.headers.update(_headers(None if started.incomplete else tag))
    if wanted is not JSON:
        response.headers["Content-Disposition"] = f'attachment; filename="{name}.{wanted.suffix}"'
    return response


def _started(service: Served, asked: QueryRequest, wanted: Format) -> tuple[RunningQuery, str | None]:
    started = service.queries.start(asked)
    try:
        return started, tag_of(asked, started.plan, wanted)
    except BaseException:
        started.close()
        raise


def _headers(tag: str | None) -> dict[str, str]:
    if tag is None:
        return _HEADERS | {"Cache-Control": "private, no-store"}
    # A cache asks each time: a grant may end, and `latest` moves on.
    return _HEADERS | {"Cache-Control": "private, no-cache", "ETag": tag}
