"""Files that a script names in FROM: `FROM 'counts.parquet'`. Each is a table for the SELECT of the statement.

DuckDB itself still opens no file: pyarrow reads those that the script names, and no others, and only where the caller of
the program may read any file, as on the command line and in Python.

| file | read as |
|---|---|
| `.parquet` | Parquet, a row group at a time |
| `.csv`, `.csv.gz` | CSV with a header line |
| `.json`, `.jsonl`, `.ndjson`, also `.gz` | JSON, one object a line |
| `.arrow`, `.feather` | Arrow's file format |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from catalog import Predicate, Scan, Split, Table
from catalog.predicate import ANYTHING
from catalog.scan import ScanCounter
from readers import CorruptDataError, MissingFileError, StorageError
from service.errors import ForbiddenError, query_error_of

_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json.gz": "json",
    ".jsonl.gz": "json",
    ".arrow": "ipc",
    ".feather": "ipc",
}
_BATCH_ROWS = 1 << 16


class FileTable(Table):
    """A file of this machine.

    Args:
        path: the file.

    Raises:
        QueryError: it does not exist, or is not of a kind that is read.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.comment = f"the file {path}"
        self._path = path
        self._format = next((_FORMATS[end] for end in _FORMATS if path.name.lower().endswith(end)), None)
        if self._format is None:
            raise ForbiddenError(
                f"expected a file with one of the endings {', '.join(_FORMATS)}, found {path.name!r}"
            )
        if not path.is_file():
            raise query_error_of(MissingFileError("expected a file, found none", path=str(path)))

    @cached_property
    def schema(self) -> pa.Schema:
        try:
            return _opened(self._path, self._format).schema.remove_metadata()
        except (pa.ArrowException, OSError) as error:
            raise query_error_of(_error_of(self._path, error)) from error

    @property
    def size_bytes(self) -> int:
        return self._path.stat().st_size

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        size = self.size_bytes
        whole = FileSplit(str(self._path), str(self._format), None, tuple(self.schema.names), size)
        if self._format != "parquet":
            return Scan(schema=self.schema, splits=(whole,))
        fragment = next(iter(_opened(self._path, self._format).get_fragments()))
        count = max(fragment.num_row_groups, 1)
        splits = (replace(whole, row_group=number, size_bytes=size // count) for number in range(count))
        return Scan(schema=self.schema, splits=tuple(splits) if fragment.num_row_groups else (whole,))


@dataclass(frozen=True, slots=True)
class FileSplit(Split):
    """A file, or a row group of it.

    Attributes:
        path, format: of the file.
        row_group: its number; None for the whole file.
        columns: to read.
        size_bytes: about how many bytes it reads.
    """

    path: str
    format: str
    row_group: int | None
    columns: tuple[str, ...]
    size_bytes: int

    @property
    def order(self) -> tuple[int, int]:
        return 0, self.row_group or 0

    def narrowed(self, columns: Sequence[str]) -> FileSplit:
        return replace(self, columns=tuple(columns))

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        try:
            opened = _opened(Path(self.path), self.format)
            if self.row_group is not None:
                fragment = next(iter(opened.get_fragments()))
                chosen = fragment.subset(row_group_ids=[self.row_group])
                yield from chosen.to_batches(
                    columns=list(self.columns), batch_size=_BATCH_ROWS, use_threads=False
                )
            else:
                yield from opened.to_batches(columns=list(self.columns), batch_size=_BATCH_ROWS)
        except (pa.ArrowException, OSError) as error:
            raise _error_of(Path(self.path), error) from error
        if counter is not None:
            counter.add(self.size_bytes)


def _opened(path: Path, file_format: str | None) -> Any:
    """Return the `pyarrow.dataset.Dataset` of a file."""
    # Not at the top of this file: the module loads pandas, where that is installed, and few scripts name files.
    return import_module("pyarrow.dataset").dataset(str(path), format=file_format)


def _error_of(path: Path, error: Exception) -> CorruptDataError | StorageError:
    reason = str(error).splitlines()[0]
    if isinstance(error, OSError) and not isinstance(error, pa.ArrowException):
        return StorageError(f"expected to read the file: {reason}", path=str(path))
    return CorruptDataError(f"expected rows: {reason}", path=str(path))


FileTables = Callable[[str], Table | None]
"""Returns the table of a file that a script names; None where files are not read."""


def no_file(_path: str) -> None:
    """Return None: a script that comes over the network reads no file."""


def local_file(path: str) -> Table:
    """Return the table of a file of this machine.

    Raises:
        QueryError: it does not exist, or is not of a kind that is read.
    """
    return FileTable(Path(path))
