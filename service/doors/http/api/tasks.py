"""`POST /api/<use case>`: the use cases of `service.tasks.registry`; bodies are their requests, answers their outcomes.

The queries of a use case have the limits of all queries, and end when the client disconnects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from dataclasses import MISSING
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, ConfigDict, Field, create_model

from service.base.principal import Principal
from service.base.process.waiting import found_in_thread
from service.doors.http.api.state import Served, State
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import FAILURES
from service.query.running.group import QueryGroup
from service.query.running.request import QueryRequest
from service.query.serving.query import Query, ended_on_disconnect
from service.tasks.registry import HTTP, RegisteredTask, tasks_at
from service.tasks.request import Option, TaskRequest, options_of
from service.tasks.task import Context

_LONGEST_SOURCE = 200
_MOST_VALUES = 100
_Asked = TypeVar("_Asked", bound=TaskRequest)
_Model = TypeVar("_Model", bound=BaseModel)


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


def body_of(name: str, request: type[TaskRequest], base: type[BaseModel]) -> type[BaseModel]:
    """Return the model of a body: a field for each option of a request."""
    return _model(f"{name.capitalize()}Body", request, base, __doc__=request.__doc__)


def with_options(
    request: type[TaskRequest], without: Container[str] = ()
) -> Callable[[type[_Model]], type[_Model]]:
    """Return a decorator that adds to a model the options of a request that it lacks.

    Args:
        request: the class of requests.
        without: options that are no fields.
    """
    return lambda base: _model(base.__name__, request, base, without, __doc__=base.__doc__)


def request_of(kind: type[_Asked], body: BaseModel, **own: Any) -> _Asked:
    """Return the request of a body.

    Args:
        kind: the class of the request.
        body: its model.
        **own: values that are no fields of the body, or stand there in another form.

    Raises:
        InvalidRequestError: a value is out of its limits.
    """
    names = [one.name for one in options_of(kind) if one.name in type(body).model_fields]
    given = {name: getattr(body, name) for name in names} | own
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def _model(
    name: str, request: type[TaskRequest], base: type[_Model], without: Container[str] = (), **about: Any
) -> type[_Model]:
    fields = {
        one.name: (_annotation(one), ... if one.default is MISSING else one.default)
        for one in options_of(request)
        if one.name not in base.model_fields and one.name not in without
    }
    make: Any = create_model  # its overloads know no fields that are made
    model: type[_Model] = make(name, __base__=base, __module__=base.__module__, **about, **fields)
    return model


def context_of(
    served: Served, caller: Principal, source: str, group: QueryGroup[Query], **limits: Any
) -> Context:
    """Return what a use case may use for a caller.

    Args:
        served: the objects that answer.
        caller: the user.
        source: the client, as it calls itself.
        group: starts the queries.
        **limits: of each query, as `QueryRequest` has them.
    """
    asked = QueryRequest(
        sql="", user=caller.name, principal=caller, source=source[:_LONGEST_SOURCE], **limits
    )
    visible = served.catalog.visible(caller.sees)
    return Context(catalog=visible, settings=served.settings, start=group.start, request=lambda: asked)


def _annotation(one: Option) -> Any:
    kind: Any = one.kind
    limits: dict[str, Any] = {"max_length": one.longest} if kind is str else {}
    limits |= {} if one.at_least is None else {"ge": one.at_least}
    described: dict[str, Any] = {"description": one.help, "examples": list(one.choices) or None}
    element = Annotated[kind, Field(**limits)]
    if one.is_mapping:
        return Annotated[dict[str, element], Field(**described)]
    if one.is_list:
        return Annotated[list[element], Field(max_length=_MOST_VALUES, **described)]
    kind = kind | None if one.default is None else kind
    return Annotated[kind, Field(**limits, **described)]


def _answerer(name: str, registered: RegisteredTask) -> Callable[..., Awaitable[Response]]:
    task = registered.load()
    kind = body_of(name, task.request, TaskBody)

    async def answer(request: Request, service: State, caller: Caller, body: Any) -> Response:
        group = QueryGroup(service.queries.start)
        asked = request_of(task.request, body)
        context = context_of(service, caller, request.headers.get("user-agent", ""), group)
        async with ended_on_disconnect(request):
            outcome = await found_in_thread(lambda: task.run(asked, context), group.cancel)
        return Response(orjson.dumps(outcome.to_dict()), media_type="application/json")

    answer.__annotations__ |= {
        "body": Annotated[kind, Body()],
        "service": State,
        "caller": Caller,
        "request": Request,
    }
    answer.__name__ = name
    answer.__doc__ = registered.summary
    return answer
