"""Statements on an engine, without a service around it."""

from __future__ import annotations

from catalog import Catalog
from service.query.engines.engine import Engine
from service.query.sql.planner import planned


def rows_by(engine: Engine, catalog: Catalog, sql: str, dialect: str) -> list[dict[str, object]]:
    """The rows that an engine answers."""
    plan = planned(sql, catalog, dialect=dialect, max_sql_bytes=1 << 20, constants={})
    execution = engine.execution(plan)
    try:
        found: list[dict[str, object]] = execution.open().read_all().to_pylist()
    finally:
        execution.close()
    return found
