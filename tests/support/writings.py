"""A context in which a use case writes, with the engines of a test."""

from __future__ import annotations

from collections.abc import Mapping

from catalog import Catalog
from service.base.settings import UNLIMITED, Settings
from service.query.engines.engine import Engine
from service.query.running.session import Session
from service.tasks.task import Context


def context_over(known: Catalog, engines: Mapping[str, Engine]) -> Context:
    """Return the context of a caller without limits."""
    settings = Settings().replaced(UNLIMITED)
    queries = Session(known, dict(engines), settings)
    return Context(
        catalog=known,
        settings=settings,
        start=queries.start,
        is_alone=True,
        worker=queries.worker,
    )
