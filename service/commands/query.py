"""`savepointdb query`: run one statement over savepoints."""

from __future__ import annotations

import logging
import os
import sys
from argparse import Namespace
from contextlib import closing

from readers import load_machine
from service.commands.compile import log_compilation
from service.commands.outcome import ended
from service.commands.output import LINE, ROWS_ON_SCREEN, TABLE, check_output, write_lines, write_rows
from service.commands.parser import dialect_of
from service.commands.progress import ProgressLine
from service.commands.sources import cache_of, catalog_of
from service.encode import plan_lines, size_text
from service.engines.registry import open_engines
from service.queries.query import Query
from service.queries.registry import Queries
from service.queries.request import QueryRequest
from service.settings import UNLIMITED, settings_of


def main(options: Namespace) -> int:
    """Run the statement; return the exit code."""
    return ended(_query, options)


def _query(options: Namespace) -> None:
    check_output(options.format, options.output)
    # What the catalog logs for a service, the answer says here.
    logging.getLogger("savepointdb").addHandler(logging.NullHandler())
    settings = settings_of(vars(options), os.environ, UNLIMITED)
    sql = sys.stdin.read() if options.sql == "-" else options.sql
    catalog = catalog_of(
        options.savepoint, options, option="--savepoint", cache=cache_of(settings, writes=False)
    )
    if options.database is not None:
        # A name that is wrong is an error also where the statement names all its databases.
        catalog.schema(options.database)
    # Before the deadline of the query counts: if the decoder is not compiled yet, this takes seconds.
    log_compilation()
    load_machine()
    with closing(Queries(catalog, open_engines(settings), settings)) as queries:
        request = QueryRequest(
            sql=sql,
            engine=options.engine,
            max_rows=options.max_rows,
            timeout_s=options.timeout_s,
            dialect=dialect_of(options, settings.queries.compat),
            schema=options.database,
            allow_partial=options.allow_partial,
        )
        with queries.start(request) as query:
            for warning in query.plan.assumed:
                print(f"savepointdb: {warning}; --database names another", file=sys.stderr)
            for warning in query.plan.skipped:
                print(f"savepointdb: {warning}", file=sys.stderr)
            with ProgressLine(lambda: _progress(query)) as progress:
                _write(query, progress, options)
            for file in query.incomplete:
                print(f"savepointdb: {file.text()}", file=sys.stderr)
            if query.truncated:
                print(f"savepointdb: there are more than {query.row_count} rows", file=sys.stderr)


def _progress(query: Query) -> str:
    read, total = query.progress.bytes_read, query.progress.bytes_total
    part = f", {min(100, read * 100 // total)} %" if total else ""
    return f"{size_text(read)} read{part}, {query.elapsed_ms / 1000:,.0f} s"


def _write(query: Query, progress: ProgressLine, options: Namespace) -> None:
    columns, schema = query.columns, query.schema
    if query.plan.is_text and options.format in (TABLE, LINE):
        write_lines(plan_lines(columns, query.batches()), options.output, progress)
        return
    write_rows(
        columns,
        schema,
        query.batches(),
        format_name=options.format,
        path=options.output,
        progress=progress,
        # A user who gives the number wants to see so many.
        rows_on_screen=ROWS_ON_SCREEN if options.max_rows is None else None,
    )
