"""A new savepoint below a prefix of an object store.

    `_metadata.unfinished`, if there is none    reserves the prefix; then nothing else may be below it
    the data files                              several requests at a time
    `_metadata.unfinished`                      with the metadata, by which the new savepoint is read back
    `_metadata`, if there is none               from now on Flink finds a savepoint, and it is whole

An error takes back what was sent: the uploads that are not complete, `_metadata`, and then the data files. What a killed writer
sent stays, without `_metadata`, and its reservation makes the next writer refuse the prefix.

A `JoinedPrefix` is one that another process has reserved, and publishes.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import pyarrow as pa

from readers import METADATA_FILE_NAME, Location, ResolvedFile
from writers.errors import TargetError, TargetExistsError
from writers.stores.store import LARGEST_PART_BYTES, KeyExistsError, Store, StoreRequests
from writers.target import (
    UNFINISHED,
    JoinedTarget,
    NewFile,
    Target,
    TargetReference,
    file_name,
    inside_of,
    new_token,
    not_joined,
)


class TargetPrefix(Target):
    """A prefix of an object store that becomes a savepoint.

    Args:
        store: has the bucket.
        location: the prefix.
        query: the options of its URL, by which the new savepoint is read back.
        serves: returns whether the store can copy from a location itself.
        referred: returns what other processes join it by, made of the token of its reservation.

    Raises:
        TargetExistsError: an object is below the prefix, or another writer is at work there.
        TargetError: the store cannot be written to.
    """

    def __init__(
        self,
        store: Store,
        location: Location,
        query: str,
        serves: Callable[[Location], bool],
        referred: Callable[[bytes], TargetReference],
    ) -> None:
        self._store = store
        self._referred = referred
        self._location = location
        self._query = query
        self._prefix = location.path.strip("/") + "/"
        self._sent: list[str] = []
        self._token = new_token()
        self._is_joined = False
        self._is_published = False
        self._may_be_published = False
        if self._prefix == "/":
            raise TargetError("expected a folder in the bucket, found the bucket", path=str(location))
        self._reserve()
        self._requests = StoreRequests(store, serves)

    def _reserve(self) -> None:
        """Reserve the prefix, so that two writers cannot both find it empty."""
        reserved = self.key(UNFINISHED)
        token = self._token
        try:
            self._store.put(reserved, token, new=True)
        except KeyExistsError as error:
            # The answer to an earlier try may have been lost.
            if self._store.get(reserved) != token:
                raise self._exists() from error
        except TargetError:
            with suppress(TargetError):
                if self._store.get(reserved) == token:
                    self._store.delete(reserved)
            raise
        try:
            self._check_alone(reserved)
        except BaseException:
            self._remove([reserved])
            raise

    def _check_alone(self, reserved: str) -> None:
        """Refuse a prefix with other objects, or inside of another savepoint.

        Raises:
            TargetError: it is one.
        """
        others = set(self._store.keys(self._prefix)) - {reserved}
        if others:
            raise self._exists(others)
        parts = self._prefix.split("/")[:-2]
        for depth in range(1, len(parts) + 1):
            above = "/".join(parts[:depth]) + "/"
            # Whoever may not read there has no savepoint there, either.
            is_finished = self._found(above + METADATA_FILE_NAME) is not None
            if is_finished or self._found(above + UNFINISHED) is not None:
                raise TargetError(inside_of(above, is_finished=is_finished), path=str(self._location))

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

    def __exit__(self, *_: object) -> None:
        self._requests.close()
        if not self._is_published:
            self._take_back()

    def _take_back(self) -> None:
        """Remove what was sent; a store that does not answer keeps it, without `_metadata`."""
        with suppress(TargetError):
            self._store.abort_all(self._prefix)
        if self._may_be_published:
            # Unless it is known to be gone, the files that it names must stay.
            try:
                self._store.delete(self.key(METADATA_FILE_NAME))
            except TargetError:
                return
        # Who joins from now on finds no token.
        self._remove([self.key(UNFINISHED)])
        self._remove(self._sent)
        if self._is_joined:
            with suppress(TargetError):
                self._remove(list(self._files()))

    def _files(self) -> Iterator[str]:
        """Yield the keys of the files of the new savepoint; what is in folders below is of others."""
        start = len(self._prefix)
        return (key for key in self._store.every_key(self._prefix) if "/" not in key[start:])

    def _remove(self, keys: list[str]) -> None:
        """Remove objects; a store that refuses one refuses the others, too, and after a while each."""
        with suppress(TargetError):
            for key in keys:
                self._store.delete(key)

    def take(self, file: ResolvedFile, name: str, *, shared: bool) -> bool:
        """Copy a file inside the store, if it is one of the store's."""
        if not self._requests.serves(file.location):
            return False
        if file.size_bytes <= LARGEST_PART_BYTES:
            key = self._new_key(name)
            self._requests.submit(lambda: self._store.copy(file.location, key))
            return True
        if not self._store.copies_parts:
            return False
        with self.create(name) as new:
            return new.copy(file, 0, file.size_bytes)

    def create(self, name: str) -> AbstractContextManager[NewFile]:
        return self._requests.create(self._new_key(name))

    def reference(self) -> TargetReference:
        # Others read what was sent so far.
        self._requests.finish()
        self._is_joined = True
        return self._referred(self._token)

    def keep(self, names: Collection[str]) -> None:
        kept = {self.key(name) for name in (*names, UNFINISHED)}
        for key in self._files():
            if key not in kept:
                self._store.delete(key)

    def publish(self, metadata: bytes, check: Callable[[str], None]) -> None:
        self._requests.finish()
        # What came as parts is sent by name: a part of this size never comes again.
        self._store.put(self.key(UNFINISHED), metadata)
        unfinished = f"{self._location}/{UNFINISHED}"
        check(f"{unfinished}?{self._query}" if self._query else unfinished)
        self._may_be_published = True
        published = self.key(METADATA_FILE_NAME)
        try:
            self._store.put(published, metadata, new=True)
        except TargetError as error:
            # The answer to an earlier try may have been lost.
            if self._found(published) != metadata:
                # Another writer's stays, with the files that it names.
                self._may_be_published = not isinstance(error, KeyExistsError)
                raise
        self._is_published = True
        with suppress(TargetError):
            self._store.abort_all(self._prefix)
        self._remove([self.key(UNFINISHED)])

    def _found(self, key: str) -> bytes | None:
        try:
            return self._store.get(key)
        except TargetError:
            return None


_READ_BYTES = 8 << 20


class JoinedPrefix(JoinedTarget):
    """A prefix that is reserved.

    Args:
        requests: to its store.
        prefix: of its keys, with a slash at the end.
        token: what its reservation has.
        url: of the prefix, for people.
        machine: the name of the one that has reserved it, for people.

    Raises:
        TargetError: the reservation is another one, or none.
    """

    def __init__(self, requests: StoreRequests, prefix: str, token: bytes, url: str, machine: str) -> None:
        self._requests = requests
        self._prefix = prefix
        self._token = token
        self._url = url
        self._machine = machine
        self._check()

    @property
    def _store(self) -> Store:
        return self._requests.store

    def _check(self) -> None:
        if self._store.get(self._prefix + UNFINISHED) != self._token:
            raise not_joined(self._url, self._machine)

    @contextmanager
    def create(self, name: str) -> Iterator[NewFile]:
        key = self._prefix + file_name(name)
        # What is completed after the write was given up would stay for ever.
        with self._requests.create(key, check=self._check) as file:
            yield file
        self._requests.finish()

    def close(self) -> None:
        self._requests.close()

    def read(self, name: str, start: int, size_bytes: int) -> pa.Buffer:
        with tempfile.TemporaryFile() as file:
            for position in range(start, start + size_bytes, _READ_BYTES):
                wanted = min(_READ_BYTES, start + size_bytes - position)
                file.write(self._store.read(self._prefix + file_name(name), position, wanted))
            file.flush()
            # The mapped bytes stay when the file is closed, and go with the last array of them.
            return pa.py_buffer(mmap.mmap(file.fileno(), size_bytes, access=mmap.ACCESS_READ))
