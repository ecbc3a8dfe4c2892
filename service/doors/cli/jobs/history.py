"""`savepointdb history`: what each state of a job has of a key, in all its checkpoints."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from contextlib import closing

from catalog import CatalogError, KeyedState
from readers import load_machine
from service.base.errors import InvalidRequestError, query_error_of
from service.base.settings import UNLIMITED, settings_of
from service.doors.cli.compile import log_compilation
from service.doors.cli.outcome import NothingFoundError, WrongUsageError, ended
from service.doors.cli.output import TABLE, output_format, write_rows
from service.doors.cli.sources import cache_of, catalog_of
from service.query.encode.columns import JSON_TEXT
from service.query.engines.registry import open_engines
from service.query.serving.registry import Queries
from service.query.serving.request import QueryRequest
from service.query.sql.types import Column, sql_type
from service.tasks.history.text import folded_rows, rows_of
from service.tasks.history.timeline import KeyTimelines, chosen_job, timelines_of

_LISTED = 5
_JSON = frozenset({"namespace", "map_key", "value"})


def main(options: Namespace) -> int:
    """Show the timeline of the key; return the exit code."""
    return ended(_history, options)


def _history(options: Namespace) -> None:
    format_name = output_format(options.format, options.output)
    if options.last is not None and options.last < 1:
        raise WrongUsageError(f"--last: expected 1 or more, found {options.last}")
    settings = settings_of(vars(options), os.environ, UNLIMITED)
    catalog = catalog_of([options.path], options, cache=cache_of(settings, writes=False))
    try:
        job = chosen_job(catalog, options.job)
    except InvalidRequestError as error:
        raise WrongUsageError(f"{error.message}; {error.hint} (--job)") from error
    except CatalogError as error:
        told = query_error_of(error)
        raise WrongUsageError(told.told) from error
    log_compilation()
    load_machine()

    known: dict[str, bool] = {}

    def is_wanted(state: KeyedState) -> bool:
        asked = ((options.operator, (state.operator, state.operator_id)), (options.state, (state.state,)))
        known[f"{state.operator} › {state.state}"] = is_asked = all(
            name is None or name.casefold() in map(str.casefold, names) for name, names in asked
        )
        return is_asked

    with closing(Queries(catalog, open_engines(settings), settings)) as queries:
        found = timelines_of(
            job,
            catalog.history(job),
            options.key,
            queries.start,
            QueryRequest(sql=""),
            last=options.last,
            is_wanted=is_wanted,
        )
    if known and not any(known.values()):
        more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
        raise WrongUsageError(
            f"--operator and --state leave no state; job {job.name} has {', '.join(list(known)[:_LISTED])}{more}"
        )
    _tell(found)
    if not any(state.has_rows for state in found.states):
        reasons = f": {', or '.join(found.misses)}" if found.misses else ""
        raise NothingFoundError(f"no state of job {job.name} has the key {options.key!r}{reasons}")
    is_table = format_name == TABLE
    rows = folded_rows(found) if is_table else rows_of(found)
    columns = [
        Column(field.name, JSON_TEXT if not is_table and field.name in _JSON else sql_type(field.type))
        for field in rows.schema
    ]
    write_rows(columns, rows.schema, [rows], format_name=format_name, path=options.output)


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
