"""Frames over a socket between the server and a worker.

| bytes | meaning |
|---|---|
| u1 | kind: `Frame` |
| u4 | length, big endian |
| length | content; see `service.engines.workers.messages` |

The socket is the back-pressure: who sends waits until the other side has read what came before.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from enum import IntEnum

_HEADER = struct.Struct(">BI")
MAX_FRAME_BYTES = 256 << 20

# What the fork server is asked, and how it answers.
FORK, REAP = b"f", b"r"
NUMBER = struct.Struct(">q")


class Frame(IntEnum):
    """What a frame holds."""

    RUN = 1
    CANCEL = 2
    COLUMNS = 3
    BATCH = 4
    PROGRESS = 5
    ERROR = 6
    END = 7
    RETIRE = 8


class ChannelClosedError(Exception):
    """The other side is gone, or sent what is no frame."""


class Channel:
    """One side. One thread may receive; any may send."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, frame: Frame, content: bytes | memoryview = b"", *, wait: bool = True) -> bool:
        """Send a frame.

        Args:
            frame: its kind.
            content: what it holds.
            wait: while another thread sends; else that is all that is sent.

        Returns:
            Whether it was sent.

        Raises:
            ChannelClosedError: the other side is gone.
        """
        if not self._sending.acquire(blocking=wait):
            return False
        try:
            self._connection.sendall(_HEADER.pack(frame, len(content)))
            self._connection.sendall(content)
        except OSError as error:
            raise ChannelClosedError(str(error)) from error
        finally:
            self._sending.release()
        return True

    def receive(self) -> tuple[Frame, bytearray]:
        """The next frame; waits for it.

        Raises:
            ChannelClosedError: the other side is gone, or this is no frame.
        """
        kind, length = _HEADER.unpack(self._read(_HEADER.size))
        if length > MAX_FRAME_BYTES:
            raise ChannelClosedError(f"expected a frame of at most {MAX_FRAME_BYTES} bytes, found {length}")
        try:
            return Frame(kind), self._read(length)
        except ValueError as error:
            raise ChannelClosedError(str(error)) from error

    def set_timeout(self, seconds: float | None) -> None:
        """Let `receive` and `send` fail after so long without a byte."""
        self._connection.settimeout(seconds)

    def close(self) -> None:
        """Let the other side know that this one is gone; who waits on this side is woken."""
        with suppress(OSError):  # the other side may be gone already
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _read(self, length: int) -> bytearray:
        content = bytearray(length)
        view = memoryview(content)
        while view:
            try:
                count = self._connection.recv_into(view)
            except OSError as error:
                raise ChannelClosedError(str(error)) from error
            if not count:
                raise ChannelClosedError("the other side is gone")
            view = view[count:]
        return content
