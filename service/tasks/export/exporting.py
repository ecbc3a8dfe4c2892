"""`export`: savepoints → folders of Parquet files, or tables of Iceberg or Delta, and the manifest of what was written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import pyarrow as pa

from catalog import Database, Job
from readers import absolute, load_machine
from service.base.errors import ConflictError, InvalidRequestError
from service.base.process import machine
from service.query.encode import counted, printable, size_text
from service.query.engines.registry import local_engine
from service.query.sql.plan import unread_files
from service.tasks.export.delta import DeltaTables
from service.tasks.export.destinations import destination_of
from service.tasks.export.files.conversion import DELTA, ICEBERG, Conversion, TypeRules, UnexportableTypeError
from service.tasks.export.files.destinations import HIDDEN, Destination
from service.tasks.export.files.parts import PartWriter
from service.tasks.export.iceberg import IcebergTables
from service.tasks.export.layouts import Layout, ParquetFolders
from service.tasks.export.ledger import Ledger
from service.tasks.export.manifest import ExportedSavepoint, ExportedTable, columns_of, rows_of
from service.tasks.export.request import ExportRequest
from service.tasks.export.running import Executors, TableJob, Threads, Workers
from service.tasks.export.selection import ChosenTable, Selection, folder_name, selection_of
from service.tasks.task import Context, Task
from service.tasks.write.errors import write_errors

_HASHED_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSource:
    """A savepoint to export.

    Attributes:
        database: the savepoint.
        namespace: of its tables; empty where the format has none.
    """

    database: Database
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What an export did.

    Attributes:
        target: where it is, as the request says, without the options of a URL.
        savepoints: those that were exported now.
        known: names of those that were there already.
        notes: what a person should know, a line each.
    """

    target: str
    savepoints: tuple[ExportedSavepoint, ...]
    known: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0: what was left out is in the notes."""
        return 0

    def to_dict(self) -> dict[str, Any]:
        """Return everything."""
        return {
            "target": self.target,
            "known": list(self.known),
            "notes": list(self.notes),
            "savepoints": [savepoint.to_dict() for savepoint in self.savepoints],
        }

    @property
    def title(self) -> str:
        """Where it is."""
        return f"exported: {printable(self.target)}"

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Yield a line for each savepoint, and where it is."""
        yield from (printable(f"{name} is there already") for name in self.known)
        yield from (printable(_line(savepoint)) for savepoint in self.savepoints)
        yield self.title


def run(request: ExportRequest, context: Context) -> Exported:
    """Export; what was finished before an error, or Ctrl-C, stays, and another run goes on from there.

    Raises:
        QueryError: something else is at the destination, it cannot be written to, or a value fits no type of the format.
        CatalogError: there is no such database or table.
        ReaderError: a savepoint cannot be read.
    """
    sources = _sources(request, context)
    count = len(context.catalog.databases)
    if not request.has_history and request.database is None and count > 1:
        context.warn(
            f"{sources[0].database.name} is exported, the newest of {count}: parquet has one savepoint, iceberg and delta keep all of "
            "a job"
        )
    load_machine()
    export = Export(request, context, sources)
    context.progress(export.progress)
    done = export.run()
    for note in done.notes:
        context.warn(note)
    return done


def _sources(request: ExportRequest, context: Context) -> list[ExportSource]:
    """Return the savepoints that are exported: one, or the newest, or all of each job, the oldest first.

    Raises:
        CatalogError: there is no such database.
        InvalidRequestError: several jobs would have one namespace.
    """
    catalog, name = context.catalog, request.database
    one = None if name is None else catalog.database(name)
    if not request.has_history:
        newest = one or catalog.newest
        return [] if newest is None else [ExportSource(database=newest)]
    jobs = catalog.jobs()
    if one is None and request.namespace and len(jobs) > 1:
        names = ", ".join(job.title for job in jobs)
        raise InvalidRequestError(f"expected a namespace only for one job, found {len(jobs)}: {names}")
    return [
        ExportSource(database=database, namespace=request.namespace or _namespace(job, jobs))
        for job in jobs
        for database in reversed(job.databases)
        if one is None or database == one
    ]


class Export:
    """An export, once.

    Args:
        request: the export.
        context: has the engine that does the work.
        sources: the savepoints, the oldest of a job first.
    """

    def __init__(self, request: ExportRequest, context: Context, sources: Sequence[ExportSource]) -> None:
        self._request, self._context = request, context
        self._sources = list(sources)
        self._scanned: list[TableJob] = []
        self._notes: list[str] = []
        self._known: list[str] = []
        self._done = 0
        self._started = monotonic()

    def run(self) -> Exported:
        """Export; the errors are those of the function `run`."""
        with write_errors():
            exported = list(self._run())
        return Exported(
            target=self._request.to.partition("?")[0],
            savepoints=tuple(exported),
            known=tuple(self._known),
            notes=tuple(self._notes),
        )

    def _run(self) -> Iterator[ExportedSavepoint]:
        request = self._request
        destination = destination_of(
            request.to, [source.database for source in self._sources], self._context.storage
        )
        rules = TypeRules(format=request.format, nanoseconds=request.nanoseconds)
        with destination.locked():
            ledger = Ledger(destination, request)
            layout = self._layout(destination, rules)
            for source in self._sources:
                savepoint = self._one(source, destination, ledger, layout)
                if savepoint is not None:
                    yield savepoint

    def progress(self) -> str:
        """Return how far it is, as a line."""
        read = sum(job.scan.bytes_read for job in list(self._scanned))
        done, took = counted(self._done, "table"), monotonic() - self._started
        return f"{done}, {size_text(read)} read, {took:,.0f} s"

    def _layout(self, destination: Destination, rules: TypeRules) -> Layout:
        request = self._request
        is_partitioned, is_complete = request.partition_by is not None, not request.tables
        if request.format == ICEBERG:
            return IcebergTables(
                destination, rules, request.catalog, is_partitioned=is_partitioned, is_complete=is_complete
            )
        if request.format == DELTA:
            return DeltaTables(destination, rules, is_partitioned=is_partitioned, is_complete=is_complete)
        return ParquetFolders(destination, rules)

    def _one(
        self, source: ExportSource, destination: Destination, ledger: Ledger, layout: Layout
    ) -> ExportedSavepoint | None:
        """Export a savepoint; return None if that was done before."""
        facts = _facts_of(source)
        if ledger.is_whole(facts):
            self._check_there(destination, ledger, facts)
            self._known.append(facts.database)
            return None
        self._check_alone(destination, ledger, facts)
        later = ledger.later_than(facts)
        if later is not None:
            self._notes.append(
                f"{facts.database} is left out: it is older than {later.database}, which is there, and a history goes on only forwards"
            )
            return None
        selection = selection_of(
            source.database,
            self._request.tables,
            allow_partial=self._request.allow_partial,
            # A table that only newer checkpoints have is wanted of these.
            may_lack=source is not self._sources[-1],
        )
        conversions = TableConversions(layout, facts, selection)
        finished = ledger.begin(facts)
        whole = conversions.still_whole(finished)
        jobs = self._jobs(destination, layout, facts, conversions, whole)
        workers = self._workers(source.database)
        with closing(workers.written(jobs)) as written:
            for job in written:
                table = self._finished(job, conversions)
                ledger.finish(table)
                whole[table.folder] = table
                self._done += 1
        ledger.commit()
        tables = layout.commit(
            facts, [whole[chosen.folder] for chosen in selection.tables], conversions.schemas
        )
        savepoint = replace(
            facts,
            exported_at=datetime.now(UTC).isoformat(timespec="seconds"),
            undecoded_states=tuple(state.to_dict() for state in selection.undecoded),
            incomplete=tuple(asdict(file) for file in unread_files(facts.database, selection.unread)),
            tables=tuple(tables),
        )
        ledger.publish(savepoint)
        self._note(savepoint, selection)
        return savepoint

    def _jobs(
        self,
        destination: Destination,
        layout: Layout,
        facts: ExportedSavepoint,
        conversions: TableConversions,
        whole: Mapping[str, ExportedTable],
    ) -> Iterator[TableJob]:
        for chosen in conversions.tables:
            if chosen.folder in whole:
                self._done += 1
                continue
            folder, prefix = layout.folder(facts, chosen.folder), layout.prefix(facts)
            for name in list(destination.names(folder)):
                # A run that was killed has left them.
                if name.rpartition("/")[2].removeprefix(HIDDEN).startswith(prefix):
                    destination.remove(name)
            conversion = conversions.of(chosen)
            is_partitioned = self._request.partition_by in conversion.schema.names
            writer = PartWriter(
                destination=destination,
                folder=folder,
                prefix=prefix,
                conversion=conversion,
                partition=layout.partition if is_partitioned else None,
            )
            scan = chosen.table.scan(allow_partial=self._request.allow_partial)
            job = TableJob(chosen=chosen, scan=scan, writer=writer)
            self._scanned.append(job)
            yield job

    def _finished(self, job: TableJob, conversions: TableConversions) -> ExportedTable:
        chosen, parts = job.chosen, job.parts
        files = tuple(file for part in parts for file in part.files)
        if not files and conversions.needs_files:
            files = (job.writer.write_empty(),)
        incomplete = unread_files(chosen.table.name, job.scan.incomplete)
        return ExportedTable(
            name=chosen.table.name,
            folder=chosen.folder,
            rows=rows_of(files),
            schema=columns_of(conversions.of(chosen).schema),
            files=files,
            decode_status=chosen.status,
            decode_note=chosen.note,
            undecoded_rows=sum(part.undecoded for part in parts),
            out_of_range_rows=sum(part.out_of_range for part in parts),
            incomplete=tuple(asdict(file) for file in incomplete),
        )

    def _workers(self, database: Database) -> Workers:
        """Return what reads and writes: this process, unless the request or the size of the savepoint says otherwise."""
        name = self._request.engine
        database.describe()
        engine = None if name == local_engine().name else self._context.worker(name, database.size_bytes or 0)
        if engine is None:
            return Threads(self._context.settings.duckdb.threads or machine.cores())
        return Executors(engine, database.reference)

    def _check_there(self, destination: Destination, ledger: Ledger, facts: ExportedSavepoint) -> None:
        """Refuse an export of which files are gone."""
        (known,) = (one for one in ledger.manifest.savepoints if one.is_same(facts))
        if self._request.options["tables"] != ledger.manifest.options.get("tables") and not known.namespace:
            raise ConflictError(
                f"{destination.url}: expected an export of the same tables, found one of others; export to another folder"
            )
        for table in known.tables:
            if not destination.has_all({file.path: file.bytes for file in table.files}):
                raise ConflictError(
                    f"{destination.url}: expected the files of table {table.name!r} as the manifest has them, found others; export to "
                    "another folder"
                )

    def _check_alone(self, destination: Destination, ledger: Ledger, facts: ExportedSavepoint) -> None:
        """Refuse a second savepoint where only one belongs."""
        if self._request.has_history or not ledger.manifest.savepoints:
            return
        other = ledger.manifest.savepoints[-1]
        raise ConflictError(
            f"{destination.url}: expected an empty folder, or an export of {facts.path}, found one of {other.path}",
            code="TARGET_EXISTS",
        )

    def _note(self, savepoint: ExportedSavepoint, selection: Selection) -> None:
        self._notes += [state.text() for state in selection.undecoded]
        for table in savepoint.tables:
            if table.undecoded_rows:
                self._notes.append(
                    f"{table.name}: of {table.undecoded_rows} of {table.rows} rows some bytes are not decoded: they are in _undecoded"
                )
            self._notes += [f"{table.name} lacks rows: {file['message']}" for file in table.incomplete]
        self._notes += [
            f"{savepoint.database} lacks rows: {file['message']}" for file in savepoint.incomplete
        ]


class TableConversions:
    """How the rows of the tables of a savepoint are converted.

    Args:
        layout: of the export.
        savepoint: the savepoint.
        selection: its tables.

    Raises:
        InvalidRequestError: the format has no type for a column.
    """

    def __init__(self, layout: Layout, savepoint: ExportedSavepoint, selection: Selection) -> None:
        self.tables = selection.tables
        self._layout = layout
        self._conversions = {}
        for chosen in selection.tables:
            try:
                self._conversions[chosen.folder] = layout.conversion(savepoint, chosen)
            except UnexportableTypeError as error:
                raise InvalidRequestError(f"table {chosen.table.name!r}: {error}") from error

    def of(self, chosen: ChosenTable) -> Conversion:
        """Return how rows of a table are converted."""
        return self._conversions[chosen.folder]

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """The schemas of the rows of all tables, by their folders."""
        return {folder: conversion.schema for folder, conversion in self._conversions.items()}

    @property
    def needs_files(self) -> bool:
        """True if a table without rows has a file all the same."""
        return self._layout.needs_files

    def still_whole(self, finished: Mapping[str, ExportedTable]) -> dict[str, ExportedTable]:
        """Return the tables that an earlier run has finished, of which all files are there and have the columns of now."""
        return {
            chosen.folder: table
            for chosen in self.tables
            for table in [finished.get(chosen.folder)]
            if table is not None
            and table.name == chosen.table.name
            and table.schema == columns_of(self.of(chosen).schema)
            and self._layout.is_there(table)
        }


def _facts_of(source: ExportSource) -> ExportedSavepoint:
    database = source.database
    created_at = database.created_at
    return ExportedSavepoint(
        database=database.name,
        path=absolute(database.path),
        identity=_identity_of(database),
        checkpoint_id=database.checkpoint_id,
        kind=database.kind,
        created_at=None if created_at is None else created_at.isoformat(),
        namespace=source.namespace,
    )


def _identity_of(database: Database) -> str:
    """Return SHA-256 of `_metadata`, which refers to all other files: no two savepoints have the same one."""
    digest = hashlib.sha256()
    with database.savepoint.location.open_metadata() as stream:
        for start in range(0, stream.size_bytes, _HASHED_BYTES):
            digest.update(stream.read(start, min(_HASHED_BYTES, stream.size_bytes - start)))
    return digest.hexdigest()


def _namespace(job: Job, jobs: Sequence[Job]) -> str:
    """Return the name of a job's tables: its title, unless other jobs have it, too."""
    title = folder_name(job.title)
    is_alone = sum(folder_name(other.title).casefold() == title.casefold() for other in jobs) == 1
    return title if is_alone else folder_name(job.name)


def _line(savepoint: ExportedSavepoint) -> str:
    files = [file for table in savepoint.tables for file in table.files]
    rows = sum(table.rows for table in savepoint.tables)
    size = size_text(sum(file.bytes for file in files))
    what = f"{counted(len(savepoint.tables), 'table')}, {counted(rows, 'row')}, {counted(len(files), 'file')}, {size}"
    where = f" in {savepoint.namespace}" if savepoint.namespace else ""
    return f"{savepoint.database}{where}: {what}"


TASK = Task(request=ExportRequest, run=run, makes=True)
