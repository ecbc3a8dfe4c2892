"""The place of a new savepoint: a path of this machine or a URL → a target.

| scheme | written by |
|---|---|
| none, file | the file system |
| s3, oss | botocore |
| gs, abfs | pyarrow |
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl

from readers import Location, SavepointLocation, StorageOptions, given_location
from writers.errors import TargetError
from writers.stores.clients import ArrowStore, S3Store
from writers.stores.prefix import JoinedPrefix, TargetPrefix
from writers.stores.store import Store, StoreRequests
from writers.target import JoinedTarget, Target, TargetDirectory, TargetReference


def target_of(text: str, source: SavepointLocation) -> Target:
    """Make the place of a new savepoint.

    Args:
        text: a path of this machine, or a URL; options of a bucket that the source is in need not be repeated.
        source: the source savepoint, from which files may be copied where they are.

    Raises:
        TargetExistsError: something is there.
        TargetError: it cannot be written to, or is in the source.
        ReaderError: the options of the URL are wrong.
    """
    location, query = given_location(text)
    _check_apart(location, source)
    if location.scheme == "file":
        return TargetDirectory(location.path)
    query = query or source.query_of(location) or ""
    store = store_of(location, query, source.options)
    serves = partial(_is_in_store, source, location, query)
    referred = partial(
        _PrefixReference,
        location=location,
        query=query,
        options=source.options.elsewhere([f"{location}?{query}"]),
        machine=socket.gethostname(),
    )
    return TargetPrefix(store, location, query, serves, referred)


def store_of(location: Location, query: str, options: StorageOptions) -> Store:
    """Return the bucket of a location.

    Args:
        location: in the bucket.
        query: the options of its URL.
        options: credentials of other processes.

    Raises:
        TargetError: such a place cannot be written to.
        ReaderError: the options of the URL are wrong.
    """
    if location.scheme not in _STORES:
        raise TargetError(
            f"expected a path of this machine or one of {sorted(_STORES)}, found {location.scheme}://",
            path=str(location),
        )
    return _STORES[location.scheme](location, query, options)


@dataclass(frozen=True, slots=True)
class _PrefixReference(TargetReference):
    """A prefix of an object store that is reserved.

    Attributes:
        token: what its reservation has.
        location: the prefix.
        query: the options of its URL.
        options: with the credentials that these name.
        machine: the name of the one that has reserved it, for people.
    """

    token: bytes
    location: Location
    query: str
    options: StorageOptions
    machine: str

    def joined(self, source: Callable[[], SavepointLocation]) -> JoinedTarget:
        store = store_of(self.location, self.query, self.options)
        requests = StoreRequests(
            store, lambda location: _is_in_store(source(), self.location, self.query, location)
        )
        prefix = self.location.path.strip("/") + "/"
        return JoinedPrefix(requests, prefix, self.token, str(self.location), self.machine)


def _check_apart(location: Location, source: SavepointLocation) -> None:
    """Refuse a target in the source: the source is only read.

    Raises:
        TargetError: the target is in it.
    """
    if location.scheme == "file":
        with suppress(OSError, RuntimeError):
            location = location._replace(path=str(Path(location.path).resolve()))
    if location.is_inside(source.exclusive_directory) and location != source.exclusive_directory:
        raise TargetError(
            f"expected a place outside of the source, found one in {source.exclusive_directory}",
            path=str(location),
        )


def _is_in_store(source: SavepointLocation, target: Location, query: str, location: Location) -> bool:
    """Return whether the target's store has a file of the source, by the same address and with the same credentials."""
    theirs = source.query_of(location)
    if theirs is None or location.scheme != target.scheme:
        return False
    if location.scheme == "abfs" and location.authority != target.authority:
        return False
    return dict(parse_qsl(theirs)) == dict(parse_qsl(query))


_STORES: dict[str, Callable[[Location, str, StorageOptions], Store]] = {
    "s3": S3Store,
    "oss": S3Store,
    "gs": ArrowStore,
    "abfs": ArrowStore,
}
