"""Where an export goes: a folder of this machine (or one that machines share), or a prefix of an object store. Can be pickled.

A file has its name only once it is whole: in a folder it is renamed, and an object store shows no object before it is complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import posixpath
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from readers import Location, StorageOptions, s3_arguments
from writers import Store, StoreRequests, TargetError, store_of

HIDDEN = "."
"""How the names of files begin that are not whole, before their own names: readers of folders pass over them."""


class NewFile(io.RawIOBase):
    """A file that is being written, front to back; `digest` is that of the bytes so far.

    Args:
        append: writes bytes behind those so far.
    """

    def __init__(self, append: Callable[[memoryview], object]) -> None:
        self.size_bytes = 0
        self._append = append
        self._sha256 = hashlib.sha256()

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes so far, in hexadecimal digits."""
        return self._sha256.hexdigest()

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes so far."""
        return self.size_bytes

    def write(self, data: Any) -> int:
        """Append bytes, which the caller may change afterwards."""
        view = memoryview(data).cast("B")
        self._append(view)
        self._sha256.update(view)
        self.size_bytes += view.nbytes
        return view.nbytes


class Destination(ABC):
    """A folder, or what stands for one in an object store. Names are relative to it, with `/` between folders."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The path or URL, without options."""

    @abstractmethod
    def create(self, name: str) -> AbstractContextManager[NewFile]:
        """Begin a file, which is whole when its context ends without an error; one of this name is replaced.

        Raises:
            TargetError: it cannot be written.
        """

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Return the bytes of a small file; None if there is none.

        Raises:
            TargetError: it cannot be read.
        """

    @abstractmethod
    def names(self, folder: str = "") -> Iterator[str]:
        """Yield the names of all files in a folder, at any depth.

        Raises:
            TargetError: it cannot be listed.
        """

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, if there is one.

        Raises:
            TargetError: it cannot be removed.
        """

    def move(self, source: str, target: str) -> None:
        """Move a folder to a name that is free; only where `moves`.

        Raises:
            TargetError: it cannot be moved.
        """
        raise NotImplementedError

    moves = False
    """True if a folder gets another name at once."""

    def put(self, name: str, content: bytes) -> None:
        """Write a file at once.

        Raises:
            TargetError: it cannot be written.
        """
        with self.create(name) as file:
            file.write(content)

    def has_all(self, sizes: Mapping[str, int]) -> bool:
        """Return whether all these files are there; of a folder of this machine, whether they have so many bytes, too.

        Raises:
            TargetError: they cannot be listed.
        """
        above = posixpath.commonpath([posixpath.dirname(name) for name in sizes]) if sizes else ""
        return sizes.keys() <= set(self.names(above))

    def s3_options(self) -> dict[str, Any]:
        """Return the arguments of Arrow's S3 for the destination; empty for a folder.

        Raises:
            TargetError: it is in another object store.
            ReaderError: the options of the URL are wrong.
        """
        return {}

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes of this machine from the same destination.

        Raises:
            TargetError: another process has it.
        """
        return nullcontext()


class Folder(Destination):
    """A folder of this machine; made when the first file is written.

    Args:
        path: its absolute path.
    """

    moves = True

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    @property
    def url(self) -> str:
        return str(self._path)

    @contextmanager
    def create(self, name: str) -> Iterator[NewFile]:
        path = self._path / name
        # A second process that writes the same file has a name of its own.
        unfinished = path.with_name(f"{HIDDEN}{path.name}.{secrets.token_hex(4)}")
        with _asked(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as raw:

                def append(view: memoryview) -> None:
                    with _asked(path):
                        while view.nbytes:
                            view = view[raw.write(view) :]

                yield NewFile(append)
            with _asked(path):
                unfinished.replace(path)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise

    def read(self, name: str) -> bytes | None:
        path = self._path / name
        with _asked(path):
            try:
                return path.read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def names(self, folder: str = "") -> Iterator[str]:
        path = self._path / folder
        with _asked(path):
            found = sorted(file for file in path.rglob("*") if not file.is_dir()) if path.is_dir() else []
            if path.exists() and not path.is_dir():
                raise TargetError("expected a directory, found a file", path=str(path))
        return (file.relative_to(self._path).as_posix() for file in found)

    def has_all(self, sizes: Mapping[str, int]) -> bool:
        try:
            return all((self._path / name).stat().st_size == size for name, size in sizes.items())
        except OSError:
            return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        with _asked(self._path):
            self._path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise TargetError("expected no other export into it, found one", path=self.url) from error
            except OSError:  # a file system without locks
                pass
            yield
        finally:
            os.close(descriptor)

    def remove(self, name: str) -> None:
        path = self._path / name
        with _asked(path):
            path.unlink(missing_ok=True)
            self._prune(path)

    def move(self, source: str, target: str) -> None:
        with _asked(self._path / target):
            (self._path / target).parent.mkdir(parents=True, exist_ok=True)
            (self._path / source).rename(self._path / target)
            self._prune(self._path / source)

    def _prune(self, path: Path) -> None:
        """Remove the folders that the end of a file or folder has emptied."""
        for above in path.parents:
            if above == self._path or not above.is_dir() or any(above.iterdir()):
                return
            above.rmdir()


class Prefix(Destination):
    """A prefix of an object store.

    Args:
        location: the prefix.
        query: the options of its URL.
        options: with the credentials that these name.
    """

    def __init__(self, location: Location, query: str, options: StorageOptions) -> None:
        self._location = location
        self._query = query
        self._options = options
        self._kept: Store | None = None

    def __getstate__(self) -> tuple[Location, str, StorageOptions]:
        # Another machine gets the credentials that the URL names.
        return self._location, self._query, self._options.elsewhere([f"{self._location}?{self._query}"])

    def __setstate__(self, state: tuple[Location, str, StorageOptions]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # made again of the same arguments

    @property
    def url(self) -> str:
        return str(self._location)

    @property
    def _store(self) -> Store:
        if self._kept is None:
            self._kept = store_of(self._location, self._query, self._options)
        return self._kept

    def _key(self, name: str) -> str:
        return f"{self._location.path.strip('/')}/{name}".lstrip("/")

    def s3_options(self) -> dict[str, Any]:
        if self._location.scheme != "s3":
            raise TargetError(
                f"expected a folder or s3:// for tables of Iceberg and Delta, found {self._location.scheme}://",
                path=self.url,
            )
        return s3_arguments(self._location, self._query, dict(self._options.variables))

    @contextmanager
    def create(self, name: str) -> Iterator[NewFile]:
        requests = StoreRequests(self._store, lambda _: False)
        try:
            with requests.create(self._key(name)) as file:
                yield NewFile(file.write)
            requests.finish()
        finally:
            requests.close()

    def put(self, name: str, content: bytes) -> None:
        self._store.put(self._key(name), content)

    def read(self, name: str) -> bytes | None:
        return self._store.get(self._key(name))

    def names(self, folder: str = "") -> Iterator[str]:
        before = len(self._key(""))
        prefix = self._key(f"{folder}/" if folder else "")
        return (key[before:] for key in self._store.every_key(prefix) if not key.endswith("/"))

    def remove(self, name: str) -> None:
        self._store.delete(self._key(name))


@contextmanager
def _asked(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TargetError(f"expected to write there: {error.strerror or error}", path=str(path)) from error
