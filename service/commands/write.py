"""`savepointdb write`: change a savepoint by SQL, into a new savepoint."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from service.commands.outcome import WrongUsageError, ended
from service.commands.sources import catalog_of
from service.engines.registry import open_engines
from service.settings import UNLIMITED, settings_of
from service.writing.writing import Preview, WriteRequest, Writing
from writers import FilesMode

_SHOWN_CHANGES = 20


def main(options: Namespace) -> int:
    """Write, or show what would be written; return the exit code."""
    return ended(_write, options)


def _write(options: Namespace) -> None:
    if not options.dry_run and not options.to:
        raise WrongUsageError("expected --to DIR, the directory of the new savepoint, or --dry-run")
    settings = settings_of(vars(options), os.environ, UNLIMITED)
    request = WriteRequest(
        sql=sys.stdin.read() if options.sql == "-" else options.sql,
        files=FilesMode(options.files),
        flink=options.flink,
        expected=dict(map(_expected, options.expect or ())),
    )
    catalog = catalog_of([options.savepoint], options)
    writing = Writing(catalog, open_engines(settings), settings, request)
    if options.dry_run:
        _show(writing.preview)
        print("nothing was written: --dry-run")
        return
    _show(writing.write(options.to))
    print(f"written: {options.to}")


def _expected(text: str) -> tuple[str, int]:
    table, separator, rows = text.rpartition("=")
    if not separator or not rows.isdecimal():
        raise WrongUsageError(f"--expect: expected TABLE=ROWS, found {text!r}")
    return table, int(rows)


def _show(preview: Preview) -> None:
    for effect in preview.effects:
        print(effect.text)
    for change in preview.offsets[:_SHOWN_CHANGES]:
        print(f"  {change.text()}")
    if len(preview.offsets) > _SHOWN_CHANGES:
        print(f"  … and {len(preview.offsets) - _SHOWN_CHANGES} more")
    summary = preview.summary
    print(f"{summary.operators} operators, {summary.files} files with {summary.file_bytes} bytes")
