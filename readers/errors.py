"""The errors of the readers room.

    ReaderError                            carries: path, position, breadcrumbs
      NotASavepointError                   no `_metadata`, wrong magic
      UnsupportedVersionError              newer (or older) than we know: what, found, known
      UnsupportedSerializerError           java class, snapshot version
      UnsupportedStateError                a kind of state file that no reader here serves
      CorruptDataError                     bytes contradict the format; shows a hex window
      ValueOutOfRangeError                 a value that its column type cannot hold exactly
      MissingFileError (FileNotFoundError) a file the savepoint names is not there
        SavepointGoneError                 the savepoint, or a file of it, was deleted since it was opened
      PathOutsideRootError                 a file the savepoint names lies outside the allowed roots
      StorageError                         the file system failed: permissions, network
        AccessDeniedError                  credentials are missing, expired, or may not do this
        FileChangedError                   a file is not what it was when it was opened: shorter, say

Every message says what was expected, what was found and where. `path` is the file as the savepoint names it,
`position` the byte offset in it, `breadcrumbs` the way from operator to field.
"""

from __future__ import annotations

_HEX_WINDOW_BYTES = 16


class ReaderError(Exception):
    """Root of all errors of the readers room.

    Args:
        message: what was expected and what was found.
        path: the file concerned, as the savepoint names it.
        position: byte offset in that file.
        breadcrumbs: from the outermost (operator) to the innermost (field).
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        position: int | None = None,
        breadcrumbs: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.position = position
        self.breadcrumbs = breadcrumbs

    def within(self, *outer: str, path: str | None = None) -> ReaderError:
        """Add outer breadcrumbs (and the path, if not yet known); returns self, for `raise error.within(…)`."""
        self.breadcrumbs = (*outer, *self.breadcrumbs)
        self.path = self.path or path
        return self

    def __str__(self) -> str:
        where = []
        if self.breadcrumbs:
            where.append(" › ".join(self.breadcrumbs))
        if self.path is not None:
            where.append(self.path)
        if self.position is not None:
            where.append(f"byte {self.position}")
        return f"{self.message} ({', '.join(where)})" if where else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.path, self.position, self.breadcrumbs))


def _rebuild(
    kind: type[ReaderError],
    message: str,
    path: str | None,
    position: int | None,
    breadcrumbs: tuple[str, ...],
) -> ReaderError:
    return kind(message, path=path, position=position, breadcrumbs=breadcrumbs)


class NotASavepointError(ReaderError):
    """There is no `_metadata`, or it does not begin with Flink's magic number."""


class UnsupportedVersionError(ReaderError):
    """A format version that is not known here."""


class UnsupportedSerializerError(ReaderError):
    """A serializer (snapshot) class whose layout is not known here."""


class UnsupportedStateError(ReaderError):
    """A state whose file layout is recognised and named, but not decoded here."""


class CorruptDataError(ReaderError):
    """The bytes contradict the format."""


class ValueOutOfRangeError(ReaderError):
    """A value that its column type cannot hold exactly; never wrapped or rounded."""


class MissingFileError(ReaderError, FileNotFoundError):
    """A file that the savepoint names does not exist, neither there nor where a moved savepoint would keep it."""


class SavepointGoneError(MissingFileError):
    """The savepoint, or a file of it, was deleted since it was opened."""


class PathOutsideRootError(ReaderError):
    """A path in the savepoint's metadata leads outside the allowed roots."""


class StorageError(ReaderError):
    """The file system failed: permissions, network, a server that does not answer as it should."""


class AccessDeniedError(StorageError):
    """Credentials are missing, expired, or do not allow this; the message says where they are looked for."""


class FileChangedError(StorageError):
    """A file is not what it was when it was opened: shorter, or another."""


def hex_window(data: bytes | memoryview, position: int) -> str:
    """The bytes around `position` as hex, the byte at `position` behind a bar: for error messages."""
    start = max(0, position - _HEX_WINDOW_BYTES)
    before = bytes(data[start:position]).hex()
    after = bytes(data[position : position + _HEX_WINDOW_BYTES]).hex()
    return f"{before}|{after}"
