"""Ages as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from service.query.encode import age_text

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (3_599, "59 minutes ago"),
        (3 * 3_600 + 7, "3 hours ago"),
        (86_400, "1 day ago"),
        (86_400 * 1_234, "1,234 days ago"),
        (-1, "in the future"),
    ],
)
def test_an_age_is_its_largest_whole_unit(seconds: int, text: str) -> None:
    assert age_text(NOW - timedelta(seconds=seconds), NOW) == text
