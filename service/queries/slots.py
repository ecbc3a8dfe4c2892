"""Who runs now: a limited number of slots, and the queue before them.

Of those that wait, the one whose user has the fewest running goes first; of these, the one that came first, where one that
reads much counts as if it had come later: a second for 2 MiB, five at most. Large ones take half of the slots at most, so
a small one finds a slot even while as many large ones run as may. One that has run for long counts as large, whatever
it was thought to be, and for a while so does all else that its user asks; what ends in its first second does not count, for
else many short ones would make their user's next one wait behind the long ones of others.

Lookups (`service.sql.lookups`) have half as many slots again for themselves: all others may turn out to take all the time they
have, and as many may come at once as there are slots. Before any other slot, what is no lookup counts as if it had come a
second later.

A query whose reader stalls gives its slot back and waits for another when the reader goes on, at the place it once came to.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp2

from service.errors import TooManyQueriesError

_LARGE_AFTER_S = 1.0
_PATIENCE_S = 5.0
_BYTES_A_SECOND = 2 << 20
_YIELDS_TO_LOOKUPS_S = 1.0
_HALF_LIFE_S = 20.0
_KNOWN_USERS = 10_000
_LONGEST_RETRY_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLimits:
    """How many queries may run and wait.

    Attributes:
        running: at a time, beside lookups.
        running_per_user: at a time, of one user.
        queued: that wait.
        queued_per_user: that wait, of one user.
        stalled: that have given their slot back until their reader goes on.
    """

    running: int
    running_per_user: int
    queued: int
    queued_per_user: int
    stalled: int = 0

    @property
    def running_large(self) -> int:
        """Large ones at a time: half of the slots, where there is more than one."""
        return max(1, self.running // 2)

    @property
    def running_with_lookups(self) -> int:
        """All at a time: half as many more where these are lookups, and one at least."""
        return self.running + max(1, self.running // 2)


@dataclass(eq=False, slots=True, kw_only=True)
class Ticket:
    """A query before the slots.

    Attributes:
        user: whose it is.
        is_large: whether it reads so much that it leaves the last slots to others.
        is_lookup: whether it is sure to be done soon.
        size_bytes: about how much it reads.
        grant: called when it gets a slot, from any thread, at once if there is one free; must not take long.
        arrived: when it came, by the monotonic clock.
    """

    user: str
    is_large: bool
    grant: Callable[[], None]
    is_lookup: bool = False
    size_bytes: int = 0
    arrived: float = field(default_factory=time.monotonic)
    _started: float = 0.0
    _is_heavy: bool = False

    def start(self, *, is_heavy: bool = False) -> None:
        """It has a slot from now on; `is_heavy` if its user took much lately."""
        self._started = time.monotonic()
        self._is_heavy = is_heavy

    def seconds(self, now: float) -> float:
        """How long it has had its slot."""
        return now - self._started

    def counts_as_large(self, now: float) -> bool:
        """Whether it is large, or has run for as long as if it were; a lookup never does."""
        if self.is_lookup:
            return False
        return self.is_large or self._is_heavy or self.seconds(now) > _LARGE_AFTER_S


class Slots:
    """Safe to share between threads.

    Args:
        limits: how many may run and wait.
    """

    def __init__(self, limits: SlotLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._running: set[Ticket] = set()
        self._waiting: list[Ticket] = []
        self._stalled: set[Ticket] = set()
        self._taken: dict[str, tuple[float, float]] = {}

    @property
    def running(self) -> int:
        """How many have a slot."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        return len(self._waiting)

    def enter(self, ticket: Ticket) -> None:
        """Wait for a slot; its `grant` tells.

        Raises:
            TooManyQueriesError: as many wait as may.
        """
        with self._lock:
            self._check_room(ticket.user)
            self._waiting.append(ticket)
        self._grant()

    def check_room(self, user: str) -> None:
        """Whether a query of this user may wait.

        Raises:
            TooManyQueriesError: as many wait as may.
        """
        with self._lock:
            self._check_room(user)

    def pause(self, ticket: Ticket) -> bool:
        """Give the slot back for a while; False if it must be kept, for what is held meanwhile costs memory."""
        with self._lock:
            if len(self._stalled) >= self._limits.stalled:
                return False
            self._give_up(ticket)
            self._stalled.add(ticket)
        self._grant()
        return True

    def enter_again(self, ticket: Ticket) -> None:
        """Wait for another slot after `pause`; never refused."""
        with self._lock:
            self._stalled.discard(ticket)
            self._waiting.append(ticket)
        self._grant()

    def leave(self, ticket: Ticket) -> None:
        """Give the slot back, or wait no more."""
        with self._lock:
            self._give_up(ticket)
            self._stalled.discard(ticket)
            if ticket in self._waiting:
                self._waiting.remove(ticket)
        self._grant()

    def _check_room(self, user: str) -> None:
        own = sum(ticket.user == user for ticket in self._waiting)
        if len(self._waiting) >= self._limits.queued or own >= self._limits.queued_per_user:
            whose = "of yours " if own >= self._limits.queued_per_user else ""
            raise TooManyQueriesError(
                f"too many queries {whose}wait already",
                retry_after_s=min(_LONGEST_RETRY_S, 1 + len(self._waiting) // self._limits.running),
            )

    def _grant(self) -> None:
        """Give free slots to those that wait."""
        while True:
            with self._lock:
                ticket = self._next()
                if ticket is None:
                    return
                self._waiting.remove(ticket)
                self._running.add(ticket)
                ticket.start(is_heavy=self._is_heavy(ticket.user, time.monotonic()))
            ticket.grant()

    def _give_up(self, ticket: Ticket) -> None:
        """It has no slot any more; remember for how long it had one, beyond what anybody may."""
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

    def _taken_s(self, user: str, now: float) -> float:
        """How long the long queries of a user had slots, those of long ago counted less."""
        seconds, at = self._taken.get(user, (0.0, now))
        return seconds * exp2((at - now) / _HALF_LIFE_S)

    def _is_heavy(self, user: str, now: float) -> bool:
        return self._taken_s(user, now) > _LARGE_AFTER_S

    def _next(self) -> Ticket | None:
        if len(self._running) >= self._limits.running_with_lookups:
            return None
        now = time.monotonic()
        busy = Counter(ticket.user for ticket in self._running)
        others = sum(not ticket.is_lookup for ticket in self._running)
        large = sum(ticket.counts_as_large(now) for ticket in self._running)
        counts = {
            ticket: not ticket.is_lookup and (ticket.is_large or self._is_heavy(ticket.user, now))
            for ticket in self._waiting
            if busy[ticket.user] < self._limits.running_per_user
            and (ticket.is_lookup or others < self._limits.running)
        }
        able = [ticket for ticket in counts if not (counts[ticket] and large >= self._limits.running_large)]

        def rank(ticket: Ticket) -> tuple[int, float]:
            yields_s = _PATIENCE_S if counts[ticket] else ticket.size_bytes / _BYTES_A_SECOND
            yields_s += 0 if ticket.is_lookup else _YIELDS_TO_LOOKUPS_S
            return busy[ticket.user], ticket.arrived + min(yields_s, _PATIENCE_S)

        return min(able, key=rank, default=None)
