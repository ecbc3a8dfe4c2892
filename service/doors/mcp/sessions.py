"""The sessions of clients of the protocol's older versions: so many at a time, half of them for one user, each until it is idle.

The SDK has a limit of all sessions; this ledger keeps one user from taking all of them. It counts as the SDK does: a session ends when its
client says so, or when it was idle for the time of the settings. Since 2026-07-28 the protocol has no sessions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from service.base.errors import TooManySessionsError
from service.base.principal import Identity

_RETRY_AFTER_S = 30


@dataclass(slots=True, kw_only=True)
class _Session:
    owner: Identity
    requests: int = 0
    idle_since: float = 0.0


class Sessions:
    """The open sessions. The thread of the event loop uses it alone.

    Args:
        most: of all users.
        idle_s: seconds without a request after which a session ends.
    """

    def __init__(self, most: int, idle_s: float) -> None:
        self._most = most
        self._idle_s = idle_s
        self._open: dict[str, _Session] = {}
        self._opening: list[Identity] = []

    @contextmanager
    def opening(self, owner: Identity) -> Iterator[None]:
        """Keep room for one more session of a user while a block lasts.

        Raises:
            TooManySessionsError: the user, or all users, have too many.
        """
        self._forget()
        owners = [*(session.owner for session in self._open.values()), *self._opening]
        if len(owners) >= self._most or owners.count(owner) >= max(1, self._most // 2):
            raise TooManySessionsError("too many sessions are open", retry_after_s=_RETRY_AFTER_S)
        self._opening.append(owner)
        try:
            yield
        finally:
            self._opening.remove(owner)

    def opened(self, session_id: str, owner: Identity) -> None:
        """Note that a user has opened a session."""
        self._open[session_id] = _Session(owner=owner, idle_since=time.monotonic())

    def begun(self, session_id: str) -> None:
        """Note that a request of a session has begun."""
        if session_id in self._open:
            self._open[session_id].requests += 1

    def ended(self, session_id: str) -> None:
        """Note that a request of a session has ended."""
        if session_id in self._open:
            self._open[session_id].requests -= 1
            self._open[session_id].idle_since = time.monotonic()

    def closed(self, session_id: str) -> None:
        """Forget a session."""
        self._open.pop(session_id, None)

    def _forget(self) -> None:
        """Forget those that the SDK has ended, because nobody used them."""
        oldest = time.monotonic() - self._idle_s
        for session_id, session in list(self._open.items()):
            if not session.requests and session.idle_since < oldest:
                del self._open[session_id]
