"""Checks of clients whose processes are held up."""

from __future__ import annotations

import signal

from service.tasks.check.registry import Checks
from tests.support.waiting import wait_until


def stop_check(checks: Checks) -> None:
    """Wait for the process of a check and stop it: the check goes on until somebody ends it."""
    wait_until(lambda: checks._running)
    for process in tuple(checks._running):
        process.send_signal(signal.SIGSTOP)
