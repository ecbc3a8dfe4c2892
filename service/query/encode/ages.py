"""Ages for people: `3 hours ago`."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def age_text(then: datetime, now: datetime) -> str:
    """Return how long ago a time was, in the largest whole unit; a time to come is that of another clock."""
    seconds = int((now - then).total_seconds())
    for unit, length in _UNITS:
        count = seconds // length
        if count > 0:
            return f"{count:,} {unit}{'' if count == 1 else 's'} ago"
    return "just now" if seconds >= 0 else "in the future"


def dated(then: datetime | None) -> str:
    """Return how long ago a time was, and the time in UTC; None is a time that is not known."""
    if then is None:
        return "at an unknown time"
    return f"{age_text(then, datetime.now(UTC))} ({then:%Y-%m-%d %H:%M:%S} UTC)"
