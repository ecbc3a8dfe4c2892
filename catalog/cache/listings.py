"""The tables that savepoints have, remembered on disk: a listing of many savepoints reads the headers of all their state files.

One file a savepoint; its name is a digest of

* path, size and time of change of `_metadata` and of `stateInfo`;
* how it is opened: more roots, other paths, uids;
* the source code of the readers and of the catalog, and the version of the layout.

| bytes | content |
|---|---|
| 16 | BLAKE2b of the rest |
| others | a stream of Arrow's IPC, compressed: name, comment, and the columns as a schema of Arrow |

A savepoint of which a file could not be read is not remembered. A file that is damaged, or does not fit its digest, is as good
as none: it is removed, and the headers are read again. The names of files have no path in them, and the files no rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

import catalog as own_package
import readers
from catalog.references import SavepointReference
from readers import STATE_INFO_FILE_NAME, MissingFileError, ReaderError, SavepointLocation

MOST_BYTES = 256 << 20
# A savepoint of some thousand operators has some megabytes.
_LARGEST_BYTES = 64 << 20
_LAYOUT_VERSION = 1
_DIGEST_BYTES = 16
_SUFFIX, _PARTIAL = ".tables", ".partial"
_DAY_S, _HOUR_S = 86_400, 3_600
_ON_THIS_THREAD = pa.ipc.IpcReadOptions(use_threads=False)
_COLUMNS = pa.schema([("name", pa.string()), ("comment", pa.string()), ("columns", pa.binary())])


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table as lists show it.

    Attributes:
        name: as listed.
        comment: what it holds, for people.
        schema: its columns, in order.
    """

    name: str
    comment: str
    schema: pa.Schema


class ListingCache:
    """Remembered tables in a directory, which processes may share.

    Args:
        directory: of the files; made when the first is written.
        max_bytes: of all files.
    """

    def __init__(self, directory: Path, max_bytes: int = MOST_BYTES) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._room = 0

    def read(self, key: str) -> tuple[ListedTable, ...] | None:
        """Return the tables of a key; None if they are not remembered."""
        path = self._directory / (key + _SUFFIX)
        try:
            with path.open("rb") as file:
                content = file.read(_LARGEST_BYTES + 1)
                modified = os.fstat(file.fileno()).st_mtime
        except OSError:
            return None
        found = _tables_in(content)
        with contextlib.suppress(OSError):
            if found is None:
                path.unlink()
            elif time.time() - modified > _DAY_S:
                # The files that were not used for the longest time go first.
                os.utime(path)
        return found

    def write(self, key: str, tables: Iterable[ListedTable]) -> None:
        """Remember the tables of a key; without effect where the directory cannot be written."""
        content = _content_of(tables)
        if len(content) > min(_LARGEST_BYTES, self._max_bytes):
            return
        with contextlib.suppress(OSError), self._lock:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._room < len(content):
                self._room = self._sweep(len(content))
            self._room -= len(content)
            # A file that is half written after a power cut does not fit its digest.
            descriptor, partial = tempfile.mkstemp(suffix=_PARTIAL, dir=self._directory)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                Path(partial).replace(self._directory / (key + _SUFFIX))
            except OSError:
                Path(partial).unlink(missing_ok=True)
                raise

    def _sweep(self, size_bytes: int) -> int:
        """Remove the files of killed writers, and the least recently used others if a quarter is not free; return the free bytes."""
        files = sorted(self._files())
        left = sum(size for _, size, _ in files)
        allowed = min(self._max_bytes * 3 // 4, self._max_bytes - size_bytes)
        for modified, size, path in files:
            is_rest = path.suffix == _PARTIAL and time.time() - modified > _HOUR_S
            if is_rest or left > allowed:
                path.unlink(missing_ok=True)
                left -= size
        return self._max_bytes - left

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield (time of change, bytes, file)."""
        for path in self._directory.iterdir():
            if path.suffix in (_SUFFIX, _PARTIAL):
                with contextlib.suppress(OSError):
                    status = path.stat()
                    yield status.st_mtime, status.st_size, path


def listing_key(
    reference: SavepointReference, modified_ns: int, operator_uids: Sequence[tuple[str, str]]
) -> str | None:
    """Return the key of a savepoint's tables; None where the storage does not say whether its files have changed.

    Args:
        reference: opens the savepoint.
        modified_ns: when its `_metadata` was modified, as far as the catalog knows.
        operator_uids: (operator id, uid) for uids that the savepoint does not store.
    """
    try:
        location = SavepointLocation(reference.path, options=reference.options)
        metadata = location.identity(location.metadata)
        beside = None
        with contextlib.suppress(MissingFileError):
            beside = location.identity(location.exclusive_directory / STATE_INFO_FILE_NAME)
        given = []
        for path in filter(None, (reference.state_info, *reference.jars)):
            status = Path(path).stat()
            given.append((path, status.st_size, status.st_mtime_ns))
    except (ReaderError, OSError):
        return None
    if not metadata.mtime_ns:
        return None
    facts = [
        _LAYOUT_VERSION, _code_version(), str(location.metadata), metadata, beside, given, reference.version, modified_ns,
        reference.roots, reference.path_map, sorted(operator_uids),
    ]  # fmt: skip
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _content_of(tables: Iterable[ListedTable]) -> bytes:
    rows = [(table.name, table.comment, table.schema.serialize().to_pybytes()) for table in tables]
    columns = [pa.array([row[index] for row in rows], field.type) for index, field in enumerate(_COLUMNS)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _COLUMNS, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(pa.record_batch(columns, schema=_COLUMNS))
    content: bytes = sink.getvalue().to_pybytes()
    return _digest(content) + content


def _tables_in(content: bytes) -> tuple[ListedTable, ...] | None:
    """Return the tables in the bytes of a file; None if these are damaged."""
    digest, stream = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if len(content) > _LARGEST_BYTES or digest != _digest(stream):
        return None
    try:
        with pa.ipc.open_stream(stream, options=_ON_THIS_THREAD) as reader:
            if not reader.schema.equals(_COLUMNS):
                return None
            rows = reader.read_all().to_pydict()
        columns = [_schema_in(schema) for schema in rows["columns"]]
    except (pa.ArrowException, OSError, ValueError):
        return None
    return tuple(map(ListedTable, rows["name"], rows["comment"], columns))


# Most savepoints of a job have the same columns: one schema in memory for all of them.
@lru_cache(maxsize=4096)
def _schema_in(content: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(content))


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


@lru_cache(maxsize=1)
def _code_version() -> str:
    """Return a text that changes when the code that finds tables and their columns does."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for package in (readers, own_package):
        assert package.__file__ is not None
        for path in sorted(Path(package.__file__).parent.rglob("*.py")):
            digest.update(path.read_bytes())
    return f"{digest.hexdigest()}:{pa.__version__}"
