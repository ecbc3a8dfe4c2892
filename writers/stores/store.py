"""The requests that a new savepoint needs of a store. A key is the path of an object in its bucket, without a slash in front.

Store           what a store can do
StoreRequests   the requests that are under way
StoreFile       an object that is sent in parts; a small one in one piece
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise

from readers import Location, ResolvedFile
from writers.errors import TargetError
from writers.target import Chunk, NewFile, opened, shorter

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


# Each holds a part: this bounds memory.
_THREADS = 4
_PART_BYTES = 8 << 20
# S3 takes 10,000 parts of an object, so the parts of large objects grow.
_PARTS_OF_A_SIZE = 1000
# S3 refuses smaller parts, except for the last.
_LEAST_PART_BYTES = 5 << 20


class StoreRequests:
    """The requests of one writer to one store.

    Args:
        store: has the bucket.
        serves: returns whether the store can copy from a location itself.
    """

    def __init__(self, store: Store, serves: Callable[[Location], bool]) -> None:
        self.store = store
        self.serves = serves
        self._under_way: set[Future[None]] = set()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="remote-write")

    def submit(self, request: Callable[[], None]) -> Future[None]:
        """Send a request beside others, as soon as fewer than `_THREADS` are under way.

        Raises:
            TargetError: an earlier one failed.
        """
        while len(self._under_way) >= _THREADS:
            self._settle(wait(self._under_way, return_when=FIRST_COMPLETED).done)
        future = self._threads.submit(request)
        self._under_way.add(future)
        return future

    def finish(self) -> None:
        """Wait for all requests.

        Raises:
            TargetError: one failed.
        """
        self._settle(wait(self._under_way).done)

    def _settle(self, done: set[Future[None]]) -> None:
        self._under_way -= done
        for request in done:
            request.result()

    def close(self) -> None:
        """Send no more requests, and wait for those that were sent."""
        for request in self._under_way:
            request.cancel()
        # A part that arrives after its upload was given up would stay for ever.
        self._threads.shutdown(wait=True, cancel_futures=True)

    @contextmanager
    def create(self, key: str, *, check: Callable[[], None] = lambda: None) -> Iterator[NewFile]:
        """Begin a new object, which is whole when the context ends without an error.

        Args:
            key: its key.
            check: is called before the object is completed; what it raises gives it up.
        """
        file = StoreFile(self, key)
        try:
            yield file
            check()
            file.complete()
        except BaseException:
            file.abort()
            raise


class StoreFile(NewFile):
    """An object that is sent in parts; a small one in one piece."""

    def __init__(self, requests: StoreRequests, key: str) -> None:
        self._requests = requests
        self._key = key
        self._buffer = bytearray()
        self._upload: Upload | None = None
        self._parts: list[Future[None]] = []

    def write(self, chunk: Chunk) -> None:
        left = memoryview(chunk).cast("B")
        while left.nbytes:
            taken = left[: self._part_bytes - len(self._buffer)]
            self._buffer += taken
            left = left[taken.nbytes :]
            if len(self._buffer) == self._part_bytes:
                self._send()

    @property
    def _part_bytes(self) -> int:
        return _PART_BYTES << (len(self._parts) // _PARTS_OF_A_SIZE)

    def _send(self) -> None:
        part, self._buffer = self._buffer, bytearray()
        self._submit(lambda upload, number: upload.send(number, part))

    def _submit(self, request: Callable[[Upload, int], None]) -> None:
        upload = self._upload = self._upload or self._requests.store.begin(self._key)
        number = len(self._parts) + 1
        if self._requests.store.sends_in_order and self._parts:
            self._parts[-1].result()
        self._parts.append(self._requests.submit(lambda: request(upload, number)))

    def copy(self, file: ResolvedFile, start: int, size_bytes: int) -> bool:
        if file.is_local:
            self._read(file, start, size_bytes)
            return True
        in_store = self._requests.store.copies_parts and self._requests.serves(file.location)
        if not in_store or size_bytes < _LEAST_PART_BYTES or 0 < len(self._buffer) < _LEAST_PART_BYTES:
            return False
        if self._buffer:
            self._send()
        count = -(-size_bytes // LARGEST_PART_BYTES)
        ends = [start + size_bytes * number // count for number in range(count + 1)]
        for first, end in pairwise(ends):
            self._submit(partial(_copy_part, file.location, first, end - first))
        return True

    def _read(self, file: ResolvedFile, start: int, size_bytes: int) -> None:
        """Send bytes of a local file, which is read and not mapped: a file that shrinks is an error and not a signal."""
        position, end = start, start + size_bytes
        with opened(file) as source:
            while position < end:
                chunk = os.pread(source, min(_PART_BYTES, end - position), position)
                if not chunk:
                    raise shorter(file, position, end)
                self.write(chunk)
                position += len(chunk)

    def complete(self) -> None:
        """Make the object of what was written."""
        if self._upload is None:
            body, key, store = self._buffer, self._key, self._requests.store
            self._requests.submit(lambda: store.put(key, body))
            return
        if self._buffer:
            self._send()
        for part in self._parts:
            part.result()
        self._upload.complete()

    def abort(self) -> None:
        """Give up what was sent."""
        for part in self._parts:
            part.cancel()
        wait(self._parts)
        if self._upload is not None:
            with suppress(TargetError):
                self._upload.abort()


def _copy_part(source: Location, start: int, size_bytes: int, upload: Upload, number: int) -> None:
    """Copy a part inside the store."""
    upload.copy(number, source, start, size_bytes)
