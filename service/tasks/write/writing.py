"""A script and a source savepoint → a preview, or a new savepoint.

`write` changes a savepoint that is there, `create` one without operators.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa

from catalog import Catalog
from catalog.catalog import Root
from readers import Savepoint
from service.base.errors import (
    ConflictError,
    EngineUnavailableError,
    InvalidRequestError,
    NothingChangesError,
)
from service.base.process import machine
from service.query.encode import counted, printable, size_text
from service.query.engines.engine import Engine, task_folder
from service.query.engines.registry import AUTO, title_of
from service.query.sql.resolver import SystemTables
from service.tasks.check.written import WrittenCheck, check_lines, checked
from service.tasks.task import Context, Task
from service.tasks.write.changes import ALLOW_EMPTY, Effect, Sample
from service.tasks.write.errors import write_errors
from service.tasks.write.offsets import OffsetChange, OffsetChanges
from service.tasks.write.progress import TargetSize
from service.tasks.write.request import CreateRequest, WriteRequest
from service.tasks.write.script import Script
from service.tasks.write.statements.script import statements_of
from writers import Edit, FilesMode, ForFlink, SavepointWriter, Summary, write_empty_savepoint

_NEW = "new"  # the name of a savepoint that is made from nothing, in its script
# A savepoint may have a source of many thousand splits; people look at the first ones.
_MOST_OFFSETS = 1000
_SHOWN_CHANGES = 20
# States hold values of many megabytes, and scripts have thousands of statements: a report is for people.
_MOST_SAMPLES = 1000
_LONGEST_TEXT = 1000


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

    @property
    def exit_code(self) -> int:
        """0: nothing is written where something is wrong."""
        return 0

    def to_dict(self) -> dict[str, Any]:
        """Return the report, and where the savepoint is."""
        return {"target": self.target, "dry_run": self.target is None, **self.report()}

    def report(self) -> dict[str, Any]:
        """Return the report; long values of samples are cut.

        | member | content |
        |---|---|
        | `statements` | of each statement: `table`, `text`, `changed`, `added`, `removed` (rows), `key_groups`, `samples` |
        | `offsets` | the rows of `source_offsets` that change, the first thousand |
        | `rows` | how many rows all statements changed, added or removed |
        | `summary` | the new savepoint in numbers, and `warnings` |
        | `engine` | what made the state that changed; empty for the process that wrote |
        | `check` | what a restore does with the new savepoint: `verdict`, `headline`, `findings`, …; null for a dry run |
        """
        room = _MOST_SAMPLES
        statements = []
        for effect in self.effects:
            samples = tuple(map(_cut, effect.samples[:room]))
            room -= len(samples)
            statements.append(asdict(replace(effect, samples=samples)))
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
            yield from (f"  {_cut(sample).text()}" for sample in effect.samples[:_SHOWN_CHANGES])
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


def _cut(sample: Sample) -> Sample:
    """Return a sample without the ends of long values."""
    parts = (sample.place, sample.before, sample.after)
    place, before, after = (None if part is None else _shortened(part) for part in parts)
    return Sample(place=place or {}, before=before, after=after)


def _shortened(values: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}…"
        for name, value in values.items()
    }


class Writing:
    """One script over one savepoint, ready to be written; nothing was written yet. Close it.

    Args:
        request: what to write.
        context: the catalog that has the savepoint, and the others that a SELECT may name; and what runs the SELECTs over it.
        on_statement: hears how many statements have run, and how many there are.

    Raises:
        QueryError: the script means nothing, or is refused.
    """

    def __init__(
        self,
        request: WriteRequest,
        context: Context,
        on_statement: Callable[[int, int], None] = lambda done, count: None,
    ) -> None:
        self._request, self._context = request, context
        self._engine = ""
        self._check: WrittenCheck | None = None
        # An unknown name is refused before a statement runs.
        context.worker(request.engine, 0)
        statements = statements_of(request.sql, context.settings.queries.max_sql_bytes)
        self._database = context.only_database(request.database, "to write from")
        with ExitStack() as opened:
            folder = opened.enter_context(task_folder(context.settings.storage.temp_directory))
            files = context.asked.system_tables
            script = Script(
                self._database, request, Path(folder.path), self._run, files.file if files else None
            )
            self._script = opened.enter_context(closing(script))
            with write_errors():
                for number, statement in enumerate(statements):
                    on_statement(number, len(statements))
                    script.apply(statement)
                on_statement(len(statements), len(statements))
                self._check_expected()
                self._check_changes()
                self._warnings = tuple(map(str, script.warnings))
                edits: tuple[Edit, ...] = script.edits
                if request.flink is not None:
                    edits = (*edits, ForFlink(_release(request.flink)))
                location, files_mode = self._database.savepoint.location, FilesMode(request.files)
                self._writer = SavepointWriter(location, edits, files_mode, threads=machine.cores())
            self._closing = opened.pop_all()

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
            offsets=self._script.changes(OffsetChanges).changes,
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
            self._write(target, worker)
        return self._written(os.fspath(target))

    def _write(self, target: str | os.PathLike[str], worker: Engine | None) -> None:
        if worker is not None:
            try:
                self._writer.write(target, self._verify, partial(self._work, worker))
            except EngineUnavailableError:
                # As a query whose request names no engine: this machine does it, from the start.
                if self._request.engine != AUTO:
                    raise
                self._engine = ""
            else:
                return
        self._writer.write(target, self._verify)

    def _verify(self, new: Savepoint) -> None:
        self._script.verify(new)
        self._check = checked(new, self._script.against, self._request.flink)

    def _work(self, worker: Engine, parcels: Sequence[bytes]) -> list[bytes]:
        self._engine = worker.name
        return worker.work(parcels, self._database.reference.elsewhere())

    def _check_changes(self) -> None:
        request = self._request
        if not request.allow_empty and request.flink is None and self._script.changes_nothing:
            raise NothingChangesError(
                "the script changes nothing: the savepoint has all of its values already", hint=ALLOW_EMPTY
            )

    def _check_expected(self) -> None:
        for table, rows in self._request.expect.items():
            own = (one.rows for one in self._script.effects if one.table.casefold() == table.casefold())
            if (found := sum(own)) != rows:
                raise ConflictError(
                    f"expected {rows} rows of {table} to change, found {found}; nothing was written"
                )


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
            write_empty_savepoint(Path(folder.path), None if flink is None else _release(flink))
        new = Catalog([Root(path=folder.path, label=name)])
        yield Catalog.of([*catalog.known(), *new.known()]), name


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
