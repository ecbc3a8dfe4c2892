"""A query's rows → an HTTP answer, in the format that `Accept` names.

JSON is one object with all rows. The other formats stream; an error that comes after the first rows breaks the connection,
so half an answer never looks whole. A client that goes away cancels its query.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import anyio
import orjson
from anyio import to_thread
from fastapi import Request
from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse

from service.api.buffer import AnswerBuffer, BufferedAnswer
from service.api.state import ServiceState
from service.encode import FORMATS, SPREADSHEET_CSV, Format
from service.errors import NotAcceptableError
from service.http.errors import ErrorAnswer
from service.queries.origin import headers_of
from service.queries.query import Query
from service.queries.waiting import cancelled_on_disconnect, wait_until_ended, wait_until_ready
from service.settings import Settings

JSON = FORMATS["json"]
_BY_MEDIA_TYPE = {known.media_type: known for known in FORMATS.values()} | {
    "*/*": JSON,
    "application/*": JSON,
    "application/x-ndjson": FORMATS["jsonl"],
    "text/*": FORMATS["csv"],
}

_END_BEHIND_ROWS_S = 0.02
_PART_BYTES = 256 * 1024
_FORMULAS = {"exact": FORMATS["csv"], "escape": SPREADSHEET_CSV}


class ColumnBody(BaseModel):
    """A column of the answer."""

    name: str
    type: str


class DatabaseBody(BaseModel):
    """A savepoint that the query read."""

    name: str
    checkpoint_id: int
    path: str


class ReadingBody(BaseModel):
    """What is read of a table; see `service.sql.explain`."""

    table: str
    columns: list[str]
    splits: int
    splits_total: int
    key_groups: int
    key_groups_total: int
    bytes_to_read: int
    bytes_total: int
    cached_bytes: int
    cache_hit: bool
    predicate: dict[str, list[str]]


class ExplanationBody(BaseModel):
    """What a query is going to read."""

    tables: list[ReadingBody]


class QueryAnswer(BaseModel):
    """The rows and how they came about."""

    query_id: str
    columns: list[ColumnBody]
    rows: list[list[Any]]
    row_count: int
    truncated: bool
    engine: str
    engine_reason: str
    elapsed_ms: float
    bytes_read: int
    bytes_cached: int
    cache_hits: int
    databases: list[DatabaseBody]
    explanation: ExplanationBody | None = Field(default=None, description="of EXPLAIN only")


FAILURES: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "model": ErrorAnswer,
        "description": "the query or the savepoint is at fault, or too many queries wait",
    },
    "5XX": {"model": ErrorAnswer, "description": "the service is at fault, or a limit was reached"},
}
STREAMS: dict[str, Any] = {known.media_type: {} for known in FORMATS.values() if known is not JSON}
ANSWERS: dict[int | str, dict[str, Any]] = {200: {"content": STREAMS, "model": QueryAnswer}, **FAILURES}


def accepted_format(accept: str | None) -> Format:
    """The format that an `Accept` header asks for most.

    Raises:
        NotAcceptableError: it asks for none of ours.
    """
    ranked = []
    for number, part in enumerate((accept or "*/*").split(",")):
        media_type, *parameters = [piece.strip().lower() for piece in part.split(";")]
        known = _with_parameters(_BY_MEDIA_TYPE.get(media_type), parameters)
        weight = next((_weight(piece) for piece in parameters if piece.startswith("q=")), 1.0)
        if known is not None and weight > 0:
            ranked.append((-weight, media_type.count("*"), number, known))
    if not ranked:
        raise NotAcceptableError(
            f"expected to answer in a format of ours, found {accept!r}",
            hint=f"formats are {', '.join(known.media_type for known in FORMATS.values())}",
        )
    return min(ranked, key=lambda entry: entry[:3])[3]


def _with_parameters(known: Format | None, parameters: Sequence[str]) -> Format | None:
    """The format with what its parameters ask for; None if that is nothing of ours: it must not be overlooked."""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "formulas":
            known = _FORMULAS.get(value.strip()) if known is FORMATS["csv"] else None
    return known


def max_rows_of(asked: int | None, wanted: Format, settings: Settings) -> int | None:
    """How many rows an answer in this format may have."""
    if wanted is not JSON:
        return asked
    return min(settings.queries.max_rows if asked is None else asked, settings.queries.max_rows_limit)


async def answer(request: Request, service: ServiceState, query: Query, wanted: Format) -> Response:
    """The answer with the rows of a query; the query is closed with it.

    Raises:
        QueryError: it failed before the first rows, or anywhere where the format is JSON.
    """
    if wanted is JSON:
        return await _whole(request, service, query)
    chunks = _chunks(query, wanted)
    try:
        async with cancelled_on_disconnect(request, query):
            await wait_until_ready(query)
            first = await to_thread.run_sync(next, chunks, b"")
    except BaseException:
        await _closed(query)
        raise
    return StreamingResponse(
        _streamed(query, first, chunks),
        media_type=wanted.media_type,
        headers={
            "Content-Disposition": f'attachment; filename="{query.id}.{wanted.suffix}"',
            "X-Query-Id": query.id,
            **headers_of(query.origins),
        },
    )


async def _whole(request: Request, service: ServiceState, query: Query) -> Response:
    """The JSON answer, when all its rows are known."""
    settings = service.settings
    file = service.queries.spool.file(settings.queries.max_answer_bytes)
    rows = AnswerBuffer(settings.queries.result_buffer_bytes, settings.queries.max_answer_bytes, file)
    try:
        async with cancelled_on_disconnect(request, query):
            await wait_until_ready(query)
            # The end is close behind the rows of a short answer: so a thread is asked once for all of it.
            await wait_until_ended(query, _END_BEHIND_ROWS_S)
            while not await to_thread.run_sync(_collect, query, rows):
                await wait_until_ready(query)
        before, after = _around(query, rows)
        if not rows.is_in_memory:
            return BufferedAnswer(before, rows, after, JSON.media_type)
        return Response(b"".join((before, *rows.parts(), after)), media_type=JSON.media_type)
    except BaseException:
        rows.close()
        await _closed(query)
        raise


def _collect(query: Query, rows: AnswerBuffer) -> bool:
    """Collect the rows that are there; whether no more are wanted. The query is closed then."""
    rows.columns = query.columns
    while query.is_ready:
        batch = query.take()
        if batch is not None:
            rows.add(batch)
        if rows.is_full:
            query.suffice(rows.row_count)
        if batch is None or rows.is_full:
            query.close()
            return True
    return False


def _around(query: Query, rows: AnswerBuffer) -> tuple[bytes, bytes]:
    """What stands before and behind the rows of a JSON answer."""
    facts: dict[str, Any] = {
        "query_id": query.id,
        "columns": [{"name": column.name, "type": column.type} for column in rows.columns],
        "rows": [],
        "row_count": rows.row_count,
        "truncated": query.truncated or rows.is_full,
        "engine": query.engine,
        "engine_reason": query.engine_reason,
        "elapsed_ms": round(query.elapsed_ms, 3),
        "bytes_read": query.bytes_read,
        "bytes_cached": query.progress.bytes_cached,
        "cache_hits": query.progress.cache_hits,
        "databases": query.origins,
    }
    if query.explanation is not None:
        facts["explanation"] = query.explanation.as_json()
    before, _, after = orjson.dumps(facts).partition(b'"rows":[]')
    return before + b'"rows":[', b"]" + after


def _weight(parameter: str) -> float:
    try:
        return float(parameter.removeprefix("q="))
    except ValueError:
        return 0.0


def _chunks(query: Query, wanted: Format) -> Iterator[bytes]:
    """The answer in pieces. Already the first one waits until the columns are known: not for the event loop to take."""
    yield from wanted.write(query.columns, query.schema, query.batches())


async def _streamed(query: Query, first: bytes, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The chunks in parts, so that it is known whether a slow reader takes any."""
    query.stream()
    chunk: bytes | None = first
    try:
        while chunk is not None:
            for start in range(0, len(chunk), _PART_BYTES):
                yield chunk[start : start + _PART_BYTES]
                query.touch()
            chunk = await to_thread.run_sync(next, chunks, None) if await wait_until_ready(query) else None
    finally:
        await _closed(query)


async def _closed(query: Query) -> None:
    query.check(time.monotonic())  # for a reason of its own, if there is one
    query.cancel()
    with anyio.CancelScope(shield=True):
        await to_thread.run_sync(query.close)
