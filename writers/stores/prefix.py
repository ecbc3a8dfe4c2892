"""A new savepoint below a prefix of an object store.

    `_metadata.unfinished`, if there is none    reserves the prefix; then nothing else may be below it
    the data files                              several requests at a time
    `_metadata.unfinished`                      with the metadata, by which the new savepoint is read back
    `_metadata`, if there is none               from now on Flink finds a savepoint, and it is whole

An error takes back what was sent: the uploads that are not complete, `_metadata`, and then the data files. What a killed writer
sent stays, without `_metadata`, and its reservation makes the next writer refuse the prefix.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Self

from readers import METADATA_FILE_NAME, Location, ResolvedFile
from writers.errors import TargetError, TargetExistsError
from writers.stores.store import LARGEST_PART_BYTES, KeyExistsError, Store, Upload
from writers.target import UNFINISHED, Chunk, NewFile, Target, file_name, opened, shorter

# Each holds a part: this bounds memory.
_THREADS = 4
_PART_BYTES = 8 << 20
# S3 takes 10,000 parts of an object, so the parts of large objects grow.
_PARTS_OF_A_SIZE = 1000
# S3 refuses smaller parts, except for the last.
_LEAST_PART_BYTES = 5 << 20


class TargetPrefix(Target):
    """A prefix of an object store that becomes a savepoint.

    Args:
        store: has the bucket.
        location: the prefix.
        query: the options of its URL, by which the new savepoint is read back.
        serves: returns whether the store can copy from a location itself.

    Raises:
        TargetExistsError: an object is below the prefix, or another writer is at work there.
        TargetError: the store cannot be written to.
    """

    def __init__(
        self, store: Store, location: Location, query: str, serves: Callable[[Location], bool]
    ) -> None:
        self.store = store
        self.serves = serves
        self._location = location
        self._query = query
        self._prefix = location.path.strip("/") + "/"
        self._sent: list[str] = []
        self._requests: set[Future[None]] = set()
        self._is_published = False
        self._may_be_published = False
        if self._prefix == "/":
            raise TargetError("expected a folder in the bucket, found the bucket", path=str(location))
        self._reserve()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="remote-write")

    def _reserve(self) -> None:
        """Reserve the prefix, so that two writers cannot both find it empty."""
        reserved = self.key(UNFINISHED)
        token = f"A new savepoint is being written here: {uuid.uuid4()}\n".encode()
        try:
            self.store.put(reserved, token, new=True)
        except KeyExistsError as error:
            # The answer to an earlier try may have been lost.
            if self.store.get(reserved) != token:
                raise self._exists() from error
        except TargetError:
            with suppress(TargetError):
                if self.store.get(reserved) == token:
                    self.store.delete(reserved)
            raise
        try:
            others = set(self.store.keys(self._prefix)) - {reserved}
        except BaseException:
            self._remove([reserved])
            raise
        if others:
            self._remove([reserved])
            raise self._exists(others)

    def _exists(self, keys: set[str] | None = None) -> TargetExistsError:
        found = f"found {min(keys)!r} there" if keys else f"found one with {UNFINISHED}"
        hint = "" if keys else ": another writer is at work, or was killed; then remove all that is there"
        return TargetExistsError(f"expected a new folder, {found}{hint}", path=str(self._location))

    def key(self, name: str) -> str:
        """Return the key of a file of the new savepoint."""
        return self._prefix + name

    def _new_key(self, name: str) -> str:
        key = self.key(file_name(name))
        self._sent.append(key)
        return key

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for request in self._requests:
            request.cancel()
        # A part that arrives after its upload was given up would stay for ever.
        self._threads.shutdown(wait=True, cancel_futures=True)
        if not self._is_published:
            self._take_back()

    def _take_back(self) -> None:
        """Remove what was sent; a store that does not answer keeps it, without `_metadata`."""
        with suppress(TargetError):
            self.store.abort_all(self._prefix)
        if self._may_be_published:
            # Unless it is known to be gone, the files that it names must stay.
            try:
                self.store.delete(self.key(METADATA_FILE_NAME))
            except TargetError:
                return
        self._remove([*self._sent, self.key(UNFINISHED)])

    def _remove(self, keys: list[str]) -> None:
        """Remove objects; a store that refuses one refuses the others, too, and after a while each."""
        with suppress(TargetError):
            for key in keys:
                self.store.delete(key)

    def submit(self, request: Callable[[], None]) -> Future[None]:
        """Send a request beside others, as soon as fewer than `_THREADS` are under way.

        Raises:
            TargetError: an earlier one failed.
        """
        while len(self._requests) >= _THREADS:
            self._settle(wait(self._requests, return_when=FIRST_COMPLETED).done)
        future = self._threads.submit(request)
        self._requests.add(future)
        return future

    def _settle(self, done: set[Future[None]]) -> None:
        self._requests -= done
        for request in done:
            request.result()

    def take(self, file: ResolvedFile, name: str, *, shared: bool) -> bool:
        """Copy a file inside the store, if it is one of the store's."""
        if not self.serves(file.location):
            return False
        if file.size_bytes <= LARGEST_PART_BYTES:
            key = self._new_key(name)
            self.submit(lambda: self.store.copy(file.location, key))
            return True
        if not self.store.copies_parts:
            return False
        with self.create(name) as new:
            return new.copy(file, 0, file.size_bytes)

    @contextmanager
    def create(self, name: str) -> Iterator[NewFile]:
        file = _StoreFile(self, self._new_key(name))
        try:
            yield file
            file.complete()
        except BaseException:
            file.abort()
            raise

    def publish(self, metadata: bytes, check: Callable[[str], None]) -> None:
        self._settle(wait(self._requests).done)
        # What came as parts is sent by name: a part of this size never comes again.
        self.store.put(self.key(UNFINISHED), metadata)
        unfinished = f"{self._location}/{UNFINISHED}"
        check(f"{unfinished}?{self._query}" if self._query else unfinished)
        self._may_be_published = True
        published = self.key(METADATA_FILE_NAME)
        try:
            self.store.put(published, metadata, new=True)
        except TargetError as error:
            # The answer to an earlier try may have been lost.
            if self._found(published) != metadata:
                # Another writer's stays, with the files that it names.
                self._may_be_published = not isinstance(error, KeyExistsError)
                raise
        self._is_published = True
        with suppress(TargetError):
            self.store.abort_all(self._prefix)
        self._remove([self.key(UNFINISHED)])

    def _found(self, key: str) -> bytes | None:
        try:
            return self.store.get(key)
        except TargetError:
            return None


@dataclass(frozen=True, slots=True)
class _PartCopy:
    """A part that is copied inside the store."""

    source: Location
    start: int
    size_bytes: int

    def __call__(self, upload: Upload, number: int) -> None:
        upload.copy(number, self.source, self.start, self.size_bytes)


class _StoreFile(NewFile):
    """An object that is sent in parts; a small one in one piece."""

    def __init__(self, target: TargetPrefix, key: str) -> None:
        self._target = target
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
        upload = self._upload = self._upload or self._target.store.begin(self._key)
        number = len(self._parts) + 1
        if self._target.store.sends_in_order and self._parts:
            self._parts[-1].result()
        self._parts.append(self._target.submit(lambda: request(upload, number)))

    def copy(self, file: ResolvedFile, start: int, size_bytes: int) -> bool:
        if file.is_local:
            self._read(file, start, size_bytes)
            return True
        in_store = self._target.store.copies_parts and self._target.serves(file.location)
        if not in_store or size_bytes < _LEAST_PART_BYTES or 0 < len(self._buffer) < _LEAST_PART_BYTES:
            return False
        if self._buffer:
            self._send()
        count = -(-size_bytes // LARGEST_PART_BYTES)
        ends = [start + size_bytes * number // count for number in range(count + 1)]
        for first, end in pairwise(ends):
            self._submit(_PartCopy(file.location, first, end - first))
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
            body, key, store = self._buffer, self._key, self._target.store
            self._target.submit(lambda: store.put(key, body))
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
