"""A prefix of an object store that another process has reserved, and publishes."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from writers.stores.requests import StoreRequests
from writers.stores.store import Store
from writers.target import UNFINISHED, JoinedTarget, NewFile, file_name, not_joined

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
