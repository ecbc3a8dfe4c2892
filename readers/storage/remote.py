"""Files behind a network: read by ranges, several at a time, with retries.

    Client             a file system of pyarrow, and one pool of threads for all reads from it
    RemoteFileSystem   the files of one savepoint in it
    RemoteStream       a file, or a part of one: fetches requested ranges, and the next ranges ahead

Opening a file is one request (HEAD in object stores), which returns its existence, length and age; the answer is kept,
so it is sent once per file. Then every range is read with requests of at most `_REQUEST_BYTES`.

A reader that may stop early reads windows: 1 MiB, then twice the bytes fetched so far, and so on; a short rest is
fetched with the window before it. So the reader waits once more for each factor of three, and fetches at most four times
the bytes that it needs.

`span` returns an array in which bytes stand at their positions in the file, although only some of them were fetched. The
array lies in anonymous memory that is reserved, but only written pages take memory. So readers, and the positions in
their errors, are the same for local and remote files. An array keeps its memory as long as it is referenced.

| fault | result |
|---|---|
| 408, 429, 5xx, timeouts, connections refused or reset, a body that ends early | retried, `_TRIES` tries in all, with growing waits |
| 401, 403, credentials expired or missing | `AccessDeniedError`, at once |
| 404 | `MissingFileError`, at once; `SavepointGoneError` if the file existed before |
| a response of another length than requested | `FileChangedError` |

The longest wait doubles with each try, and the wait is random between zero and it ("full jitter"), so that many readers
do not retry at the same time.
"""

from __future__ import annotations

import mmap
import random
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from readers.errors import (
    AccessDeniedError,
    FileChangedError,
    MissingFileError,
    ReaderError,
    SavepointGoneError,
    StorageError,
)
from readers.storage.filesystems import (
    Bytes,
    FileIdentity,
    FileSystem,
    Listing,
    Location,
    ReadCounter,
    Stream,
    Windows,
    storage_errors,
)
from readers.storage.schemes import WEB_SCHEMES, arrow_filesystem, needed_credentials, public

if TYPE_CHECKING:
    from pyarrow import NativeFile, fs

THREADS = 16
_REQUEST_BYTES = 8 << 20
# Ranges that are fetched while the reader decodes another one: this bounds memory.
_MOST_AHEAD = 4
_FIRST_STEP_BYTES = 1 << 20
_LARGEST_STEP_BYTES = 64 << 20
# Fetching a gap of this size takes less time than another request.
_LARGEST_GAP_BYTES = 1 << 16
# Errors show the bytes before their position.
_MARGIN_BYTES = 16
_KEPT_FILES = 1 << 16
_KEPT_CLIENTS = 64
_A_MOMENT_S = 5.0

_TRIES = 6
_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 5.0

# Two different marks: the last byte of a file may equal one of them, but not both.
_SENTINELS = (0xA5, 0x5A)

# Python has no name for MAP_NORESERVE.
_MAP_NORESERVE = 0x4000 if sys.platform == "linux" else 0

_GONE = re.compile(
    r"NO_SUCH_(KEY|BUCKET)|RESOURCE_NOT_FOUND|HTTP status 404|\b404\b|NOT_FOUND|NotFound|No such file"
)
_DENIED = re.compile(
    r"ACCESS_DENIED|HTTP status 40[13]|Expired|InvalidToken|INVALID_(ACCESS_KEY|CLIENT_TOKEN|SIGNATURE)|SIGNATURE_DOES"
    r"|UNRECOGNIZED_CLIENT|MISSING_AUTHENTICATION|UNAUTHENTICATED|PERMISSION_DENIED|\b40[13]\b|Authenticat|Authoriz"
    # The response to HEAD has no body: the status 400 is the only sign of an expired token.
    r"|HTTP status 400\) during Head"
)
_TRANSIENT = re.compile(
    r"SLOW_?DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|THROTTLING|REQUEST_TIMEOUT|NETWORK_CONNECTION|UNAVAILABLE"
    r"|HTTP status (408|429|5\d\d)|DEADLINE|[Tt]imed? ?out|[Rr]eset|\b(408|429|50[0234])\b"
)
_UNKNOWN_HOST = re.compile(r"curlCode: 6\b")
# The response did not fit into the buffer: the body of an error, or more bytes than requested.
_UNREADABLE = "Failed to flush response stream"
_SECRETS = re.compile(r"(?i)\b(sig|signature|token|secret|key|password|credential)=[^&\s]+")
_HIDDEN = r"\1=…"

FetchedRanges = tuple[tuple[int, Bytes], ...]

_Result = TypeVar("_Result")


class RemoteEntry(NamedTuple):
    """An entry of a listing: a file or a folder.

    `names` is the path from the listed folder; `modified_ns` counts from 1970, 0 if the store does not report it; a folder has
    no size.
    """

    names: tuple[str, ...]
    is_folder: bool
    modified_ns: int
    size_bytes: int = 0


class _RemoteFile(NamedTuple):
    """An existing file; holds no connection. `modified_ns` counts from 1970, 0 if the store does not report it."""

    file: NativeFile
    identity: FileIdentity
    modified_ns: int


class Client:
    """A file system of pyarrow, and the threads that read from it; shared by all savepoints in it."""

    def __init__(self, arrow: fs.FileSystem) -> None:
        self.arrow = arrow
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._last_file: tuple[float, Location, _RemoteFile] | None = None

    def keep_last_file(self, location: Location, file: _RemoteFile) -> None:
        """Keep the file that was requested last: discovery requests `_metadata` just before the savepoint is opened."""
        self._last_file = time.monotonic(), location, file

    def last_file(self, location: Location) -> _RemoteFile | None:
        """Return the file that was requested last, if it is this one and the request is recent."""
        last = self._last_file
        if last is None or last[1] != location or time.monotonic() - last[0] > _A_MOMENT_S:
            return None
        return last[2]

    @property
    def threads(self) -> ThreadPoolExecutor:
        """Threads for requests. A task in them must not wait for another task in them, or all could wait for ever."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="remote-read")
            return self._threads

    def __reduce__(self) -> tuple[type[Client], tuple[fs.FileSystem]]:
        return Client, (self.arrow,)


@lru_cache(maxsize=_KEPT_CLIENTS)
def _client(
    scheme: str, authority: str, options: str, allow_http: bool, variables: tuple[tuple[str, str], ...]
) -> Client:
    """Return the shared client of a bucket or host: a new connection costs as much as several requests."""
    location = Location(scheme, authority, "/")
    return Client(arrow_filesystem(location, options, allow_http=allow_http, variables=dict(variables)))


class RemoteFileSystem(FileSystem):
    """The files of a savepoint in a file system of pyarrow. Object stores have no links: every path is canonical.

    It keeps the length and age of each file, so each savepoint has a RemoteFileSystem of its own.

    Args:
        client: shared by all savepoints.
        remade: arguments of `of` that make an equal file system in another process; without them the client is pickled.

    Attributes:
        failed_at: when a request failed for a reason that may pass, by the monotonic clock; None if none did.
    """

    def __init__(self, client: Client, remade: tuple[Any, ...] | None = None) -> None:
        self._client = client
        self._arrow = client.arrow
        self._remade = remade
        self.failed_at: float | None = None
        self._lock = threading.Lock()
        self._files: dict[Location, _RemoteFile] = {}
        self._expected: dict[Location, Future[_RemoteFile]] = {}

    @classmethod
    def of(
        cls,
        location: Location,
        options: str = "",
        allow_http: bool = False,
        variables: tuple[tuple[str, str], ...] = (),
    ) -> RemoteFileSystem:
        """Make the file system of a location; `options` is the query of its URL, see `readers.storage.schemes`.

        Raises:
            StorageError: unknown scheme or option, missing library.
        """
        with storage_errors(public(location)):
            client = _client(location.scheme, location.authority, options, allow_http, variables)
        return cls(client, (location._replace(path="/"), options, allow_http, variables))

    def __reduce__(self) -> tuple[Any, ...]:
        if self._remade is not None:
            return RemoteFileSystem.of, self._remade
        return RemoteFileSystem, (self._client,)

    @property
    def threads(self) -> ThreadPoolExecutor:
        """Threads of the client."""
        return self._client.threads

    def _path(self, location: Location) -> str:
        """Return a path as pyarrow expects it: it begins with the bucket, on the web with the whole address."""
        if location.scheme in WEB_SCHEMES:
            return str(location)
        if location.scheme in _WITHOUT_AUTHORITY:
            return location.path
        # abfs://container@account.host/path: the account is in the file system, the container in the path.
        return location.authority.partition("@")[0] + location.path

    def canonical(self, location: Location, folders: dict[str, str] | None = None) -> Location:
        return location

    def identity(self, location: Location) -> FileIdentity | None:
        try:
            return self._open(location).identity
        except MissingFileError:
            return None

    def is_directory(self, location: Location) -> bool:
        """Return whether a location is a folder. A file that was opened needs no request, and no permission to list."""
        if location in self._files:
            return False
        info = self.tried(location, lambda: self._arrow.get_file_info(self._path(location)))
        return bool(info.type.name == "Directory")

    def folder(self, location: Location) -> Listing:
        below = self.below(location, recursive=False)
        return Listing(
            folders=tuple(entry.names[0] for entry in below if entry.is_folder),
            files=tuple(entry.names[0] for entry in below if not entry.is_folder),
        )

    def modified_ns(self, location: Location) -> int:
        """Return the time of modification since 1970; 0 if unknown. Needs no request after `identity`."""
        try:
            return self._open(location).modified_ns
        except MissingFileError:
            return 0

    def below(self, location: Location, *, recursive: bool) -> list[RemoteEntry]:
        """List the files and folders in a folder; if `recursive`, in all folders below it, in no order.

        Takes one request per thousand names.
        """
        from pyarrow import fs  # heavy, and not needed for local savepoints

        everything = recursive or location.scheme in _WITHOUT_FOLDERS
        base = self._path(location).rstrip("/")
        selector = fs.FileSelector(base, recursive=everything)
        infos = self.tried(location, lambda: self._arrow.get_file_info(selector))
        skipped = len(base.strip("/").split("/")) if base.strip("/") else 0
        found = [
            RemoteEntry(
                names=tuple(info.path.strip("/").split("/")[skipped:]),
                is_folder=info.type.name == "Directory",
                modified_ns=info.mtime_ns or 0,
                size_bytes=info.size or 0,
            )
            for info in infos
        ]
        return found if everything == recursive else list(_first_names(found))

    def open(self, location: Location, start: int, size_bytes: int, counter: ReadCounter) -> Stream:
        return RemoteStream(self, location, start, size_bytes, counter)

    def is_there(self, location: Location) -> bool:
        try:
            self.tried(location, lambda: self._ask(location))
        except MissingFileError:
            return False
        return True

    def _open(self, location: Location) -> _RemoteFile:
        """Return a file; requests it once, and again only if it did not exist.

        Raises:
            MissingFileError: it does not exist, or it is a folder.
        """
        with self._lock:
            file = self._files.get(location) or self._client.last_file(location)
            expected = self._expected.pop(location, None)
        if file is None:
            file = (
                self.tried(location, lambda: self._ask(location)) if expected is None else expected.result()
            )
            self._client.keep_last_file(location, file)
        with self._lock:
            if len(self._files) >= _KEPT_FILES:
                self._files.clear()
            self._files[location] = file
        return file

    def look_ahead(self, location: Location) -> None:
        """Begin to request a file that may exist and will be opened soon."""
        with self._lock:
            if location not in self._files and location not in self._expected:
                self._expected[location] = self.threads.submit(
                    lambda: self.tried(location, lambda: self._ask(location))
                )

    def _ask(self, location: Location) -> _RemoteFile:
        """Request a file with its age: object stores send it in the same response, other systems take a second request."""
        path = self._path(location)
        file = self._arrow.open_input_file(path)
        try:
            facts = file.metadata() or {}
        except NotImplementedError:
            facts = {}
        age = {name.lower(): bytes(value) for name, value in facts.items()}
        etag, modified = age.get("etag", b""), age.get("last-modified", age.get("updated", b""))
        modified_ns = _nanoseconds(modified.decode("latin-1"))
        if not modified_ns:
            modified_ns = self._arrow.get_file_info(path).mtime_ns or 0
        # The ETag changes with the content even where the time has only seconds.
        version = int.from_bytes(b"/".join((etag, modified))[:48], "big") if etag or modified else modified_ns
        return _RemoteFile(file, FileIdentity(file.size(), version), modified_ns)

    def tried(self, location: Location, request: Callable[[], _Result]) -> _Result:
        """Return the result of a request, which is retried after transient faults.

        Raises:
            MissingFileError: 404.
            AccessDeniedError: 401, 403.
            StorageError: any other fault, and a transient one that lasts.
        """
        for number in range(_TRIES):
            try:
                return request()
            except ReaderError:
                raise
            except Exception as error:  # clients behind fsspec raise errors of any class
                text = _without_names(str(error), location)
                if isinstance(error, FileNotFoundError) or _GONE.search(text):
                    raise MissingFileError("expected a file, found nothing", path=str(location)) from error
                if isinstance(error, PermissionError) or _DENIED.search(text):
                    raise self._denied(location, text) from error
                passes = isinstance(error, ConnectionError | TimeoutError) or _TRANSIENT.search(text)
                if not passes or _UNKNOWN_HOST.search(text) or number == _TRIES - 1:
                    tries = f" ({number + 1} times)" if number else ""
                    self.failed_at = time.monotonic()
                    message = f"expected to read{tries}: {_SECRETS.sub(_HIDDEN, str(error))}"
                    raise StorageError(message, path=str(location)) from error
            time.sleep(random.uniform(0, min(_FIRST_WAIT_S * 2**number, _LONGEST_WAIT_S)))
        raise AssertionError("the last try returns or raises")

    def _denied(self, location: Location, text: str) -> AccessDeniedError:
        listing = "List" in text
        what = "a folder that may be listed" if listing else "a file that may be read"
        state = "expired" if "Expired" in text else "missing, expired, or without the permission"
        return AccessDeniedError(
            f"expected {what}, found access denied: the credentials are {state}; {needed_credentials(location.scheme)}",
            path=str(location),
        )

    def read_into(self, location: Location, buffer: Bytes, position: int) -> None:
        """Fill a buffer with the bytes of a file from `position` on: one request, with retries.

        Raises:
            SavepointGoneError: the file was deleted after it was opened.
            FileChangedError: the file has become shorter.
        """
        file = self._open(location).file
        try:
            self.tried(location, lambda: self._read_into(file, location, buffer, position))
        except MissingFileError as error:
            raise SavepointGoneError(
                "expected the file that was there a moment ago, found nothing", path=str(location)
            ) from error

    def _read_into(self, file: NativeFile, location: Location, buffer: Bytes, position: int) -> None:
        """Fill a buffer, and detect a response that is too short.

        The S3 client of Arrow reports the full length even for a shorter response. So a mark is written to the last byte of
        the buffer first: if it is still there, the response was short, or the file has this byte; a second mark decides.
        """
        length = len(buffer)
        for sentinel in _SENTINELS:
            # The client also writes the body of an error here, and parses it up to the first zero byte.
            buffer.fill(0)
            buffer[-1] = sentinel
            try:
                with closing(file.get_stream(position, length)) as stream:
                    count = stream.readinto(memoryview(buffer))
            except OSError as error:
                if _UNREADABLE in str(error):  # opening the file again raises the real error, such as 404
                    self._arrow.open_input_file(self._path(location))
                raise
            if count != length:
                break
            if buffer[-1] != sentinel:
                return
        raise FileChangedError(
            f"expected {length} bytes, found an answer of another length",
            path=str(location),
            position=position,
        )


class RemoteStream(Stream):
    """Bytes `[start, start + size_bytes)` of a file in a remote file system. Safe to share between threads."""

    is_remote = True

    def __init__(
        self, system: RemoteFileSystem, location: Location, start: int, size_bytes: int, counter: ReadCounter
    ) -> None:
        super().__init__(str(location), size_bytes, counter)
        self._system = system
        self._location = location
        self._start = start
        self._whole: Bytes | None = None
        self._fetched: FetchedRanges = ()

    def know(self, fetched: FetchedRanges) -> None:
        """Keep ranges that were fetched before the stream was opened."""
        self._fetched = fetched

    def _known(self, start: int, end: int) -> Bytes | None:
        for begin, data in self._fetched:
            if begin <= start and end <= begin + len(data):
                return data[start - begin : end - begin]
        return None

    @property
    def _beginning(self) -> Bytes:
        """Fetched bytes from the beginning of the stream; empty if there are none."""
        return next((data for begin, data in self._fetched if begin == 0), np.empty(0, dtype=np.uint8))

    @property
    def data(self) -> Bytes:
        if self._whole is None:
            self._whole = self.span(0, self.size_bytes)
        return self._whole

    def span(self, start: int, end: int) -> Bytes:
        self._check_bounds(start, end - start)
        if self._whole is not None:
            return self._whole
        if end <= len(self._beginning):
            return self._beginning
        return self._fetch(max(0, start - _MARGIN_BYTES), end).result()

    def spans(self, ranges: Sequence[tuple[int, int]]) -> Iterator[Bytes]:
        """Yield the span of each range; neighbours are fetched together, and the next ones while a span is decoded.

        The number of spans fetched ahead grows: a reader that stops after the first span fetches no other.
        """
        for start, end in ranges:
            self._check_bounds(start, end - start)
        if max((end for _, end in ranges), default=0) <= len(self._beginning):
            yield from (self._beginning for _ in ranges)
            return
        neighbours = deque(_neighbours(ranges))
        ahead: deque[tuple[_Fetch, int]] = deque()
        wanted = 1
        try:
            while neighbours or ahead:
                while neighbours and len(ahead) < wanted:
                    start, end, count = neighbours.popleft()
                    ahead.append((self._fetch(max(0, start - _MARGIN_BYTES), end), count))
                fetch, count = ahead.popleft()
                data = fetch.result()
                for _ in range(count):
                    yield data
                wanted = min(2 * wanted, _MOST_AHEAD)
        finally:
            for fetch, _ in ahead:
                fetch.cancel()

    def windows(self, start: int, end: int) -> Windows:
        self._check_bounds(start, end - start)
        if self._whole is not None or end <= len(self._beginning):
            return super().windows(start, end)
        return _RemoteWindows(self, start, end)

    def _range(self, start: int, length: int) -> Bytes:
        known = self._known(start, start + length)
        if known is not None:
            return known
        if self._whole is not None:
            return self._whole[start : start + length]
        data = np.empty(length, dtype=np.uint8)
        self.read_into(data, start)
        data.flags.writeable = False
        return data

    def read_into(self, buffer: Bytes, start: int) -> None:
        """Fill a buffer with the bytes from `start` on, in the calling thread."""
        if len(buffer):
            self._system.read_into(self._location, buffer, self._start + start)

    def _fetch(self, start: int, end: int) -> _Fetch:
        memory = _reserved(end)
        fetch = self.fetch_into(memory, start, end)
        memory.flags.writeable = False
        return fetch

    def fetch_into(self, memory: Bytes, start: int, end: int) -> _Fetch:
        """Begin to fetch bytes `[start, end)`, each to its position in `memory`."""
        self._counter.add(end - start)
        requests = [
            self._system.threads.submit(
                self.read_into, memory[first : min(first + _REQUEST_BYTES, end)], first
            )
            for first in range(start, end, _REQUEST_BYTES)
        ]
        return _Fetch(memory, requests)

    def close(self) -> None:
        self._whole = None


class _Fetch:
    """Requests that fill a part of an array."""

    def __init__(self, memory: Bytes, requests: list[Future[None]]) -> None:
        self._memory = memory
        self._futures = requests

    def result(self) -> Bytes:
        """Wait for all requests, and return the array.

        Raises:
            ReaderError: a request failed; the others are cancelled.
        """
        try:
            for future in self._futures:
                future.result()
        except BaseException:
            self.cancel()
            raise
        return self._memory

    def cancel(self) -> None:
        """Cancel the requests that have not begun."""
        for future in self._futures:
            future.cancel()


class _RemoteWindows(Windows):
    """Windows of remote bytes, fetched on demand and somewhat ahead; each byte stands at its position in `data`."""

    def __init__(self, stream: RemoteStream, start: int, end: int) -> None:
        # The requests write to the memory; readers get a view that they cannot write to.
        memory = _reserved(end)
        shown = memory.view()
        shown.flags.writeable = False
        super().__init__(stream.path, shown, start, end)
        self._stream = stream
        self._memory = memory
        self._there = 0
        self._fetched_bytes = 0
        self._coming: tuple[_Fetch, int] | None = None

    def ask(self, position: int, needed: int) -> None:
        if self._coming is not None or needed <= self._there:
            return
        first = max(self._there, position - _MARGIN_BYTES)
        step = min(max(_FIRST_STEP_BYTES, 2 * self._fetched_bytes), _LARGEST_STEP_BYTES)
        behind = min(max(needed, first + step), self.end)
        # A short rest is not worth a request of its own.
        if self.end - behind < step // 2:
            behind = self.end
        self._fetched_bytes += behind - first
        self._coming = self._stream.fetch_into(self._memory, first, behind), behind

    def reach(self, position: int, needed: int) -> int:
        while self._there < min(needed, self.end):
            self.ask(position, needed)
            assert self._coming is not None
            fetch, behind = self._coming
            fetch.result()
            self._coming, self._there = None, behind
        return self._there

    def close(self, position: int) -> None:
        if self._coming is not None:
            self._coming[0].cancel()


def _first_names(entries: Iterable[RemoteEntry]) -> Iterator[RemoteEntry]:
    """Reduce a recursive listing to the files and folders of the listed folder itself."""
    folders: dict[str, int] = {}
    for entry in entries:
        if len(entry.names) == 1 and not entry.is_folder:
            yield entry
        else:
            folders.setdefault(entry.names[0], entry.modified_ns if len(entry.names) == 1 else 0)
    for name, modified_ns in folders.items():
        yield RemoteEntry(names=(name,), is_folder=True, modified_ns=modified_ns)


def _nanoseconds(text: str) -> int:
    """Convert an ISO date to nanoseconds since 1970; 0 for any other text."""
    try:
        return round(datetime.fromisoformat(text).timestamp()) * 1_000_000_000
    except ValueError:
        return 0


def _without_names(text: str, location: Location) -> str:
    """Remove the location's names from a message: they could look like a status, as in `exports/404`."""
    for name in (location.path.strip("/"), location.authority):
        if name:
            text = text.replace(name, "…")
    return text


def _neighbours(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Merge neighbouring ranges to (start, end, number of ranges); merged ranges are no longer than a request."""
    start = end = count = 0
    for first, last in ranges:
        if count and first >= end and first - end <= _LARGEST_GAP_BYTES and last - start <= _REQUEST_BYTES:
            end, count = last, count + 1
            continue
        if count:
            yield start, end, count
        start, end, count = first, last, 1
    if count:
        yield start, end, count


def _reserved(length: int) -> Bytes:
    """Return zeros that take memory only where other bytes are written."""
    if length == 0:
        return np.empty(0, dtype=np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    with storage_errors("memory"):
        return np.frombuffer(mmap.mmap(-1, length, flags=flags), dtype=np.uint8)


_WITHOUT_AUTHORITY = frozenset({"hdfs", "webhdfs"})
# The client of GCS lists a nested folder only if an object of its name exists, which only some writers make.
_WITHOUT_FOLDERS = frozenset({"gs"})
