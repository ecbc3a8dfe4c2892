"""One call of a tool: who asks, what the caller sees, and the queries that run for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from anyio import CancelScope, to_thread

from catalog import Catalog, Database
from service.base.errors import DatabaseNotFoundError
from service.doors.served import Client
from service.query.running.request import QueryRequest
from service.query.serving.query import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Client):
    """One call of a tool.

    Attributes:
        queries: those that were started for it.
    """

    queries: list[Query] = field(default_factory=list)

    @property
    def visible(self) -> Catalog:
        """The databases that the caller may see."""
        return self.served.catalog.visible(self.caller.sees)

    def bytes_read(self) -> tuple[int, int]:
        """Return how many bytes of savepoints the queries of the call have read, and about how many they read in all."""
        found = [query.progress for query in tuple(self.queries)]
        return sum(one.bytes_read for one in found), sum(one.bytes_total for one in found)

    def request(self, sql: str, **limits: Any) -> QueryRequest:
        """Return the request of a statement."""
        return QueryRequest(
            sql=sql,
            user=self.caller.name,
            principal=self.caller,
            source=self.source,
            abandoned_after_s=self.served.settings.queries.abandoned_after_s,
            **limits,
        )

    async def started(self, request: QueryRequest) -> Query:
        """Start a query; its caller closes it.

        Raises:
            QueryError: the statement means nothing or is not allowed, or too many queries wait.
        """
        query = await to_thread.run_sync(self.served.queries.start, request)
        self.queries.append(query)
        return query

    @asynccontextmanager
    async def running(self, request: QueryRequest) -> AsyncIterator[Query]:
        """Start a query for the time of a block; a call that is cancelled cancels it."""
        query = await self.started(request)
        try:
            yield query
        finally:
            with CancelScope(shield=True):
                await to_thread.run_sync(query.close)


def database_of(visible: Catalog, name: str | None) -> Database:
    """Return the database of a name or alias; without a name the only one, or the newest.

    Raises:
        CatalogError: there is no such database.
        DatabaseNotFoundError: there is none at all.
    """
    if name is not None:
        return visible.database(name)
    found = visible.implied
    if found is None:
        known = visible.databases
        raise DatabaseNotFoundError(
            f"no database is named, and there are {len(known)}", hint="list_databases lists them"
        )
    return found
