"""Many small cases that are all refused, as one test: a test of its own for each costs more than what it tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

_Case = TypeVar("_Case")


def not_refused(cases: Iterable[_Case], read: Callable[[_Case], Any], error: type[Exception]) -> list[_Case]:
    """The cases that can be read without this error; any other error is the test's."""
    found = []
    for case in cases:
        try:
            read(case)
        except error:
            continue
        found.append(case)
    return found
