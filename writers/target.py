"""The directory of a new savepoint: nobody takes it for one before its last file, `_metadata`, stands in it whole.

A new directory is made, data files are put into it, and `_metadata` is renamed into place. Whatever ends the writer before that
leaves no `_metadata`, so Flink refuses the directory; an error removes it. No file outside the directory is opened for writing.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from readers import METADATA_FILE_NAME, given_location
from writers.errors import TargetError, TargetExistsError

_UNFINISHED = "_metadata.unfinished"
# What says that a file system has no hard links, or not from there, or not so many.
_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES})
_COPIED_BYTES = 64 << 20


class TargetDirectory:
    """A directory of this machine that becomes a savepoint.

    Args:
        path: where, on this machine; nothing may be there, and its parent must exist.

    Raises:
        TargetExistsError: something is there.
        TargetError: the parent does not exist, or may not be written to.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        location, _ = given_location(os.fspath(path))
        if location.scheme != "file":
            raise TargetError("expected a directory of this machine, found a URL", path=os.fspath(path))
        self.path = Path(location.path)
        self._is_published = False
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._is_published:
            shutil.rmtree(self.path, ignore_errors=True)

    def link(self, source: str, name: str) -> bool:
        """Make a hard link to a file; return False if the file system has none to it.

        Raises:
            TargetError: the link cannot be made for another reason.
        """
        target = self.path / name
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno in _NO_LINK:
                return False
            raise _failed(target, error) from error
        if not stat.S_ISREG(target.lstat().st_mode):
            raise TargetError("expected a file to link to, found something else", path=source)
        return True

    def copy(self, source: str, start: int, size_bytes: int, name: str) -> None:
        """Copy bytes `[start, start + size_bytes)` of a local file to a new file, inside the kernel where it can.

        Raises:
            TargetError: the file became shorter, or the disk is full.
        """
        with self._new(name) as descriptor, open(source, "rb", buffering=0) as file:
            position, end = start, start + size_bytes
            while position < end:
                copied = _copy_range(file.fileno(), descriptor, min(_COPIED_BYTES, end - position), position)
                if not copied:
                    raise TargetError(
                        f"expected {end - position} more bytes from {position} on, found the end of the file",
                        path=source,
                    )
                position += copied

    def write(self, name: str, chunks: Iterable[bytes | bytearray | memoryview]) -> None:
        """Write a new file.

        Raises:
            TargetError: the disk is full, or fails.
        """
        with self._new(name) as descriptor:
            for chunk in chunks:
                left = memoryview(chunk).cast("B")
                while left.nbytes:
                    left = left[os.write(descriptor, left) :]

    @contextmanager
    def _new(self, name: str) -> Iterator[int]:
        target = self.path / name
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            try:
                yield descriptor
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _failed(target, error) from error

    def publish(self, metadata: bytes, check: Callable[[Path], None]) -> None:
        """Write `_metadata`, check the whole, and rename it into place.

        Args:
            metadata: the bytes of `_metadata`.
            check: reads the savepoint back, by the path of its `_metadata`; what it raises stops the writing.
        """
        unfinished = self.path / _UNFINISHED
        self.write(_UNFINISHED, [metadata])
        check(unfinished)
        _sync(self.path)
        try:
            os.rename(unfinished, self.path / METADATA_FILE_NAME)
        except OSError as error:
            raise _failed(unfinished, error) from error
        self._is_published = True
        _sync(self.path)
        _sync(self.path.parent)


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


def _failed(path: Path, error: OSError) -> TargetError:
    return TargetError(f"expected to write the file: {error.strerror}", path=str(path))


def _leftover(path: Path) -> str:
    """Return a remark on what is there."""
    if path.is_dir() and not (path / METADATA_FILE_NAME).exists():
        return " without _metadata: if an earlier write was killed, remove it"
    return ""
