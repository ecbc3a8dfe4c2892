"""The conditions of a query that save reading: "this column is one of these values", "this column is not less than".

A `Predicate` prunes, it does not filter: the rows of a scan may include others, unless the scan has the exact expression, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Range:
    """Values between two bounds, which belong to it.

    Attributes:
        least: None for no bound.
        greatest: None for no bound.
    """

    least: Any = None
    greatest: Any = None

    def __contains__(self, value: Any) -> bool:
        if value is None:
            return False
        return (self.least is None or self.least <= value) and (
            self.greatest is None or value <= self.greatest
        )

    def within(self, other: Range) -> Range:
        """Return the values that are also in another range."""
        leasts = [one.least for one in (self, other) if one.least is not None]
        greatests = [one.greatest for one in (self, other) if one.greatest is not None]
        return Range(max(leasts, default=None), min(greatests, default=None))


@dataclass(frozen=True, slots=True)
class Predicate:
    """Conditions on columns, combined by AND.

    Attributes:
        values: column name → the values of which the column must have one.
        ranges: column name → the range in which its value must be; only of the columns that tell checkpoints apart.
    """

    values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)

    def of(self, column: str) -> tuple[Any, ...] | None:
        """Return the values that a column may have; None for any."""
        return self.values.get(column)

    def and_(self, column: str, values: tuple[Any, ...]) -> Predicate:
        """Return the predicate that also wants `column` to be one of `values`."""
        known = self.values.get(column)
        both = values if known is None else tuple(value for value in known if value in values)
        return replace(self, values={**self.values, column: both})


ANYTHING = Predicate()
