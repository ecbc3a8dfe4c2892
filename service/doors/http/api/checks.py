"""`POST /api/checks/jar`: will a savepoint restore in the job of a jar that the caller sends: the jar is the body.

The rest stands in the address. No path of this machine is taken from a client. Each check runs in a process of its own
(`service.tasks.check.registry`), as those of `POST /api/checks`, which compare databases.
"""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from service.base.errors import InvalidRequestError
from service.doors.http.api.state import State
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import FAILURES
from service.doors.served import Client, request_of, with_options
from service.query.serving.query import ended_on_disconnect
from service.tasks.check.running import CheckRequest

JAR_PATH = "/api/checks/jar"
router = APIRouter(tags=["use cases"], responses=FAILURES)


@with_options(CheckRequest)
class JarQuery(BaseModel):
    """What stands in the address of a check with a jar."""

    name: Annotated[str, Field(max_length=200, description="name of the jar in the report")] = "job.jar"


@router.post(
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
    request: Request, asked: Annotated[JarQuery, Query()], service: State, caller: Caller
) -> Response:
    """Say what a restore in the job of a jar will do; the jar is the body. It is read, and nothing of it is run or kept."""
    if not asked.name.isprintable():
        raise InvalidRequestError(f"expected a name of printable characters, found {asked.name!r}")
    check = request_of(CheckRequest, asked)
    jar = await request.body()
    if not jar:
        raise InvalidRequestError("expected a jar as the body of the request, found nothing")
    client = Client(served=service, caller=caller, source="")
    async with ended_on_disconnect(request):
        found = await client.checked(check, jar, asked.name)
    return Response(orjson.dumps(found.to_dict()), media_type="application/json")
