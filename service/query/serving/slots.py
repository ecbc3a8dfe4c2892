"""Which query runs next: a limited number of slots, and the queue before them.

* The query whose user has the fewest running queries goes first; among these, the one that arrived first. A query that reads
  much counts as if it had arrived later: one second for 2 MiB, at most five.
* Large queries take at most half of the slots, so a small query finds a slot even while large ones run.
* A query that has run for a second counts as large from then on. So do all queries of its user for a while. The first second
  does not count: otherwise many short queries would make the next one of their user wait behind the long ones of others.
* Lookups (`service.query.sql.plan`) have half as many slots again for themselves, because any other query may turn out to take all
  its time, and fill all slots. For the other slots, a query that is no lookup counts as if it had arrived a second later.
* A query whose client stalls gives its slot back. It waits for another one when the client goes on, with its first time of
  arrival.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp2

from service.base.errors import TooManyQueriesError
from service.base.principal import Identity

_LARGE_AFTER_S = 1.0
# The longest delay of a query that reads much.
_PATIENCE_S = 5.0
_BYTES_A_SECOND = 2 << 20
_YIELDS_TO_LOOKUPS_S = 1.0
# The seconds that a user took count half after this time.
_HALF_LIFE_S = 20.0
_KNOWN_USERS = 10_000
_LONGEST_RETRY_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLimits:
    """Limits of how many queries run and wait.

    Attributes:
        running: queries that run at the same time, besides lookups.
        running_per_user: queries of one user that run at the same time.
        queued: queries that wait.
        queued_per_user: queries of one user that wait.
        stalled: queries that have given their slot back until their client goes on.
    """

    running: int
    running_per_user: int
    queued: int
    queued_per_user: int
    stalled: int = 0

    @property
    def running_large(self) -> int:
        """Large queries that run at the same time: half of the slots, at least one."""
        return max(1, self.running // 2)

    @property
    def running_with_lookups(self) -> int:
        """All queries that run at the same time: the slots, and half as many for lookups, at least one."""
        return self.running + max(1, self.running // 2)


@dataclass(eq=False, slots=True, kw_only=True)
class Ticket:
    """A query before the slots.

    Attributes:
        user: the owner of the query.
        is_large: True if it reads so much that it leaves the last slots to others.
        grant: is called when it gets a slot, from any thread, perhaps at once; it must be quick.
        is_lookup: True if it is sure to end soon.
        size_bytes: about how many bytes it reads.
        arrived: when it arrived, by the monotonic clock.
    """

    user: Identity
    is_large: bool
    grant: Callable[[], None]
    is_lookup: bool = False
    size_bytes: int = 0
    arrived: float = field(default_factory=time.monotonic)
    _started: float = 0.0
    _is_heavy: bool = False

    def start(self, *, is_heavy: bool = False) -> None:
        """Note that it has a slot from now on.

        Args:
            is_heavy: True if its user had slots for long lately.
        """
        self._started = time.monotonic()
        self._is_heavy = is_heavy

    def seconds(self, now: float) -> float:
        """Return for how many seconds it has had its slot."""
        return now - self._started

    def counts_as_large(self, now: float) -> bool:
        """Return whether it is large or has run for long; a lookup never counts as large."""
        if self.is_lookup:
            return False
        return self.is_large or self._is_heavy or self.seconds(now) > _LARGE_AFTER_S


class Slots:
    """The slots and the queue. Safe to share between threads.

    Args:
        limits: how many queries run and wait.
    """

    def __init__(self, limits: SlotLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._running: set[Ticket] = set()
        self._waiting: list[Ticket] = []
        self._stalled: set[Ticket] = set()
        self._taken: dict[Identity, tuple[float, float]] = {}

    @property
    def running(self) -> int:
        """Number of queries that have a slot."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Number of queries that wait for a slot."""
        return len(self._waiting)

    def enter(self, ticket: Ticket) -> None:
        """Join the queue; `grant` of the ticket is called when there is a slot.

        Raises:
            TooManyQueriesError: too many queries wait.
        """
        with self._lock:
            self._check_room(ticket.user)
            self._waiting.append(ticket)
        self._grant()

    def check_room(self, user: Identity) -> None:
        """Check that a query of this user may wait.

        Raises:
            TooManyQueriesError: too many queries wait.
        """
        with self._lock:
            self._check_room(user)

    def pause(self, ticket: Ticket) -> bool:
        """Give the slot back for a while; return False if too many queries have done so and it must be kept."""
        # A paused query still holds its worker with all its memory, so their number is limited.
        with self._lock:
            if len(self._stalled) >= self._limits.stalled:
                return False
            self._give_up(ticket)
            self._stalled.add(ticket)
        self._grant()
        return True

    def enter_again(self, ticket: Ticket) -> None:
        """Wait for another slot after `pause`, however many wait."""
        with self._lock:
            self._stalled.discard(ticket)
            self._waiting.append(ticket)
        self._grant()

    def leave(self, ticket: Ticket) -> None:
        """Give the slot back, or leave the queue."""
        with self._lock:
            self._give_up(ticket)
            self._stalled.discard(ticket)
            if ticket in self._waiting:
                self._waiting.remove(ticket)
        self._grant()

    def _check_room(self, user: Identity) -> None:
        own = sum(ticket.user == user for ticket in self._waiting)
        if len(self._waiting) >= self._limits.queued or own >= self._limits.queued_per_user:
            whose = "of yours " if own >= self._limits.queued_per_user else ""
            raise TooManyQueriesError(
                f"too many queries {whose}wait already",
                retry_after_s=min(_LONGEST_RETRY_S, 1 + len(self._waiting) // self._limits.running),
            )

    def _grant(self) -> None:
        """Give free slots to queries that wait."""
        while True:
            with self._lock:
                ticket = self._next()
                if ticket is None:
                    return
                self._waiting.remove(ticket)
                self._running.add(ticket)
                ticket.start(is_heavy=self._is_heavy(ticket.user, time.monotonic()))
            # Without the lock: the query may end at once, and leave.
            ticket.grant()

    def _give_up(self, ticket: Ticket) -> None:
        """Take the slot from a ticket; remember for how long it had one after its first second."""
        if ticket not in self._running:
            return
        self._running.remove(ticket)
        now = time.monotonic()
        beyond_s = ticket.seconds(now) - _LARGE_AFTER_S
        if beyond_s <= 0:
            return
        self._taken[ticket.user] = self._taken_s(ticket.user, now) + beyond_s, now
        if len(self._taken) > _KNOWN_USERS:
            self._taken = {user: taken for user, taken in self._taken.items() if self._is_heavy(user, now)}

    def _taken_s(self, user: Identity, now: float) -> float:
        """Return for how many seconds the long queries of a user had slots; the past counts less."""
        seconds, at = self._taken.get(user, (0.0, now))
        return seconds * exp2((at - now) / _HALF_LIFE_S)

    def _is_heavy(self, user: Identity, now: float) -> bool:
        return self._taken_s(user, now) > _LARGE_AFTER_S

    def _next(self) -> Ticket | None:
        if not self._waiting or len(self._running) >= self._limits.running_with_lookups:
            return None
        now = time.monotonic()
        busy = Counter(ticket.user for ticket in self._running)
        others = sum(not ticket.is_lookup for ticket in self._running)
        running_large = sum(ticket.counts_as_large(now) for ticket in self._running)
        is_large = {
            ticket: not ticket.is_lookup and (ticket.is_large or self._is_heavy(ticket.user, now))
            for ticket in self._waiting
            if busy[ticket.user] < self._limits.running_per_user
            and (ticket.is_lookup or others < self._limits.running)
        }
        able = [
            ticket
            for ticket in is_large
            if not (is_large[ticket] and running_large >= self._limits.running_large)
        ]

        def rank(ticket: Ticket) -> tuple[int, float]:
            yields_s = _PATIENCE_S if is_large[ticket] else ticket.size_bytes / _BYTES_A_SECOND
            yields_s += 0 if ticket.is_lookup else _YIELDS_TO_LOOKUPS_S
            return busy[ticket.user], ticket.arrived + min(yields_s, _PATIENCE_S)

        return min(able, key=rank, default=None)
