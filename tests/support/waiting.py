"""Waiting for what other threads and processes do: generously, because machines differ."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 60.0


def wait_until(happens: Callable[[], Any], patience_s: float = PATIENCE_S) -> None:
    """Return as soon as a condition holds.

    Raises:
        AssertionError: it does not hold in time.
    """
    deadline = time.monotonic() + patience_s
    while not happens():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.01)
