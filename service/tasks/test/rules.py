"""`Rule`: a query that must return no row, or one value within bounds.

| in the query | stands |
|---|---|
| `table`, `source_offsets`, `files`, … | a table of the savepoint that is tested |
| `previous.table` | the same in the savepoint before it, of the same job |
| `current.table` | the same as `table`; with `previous` it names the savepoints of `diff` |
| `{table}` | each state that `operator`, `state` and `states` choose: the rule is tested once for each |
| `{table_name}`, `{operator}`, `{state}` | the names of that state, as texts |
| `{created_at}` | the time of the savepoint, as TIMESTAMP in UTC; the time of the test where it is not known |
| `$name` | a parameter of the rule |
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from service.query.sql.edits import quoted
from service.query.sql.literals import value_constant

PREVIOUS, CURRENT = "previous", "current"
TABLE = "{table}"
OF_STATES = (TABLE, "{table_name}", "{operator}", "{state}")
_PLACE = re.compile(r"\{(?:table|table_name|operator|state|created_at)\}")
Bound = int | float | datetime | date


class Severity(StrEnum):
    """How bad a violation is."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def weight(self) -> int:
        """Its place among others, the worst first."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of a value, both of them allowed.

    Attributes:
        least: the least value; None for any.
        most: the greatest value; None for any.
    """

    least: Bound | None = None
    most: Bound | None = None

    def holds(self, value: Any) -> bool:
        """Return whether a value is within the bounds; NULL and NaN are not.

        Raises:
            TypeError: the value cannot be compared with the bounds.
        """
        if value is None or (isinstance(value, float | Decimal) and math.isnan(value)):
            return False
        given = _comparable(value)
        return (self.least is None or given >= _comparable(self.least)) and (
            self.most is None or given <= _comparable(self.most)
        )

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {self.least}"
        return f"at most {self.most}" if self.least is None else f"{self.least} to {self.most}"


def _comparable(value: Any) -> Any:
    """Return a value that can be compared with a bound: times are in UTC, and a date is its midnight."""
    if isinstance(value, bool):
        raise TypeError("a truth value has no bounds")
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A test for state.

    Attributes:
        name: unique among the rules of a run.
        sql: the query.
        severity: how bad a violation is.
        description: why the rule must hold, for people.
        bounds: of the one value that the query returns; None if it must return no row.
        params: values of its parameters.
        operator, state: patterns of the names of operators and states, as in a shell, for a rule that is tested for each state.
        states: a condition of SQL on `StateMeta` that these states meet.
    """

    name: str
    sql: str
    severity: Severity = Severity.ERROR
    description: str = ""
    bounds: Bounds | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    operator: str = "*"
    state: str = "*"
    states: str = "TRUE"

    @property
    def is_for_each_state(self) -> bool:
        """True if it is tested once for each state that it chooses."""
        return any(place in self.sql for place in OF_STATES)

    @property
    def expectation(self) -> str:
        """The answer that is expected, for people."""
        return "no row" if self.bounds is None else f"one value, {self.bounds}"

    def chooses(self, names: tuple[str | None, ...], state: str) -> bool:
        """Return whether it is tested for a state.

        Args:
            names: of the operator: its uid, its name, its id; None for those that it lacks.
            state: the name of the state.
        """
        is_operator = any(name is not None and fnmatchcase(name, self.operator) for name in names)
        return is_operator and fnmatchcase(state, self.state)

    def query(self, *, created_at: datetime | None, chosen: ChosenState | None) -> str:
        """Return the query of one savepoint, and of one state if it is tested for each."""
        texts = {"{created_at}": _timestamp(created_at)}
        if chosen is not None:
            texts |= {
                TABLE: quoted(chosen.table),
                "{table_name}": value_constant(chosen.table),
                "{operator}": value_constant(chosen.operator),
                "{state}": value_constant(chosen.state),
            }
        # In one pass: a savepoint may have an operator that is called `{state}`.
        return _PLACE.sub(lambda found: texts.get(found[0], found[0]), self.sql)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenState:
    """A state that a rule is tested for.

    Attributes:
        operator: the uid of its operator, else the name, else the id.
        state: its name.
        table: the name of its table.
    """

    operator: str
    state: str
    table: str


def _timestamp(time: datetime | None) -> str:
    return f"TIMESTAMP '{(time or datetime.now(UTC)).astimezone(UTC):%Y-%m-%d %H:%M:%S}'"
