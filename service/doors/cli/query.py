"""`savepointdb query`: run one statement over savepoints.

The last word is the statement, and all others are paths; `--savepoint` is another way to give a path. With `--saved` all are paths.
"""

from __future__ import annotations

import logging
import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import readers
from catalog import Catalog
from service.base.settings import UNLIMITED, Settings, settings_of
from service.doors.cli import output
from service.doors.cli.parser import dialect_of
from service.doors.cli.sources import cache_of, catalog_of
from service.query.encode import plan_lines, printable, size_text
from service.query.engines.registry import open_engines
from service.query.running.request import QueryRequest
from service.query.running.run import Run
from service.query.running.session import Session
from service.tasks.write.localfiles import LocalTables

if TYPE_CHECKING:
    from service.tasks.saved.query import SavedQuery


def main(options: Namespace) -> int:
    """Run the statement; return the exit code."""
    return output.ended(_query, options)


def _query(options: Namespace) -> None:
    format_name = output.output_format(options.format, options.output)
    # What the catalog logs for a service, the answer says here.
    logging.getLogger("savepointdb").addHandler(logging.NullHandler())
    settings = settings_of(vars(options), os.environ, UNLIMITED)
    paths, sql = _words(options)
    request = _request(sql, options, settings)
    catalog = catalog_of(
        paths,
        options,
        option="--savepoint" if paths == options.savepoint else "",
        cache=cache_of(settings, writes=False),
    )
    if request.schema is not None:
        # A name that is wrong is an error also where the statement names all its databases.
        catalog.schema(request.schema)
    # A user who gives the number wants to see so many.
    rows_on_screen = output.ROWS_ON_SCREEN if options.max_rows is None else None
    with closing(queries_of(catalog, settings, has_deadline=options.timeout_s is not None)) as queries:
        show_answer(
            queries, request, format_name=format_name, path=options.output, rows_on_screen=rows_on_screen
        )


def queries_of(catalog: Catalog, settings: Settings, *, has_deadline: bool) -> Session:
    """Return the queries of a command over a catalog; they must be closed."""
    output.log_compilation()
    if has_deadline:
        # Before the deadline of a query counts: if the decoder is not compiled yet, this takes seconds.
        readers.load_machine()
    # A lookup needs no DuckDB. What somebody has set for DuckDB is checked at once, by opening it.
    engines = open_engines(settings, later=settings.duckdb == type(settings.duckdb)())
    return Session(catalog, engines, settings)


def show_answer(
    queries: Session,
    request: QueryRequest,
    *,
    format_name: str,
    path: str | None,
    rows_on_screen: int | None = None,
    screen: int | None = None,
    appends: bool = False,
) -> int:
    """Run a statement and write its rows; standard error gets what they do not say. Ctrl-C cancels the query.

    Args:
        queries: run it.
        request: the statement and its limits.
        format_name, path, rows_on_screen, screen, appends: as for `write_rows`.

    Returns:
        the number of rows.

    Raises:
        QueryError: the statement means nothing, is not allowed, or fails.
        WrongUsageError: the file cannot be written.
    """
    with queries.start(request) as query:
        for warning in query.plan.assumed:
            print(f"savepointdb: {warning}; --database names another", file=sys.stderr)
        for warning in (*query.plan.skipped, *query.plan.notes):
            print(f"savepointdb: {warning}", file=sys.stderr)
        with output.ProgressLine(lambda: _progress(query)) as progress:
            columns, schema = query.columns, query.schema
            if query.plan.is_text and format_name in (output.TABLE, output.LINE):
                output.write_lines(plan_lines(columns, query.batches()), path, progress, appends=appends)
            else:
                output.write_rows(
                    columns,
                    schema,
                    query.batches(),
                    format_name=format_name,
                    path=path,
                    progress=progress,
                    rows_on_screen=rows_on_screen,
                    screen=screen,
                    appends=appends,
                )
        for file in query.incomplete:
            print(f"savepointdb: {file.text()}", file=sys.stderr)
        if query.truncated:
            print(f"savepointdb: there are more than {query.row_count} rows", file=sys.stderr)
        return query.row_count


def named_values(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Parse each `NAME=VALUE`.

    Args:
        option: the option, or the command of the shell, that they are given to.
        texts: what is given.

    Raises:
        WrongUsageError: a text is something else, or has the name of another one.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name or name in found:
            raise output.WrongUsageError(
                f"{option}: expected NAME=VALUE, each name once, found {printable(text[:100])}"
            )
        found[name] = value
    return found


def _words(options: Namespace) -> tuple[list[str], str | None]:
    """Return the paths and the statement of a command line.

    Raises:
        WrongUsageError: one of them is missing, or they are in another order.
    """
    words: list[str] = options.words
    if options.saved is not None:
        if words and (options.savepoint or _is_statement(words[-1])):
            raise output.WrongUsageError("expected SQL or --saved, and not both")
        paths, sql = words, None
    elif words:
        *paths, sql = words
    else:
        raise output.WrongUsageError("expected SQL or --saved, found neither: savepointdb query PATH SQL")
    if paths and sql is not None and _is_statement(paths[0]) and _exists(sql):
        raise output.WrongUsageError("expected PATH before SQL, found SQL first: savepointdb query PATH SQL")
    if not paths and not options.savepoint:
        if sql is not None and not _is_statement(sql):
            raise output.WrongUsageError(
                f"expected SQL behind the path {printable(sql)}: savepointdb query PATH SQL"
            )
        raise output.WrongUsageError(
            "expected the path of a savepoint, as PATH or as --savepoint PATH: savepointdb query PATH SQL"
        )
    return [*paths, *options.savepoint], sql


def _is_statement(word: str) -> bool:
    """Return whether a word of the command line is meant as SQL: it has blanks, and is neither a URL nor a path that exists."""
    return word == "-" or (len(word.split()) > 1 and "://" not in word and not _exists(word))


def _exists(word: str) -> bool:
    return os.path.exists(word) or os.path.exists(word.partition("=")[2])


def _request(sql: str | None, options: Namespace, settings: Settings) -> QueryRequest:
    given = named_values("--param", options.param or ())
    request = QueryRequest(
        sql="",
        engine=options.engine,
        max_rows=options.max_rows,
        timeout_s=options.timeout_s,
        schema=options.database,
        allow_partial=options.allow_partial,
    )
    if sql is None:
        return saved_called(options.saved, settings).asked(request, given, options.database)
    sql = sys.stdin.read() if sql == "-" else sql
    if given:
        sql, given = import_module("service.tasks.saved.query").with_values(sql, given)
    dialect = dialect_of(options, settings.queries.compat)
    return replace(request, sql=sql, parameters=given, dialect=dialect, system_tables=LocalTables())


def saved_called(name: str, settings: Settings) -> SavedQuery:
    """Return the saved query of a name.

    Raises:
        WrongUsageError: no file of saved queries was given.
        NoSuchSavedQueryError: there is none of this name.
    """
    if not settings.queries.saved_queries:
        raise output.WrongUsageError("expected --saved-queries, the file of the saved query")
    # Few commands have a saved query, and its modules take their time.
    store = import_module("service.tasks.saved.store")
    query: SavedQuery = store.SavedQueries(settings.queries.saved_queries).get(name)
    return query


def _progress(query: Run) -> str:
    read, total = query.progress.bytes_read, query.progress.bytes_total
    part = f", {min(100, read * 100 // total)} %" if total else ""
    return f"{size_text(read)} read{part}, {query.elapsed_ms / 1000:,.0f} s"
