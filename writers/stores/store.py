"""The requests that a new savepoint needs of a store. A key is the path of an object in its bucket, without a slash in front."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from readers import Location
from writers.errors import TargetError
from writers.target import Chunk

LARGEST_PART_BYTES = 1 << 30
"""The most that one request copies inside the store: larger objects are copied in parts, side by side."""


class KeyExistsError(TargetError):
    """An object has the key already."""


class Upload(ABC):
    """An object that is sent in parts. Nobody sees it before `complete`."""

    @abstractmethod
    def send(self, number: int, part: Chunk) -> None:
        """Send a part; parts count from 1.

        Raises:
            TargetError: the store refuses it.
        """

    @abstractmethod
    def copy(self, number: int, source: Location, start: int, size_bytes: int) -> None:
        """Make a part of the bytes of another object, inside the store.

        Raises:
            TargetError: the store refuses it.
        """

    @abstractmethod
    def complete(self) -> None:
        """Make the object of all parts.

        Raises:
            TargetError: the store refuses it.
        """

    @abstractmethod
    def abort(self) -> None:
        """Give up what was sent.

        Raises:
            TargetError: the store refuses it.
        """


class Store(ABC):
    """A bucket.

    Attributes:
        sends_in_order: True if the parts of an upload must be sent one after the other.
        copies_parts: True if a part can be copied inside the store.
    """

    sends_in_order = False
    copies_parts = False

    @abstractmethod
    def keys(self, prefix: str, after: str = "") -> list[str]:
        """Return some keys that begin with a prefix, in their order; an empty list if there is none.

        Args:
            prefix: the prefix.
            after: only keys behind this one.

        Raises:
            TargetError: the prefix cannot be listed.
        """

    def every_key(self, prefix: str) -> Iterator[str]:
        """Yield all keys that begin with a prefix.

        Raises:
            TargetError: the prefix cannot be listed.
        """
        found = self.keys(prefix)
        while found:
            yield from found
            found = self.keys(prefix, after=found[-1])

    @abstractmethod
    def put(self, key: str, body: Chunk, *, new: bool = False) -> None:
        """Write a whole object.

        Args:
            key: its key.
            body: its bytes.
            new: True if no object may have the key.

        Raises:
            KeyExistsError: one has.
            TargetError: the store refuses it.
        """

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the bytes of a small object; None if there is none.

        Raises:
            TargetError: it cannot be read.
        """

    @abstractmethod
    def read(self, key: str, start: int, size_bytes: int) -> bytes:
        """Return bytes of an object; fewer where it ends before.

        Raises:
            TargetError: it is gone, or cannot be read.
        """

    @abstractmethod
    def copy(self, source: Location, key: str) -> None:
        """Copy an object of at most `LARGEST_PART_BYTES` inside the store.

        Raises:
            TargetError: the store refuses it.
        """

    @abstractmethod
    def begin(self, key: str) -> Upload:
        """Begin an object that is sent in parts.

        Raises:
            TargetError: the store refuses it.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object, if there is one.

        Raises:
            TargetError: the store refuses it.
        """

    @abstractmethod
    def abort_all(self, prefix: str) -> None:
        """Give up every unfinished upload of a file right below a prefix: the answer that named one may have been lost.

        Raises:
            TargetError: the store refuses it.
        """
