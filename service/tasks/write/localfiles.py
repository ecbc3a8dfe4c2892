"""Files that a statement names in FROM: `FROM 'counts.parquet'`. Each is a table of the query.

DuckDB itself still opens no file: pyarrow reads those that the statement names, and no others, and only where the caller of
the program may read any file, as on the command line and in Python. A script of `savepointdb write` and a query share this.

| file | read as |
|---|---|
| `.parquet` | Parquet, a row group at a time |
| `.csv`, `.csv.gz` | CSV with a header line |
| `.json`, `.jsonl`, `.ndjson`, also `.gz` | JSON, one object a line |
| `.arrow`, `.arrows`, `.feather` | Arrow's file format, or its stream, as `--output` writes it |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog import Predicate, Scan, Split, Table
from catalog.scan import ANYTHING, ScanCounter
from readers import CorruptDataError, MissingFileError, StorageError
from service.base.errors import ForbiddenError, query_error_of
from service.query.sql.resolver import SystemTables

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
    ".arrows": "ipc",
    ".feather": "ipc",
}
_ARROW_FILE = b"ARROW1"
_BATCH_ROWS = 1 << 16


class FileTable(Table):
    """A file of this machine.

    Args:
        path: the file.

    Raises:
        QueryError: it does not exist, or is not of a kind that is read.
    """

    def __init__(self, path: Path) -> None:
        # The file `counts.parquet` is the table `counts`, as in DuckDB.
        self.name = path.name.partition(".")[0] or path.name
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
        names = column_names(self._stored.names)
        return pa.schema(field.with_name(name) for field, name in zip(self._stored, names, strict=True))

    @cached_property
    def _stored(self) -> pa.Schema:
        """Its columns, as the file calls them."""
        try:
            return _opened(self._path, self._format).schema.remove_metadata()
        except (pa.ArrowException, OSError) as error:
            raise query_error_of(_error_of(self._path, error)) from error

    @property
    def size_bytes(self) -> int:
        return self._path.stat().st_size

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        size = self.size_bytes
        columns = tuple(zip(self.schema.names, self._stored.names, strict=True))
        whole = FileSplit(str(self._path), str(self._format), None, columns, size)
        if self._format != "parquet":
            return Scan(schema=self.schema, splits=(whole,))
        fragment = next(iter(_opened(self._path, self._format).get_fragments()))
        groups = max(fragment.num_row_groups, 1)
        splits = (replace(whole, row_group=number, size_bytes=size // groups) for number in range(groups))
        return Scan(schema=self.schema, splits=tuple(splits) if fragment.num_row_groups else (whole,))


@dataclass(frozen=True, slots=True)
class FileSplit(Split):
    """A file, or a row group of it.

    Attributes:
        path, format: of the file.
        row_group: its number; None for the whole file.
        columns: to read: their names in the table, and in the file.
        size_bytes: about how many bytes it reads.
    """

    path: str
    format: str
    row_group: int | None
    columns: tuple[tuple[str, str], ...]
    size_bytes: int

    @property
    def order(self) -> tuple[int, int]:
        return 0, self.row_group or 0

    def narrowed(self, columns: Sequence[str]) -> FileSplit:
        stored = dict(self.columns)
        return replace(self, columns=tuple((name, stored[name]) for name in columns))

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        columns = {name: pc.field(stored) for name, stored in self.columns}
        try:
            opened = _opened(Path(self.path), self.format)
            if self.row_group is not None:
                fragment = next(iter(opened.get_fragments()))
                chosen = fragment.subset(row_group_ids=[self.row_group])
                yield from chosen.to_batches(columns=columns, batch_size=_BATCH_ROWS, use_threads=False)
            else:
                yield from opened.to_batches(columns=columns, batch_size=_BATCH_ROWS)
        except (pa.ArrowException, OSError) as error:
            raise _error_of(Path(self.path), error) from error
        if counter is not None:
            counter.add(self.size_bytes)


def _opened(path: Path, file_format: str | None) -> Any:
    """Return the `pyarrow.dataset.Dataset` of a file."""
    # Not at the top of this file: the module loads pandas, where that is installed, and few scripts name files.
    dataset = import_module("pyarrow.dataset").dataset
    if file_format == "ipc":
        with path.open("rb") as file:
            is_stream = file.read(len(_ARROW_FILE)) != _ARROW_FILE
        if is_stream:
            return dataset(pa.ipc.open_stream(pa.memory_map(str(path))).read_all())
    return dataset(str(path), format=file_format)


def _error_of(path: Path, error: Exception) -> CorruptDataError | StorageError:
    reason = str(error).splitlines()[0]
    if isinstance(error, OSError) and not isinstance(error, pa.ArrowException):
        return StorageError(f"expected to read the file: {reason}", path=str(path))
    if "JSON" in reason:
        reason += "; each line must be one JSON object: jq -c '.[]' makes such lines of a list"
    return CorruptDataError(f"expected rows: {reason}", path=str(path))


def column_names(stored: Sequence[str]) -> list[str]:
    """Return names for the columns of a file or data frame, as DuckDB calls them: none is empty, and no two differ only in case.

    Args:
        stored: the names that they have, such as the empty one of an index that pandas wrote to CSV.
    """
    names: list[str] = []
    taken: set[str] = set()
    for number, one in enumerate(stored):
        wanted = one or f"column{number}"
        name = next(
            name
            for name in chain([wanted], (f"{wanted}_{more}" for more in count(1)))
            if name.casefold() not in taken
        )
        taken.add(name.casefold())
        names.append(name)
    return names


class LocalTables(SystemTables):
    """The files of this machine as tables of a query: only for a caller who may read them all.

    Queries of the network and saved queries have no such tables, so that these name no file.
    """

    def table(self, path: tuple[str, ...], databases: Sequence[str] | None) -> Table | None:
        return None

    def file(self, path: str) -> Table | None:
        return FileTable(Path(path).expanduser())
