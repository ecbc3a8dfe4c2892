"""A script and a source savepoint → a preview, or a new savepoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from catalog import Catalog, Database
from readers import ReaderError, Savepoint
from service.base.errors import (
    ConflictError,
    EngineUnavailableError,
    InvalidRequestError,
    NothingChangesError,
)
from service.base.process import machine
from service.base.settings import Settings
from service.query.engines.engine import Engine, task_folder
from service.query.engines.registry import AUTO, HERE
from service.query.running.request import QueryRequest
from service.query.running.session import Session
from service.query.sql.resolver import SystemTables
from service.tasks.check.written import WrittenCheck, checked
from service.tasks.write.draft import Draft, DraftSettings
from service.tasks.write.errors import write_error_of
from service.tasks.write.family import ALLOW_EMPTY, Effect
from service.tasks.write.localfiles import local_file, no_file
from service.tasks.write.offsets import OffsetChange, OffsetChanges
from service.tasks.write.statements.parser import Statement
from service.tasks.write.statements.script import statements_of
from writers import Edit, FilesMode, ForFlink, SavepointWriter, Summary, WriterError, write_empty_savepoint


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """What a client asks to be written.

    Attributes:
        sql: the script.
        files: how the files of the source come along.
        flink: the version of Flink that will restore it, as `1.20`; None for the source's.
        expected: table → how many of its rows must change, or nothing is written.
        database: the name of the source where the catalog has several savepoints.
        reads_files: whether FROM may name files of this machine: only where the client may read them all.
        parallelism, max_parallelism: of operators that are created, whose statements do not say it.
        engine: what makes the state that changes: one of `work_choices`.
        allow_empty: whether statements, or the script, may find nothing to change; otherwise nothing is written then.
    """

    sql: str
    files: FilesMode = FilesMode.LINK
    flink: str | None = None
    expected: Mapping[str, int] = field(default_factory=dict)
    database: str | None = None
    reads_files: bool = False
    parallelism: int = 1
    max_parallelism: int = 128
    engine: str = HERE
    allow_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a write does, or did.

    Attributes:
        effects: of each statement.
        offsets: the rows of `source_offsets` that change.
        summary: the new savepoint in numbers.
        engine: what made the state that changed; empty for this process.
        check: what a restore does with the new savepoint; None if nothing was written.
    """

    effects: tuple[Effect, ...]
    offsets: tuple[OffsetChange, ...]
    summary: Summary
    engine: str = ""
    check: WrittenCheck | None = None


class Writing:
    """One script over one savepoint, ready to be written; nothing was written yet. Close it.

    Args:
        catalog: has the savepoint, and the others that a SELECT may name.
        queries: run the SELECT of each statement, over the catalog.
        settings: limits.
        request: what to write.
        on_statement: hears how many statements have run, and how many there are.

    Raises:
        QueryError: the script means nothing, or is refused.
    """

    def __init__(
        self,
        catalog: Catalog,
        queries: Session,
        settings: Settings,
        request: WriteRequest,
        on_statement: Callable[[int, int], None] = lambda done, count: None,
    ) -> None:
        self._closing = ExitStack()
        self._queries = queries
        self._asked_engine = request.engine
        # An unknown name is refused before a statement runs.
        queries.worker(request.engine, 0)
        self._engine = ""
        directory = self._closing.enter_context(task_folder(settings.storage.temp_directory))
        self._directory = Path(directory.path)
        try:
            statements = statements_of(request.sql, settings.queries.max_sql_bytes)
            self._prepare(_source(catalog, request), statements, request, on_statement)
        except BaseException:
            self.close()
            raise

    def _prepare(
        self,
        database: Database,
        statements: Sequence[Statement],
        request: WriteRequest,
        on_statement: Callable[[int, int], None],
    ) -> None:
        self._database = database
        self._flink = request.flink
        self._check: WrittenCheck | None = None
        draft_settings = DraftSettings(
            folder=self._directory,
            files=local_file if request.reads_files else no_file,
            parallelism=request.parallelism,
            max_parallelism=request.max_parallelism,
            allow_empty=request.allow_empty,
            counted=frozenset(map(str.casefold, request.expected)),
        )
        self._draft = self._closing.enter_context(closing(Draft(database, self._run, draft_settings)))
        try:
            for number, statement in enumerate(statements):
                on_statement(number, len(statements))
                self._draft.apply(statement)
            on_statement(len(statements), len(statements))
            self._check_expected(request.expected)
            self._check_changes(request)
            self._warnings = tuple(map(str, self._draft.warnings))
            edits: tuple[Edit, ...] = self._draft.edits
            if request.flink is not None:
                edits = (*edits, ForFlink(_release(request.flink)))
            self._writer = SavepointWriter(
                database.savepoint.location,
                edits,
                request.files,
                threads=machine.cores(),
            )
        except (ReaderError, WriterError) as error:
            raise write_error_of(error) from error

    def close(self) -> None:
        """Remove what is kept on disk until it is written."""
        self._closing.close()

    @contextmanager
    def _run(self, sql: str, tables: SystemTables) -> Iterator[pa.RecordBatchReader]:
        asked = QueryRequest(sql=sql, system_tables=tables, schema=self._database.name)
        with self._queries.start(asked) as query:
            yield pa.RecordBatchReader.from_batches(query.schema, query.batches())

    @property
    def preview(self) -> Preview:
        """The effects of the script, and the new savepoint in numbers.

        Raises:
            QueryError: a value cannot be stored, or a file of the source is damaged.
        """
        try:
            summary = self._writer.summary
        except (ReaderError, WriterError) as error:
            raise write_error_of(error) from error
        return Preview(
            effects=self._draft.effects,
            offsets=self._draft.family(OffsetChanges).changes,
            summary=replace(summary, warnings=(*self._warnings, *summary.warnings)),
            engine=self._engine,
            check=self._check,
        )

    def write(self, target: str | os.PathLike[str]) -> Preview:
        """Write the new savepoint, and read it back before Flink can find it.

        Raises:
            QueryError: something is there, it cannot be written, or a file of the source vanished.
        """
        worker = self._queries.worker(self._asked_engine, self._writer.made_bytes)
        try:
            self._write(target, worker)
        except (ReaderError, WriterError) as error:
            raise write_error_of(error) from error
        return self.preview

    def _write(self, target: str | os.PathLike[str], worker: Engine | None) -> None:
        if worker is not None:
            try:
                self._writer.write(target, self._verify, partial(self._work, worker))
            except EngineUnavailableError:
                # As a query whose request names no engine: this machine does it, from the start.
                if self._asked_engine != AUTO:
                    raise
                self._engine = ""
            else:
                return
        self._writer.write(target, self._verify)

    def _verify(self, new: Savepoint) -> None:
        self._draft.verify(new)
        self._check = checked(new, self._draft.against, self._flink)

    def _work(self, worker: Engine, parcels: Sequence[bytes]) -> list[bytes]:
        self._engine = worker.name
        return worker.work(parcels, self._database.reference.elsewhere())

    def _check_changes(self, request: WriteRequest) -> None:
        if not request.allow_empty and request.flink is None and self._draft.changes_nothing:
            raise NothingChangesError(
                "the script changes nothing: the savepoint has all of its values already", hint=ALLOW_EMPTY
            )

    def _check_expected(self, expected: Mapping[str, int]) -> None:
        for table, rows in expected.items():
            found = sum(
                effect.rows for effect in self._draft.effects if effect.table.casefold() == table.casefold()
            )
            if found != rows:
                raise ConflictError(
                    f"expected {rows} rows of {table} to change, found {found}; nothing was written"
                )


def _source(catalog: Catalog, request: WriteRequest) -> Database:
    """Return the savepoint to write from."""
    if request.database is not None:
        return catalog.database(request.database)
    database = catalog.default
    if database is None:
        raise InvalidRequestError(
            f"expected one savepoint to write from, found {len(catalog.databases)}",
            hint="name its own directory",
        )
    return database


def files_mode(text: str) -> FilesMode:
    """Return how files come along, by its name.

    Raises:
        InvalidRequestError: there is no such way.
    """
    try:
        return FilesMode(text)
    except ValueError as error:
        known = ", ".join(mode.value for mode in FilesMode)
        raise InvalidRequestError(f"expected files to be one of {known}, found {text!r:.100}") from error


def write_new_source(folder: Path, flink: str | None) -> None:
    """Write what a new savepoint is made from: one without operators, to which a script adds some.

    Args:
        folder: an empty one.
        flink: as in `WriteRequest`.

    Raises:
        QueryError: it is no version of Flink, or none that reads what is written.
    """
    try:
        write_empty_savepoint(folder, None if flink is None else _release(flink))
    except WriterError as error:
        raise write_error_of(error) from error


def _release(flink: str) -> tuple[int, int]:
    """Return the major and minor number of a version of Flink.

    Raises:
        InvalidRequestError: it is none.
    """
    major, _, rest = flink.partition(".")
    minor = rest.partition(".")[0]
    if not (major.isdecimal() and minor.isdecimal()):
        raise InvalidRequestError(f"expected a version of Flink such as 1.20 or 2.3, found {flink!r}")
    return int(major), int(minor)
