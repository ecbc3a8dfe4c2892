"""`savepointdb diff`: what differs between two savepoints.

Without `--state` and `--key` it is a summary, for people, or in JSON as `POST /api/diff` gives it; other formats have a row for each state.
With `--state` it is the differing rows of a state, with `--key` those of a key, over all states or in one.

| exit code | when |
|---|---|
| 0 | nothing differs |
| 1 | something differs |
| 2 | the command line is wrong |
| 3 | a savepoint, or a state of it, cannot be read |
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from contextlib import closing
from itertools import chain
from time import monotonic

import orjson
import pyarrow as pa

from catalog import Catalog, CatalogError, Database, KeyedState, NoSuchTableError, Root
from catalog.errors import near_names
from catalog.history import earlier_than
from readers import ReaderError, load_machine
from service.base import settings
from service.base.errors import QueryError, near_names_hint, query_error_of
from service.base.settings import UNLIMITED, settings_of
from service.doors.cli.compile import log_compilation
from service.doors.cli.options import add_options, request_of
from service.doors.cli.outcome import (
    FAILED,
    OK,
    UNREADABLE,
    WrongUsageError,
    answered,
)
from service.doors.cli.output import (
    ROWS_ON_SCREEN,
    TABLE,
    output_format,
    screen_width,
    write_lines,
    write_rows,
)
from service.doors.cli.parser import QUERY_SETTINGS, SOURCE, add_names, add_output
from service.doors.cli.progress import ProgressLine
from service.doors.cli.sources import catalog_of, newest_of, roots_of
from service.query.encode import printable, size_text
from service.query.engines.registry import open_engines
from service.query.running.group import QueryGroup
from service.query.running.request import QueryRequest
from service.query.running.run import Run
from service.query.running.session import Session
from service.query.sql.types import Column, sql_type
from service.tasks.diff.comparison import Comparison, gone_or, rows_statement, states_statement
from service.tasks.diff.keys import KEY_COLUMNS, KEY_SCHEMA, compared_key, states_of_keys
from service.tasks.diff.running import Compared, DiffRequest, compared_of, comparison_by
from service.tasks.diff.text import text_lines
from service.tasks.task import Context

_SIDES = ("before", "after")
_MORE = "--state {}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "before",
        metavar="BEFORE",
        help=f"[NAME=]PATH. {SOURCE} Of several the newest is compared; without AFTER, with the one before it in its job.",
    )
    parser.add_argument(
        "after", metavar="AFTER", nargs="?", help="[NAME=]PATH of the other one, which may be of another job."
    )
    add_options(parser, DiffRequest, without=_SIDES)
    parser.add_argument(
        "--state",
        metavar="NAME",
        help="Show the rows of this state that differ; also a table such as timers.",
    )
    parser.add_argument(
        "--key",
        metavar="KEY",
        help="Show the rows of this key that differ: text, number, or JSON if the key has several fields.",
    )
    add_output(parser)
    add_names(parser)
    settings.add_arguments(parser, QUERY_SETTINGS, settings.UNLIMITED)


def main(options: Namespace) -> int:
    """Compare, show what differs, and return the exit code."""
    # A reader such as `head` that has seen enough saw that they differ; after an unknown error 1 would say so, too.
    return answered(lambda options: _Diff(options).run(), options, cut=FAILED, unknown=UNREADABLE)


class _Diff:
    """One run of the command.

    Args:
        options: the parsed command line.
    """

    def __init__(self, options: Namespace) -> None:
        self._format = output_format(options.format, options.output)
        # What the catalog logs for a service, the answer says here.
        logging.getLogger("savepointdb").addHandler(logging.NullHandler())
        self._options = options
        self._settings = settings_of(vars(options), os.environ, UNLIMITED)
        self._before, self._after = _databases(options)
        log_compilation()
        load_machine()

    def run(self) -> int:
        """Compare, and return the exit code."""
        options = self._options
        catalog = Catalog.of([self._before, self._after])
        with closing(Session(catalog, open_engines(self._settings), self._settings)) as queries:
            self._group = QueryGroup(queries.start)
            try:
                compared = self._compared(catalog)
                if options.key is not None:
                    return self._key(compared.operator_id)
                if options.state is not None:
                    return self._rows(self._table(options.state, compared.operator_id))
                return self._summary(compared, catalog)
            except (QueryError, ReaderError) as error:
                raise gone_or(query_error_of(error), (self._before, self._after)) from error

    def _compared(self, catalog: Catalog) -> Compared:
        request = request_of(
            DiffRequest, self._options, without=_SIDES, before=self._before.name, after=self._after.name
        )
        try:
            return compared_of(request, catalog)
        except NoSuchTableError as error:
            hint = near_names_hint(error.near)
            raise WrongUsageError(
                f"--operator: there is no operator {request.operator!r}{f' ({hint})' if hint else ''}"
            ) from error

    def _summary(self, compared: Compared, catalog: Catalog) -> int:
        asked = QueryRequest(sql="", timeout_s=self._options.timeout_s)
        context = Context(
            catalog=catalog, settings=self._settings, start=self._group.start, request=lambda: asked
        )
        with self._progress():
            comparison = comparison_by(compared, context)
        options = self._options
        if self._format == TABLE:
            write_lines(text_lines(comparison, screen_width(options.output), _MORE), options.output)
        elif self._format == "json":
            text = orjson.dumps(comparison.to_dict(), option=orjson.OPT_INDENT_2).decode()
            write_lines([text], options.output)
        else:
            rows = comparison.rows
            columns = [Column(field.name, sql_type(field.type)) for field in rows.schema]
            write_rows(columns, rows.schema, rows.to_batches(), format_name=self._format, path=options.output)
        return _exit_code(comparison)

    def _rows(self, table: str) -> int:
        """Show the differing rows of a table."""
        statement = rows_statement(self._before.name, self._after.name, table)
        with self._started(statement) as query, self._progress() as progress:
            batches = query.batches()
            first = next(batches, None)
            rows: Iterable[pa.RecordBatch] = () if first is None else chain([first], batches)
            write_rows(
                query.columns,
                query.schema,
                rows,
                format_name=self._format,
                path=self._options.output,
                progress=progress,
                rows_on_screen=ROWS_ON_SCREEN,
            )
            return OK if first is None else FAILED

    def _key(self, operator_id: str | None) -> int:
        """Show the differing rows of a key."""
        table = None if self._options.state is None else self._table(self._options.state, operator_id)
        states = [
            state
            for state in states_of_keys(self._before, self._after)
            if operator_id in (None, state.operator_id)
            and (table is None or state.table.name.casefold() == table.casefold())
        ]
        if not any(_has_key(state, self._options.key) for state in states):
            raise WrongUsageError(
                f"no state has keys like {self._options.key!r}"
                if states
                else "expected a state with keys, found none"
            )
        found = (
            batch
            for state in states
            for batch in compared_key(self._before, self._after, state, self._options.key)
        )
        first = next(found, None)
        if first is None:
            told = f"the key {self._options.key!r} differs in nothing: both have the same of it, or neither has it"
            print(f"savepointdb: {printable(told)}", file=sys.stderr)
        rows: Iterable[pa.RecordBatch] = () if first is None else chain([first], found)
        write_rows(KEY_COLUMNS, KEY_SCHEMA, rows, format_name=self._format, path=self._options.output)
        return OK if first is None else FAILED

    def _started(self, statement: str) -> Run:
        return self._group.start(QueryRequest(sql=statement, timeout_s=self._options.timeout_s))

    def _progress(self) -> ProgressLine:
        started = monotonic()

        def text() -> str:
            read, total = self._group.bytes_read()
            part = f" of {size_text(total)}" if total else ""
            return f"{size_text(read)}{part} compared, {monotonic() - started:,.0f} s"

        return ProgressLine(text)

    def _table(self, name: str, operator_id: str | None) -> str:
        """Return the table of a state, by its name in Flink or that of its table."""
        with self._started(states_statement(self._before.name, self._after.name, operator_id)) as query:
            rows = [row for batch in query.batches() for row in batch.to_pylist()]
        known = {row["table_name"]: row["state_name"] for row in rows if row["table_name"] is not None}
        folded = name.casefold()
        found = [table for table, state in known.items() if folded in (table.casefold(), state.casefold())]
        if len(found) > 1:
            raise WrongUsageError(
                f"--state: {len(found)} states are called {name!r}: {', '.join(sorted(found))}; name one of these"
            )
        if found:
            return str(found[0])
        if operator_id is None:
            for database in (self._after, self._before):
                try:
                    return database.table(name).name
                except NoSuchTableError:
                    continue
        hint = near_names_hint(near_names(name, [*known, *known.values()]))
        raise WrongUsageError(f"--state: there is no state {name!r}{f' ({hint})' if hint else ''}")


def _databases(options: Namespace) -> tuple[Database, Database]:
    """Return the two savepoints; of a folder with several the newest, which is said."""
    if options.after is None:
        return _newest_two(options)
    given = [options.before, options.after]
    found = [newest_of(catalog_of([source], options), "compared") for source in given]
    if found[0].name.casefold() == found[1].name.casefold():
        roots = roots_of(given)
        found = [
            newest_of(catalog_of([Root(path=root.path, label=label)], options), "compared", is_told=False)
            for label, root in zip(_SIDES, roots, strict=True)
        ]
    return found[0], found[1]


def _newest_two(options: Namespace) -> tuple[Database, Database]:
    """Return the newest savepoint of a folder, and the one before it in its job."""
    catalog = catalog_of([options.before], options)
    after = catalog.newest
    for before in () if after is None else earlier_than(after, catalog.jobs()):
        try:
            before.describe()
        except ReaderError as error:
            told = f"{before.path} cannot be read: {query_error_of(error).message}"
            print(f"savepointdb: {printable(told)}; the one before it is compared", file=sys.stderr)
        else:
            assert after is not None
            return before, after
    raise WrongUsageError(
        f"expected AFTER, or a folder with two savepoints of one job, found {options.before} alone"
    )


def _has_key(state: KeyedState, text: str) -> bool:
    try:
        state.parse(text)
    except CatalogError:
        return False
    return True


def _exit_code(comparison: Comparison) -> int:
    if comparison.errors:
        return UNREADABLE
    return OK if comparison.is_equal else FAILED
