"""The conditions of a query that save reading: "this column is one of these values".

A `Predicate` prunes, it does not filter: the rows of a scan may include others, unless the scan has the exact expression, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Predicate:
    """Conditions on columns, combined by AND.

    Attributes:
        values: column name → the values of which the column must have one.
    """

    values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def of(self, column: str) -> tuple[Any, ...] | None:
        """Return the values that a column may have; None for any."""
        return self.values.get(column)

    def and_(self, column: str, values: tuple[Any, ...]) -> Predicate:
        """Return the predicate that also wants `column` to be one of `values`."""
        known = self.values.get(column)
        both = values if known is None else tuple(value for value in known if value in values)
        return Predicate({**self.values, column: both})


ANYTHING = Predicate()
