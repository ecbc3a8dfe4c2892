"""The place of a new savepoint: nobody takes it for one before its last file, `_metadata`, stands in it whole.

    Target            what every place can do
    NewFile           a file of it that is being written: `with target.create(name) as file: file.write(chunk)`
    TargetDirectory   a directory of this machine; `writers.stores` has the others
    TargetReference   what another process needs to write files of a target, too: it becomes a `JoinedTarget`

A new directory is made, data files are put into it, and `_metadata` is renamed into place. Whatever ends the writer before that
leaves no `_metadata`, so Flink refuses the directory; an error removes it. No file outside the directory is opened for writing.

Until then the target holds a token in `_metadata.unfinished`: nobody begins another target inside of it. The writer locks its directory
(`flock`), so that a second one can distinguish a write that is at work from one that was killed. What is removed are the files of the
directory: targets have no folders, and those of others stay.

Processes that join a target compare the token before they write: a process that sees another place by the same path, or joins too late,
writes nothing. They never make the place themselves.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from readers import METADATA_FILE_NAME, MissingFileError, ResolvedFile, SavepointLocation
from writers.errors import TargetError, TargetExistsError

UNFINISHED = "_metadata.unfinished"
# What says that a file system has no hard links, or not from there, or not so many.
_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES})
_COPIED_BYTES = 64 << 20
_REMOVALS = 3
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Chunk = bytes | bytearray | memoryview


class NewFile(ABC):
    """A file of a target that is being written."""

    @abstractmethod
    def write(self, chunk: Chunk) -> None:
        """Append bytes, which the caller may change afterwards.

        Raises:
            TargetError: the disk is full, or the store fails.
        """

    @abstractmethod
    def copy(self, file: ResolvedFile, start: int, size_bytes: int) -> bool:
        """Append bytes of a file that this process need not see; return False if it must read and write them.

        Args:
            file: a file of the source.
            start: where the bytes begin in that file, whatever range of it the handle has.
            size_bytes: their number.

        Raises:
            TargetError: the file became shorter, or the disk is full.
            MissingFileError: the file vanished.
        """


class JoinedTarget(ABC):
    """A target that another process has begun and will publish: this process writes files of it, and reads such files."""

    @abstractmethod
    def create(self, name: str) -> AbstractContextManager[NewFile]:
        """Begin a new file: see `Target.create`. An error removes it."""

    @abstractmethod
    def read(self, name: str, start: int, size_bytes: int) -> pa.Buffer:
        """Return bytes of a file of the target, mapped: they are not in memory at once.

        Raises:
            TargetError: the file is gone, or shorter.
        """

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Release what it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPart:
    """A part of a file of a target.

    Attributes:
        name: of the file.
        start: where it begins there.
        size_bytes: its size.
        target: reads it; None in the process that has begun the target.
    """

    name: str
    start: int
    size_bytes: int
    target: JoinedTarget | None = None

    def read(self) -> pa.Buffer:
        """Return its bytes, mapped.

        Raises:
            TargetError: the file is gone, or shorter.
        """
        if not self.size_bytes:
            return pa.py_buffer(b"")
        assert self.target is not None
        return self.target.read(self.name, self.start, self.size_bytes)


class TargetReference(ABC):
    """All that another process needs to join a target: small, can be pickled."""

    @abstractmethod
    def joined(self, source: Callable[[], SavepointLocation]) -> JoinedTarget:
        """Join the target.

        Args:
            source: returns the source savepoint, as this process sees it; called only for files of it.

        Raises:
            TargetError: this process does not see the target, or the writer has given it up.
        """


class Target(AbstractContextManager["Target"]):
    """The place of a new savepoint; leaving its context before `publish` removes all that was written.

    Attributes:
        takes_several: True if several threads may write a new file each.
    """

    takes_several: ClassVar[bool] = False

    @abstractmethod
    def take(self, file: ResolvedFile, name: str, *, shared: bool) -> bool:
        """Make a new file of a whole file of the source at once; return False if its bytes must be copied.

        Args:
            file: the file of the source.
            name: the new file's.
            shared: True if the two may share their bytes.

        Raises:
            TargetError: it cannot be made, though files like it can.
        """

    @abstractmethod
    def create(self, name: str) -> AbstractContextManager[NewFile]:
        """Begin a new file, which is whole when its context ends without an error.

        Raises:
            TargetError: it cannot be written, or exists.
        """

    @abstractmethod
    def reference(self) -> TargetReference:
        """Return what other processes join it by; from now on they may.

        Raises:
            TargetError: it cannot be written to.
        """

    @abstractmethod
    def keep(self, names: Collection[str]) -> None:
        """Remove all files but these: other processes may have left some that they did not finish, or did not need.

        Raises:
            TargetError: one cannot be removed.
        """

    @abstractmethod
    def publish(self, metadata: bytes, check: Callable[[str], None]) -> None:
        """Write `_metadata`, check the whole, and only then give the file its name.

        Args:
            metadata: the bytes of `_metadata`.
            check: reads the savepoint back, by the path or URL of its `_metadata`; what it raises stops the writing.
        """


class TargetDirectory(Target):
    """A directory of this machine that becomes a savepoint.

    Args:
        path: an absolute path that does not exist yet; its parent must exist.

    Raises:
        TargetExistsError: something is there.
        TargetError: the parent does not exist, may not be written to, or is inside of an unfinished target.
    """

    takes_several = True

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._token = new_token()
        self._is_published = False
        _check_place(self.path)
        try:
            self.path.mkdir()
        except FileExistsError as error:
            raise TargetExistsError(
                f"expected a new directory, found one that exists{_leftover(self.path)}", path=str(self.path)
            ) from error
        except OSError as error:
            raise TargetError(
                f"expected a directory to write to: {error.strerror}", path=str(self.path)
            ) from error
        try:
            self._lock = os.open(self.path, _FOLDER)
        except OSError as error:
            self._give_up()
            raise _failed(self.path, error) from error
        # Not every file system has locks: there nobody can distinguish this writer from one that was killed.
        with suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            with self.create(UNFINISHED) as file:
                file.write(self._token)
        except BaseException:
            self._give_up()
            os.close(self._lock)
            raise

    def __exit__(self, *_: object) -> None:
        if not self._is_published:
            self._give_up()
        os.close(self._lock)

    def _give_up(self) -> None:
        # First the token: who joins from now on finds none.
        with suppress(OSError):
            (self.path / UNFINISHED).unlink()
        _remove(self.path)

    def take(self, file: ResolvedFile, name: str, *, shared: bool) -> bool:
        if not (shared and file.is_local):
            return False
        target = self.path / file_name(name)
        try:
            os.link(file.location.path, target, follow_symlinks=False)
        except FileNotFoundError as error:
            raise _vanished(file) from error
        except OSError as error:
            if error.errno in _NO_LINK:
                return False
            raise _failed(target, error) from error
        if not stat.S_ISREG(target.lstat().st_mode):
            raise TargetError("expected a file to link to, found something else", path=file.path)
        return True

    def create(self, name: str) -> AbstractContextManager[NewFile]:
        return _created(self.path / file_name(name))

    def reference(self) -> TargetReference:
        return _DirectoryReference(path=str(self.path), token=self._token, machine=socket.gethostname())

    def keep(self, names: Collection[str]) -> None:
        try:
            for file in os.scandir(self.path):
                if file.name not in {*names, UNFINISHED} and not file.is_dir(follow_symlinks=False):
                    # An attempt that ends at this moment removes its own.
                    with suppress(FileNotFoundError):
                        os.unlink(file.path)
        except OSError as error:
            raise _failed(self.path, error) from error

    def publish(self, metadata: bytes, check: Callable[[str], None]) -> None:
        unfinished = self.path / UNFINISHED
        unfinished.unlink(missing_ok=True)
        with self.create(UNFINISHED) as file:
            file.write(metadata)
        check(str(unfinished))
        _sync(self.path)
        try:
            os.rename(unfinished, self.path / METADATA_FILE_NAME)
        except OSError as error:
            raise _failed(unfinished, error) from error
        self._is_published = True
        _sync(self.path)
        _sync(self.path.parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DirectoryReference(TargetReference):
    """A directory that several machines share.

    Attributes:
        path: on all of them.
        token: what `_metadata.unfinished` has.
        machine: the name of the one that has made it, for people.
    """

    path: str
    token: bytes
    machine: str

    def joined(self, source: Callable[[], SavepointLocation]) -> JoinedTarget:
        path = Path(self.path)
        try:
            found = (path / UNFINISHED).read_bytes()
        except OSError:
            found = b""
        if found != self.token:
            raise not_joined(self.path, self.machine)
        return _JoinedDirectory(path)


class _JoinedDirectory(JoinedTarget):
    """A directory that another process has made."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def create(self, name: str) -> Iterator[NewFile]:
        path = self._path / file_name(name)
        try:
            with _created(path) as file:
                yield file
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def read(self, name: str, start: int, size_bytes: int) -> pa.Buffer:
        return mapped(self._path / file_name(name), start, size_bytes)


def new_token() -> bytes:
    """Return what `_metadata.unfinished` has as long as others write files of a target."""
    return f"A new savepoint is being written here: {uuid.uuid4()}\n".encode()


def not_joined(path: str, machine: str) -> TargetError:
    """Return the error of a process that does not see a target."""
    return TargetError(
        f"expected the new savepoint that {machine} has begun, found none on {socket.gethostname()}: its place must be one that "
        "all machines share by the same name, or the write has ended",
        path=path,
    )


def mapped(path: Path, start: int, size_bytes: int) -> pa.Buffer:
    """Return bytes of a file of this machine, mapped.

    Raises:
        TargetError: the file is gone, or shorter.
    """
    try:
        with pa.memory_map(str(path)) as file:
            file.seek(start)
            found = file.read_buffer(size_bytes)
    except OSError as error:
        raise TargetError(f"expected to read the file: {error}", path=str(path)) from error
    if found.size != size_bytes:
        raise TargetError(f"expected {size_bytes} bytes from {start} on, found {found.size}", path=str(path))
    return found


@contextmanager
def _created(path: Path) -> Iterator[NewFile]:
    """Make a new file of this machine.

    Raises:
        TargetError: it exists, or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            yield _LocalFile(descriptor)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _failed(path, error) from error


class _LocalFile(NewFile):
    """An open descriptor. Its errors are raised by `create`, which knows the name."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, chunk: Chunk) -> None:
        left = memoryview(chunk).cast("B")
        while left.nbytes:
            left = left[os.write(self._descriptor, left) :]

    def copy(self, file: ResolvedFile, start: int, size_bytes: int) -> bool:
        """Append bytes inside the kernel where it can."""
        if not file.is_local:
            return False
        position, end = start, start + size_bytes
        with opened(file) as source:
            while position < end:
                copied = _copy_range(source, self._descriptor, min(_COPIED_BYTES, end - position), position)
                if not copied:
                    raise shorter(file, position, end)
                position += copied
        return True


def file_name(name: str) -> str:
    """Return the name of a new file, which stands in the target itself, whatever a hostile source calls its files.

    Raises:
        TargetError: it leads elsewhere.
    """
    if name in {"", ".", "..", METADATA_FILE_NAME} or "/" in name or "\0" in name:
        raise TargetError("expected the name of a data file, found something else", path=repr(name))
    return name


@contextmanager
def opened(file: ResolvedFile) -> Iterator[int]:
    """Open a local file of the source for reading. Its links were followed when it was found allowed, and are not again.

    Raises:
        MissingFileError: it vanished.
    """
    try:
        descriptor = os.open(file.location.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise _vanished(file) from error
    except OSError as error:
        raise TargetError(f"expected to read the file: {error.strerror}", path=file.path) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def shorter(file: ResolvedFile, position: int, end: int) -> TargetError:
    """Return the error of a file of the source that became shorter."""
    return TargetError(
        f"expected {end - position} more bytes from {position} on, found the end of the file", path=file.path
    )


def _copy_range(source: int, target: int, size_bytes: int, position: int) -> int:
    """Copy bytes from a position on, at the end of the target; return their number."""
    try:
        return os.copy_file_range(source, target, size_bytes, position)
    except OSError as error:
        # An old kernel, or two file systems.
        if error.errno not in {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}:
            raise
    data = os.pread(source, min(size_bytes, 1 << 20), position)
    return os.write(target, data)


def _sync(directory: Path) -> None:
    """Make the names in a directory last. Some file systems cannot, and need not."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _vanished(file: ResolvedFile) -> MissingFileError:
    return MissingFileError("expected the file that was there a moment ago, found nothing", path=file.path)


def _failed(path: Path, error: OSError) -> TargetError:
    return TargetError(f"expected to write the file: {error.strerror}", path=str(path))


def remove_unfinished(path: str) -> None:
    """Remove what a writer that was killed has left of a target: nothing of a savepoint, or of a writer that is at work."""
    if not os.path.lexists(os.path.join(path, METADATA_FILE_NAME)) and not _is_locked(path):
        _remove(Path(path))


def _check_place(path: Path) -> None:
    """Refuse a target whose name is that of a file of savepoints, or that would go with another savepoint.

    Raises:
        TargetError: it is.
    """
    if path.name in {METADATA_FILE_NAME, UNFINISHED}:
        raise TargetError(
            f"expected another name for the new savepoint than {path.name!r}, the name of a file of each savepoint",
            path=str(path),
        )
    for above in Path(os.path.realpath(path)).parents:
        is_finished = os.path.isfile(above / METADATA_FILE_NAME)
        if is_finished or os.path.lexists(above / UNFINISHED):
            raise TargetError(inside_of(str(above), is_finished=is_finished), path=str(path))


def inside_of(above: str, *, is_finished: bool) -> str:
    """Return the text of the error of a target inside of another savepoint, which would take it away with its own files."""
    state = (
        "which is a savepoint"
        if is_finished
        else "which is being written or is left of a write that was killed"
    )
    return f"expected a place outside of other savepoints, found one in {above}, {state}"


def _remove(folder: Path) -> None:
    """Remove the files of a target, and the target if nothing else is in it."""
    for _ in range(_REMOVALS):
        with suppress(OSError):
            for file in os.scandir(folder):
                if not file.is_dir(follow_symlinks=False):
                    with suppress(OSError):
                        os.unlink(file.path)
        # A process that had joined may have begun a file while the others were removed.
        with suppress(OSError):
            folder.rmdir()
            return


def _is_locked(path: str | Path) -> bool:
    """Return whether a writer is at work in a directory."""
    try:
        folder = os.open(path, _FOLDER)
    except OSError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(folder)
    return False


def _leftover(path: Path) -> str:
    """Return a remark on what is there."""
    if _is_locked(path):
        return ": another write is at work there; choose another directory"
    if path.is_dir() and not (path / METADATA_FILE_NAME).exists():
        return " without _metadata: if an earlier write was killed, remove it"
    return ""
