"""The errors of the readers room.

    ReaderError                            carries: path, position, breadcrumbs
      NotASavepointError                   no `_metadata`, wrong magic
      UnsupportedVersionError              a format version that is not known: what, found, known
      UnsupportedSerializerError           java class, snapshot version
        ClassMismatchError                 bytes of another version of a class than that of the jars
          LeftOverError                    the same, and only bytes behind its end tell so
      UnsupportedStateError                a kind of state file that is recognised and not decoded
      CorruptDataError                     bytes contradict the format; shows a hex window
      ValueOutOfRangeError                 a value that its column type cannot hold exactly
      ReaderFailureError                   the readers fail where no check foresees it
      MissingFileError (FileNotFoundError) a file that the savepoint names does not exist
        SavepointGoneError                 the savepoint, or a file of it, was deleted after it was opened
      PathOutsideRootError                 a file that the savepoint names lies outside the allowed roots
      StorageError                         the file system failed: permissions, network
        AccessDeniedError                  credentials are missing, expired, or do not allow this
        FileChangedError                   a file was replaced or cut after it was opened

Every message says what was expected, what was found and where. `path` is the file as the savepoint names it,
`position` the byte offset in it, `breadcrumbs` the names from the operator down to the field.

`located` gives errors their place, and makes one typed error of what the readers do not foresee.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import pyarrow as pa

_HEX_WINDOW_BYTES = 16  # on each side of the position
# Matches `/a/b/` in `/a/b/name`, and `file:/a/b/` in `file:/a/b/name`; in quotes, folders may have blanks in their names.
_SCHEME = r"(?:[a-z][a-z0-9+.-]*:/{0,2})?"
_FOLDERS = re.compile(rf"(?<=['\"]){_SCHEME}/(?:[^'\"\n]+/)+|(?<![\w/.…]){_SCHEME}/(?:[^\s/'\"]+/)+")


class ReaderError(Exception):
    """Root of all errors of the readers room.

    Args:
        message: what was expected and what was found.
        path: the file concerned, as the savepoint names it.
        position: byte offset in that file.
        breadcrumbs: from the outermost (operator) to the innermost (field).

    Attributes:
        may_pass: True if the same request may succeed later, as the file itself is not at fault.
    """

    may_pass: ClassVar[bool] = False

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
        """Add outer breadcrumbs (and the path, if there is none yet) and return self, for `raise error.within(…)`."""
        # The error itself, not a copy: its traceback leads to the byte that was read.
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

    @property
    def told(self) -> str:
        """Its text with the names of files alone, for everybody who asks: where the folders are is the owner's business."""
        text = str(self)
        if self.path is not None and "/" in self.path:
            # Folders may have blanks in their names, where a pattern would end.
            text = text.replace(self.path, f"…/{self.path.rstrip('/').rpartition('/')[2]}")
        return without_folders(text)

    # Errors cross processes. `Exception` would rebuild them from `args` alone, without the keywords.
    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.path, self.position, self.breadcrumbs))


def without_folders(text: str) -> str:
    """Shorten every path in a text to its last name."""
    return _FOLDERS.sub("…/", text)


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


class ClassMismatchError(UnsupportedSerializerError):
    """Bytes that are not as the class files of the jars lay out the objects of a class."""


class LeftOverError(ClassMismatchError):
    """Bytes that are left where the class files of the jars see the end of an object: Flink passes over them."""


class UnsupportedStateError(ReaderError):
    """A state whose file layout is recognised and named, but not decoded here."""


class CorruptDataError(ReaderError):
    """The bytes contradict the format."""


class ValueOutOfRangeError(ReaderError):
    """A value that its column type cannot hold exactly; never wrapped or rounded."""


class ReaderFailureError(ReaderError):
    """The readers fail on a value: a defect of this version. Please report the message."""


class MissingFileError(ReaderError, FileNotFoundError):
    """A file that the savepoint names is missing, also where a moved savepoint keeps it."""


class SavepointGoneError(MissingFileError):
    """The savepoint, or a file of it, was deleted after it was opened."""


class PathOutsideRootError(ReaderError):
    """A path in the savepoint's metadata leads outside the allowed roots."""


class StorageError(ReaderError):
    """The file system failed: permissions, network, a wrong answer of a server."""

    may_pass = True


class AccessDeniedError(StorageError):
    """Credentials are missing, expired, or do not allow this; the message names the places that are searched for them."""


class FileChangedError(StorageError):
    """A file was cut or replaced after it was opened."""


def hex_window(data: bytes | memoryview, position: int) -> str:
    """Return the bytes around `position` as hex, with a bar before the byte at `position`: for error messages."""
    start = max(0, position - _HEX_WINDOW_BYTES)
    before = bytes(data[start:position]).hex()
    after = bytes(data[position : position + _HEX_WINDOW_BYTES]).hex()
    return f"{before}|{after}"


# Of Python, numpy and Arrow. Not among them: too little memory, errors of files, and whatever stops a query.
FAILURES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, RecursionError,
    TypeError, ValueError, struct.error, pa.ArrowCapacityError,
)  # fmt: skip


@contextmanager
def located(
    *breadcrumbs: str, path: str | None = None, position: int | None = None, what: Callable[[], str]
) -> Iterator[None]:
    """Give errors the place of what is read within the context.

    Args:
        *breadcrumbs: from the outermost to the innermost.
        path: the file.
        position: the byte in it where what is read begins.
        what: returns what is expected, for failures that no check foresees.

    Raises:
        ReaderError: the error itself; an error that is none becomes a `ReaderFailureError`.
    """
    try:
        yield
    except ReaderError as error:
        raise error.within(*breadcrumbs, path=path) from error
    except FAILURES as error:
        message = f"expected {what()}, but reading fails with {type(error).__name__}: {error}"
        raise ReaderFailureError(message, path=path, position=position, breadcrumbs=breadcrumbs) from error
