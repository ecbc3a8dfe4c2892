"""A use case: what it is asked, what it finds, and what runs it.

Doors turn their input into a request, and an outcome into their output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from catalog import Catalog, Database
from service.base.errors import DatabaseNotFoundError
from service.base.process import machine
from service.base.settings import Settings
from service.query.engines.parallel import read_splits
from service.query.serving.query import Query
from service.query.serving.request import QueryRequest
from service.query.sql.edits import quoted
from service.tasks.request import TaskRequest


class Outcome(Protocol):
    """What a use case has found."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that are JSON; all doors send the same."""

    def lines(self, width: int | None) -> Iterator[str]:
        """Yield it as lines for people.

        Args:
            width: characters per line of the screen; None if there is none.
        """

    @property
    def exit_code(self) -> int:
        """The exit code of the command line: 0 unless the answer is a bad one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """For whom a use case runs, and what it may use.

    Attributes:
        catalog: the databases that the caller sees.
        settings: the limits.
        start: starts a query of the caller.
        asked: what all queries of the caller have: the user, the client, limits.
        warn: told of what the caller should know beside the outcome.
        note: told the first lines of the outcome, each as soon as it is known.
        scan: reads a whole table in this process; None if the tables are read by queries of the caller, which have limits.
    """

    catalog: Catalog
    settings: Settings
    start: Callable[[QueryRequest], Query]
    asked: QueryRequest = field(default_factory=lambda: QueryRequest(sql=""))
    warn: Callable[[str], None] = lambda _: None
    note: Callable[[str], None] = lambda _: None
    scan: Callable[[Database, str], pa.Table] | None = None

    def database(self, name: str | None) -> Database:
        """Return the database of a name or alias; without a name the only one, or the newest.

        Raises:
            CatalogError: there is no such database.
            DatabaseNotFoundError: there is none at all.
        """
        if name is not None:
            return self.catalog.database(name)
        found = self.catalog.newest
        if found is None:
            raise DatabaseNotFoundError("expected a savepoint that can be read, found none")
        count = len(self.catalog.databases)
        if count > 1:
            self.warn(f"the newest of {count} is used: {found.path}")
        return found

    def table(self, database: Database, name: str) -> pa.Table:
        """Return all rows of a table.

        Raises:
            QueryError: it takes more than the caller may take.
            ReaderError: it cannot be read.
        """
        if self.scan is not None:
            return self.scan(database, name)
        return self.query(f"SELECT * FROM {quoted(database.name)}.{quoted(name)}")

    def query(self, sql: str, **limits: Any) -> pa.Table:
        """Return all rows of a statement, with the grants and limits of the caller.

        Raises:
            QueryError: it means nothing, is not allowed, or fails.
        """
        with self.start(replace(self.asked, sql=sql, **limits)) as query:
            return pa.Table.from_batches(list(query.batches()), query.schema)


def scanned(database: Database, name: str) -> pa.Table:
    """Return all rows of a table, read in this process: no engine is loaded for it."""
    scan = database.table(name).scan()
    batches = read_splits(scan, machine.cores(), lambda: None)
    return pa.Table.from_batches(list(batches), scan.schema)


Asked = TypeVar("Asked", bound=TaskRequest)
Found = TypeVar("Found", bound=Outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Generic[Asked, Found]):
    """A use case; its name and its doors stand in `service.tasks.registry`.

    Attributes:
        request: the class of its requests.
        run: answers one.
        is_judged: True if exit code 1 is an answer: an error then ends the command with 2.
    """

    request: type[Asked]
    run: Callable[[Asked, Context], Found]
    is_judged: bool = False
