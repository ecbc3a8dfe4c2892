"""States of the cache, as DuckDB reads them: the files of the entries, by DuckDB's own scan of Parquet.

DuckDB's access to files is off. The only exception is a file system that is made here: it has the entries that running statements
read and nothing else, each under a random name that lives as long as the connection of its statement. It is read-only, and it
knows neither names nor folders of the machine. So no text of SQL can name a file, not even one that passes all checks.

A file that is open is read to its end, also when it is evicted meanwhile. Whether it is still the file whose digest the cache has
compared is asked before the first row leaves the engine, and after the last one.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from fsspec import AbstractFileSystem

from catalog.cache.states import CacheFile
from service.query.sql.text import quoted, text_constant

_PROTOCOL = "savepointdb-cache"
_NAME_BYTES = 16
_MILLISECONDS = pa.timestamp("ms")
# DuckDB reads these from Parquet as it reads them from Arrow, in the same types.
_SAME_TYPES = frozenset(
    {
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32(), pa.time64("us"), pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
    }
)  # fmt: skip


class OpenCacheFile:
    """An open file of the cache. It is closed when nothing refers to it any more: DuckDB drops what it reads without a word.

    Args:
        file: the file.
        account: gets the bytes of each read.

    Raises:
        OSError: it was evicted, or cannot be opened.
    """

    def __init__(self, file: CacheFile, account: Callable[[int], None]) -> None:
        self._file = file
        self._account = account
        self._descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def is_unchanged(self) -> bool:
        """True while it is the file whose digest was compared."""
        return self._file.is_file_of(self._descriptor)

    @property
    def size_bytes(self) -> int:
        """Bytes of the file."""
        return self._file.identity.size_bytes

    @property
    def modified(self) -> datetime:
        """Time of change."""
        return datetime.fromtimestamp(self._file.identity.modified_ns / 1e9, UTC)

    def read(self, start: int, size_bytes: int) -> bytes:
        """Return bytes from `start` on; fewer at the end of the file."""
        found = os.pread(self._descriptor, size_bytes, start)
        self._account(len(found))
        return found

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)


class _Handle(threading.local):
    """A file that DuckDB has opened. It seeks, then reads, and its threads share a handle: each has a position of its own."""

    def __init__(self, file: OpenCacheFile) -> None:
        self._file = file
        self._position = 0

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position."""
        start = {os.SEEK_CUR: self._position, os.SEEK_END: self._file.size_bytes}.get(whence, 0)
        self._position = start + position
        return self._position

    def read(self, size_bytes: int = -1) -> bytes:
        """Return the next bytes."""
        found = self._file.read(self._position, self._file.size_bytes if size_bytes < 0 else size_bytes)
        self._position += len(found)
        return found

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def close(self) -> None:
        """Do nothing: the file is closed with its last handle."""


class CachedFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The file system of one database: the files that its connections read now."""

    protocol = _PROTOCOL
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, OpenCacheFile] = {}

    @property
    def root(self) -> str:
        """What every name begins with."""
        return f"{_PROTOCOL}://"

    @staticmethod
    def new_name() -> str:
        """Return a name that nobody guesses."""
        return f"{_PROTOCOL}://{secrets.token_hex(_NAME_BYTES)}"

    def put(self, name: str, file: OpenCacheFile) -> None:
        """Let DuckDB read a file under a name."""
        self._files[name] = file

    def remove(self, name: str) -> None:
        """Forget a name; what reads the file keeps it."""
        self._files.pop(name, None)

    def open(self, path: str, mode: str = "rb", **_: Any) -> _Handle:
        """Open a file; DuckDB calls this."""
        if mode != "rb":
            raise PermissionError("expected to read a file of the cache, found an attempt to write one")
        return _Handle(self._found(path))

    def glob(self, path: str, **_: Any) -> list[str]:
        """Return the path; DuckDB calls this, and no name has wildcards."""
        return [path]

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        return self._found(path).size_bytes

    def modified(self, path: str) -> datetime:
        """Return the time of change of a file."""
        return self._found(path).modified

    def _found(self, path: str) -> OpenCacheFile:
        found = self._files.get(path)
        if found is None:
            raise FileNotFoundError("expected a file of the cache, found none of that name")
        return found


def is_read_alike(schema: pa.Schema) -> bool:
    """Return whether DuckDB has the same types and values from a file of the cache with these columns as from Arrow."""
    return _are_distinct(schema.names) and all(
        field.type == _MILLISECONDS or _is_same(field.type) for field in schema
    )


def source_of(name: str, schema: pa.Schema) -> str:
    """Return a query of all rows of a file."""
    columns = (
        f"CAST({quoted(field.name)} AS TIMESTAMP_MS) AS {quoted(field.name)}"
        if field.type == _MILLISECONDS
        else quoted(field.name)
        for field in schema
    )
    return f"SELECT {', '.join(columns)} FROM read_parquet({text_constant(name)})"


def _is_same(kind: pa.DataType) -> bool:
    if pa.types.is_decimal128(kind) or kind in _SAME_TYPES:
        return True
    if pa.types.is_struct(kind) and not _are_distinct([field.name for field in kind]):
        return False
    if pa.types.is_list(kind) or pa.types.is_map(kind) or pa.types.is_struct(kind):
        return all(_is_same(kind.field(number).type) for number in range(kind.num_fields))
    return False


def _are_distinct(names: Sequence[str]) -> bool:
    """Return whether DuckDB, whose names have no case, leaves the names as they are."""
    return "" not in names and len({name.casefold() for name in names}) == len(names)
