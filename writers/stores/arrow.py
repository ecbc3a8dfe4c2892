"""The stores of Google and Azure, by pyarrow.

Nobody sees an object of Google before it is closed. Azure shows an empty object before; a data file that is not whole does no harm, for
`_metadata` is sent in one piece and last. Neither client writes on a condition, so a key is looked for before it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from readers import Location, StorageOptions, arrow_filesystem
from writers.errors import TargetError
from writers.stores.store import KeyExistsError, Store, Upload
from writers.target import Chunk

if TYPE_CHECKING:
    from pyarrow import NativeFile


class ArrowStore(Store):
    """A bucket of Google, or a container of Azure.

    Args:
        location: only its scheme and bucket are used.
        query: the options of its URL.
        options: credentials of other processes.

    Raises:
        StorageError: the options are wrong, or there are no credentials.
    """

    sends_in_order = True

    def __init__(self, location: Location, query: str, options: StorageOptions) -> None:
        self._arrow = arrow_filesystem(location, query, variables=dict(options.variables))
        self._bucket = location.authority.partition("@")[0]
        self._location = location

    @contextmanager
    def asked(self, key: str) -> Iterator[None]:
        """Translate the errors of a request about a key."""
        try:
            yield
        except (OSError, ValueError) as error:
            path = str(self._location._replace(path=f"/{key}"))
            raise TargetError(f"expected the store to take it: {error}", path=path) from error

    def _path(self, key: str) -> str:
        return f"{self._bucket}/{key}"

    def keys(self, prefix: str, after: str = "") -> list[str]:
        from pyarrow import fs  # heavy, and loaded by now

        with self.asked(prefix):
            selector = fs.FileSelector(self._path(prefix).rstrip("/"), recursive=True, allow_not_found=True)
            found = self._arrow.get_file_info(selector)
        keys = (
            info.path.removeprefix(f"{self._bucket}/")
            for info in found
            if info.type is not fs.FileType.Directory
        )
        return sorted(key for key in keys if key > after)

    def put(self, key: str, body: Chunk, *, new: bool = False) -> None:
        if new and self.get(key) is not None:
            path = str(self._location._replace(path=f"/{key}"))
            raise KeyExistsError("expected a new object, found one that exists", path=path)
        upload = self.begin(key)
        upload.send(1, body)
        upload.complete()

    def get(self, key: str) -> bytes | None:
        with self.asked(key):
            try:
                with self._arrow.open_input_file(self._path(key)) as file:
                    return bytes(file.readall())
            except FileNotFoundError:
                return None

    def read(self, key: str, start: int, size_bytes: int) -> bytes:
        with self.asked(key), self._arrow.open_input_file(self._path(key)) as file:
            return bytes(file.read_at(size_bytes, start))

    def copy(self, source: Location, key: str) -> None:
        with self.asked(key):
            self._arrow.copy_file(source.authority.partition("@")[0] + source.path, self._path(key))

    def begin(self, key: str) -> Upload:
        with self.asked(key):
            return _ArrowUpload(self, key, self._arrow.open_output_stream(self._path(key), compression=None))

    def delete(self, key: str) -> None:
        with self.asked(key):
            try:
                self._arrow.delete_file(self._path(key))
            except FileNotFoundError:
                return

    def abort_all(self, prefix: str) -> None:
        """Do nothing: these stores forget unfinished uploads themselves."""


class _ArrowUpload(Upload):
    def __init__(self, store: ArrowStore, key: str, stream: NativeFile) -> None:
        self._store = store
        self._key = key
        self._stream = stream

    def send(self, number: int, part: Chunk) -> None:
        with self._store.asked(self._key):
            self._stream.write(part)

    def copy(self, number: int, source: Location, start: int, size_bytes: int) -> None:
        raise NotImplementedError

    def complete(self) -> None:
        with self._store.asked(self._key):
            self._stream.close()

    def abort(self) -> None:
        """Close it: the target removes the object."""
        self.complete()
