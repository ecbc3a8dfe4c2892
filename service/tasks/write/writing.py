"""A script and a source savepoint → a preview, or a new savepoint. Each statement sees what the earlier ones did.

`write` changes a savepoint that is there, `create` one without operators. What a write has put on the disk so far is measured, so that
whoever writes need not count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import pyarrow as pa

from catalog import Catalog, CatalogError, Database, Table
from catalog.catalog import Root
from catalog.references import SavepointReference
from doctor import SourceAgainst
from readers import Savepoint
from service.base import errors, machine
from service.query.encode import counted, printable, size_text
from service.query.engines.engine import Engine, task_folder
from service.query.engines.registry import AUTO, title_of
from service.query.sql.resolver import SystemTables
from service.tasks.check.running import WrittenCheck, check_lines, checked
from service.tasks.task import Context, Task
from service.tasks.write.alterations import OperatorChanges, StateAlterations
from service.tasks.write.changes import (
    ALLOW_EMPTY,
    ChangedStates,
    Changes,
    Composition,
    Effect,
    ScriptContext,
    check_created_classes,
    null_warnings,
)
from service.tasks.write.copying import OperatorCopies
from service.tasks.write.creating import StateCreations
from service.tasks.write.offsets import OffsetChange, OffsetChanges
from service.tasks.write.request import (
    CreateRequest,
    WriteRequest,
    release_of,
    write_errors,
    written_version,
)
from service.tasks.write.rows.expected import ExpectedRows
from service.tasks.write.rows.keys import KeyChanges
from service.tasks.write.rows.tables import RowChanges
from service.tasks.write.statements.parser import Statement
from service.tasks.write.statements.script import DropTable, statements_of
from writers import (
    CreateOperator,
    Edit,
    FilesMode,
    ForFlink,
    RestoreWarning,
    SavepointWriter,
    Summary,
    TakeOperator,
    merged_edits,
    write_empty_savepoint,
)


@dataclass(frozen=True, slots=True)
class TargetSize:
    """The files of a target.

    Attributes:
        files: how many there are.
        bytes_written: their bytes; links to other files take no space, and are not counted.
    """

    files: int = 0
    bytes_written: int = 0

    @classmethod
    def of(cls, target: str) -> TargetSize:
        """Return the size of a directory; that of an empty one if it is not there."""
        files = bytes_written = 0
        for folder, _, names in os.walk(target):
            for name in names:
                try:
                    status = os.lstat(os.path.join(folder, name))
                except OSError:
                    continue  # it was renamed, or removed
                files += 1
                bytes_written += status.st_size if status.st_nlink == 1 else 0
        return cls(files, bytes_written)


ChangesT = TypeVar("ChangesT", bound=Changes)
Run = Callable[[str, SystemTables], AbstractContextManager[pa.RecordBatchReader]]
"""Runs a SELECT, and ends it with the context; the tables hide those of the savepoint."""


class Script:
    """A savepoint with the changes of a script.

    Args:
        database: the savepoint.
        catalog: has it, and those that the script may name.
        request: the script.
        folder: for rows that memory does not hold; its owner removes it.
        run: runs a SELECT over the savepoint.
        file: returns the table of a file that FROM names; None where no files are read.
        kinds: classes of changes beside `CHANGES`.
    """

    def __init__(
        self,
        database: Database,
        catalog: Catalog,
        request: WriteRequest,
        folder: Path,
        run: Run,
        file: Callable[[str], Table | None] | None,
        kinds: tuple[type[Changes], ...] = (),
    ) -> None:
        self._kinds = (*kinds, *CHANGES)
        self._run = run
        self._database = database
        self._file = file
        self._context = ScriptContext(
            database=database,
            catalog=catalog,
            version=written_version(database, request.flink),
            select=self._select,
            changed_table=self._changed_table,
            folder=folder,
            parallelism=request.parallelism,
            max_parallelism=request.max_parallelism,
            # No change may be what the client expects of a table.
            may_find_nothing=lambda table: (
                request.allow_empty or (self._expected is not None and self._expected.has(table))
            ),
            states=ChangedStates(folder),
            operator_ids={one: one for one in database.operator_names},
        )
        # The others are made by the first statement for them; these also know the rows that go with their operators.
        rows = RowChanges(self._context)
        self._made: dict[type[Changes], Changes] = {RowChanges: rows}
        self._expected = ExpectedRows(request.expect, self._context, rows) if request.expect else None
        self._effects: list[Effect] = []

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effect of each statement, in order."""
        return tuple(self._effects)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits for the writer, in order."""
        created = self._made.get(StateCreations)
        if isinstance(created, StateCreations):
            check_created_classes(created.types, self.changes(StateAlterations).types())
        found = merged_edits(edit for one in self._changes for edit in one.edits())
        # The uid of a new operator may be that of one that goes, or gets another.
        return tuple(sorted(found, key=lambda edit: isinstance(edit, CreateOperator | TakeOperator)))

    @property
    def changes_nothing(self) -> bool:
        """Whether the savepoint stays as it is: rows that were found have the values that the statements give them."""
        changed = [effect for effect in self._effects if effect.rows]
        # One statement may take back what another one did.
        if len(changed) == 1 and changed[0].is_change:
            return False
        return not any(one.differ for one in self._changes)

    @property
    def warnings(self) -> tuple[RestoreWarning, ...]:
        """What Flink may refuse in the rows that the script writes.

        Raises:
            QueryError: a jar says that it does.
            ReaderError: a state that changes cannot be read.
        """
        changed = null_warnings(self._context.states, self._database)
        return (*changed, *(warning for one in self._changes for warning in one.warnings))

    @property
    def against(self) -> tuple[SourceAgainst, ...]:
        """The job that the new savepoint is for, as far as the source knows it: nothing if it has no operators."""
        source, states = self._database.savepoint, self._context.states
        if not source.operators:
            return ()
        ids = self._context.operator_ids
        operators = {operator.operator_id: operator for operator in source.operators}
        retyped = {
            (now, states.names.get((one, number), operators[one].states[number].name))
            for one, number in states.retyped
            if (now := ids[one]) is not None
        }
        return (SourceAgainst(source, dict(ids), frozenset(retyped)),)

    @property
    def offsets(self) -> tuple[OffsetChange, ...]:
        """The rows of `source_offsets` that change."""
        return tuple(row for one in self._changes if isinstance(one, OffsetChanges) for row in one.changes)

    def changes(self, kind: type[ChangesT]) -> ChangesT:
        """Return the changes of a class, which the first statement for them makes."""
        made = self._made.get(kind) or self._made.setdefault(kind, kind(self._context))
        assert isinstance(made, kind)
        for other in kind.writers:
            self.changes(other)
        return made

    @property
    def _changes(self) -> tuple[Changes, ...]:
        return tuple(self._made[kind] for kind in self._kinds if kind in self._made)

    def apply(self, statement: Statement) -> None:
        """Apply the next statement.

        Raises:
            QueryError: it means nothing, or is refused.
        """
        try:
            self._effects.append(
                self._applied(statement)
                if self._expected is None
                else self._counted(statement, self._expected)
            )
        except errors.QueryError as error:
            error.position = error.position or statement.position
            raise

    def _counted(self, statement: Statement, expected: ExpectedRows) -> Effect:
        """Apply a statement, and count its rows among those that the client expects."""
        name = statement.name
        own = expected.own_name(name)
        if isinstance(statement, DropTable):
            is_state = self.changes(StateAlterations).owns(name)
            expected.count_dropped(own, None if is_state else self._context.operator(name)[0])
        effect = self._applied(statement)
        expected.add(name, own, effect)
        return effect

    def check_expected(self) -> None:
        """Check that the rows change that the client expects.

        Raises:
            QueryError: others do, or a table is not known.
        """
        if self._expected is not None:
            self._expected.check()

    def verify(self, savepoint: Savepoint) -> None:
        """Check that a new savepoint has the changes.

        Raises:
            UnwritableError: it has others.
        """
        for one in self._changes:
            one.verify(savepoint)

    def close(self) -> None:
        """Release what the changes hold."""
        for one in self._changes:
            one.close()

    def _applied(self, statement: Statement) -> Effect:
        self._context.check_qualifier(statement.table)
        for kind in self._kinds:
            apply = kind.appliers.get(type(statement))
            if apply is not None and kind.only in (None, statement.name.casefold()):
                changes = self.changes(kind)
                if changes.owns(statement.name):
                    effect: Effect = apply(changes, statement)
                    return effect
        with errors.translated(CatalogError):
            self._database.table(statement.name)
        raise errors.InvalidQueryError(
            f"{statement.name!r} cannot be changed by this statement",
            hint="it changes the tables of keyed, list, union and broadcast states",
        )

    def _changed_table(self, name: str) -> Table | None:
        # Those that take a table away come behind those that change its rows.
        found = (one.table(name) for one in reversed(self._changes))
        return next((table for table in found if table is not None), None)

    @contextmanager
    def _select(
        self, select: Composition, tables: Mapping[str, Table] | None = None
    ) -> Iterator[pa.RecordBatchReader]:
        known = _ScriptTables(self._database.name, self._changed_table, tables or {}, self._file)
        try:
            with self._run(select.text, known) as reader:
                yield reader
        except errors.QueryError as error:
            error.position = error.position and select.position(error.position)
            raise


class _ScriptTables(SystemTables):
    """The tables that a script has changed: a SELECT of the script reads them in place of the savepoint's."""

    def __init__(
        self,
        database: str,
        changed: Callable[[str], Table | None],
        tables: Mapping[str, Table],
        file: Callable[[str], Table | None] | None,
    ) -> None:
        self._qualifiers = ((), (database.casefold(),), ("flink", database.casefold()))
        self._changed = changed
        self._tables = tables
        self._file = file

    def file(self, path: str) -> Table | None:
        return None if self._file is None else self._file(path)

    def table(self, path: tuple[str, ...], databases: Sequence[str] | None) -> Table | None:
        name = path[-1]
        if path[:-1] not in self._qualifiers:
            return None
        if len(path) == 1 and name in self._tables:
            return self._tables[name]
        return self._changed(name)


# Their edits come in this order. What is in state files is found by the ids of operators in the source: it is changed first.
CHANGES: tuple[type[Changes], ...] = (
    OffsetChanges,
    RowChanges,
    KeyChanges,
    StateAlterations,
    StateCreations,
    OperatorChanges,
    OperatorCopies,
)


_NEW = "new"  # the name of a savepoint that is made from nothing, in its script
# A savepoint may have a source of many thousand splits; people look at the first ones.
_MOST_OFFSETS = 1000
_SHOWN_CHANGES = 20
_SHOWN_IN_STATE = 3
# States hold values of many megabytes, and scripts have thousands of statements: a report is for people.
_MOST_SAMPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a write does, or did.

    Attributes:
        target: the new savepoint; None if nothing was written.
        effects: of each statement.
        offsets: the rows of `source_offsets` that change.
        summary: the new savepoint in numbers.
        engine: what made the state that changed; empty for this process.
        check: what a restore does with the new savepoint; None if nothing was written.
    """

    target: str | None = None
    effects: tuple[Effect, ...]
    offsets: tuple[OffsetChange, ...]
    summary: Summary
    engine: str = ""
    check: WrittenCheck | None = None

    @property
    def rows(self) -> int:
        """How many rows all statements changed, added or removed."""
        return sum(effect.rows for effect in self.effects)

    exit_code = 0  # nothing is written where something is wrong

    def to_dict(self) -> dict[str, Any]:
        """Return the report, and where the savepoint is."""
        return {"target": self.target, "dry_run": self.target is None, **self.report()}

    def report(self) -> dict[str, Any]:
        """Return the report; long values of samples are cut.

        | member | content |
        |---|---|
        | `statements` | of each statement: `table`, `text`, `changed`, `added`, `removed` (rows), `key_groups`, `samples`, `states` |
        | `offsets` | the rows of `source_offsets` that change, the first thousand |
        | `rows` | how many rows all statements changed, added or removed |
        | `summary` | the new savepoint in numbers, and `warnings` |
        | `engine` | what made the state that changed; empty for the process that wrote |
        | `check` | what a restore does with the new savepoint: `verdict`, `headline`, `findings`, …; null for a dry run |
        """
        room = _MOST_SAMPLES
        statements = []
        for effect in self.effects:
            kept = effect.within(room)
            room -= len(kept.samples) + sum(len(one.samples) for one in kept.states)
            statements.append(asdict(kept))
        return {
            "statements": statements,
            "offsets": [asdict(change) for change in self.offsets[:_MOST_OFFSETS]],
            "rows": self.rows,
            "summary": asdict(self.summary),
            "engine": self.engine,
            "check": None if self.check is None else self.check.to_dict(),
        }

    @property
    def title(self) -> str:
        """Where the new savepoint is."""
        return (
            "nothing was written: a dry run" if self.target is None else f"written: {printable(self.target)}"
        )

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Yield what happens: each statement with some of its rows, the new savepoint in numbers, its place, and its check."""
        yield from map(printable, self._changes())
        yield from map(printable, summary_lines(self.summary))
        yield self.title
        yield from map(printable, check_lines(self.check, self.target))

    def _changes(self) -> Iterator[str]:
        for effect in self.effects:
            yield effect.text
            for one in effect.states:
                yield f"  {one.text}"
                yield from (f"    {sample.cut.text()}" for sample in one.samples[:_SHOWN_IN_STATE])
            yield from (f"  {sample.cut.text()}" for sample in effect.samples[:_SHOWN_CHANGES])
            left = effect.rows - len(effect.samples[:_SHOWN_CHANGES])
            if effect.samples and left:
                yield f"  … and {left:,} more"
        yield from (f"  {change.text()}" for change in self.offsets[:_SHOWN_CHANGES])
        if len(self.offsets) > _SHOWN_CHANGES:
            yield f"  … and {len(self.offsets) - _SHOWN_CHANGES:,} more"
        if self.engine:
            yield f"state made by {title_of(self.engine)}"


def summary_lines(summary: Summary) -> Iterator[str]:
    """Yield a new savepoint in numbers, and its warnings."""
    operators = counted(summary.operators, "operator")
    refers = "; it needs files of the source" if summary.refers else ""
    if summary.files or refers:
        yield f"{operators}, {counted(summary.files, 'file')} with {counted(summary.file_bytes, 'byte')}{refers}"
    else:
        size = size_text(summary.metadata_bytes)
        yield f"{operators}; all state is in _metadata ({size}); no other file is needed"
    yield from (f"warning: {warning}" for warning in summary.warnings)


class Writing:
    """One script over one savepoint, ready to be written; nothing was written yet. Close it.

    Args:
        request: what to write.
        context: the catalog that has the savepoint, and the others that a SELECT may name; and what runs the SELECTs over it.
        on_statement: hears how many statements have run, and how many there are.
        statements: in place of the script of the request.
        kinds: the classes of changes that know them, beside `CHANGES`.

    Raises:
        QueryError: the script means nothing, or is refused.
    """

    def __init__(
        self,
        request: WriteRequest,
        context: Context,
        on_statement: Callable[[int, int], None] = lambda done, count: None,
        statements: Sequence[Statement] | None = None,
        kinds: tuple[type[Changes], ...] = (),
    ) -> None:
        self._request, self._context = request, context
        self._engine = ""
        self._check: WrittenCheck | None = None
        # An unknown name is refused before a statement runs.
        context.worker(request.engine, 0)
        if statements is None:
            statements = statements_of(request.sql, context.settings.queries.max_sql_bytes)
        self._database = context.only_database(request.database, "to write from")
        with ExitStack() as opened:
            folder = opened.enter_context(task_folder(context.settings.storage.temp_directory))
            files = context.asked.system_tables
            script = Script(
                self._database,
                context.catalog,
                request,
                Path(folder.path),
                self._run,
                files.file if files else None,
                kinds,
            )
            self._script = opened.enter_context(closing(script))
            with write_errors():
                for number, statement in enumerate(statements):
                    on_statement(number, len(statements))
                    script.apply(statement)
                on_statement(len(statements), len(statements))
                script.check_expected()
                self._check_changes()
                self._warnings = tuple(map(str, script.warnings))
                edits: tuple[Edit, ...] = script.edits
                if request.mask is not None:
                    from service.tasks.write.masks import masked_script  # most writes have no masks

                    edits = masked_script(request.mask, self._database, edits)
                if request.flink is not None:
                    # The version of `_metadata` decides what operators that come along may hold.
                    edits = (ForFlink(release_of(request.flink)), *edits)
                location, files_mode = self._database.savepoint.location, FilesMode(request.files)
                self._writer = SavepointWriter(location, edits, files_mode, threads=machine.cores())
            self._closing = opened.pop_all()

    def changes(self, kind: type[ChangesT]) -> ChangesT:
        """Return the changes of a class."""
        return self._script.changes(kind)

    def close(self) -> None:
        """Remove what is kept on disk until it is written."""
        self._closing.close()

    @contextmanager
    def _run(self, sql: str, tables: SystemTables) -> Iterator[pa.RecordBatchReader]:
        context = self._context
        asked = replace(
            context.asked, sql=sql, system_tables=tables, schema=self._database.name, catalog=context.catalog
        )
        with context.start(asked) as query:
            yield pa.RecordBatchReader.from_batches(query.schema, query.batches())

    @property
    def preview(self) -> Written:
        """The effects of the script, and the new savepoint in numbers.

        Raises:
            QueryError: a value cannot be stored, or a file of the source is damaged.
        """
        return self._written(None)

    def _written(self, target: str | None) -> Written:
        with write_errors():
            summary = self._writer.summary
        return Written(
            target=target,
            effects=self._script.effects,
            offsets=self._script.offsets,
            summary=replace(summary, warnings=(*self._warnings, *summary.warnings)),
            engine=self._engine,
            check=self._check,
        )

    def write(self, target: str | os.PathLike[str]) -> Written:
        """Write the new savepoint, and read it back before Flink can find it.

        Raises:
            QueryError: something is there, it cannot be written, or a file of the source vanished.
        """
        worker = self._context.worker(self._request.engine, self._writer.made_bytes)
        with write_errors():
            self._engine = written_by(
                worker, self._writer, target, self._verify, self._database.reference, self._request.engine
            )
        return self._written(os.fspath(target))

    def _verify(self, new: Savepoint) -> None:
        self._script.verify(new)
        self._check = checked(new, self._script.against, self._request.flink)

    def _check_changes(self) -> None:
        request = self._request
        own = self._database.savepoint.metadata.version
        is_as_it_was = written_version(self._database, request.flink) == own and self._script.changes_nothing
        if is_as_it_was and not request.allow_empty:
            # Only a table of `--expect` lets a statement find nothing.
            found = not request.expect or any(effect.rows for effect in self._script.effects)
            reason = (
                "the savepoint has all of its values already"
                if found
                else "no statement finds a row to change"
            )
            raise errors.NothingChangesError(f"the script changes nothing: {reason}", hint=ALLOW_EMPTY)


def written_by(
    worker: Engine | None,
    writer: SavepointWriter,
    target: str | os.PathLike[str],
    verify: Callable[[Savepoint], None],
    source: SavepointReference,
    wanted: str,
) -> str:
    """Write a new savepoint; return the name of the engine that made its state, empty for this process.

    Args:
        worker: the engine that makes it; None for this process.
        writer: has the source and the edits.
        target: see `SavepointWriter.write`.
        verify: see there.
        source: names the source in other processes.
        wanted: the engine that the request names.

    Raises:
        WriterError, ReaderError: see `SavepointWriter.write`.
        EngineUnavailableError: of the engine that the request names.
    """
    engine = ""

    def work(parcels: Sequence[bytes]) -> list[bytes]:
        nonlocal engine
        assert worker is not None
        engine = worker.name
        return worker.work(parcels, source.elsewhere())

    if worker is not None:
        try:
            writer.write(target, verify, work)
        except errors.EngineUnavailableError:
            # As a query whose request names no engine: this machine does it, from the start.
            if wanted != AUTO:
                raise
        else:
            return engine
    writer.write(target, verify)
    return ""


@contextmanager
def with_new_source(catalog: Catalog, flink: str | None) -> Iterator[tuple[Catalog, str]]:
    """Yield a catalog that also has a savepoint without operators, to which a script adds some, and the name of that.

    Raises:
        QueryError: it is no version of Flink, or none that reads what is written.
    """
    names = {database.name.casefold() for database in catalog.known()}
    name = next(name for number in count() if (name := f"{_NEW}{number or ''}") not in names)
    with task_folder("") as folder:
        with write_errors():
            write_empty_savepoint(Path(folder.path), None if flink is None else release_of(flink))
        new = Catalog([Root(path=folder.path, label=name)])
        yield Catalog.of([*catalog.known(), *new.known()]), name


class _Progress:
    """How far a write is.

    Args:
        target: the directory that is made; None for a dry run.
    """

    def __init__(self, target: str | None) -> None:
        self._target = target
        self._started = monotonic()
        self._done = self._count = 0

    def on_statement(self, done: int, count: int) -> None:
        """Note how many statements have run."""
        self._done, self._count = done, count

    def text(self) -> str:
        """Return a line."""
        took = f"{monotonic() - self._started:,.0f} s"
        if self._done < self._count:
            return f"statement {self._done + 1:,} of {self._count:,}, {took}"
        # To ask an object store for its files is a request.
        if self._target is None or "://" in self._target:
            return took
        size = TargetSize.of(self._target)
        return f"{counted(size.files, 'file')}, {size_text(size.bytes_written)} written, {took}"


def run(request: WriteRequest, context: Context) -> Written:
    """Write a new savepoint, or say what it would be.

    Raises:
        QueryError: the script means nothing, is refused, or the target cannot be written.
    """
    target = None if request.dry_run else request.target
    progress = _Progress(target)
    context.progress(progress.text)
    with closing(Writing(request, context, progress.on_statement)) as writing:
        return writing.preview if target is None else writing.write(target)


def create(request: CreateRequest, context: Context) -> Written:
    """Write a new savepoint from nothing, or say what it would be.

    Raises:
        QueryError: as `run`.
    """
    with with_new_source(context.catalog, request.flink) as (catalog, name):
        return run(WriteRequest(database=name, **asdict(request)), replace(context, catalog=catalog))


TASK = Task(request=WriteRequest, run=run, makes=True, reads_others=True)
CREATE = Task(request=CreateRequest, run=create, has_source=False, makes=True, reads_others=True)
