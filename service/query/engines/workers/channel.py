"""Frames over a socket between the server and a worker.

| bytes | meaning |
|---|---|
| u1 | kind: `Frame` |
| u4 | length, big endian |
| length | content; see `service.query.engines.workers.channel` |

The socket is the back-pressure: a sender waits until the other side has read the frames before.

The contents of frames between the server and its workers.

| frame | from | content |
|---|---|---|
| RUN | server | the plan with its planned scans, pickled |
| READ | server | a scan and the short statement over it, pickled (`service.query.engines.engine`) |
| CANCEL | server | nothing |
| RETIRE | server | nothing: no task follows; the worker writes what it has for the cache and ends |
| COLUMNS | worker | JSON: `[[name, type], …]` |
| BATCH | worker | Arrow IPC stream: the schema and one batch; the first frame has the schema only |
| PROGRESS | worker | JSON: the fields of `Progress`; the first frame means that the worker has the task |
| ERROR, END | worker | JSON: `End` |
| ANSWER | worker | all that follows a READ if the rows are few: u4 with the length of a JSON text, this text, and BATCH |

The server unpickles nothing that a worker sends: the worker runs what a client wrote.
"""

from __future__ import annotations

import pickle
import select
import socket
import struct
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from typing import Any

import orjson
import pyarrow as pa

from catalog import PlannedTable
from catalog.scan import ANYTHING
from service.base.errors import MemoryExceededError, Position, QueryError
from service.query.encode.formats import Column
from service.query.engines.engine import Progress
from service.query.sql.plan import Plan, UnreadFile

_HEADER = struct.Struct(">BI")
MAX_FRAME_BYTES = 256 << 20
# A short frame is sent by one call, and received by one: each call wakes the other side, or waits.
_SHORT_BYTES = 16 << 10

# Requests to the fork server, and its answer: see `worker`.
FORK, REAP = b"f", b"r"
NUMBER = struct.Struct(">q")


class Frame(IntEnum):
    """Kinds of frames."""

    RUN = 1
    CANCEL = 2
    COLUMNS = 3
    BATCH = 4
    PROGRESS = 5
    ERROR = 6
    END = 7
    RETIRE = 8
    READ = 9
    ANSWER = 10


class ChannelClosedError(Exception):
    """The other side is gone, or sent bytes that are no frame."""


class Channel:
    """One side of the socket. One thread may receive; any thread may send."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        # Received, and of no frame yet that `receive` has returned.
        self._ahead = bytearray()
        self._timeout_s: float | None = None

    @property
    def has_unread(self) -> bool:
        """True if bytes were received behind the last frame that `receive` returned."""
        return bool(self._ahead)

    def send(self, frame: Frame, content: bytes | memoryview = b"", *, wait: bool = True) -> bool:
        """Send a frame.

        Args:
            frame: kind of the frame.
            content: content of the frame.
            wait: wait while another thread sends; if False, send nothing then.

        Returns:
            True if the frame was sent.

        Raises:
            ChannelClosedError: the other side is gone.
        """
        if not self._sending.acquire(blocking=wait):
            return False
        header = _HEADER.pack(frame, len(content))
        try:
            if len(content) <= _SHORT_BYTES:
                self._connection.sendall(b"".join((header, content)))
            else:
                self._connection.sendall(header)
                self._connection.sendall(content)
        except OSError as error:
            raise ChannelClosedError(str(error)) from error
        finally:
            self._sending.release()
        return True

    def receive(self) -> tuple[Frame, bytearray]:
        """Wait for the next frame and return it.

        Raises:
            ChannelClosedError: the other side is gone, or sent bytes that are no frame.
        """
        kind, length = _HEADER.unpack(self._read(_HEADER.size))
        # Checked before the memory is taken: a worker runs what a client wrote, and may send anything.
        if length > MAX_FRAME_BYTES:
            raise ChannelClosedError(f"expected a frame of at most {MAX_FRAME_BYTES} bytes, found {length}")
        try:
            return Frame(kind), self._read(length)
        except ValueError as error:
            raise ChannelClosedError(str(error)) from error

    def has_arrived(self, timeout_s: float) -> bool:
        """Wait a little for the next frame; return whether it has begun to arrive, or none will."""
        if self._ahead:
            return True
        # Not `select`, which knows only the first 1,024 files of a process.
        poll = select.poll()
        try:
            poll.register(self._connection, select.POLLIN)
        except ValueError:
            # This side was closed: `receive` says so.
            return True
        return bool(poll.poll(timeout_s * 1000))

    def set_timeout(self, seconds: float | None) -> None:
        """Have `receive` and `send` raise ChannelClosedError after so many seconds without a byte; None for never."""
        if seconds != self._timeout_s:
            self._timeout_s = seconds
            self._connection.settimeout(seconds)

    def close(self) -> None:
        """Close the socket; the other side sees that, and threads that wait on this side wake up."""
        # `close` alone wakes no thread that waits in `recv`.
        with suppress(OSError):  # the other side may be gone already
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _read(self, length: int) -> bytearray:
        ahead = self._ahead
        while len(ahead) < length <= _SHORT_BYTES:
            ahead += self._received(_SHORT_BYTES)
        if len(ahead) >= length:
            content = ahead[:length]
            del ahead[:length]
            return content
        content = bytearray(length)
        content[: len(ahead)] = ahead
        view = memoryview(content)[len(ahead) :]
        ahead.clear()
        while view:
            try:
                count = self._connection.recv_into(view)
            except OSError as error:
                raise ChannelClosedError(str(error)) from error
            if not count:
                raise ChannelClosedError("the other side is gone")
            view = view[count:]
        return content

    def _received(self, most: int) -> bytes:
        try:
            content = self._connection.recv(most)
        except OSError as error:
            raise ChannelClosedError(str(error)) from error
        if not content:
            raise ChannelClosedError("the other side is gone")
        return content


# The server holds a batch or two of each query that is read: with many queries, large batches would be much memory.
_BATCH_BYTES = 512 << 10
_LENGTH = struct.Struct(">I")
# Without options, pyarrow looks into the environment for each stream.
_OPTIONS = pa.ipc.IpcWriteOptions()


def task_content(plan: Plan) -> bytes:
    """Return the content of RUN: the plan with its planned scans, without databases and tables, which stay here.

    Raises:
        ReaderError: a state file cannot be opened, or a listing cannot be made.
    """
    tables = tuple(
        replace(
            reference,
            database=None,
            table=PlannedTable(
                reference.table.name,
                reference.table.comment,
                reference.scan,
                has_all_rows=reference.predicate == ANYTHING,
            ),
        )
        for reference in plan.tables
    )
    return pickle.dumps(replace(plan, tables=tables))


def plan_of(content: bytes | bytearray) -> Plan:
    """Return the plan in RUN; only a worker calls this, with what its server sent."""
    plan: Plan = pickle.loads(content)
    return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All of a small answer.

    Attributes:
        columns: names and SQL types.
        progress: what was read.
        is_worn: whether the worker has grown and should be replaced.
        rows: an Arrow stream of the schema and at most one batch.
    """

    columns: tuple[Column, ...]
    progress: Progress
    is_worn: bool
    rows: memoryview

    def content(self) -> bytes:
        """Return the content of ANSWER."""
        facts = orjson.dumps({"columns": self.columns, "progress": self.progress, "is_worn": self.is_worn})
        return b"".join((_LENGTH.pack(len(facts)), facts, self.rows))

    @classmethod
    def of(cls, content: bytearray) -> Answer:
        """Return the answer in ANSWER."""
        view = memoryview(content)
        (length,) = _LENGTH.unpack_from(view)
        end = _LENGTH.size + length
        facts = orjson.loads(view[_LENGTH.size : end])
        return cls(
            columns=tuple(Column(**column) for column in facts["columns"]),
            progress=_progress(facts["progress"]),
            is_worn=facts["is_worn"],
            rows=view[end:],
        )


def columns_of(content: bytearray) -> tuple[Column, ...]:
    """Return the columns in COLUMNS."""
    return tuple(Column(**column) for column in orjson.loads(content))


def batch_content(schema: pa.Schema, batch: pa.RecordBatch | None) -> memoryview:
    """Return the content of BATCH, with the schema only if there is no batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as writer:
        if batch is not None:
            writer.write_batch(batch)
    return memoryview(sink.getvalue())


def stream_of(content: bytearray | memoryview) -> pa.RecordBatchReader:
    """Return the batches in an Arrow stream, such as the one in BATCH, without a copy."""
    return pa.ipc.open_stream(pa.py_buffer(content))


def small_batches(batch: pa.RecordBatch, max_row_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield a batch as batches that are small enough for a server that holds some of many queries.

    Raises:
        MemoryExceededError: a row is longer than allowed.
    """
    waiting = [batch]
    while waiting:
        rows = waiting.pop()
        if rows.nbytes <= _BATCH_BYTES:
            yield rows
        elif rows.num_rows > 1:
            half = rows.num_rows // 2
            waiting += [rows.slice(half), rows.slice(0, half)]  # the first half is on top of the stack
        elif rows.nbytes <= max_row_bytes:
            yield rows
        else:
            raise MemoryExceededError(
                f"expected rows of at most {max_row_bytes} bytes, found one of {rows.nbytes}",
                hint="ask for parts of long values: substring(), length(), a field of a struct",
            )


def progress_of(content: bytearray) -> Progress:
    """Return the progress in PROGRESS."""
    return _progress(orjson.loads(content))


def _progress(fields: dict[str, Any]) -> Progress:
    incomplete = tuple(UnreadFile(**file) for file in fields.pop("incomplete"))
    return Progress(**fields, incomplete=incomplete)


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a query in a worker.

    Attributes:
        is_worn: whether the worker has grown and should be replaced.
        error: the error of the query; None if it returned all rows.
    """

    is_worn: bool
    error: QueryError | None = None

    def content(self) -> bytes:
        """Return the content of END and ERROR."""
        return orjson.dumps({"is_worn": self.is_worn, "error": self.error and _fields(self.error)})

    @classmethod
    def of(cls, content: bytearray) -> End:
        """Return the end in END or ERROR."""
        known = orjson.loads(content)
        error = known["error"]
        return cls(is_worn=known["is_worn"], error=None if error is None else _error(error))


def _fields(error: QueryError) -> dict[str, Any]:
    # The root class is an error of ours that no code expects: the server logs its trace, which ends here otherwise.
    is_unexpected = type(error) is QueryError
    trace = "".join(traceback.format_exception(error)) if is_unexpected else ""
    return {
        "kind": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "position": error.position and asdict(error.position),
        "detail": f"{error.detail}\n{trace}".strip(),
        "code": error.code,
        "status": error.status,
    }


def _error(fields: dict[str, Any]) -> QueryError:
    kind = _kinds().get(fields.pop("kind"), QueryError)
    position = fields.pop("position")
    error = kind.__new__(kind)  # constructors of subclasses take other arguments
    QueryError.__init__(error, fields.pop("message"), position=position and Position(**position), **fields)
    return error


def _kinds() -> dict[str, type[QueryError]]:
    """Return all classes of errors that are loaded, by name."""
    found: dict[str, type[QueryError]] = {}
    waiting: list[type[QueryError]] = [QueryError]
    while waiting:
        kind = waiting.pop()
        found[kind.__name__] = kind
        waiting += kind.__subclasses__()
    return found
