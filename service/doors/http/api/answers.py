"""The rows of a query → an HTTP answer, in the format that `Accept` names with the greatest weight.

JSON is one object with all rows: status and Content-Length depend on all of them, so they are collected before the first byte is sent. A
few are kept in memory, more in a file (`service.query.serving.results`), so a long answer that is read slowly costs the server little.
Their text has at most `max_answer_bytes`; further rows are cut off, as after `max_rows`.

The other formats stream; an error after the first rows breaks the connection, so that half an answer never looks complete. A client that
disconnects cancels its query.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any, NamedTuple

import anyio
import orjson
import pyarrow as pa
from anyio import to_thread
from fastapi import Request
from pydantic import AfterValidator, BaseModel, Field
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from service.base.errors import InvalidRequestError, MemoryExceededError, NotAcceptableError, SavepointError
from service.base.settings import Settings
from service.doors.http.errors import FAILURES
from service.doors.served import Served
from service.query.encode import FORMATS, SPREADSHEET_CSV, Format, json_rows
from service.query.encode.formats import Column, slices
from service.query.running.request import headers_of
from service.query.serving.query import Query, cancelled_on_disconnect, wait_until_ended, wait_until_ready
from service.query.serving.results import Extent, SpoolFile
from service.query.sql.plan import ScanExplanation

_SEND_BYTES = 256 * 1024
JSON = FORMATS["json"]
_BY_MEDIA_TYPE = {known.media_type: known for known in FORMATS.values()} | {
    "*/*": JSON,
    "application/*": JSON,
    "application/x-ndjson": FORMATS["jsonl"],
    "text/*": FORMATS["csv"],
}
# The end of a short answer follows its first rows within this time.
_END_BEHIND_ROWS_S = 0.02
_FORMULAS = {"exact": FORMATS["csv"], "escape": SPREADSHEET_CSV}
_AT_ONCE_S, _FEW_BYTES = 0.02, 16 * 1024


class AnswerBuffer:
    """The text of rows, with commas between them. Not safe for several threads at the same time.

    Args:
        memory_bytes: most bytes that are kept in memory.
        max_bytes: most bytes of all rows.
        file: takes the rows that are not kept in memory.

    Attributes:
        columns: columns of the rows.
        row_count: number of rows.
        size_bytes: size of their text.
        is_full: True if a row had no room.
    """

    def __init__(self, memory_bytes: int, max_bytes: int, file: SpoolFile) -> None:
        self._memory_bytes = memory_bytes
        self._max_bytes = max_bytes
        self._file = file
        self._chunks: list[bytes | Extent] = []
        self.columns: Sequence[Column] = ()
        self.row_count = 0
        self.size_bytes = 0
        self.is_full = False

    @property
    def is_in_memory(self) -> bool:
        """True if no row is in the file."""
        return self.size_bytes <= self._memory_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows of a batch, as many as have room.

        Raises:
            MemoryExceededError: there is no room on the disk.
        """
        for rows_slice in slices(batch):
            rows = json_rows(self.columns, rows_slice)
            text = ",".join(rows).encode()
            # One byte more: the comma between the rows.
            if self.size_bytes + len(text) + 1 > self._max_bytes:
                self.is_full = True
                rows = self._fitting(rows)
                text = ",".join(rows).encode()
            if rows:
                self._keep(b"," + text if self.row_count else text)
                self.row_count += len(rows)
            if self.is_full:
                return

    def chunks(self) -> Iterator[bytes]:
        """Yield all text, once."""
        for chunk in self._chunks:
            content = self._file.take(chunk) if isinstance(chunk, Extent) else chunk
            assert content is not None  # the file is closed only after the answer
            yield content

    def close(self) -> None:
        """Drop the text."""
        self._chunks.clear()
        self._file.close()

    def _keep(self, text: bytes) -> None:
        self.size_bytes += len(text)
        if self.is_in_memory:
            self._chunks.append(text)
            return
        extent = self._file.put(memoryview(text))
        if extent is None:
            raise MemoryExceededError(
                "there is no room on the disk for the answer",
                hint="request Arrow, CSV or JSON lines, which stream, or fewer rows",
            )
        self._chunks.append(extent)

    def _fitting(self, rows: list[str]) -> list[str]:
        """Return the first rows, as many as have room."""
        left = self._max_bytes - self.size_bytes
        for number, row in enumerate(rows):
            left -= len(row.encode()) + 1
            if left < 0:
                return rows[:number]
        return rows


class BufferedAnswer(StreamingResponse):
    """An answer whose rows are in a buffer.

    Args:
        before: text before the rows.
        rows: the buffer; closed with the answer.
        after: text behind the rows.
        media_type: media type of the answer.
    """

    def __init__(self, before: bytes, rows: AnswerBuffer, after: bytes, media_type: str) -> None:
        self._rows = rows
        length = len(before) + rows.size_bytes + len(after)
        super().__init__(
            self._content(before, after), media_type=media_type, headers={"Content-Length": str(length)}
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, and close the buffer even if the client disconnects."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._rows.close()

    async def _content(self, before: bytes, after: bytes) -> AsyncIterator[bytes]:
        yield before
        chunks = self._rows.chunks()
        while (chunk := await to_thread.run_sync(next, chunks, None)) is not None:
            for start in range(0, len(chunk), _SEND_BYTES):
                yield chunk[start : start + _SEND_BYTES]
        yield after


class AcceptedType(NamedTuple):
    """A type of media that a client takes, in small letters.

    Attributes:
        name: such as `text/csv`, `text/*` or `*/*`.
        weight: how much the client wants it; 0 for not at all, as for a weight that is no number.
        parameters: all words behind the name, such as `formulas=escape`; the weight is one of them.
    """

    name: str
    weight: float
    parameters: Sequence[str]


def accepted_types(header: str) -> Iterator[AcceptedType]:
    """Yield the types of a header in its order."""
    for part in header.split(","):
        name, *parameters = [word.strip().lower() for word in part.split(";")]
        weight = next((_weight(word) for word in parameters if word.startswith("q=")), 1.0)
        yield AcceptedType(name, weight, parameters)


def _weight(parameter: str) -> float:
    try:
        return float(parameter.removeprefix("q="))
    except ValueError:
        return 0.0


class ColumnBody(BaseModel):
    """A column of the answer."""

    name: str
    type: str


Milliseconds = Annotated[float, AfterValidator(lambda found: round(found, 3))]


class DatabaseBody(BaseModel):
    """A savepoint that the query read."""

    name: str
    checkpoint_id: int
    path: str


class UnreadFileBody(BaseModel):
    """A file of which the answer has no rows, or not all, because it cannot be read."""

    table: str
    path: str | None = Field(description="the name of the file, without its folders")
    code: str
    message: str


class ExplanationBody(BaseModel):
    """The tables and columns that a query reads."""

    tables: list[ScanExplanation]


class QueryAnswer(BaseModel):
    """The rows of a query, and facts about its execution."""

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
    incomplete: list[UnreadFileBody] | None = Field(
        default=None,
        description="files that the answer lacks; only if there are any, and with `allow_partial`",
    )
    warnings: list[str] | None = Field(
        default=None,
        description="what the service assumed, such as the database of tables that name none, and which newer savepoints `latest` "
        "skipped; only if there are any",
    )
    explanation: ExplanationBody | None = Field(default=None, description="only for EXPLAIN")


STREAMS: dict[str, Any] = {known.media_type: {} for known in FORMATS.values() if known is not JSON}
ANSWERS: dict[int | str, dict[str, Any]] = {200: {"content": STREAMS, "model": QueryAnswer}, **FAILURES}


def accepted_format(accept: str | None) -> Format:
    """Return the format that an `Accept` header prefers.

    Raises:
        NotAcceptableError: the header accepts none of our formats.
    """
    # RFC 9110: the highest weight wins, then the most specific type; the order of the header decides the rest.
    ranked = []
    for number, (name, weight, parameters) in enumerate(accepted_types(accept or "*/*")):
        known = _with_parameters(_BY_MEDIA_TYPE.get(name), parameters)
        if known is not None and weight > 0:
            ranked.append((-weight, name.count("*"), number, known))
    if not ranked:
        raise NotAcceptableError(
            f"expected a format that the service writes, found {accept!r}",
            hint=f"formats are {', '.join(known.media_type for known in FORMATS.values())}",
        )
    return min(ranked, key=lambda entry: entry[:3])[3]


def _with_parameters(known: Format | None, parameters: Sequence[str]) -> Format | None:
    """Apply parameters such as `formulas=escape` to a format; None for a value that we do not have.

    A client that wants formulas escaped must not get other CSV.
    """
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "formulas":
            known = _FORMULAS.get(value.strip()) if known is FORMATS["csv"] else None
    return known


def with_formulas(wanted: Format, how: str | None) -> Format:
    """Return a format with texts `exact` as they are, or with formulas made texts (`escape`); None for what it has.

    Raises:
        InvalidRequestError: the format is not CSV.
    """
    if how is None:
        return wanted
    if wanted.name != "csv":
        raise InvalidRequestError(f"expected formulas only for csv, found them for {wanted.name}")
    return _FORMULAS[how]


def max_rows_of(requested: int | None, wanted: Format, settings: Settings) -> int | None:
    """Return the row limit of an answer in a format; None for no limit."""
    # Only JSON is limited by a setting: it is collected before it is sent, the other formats stream.
    if wanted is not JSON:
        return requested
    return min(settings.queries.max_rows if requested is None else requested, settings.queries.max_rows_limit)


async def answer(request: Request, service: Served, query: Query, wanted: Format) -> Response:
    """Answer with the rows of a query; closes the query at the end.

    Raises:
        QueryError: the query failed before the first rows, or, if the format is JSON, at any time.
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
            **headers_of(query.origins, query.incomplete),
        },
    )


async def _whole(request: Request, service: Served, query: Query) -> Response:
    """Return the JSON answer, after all its rows were collected."""
    settings = service.settings
    file = service.queries.spool.file(settings.queries.max_answer_bytes)
    rows = AnswerBuffer(settings.queries.result_buffer_bytes, settings.queries.max_answer_bytes, file)
    try:
        # Most answers end at once: nobody needs to look whether the client is still there, and no thread to collect few rows.
        if await wait_until_ended(query, _AT_ONCE_S) and query.results.size_bytes <= _FEW_BYTES:
            _collect(query, rows)
        else:
            async with cancelled_on_disconnect(request, query):
                await wait_until_ready(query)
                # The end of a short answer follows its rows closely: so one call of a thread collects all of it.
                await wait_until_ended(query, _END_BEHIND_ROWS_S)
                while not await to_thread.run_sync(_collect, query, rows):
                    await wait_until_ready(query)
        before, after = _around(query, rows)
        if not rows.is_in_memory:
            return BufferedAnswer(before, rows, after, JSON.media_type)
        return Response(b"".join((before, *rows.chunks(), after)), media_type=JSON.media_type)
    except BaseException:
        rows.close()
        await _closed(query)
        raise


def _collect(query: Query, rows: AnswerBuffer) -> bool:
    """Collect the rows that are ready. Returns True, and closes the query, if no more rows are wanted."""
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
    """Return the JSON text before and behind the rows of an answer."""
    facts: dict[str, Any] = {
        "query_id": query.id,
        "columns": [{"name": column.name, "type": column.type} for column in rows.columns],
        "rows": [],
        "row_count": rows.row_count,
        "truncated": query.truncated or rows.is_full,
        "engine": query.engine,
        "engine_reason": query.engine_reason,
        "elapsed_ms": round(query.elapsed_ms, 3),
        "bytes_read": query.progress.bytes_read,
        "bytes_cached": query.progress.bytes_cached,
        "cache_hits": query.progress.cache_hits,
        "databases": query.origins,
    }
    if query.incomplete:
        facts["incomplete"] = query.incomplete
    if query.plan.warnings:
        facts["warnings"] = query.plan.warnings
    if query.explanation is not None:
        facts["explanation"] = {"tables": [asdict(scan) for scan in query.explanation]}
    # The first match is the member: quotes inside values are escaped.
    before, _, after = orjson.dumps(facts).partition(b'"rows":[]')
    return before + b'"rows":[', b"]" + after


def _chunks(query: Query, wanted: Format) -> Iterator[bytes]:
    """Yield the answer. The first chunk waits until the columns are known, so the event loop must not take it."""
    yield from wanted.write(query.columns, query.schema, query.batches())
    # The head of the stream has listed what could not be opened; what is found behind it has no other place to stand.
    if set(query.incomplete) != set(query.plan.incomplete):
        found = next(file for file in query.incomplete if file not in query.plan.incomplete)
        raise SavepointError(found.text(), code=found.code)


async def _streamed(query: Query, first: bytes, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks in small slices: each slice that is taken shows that the client still reads."""
    query.attendance.stream()
    chunk: bytes | None = first
    try:
        while chunk is not None:
            for start in range(0, len(chunk), _SEND_BYTES):
                yield chunk[start : start + _SEND_BYTES]
                query.attendance.touch()
            chunk = await to_thread.run_sync(next, chunks, None) if await wait_until_ready(query) else None
    finally:
        await _closed(query)


async def _closed(query: Query) -> None:
    query.check(time.monotonic())  # a deadline that has passed is a better reason than the cancellation below
    query.cancel()
    # Starlette cancels this task when the client disconnects; the query must be closed nevertheless.
    with anyio.CancelScope(shield=True):
        await to_thread.run_sync(query.close)
