"""Waiting for what other threads and processes do: generously, because machines differ."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

PATIENCE_S = 180.0

_Value = TypeVar("_Value")


def wait_until(happens: Callable[[], Any], patience_s: float = PATIENCE_S) -> None:
    """Return as soon as a condition holds.

    Raises:
        AssertionError: it does not hold in time.
    """
    deadline = time.monotonic() + patience_s
    while not happens():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.01)


def awaited(
    find: Callable[[], _Value | None], patience_s: float = PATIENCE_S, pause_s: float = 0.01
) -> _Value:
    """Return the first value that is true.

    Raises:
        AssertionError: there is none in time.
    """
    deadline = time.monotonic() + patience_s
    while not (found := find()):
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(pause_s)
    return found
