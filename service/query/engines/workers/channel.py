"""Frames over a socket between the server and a worker.

| bytes | meaning |
|---|---|
| u1 | kind: `Frame` |
| u4 | length, big endian |
| length | content; see `service.query.engines.workers.messages` |

The socket is the back-pressure: a sender waits until the other side has read the frames before.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from contextlib import suppress
from enum import IntEnum

_HEADER = struct.Struct(">BI")
MAX_FRAME_BYTES = 256 << 20
# A short frame is sent by one call, and received by one: each call wakes the other side, or waits.
_SHORT_BYTES = 16 << 10

# Requests to the fork server, and its answer: see `forkserver`.
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
