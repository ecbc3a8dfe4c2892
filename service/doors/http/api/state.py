"""The objects that all routers share; `service.doors.app` makes them, FastAPI injects them by type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query, Request

from catalog import Catalog
from service.base.errors import ForbiddenError
from service.base.principal import Principal
from service.doors.http.auth.gate import caller_of
from service.doors.operations.metrics import Metrics
from service.doors.served import Client, Served
from service.query.engines.workers import WorkerEngine
from service.query.serving.starts import QueryStarts
from service.tasks.follow.sharing import Followers
from service.tasks.jobs.clusters import Clusters
from service.tasks.jobs.triggers import Triggers
from service.tasks.time.test.serving import ServedRules
from service.tasks.write.serving.compilation import Compilation


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState(Served):
    """The objects of a service.

    Attributes:
        roots: folders from which clients may register savepoints.
        starts: starts queries in threads.
        metrics: its numbers for Prometheus.
        workers: the local engine, in processes of its own.
        compilation: compiles what writes need.
        clusters: the clusters of Flink that it follows.
        triggers: the savepoints that clients have Flink take.
        followers: those who follow jobs.
        rules: the rules that it tests on each new checkpoint.
    """

    roots: tuple[str, ...]
    starts: QueryStarts
    metrics: Metrics
    workers: WorkerEngine
    compilation: Compilation
    clusters: Clusters
    triggers: Triggers
    followers: Followers
    rules: ServedRules


async def _service_state(request: Request) -> ServiceState:
    state: ServiceState = request.app.state.service
    return state


State = Annotated[ServiceState, Depends(_service_state)]


def client_of(request: Request) -> Client:
    """Return who asks."""
    source = request.headers.get("user-agent", "")
    return Client(served=request.app.state.service, caller=caller_of(request), source=source)


async def _client(request: Request) -> Client:
    return client_of(request)


Asking = Annotated[Client, Depends(_client)]


Everybody = Annotated[
    bool, Query(alias="all", description="also those of others; needs a grant such as `operator:prod/*`")
]


def check_operator(service: ServiceState, caller: Principal) -> None:
    """Check that a user may see what others do.

    Raises:
        ForbiddenError: the user is no operator.
    """
    if not service.queries.may_operate(caller):
        raise ForbiddenError("expected an operator", hint="a grant such as operator:prod/* makes one")


async def _visible_catalog(client: Asking) -> Catalog:
    return client.visible


Visible = Annotated[Catalog, Depends(_visible_catalog)]
