"""`GET /api/jobs/{job}/changes`: what each new checkpoint of a job changes, as Server-Sent Events or JSON lines.

| event | id | data |
|---|---|---|
| gap, restarted, reset | | as `service.tasks.follow.events` has them |
| change | | a row |
| checkpoint | the token of the checkpoint | the end of a checkpoint |
| error | | why the stream ends: `{"error": {…}, "token": "42"}` |

The id goes with the end of a checkpoint only, so `Last-Event-ID`, which a browser sends when it connects again, is the last checkpoint
that came whole. Credentials, grants and masks are asked for each checkpoint. A client that takes no bytes is disconnected as from any
answer (`stall_timeout_s`), and goes on from its token.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import orjson
from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from catalog.follow.steps import LATEST
from service.base.errors import InvalidRequestError, query_error_of
from service.doors.http.api.answers import accepted_types
from service.doors.http.api.state import Asking, State
from service.doors.http.errors import EXPECTED, FAILURES, error_body
from service.doors.served import Client
from service.query.engines.registry import AUTO
from service.query.running.request import sendable
from service.tasks.follow.events import end_of, lines_of, notes_of, rows_of
from service.tasks.follow.following import CheckpointChanges, FollowRequest
from service.tasks.follow.sharing import View

_EVENTS, _LINES = "text/event-stream", "application/jsonl"

router = APIRouter(responses=FAILURES)


@router.get(
    "/api/jobs/{job}/changes",
    tags=["catalog"],
    response_class=StreamingResponse,
    responses={200: {"content": {_EVENTS: {}, _LINES: {}}}},
)
async def follow_changes(
    job: str,
    request: Request,
    service: State,
    client: Asking,
    table: Annotated[str | None, Query(description="table whose rows are followed")] = None,
    sql: Annotated[
        str | None, Query(description="in place of table: a SELECT that is run in each checkpoint")
    ] = None,
    since: Annotated[
        str,
        Query(
            description="number or token of the last checkpoint that you have; or latest, earliest, snapshot"
        ),
    ] = LATEST,
    once: Annotated[bool, Query(description="end at the newest checkpoint")] = False,
    successors: Annotated[
        bool, Query(description="go on with the job that was started from this one's state")
    ] = False,
    engine: str = AUTO,
    accept: Annotated[str, Header()] = _EVENTS,
    last_event_id: Annotated[str | None, Header(description="goes before since")] = None,
) -> StreamingResponse:
    """Follow a table of a job, or a SELECT: what each new checkpoint changes, as it comes."""
    if (table is None) == (sql is None):
        raise InvalidRequestError(f"expected table or sql, found {'both' if sql else 'neither'}")
    asked = FollowRequest(
        what=table or sql or "",
        job=job,
        since=last_event_id or since,
        once=once,
        successors=successors,
        engine=engine,
    )
    is_lines = any(one.name in (_LINES, "application/x-ndjson") for one in accepted_types(accept))

    async def view() -> View:
        caller = await request.app.state.authenticator.principal(request.headers)
        now = Client(served=service, caller=caller, source=client.source)
        return View(now.context(engine=engine), caller, caller.mask)

    # What means nothing is an error with a status: the stream has not begun.
    found = await service.followers.follow(asked, view)
    return StreamingResponse(
        _text(found, asked.since, is_lines=is_lines),
        media_type=_LINES if is_lines else _EVENTS,
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _text(
    found: AsyncIterator[CheckpointChanges | None], token: str, *, is_lines: bool
) -> AsyncIterator[bytes]:
    """Yield what each checkpoint changed, and why the stream ends, unless it is at its end."""
    try:
        async for one in found:
            if one is None:
                # Proxies close connections on which nothing comes.
                yield b"\n" if is_lines else b": nothing new\n\n"
                continue
            pieces = lines_of(one) if is_lines else _events_of(one)
            while (piece := await to_thread.run_sync(next, pieces, None)) is not None:
                yield piece
            token = one.token
    except EXPECTED as error:
        told = error_body(query_error_of(error)).model_dump(exclude_none=True)
        end = {"error": told, "token": token}
        yield orjson.dumps(end) + b"\n" if is_lines else _event("error", end)


def _events_of(found: CheckpointChanges) -> Iterator[bytes]:
    for note in notes_of(found):
        yield _event(next(iter(note)), note)
    for lines in rows_of(found):
        yield b"".join(b"event: change\ndata: %s\n\n" % line for line in lines.splitlines())
    yield b"id: %s\n" % sendable(found.token).encode() + _event("checkpoint", end_of(found))


def _event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(data))
