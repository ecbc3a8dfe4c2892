"""`savepointdb query`: run one statement over savepoints."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from contextlib import closing

from readers import load_machine
from service.commands.compile import log_compilation
from service.commands.outcome import ended
from service.commands.output import check_output, write_rows
from service.commands.progress import ProgressLine
from service.commands.sources import cache_of, catalog_of
from service.engines.registry import open_engines
from service.queries.registry import Queries
from service.queries.request import QueryRequest
from service.settings import settings_of


def main(options: Namespace) -> int:
    """Run the statement; return the exit code."""
    return ended(_query, options)


def _query(options: Namespace) -> None:
    check_output(options.format, options.output)
    settings = settings_of(vars(options), os.environ)
    sql = sys.stdin.read() if options.sql == "-" else options.sql
    catalog = catalog_of(options.savepoint, options, cache=cache_of(settings, writes=False))
    # Before the deadline of the query counts: if the decoder is not compiled yet, this takes seconds.
    log_compilation()
    load_machine()
    with closing(Queries(catalog, open_engines(settings), settings)) as queries:
        request = QueryRequest(
            sql=sql,
            engine=options.engine,
            max_rows=options.max_rows,
            timeout_s=options.timeout_s,
            allow_partial=options.allow_partial,
        )
        with queries.start(request) as query:
            with ProgressLine(query):
                columns, schema = query.columns, query.schema
                write_rows(columns, schema, query.batches(), format_name=options.format, path=options.output)
            for file in query.incomplete:
                print(f"savepointdb: {file.text()}", file=sys.stderr)
            if query.truncated:
                print(f"savepointdb: there are more than {query.row_count} rows", file=sys.stderr)
