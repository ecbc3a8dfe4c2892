"""What Flink restores without a word, and a user may not have meant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreWarning:
    """Rows that Flink restores, and then treats in a way that nobody may expect; or an operator that only some backends restore.

    Attributes:
        state: the name of their state, or of the operator.
        rows: their number; 0 for an operator.
        example: the key of one.
        text: what Flink does with them.
    """

    state: str
    rows: int = 0
    example: str = ""
    text: str

    def __str__(self) -> str:
        if not self.rows:
            return f"{self.state}: {self.text}"
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return f"{self.state}: {rows} ({self.example}): {self.text}"


def merged_warnings(warnings: Iterable[RestoreWarning]) -> tuple[str, ...]:
    """Return warnings as text, those of one state and reason as one."""
    found: dict[tuple[str, str], RestoreWarning] = {}
    for warning in warnings:
        place = (warning.state, warning.text)
        first = found.get(place)
        found[place] = warning if first is None else replace(first, rows=first.rows + warning.rows)
    return tuple(map(str, found.values()))
