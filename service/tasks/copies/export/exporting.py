"""`export`: savepoints → folders of Parquet files, or tables of Iceberg or Delta, and the manifest of what was written.

The destination, a path or URL, is never in a savepoint: those are only read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Any, NoReturn

import pyarrow as pa

from catalog import Database, Job
from catalog.scan import ANYTHING, Predicate
from readers import (
    KEY_GROUP,
    METADATA_FILE_NAME,
    Location,
    ReaderError,
    StorageOptions,
    ValueOutOfRangeError,
    absolute,
    given_location,
    load_machine,
)
from service.base import machine
from service.base.errors import ConflictError, InvalidRequestError, query_error_of
from service.query.encode import counted, printable, size_text
from service.query.engines.registry import local_engine
from service.query.sql.plan import unread_files
from service.tasks.copies.export.files.conversion import (
    DELTA,
    ICEBERG,
    Conversion,
    TypeRules,
    UnexportableTypeError,
)
from service.tasks.copies.export.files.destinations import HIDDEN, Destination, Folder, Prefix
from service.tasks.copies.export.files.parts import PartWriter
from service.tasks.copies.export.iceberg import IcebergTables
from service.tasks.copies.export.layouts import DeltaTables, Layout, ParquetFolders
from service.tasks.copies.export.manifest import ExportedSavepoint, ExportedTable, Ledger, columns_of
from service.tasks.copies.export.request import ExportRequest
from service.tasks.copies.export.running import Executors, TableJob, Threads, Workers
from service.tasks.copies.export.selection import ChosenTable, Selection, folder_name, selection_of
from service.tasks.copies.export.unchanged import Unchanged, unchanged
from service.tasks.follow.following import look_again
from service.tasks.task import Context, Task
from service.tasks.write.request import write_errors
from writers import store_of


def destination_of(text: str, databases: Iterable[Database], options: StorageOptions) -> Destination:
    """Return the destination that a path or URL names.

    Args:
        text: the path or URL, with options behind a `?`.
        databases: what is exported.
        options: credentials of other processes.

    Raises:
        ConflictError: it is a savepoint, or in one.
        TargetError: it cannot be written to.
        ReaderError: the options of the URL are wrong.
    """
    location, query = given_location(text)
    if location.scheme == "file":
        with suppress(OSError, RuntimeError):
            location = location._replace(path=os.path.realpath(location.path))
    for database in databases:
        own = database.savepoint.location
        if location.is_inside(own.exclusive_directory):
            raise _in_savepoint(location, own.exclusive_directory)
        query = query or own.query_of(location) or ""
    is_local = location.scheme == "file"
    store = None if is_local else store_of(location, query, options)
    above = location
    # It may be a savepoint, or in one, also of another job.
    while is_local or above.path != "/":
        name = f"{above.path.rstrip('/')}/{METADATA_FILE_NAME}"
        if os.path.lexists(name) if store is None else store.get(name.lstrip("/")) is not None:
            raise _in_savepoint(location, above)
        if above.path == "/":
            break
        above = above.parent
    return Folder(location.path) if is_local else Prefix(location, query, options)


def _in_savepoint(location: Location, savepoint: Location) -> ConflictError:
    return ConflictError(
        f"{location}: expected a destination outside of savepoints, found {savepoint}, which is one; savepoints are only read",
        code="TARGET_EXISTS",
    )


_HASHED_BYTES = 16 << 20


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

    exit_code = 0  # what was left out is in the notes

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


def run(request: ExportRequest, context: Context, *, wait: Callable[[float], object] = sleep) -> Exported:
    """Export; what was finished before an error, or Ctrl-C, stays, and another run goes on from there.

    Args:
        request: the export.
        context: the savepoints, and the engine that does the work.
        wait: waits for so many seconds, where new checkpoints are followed.

    Raises:
        QueryError: something else is at the destination, it cannot be written to, or a value fits no type of the format.
        CatalogError: there is no such database or table.
        ReaderError: a savepoint cannot be read.
    """
    if request.masks is not None:
        context = replace(context, catalog=context.catalog.visible(lambda _name: True, request.masks))
    sources = _sources(request, context)
    count = len(context.catalog.databases)
    if not request.has_history and request.database is None and count > 1:
        context.warn(
            f"{sources[0][0].name} is exported, the newest of {count}: parquet has one savepoint, iceberg and delta keep all of a job"
        )
    load_machine()
    with write_errors():
        destination = destination_of(request.to, [database for database, _ in sources], context.storage)
        with destination.locked(), closing(_Export(request, context, destination)) as export:
            context.progress(export.progress)
            if request.follow:
                _follow(request, context, export, wait)
            exported = [export.one(*source, is_last=source is sources[-1]) for source in sources]
    for note in export.notes:
        context.warn(note)
    return Exported(
        target=request.to.partition("?")[0],
        savepoints=tuple(one for one in exported if one is not None),
        known=tuple(export.known),
        notes=tuple(export.notes),
    )


def _follow(
    request: ExportRequest, context: Context, export: _Export, wait: Callable[[float], object]
) -> NoReturn:
    """Export each checkpoint as it comes. One that cannot be read is left out: that of the next one is the whole state all the same.

    Raises:
        QueryError, CatalogError: as for `run`.
    """
    done: set[tuple[str, int]] = set()
    failed: set[tuple[str, int]] = set()
    told = ""
    while True:
        sources = _sources(request, context)
        known = {(database.path, database.modified_ns) for database, _ in sources}
        done, failed = done & known, failed & known
        for database, namespace in sources:
            version = database.path, database.modified_ns
            if version in done:
                continue
            try:
                savepoint = export.one(database, namespace, is_last=database is sources[-1][0])
            except ValueOutOfRangeError:  # of the options, not of the savepoint
                raise
            except ReaderError as error:
                # Once it may have gone away; twice it is there and cannot be read.
                if version not in failed:
                    failed.add(version)
                    break
                context.warn(f"{database.name} is left out: {query_error_of(error).message}")
            else:
                if savepoint is not None:
                    context.note(printable(_line(savepoint)))
            done.add(version)
            for note in export.taken_notes():
                context.warn(note)
        wait(request.interval)
        told = look_again(context, told)


def _sources(request: ExportRequest, context: Context) -> list[tuple[Database, str]]:
    """Return the savepoints that are exported, with the namespaces of their tables: one, or the newest, or all of each job, the oldest
    first.

    Raises:
        CatalogError: there is no such database.
        InvalidRequestError: several jobs would have one namespace.
    """
    catalog, name = context.catalog, request.database
    one = None if name is None else catalog.database(name)
    if not request.has_history:
        newest = one or catalog.newest
        return [] if newest is None else [(newest, "")]
    jobs = catalog.jobs()
    if one is None and request.namespace and len(jobs) > 1:
        names = ", ".join(job.title for job in jobs)
        raise InvalidRequestError(f"expected a namespace only for one job, found {len(jobs)}: {names}")
    return [
        (database, request.namespace or _namespace(job, jobs))
        for job in jobs
        for database in reversed(job.databases)
        if one is None or database == one
    ]


@dataclass(frozen=True, slots=True)
class _Base:
    """What an export goes on from.

    Attributes:
        last: the savepoint that was exported last into the same tables.
        before: the same, to be read.
        after: the savepoint that is exported.
    """

    last: ExportedSavepoint
    before: Database
    after: Database


class _Export:
    """An export that runs.

    Args:
        request: the export.
        context: has the engine that does the work.
        destination: of the files.

    Attributes:
        notes: what a person should know.
        known: names of the savepoints that were there already.
    """

    def __init__(self, request: ExportRequest, context: Context, destination: Destination) -> None:
        self.notes: list[str] = []
        self.known: list[str] = []
        self._request, self._context, self._destination = request, context, destination
        self._ledger = Ledger(destination, request)
        self._layout = self._layout_of(TypeRules(format=request.format, nanoseconds=request.nanoseconds))
        self._scanned: list[TableJob] = []
        self._done = 0
        self._started = monotonic()

    def close(self) -> None:
        """Release what the layout holds."""
        self._layout.close()

    def taken_notes(self) -> list[str]:
        """Return the notes so far, and forget them, and what was scanned: an export that follows has no end."""
        notes, self.notes, self.known, self._scanned = self.notes, [], [], []
        return notes

    def progress(self) -> str:
        """Return how far it is, as a line."""
        read = sum(job.scan.bytes_read for job in list(self._scanned))
        done, took = counted(self._done, "table"), monotonic() - self._started
        return f"{done}, {size_text(read)} read, {took:,.0f} s"

    def _layout_of(self, rules: TypeRules) -> Layout:
        request, destination = self._request, self._destination
        kept = {"is_partitioned": request.partition_by is not None, "is_complete": not request.tables}
        if request.format == ICEBERG:
            return IcebergTables(destination, rules, request.catalog, **kept)
        if request.format == DELTA:
            return DeltaTables(destination, rules, **kept)
        return ParquetFolders(destination, rules)

    def one(self, database: Database, namespace: str, *, is_last: bool) -> ExportedSavepoint | None:
        """Export a savepoint; return None if that was done before."""
        request, ledger = self._request, self._ledger
        facts = _facts_of(database, namespace)
        if ledger.is_whole(facts):
            # Whoever follows for long has old snapshots, and their files, removed.
            if not request.follow:
                self._check_there(facts)
            self.known.append(facts.database)
            return None
        self._check_alone(facts)
        later = ledger.later_than(facts)
        if later is not None:
            self.notes.append(
                f"{facts.database} is left out: it is older than {later.database}, which is there, and a history goes on only forwards"
            )
            return None
        # A table that only newer checkpoints have is wanted of these.
        selection = selection_of(
            database, request.tables, allow_partial=request.allow_partial, may_lack=not is_last
        )
        conversions = {chosen.folder: self._conversion(facts, chosen) for chosen in selection.tables}
        is_again = ledger.begun is not None
        finished = ledger.begin(facts, may_drop=self._may_drop())
        whole = {
            chosen.folder: table
            for chosen in selection.tables
            if (table := finished.get(chosen.folder)) is not None
            and table.name == chosen.table.name
            and table.schema == columns_of(conversions[chosen.folder].schema)
            and self._layout.is_there(table)
        }
        workers = self._workers(database)
        # An executor compares nothing, and this process may be too small to.
        base = self._base_of(facts, database) if isinstance(workers, Threads) else None
        jobs = self._jobs(facts, selection, conversions, frozenset(whole), base, is_again=is_again)
        with closing(workers.written(jobs)) as written:
            for job in written:
                table = self._finished(job)
                ledger.finish(table)
                whole[table.folder] = table
                self._done += 1
        ledger.commit()
        schemas = {folder: conversion.schema for folder, conversion in conversions.items()}
        ordered = [whole[chosen.folder] for chosen in selection.tables]
        tables = self._layout.commit(facts, ordered, schemas, is_again=is_again)
        savepoint = replace(
            facts,
            exported_at=datetime.now(UTC).isoformat(timespec="seconds"),
            undecoded_states=tuple(map(asdict, selection.undecoded)),
            incomplete=tuple(map(asdict, unread_files(facts.database, selection.unread))),
            tables=tuple(tables),
        )
        ledger.publish(savepoint)
        self._note(savepoint, selection)
        return savepoint

    def _conversion(self, facts: ExportedSavepoint, chosen: ChosenTable) -> Conversion:
        try:
            return self._layout.conversion(facts, chosen)
        except UnexportableTypeError as error:
            raise InvalidRequestError(f"table {chosen.table.name!r}: {error}") from error

    def _jobs(
        self,
        facts: ExportedSavepoint,
        selection: Selection,
        conversions: Mapping[str, Conversion],
        whole: frozenset[str],
        base: _Base | None,
        *,
        is_again: bool,
    ) -> Iterator[TableJob]:
        destination, layout = self._destination, self._layout
        for chosen in selection.tables:
            if chosen.folder in whole:
                self._done += 1
                continue
            folder, prefix = layout.folder(facts, chosen.folder), layout.prefix(facts)
            for name in list(destination.names(folder)) if is_again else ():
                # A run that was killed has left them.
                if name.rpartition("/")[2].removeprefix(HIDDEN).startswith(prefix):
                    destination.remove(name)
            conversion = conversions[chosen.folder]
            is_partitioned = self._request.partition_by in conversion.schema.names
            kept = None if base is None else self._unchanged(base, chosen, conversion.schema)
            writer = PartWriter(
                destination=destination,
                folder=folder,
                prefix=prefix,
                conversion=conversion,
                partition=layout.partition if is_partitioned else None,
                key_groups=None if kept is None else kept.key_groups,
            )
            wanted = ANYTHING if kept is None else Predicate({KEY_GROUP: tuple(sorted(kept.key_groups))})
            scan = chosen.table.scan(predicate=wanted, allow_partial=self._request.allow_partial)
            job = TableJob(chosen=chosen, scan=scan, writer=writer, kept=() if kept is None else kept.files)
            self._scanned.append(job)
            yield job

    def _finished(self, job: TableJob) -> ExportedTable:
        chosen, parts = job.chosen, job.parts
        files = (*job.kept, *(file for part in parts for file in part.files))
        if not files and self._layout.needs_files:
            files = (job.writer.write_empty(),)
        return ExportedTable(
            name=chosen.table.name,
            folder=chosen.folder,
            rows=sum(file.rows for file in files),
            schema=columns_of(job.writer.conversion.schema),
            files=files,
            decode_status=chosen.status,
            decode_note=chosen.note,
            undecoded_rows=sum(part.undecoded for part in parts),
            out_of_range_rows=sum(part.out_of_range for part in parts),
            incomplete=tuple(map(asdict, unread_files(chosen.table.name, job.scan.incomplete))),
        )

    def _base_of(self, facts: ExportedSavepoint, after: Database) -> _Base | None:
        """Return what was exported last into the same tables; None if that is gone, or its files tell too little."""
        request, last = self._request, self._ledger.manifest.last(facts.namespace)
        if last is None or request.masks is not None or request.allow_partial:
            return None
        for database in self._context.catalog.known():
            with suppress(ReaderError):
                if absolute(database.path) == last.path and _identity_of(database) == last.identity:
                    return _Base(last, database, after)
        return None

    def _unchanged(self, base: _Base, chosen: ChosenTable, schema: pa.Schema) -> Unchanged | None:
        """Return what stays of a table; None if all of it is written."""
        known = next((one for one in base.last.tables if one.folder == chosen.folder), None)
        facts = chosen.table.name, columns_of(schema), chosen.status, chosen.note
        if known is None or facts != (known.name, known.schema, known.decode_status, known.decode_note):
            return None
        if not self._layout.is_newest(base.last, chosen.folder):
            return None
        # It may be the one before that cannot be read; if it is the other one, its rows tell.
        with suppress(ReaderError):
            return unchanged(known, base.before, base.after, chosen.table)
        return None

    def _may_drop(self) -> bool:
        """Return whether a savepoint that an earlier run has begun may be given up: where nobody waits for it, or it is gone."""
        begun = self._ledger.begun
        if begun is None or not self._request.has_history:
            return False
        known = {absolute(database.path) for database in self._context.catalog.known()}
        return self._request.follow or begun.get("path") not in known

    def _workers(self, database: Database) -> Workers:
        """Return what reads and writes: this process, unless the request or the size of the savepoint says otherwise."""
        name = self._request.engine
        database.describe()
        engine = None if name == local_engine().name else self._context.worker(name, database.size_bytes or 0)
        if engine is None:
            count = self._context.settings.duckdb.threads or machine.cores()
            return Threads(count, small=self._request.follow)
        return Executors(engine, database.reference)

    def _check_there(self, facts: ExportedSavepoint) -> None:
        """Refuse an export of which files are gone."""
        url, manifest = self._destination.url, self._ledger.manifest
        (known,) = (one for one in manifest.savepoints if one.is_same(facts))
        if self._request.options["tables"] != manifest.options.get("tables") and not known.namespace:
            raise ConflictError(
                f"{url}: expected an export of the same tables, found one of others; export to another folder"
            )
        for table in known.tables:
            if not self._destination.has_all({file.path: file.bytes for file in table.files}):
                raise ConflictError(
                    f"{url}: expected the files of table {table.name!r} as the manifest has them, found others; export to another "
                    "folder"
                )

    def _check_alone(self, facts: ExportedSavepoint) -> None:
        """Refuse a second savepoint where only one belongs."""
        known = self._ledger.manifest.savepoints
        if known and not self._request.has_history:
            raise ConflictError(
                f"{self._destination.url}: expected an empty folder, or an export of {facts.path}, found one of {known[-1].path}",
                code="TARGET_EXISTS",
            )

    def _note(self, savepoint: ExportedSavepoint, selection: Selection) -> None:
        self.notes += [state.text() for state in selection.undecoded]
        for table in savepoint.tables:
            if table.undecoded_rows:
                self.notes.append(
                    f"{table.name}: of {table.undecoded_rows} of {table.rows} rows some bytes are not decoded: they are in _undecoded"
                )
            self.notes += [f"{table.name} lacks rows: {file['message']}" for file in table.incomplete]
        self.notes += [f"{savepoint.database} lacks rows: {file['message']}" for file in savepoint.incomplete]


def _facts_of(database: Database, namespace: str) -> ExportedSavepoint:
    created_at = database.created_at
    return ExportedSavepoint(
        database=database.name,
        path=absolute(database.path),
        identity=_identity_of(database),
        checkpoint_id=database.checkpoint_id,
        kind=database.kind,
        created_at=None if created_at is None else created_at.isoformat(),
        namespace=namespace,
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
