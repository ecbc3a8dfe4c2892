"""`savepointdb history`: what each state of a job has of a key, in all its checkpoints."""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace
from contextlib import closing

from catalog import CatalogError
from readers import load_machine
from service.base import settings
from service.base.errors import InvalidRequestError, query_error_of
from service.base.settings import UNLIMITED, settings_of
from service.doors.cli.compile import log_compilation
from service.doors.cli.options import add_options, request_of
from service.doors.cli.outcome import NothingFoundError, WrongUsageError, ended
from service.doors.cli.output import TABLE, output_format, write_rows
from service.doors.cli.parser import QUERY_SETTINGS, SOURCE, add_names, add_no_cache, add_output
from service.doors.cli.sources import cache_of, catalog_of
from service.query.encode.formats import JSON_TEXT
from service.query.engines.registry import open_engines
from service.query.running.session import Session
from service.query.sql.types import Column, sql_type
from service.tasks.history.text import folded_rows, rows_of
from service.tasks.history.timeline import HistoryRequest, KeyTimelines, run
from service.tasks.task import Context

_JSON = frozenset({"namespace", "map_key", "value"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "path", metavar="PATH", help=f"{SOURCE} Of a folder with several jobs, --job names one."
    )
    add_options(parser, HistoryRequest)
    add_output(parser)
    add_names(parser)
    settings.add_arguments(parser, QUERY_SETTINGS, settings.UNLIMITED)
    add_no_cache(parser)


def main(options: Namespace) -> int:
    """Show the timeline of the key; return the exit code."""
    return ended(_history, options)


def _history(options: Namespace) -> None:
    format_name = output_format(options.format, options.output)
    request = request_of(HistoryRequest, options)
    limits = settings_of(vars(options), os.environ, UNLIMITED)
    catalog = catalog_of([options.path], options, cache=cache_of(limits, writes=False))
    log_compilation()
    load_machine()
    with closing(Session(catalog, open_engines(limits), limits)) as queries:
        found = _found(request, Context(catalog=catalog, settings=limits, start=queries.start))
    _tell(found)
    if not any(state.has_rows for state in found.states):
        reasons = f": {', or '.join(found.misses)}" if found.misses else ""
        raise NothingFoundError(f"no state of job {found.job} has the key {request.key!r}{reasons}")
    is_table = format_name == TABLE
    rows = folded_rows(found) if is_table else rows_of(found)
    columns = [
        Column(field.name, JSON_TEXT if not is_table and field.name in _JSON else sql_type(field.type))
        for field in rows.schema
    ]
    write_rows(columns, rows.schema, [rows], format_name=format_name, path=options.output)


def _found(request: HistoryRequest, context: Context) -> KeyTimelines:
    try:
        return run(request, context)
    except InvalidRequestError as error:
        raise WrongUsageError(
            error.message if error.hint is None else f"{error.message}; {error.hint} (--job)"
        ) from error
    except CatalogError as error:
        raise WrongUsageError(query_error_of(error).told) from error


def _tell(found: KeyTimelines) -> None:
    """Name on standard error what the timeline lacks."""
    lacking = {
        f"{point.database}: {point.error}" for state in found.states for point in state.points if point.error
    }
    for text in sorted(lacking):
        print(f"savepointdb: not all of it can be read: {text}", file=sys.stderr)
    for state in found.states:
        if state.is_cut:
            print(f"savepointdb: {state.table_name} has more rows of the key than are shown", file=sys.stderr)
