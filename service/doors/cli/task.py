"""The commands of use cases: arguments from the fields of a request, the outcome as text, JSON, or rows in any of their formats.

`savepointdb NAME PATH …`: PATH is a savepoint, or a folder, whose newest savepoint is meant. A use case that makes something shows what
as text, or with `--json`.
"""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace
from collections.abc import Container, Sequence
from contextlib import ExitStack, closing
from dataclasses import MISSING, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import orjson

from catalog import Catalog
from readers import load_machine
from service.base import machine, settings
from service.base.errors import InvalidRequestError, QueryError
from service.base.settings import UNLIMITED, Settings, path_map_of, settings_of
from service.doors.cli import output
from service.doors.cli.parser import (
    FLINK_SETTINGS,
    QUERY_SETTINGS,
    STORAGE_SETTINGS,
    add_names,
    add_no_cache,
    add_output,
)
from service.doors.cli.sources import add_paths, cache_of, opened
from service.query.encode import printable, size_text
from service.query.encode.formats import columns_of
from service.query.engines.registry import open_engines
from service.tasks.registry import TASKS
from service.tasks.task import (
    Context,
    Option,
    Outcome,
    RowStream,
    Task,
    TaskRequest,
    options_of,
    storage_options,
)

if TYPE_CHECKING:
    from doctor import Against
    from service.query.engines.engine import Engine
    from service.query.running.request import QueryRequest
    from service.query.running.run import Run
    from service.query.running.session import QueryGroup, Session


_Asked = TypeVar("_Asked", bound=TaskRequest)
# PATH says it, or BEFORE and AFTER.
BY_PATH = frozenset({"database", "before", "after"})
_TEXT, _JSON = "text", "json"
# Of DuckDB: a join of 2 × 4 million rows takes 475 MiB in all without a limit, and 380 MiB with this one, in the same time.
_LEAST_MB = 128
_THREAD_MB = 48  # some buffers of a thread cannot be spilled
_OF_SAVEPOINTS = ("flink_savepoint_directory", "flink_savepoint_timeout_s")
_SOURCE = "source"  # the name of the savepoint that is changed, where a script has others, too


def add_options(
    parser: argparse.ArgumentParser, kind: type[TaskRequest], without: Container[str] = BY_PATH
) -> None:
    """Add an argument for each field of a class of requests.

    Args:
        parser: of the command.
        kind: the class.
        without: fields that the command has in its own way.
    """
    for one in options_of(kind):
        if one.name not in without:
            _add(parser, one)


def request_of(
    kind: type[_Asked], options: Namespace, without: Container[str] = BY_PATH, **own: Any
) -> _Asked:
    """Return the request that the options of a command line make.

    Args:
        kind: its class.
        options: the parsed command line.
        without: fields that are no arguments.
        **own: their values, if they have no defaults.

    Raises:
        WrongUsageError: a value is out of its limits.
    """
    # A line of the shell has the database that is chosen there.
    given = {
        one.name: _value(one, getattr(options, one.name), options)
        for one in options_of(kind)
        if one.name not in own
        and (one.name not in without or (one.name == "database" and hasattr(options, one.name)))
    }
    try:
        return kind(**given, **own)
    except InvalidRequestError as error:
        raise output.WrongUsageError(_as_typed(error.message, kind)) from error


def _value(one: Option, given: Any, options: Namespace) -> Any:
    if one.file is not None and (given is None or getattr(options, one.file) is not None):
        return _file_text(one, given, getattr(options, one.file))
    if one.is_mapping:
        return dict(_named(one, text) for text in given or ())
    if one.has_commas:
        given = [part.strip() for text in given or () for part in text.split(",")]
    if one.is_list:
        return tuple(given or ())
    return sys.stdin.read() if one.reads_input and given == "-" else given


def _named(one: Option, text: str) -> tuple[str, Any]:
    name, separator, value = text.rpartition("=")
    if not separator or not value.isdecimal():
        raise output.WrongUsageError(f"--{one.name}: expected {one.metavar}, found {text!r}")
    return name, one.kind(value)


def _file_text(one: Option, given: str | None, file: str | None) -> str:
    """Return a text that stands in a file.

    Raises:
        WrongUsageError: it is given twice, or not at all, or the file cannot be read.
    """
    if file is None or given is not None:
        what = (one.metavar or one.name).lower()
        raise output.WrongUsageError(f"expected a {what}, either as an argument or by --{one.file}")
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise output.WrongUsageError(f"--{one.file}: cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise output.WrongUsageError(f"--{one.file}: expected UTF-8 in {file}: {error.reason}") from error


def _add(parser: argparse.ArgumentParser, one: Option) -> None:
    flag = f"--{one.flag or one.name.replace('_', '-')}"
    text = one.help[0].upper() + one.help[1:]
    is_several = one.is_list or one.is_mapping
    if one.argument:
        metavar = one.metavar or one.name.upper()
        parser.add_argument(one.name, metavar=metavar, nargs="?" if one.file else None, help=text)
        if one.file is not None:
            parser.add_argument(f"--{one.file}", metavar="FILE", help=f"File to read {metavar} from.")
    elif one.kind is bool:
        parser.add_argument(flag, dest=one.name, action="store_true", help=text)
    else:
        parser.add_argument(
            flag,
            dest=one.name,
            type=str if one.is_mapping else one.kind,
            default=None if is_several or one.default is MISSING else one.default,
            action="append" if is_several else "store",
            required=one.is_required,
            choices=one.choices or None,
            metavar=None if one.choices else one.metavar or one.name.upper(),
            help=text,
        )


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the arguments of a use case."""
    task = TASKS[name].load()
    if task.has_source:
        add_paths(parser, [one.name for one in options_of(task.request)])
    add_options(parser, task.request)
    if task.reads_others:
        parser.add_argument(
            "--savepoint",
            dest="others",
            action="append",
            default=[],
            metavar="[NAME=]PATH",
            help="Another savepoint that the script may read: FROM name.table. May be repeated.",
        )
    if task.makes:
        parser.add_argument("--json", action="store_true", help="Show what is made as a JSON object.")
    elif task.has_rows:
        add_output(parser)
    else:
        formats = (_TEXT, _JSON, *task.documents)
        parser.add_argument(
            "--format",
            # `table` is an older name of `text`.
            choices=(*formats, output.TABLE),
            help="Format of the output; if not given, by the suffix of --output, or else text.",
        )
        parser.add_argument("--output", metavar="FILE", help="Output file; standard output if not given.")
    if task.asks_flink:
        settings.add_arguments(
            parser, (*FLINK_SETTINGS, *_OF_SAVEPOINTS, *STORAGE_SETTINGS), first=("flink",)
        )
        return
    add_names(parser)
    settings.add_arguments(parser, QUERY_SETTINGS, UNLIMITED)
    add_no_cache(parser)


def main(options: Namespace) -> int:
    """Run the use case, show its outcome, and return its exit code."""
    task = TASKS[options.command].load()
    return output.ended(lambda options: _run(task, options), options, task.exits)


def _run(task: Task[Any, Any], options: Namespace) -> int:
    sources = _sources(task, options)
    asked = request_of(task.request, options)
    if task.has_rows:
        output.output_format(options.format, options.output)  # before anything is read
    found = settings_of(vars(options), os.environ, UNLIMITED)
    if task.makes:
        found = _with_little_memory(found)
    output.log_compilation()
    cache = cache_of(found, writes=False)
    catalog, names = opened(sources, options, cache) if sources else (Catalog.of(()), {})
    return answer(task, replace(asked, **names), options, catalog, found)


def _sources(task: Task[Any, Any], options: Namespace) -> list[str]:
    """Return the savepoints of a command line; what is changed has a name where there are others."""
    others = options.others if task.reads_others else []
    if not task.has_source:
        return list(others)
    if not others:
        return [getattr(options, "before", None) or options.path]
    options.database = _SOURCE
    return [f"{_SOURCE}={options.path}", *others]


def _with_little_memory(settings: Settings) -> Settings:
    """Return settings by which DuckDB spills soon, unless they say how much memory it has: a write takes some 400 MB at any size."""
    if settings.duckdb.memory_limit:
        return settings
    threads = settings.duckdb.threads or machine.cores()
    return settings.replaced({"memory_limit": f"{max(_LEAST_MB, threads * _THREAD_MB)}MB"})


def answer(
    task: Task[Any, Any],
    asked: TaskRequest,
    options: Namespace,
    catalog: Catalog,
    settings: Settings,
    queries: Session | None = None,
) -> int:
    """Run a use case, show its outcome, and return its exit code.

    Args:
        task: the use case.
        asked: its request.
        options: the command, its format and its output.
        catalog: the savepoints.
        settings: the limits.
        queries: over the savepoints, if they are open already.

    Raises:
        CatalogError, QueryError, ReaderError: as the use case says.
    """
    with closing(_Statements(catalog, settings, queries)) as statements:
        texts = [lambda: f"{options.command}{statements.progress()}"]
        with output.ProgressLine(lambda: printable(texts[-1]())) as line:
            shown = _Shown(task, options, line)
            context = Context(
                catalog=catalog,
                settings=settings,
                start=statements.start,
                request=_asked,
                is_alone=True,
                warn=shown.warn,
                note=shown.note,
                progress=texts.append,
                worker=statements.worker,
                against=lambda paths: _against(paths, options),
            )
            try:
                outcome: Outcome = task.run(asked, context)
            except QueryError as error:
                error.message = _as_typed(error.message, task.request)
                raise
            try:
                shown.show(outcome)
            except BrokenPipeError:
                output.discard_output()
        return outcome.exit_code


def _asked() -> QueryRequest:
    """Return what all queries of a command have: they may read files of this machine."""
    request = import_module("service.query.running.request")
    tables = import_module("service.tasks.write.localfiles").LocalTables()
    asked: QueryRequest = request.QueryRequest(sql="", system_tables=tables)
    return asked


def _against(paths: Sequence[str], options: Namespace) -> tuple[Against, ...]:
    """Return what files say of a new job."""
    found = settings_of(vars(options), os.environ)
    known: tuple[Against, ...] = import_module("doctor").against_of(
        paths, path_map=path_map_of(vars(options), found), options=storage_options(found)
    )
    return known


def _as_typed(message: str, kind: type[TaskRequest]) -> str:
    """Return the message of an error; an option that begins it is shown as it is typed."""
    name, colon, rest = message.partition(":")
    flags = {one.name: one.flag or one.name for one in options_of(kind) if not one.argument}
    return f"--{flags[name].replace('_', '-')}{colon}{rest}" if name in flags else message


class _Statements:
    """The statements of a command. What runs them is loaded when the first one starts: a command that scans needs none of it.

    Args:
        catalog: the databases.
        settings: the limits.
        queries: what runs them, if it is open already.
    """

    def __init__(self, catalog: Catalog, settings: Settings, queries: Session | None = None) -> None:
        self.catalog = catalog
        self._queries = queries
        self._settings = settings
        self._group: QueryGroup[Run] | None = None
        self._opened = ExitStack()

    def start(self, request: QueryRequest) -> Run:
        """Start a statement.

        Raises:
            QueryError: it means nothing.
        """
        if self._group is None:
            from service.query.running.session import QueryGroup

            self._group = QueryGroup(self._running().start)
        return self._group.start(request)

    def worker(self, name: str, size_bytes: int) -> Engine | None:
        """Return the engine that makes and writes data; None for this process.

        Raises:
            InvalidRequestError: there is no such engine.
        """
        return self._running().worker(name, size_bytes)

    def _running(self) -> Session:
        if self._queries is None:
            from service.query.running.session import Session

            load_machine()
            opened = Session(self.catalog, open_engines(self._settings, later=True), self._settings)
            self._queries = self._opened.enter_context(closing(opened))
        return self._queries

    def progress(self) -> str:
        """Return how many bytes were read, behind a colon; nothing if no statement has started."""
        if self._group is None:
            return ""
        read, total = self._group.bytes_read()
        return f": {size_text(read)}{f' of {size_text(total)}' if total else ''} read"

    def close(self) -> None:
        """End what runs the statements."""
        self._opened.close()


class _Shown:
    """Shows an outcome; to a reader of text, its first lines as soon as they are known.

    Args:
        task: the use case.
        options: the format and the output.
        line: the line of progress, to hide meanwhile.
    """

    def __init__(self, task: Task[Any, Any], options: Namespace, line: output.ProgressLine) -> None:
        self._task = task
        self._path: str | None = None if task.makes else options.output
        self._line = line
        self._notes = 0
        if task.makes:
            self._format = _JSON if options.json else _TEXT
        elif task.has_rows:
            self._format = output.output_format(options.format, options.output)
        else:
            suffixes = {_JSON: _JSON} | {
                suffix: name for name, one in task.documents.items() for suffix in one.suffixes
            }
            self._format = options.format or suffixes.get(output.suffix_of(options.output), _TEXT)

    def note(self, line: str) -> None:
        """Show a line."""
        if not self._task.has_rows and self._format != _JSON and self._path is None:
            self._print(line, sys.stdout)
            self._notes += 1

    def warn(self, text: str) -> None:
        """Tell what is known beside the outcome."""
        self._print(f"savepointdb: {printable(text)}", sys.stderr)

    def _print(self, line: str, stream: TextIO) -> None:
        self._line.hide()
        print(line, file=stream, flush=True)
        self._line.show()

    def show(self, outcome: Any) -> None:
        """Show what was not shown yet."""
        task = self._task
        if isinstance(getattr(outcome, "rows", None), RowStream) or (
            task.has_rows and (task.table or self._format not in (output.TABLE, _JSON))
        ):
            self._show_rows(outcome)
            return
        if self._format in task.documents:
            lines = [task.documents[self._format].text(outcome).rstrip()]
        elif self._format == _JSON:
            told = outcome.to_dict()
            shown = told if task.listed is None else told[task.listed]
            lines = [orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode()]
        else:
            lines = [*outcome.lines(output.screen_width(self._path))][self._notes :]
        output.write_lines(lines, self._path, self._line)
        sys.stdout.flush()

    def _show_rows(self, outcome: Any) -> None:
        """Write the rows; without any of a table no file is made, and a sentence says so."""
        is_table = bool(self._task.table) and self._format == output.TABLE
        rows = getattr(outcome, self._task.table) if is_table else outcome.rows
        if isinstance(rows, RowStream):
            stream, most = rows, output.ROWS_ON_SCREEN
        elif rows.num_rows or not outcome.exit_code:
            columns = columns_of(rows.schema, self._task.json_columns)
            stream, most = RowStream(columns=columns, schema=rows.schema, batches=rows.to_batches()), None
        else:
            self.warn(next(iter(outcome.lines(None))))
            return
        output.write_rows(
            stream.columns,
            stream.schema,
            stream.batches,
            format_name=self._format,
            path=self._path,
            progress=self._line,
            rows_on_screen=most,
        )
