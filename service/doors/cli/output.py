"""What a command prints, and how it ends: rows go to standard output or a file, errors and progress to standard error, a line each.

A file and a pipe get every row, whole. A screen gets the first rows, in columns that fit; standard error tells what it does not show.
Progress is shown on a terminal only.

| exit code | when |
|---|---|
| 0 | the command succeeded |
| 1 | the query failed, a lookup found nothing, or an inspected savepoint lacks files |
| 2 | the command line is wrong |
| 3 | a savepoint cannot be read |
| 130 | Ctrl-C |

Use cases may have exit codes of their own (`service.tasks.task.Exits`): `check` has, and of `bisect`, `diff` and `test` 1 is an answer, so
that a query that fails ends them with 2.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import threading
import traceback
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import BinaryIO, Literal

import pyarrow as pa

from catalog import CatalogError
from readers import ReaderError, compile_log, take_lost_pages
from service.base.errors import InvalidRequestError, QueryError, SavepointError, is_full, query_error_of
from service.base.settings import InvalidSettingError
from service.query.encode import (
    FORMATS,
    counted,
    fitting_columns,
    html_lines,
    markdown_lines,
    printable,
    split_suffix,
    table_lines,
    value_lines,
)
from service.query.encode.formats import Column
from service.tasks.task import Exits

OK, FAILED, WRONG_USAGE, UNREADABLE, INTERRUPTED = 0, 1, 2, 3, 130


_USUAL = Exits()
_FIRST_AFTER_S = 1.0
_AGAIN_AFTER_S = 0.2
# To the first column, and clear to the end of the line.
_CLEAR = "\r\033[K"
TABLE, LINE = "table", "line"
MARKUP = {"markdown": markdown_lines, "html": html_lines}
_MORE_SUFFIXES = {
    "md": "markdown",
    "markdown": "markdown",
    "html": "html",
    "htm": "html",
    "ndjson": "jsonl",
    "pq": "parquet",
}
# A text table in a file that is called so would be read as something else.
_NOT_WRITTEN = frozenset({"avro", "bz2", "feather", "gz", "orc", "tsv", "xlsx", "xml", "xz", "zip", "zst"})
ROWS_ON_SCREEN = 40
BINARY = frozenset({"arrow", "parquet"})


class WrongUsageError(Exception):
    """A command line that makes no sense."""


class OutputError(Exception):
    """What is there for the rows cannot take them: a full disk, for example."""


def ended(command: Callable[[Namespace], int | None], options: Namespace, exits: Exits = _USUAL) -> int:
    """Run a command and return its exit code, or 0. Errors go to standard error, with `--verbose` after a traceback.

    Args:
        command: the command.
        options: of the command line.
        exits: the exit codes after errors.
    """
    try:
        return command(options) or OK
    except (WrongUsageError, InvalidSettingError) as error:
        return reported(str(error), exits.wrong_usage, options)
    except (QueryError, CatalogError, ReaderError) as error:
        failure = query_error_of(error)
        code = exits.unreadable if isinstance(failure, SavepointError) else exits.failed
        if isinstance(failure, InvalidRequestError):
            code = exits.invalid or code
        return reported(failure.told, code, options)
    except OutputError as error:
        return reported(str(error), exits.failed, options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return OK
    except Exception as error:  # libraries raise anything
        if isinstance(error, OSError) and is_full(error):
            return reported(query_error_of(error).told, exits.failed, options)
        if exits.unexpected is None:
            raise
        unexpected(error, verbose=options.verbose)
        return exits.unexpected


def discard_output() -> None:
    """Write what follows nowhere: a reader such as `head` has seen enough."""
    # Python would report the broken pipe again when it flushes at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def unexpected(error: Exception, *, verbose: bool) -> int:
    """Report an error that no command expects, in one line; return the exit code."""
    if verbose:
        traceback.print_exception(error)
    message = " ".join(str(error).split())
    # What the system refuses, such as room on a full disk, is no defect of the program.
    report = "" if isinstance(error, OSError) else "; please report it"
    hint = "" if verbose else f" (--verbose shows where{report})"
    print(f"savepointdb: unexpected {type(error).__name__}: {message}{hint}", file=sys.stderr)
    return FAILED


def reported(message: str, code: int, options: Namespace) -> int:
    """Report an error in one line, with `--verbose` after a traceback; return the exit code."""
    if options.verbose:
        traceback.print_exc()
    loss = take_lost_pages()
    text = message if loss is None else str(loss)
    print(f"savepointdb: {' '.join(text.split())}", file=sys.stderr)
    return code


class ProgressLine:
    """Shows how far something is. Use it in `with`, around what takes long, and hide it while rows are shown.

    Args:
        text: returns what to show.
    """

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text
        self._lock = threading.Lock()
        self._is_hidden = self._is_drawn = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def hide(self) -> None:
        """Clear the line; it does not come again until `show`."""
        with self._lock:
            self._is_hidden = True
            self._clear()

    def show(self) -> None:
        """Let the line come again. The cursor must be at the start of a line."""
        with self._lock:
            self._is_hidden = False

    def _run(self) -> None:
        wait_s = _FIRST_AFTER_S
        while not self._ended.wait(wait_s):
            with self._lock:
                if not self._is_hidden:
                    self._draw()
            wait_s = _AGAIN_AFTER_S
        with self._lock:
            self._clear()

    def _draw(self) -> None:
        sys.stderr.write(f"{_CLEAR}{self._text()}")
        sys.stderr.flush()
        self._is_drawn = True

    def _clear(self) -> None:
        if self._is_drawn:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._is_drawn = False

    def __enter__(self) -> ProgressLine:
        if sys.stderr.isatty():
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()


def output_format(given: str | None, path: str | None) -> str:
    """Return the format of the rows: the given one, or else the one that the suffix of the file names, or else `table`.

    Raises:
        WrongUsageError: the format is binary and the output a terminal, or the suffix names a format that is not written.
    """
    if given is None:
        refuse_other_suffix(path)
    name = given or suffix_format(path) or TABLE
    if name in BINARY and screen_width(path) is not None:
        raise WrongUsageError(f"{name} is not for terminals: name a file with --output, or redirect")
    return name


def suffix_format(path: str | None) -> str | None:
    """Return the format of rows that the suffix of a file names; None for another suffix, and for standard output."""
    suffix = suffix_of(path)
    known = split_suffix(f".{suffix}")[1]
    return _MORE_SUFFIXES.get(suffix) if known is None else known.name


def refuse_other_suffix(path: str | None) -> None:
    """Refuse a file whose suffix names a format that is not written, where no other one is chosen.

    Raises:
        WrongUsageError: it does.
    """
    suffix = suffix_of(path)
    if suffix in _NOT_WRITTEN:
        raise WrongUsageError(
            f"cannot write {printable(str(path))} as {suffix}: expected a suffix such as .csv, .json, .jsonl, .arrow, .parquet, .md, "
            ".html or .txt, or a format (--format, .mode)"
        )


def suffix_of(path: str | None) -> str:
    """Return the suffix of a file in lower case, without the dot; empty for standard output."""
    return Path(path or "").suffix.removeprefix(".").casefold()


def screen_width(path: str | None) -> int | None:
    """Return the width of the terminal that gets the rows; None if they go elsewhere."""
    return shutil.get_terminal_size().columns if path is None and sys.stdout.isatty() else None


def write_rows(
    columns: Sequence[Column],
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    format_name: str,
    path: str | None,
    progress: ProgressLine | None = None,
    rows_on_screen: int | None = None,
    screen: int | None = None,
    appends: bool = False,
) -> None:
    """Write rows in a format.

    Args:
        columns: names and SQL types.
        schema: the Arrow schema of the batches.
        batches: the rows.
        format_name: `table`, `line`, or a key of MARKUP or FORMATS.
        path: the file to write; standard output if None.
        progress: the line to hide while rows are written.
        rows_on_screen: most rows of a table to show on a terminal; None for all.
        screen: characters per line of a terminal; None for as many as it has.
        appends: True if the rows follow what the file has.

    Raises:
        WrongUsageError: the file cannot be opened.
        OutputError: it cannot be written; a new one is removed.
    """
    width = screen_width(path)
    if format_name in (TABLE, LINE) and width is not None:
        _Screen(columns, schema, screen or width, progress).show(batches, format_name, rows_on_screen)
    elif format_name == TABLE:
        write_lines(table_lines(columns, schema, batches, whole=True), path, progress, appends=appends)
    elif format_name == LINE:
        write_lines(value_lines(columns, batches), path, progress, appends=appends)
    elif format_name in MARKUP:
        write_lines(MARKUP[format_name](columns, schema, batches), path, progress, appends=appends)
    else:
        _write(FORMATS[format_name].write(columns, schema, batches), path, progress, appends=appends)


def write_lines(
    lines: Iterable[str], path: str | None, progress: ProgressLine | None = None, *, appends: bool = False
) -> None:
    """Write lines of text; see `write_rows`."""
    _write((f"{line}\n".encode() for line in lines), path, progress, appends=appends)


def append_bytes(pieces: Iterable[bytes], path: str | None) -> None:
    """Write pieces of text behind what a file has, at once; see `write_rows`."""
    _write(pieces, path, None, appends=True)


class _Screen:
    """Rows on a terminal.

    Args:
        columns: names and SQL types.
        schema: the Arrow schema of the batches.
        width: characters per line.
        progress: the line to hide while rows are shown.
    """

    def __init__(
        self, columns: Sequence[Column], schema: pa.Schema, width: int, progress: ProgressLine | None
    ) -> None:
        self._columns = columns
        self._schema = schema
        self._width = width
        self._progress = progress

    def show(self, batches: Iterable[pa.RecordBatch], format_name: str, limit: int | None) -> None:
        """Show the first rows, count the others, and tell what is not shown."""
        rest = iter(batches)
        if limit is None and format_name == LINE:
            write_lines(value_lines(self._columns, rest), None, self._progress)
            return
        first, row_count = _first_rows(rest, ROWS_ON_SCREEN if limit is None else limit)
        # The rows that a screen does not show are read all the same: only the last one knows the number of all.
        first = first if limit is None else _sliced(first, limit)
        shown = chain(first, rest if limit is None else ())
        left_out: list[str] = []
        if format_name == LINE:
            write_lines(value_lines(self._columns, shown), None, self._progress)
        else:
            left_out = self._show_table(first, shown)
        if limit is not None:
            self._tell_rows(rest, row_count, limit)
        if left_out:
            names = printable(", ".join(left_out))
            _tell(f"{counted(len(left_out), 'column')} left out: {names} (--format line shows every column)")

    def _show_table(self, first: Sequence[pa.RecordBatch], shown: Iterable[pa.RecordBatch]) -> list[str]:
        """Show a table, and return the names of the columns for which the screen has no room."""
        numbers = fitting_columns(self._columns, self._schema, first, self._width)
        columns = [self._columns[number] for number in numbers]
        schema = pa.schema([self._schema.field(number) for number in numbers])
        selected = (
            pa.RecordBatch.from_arrays([batch.column(number) for number in numbers], schema=schema)
            for batch in shown
        )
        write_lines(table_lines(columns, schema, selected, self._width), None, self._progress)
        return [column.name for number, column in enumerate(self._columns) if number not in numbers]

    def _tell_rows(self, rest: Iterable[pa.RecordBatch], row_count: int, limit: int) -> None:
        shown = f" ({limit} shown)"
        if self._progress:
            self._progress.show()
        try:
            row_count += sum(batch.num_rows for batch in rest)
        except KeyboardInterrupt:
            self._hide_progress()
            _tell(f"more than {counted(row_count, 'row')}{shown if row_count > limit else ''}")
            raise
        self._hide_progress()
        _tell(f"{counted(row_count, 'row')}{shown if row_count > limit else ''}")

    def _hide_progress(self) -> None:
        if self._progress:
            self._progress.hide()


def _first_rows(batches: Iterator[pa.RecordBatch], wanted: int) -> tuple[list[pa.RecordBatch], int]:
    """Take batches until they have so many rows; return them and the number of their rows."""
    first, row_count = [], 0
    for batch in batches:
        first.append(batch)
        row_count += batch.num_rows
        if row_count >= wanted:
            break
    return first, row_count


def _sliced(batches: Iterable[pa.RecordBatch], length: int) -> list[pa.RecordBatch]:
    sliced = []
    for batch in batches:
        sliced.append(batch.slice(0, length))
        length -= sliced[-1].num_rows
    return sliced


def _tell(message: str) -> None:
    print(message, file=sys.stderr)


def _write(
    chunks: Iterable[bytes], path: str | None, progress: ProgressLine | None, *, appends: bool
) -> None:
    with _opened(path, "ab" if appends else "wb") as file:
        # The next program in a pipe may write to the same terminal as the progress.
        hides = progress is not None and path is None and not _is_regular_file(file)
        for chunk in chunks:
            if progress is not None and hides:
                progress.hide()
            with _written(path):
                file.write(chunk)
        with _written(path):
            file.flush()


def _is_regular_file(file: BinaryIO) -> bool:
    try:
        return S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:
        return False


@contextlib.contextmanager
def _opened(path: str | None, mode: Literal["ab", "wb"]) -> Iterator[BinaryIO]:
    if path is None:
        yield sys.stdout.buffer
        return
    try:
        file = Path(path).open(mode)  # noqa: SIM115  # closed below; errors of what is read meanwhile are not its own
    except OSError as error:
        raise WrongUsageError(f"cannot write {path}: {error.strerror}") from error
    try:
        yield file
    except Exception:
        # Half of the rows would pass for all of them.
        if mode == "wb" and _is_regular_file(file):
            Path(path).unlink(missing_ok=True)
        # What was not written is written again, and fails again.
        with contextlib.suppress(OSError):
            file.close()
        raise
    file.close()


@contextlib.contextmanager
def _written(path: str | None) -> Iterator[None]:
    """Tell an error of writing from those of what is read meanwhile.

    Raises:
        OutputError: the file or standard output cannot be written.
        BrokenPipeError: its reader has seen enough.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        what = "the output cannot be written" if path is None else f"cannot write {path}"
        raise OutputError(f"{what}: {error.strerror}") from error


def log_compilation() -> None:
    """Show, once, that something is compiled from now on: it takes seconds, also where nobody watches."""
    if not compile_log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("savepointdb: %(message)s"))
        handler.addFilter(_Once())
        compile_log.addHandler(handler)
        compile_log.setLevel(logging.INFO)


class _Once(logging.Filter):
    """Lets each message pass once: a command may compile several units."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the message is a new one."""
        is_new = record.msg not in self._seen
        self._seen.add(record.msg)
        return is_new
