"""Rows → standard output or a file."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from service.commands.outcome import WrongUsageError
from service.encode import FORMATS, table_lines
from service.sql.types import Column

TABLE = "table"
_BINARY = frozenset({"arrow", "parquet"})


def check_output(format_name: str, path: str | None) -> None:
    """Refuse to write bytes to a terminal.

    Raises:
        WrongUsageError: the format is binary and the output a terminal.
    """
    if format_name in _BINARY and path is None and sys.stdout.isatty():
        raise WrongUsageError(f"{format_name} is not for terminals: name a file with --output, or redirect")


def write_rows(
    columns: Sequence[Column],
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    format_name: str,
    path: str | None,
) -> None:
    """Write rows in a format.

    Args:
        columns: names and SQL types.
        schema: the Arrow schema of the batches.
        batches: the rows.
        format_name: `table` or a key of FORMATS.
        path: the file to write; standard output if None.

    Raises:
        WrongUsageError: the file cannot be written.
    """
    if format_name == TABLE:
        # A file or a pipe gets whole lines; a terminal gets columns that fit.
        width = shutil.get_terminal_size().columns if path is None and sys.stdout.isatty() else None
        chunks: Iterable[bytes] = (
            f"{line}\n".encode() for line in table_lines(columns, schema, batches, width)
        )
    else:
        chunks = FORMATS[format_name].write(columns, schema, batches)
    with _opened(path) as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()


@contextlib.contextmanager
def _opened(path: str | None) -> Iterator[BinaryIO]:
    if path is None:
        yield sys.stdout.buffer
        return
    try:
        with Path(path).open("wb") as file:
            yield file
    except OSError as error:
        raise WrongUsageError(f"cannot write {path}: {error.strerror}") from error
