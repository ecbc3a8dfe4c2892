"""A use case: what it is asked, what it finds, and what runs it. Doors turn their input into a request, and an outcome into their output.

A request is a frozen dataclass, whose fields carry their help, their choices and their limits. Every door derives its own form from it:
the command line its arguments, HTTP and agents their schemas, the reference its tables. The signatures of `savepointdb` are written out
for type checkers, and a test compares them.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import pyarrow as pa

from catalog import Catalog, Database, Job
from readers import StorageOptions
from service.base import machine
from service.base.errors import DatabaseNotFoundError, InvalidRequestError
from service.base.settings import Settings
from service.query.engines.parallel import read_splits

if TYPE_CHECKING:
    from doctor import Against
    from service.query.encode.formats import Column
    from service.query.engines.engine import Engine
    from service.query.running.request import QueryRequest
    from service.query.running.run import Run


_ABOUT, _KNOWN = "about", "_options"
_LONGEST = 1_000
LONGEST_TEXT = 1_000_000  # of a statement; settings limit it further
LONGEST_PATH = 4_096
_MOST_DATABASES = 32
_JOBS_LISTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One field of a request.

    Attributes:
        name: of the field.
        kind: `str`, `int`, `float` or `bool`.
        default: its value if it is not given; MISSING if it must be.
        help: a phrase for people.
        is_list: True for any number of values.
        is_mapping: True for any number of values by names.
        metavar: what stands for the value in a usage text.
        choices: the values that it may have; empty for any.
        at_least: the least number; None for any.
        longest: characters of the longest text.
        argument: True if the command line takes it by its place.
        flag: its name on the command line, if that is another one.
        reads_input: True if the command line reads it from standard input for `-`.
        file: the option of the command line that names a file with the value in its place; None for none.
        has_commas: True if the command line takes several values with commas between them.
        only_cli: True if no other door has it.
        named: a phrase for clients that know databases by their names, in place of `help`.
        old_name: another name of it over HTTP.
    """

    name: str
    kind: type
    default: Any
    help: str
    is_list: bool = False
    is_mapping: bool = False
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    at_least: float | None = None
    longest: int = _LONGEST
    argument: bool = False
    flag: str | None = None
    reads_input: bool = False
    file: str | None = None
    has_commas: bool = False
    only_cli: bool = False
    named: str = ""
    old_name: str | None = None

    @property
    def is_required(self) -> bool:
        """True if a request without it means nothing."""
        return self.default is MISSING

    def check(self, value: Any) -> None:
        """Check one value.

        Raises:
            InvalidRequestError: it is none of the choices, too small, or too long.
        """
        several = value.values() if self.is_mapping else value if self.is_list else (value,)
        for one in several:
            if one is None and self.default is None:
                continue
            if not _is_of(one, self.kind):
                raise self._error(f"{_KINDS[self.kind]}", one)
            if self.choices and one not in self.choices:
                raise self._error(f"one of {', '.join(self.choices)}", one)
            if self.at_least is not None and not one >= self.at_least:
                raise self._error(f"{self.at_least:g} or more", one)
            if isinstance(one, str) and len(one) > self.longest:
                raise InvalidRequestError(
                    f"{self.name}: expected at most {self.longest} characters, found {len(one)}"
                )

    def _error(self, expected: str, found: object) -> InvalidRequestError:
        return InvalidRequestError(f"{self.name}: expected {expected}, found {found!r:.100}")


def option(help: str, *, default: Any = MISSING, **about: Any) -> Any:
    """Return a field of a request.

    Args:
        help: a phrase for people.
        default: its value if it is not given.
        **about: attributes of its `Option`.
    """
    metadata = {_ABOUT: {"help": help, **about}}
    # Each request has a mapping of its own.
    if default == {}:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def file_option(help: str, **about: Any) -> Any:
    """Declare a field of a request that is the path of a file, and may be left out; `about` is as that of `option`."""
    return option(help, **{"default": None, "metavar": "FILE", "longest": LONGEST_PATH, **about})


class TaskRequest:
    """A request of a use case. Its classes are frozen dataclasses, all of whose fields are options."""

    def __post_init__(self) -> None:
        for one in options_of(type(self)):
            one.check(getattr(self, one.name))


def options_of(request: type[TaskRequest]) -> tuple[Option, ...]:
    """Return the options of a class of requests, in order."""
    known: tuple[Option, ...] | None = request.__dict__.get(_KNOWN)
    if known is None:
        hints = typing.get_type_hints(request)
        known = tuple(_option(one, hints[one.name]) for one in fields(request))  # type: ignore[arg-type]  # dataclasses
        setattr(request, _KNOWN, known)
    return known


def _option(one: Field[Any], hint: Any) -> Option:
    origin = typing.get_origin(hint)
    is_list, is_mapping = origin is tuple, origin is Mapping
    kinds = typing.get_args(hint) if origin is not None else (hint,)
    known = [kind for kind in kinds if kind not in (type(None), ...)]
    default = {} if is_mapping else one.default
    return Option(
        name=one.name,
        kind=known[-1],
        default=default,
        is_list=is_list,
        is_mapping=is_mapping,
        **one.metadata[_ABOUT],
    )


def _is_of(value: object, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


_KINDS = {str: "a text", int: "an integer", float: "a number", bool: "true or false"}


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


def storage_options(settings: Settings) -> StorageOptions:
    """Return how the readers reach files."""
    return StorageOptions(
        allow_http=settings.storage.allow_http,
        cache_directory=settings.storage.file_cache_directory,
        cache_bytes=settings.storage.file_cache_bytes,
    )


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
        return storage_options(self.settings)

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
        from service.query.sql.text import quoted

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
        invalid: the request makes no sense; None for `failed`.
        unexpected: an error that no command expects; None to raise it.
        answers: what outcomes end with that are no failures.
    """

    failed: int = 1
    wrong_usage: int = 2
    unreadable: int = 3
    invalid: int | None = None
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
        asks_flink: True if it asks clusters of Flink, and runs no SQL: the command line takes their settings.
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
    asks_flink: bool = False
