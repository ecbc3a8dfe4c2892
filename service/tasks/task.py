"""A use case: what it is asked, what it finds, and what runs it.

Doors turn their input into a request, and an outcome into their output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import pyarrow as pa

from catalog import Catalog, Database
from readers import StorageOptions
from service.base.errors import DatabaseNotFoundError, InvalidRequestError
from service.base.process import machine
from service.base.settings import Settings
from service.query.engines.parallel import read_splits
from service.tasks.request import TaskRequest

if TYPE_CHECKING:
    from doctor import Against
    from service.query.engines.engine import Engine
    from service.query.running.request import QueryRequest
    from service.query.running.run import Run
    from service.query.sql.types import Column

_MOST_DATABASES = 32


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
        request: returns what all queries of the caller have: the user, the client, limits.
        is_alone: True if nobody else uses the process: tables may be scanned without a query, its limits and what it loads.
        warn: told of what the caller should know beside the outcome.
        note: told the first lines of the outcome, each as soon as it is known.
        progress: given what returns a line that says how far the use case is.
        worker: returns the engine of a name that makes and writes data, given about how many bytes it reads; None for this process.
        against: returns what files of the caller say of a new job.
    """

    catalog: Catalog
    settings: Settings
    start: Callable[[QueryRequest], Run]
    request: Callable[[], QueryRequest] | None = None
    is_alone: bool = False
    warn: Callable[[str], None] = lambda _: None
    note: Callable[[str], None] = lambda _: None
    progress: Callable[[Callable[[], str]], None] = lambda _: None
    worker: Callable[[str, int], Engine | None] = lambda name, size_bytes: None
    against: Callable[[Sequence[str]], tuple[Against, ...]] = lambda _: ()

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

    def only_database(self, name: str | None, what: str) -> Database:
        """Return the database of a name or alias; without a name the only one.

        Args:
            name: the name.
            what: what is done with it, such as `to write from`.

        Raises:
            CatalogError: there is no such database.
            InvalidRequestError: there are several.
        """
        found = self.catalog.default if name is None else self.catalog.database(name)
        if found is None:
            count = len(self.catalog.databases)
            raise InvalidRequestError(
                f"expected one savepoint {what}, found {count}", hint="name its own directory"
            )
        return found

    @property
    def storage(self) -> StorageOptions:
        """How files are reached."""
        found = self.settings.storage
        return StorageOptions(
            allow_http=found.allow_http,
            cache_directory=found.file_cache_directory,
            cache_bytes=found.file_cache_bytes,
        )

    def databases(self, name: str | None) -> Sequence[Database]:
        """Return the database of a name or alias; without a name all.

        Where others use the process, too, at most 32: the newest of each job, and then the others.

        Raises:
            CatalogError: there is no such database.
        """
        if name is not None:
            return [self.catalog.database(name)]
        found = [self.catalog.database(one) for one in self.catalog.databases]
        if self.is_alone or len(found) <= _MOST_DATABASES:
            return found
        newest = [next((one for one in job.databases if one.readable), None) for job in self.catalog.jobs()]
        first = {one.name for one in newest if one is not None}
        chosen = sorted(found, key=lambda one: one.name not in first)[:_MOST_DATABASES]
        names = {one.name for one in chosen}
        return [one for one in found if one.name in names]

    @property
    def asked(self) -> QueryRequest:
        """What all queries of the caller have."""
        if self.request is not None:
            return self.request()
        # A command that scans loads no SQL.
        from service.query.running.request import QueryRequest

        return QueryRequest(sql="")

    def table(self, database: Database, name: str) -> pa.Table:
        """Return all rows of a table.

        Raises:
            ReaderError, QueryError: it cannot be read, or takes longer than it may.
        """
        if self.is_alone:
            scan = database.table(name).scan()
            return pa.Table.from_batches(list(read_splits(scan, machine.cores(), lambda: None)), scan.schema)
        from service.query.sql.edits import quoted

        return self.query(f"SELECT * FROM {quoted(database.name)}.{quoted(name)}")

    def query(self, sql: str, **limits: Any) -> pa.Table:
        """Return all rows of a statement, with the grants and limits of the caller.

        Raises:
            QueryError: it means nothing, is not allowed, or fails.
        """
        with self.start(replace(self.asked, sql=sql, **limits)) as query:
            return pa.Table.from_batches(list(query.batches()), query.schema)


Asked = TypeVar("Asked", bound=TaskRequest)
Found = TypeVar("Found", bound=Outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Generic[Asked, Found]):
    """A use case; its name and its doors stand in `service.tasks.registry`.

    Attributes:
        request: the class of its requests.
        run: answers one.
        columns: those of the outcome's `rows`, a table that the command line writes in any format of rows; empty for an outcome of lines.
        listed: the list of `to_dict` that the command line writes as JSON; None for all of it.
        is_judged: True if exit code 1 is an answer: an error then ends the command with 2.
        has_source: False if it is about no savepoint: the command line takes no PATH.
        makes: True if it makes something at a place that its request names; the command line shows what, as text or with `--json`.
        reads_others: True if the command line takes more savepoints that SQL may name.
    """

    request: type[Asked]
    run: Callable[[Asked, Context], Found]
    columns: Sequence[Column] = ()
    listed: str | None = None
    is_judged: bool = False
    has_source: bool = True
    makes: bool = False
    reads_others: bool = False
