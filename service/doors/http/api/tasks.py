"""`POST /api/<use case>`: the use cases of `service.tasks.registry`; bodies are their requests, answers their outcomes.

The queries of a use case have the limits of all queries, and end when the client disconnects.

`POST /api/checks/jar` checks against a jar, which is the body; the rest stands in the address. No path of this machine is taken from a
client. Each check runs in a process of its own (`service.tasks.check.registry`), also those that compare databases.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import fastapi
import orjson
from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.base.errors import InvalidRequestError
from service.doors.http.api.state import Asking
from service.doors.http.errors import FAILURES
from service.doors.served import body_of, request_of, with_options
from service.query.serving.query import ended_on_disconnect
from service.tasks.check.running import CheckRequest
from service.tasks.registry import HTTP, RegisteredTask, tasks_at

_IN_ADDRESS = re.compile(r"{(\w+)}")
JAR_PATH = "/api/checks/jar"
jar_router = APIRouter(tags=["use cases"], responses=FAILURES)


def task_router() -> APIRouter:
    """Return the calls of all use cases."""
    router = APIRouter(prefix="/api", tags=["use cases"], responses=FAILURES)
    for name, registered in tasks_at(HTTP):
        router.post(f"/{registered.address or name}", response_class=Response)(_answerer(name, registered))
    return router


class TaskBody(BaseModel):
    """The request of a use case."""

    # A misspelt option must not be ignored.
    model_config = ConfigDict(extra="forbid")


class LimitedBody(TaskBody):
    """The request of a use case that starts queries."""

    timeout_s: float | None = Field(None, gt=0, description="most seconds of each query; 60 if not given")
    max_bytes: int | None = Field(None, ge=0, description="most bytes of savepoints that each query reads")


def _answerer(name: str, registered: RegisteredTask) -> Callable[..., Awaitable[Response]]:
    task = registered.load()
    # A part of the address may be an option.
    named = _IN_ADDRESS.findall(registered.address or "")
    kind = body_of(name, task.request, TaskBody if task.is_apart else LimitedBody, named)

    async def answer(request: Request, client: Asking, body: Any, **address: str) -> Response:
        asked = request_of(task.request, body, **address)
        limits = body.model_dump(include=set(LimitedBody.model_fields))
        async with ended_on_disconnect(request):
            outcome = await client.outcome(task, asked, **limits)
        ids = {"query_id": client.queries.started[0].id} if task.is_query else {}
        return Response(orjson.dumps(ids | outcome.to_dict()), media_type="application/json")

    kinds = {
        "request": Request,
        "client": Asking,
        "body": Annotated[kind, Body()],
        **dict.fromkeys(named, str),
    }
    parameters = [
        inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY, annotation=kind) for one, kind in kinds.items()
    ]
    vars(answer)["__signature__"] = inspect.Signature(parameters)
    answer.__name__ = name
    answer.__doc__ = registered.summary
    return answer


@with_options(CheckRequest)
class JarQuery(BaseModel):
    """What stands in the address of a check with a jar."""

    name: Annotated[str, Field(max_length=200, description="name of the jar in the report")] = "job.jar"


@jar_router.post(
    JAR_PATH,
    response_class=Response,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/java-archive": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def check_savepoint_with_jar(
    request: Request, asked: Annotated[JarQuery, fastapi.Query()], client: Asking
) -> Response:
    """Say what a restore in the job of a jar will do; the jar is the body. It is read, and nothing of it is run or kept."""
    if not asked.name.isprintable():
        raise InvalidRequestError(f"expected a name of printable characters, found {asked.name!r}")
    check = request_of(CheckRequest, asked)
    jar = await request.body()
    if not jar:
        raise InvalidRequestError("expected a jar as the body of the request, found nothing")
    async with ended_on_disconnect(request):
        found = await client.checked(check, jar, asked.name)
    return Response(orjson.dumps(found.to_dict()), media_type="application/json")
