"""`savepointdb write`: change a savepoint by SQL, into a new savepoint."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import monotonic

from service.base.process import machine
from service.base.settings import UNLIMITED, Settings, settings_of
from service.doors.cli.compile import log_compilation
from service.doors.cli.outcome import WrongUsageError, ended
from service.doors.cli.progress import ProgressLine
from service.doors.cli.sources import catalog_of
from service.query.encode import counted, printable, size_text
from service.query.engines.registry import open_engines
from service.query.running.session import Session
from service.tasks.check.written import check_lines
from service.tasks.write.progress import TargetSize
from service.tasks.write.report import lines_of, report_of
from service.tasks.write.writing import WriteRequest, Writing
from writers import FilesMode

# Of DuckDB: a join of 2 × 4 million rows takes 475 MiB in all without a limit, and 380 MiB with this one, in the same time.
_LEAST_MB = 128
_THREAD_MB = 48  # some buffers of a thread cannot be spilled
_SOURCE = "source"  # the name of the savepoint that is changed, where a script has others, too


def main(options: Namespace) -> int:
    """Write, or show what would be written; return the exit code."""
    return ended(_write, options)


def _write(options: Namespace) -> None:
    if not options.dry_run and not options.to:
        raise WrongUsageError("expected --to DIR, the directory of the new savepoint, or --dry-run")
    request = WriteRequest(
        sql=script_of(options),
        files=FilesMode(options.files),
        flink=options.flink,
        expected=dict(map(_expected, options.expect or ())),
        # Whoever calls the program may read its files.
        reads_files=True,
        engine=options.engine,
        allow_empty=options.allow_empty,
    )
    if options.others:
        request = replace(request, database=_SOURCE)
        execute([f"{_SOURCE}={options.savepoint}", *options.others], options, request, options.to)
    else:
        execute([options.savepoint], options, request, options.to)


def execute(sources: Sequence[str], options: Namespace, request: WriteRequest, to: str | None) -> None:
    """Run a script over savepoints, and print what it does.

    Args:
        sources: each `[name=]PATH`; one is written from, as the request says.
        options: the parsed command line.
        request: the script.
        to: where the new savepoint goes; not looked at in a dry run.

    Raises:
        QueryError: the script means nothing, is refused, or the target cannot be written.
    """
    target = None if options.dry_run else to
    settings = _with_little_memory(settings_of(vars(options), os.environ, UNLIMITED))
    log_compilation()
    catalog = catalog_of(sources, options)
    progress = _Progress(target)
    with (
        ProgressLine(progress.text),
        closing(Session(catalog, open_engines(settings, later=True), settings)) as queries,
        closing(Writing(catalog, queries, settings, request, progress.on_statement)) as writing,
    ):
        preview = writing.preview if target is None else writing.write(target)
    if options.json:
        print(json.dumps({"target": target, "dry_run": options.dry_run, **report_of(preview)}, indent=2))
        return
    for line in lines_of(preview):
        print(printable(line))
    print("nothing was written: --dry-run" if target is None else f"written: {target}")
    for line in check_lines(preview.check, target):
        print(printable(line))


def _with_little_memory(settings: Settings) -> Settings:
    """Return settings by which DuckDB spills soon, unless they say how much memory it has: a write takes some 400 MB at any size."""
    if settings.duckdb.memory_limit:
        return settings
    threads = settings.duckdb.threads or machine.cores()
    return settings.replaced({"memory_limit": f"{max(_LEAST_MB, threads * _THREAD_MB)}MB"})


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


def script_of(options: Namespace) -> str:
    """Return the script of a command line.

    Raises:
        WrongUsageError: there is none, or the file cannot be read.
    """
    if (options.sql is None) == (options.file is None):
        raise WrongUsageError("expected a script, either as an argument or by --file")
    if options.sql == "-":
        return sys.stdin.read()
    if options.file is None:
        return str(options.sql)
    try:
        return Path(options.file).read_text(encoding="utf-8")
    except OSError as error:
        raise WrongUsageError(f"--file: cannot read {options.file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WrongUsageError(f"--file: expected UTF-8 in {options.file}: {error.reason}") from error


def _expected(text: str) -> tuple[str, int]:
    table, separator, rows = text.rpartition("=")
    if not separator or not rows.isdecimal():
        raise WrongUsageError(f"--expect: expected TABLE=ROWS, found {text!r}")
    return table, int(rows)
