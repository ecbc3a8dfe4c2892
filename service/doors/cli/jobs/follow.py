"""`savepointdb follow PATH TABLE|SELECT`: what each new checkpoint of a job changes, as it comes."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from argparse import Namespace
from contextlib import closing

from readers import load_machine
from service.base import settings
from service.base.errors import InvalidRequestError
from service.base.settings import UNLIMITED, settings_of
from service.doors.cli.output import (
    ROWS_ON_SCREEN,
    TABLE,
    WrongUsageError,
    append_bytes,
    ended,
    log_compilation,
    screen_width,
    suffix_of,
    write_rows,
)
from service.doors.cli.parser import QUERY_SETTINGS, SOURCE, add_names, add_no_cache
from service.doors.cli.sources import cache_of, catalog_of
from service.doors.cli.task import add_options, request_of
from service.query.encode import FORMATS, counted, dated, printable
from service.query.encode.formats import Column
from service.query.engines.registry import open_engines
from service.query.running.session import Session
from service.tasks.follow.events import lines_of, notes_of
from service.tasks.follow.following import INTERVAL_S, CheckpointChanges, FollowRequest, follow
from service.tasks.task import Context

_JSON_LINES, _CSV = "jsonl", "csv"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("path", metavar="[LABEL=]PATH", help=f"{SOURCE} Mostly the folder of a job.")
    add_options(parser, FollowRequest)
    parser.add_argument(
        "--interval",
        type=float,
        default=INTERVAL_S,
        metavar="SECONDS",
        help="Time between two looks at the folder.",
    )
    parser.add_argument(
        "--format",
        choices=(_JSON_LINES, _CSV, TABLE),
        help="Format; if not given, by the suffix of --output, table on a terminal, or else jsonl.",
    )
    parser.add_argument("--output", metavar="FILE", help="File that the changes are appended to.")
    add_names(parser)
    settings.add_arguments(parser, QUERY_SETTINGS, UNLIMITED)
    add_no_cache(parser)


def main(options: Namespace) -> int:
    """Show changes until Ctrl-C or, with --once, up to the newest checkpoint; return the exit code."""
    return ended(_follow, options)


def _follow(options: Namespace) -> None:
    if not 0 < options.interval < threading.TIMEOUT_MAX:
        raise WrongUsageError(f"--interval: expected seconds above 0, found {options.interval}")
    request = request_of(FollowRequest, options)
    found = settings_of(vars(options), os.environ, UNLIMITED)
    catalog = catalog_of([options.path], options, cache=cache_of(found, writes=False))
    show = _Shown(options)
    log_compilation()
    load_machine()
    with closing(Session(catalog, open_engines(found, later=True), found)) as queries:
        context = Context(catalog=catalog, settings=found, start=queries.start, is_alone=True, warn=_tell)
        for one in follow(request, context, interval_s=options.interval, wait=time.sleep):
            show(one)


def _tell(text: str) -> None:
    print(f"savepointdb: {printable(text)}", file=sys.stderr, flush=True)


class _Shown:
    """Shows checkpoints, one after the other.

    Args:
        options: the format and the output.
    """

    def __init__(self, options: Namespace) -> None:
        self._path: str | None = options.output
        on_screen = self._path is None and sys.stdout.isatty()
        by_suffix = {_CSV: _CSV, _JSON_LINES: _JSON_LINES}.get(suffix_of(self._path).lstrip("."))
        self._format = options.format or by_suffix or (TABLE if on_screen else _JSON_LINES)
        self._columns: tuple[Column, ...] | None = None

    def __call__(self, found: CheckpointChanges) -> None:
        """Show the changes of a checkpoint."""
        if self._format == _JSON_LINES:
            append_bytes(lines_of(found), self._path)
            return
        for note in notes_of(found):
            (name, what), (_, reason) = note.items()
            _tell(
                f"{name} {'–'.join(map(str, dict.fromkeys(what if isinstance(what, list) else [what])))}: {reason}"
            )
        if self._format == _CSV:
            self._show_csv(found)
            return
        changes = found.changes
        count = counted(changes.row_count, "change")
        head = f"checkpoint {found.checkpoint_id}, {dated(found.checkpoint_at)}: {count}"
        append_bytes([f"{head}\n".encode()], self._path)
        if changes.row_count:
            write_rows(
                changes.columns,
                changes.schema,
                changes.batches(),
                format_name=TABLE,
                path=self._path,
                rows_on_screen=ROWS_ON_SCREEN if screen_width(self._path) is not None else None,
                appends=True,
            )

    def _show_csv(self, found: CheckpointChanges) -> None:
        columns = (*(Column(name, "") for name in found.schema.names[:3]), *found.changes.columns)
        if not found.changes.row_count:
            return
        if self._columns not in (None, columns):
            raise InvalidRequestError(
                f"checkpoint {found.checkpoint_id}: expected the columns of the checkpoints before it, found others",
                hint="the format jsonl has room for them",
            )
        pieces = FORMATS[_CSV].write(columns, found.schema, found.batches())
        header = next(pieces)
        append_bytes(pieces if self._columns else (header, *pieces), self._path)
        self._columns = columns
