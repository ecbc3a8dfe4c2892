"""`connect` → `Connection`: savepoints, opened together, as one asks them.

`create` makes new ones, `diff` compares two, `check` says whether one restores.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from catalog import Database, NoSuchTableError, Root
from catalog.follow.steps import LATEST
from doctor import NEWEST_FLINK
from savepointdb.answer import Answer, Table
from savepointdb.errors import translated
from savepointdb.followed import Following
from savepointdb.processes import OpenSavepoints, Sources
from savepointdb.results import (
    CheckResult,
    ConvertResult,
    DiffResult,
    ExportResult,
    KeyHistory,
    SampleResult,
    WriteResult,
)
from savepointdb.values import CallerTables, database_lines, html_list
from service.base.errors import InvalidRequestError, QueryError
from service.base.settings import UNLIMITED, check_value, settings_of
from service.doors.cli.output import log_compilation
from service.doors.cli.sources import no_savepoint
from service.query.encode import counted, printable
from service.query.engines.registry import AUTO
from service.query.running.request import QueryRequest
from service.query.sql.schemas import PREVIOUS
from service.query.sql.text import DIALECT
from service.tasks.check.running import AUTO as AUTO_BACKEND
from service.tasks.copies.export.files.conversion import PARQUET
from service.tasks.follow.following import INTERVAL_S, FollowRequest
from service.tasks.registry import TASKS
from service.tasks.time.diff.running import DiffRequest, compared_of
from service.tasks.write.localfiles import LocalTables

_DATABASES_SHOWN = 20
# A person reads the answers, and stops the queries: none is too late, and none stalls.
_DEFAULTS: Mapping[str, float | int] = {**UNLIMITED, "stall_timeout_s": math.inf, "max_stalled": sys.maxsize}
# Whoever runs Python may read its files.
_READS_FILES: Mapping[str, Any] = {"system_tables": LocalTables()}

Path = str | os.PathLike[str]


def connect(
    path: Path | Mapping[str, Path],
    *,
    database: str | None = None,
    name: str | None = None,
    roots: Sequence[str] = (),
    path_map: Mapping[str, str] | None = None,
    uids: Sequence[str] = (),
    state_info: Path | None = None,
    jars: Sequence[Path] = (),
    config: Path | None = None,
    **settings: str | int | float | bool,
) -> Connection:
    """Open a savepoint, a checkpoint, or a folder with several, at any depth; local, `s3://`, `gs://`, `hdfs://`, `abfs://`.

    Args:
        path: where it is; or several, by name: `{"before": "…/chk-41", "after": "…/chk-42"}`.
        database: the database of tables without one, if not given, the newest, with a warning if there are several.
        name: the name of the database, or of a folder's label; if not given, that of its last folder.
        roots: more directories that savepoints may refer to.
        path_map: recorded path prefixes and the present ones.
        uids: uids of operators of which savepoints store only the ids.
        state_info: a `stateInfo` file in place of that beside the savepoint.
        jars: jars of the job, whose classes say how objects are laid out that the savepoint does not describe.
        config: a TOML file of settings.
        **settings: any setting of the program by its key, such as `threads=4`, `memory_limit="4GB"`, `cache="off"`,
            `allow_http=True`; they win over the environment (`SAVEPOINTDB_THREADS`), and that over the file.

    Raises:
        SavepointError: nothing is there, or no savepoint.
        DatabaseNotFoundError: there is no such database.
        InvalidRequestError: a setting is unknown or has a wrong value.
    """
    with translated():
        for key, value in settings.items():
            check_value("connect", key, value)
        given: dict[str, object] = dict(settings)
        if config is not None:
            given["config"] = os.fspath(config)
        paths = path if isinstance(path, Mapping) else {name or "": path}
        if not paths or not all(map(os.fspath, paths.values())):
            raise InvalidRequestError("expected a path, found none", hint="'.' is the current folder")
        sources = Sources(
            roots=tuple(Root(path=_expanded(one), label=label) for label, one in paths.items()),
            allowed_roots=tuple(roots),
            path_map=dict(path_map or {}),
            uids=tuple(uids),
            state_info=None if state_info is None else os.fspath(state_info),
            jars=tuple(os.fspath(jar) for jar in jars),
            settings=settings_of(given, os.environ, _DEFAULTS),
        )
        return _connection(sources, database)


def create(
    target: Path | None,
    script: str,
    *,
    savepoints: Mapping[str, Path] | None = None,
    flink: str | None = None,
    parallelism: int = 1,
    max_parallelism: int = 128,
    dry_run: bool = False,
    engine: str = AUTO,
) -> WriteResult:
    """Create a savepoint, whose states come from queries and files: `FROM 'counts.parquet'`.

    Args:
        target: the directory of the new savepoint, which must not exist; None is enough for a dry run.
        script: statements with semicolons between them: CREATE TABLE operator__state … AS SELECT ….
        savepoints: savepoints that the script may read, by name.
        flink: the version of Flink that will restore it, such as `"2.3"`; None for any.
        parallelism, max_parallelism: of the operators, unless their statements say it.
        dry_run: True to say what would be written, and write nothing.
        engine: as for `Connection.write`.

    Raises:
        InvalidQueryError: the script means nothing, or is refused.
        ConflictError: the target exists.
        SavepointError: a savepoint or file cannot be read.
        InvalidRequestError: there is no target, or an argument has a wrong value.
    """
    if not isinstance(script, str):
        raise TypeError(f"expected a script as str, found {type(script).__name__}")
    roots = tuple(Root(path=_expanded(one), label=label) for label, one in (savepoints or {}).items())
    sources = Sources(roots=roots, settings=settings_of({}, os.environ, _DEFAULTS))
    with translated():
        opened = Connection(OpenSavepoints(sources))
    with opened:
        return WriteResult(
            opened.run(
                "create",
                _READS_FILES,
                sql=script,
                target=_optional(target),
                flink=flink,
                parallelism=parallelism,
                max_parallelism=max_parallelism,
                dry_run=dry_run,
                engine=engine,
            )
        )


def diff(
    before: Path,
    after: Path | None = None,
    *,
    operator: str | None = None,
    timeout_s: float | None = None,
    **how: Any,  # as connect
) -> DiffResult:
    """Return what differs between two savepoints: states, types, rows, offsets, sizes.

    Args:
        before, after: savepoints or checkpoints, or folders with several, of which the newest are compared. Without `after`, the newest
            of `before` and the one before it in its job.
        operator: the only operator to compare: its uid, name or id; None for all.
        timeout_s: seconds that the summary, and each reading of rows, may take; None for no limit.
        **how: the other arguments of `connect`, such as `path_map`, `uids`, `allow_http`.

    Raises:
        SavepointError: a savepoint is not there, or cannot be read.
        InvalidRequestError: a setting is unknown or has a wrong value.
    """
    if after is None:
        return connect(before, **how).diff(operator=operator, timeout_s=timeout_s)
    found = []
    for path in (before, after):
        with connect(path, **how) as one, translated():
            found.append(one._default())
    labels = [one.name for one in found]
    # Two checkpoints of two jobs may have one name.
    if labels[0].casefold() == labels[1].casefold():
        labels = ["before", "after"]
    paths = {label: one.path for label, one in zip(labels, found, strict=True)}
    return connect(paths, **how).diff(*labels, operator=operator, timeout_s=timeout_s)


def check(
    path: Path,
    against: Path | Sequence[Path] | None = None,
    flink: str = NEWEST_FLINK,
    backend: str = AUTO_BACKEND,
    allow_non_restored: bool = False,
    values: str | None = None,
    **how: Any,  # as connect
) -> CheckResult:
    """Return what a restore of a savepoint will do, per operator and state.

    Reads `_metadata`, headers of state files, and the first values of states that these leave open, if `against` has a savepoint or jar.

    Args:
        path: a savepoint or checkpoint, or a folder with several, of which the newest is checked.
        against, flink, backend, allow_non_restored, values: as for `Connection.check`.
        **how: the other arguments of `connect`, such as `path_map`, `uids`, `allow_http`.

    Raises:
        SavepointError: the savepoint, or what it is compared with, cannot be read.
        InvalidRequestError: an unknown version of Flink, an unknown backend or setting.
    """
    with connect(path, **how) as connection:
        return connection.check(against, flink, backend, allow_non_restored, values)


def history(
    path: Path,
    key: str,
    *,
    job: str | None = None,
    operator: str | None = None,
    state: str | None = None,
    last: int | None = None,
    **how: Any,  # as connect
) -> KeyHistory:
    """Return what each state of a job has of a key in each of its checkpoints.

    Args:
        path: the folder of a job, or one with several jobs.
        key, job, operator, state, last: as for `Connection.history`.
        **how: the other arguments of `connect`, such as `path_map`, `uids`, `allow_http`.

    Raises:
        SavepointError: no checkpoint can be read.
        InvalidRequestError: there are several jobs, and none is named.
        JobNotFoundError: near names in the error.
    """
    with connect(path, **how) as connection:
        return connection.history(key, job=job, operator=operator, state=state, last=last)


class Connection:
    """Savepoints as a SQL database. Safe to share between threads; use it in `with`, or `close` it.

    Args:
        opened: the savepoints.
        database: the database of tables without one; None for the newest.
    """

    def __init__(self, opened: OpenSavepoints, database: str | None = None) -> None:
        self._opened = opened
        self._database = database

    @property
    def opened(self) -> OpenSavepoints:
        """The open savepoints, for the other modules of this package."""
        return self._opened

    def sql(
        self,
        statement: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        engine: str = AUTO,
        dialect: str = DIALECT,
        timeout_s: float | None = None,
        allow_partial: bool = False,
    ) -> Answer:
        """Return the answer to a statement: SELECT, EXPLAIN, DESCRIBE or SHOW. It runs when its rows are wanted.

        FROM may name files, `FROM 'counts.parquet'`, and data frames by the caller's variables, `FROM df`; a table of the
        savepoint hides a data frame of its name.

        Args:
            statement: one statement.
            parameters: values for its `?`, in order, or for its `$name`, by name: `db.sql("… WHERE key = ?", ["key_662"])`.
            engine: `auto`, `duckdb` or `spark`.
            dialect: `duckdb` or `trino`.
            timeout_s: seconds that each run may take; None for no limit.
            allow_partial: whether rows of files that cannot be read are left out; an `IncompleteWarning` names the files.

        Raises:
            TypeError: the statement is no text.
        """
        if not isinstance(statement, str):
            raise TypeError(f"expected a statement as str, found {type(statement).__name__}")
        request = QueryRequest(
            sql=statement,
            parameters=parameters,
            engine=engine,
            dialect=dialect,
            timeout_s=timeout_s,
            allow_partial=allow_partial,
            schema=self._database,
            source="savepointdb",
            system_tables=CallerTables.of(statement, sys._getframe(1)),
        )
        return Answer(self._opened, request)

    def write(
        self,
        target: Path | None,
        script: str,
        *,
        dry_run: bool = False,
        files: str = "link",
        flink: str | None = None,
        expect: Mapping[str, int] | None = None,
        engine: str = AUTO,
        parallelism: int = 1,
        max_parallelism: int = 128,
        allow_empty: bool = False,
    ) -> WriteResult:
        """Write a new savepoint: the database of this connection, changed by a script. The savepoint itself is only read.

        The script may read the other databases of the connection, and files: `FROM 'counts.parquet'`.

        Args:
            target: the directory of the new savepoint, or a URL; it must not exist yet. None is enough for a dry run.
            script: statements with semicolons between them: UPDATE, DELETE, INSERT, ALTER, DROP.
            dry_run: True to say what would be written, and write nothing.
            files: how files come along: `link` (copies where there are no links), `copy`, or `reference`.
            flink: the version of Flink that will restore it, such as `"1.20"`; None for the source's.
            expect: table → how many of its rows must change, or nothing is written.
            engine: what makes the state that changes: `local`, `spark`, or `auto` for Spark where a cluster is set and more changes
                than this machine should read.
            parallelism, max_parallelism: of operators that the script creates, unless their statements say it.
            allow_empty: True to write also where a statement, or the script, finds nothing to change.

        Raises:
            InvalidQueryError: the script means nothing, or is refused; `code` is REFUSED_WRITE where Flink would not restore it.
            ConflictError: the target exists, or another number of rows would change than `expect` says; `code` is NOTHING_CHANGES
                where a statement, or the script, finds nothing to change.
            SavepointError: the savepoint cannot be read.
            InvalidRequestError: there is no target, or an argument has a wrong value.
        """
        if not isinstance(script, str):
            raise TypeError(f"expected a script as str, found {type(script).__name__}")
        return WriteResult(
            self.run(
                "write",
                _READS_FILES,
                database=self._named(),
                sql=script,
                target=_optional(target),
                dry_run=dry_run,
                files=files,
                flink=flink,
                expect=dict(expect or {}),
                engine=engine,
                parallelism=parallelism,
                max_parallelism=max_parallelism,
                allow_empty=allow_empty,
            )
        )

    def check(
        self,
        against: Path | Sequence[Path] | None = None,
        flink: str = NEWEST_FLINK,
        backend: str = AUTO_BACKEND,
        allow_non_restored: bool = False,
        values: str | None = None,
    ) -> CheckResult:
        """Return what a restore of the database of this connection will do; see `savepointdb.check`.

        Args:
            against: the new job: the path of a savepoint of it, of its jar, of its plan or of a
                `stateInfo` file, or several of these; None, and only the version of Flink is checked.
            flink: the version of Flink that restores it, such as `"2.3"`.
            backend: the state backend that restores it: `hashmap`, `rocksdb`, `forst`; `both` of the first two, of which the worse one
                decides; or `auto`: both, but for the files of a native savepoint that which wrote them.
            allow_non_restored: True for a job that is started with `--allowNonRestoredState`.
            values: `sample` to read 10,000 stored values of each state and file, too, or `all` of them; None to read none.

        Raises:
            SavepointError: the savepoint, or what it is compared with, cannot be read.
            InvalidRequestError: an unknown version of Flink, or an unknown backend.
        """
        return CheckResult(
            self.run(
                "check",
                database=self._named(),
                against=_all_expanded(against),
                flink=flink,
                backend=backend,
                allow_non_restored=allow_non_restored,
                values=values,
            )
        )

    def diff(
        self,
        before: str = PREVIOUS,
        after: str | None = None,
        *,
        operator: str | None = None,
        timeout_s: float | None = None,
    ) -> DiffResult:
        """Return what differs between two databases of this connection.

        Args:
            before: a name of `databases`, or any other by which it goes; `previous` for the one before `after` in its job.
            after: as `before`; None for the database of this connection.
            operator: the only operator to compare: its uid, name or id; None for all.
            timeout_s: seconds that the summary, and each reading of rows, may take; None for no limit.

        Raises:
            DatabaseNotFoundError: near names in the error; or there is none before it.
            TableNotFoundError: neither has the operator.
        """
        with translated():
            request = DiffRequest(
                before=before, after=self._default().name if after is None else after, operator=operator
            )
            return DiffResult(self._opened, compared_of(request, self._opened.catalog), timeout_s)

    def history(
        self,
        key: str,
        *,
        job: str | None = None,
        operator: str | None = None,
        state: str | None = None,
        last: int | None = None,
    ) -> KeyHistory:
        """Return what each state of a job has of a key in each of its checkpoints.

        Args:
            key: a text, read as the keys of each state are.
            job: the name of the job; None for the only one.
            operator, state: names of the states that are asked; None for all.
            last: only so many checkpoints, the newest; None for all.

        Raises:
            SavepointError: no checkpoint can be read.
            InvalidRequestError: there are several jobs, and none is named, or no state of these names, or an argument has a wrong value.
            JobNotFoundError: near names in the error.
        """
        if not isinstance(key, str):
            raise TypeError(f"expected a key as str, found {type(key).__name__}")
        return KeyHistory(self.run("history", key=key, job=job, operator=operator, state=state, last=last))

    def follow(
        self, what: str, *, since: str | int = LATEST, interval_s: float = INTERVAL_S, **options: Any
    ) -> Following:
        """Return what each new checkpoint of a job changes, as it comes: for `for` and `async for`.

        Args:
            what: a table, or a SELECT that is run in each checkpoint.
            since: the number or `token` of the last checkpoint that you have, or `latest`, `earliest` or `snapshot`.
            interval_s: seconds between two looks at the folder.
            **options: `job`, `once`, `successors`, `engine`: as the command has them.

        Raises:
            QueryError: an argument has a wrong value; while it is read: there is no such job or table, or a query fails.
        """
        with translated():
            request = FollowRequest(what=what, since=str(since), **options)
            return Following(request, self._opened.context(), interval_s)

    def convert(
        self,
        target: Path | None,
        against: Path | Sequence[Path] | None = None,
        flink: str = NEWEST_FLINK,
        *,
        dry_run: bool = False,
        files: str = "link",
    ) -> ConvertResult:
        """Rewrite the database of this connection for another version of Flink or another job.

        States that cannot be converted stay as they are: `left` of the result says which, and why.

        Args:
            target: the directory of the new savepoint, or a URL; it must not exist yet. None is enough for a dry run.
            against: the new job: the path of a savepoint of it, or of its jar, or several of these. It says which types the states
                need; None, and lists, sets and maps of Kryo are left.
            flink: the version of Flink that will restore it, such as `"2.3"`.
            dry_run: True to say what would be written, and write nothing.
            files: how files of states that stay come along: `link` (copies where there are no links), `copy`, or `reference`.

        Raises:
            ConflictError: the target exists.
            SavepointError: the savepoint, or what it is compared with, cannot be read.
            InvalidRequestError: there is no target, or an argument has a wrong value.
        """
        return ConvertResult(
            self.run(
                "convert",
                database=self._named(),
                target=_optional(target),
                against=_all_expanded(against),
                flink=flink,
                dry_run=dry_run,
                files=files,
            )
        )

    def sample(self, target: Path | None, fraction: float | None = None, **options: Any) -> SampleResult:
        """Write a savepoint with some keys of the database of this connection: a key is in or out in every state.

        Args:
            target: the directory of the new savepoint, or a URL; it must not exist yet. None is enough for a dry run.
            fraction: the share of the keys that stay, above 0 and up to 1; None if `keys` or `where` says which.
            **options: `seed`, `keys`, `where`, …: as for `savepointdb.sample`.

        Raises:
            ConflictError: the target exists.
            SavepointError: the savepoint cannot be read.
            InvalidRequestError: no key stays, there is no target, or an argument has a wrong value.
        """
        given = {
            "target": _optional(target),
            "fraction": fraction,
            **options,
            "drop": tuple(options.get("drop", ())),
        }
        return SampleResult(self.run("sample", database=self._named(), **given))

    def export(self, to: Path, format: str = PARQUET, **options: Any) -> ExportResult:
        """Write tables as Parquet files, or all checkpoints as Iceberg or Delta tables; a further run continues.

        Args:
            to: a folder, or a URL: empty, or an export that goes on.
            format: `parquet`, of the database of this connection; `iceberg` or `delta`, with a snapshot or version for each checkpoint.
            **options: `tables`, `partition_by`, …: as for `savepointdb.export`.

        Raises:
            ConflictError: something else is there, or it is in a savepoint.
            SavepointError: a savepoint cannot be read.
            InvalidRequestError: an argument has a wrong value.
        """
        tables = tuple(options.pop("tables", ()))
        given = {"to": _expanded(to), "format": format, "tables": tables, **options}
        return ExportResult(self.run("export", database=self._database, **given))

    def run(self, task: str, about: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Return the outcome of a use case, for the other modules of this package.

        Args:
            task: its name.
            about: what all its queries have, as `QueryRequest` has it.
            **options: of its request.

        Raises:
            QueryError: as the use case says.
        """
        with translated():
            found = TASKS[task].load()
            request = found.request(**options)
            context = self._opened.context(**about or {})
            if found.makes:
                log_compilation()
                # What it would warn of is in the outcome.
                context = replace(context, warn=lambda _: None)
            return found.run(request, context)

    def _named(self) -> str:
        """Return the name of the database of tables without one."""
        with translated():
            return self._default().name

    @property
    def databases(self) -> list[str]:
        """The names of all databases, and `latest`, if there are several; each savepoint is one.

        Raises:
            QueryError: the connection is closed, or its folder cannot be listed any more.
        """
        with translated():
            return self._opened.catalog.schema_names

    def database(self, name: str = "latest") -> Connection:
        """Return the same connection with another database of tables without one.

        Args:
            name: a name of `databases`, or any other by which the database goes; or a history, for SQL.

        Raises:
            DatabaseNotFoundError: near names in the error.
        """
        with translated():
            self._opened.catalog.schema(name)
            return Connection(self._opened, name)

    @property
    def tables(self) -> list[str]:
        """The names of the tables; reads the headers of all state files.

        Raises:
            QueryError: the savepoint cannot be read.
        """
        with translated():
            return self._default().tables

    def table(self, name: str, *, database: str | None = None) -> Table:
        """Return a table by name, in any case; operators answer to uid, name and id.

        Args:
            name: of the table.
            database: of the table; None for the database of this connection.

        Raises:
            TableNotFoundError: near names in the error.
            QueryError: the savepoint cannot be read.
        """
        with translated():
            found = self._default() if database is None else self._opened.catalog.database(database)
            return Table(self._opened, found, found.table(name))

    def __getitem__(self, name: str) -> Table:
        return self.table(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        with translated():
            try:
                self._default().table(name)
            except NoSuchTableError:
                return False
            return True

    def _ipython_key_completions_(self) -> list[str]:
        return self.tables

    def close(self) -> None:
        """End all queries of the connection; its answers end with it."""
        self._opened.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        return _connection, (self._opened.sources, self._database)

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        title, *lines = self._lines()
        return html_list(title, lines)

    def _default(self) -> Database:
        """Return the database of tables without one: the chosen one, or the newest, as in SQL."""
        catalog = self._opened.catalog
        found = catalog.newest if self._database is None else catalog.database(self._database)
        if found is None:
            raise no_savepoint(self._opened.sources.paths)
        return found

    def _lines(self) -> list[str]:
        """Return what a session shows; what cannot be read says so."""
        try:
            with translated():
                catalog = self._opened.catalog
                one = catalog.default if self._database is None else catalog.database(self._database)
                if one is not None:
                    return list(database_lines(one))
                names = catalog.schema_names
        except QueryError as error:
            return [f"savepointdb: {printable(str(error))}"]
        title = f"savepointdb: {counted(len(catalog.databases), 'database')} in {printable(self._opened.sources.paths)}"
        return [title, *(f"  {printable(name)}" for name in names[-_DATABASES_SHOWN:])]


def _connection(sources: Sources, database: str | None) -> Connection:
    opened = OpenSavepoints(sources)
    if database is not None:
        opened.catalog.schema(database)
    return Connection(opened, database)


def _optional(path: Path | None) -> str | None:
    return None if path is None else _expanded(path)


def _expanded(path: Path) -> str:
    text = os.fspath(path)
    return os.path.expanduser(text) if text.startswith("~") else text


def _all_expanded(paths: Path | Sequence[Path] | None) -> tuple[str, ...]:
    return tuple(map(_expanded, (paths,) if isinstance(paths, str | os.PathLike) else paths or ()))
