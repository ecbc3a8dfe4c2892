"""A use case: what it is asked, what it finds, and what runs it.

Doors turn their input into a request, and an outcome into their output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import pyarrow as pa

from catalog import Catalog, Database, Job
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
_JOBS_LISTED = 20


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

    def job(self, name: str | None) -> Job:
        """Return the job of a name; without a name the only one.

        Raises:
            CatalogError: there is no such job, or several have this title.
            InvalidRequestError: there are several jobs, and none is named.
        """
        if name is not None:
            return self.catalog.job(name)
        jobs = self.catalog.jobs()
        if len(jobs) != 1:
            listed = ", ".join(f"{job.name} ({len(job.databases)})" for job in jobs[:_JOBS_LISTED])
            more = f" and {len(jobs) - _JOBS_LISTED} more" if len(jobs) > _JOBS_LISTED else ""
            raise InvalidRequestError(
                f"job: expected one, found {len(jobs)}", hint=f"name one of them: {listed}{more}"
            )
        return jobs[0]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStream:
    """Rows of an outcome that may be too many to be held.

    Attributes:
        columns: names and SQL types.
        schema: of the batches.
        batches: the rows; read once.
    """

    columns: Sequence[Column]
    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exits:
    """How a command ends.

    Attributes:
        failed: a query failed, or the output cannot be written.
        wrong_usage: the command line is wrong.
        unreadable: a savepoint cannot be read.
        unexpected: an error that no command expects; None to raise it.
        answers: what outcomes end with that are no failures.
    """

    failed: int = 1
    wrong_usage: int = 2
    unreadable: int = 3
    unexpected: int | None = None
    answers: frozenset[int] = frozenset({0})


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A format of an outcome beside text and JSON.

    Attributes:
        suffixes: of files in this format.
        text: returns an outcome in it.
    """

    suffixes: tuple[str, ...]
    text: Callable[[Any], str]


# Of use cases for which 1 is an answer.
JUDGED = Exits(failed=2, answers=frozenset({0, 1}))
Asked = TypeVar("Asked", bound=TaskRequest)
Found = TypeVar("Found", bound=Outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Generic[Asked, Found]):
    """A use case; its name and its doors stand in `service.tasks.registry`.

    Attributes:
        request: the class of its requests.
        run: answers one.
        has_rows: True if the outcome has `rows`, which the command line writes in any format of rows.
        table: the property with the rows that people get in place of its lines, and JSON its rows; empty for its lines, and all of it.
        json_columns: columns of the rows that have JSON as text.
        documents: format → more formats of the command line.
        listed: the list of `to_dict` that the command line writes as JSON; None for all of it.
        exits: how its command ends.
        is_query: True if one query answers it, whose id HTTP tells.
        is_apart: True if a service runs it in a process of its own.
        has_source: False if it is about no savepoint: the command line takes no PATH.
        makes: True if it makes something at a place that its request names; the command line shows what, as text or with `--json`.
        reads_others: True if the command line takes more savepoints that SQL may name.
    """

    request: type[Asked]
    run: Callable[[Asked, Context], Found]
    has_rows: bool = False
    table: str = ""
    json_columns: frozenset[str] = frozenset()
    documents: Mapping[str, Document] = field(default_factory=dict)
    listed: str | None = None
    exits: Exits = Exits()
    is_query: bool = False
    is_apart: bool = False
    has_source: bool = True
    makes: bool = False
    reads_others: bool = False
