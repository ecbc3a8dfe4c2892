"""The HTTP application, composed of routers, error handlers and limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI

from catalog import Catalog
from service.base import machine
from service.base.hosts import THIS_MACHINE, KnownHosts
from service.base.settings import Settings
from service.base.version import installed_version
from service.doors.http.api import (
    changes,
    databases,
    health,
    jobs,
    query,
    rules,
    saved,
    savepoints,
)
from service.doors.http.api.links import addresses
from service.doors.http.api.state import ServiceState
from service.doors.http.api.tasks import JAR_PATH, jar_router, task_router
from service.doors.http.auth.gate import Authenticator, Gate
from service.doors.http.body import BodyLimits
from service.doors.http.errors import install_error_handlers
from service.doors.mcp import router as mcp
from service.doors.operations import logs
from service.doors.operations.metrics import Metrics
from service.doors.page.router import OpenedLinks, page_router, read_assets, wants_page
from service.doors.trino import router as trino
from service.query.engines.registry import open_engines
from service.query.engines.workers import WorkerEngine
from service.query.serving.registry import Queries, slot_limits
from service.query.serving.starts import IDLE_S, QueryStarts
from service.query.sql.text import load_dialect
from service.tasks.check.registry import Checks
from service.tasks.follow.sharing import Followers
from service.tasks.jobs.clusters import Clusters
from service.tasks.jobs.triggers import Triggers
from service.tasks.saved.store import SavedQueries
from service.tasks.time.test.serving import ServedRules
from service.tasks.write.serving.compilation import Compilation
from service.tasks.write.serving.targets import WriteRoot
from service.tasks.write.serving.writes import Writes


def create_app(
    settings: Settings,
    catalog: Catalog,
    *,
    roots: Sequence[str] = (),
    write_roots: Sequence[WriteRoot] = (),
    authenticator: Authenticator | None = None,
) -> FastAPI:
    """Make the application; it closes its engines when it stops.

    Args:
        settings: its limits.
        catalog: the catalog that it serves.
        roots: folders from which clients may register savepoints.
        write_roots: folders below which clients may write savepoints.
        authenticator: checks credentials; without it everybody may query.
    """
    authenticator = authenticator or Authenticator()
    workers = WorkerEngine(settings, slot_limits(settings).running)
    all_queries = Queries(catalog, open_engines(settings, workers), settings, IDLE_S)
    starts = QueryStarts(IDLE_S, settings.duckdb.threads or machine.cores())
    writes = Writes(settings, catalog, write_roots)
    all_checks = Checks(settings)
    compilation = Compilation()
    clusters = Clusters(settings, catalog, roots)
    all_triggers = Triggers(settings, clusters, catalog)
    followers = Followers(catalog, all_queries.spool, lambda: all_queries.is_ending)
    served_rules = ServedRules(settings, catalog, all_queries.start)
    saved_queries = SavedQueries(settings.queries.saved_queries, is_writable=settings.queries.save_queries)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        workers.start()
        load_dialect()
        if writes.roots:
            compilation.start()
        clusters.start()
        served_rules.start()
        yield
        await entrance.close()
        followers.close()
        served_rules.close()
        clusters.close()
        all_triggers.close()
        compilation.close()
        # First: the processes of writes remove what they have written so far.
        writes.close()
        all_checks.close()
        all_queries.close()
        starts.close()
        if catalog.cache is not None:
            catalog.cache.close()

    app = FastAPI(
        title="savepointdb",
        summary="SQL over Apache Flink savepoints and checkpoints",
        version=installed_version(),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    all_queries.add_observer(logs.audit)
    writes.add_observer(logs.audit_write)
    all_triggers.add_observer(logs.audit_savepoint)
    app.state.service = ServiceState(
        settings=settings,
        catalog=catalog,
        queries=all_queries,
        roots=tuple(roots),
        starts=starts,
        metrics=Metrics(
            all_queries, writes, all_checks, catalog, clusters, all_triggers, served_rules, followers
        ),
        workers=workers,
        writes=writes,
        checks=all_checks,
        compilation=compilation,
        clusters=clusters,
        triggers=all_triggers,
        followers=followers,
        rules=served_rules,
        saved=saved_queries,
    )
    app.state.authenticator = authenticator
    app.state.mcp = entrance = mcp.Entrance(app.state.service)
    hosts = _hosts(settings, authenticator)
    app.state.hosts = KnownHosts(hosts, settings.server.tls_certificate, settings.server.tls_key)
    app.state.trino = trino.Statements(catalog, all_queries, settings)
    assets = read_assets()
    app.add_middleware(query.PlainQueries)
    # Behind the gate: what it takes for the page gets the page, and no rows.
    app.add_middleware(OpenedLinks, assets=assets)
    # The middleware added last runs first: a request without credentials is refused before its body is read.
    app.add_middleware(
        BodyLimits,
        max_bytes=settings.server.max_request_bytes,
        timeout_s=settings.server.body_timeout_s,
        max_bytes_at={JAR_PATH: settings.checks.jar_bytes},
    )
    app.add_middleware(Gate, authenticator=authenticator, hosts=hosts, wants_page=wants_page)
    install_error_handlers(app)
    routers = (
        query,
        databases,
        jobs,
        changes,
        rules,
        savepoints,
        addresses,
        saved,
        health,
        trino,
        mcp,
    )
    for module in routers:
        app.include_router(module.router)
    for router in (jar_router, task_router(), page_router(assets)):
        app.include_router(router)
    return app


def _hosts(settings: Settings, authenticator: Authenticator) -> frozenset[str]:
    """Return the host names that requests may use; empty for any name."""
    named = frozenset(host.strip() for host in settings.server.allowed_hosts.split(",") if host.strip())
    if authenticator.is_open and not settings.auth.allow_anonymous:
        return named | THIS_MACHINE
    return named
