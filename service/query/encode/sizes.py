"""Sizes and numbers for people: `12 kB`, `1 row`, `2 rows`.

Ages for people: `3 hours ago`.
"""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_STEP = 1000


def size_text(size_bytes: int) -> str:
    """Return a size with a decimal unit; below 10 it has one digit behind the point."""
    size, number = float(size_bytes), 0
    while size >= _STEP and number < len(_UNITS) - 1:
        size, number = size / _STEP, number + 1
    digits = 0 if size >= 10 or number == 0 else 1
    return f"{size:.{digits}f} {_UNITS[number]}"


def state_size_text(size_bytes: int | None, *, is_estimate: bool) -> str:
    """Return the size of a state; an estimate says so, and `-` is a size that is not known."""
    if size_bytes is None:
        return "-"
    return f"about {size_text(size_bytes)}" if is_estimate else size_text(size_bytes)


def counted(count: int, noun: str) -> str:
    """Return `1 row`, `2 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_SPANS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def age_text(then: datetime, now: datetime) -> str:
    """Return how long ago a time was, in the largest whole unit; a time to come is that of another clock."""
    seconds = int((now - then).total_seconds())
    for unit, length in _SPANS:
        count = seconds // length
        if count > 0:
            return f"{count:,} {unit}{'' if count == 1 else 's'} ago"
    return "just now" if seconds >= 0 else "in the future"


def dated(then: datetime | None) -> str:
    """Return how long ago a time was, and the time in UTC; None is a time that is not known."""
    if then is None:
        return "at an unknown time"
    return f"{age_text(then, datetime.now(UTC))} ({then:%Y-%m-%d %H:%M:%S} UTC)"
