"""Files behind a network: read by ranges, several at a time, again where the network failed.

    Client             any file system of pyarrow, and one pool of threads for all that is read from it
    RemoteFileSystem   the files of one savepoint in it
    RemoteStream       a file, or a part of one: fetches what is asked for, and what will be asked for next

A file is opened with one request (HEAD in object stores), which tells whether it is there, its length and its age; that is
kept, so it is made once a file. Then every range is one request of at most `_REQUEST_BYTES`.

Who will stop somewhere on the way has pieces: 1 MiB, then twice what was fetched so far, and so on, and what is left where that
is little. So it waits once more for each factor of three, and fetches four times what it takes at most.

`span` gives an array in which bytes stand at their positions in the file, though only some of them were fetched: it lies in
anonymous memory that is reserved, but takes room only where it is written. So readers and the positions in their errors
are the same for local and remote files. An array keeps its memory for as long as it is referred to.

| fault | what becomes of it |
|---|---|
| 408, 429, 5xx, timeouts, connections refused or reset, a body that ends early | tried again, `_TRIES` times in all, later each time |
| 401, 403, credentials expired or missing | `AccessDeniedError`, at once |
| 404 | `MissingFileError`, at once; `SavepointGoneError` if it had been there |
| an answer of another length than asked for | `FileChangedError` |

Waits double from one try to the next and are drawn evenly from zero on ("full jitter"), so that many readers do not come
back at once.
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
_MOST_AHEAD = 4
_FIRST_STEP_BYTES = 1 << 20
_LARGEST_STEP_BYTES = 64 << 20
_LARGEST_GAP_BYTES = 1 << 16
# Errors show what stands before their position.
_MARGIN_BYTES = 16
_KEPT_FILES = 1 << 16
_KEPT_CLIENTS = 64
_A_MOMENT_S = 5.0

_TRIES = 6
_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 5.0

_SENTINELS = (0xA5, 0x5A)

_MAP_NORESERVE = 0x4000 if sys.platform == "linux" else 0

_GONE = re.compile(
    r"NO_SUCH_(KEY|BUCKET)|RESOURCE_NOT_FOUND|HTTP status 404|\b404\b|NOT_FOUND|NotFound|No such file"
)
_DENIED = re.compile(
    r"ACCESS_DENIED|HTTP status 40[13]|Expired|InvalidToken|INVALID_(ACCESS_KEY|CLIENT_TOKEN|SIGNATURE)|SIGNATURE_DOES"
    r"|UNRECOGNIZED_CLIENT|MISSING_AUTHENTICATION|UNAUTHENTICATED|PERMISSION_DENIED|\b40[13]\b|Authenticat|Authoriz"
    # A HEAD has no body: 400 is all that is left of an expired token.
    r"|HTTP status 400\) during Head"
)
_TRANSIENT = re.compile(
    r"SLOW_?DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|THROTTLING|REQUEST_TIMEOUT|NETWORK_CONNECTION|UNAVAILABLE"
    r"|HTTP status (408|429|5\d\d)|DEADLINE|[Tt]imed? ?out|[Rr]eset|\b(408|429|50[0234])\b"
)
_UNKNOWN_HOST = re.compile(r"curlCode: 6\b")
# The answer did not fit where it was to be written: an error's body, or more than was asked for.
_UNREADABLE = "Failed to flush response stream"
_SECRETS = re.compile(r"(?i)\b(sig|signature|token|secret|key|password|credential)=[^&\s]+")
_HIDDEN = r"\1=…"

FetchedRanges = tuple[tuple[int, Bytes], ...]

_Result = TypeVar("_Result")


class RemoteEntry(NamedTuple):
    """What a listing tells of a file or folder.

    `names` lead to it from the folder that was listed; `modified_ns` is since 1970, 0 where it is not told.
    """

    names: tuple[str, ...]
    is_folder: bool
    modified_ns: int


class _RemoteFile(NamedTuple):
    """A file that is there; holds no connection. `modified_ns` is since 1970, 0 where nobody tells."""

    file: NativeFile
    identity: FileIdentity
    modified_ns: int


class Client:
    """A file system of pyarrow, and the threads that read from it; shared by all savepoints in it."""

    def __init__(self, arrow: fs.FileSystem) -> None:
        self.arrow = arrow
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._found: tuple[float, Location, _RemoteFile] | None = None

    def found(self, location: Location, opened: _RemoteFile) -> None:
        """A file was just asked for: who looked for savepoints leaves the answer to who opens one."""
        self._found = time.monotonic(), location, opened

    def just_found(self, location: Location) -> _RemoteFile | None:
        """The last file that was asked for, if that was a moment ago."""
        found = self._found
        if found is None or found[1] != location or time.monotonic() - found[0] > _A_MOMENT_S:
            return None
        return found[2]

    @property
    def threads(self) -> ThreadPoolExecutor:
        """What neighbours there waits for nothing else that neighbours there."""
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
    """Connections are worth keeping: a new one costs several times what a request does."""
    location = Location(scheme, authority, "/")
    return Client(arrow_filesystem(location, options, allow_http=allow_http, variables=dict(variables)))


class RemoteFileSystem(FileSystem):
    """The files of a savepoint in any file system of pyarrow. Object stores have no links: every path is canonical.

    What it knows of a file it keeps, so each savepoint has one of its own.

    Args:
        client: shared.
        remade: the arguments of `of` that make the same again in another process; the client travels if not given.
    """

    def __init__(self, client: Client, remade: tuple[Any, ...] | None = None) -> None:
        self._client = client
        self._arrow = client.arrow
        self._remade = remade
        self._lock = threading.Lock()
        self._opened: dict[Location, _RemoteFile] = {}
        self._looked: dict[Location, Future[_RemoteFile]] = {}

    @classmethod
    def of(
        cls,
        location: Location,
        options: str = "",
        allow_http: bool = False,
        variables: tuple[tuple[str, str], ...] = (),
    ) -> RemoteFileSystem:
        """For a scheme that is known; `options`: the query of its URL, see `readers.storage.schemes`.

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
        """Of the client."""
        return self._client.threads

    def _path(self, location: Location) -> str:
        """As pyarrow wants it: object stores begin with the bucket, the web with all of the address."""
        if location.scheme in WEB_SCHEMES:
            return str(location)
        if location.scheme in _WITHOUT_AUTHORITY:
            return location.path
        # abfs://container@account.host/path: the account is in the file system, the container in the path.
        return location.authority.partition("@")[0] + location.path

    def canonical(self, location: Location) -> Location:
        return location

    def identity(self, location: Location) -> FileIdentity | None:
        try:
            return self._open(location).identity
        except MissingFileError:
            return None

    def is_directory(self, location: Location) -> bool:
        """A file is a file whatever lies below its name: that takes no permission to list."""
        if location in self._opened:
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
        """When a file was modified, since 1970; 0 where nobody tells. Takes no request where `identity` was asked before."""
        try:
            return self._open(location).modified_ns
        except MissingFileError:
            return 0

    def below(self, location: Location, *, recursive: bool) -> list[RemoteEntry]:
        """Each file and folder in a folder.

        A request a thousand names; if `recursive`, of all folders below, in no order.
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
        """The file; asked for once, unless it was not there.

        Raises:
            MissingFileError: it is not there, or it is a folder.
        """
        with self._lock:
            opened = self._opened.get(location) or self._client.just_found(location)
            looked = self._looked.pop(location, None)
        if opened is None:
            opened = self.tried(location, lambda: self._ask(location)) if looked is None else looked.result()
            self._client.found(location, opened)
        with self._lock:
            if len(self._opened) >= _KEPT_FILES:
                self._opened.clear()
            self._opened[location] = opened
        return opened

    def look_ahead(self, location: Location) -> None:
        """Ask now for a file that may be there, and will be opened in a moment."""
        with self._lock:
            if location not in self._opened and location not in self._looked:
                self._looked[location] = self.threads.submit(
                    lambda: self.tried(location, lambda: self._ask(location))
                )

    def _ask(self, location: Location) -> _RemoteFile:
        """Object stores tell a file's age when it is opened, others have to be asked for it."""
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
        version = int.from_bytes(b"/".join((etag, modified))[:48], "big") if etag or modified else modified_ns
        return _RemoteFile(file, FileIdentity(file.size(), version), modified_ns)

    def tried(self, location: Location, request: Callable[[], _Result]) -> _Result:
        """The result of a request, tried again after faults that pass.

        Raises:
            MissingFileError: 404.
            AccessDeniedError: 401, 403.
            StorageError: all else, and what did not pass.
        """
        for number in range(_TRIES):
            try:
                return request()
            except ReaderError:
                raise
            except Exception as error:  # clients behind fsspec raise what they like
                text = _without_names(str(error), location)
                if isinstance(error, FileNotFoundError) or _GONE.search(text):
                    raise MissingFileError("expected a file, found nothing", path=str(location)) from error
                if isinstance(error, PermissionError) or _DENIED.search(text):
                    raise self._denied(location, text) from error
                passes = isinstance(error, ConnectionError | TimeoutError) or _TRANSIENT.search(text)
                if not passes or _UNKNOWN_HOST.search(text) or number == _TRIES - 1:
                    tries = f" ({number + 1} times)" if number else ""
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
        """Fill a buffer with the bytes of a file from `position` on: one request, tried again.

        Raises:
            SavepointGoneError: it was deleted since it was opened.
            FileChangedError: the file does not have that many, any more.
        """
        file = self._open(location).file
        try:
            self.tried(location, lambda: self._read_into(file, location, buffer, position))
        except MissingFileError as error:
            raise SavepointGoneError(
                "expected the file that was there a moment ago, found nothing", path=str(location)
            ) from error

    def _read_into(self, file: NativeFile, location: Location, buffer: Bytes, position: int) -> None:
        """A client of S3 says the whole length was read where the answer was shorter, so we look for ourselves.

        It shows in the last byte: a mark there is still there. If the file happens to have just that byte, another mark tells.
        """
        length = len(buffer)
        for sentinel in _SENTINELS:
            # An error's body is written here, too, and understood up to the first zero behind it.
            buffer.fill(0)
            buffer[-1] = sentinel
            try:
                with closing(file.get_stream(position, length)) as stream:
                    count = stream.readinto(memoryview(buffer))
            except OSError as error:
                if _UNREADABLE in str(error):
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
        self._parts: FetchedRanges = ()

    def know(self, parts: FetchedRanges) -> None:
        """What somebody fetched already."""
        self._parts = parts

    def _known(self, start: int, end: int) -> Bytes | None:
        for begin, part in self._parts:
            if begin <= start and end <= begin + len(part):
                return part[start - begin : end - begin]
        return None

    @property
    def _beginning(self) -> Bytes:
        """A part that spans begin with; empty if there is none."""
        return next((part for begin, part in self._parts if begin == 0), np.empty(0, dtype=np.uint8))

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

    def spans(self, places: Sequence[tuple[int, int]]) -> Iterator[Bytes]:
        """As `Stream.spans`: neighbours of neighbours are fetched as one; the next ones while this one is read.

        How far it reads ahead grows with what was asked for: the first place alone, if no more is wanted.
        """
        for start, end in places:
            self._check_bounds(start, end - start)
        if max((end for _, end in places), default=0) <= len(self._beginning):
            yield from (self._beginning for _ in places)
            return
        neighbours = deque(_neighbours(places))
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
        """Begin to fetch bytes, each to its position in `memory`."""
        requests = []
        for first in range(start, end, _REQUEST_BYTES):
            buffer = memory[first : min(first + _REQUEST_BYTES, end)]
            requests.append((buffer, first))
        self._counter.add(end - start)
        return _Fetch(self, memory, requests, self._system)

    def close(self) -> None:
        self._whole = None


class _Fetch:
    """Bytes on their way."""

    def __init__(
        self,
        stream: RemoteStream,
        memory: Bytes,
        requests: Sequence[tuple[Bytes, int]],
        system: RemoteFileSystem,
    ) -> None:
        self._memory = memory
        self._futures: list[Future[None]] = [
            system.threads.submit(stream.read_into, buffer, first) for buffer, first in requests
        ]

    def result(self) -> Bytes:
        """The bytes, when all are there.

        Raises:
            ReaderError: one could not be read; the others are given up.
        """
        try:
            for future in self._futures:
                future.result()
        except BaseException:
            self.cancel()
            raise
        return self._memory

    def cancel(self) -> None:
        """Do not begin what has not begun."""
        for future in self._futures:
            future.cancel()


class _RemoteWindows(Windows):
    """Bytes that are fetched as far as they are asked for, and somewhat further; each stands at its position in `data`."""

    def __init__(self, stream: RemoteStream, start: int, end: int) -> None:
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
    """The files, and the folders that the others are in."""
    folders: dict[str, int] = {}
    for entry in entries:
        if len(entry.names) == 1 and not entry.is_folder:
            yield entry
        else:
            folders.setdefault(entry.names[0], entry.modified_ns if len(entry.names) == 1 else 0)
    for name, modified_ns in folders.items():
        yield RemoteEntry(names=(name,), is_folder=True, modified_ns=modified_ns)


def _nanoseconds(text: str) -> int:
    """An ISO date since 1970; 0 if it is none."""
    try:
        return round(datetime.fromisoformat(text).timestamp()) * 1_000_000_000
    except ValueError:
        return 0


def _without_names(text: str, location: Location) -> str:
    """A message without the names in it, which may look like anything: `exports/404`."""
    for name in (location.path.strip("/"), location.authority):
        if name:
            text = text.replace(name, "…")
    return text


def _neighbours(places: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Neighbouring places as one: start, end, how many; no longer than a piece, unless one place is."""
    start = end = count = 0
    for first, last in places:
        if count and first >= end and first - end <= _LARGEST_GAP_BYTES and last - start <= _REQUEST_BYTES:
            end, count = last, count + 1
            continue
        if count:
            yield start, end, count
        start, end, count = first, last, 1
    if count:
        yield start, end, count


def _reserved(length: int) -> Bytes:
    """Zeros that take room only where something else is written."""
    if length == 0:
        return np.empty(0, dtype=np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    with storage_errors("memory"):
        return np.frombuffer(mmap.mmap(-1, length, flags=flags), dtype=np.uint8)


_WITHOUT_AUTHORITY = frozenset({"hdfs", "webhdfs"})
# Its client lists a folder in a folder only if there is an object of that name, which some writers make.
_WITHOUT_FOLDERS = frozenset({"gs"})
