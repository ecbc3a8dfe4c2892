"""The admission of connections: how many may be open, and how long each may wait for its client.

| a connection waits for | at most |
|---|---|
| the TLS handshake, or the headers of a request | `header_timeout_s` |
| the body of a request | `body_timeout_s` |
| the next request | `idle_timeout_s` |
| the client to take the end of its last answer | `stall_timeout_s` |

When as many connections are open as the limits allow, a new one takes the place of one that waits: of the address with most
connections, and the one that has waited for longest. A connection whose request is being answered keeps its place. So
clients that open connections and send nothing displace each other, not the clients that ask.

The limit is below the limit of open files, because savepoints and workers need files too. One more file is kept in
reserve: where the process has no file left, it accepts the connection with it, and closes both. Otherwise the listening
socket would stay readable, and the loop would do nothing else.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from heapq import nlargest
from typing import Any

from service.base import machine
from service.base.errors import ServiceBusyError
from service.base.settings import Settings
from service.doors.http.errors import raw_response

logger = logging.getLogger("savepointdb")

_MOST_CONNECTIONS = 10_000
# As many connections are accepted before the loop attends to the open ones again.
_ACCEPTED_IN_A_ROW = 64
_CUT_AT_ONCE = 8
# To find the connections to cut takes a look at all of them, so as many are found at once as this part of the limit.
_FOUND_PART = 16
_LOOK_EVERY_S = 0.25
# The first packet of a request may come this long behind the connection.
_YOUNG_S = 1.0
_NO_FILES = frozenset({errno.EMFILE, errno.ENFILE})


class Wait(Enum):
    """What a connection waits for."""

    HEADERS = "the headers of a request"
    BODY = "the body of a request"
    NEXT = "the next request"
    CLOSE = "the end of its last answer to be taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of connections.

    Attributes:
        most: connections that may be open.
        most_per_address: those of one address.
        is_encrypted: True if TLS comes before HTTP.
        seconds: how long a connection may wait for each thing.
    """

    most: int
    most_per_address: int
    is_encrypted: bool
    seconds: dict[Wait, float]

    @classmethod
    def of(cls, settings: Settings) -> ConnectionLimits:
        """Return the limits of the settings; what they leave open follows from the limit of open files."""
        server = settings.server
        # A quarter of the files is left to savepoints, answers on the disk and workers.
        possible = max(1, machine.open_files() * 3 // 4)
        if server.max_connections > possible:
            logger.warning(
                "max_connections is %d, but the limit of open files allows %d",
                server.max_connections,
                possible,
            )
        most = min(server.max_connections or _MOST_CONNECTIONS, possible)
        return cls(
            most=most,
            most_per_address=min(most, server.max_connections_per_address or max(1, most // 2)),
            is_encrypted=bool(server.tls_certificate),
            seconds={
                Wait.HEADERS: server.header_timeout_s,
                # The request itself is refused first, with an answer: see `service.doors.http.body`.
                Wait.BODY: server.body_timeout_s + _YOUNG_S,
                Wait.NEXT: server.idle_timeout_s,
                Wait.CLOSE: server.stall_timeout_s,
            },
        )


class Connection(socket.socket):
    """The socket of an admitted connection; closing it frees its place.

    Attributes:
        group: the address of the client; of IPv6 the network, in which a client has any number of addresses.
        wait: what it waits for; None while its request is answered.
        since: when it began to wait, by the monotonic clock.
        deadline: when it has waited for too long.
        on_late: ends it when its time is over.
        on_cut: ends it at once.
    """

    def __init__(self, accepted: socket.socket, group: str, connections: Connections) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self.group = group
        self._connections = connections
        # Before the TLS handshake has ended, no protocol knows the connection: its end of file ends it.
        self.on_late: Callable[[], None] = self._end
        self.on_cut: Callable[[], None] = self._end
        self.wait_for(Wait.HEADERS)

    def wait_for(self, wait: Wait | None) -> None:
        """Begin to wait for something; None for nothing."""
        self.wait, self.since = wait, time.monotonic()
        self.deadline = None if wait is None else self.since + self._connections.limits.seconds[wait]

    def close(self) -> None:
        """Close the socket."""
        self._connections.closed(self)
        super().close()

    def detach(self) -> int:
        """Give the file up: uvloop closes it itself when the connection ends."""
        self._connections.closed(self)
        return super().detach()

    def _end(self) -> None:
        with suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)


class Connections:
    """The open connections of a service. The thread of the event loop uses it alone.

    Args:
        limits: how many, and for how long.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open: dict[int, Connection] = {}
        self._of_group: Counter[str] = Counter()
        # Told to close; the loop does it at the end of its turn.
        self._cutting: set[Connection] = set()
        # To be cut next, the first one last, and since when each waited when it was found.
        self._next: list[tuple[Connection, float]] = []
        self._look: asyncio.TimerHandle | None = None

    def find(self, descriptor: int) -> Connection | None:
        """Return the connection with this file descriptor; None if it was not admitted here."""
        return self._open.get(descriptor)

    def make_room(self) -> bool:
        """Return whether one more connection may be accepted now; if not, cut some that wait."""
        if len(self._open) < self.limits.most:
            return True
        if not self._cutting:
            self._cut_some()
        return False

    @property
    def has_cut(self) -> bool:
        """True if connections that were cut still have to be closed."""
        return bool(self._cutting)

    def admit(self, accepted: socket.socket, address: Any) -> Connection | None:
        """Return the connection of an accepted socket; None, and the socket is closed, if its address has too many."""
        group = _group_of(address)
        if self._of_group[group] >= self.limits.most_per_address:
            own = [connection for connection in self._open.values() if connection.group == group]
            found = self._dispensable_among(own, 1)
            if not found:
                self.refuse(accepted, "too many connections of one address are open")
                return None
            self._cut(found[0])
        connection = Connection(accepted, group, self)
        self._open[connection.fileno()] = connection
        self._of_group[group] += 1
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(_LOOK_EVERY_S, self._check)
        return connection

    def refuse(self, accepted: socket.socket, reason: str) -> None:
        """Close an accepted socket, with an answer that says why."""
        logger.warning("a connection was refused: %s", reason)
        with suppress(OSError):
            accepted.setblocking(False)
            if not self.limits.is_encrypted:
                accepted.send(_REFUSAL)
        accepted.close()

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        if self._open.get(connection.fileno()) is connection:
            del self._open[connection.fileno()]
            self._cutting.discard(connection)
            self._of_group[connection.group] -= 1
            if not self._of_group[connection.group]:
                del self._of_group[connection.group]

    def _cut_some(self) -> None:
        """Cut some of all connections that wait."""
        for is_found_anew in (False, True):
            if is_found_anew:
                count = max(_CUT_AT_ONCE, self.limits.most // _FOUND_PART)
                found = self._dispensable_among(self._open.values(), count)
                self._next = [(connection, connection.since) for connection in reversed(found)]
            while self._next and len(self._cutting) < _CUT_AT_ONCE:
                connection, since = self._next.pop()
                still_waits = connection.wait is not None and connection.since == since
                if still_waits and self.find(connection.fileno()) is connection:
                    self._cut(connection)
            if self._cutting:
                return

    def _cut(self, connection: Connection) -> None:
        logger.warning("a connection was cut: too many are open, and this one waited for its client")
        self._cutting.add(connection)
        connection.on_cut()

    def _dispensable_among(self, connections: Iterable[Connection], count: int) -> list[Connection]:
        """Return some of the connections that wait; the one that is missed least is the first."""
        now = time.monotonic()
        waiting = [each for each in connections if each.wait is not None and each not in self._cutting]
        return nlargest(count, waiting, key=lambda each: self._dispensable(each, now))

    def _dispensable(self, connection: Connection, now: float) -> tuple[int, int, float]:
        """Return how little a connection that waits is missed: the greatest is cut first."""
        waited_s = now - connection.since
        # A new client has the time to send its request, and an idle one was of use before.
        rank = 1 if connection.wait is Wait.NEXT else 2 if waited_s > _YOUNG_S else 0
        return self._of_group[connection.group], rank, waited_s

    def _check(self) -> None:
        """End the connections that waited for too long."""
        self._look = None
        if self._open:
            self._look = asyncio.get_running_loop().call_later(_LOOK_EVERY_S, self._check)
        now = time.monotonic()
        for connection in list(self._open.values()):
            wait, deadline = connection.wait, connection.deadline
            if wait is not None and deadline is not None and now >= deadline:
                logger.info("a connection was cut: it waited too long for %s", wait.value)
                connection.on_late()


class Listener(socket.socket):
    """A listening socket whose connections are admitted.

    Args:
        listening: the listening socket; this object takes it over.
        connections: admits them.
    """

    def __init__(self, listening: socket.socket, connections: Connections) -> None:
        super().__init__(listening.family, listening.type, listening.proto, fileno=listening.detach())
        self._connections = connections
        self._in_a_row = 0
        self._pauses = False
        self._reserve = _reserve()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept and admit a connection; `service.doors.http.connections` calls this until no connection is left.

        Raises:
            BlockingIOError: there is no connection now, or the open ones come first.
            OSError: no file is left, also not the one in reserve.
        """
        while True:
            self._in_a_row += 1
            if self._pauses or self._in_a_row > _ACCEPTED_IN_A_ROW:
                raise self._later()
            has_room = self._connections.make_room()
            if not has_room and self._connections.has_cut:
                raise self._later()
            try:
                accepted, address = super().accept()
            except BlockingIOError:
                self._in_a_row = 0
                raise
            except OSError as error:
                if error.errno not in _NO_FILES:
                    raise
                self._spend_reserve()
                continue
            if not has_room:
                self._connections.refuse(accepted, "too many connections are open")
                continue
            admitted = self._connections.admit(accepted, address)
            if admitted is not None:
                return admitted, address

    def close(self) -> None:
        """Close the socket and the file in reserve."""
        super().close()
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None

    def _later(self) -> BlockingIOError:
        self._pauses, self._in_a_row = False, 0
        return BlockingIOError(errno.EAGAIN, "the open connections come first")

    def _spend_reserve(self) -> None:
        """Accept one connection with the file in reserve, and close it."""
        if self._reserve is None:
            self._reserve = _reserve()
        if self._reserve is None:
            self._pauses = True
            raise OSError(errno.EMFILE, "no file is left for a connection")
        os.close(self._reserve)
        self._reserve = None
        with suppress(OSError):
            accepted, _ = super().accept()
            self._connections.refuse(accepted, "no file is left")
        self._reserve = _reserve()


def _reserve() -> int | None:
    with suppress(OSError):
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    return None


def _group_of(address: Any) -> str:
    host = str(address[0])
    if ":" not in host:
        return host
    parsed = ipaddress.IPv6Address(host.partition("%")[0])
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, _IPV6_PREFIX), strict=False))


_IPV6_PREFIX = 64
_REFUSAL = raw_response(ServiceBusyError("too many connections are open"))
