"""SQL in the texts of a jar: the aggregates of its queries, and whether the accumulators of a savepoint can be theirs.

Only a query of one SELECT with GROUP BY is read. Its operator keeps one row of accumulators a key:

| aggregate | fields, where rows are only added | where rows are retracted |
|---|---|---|
| COUNT | 1, BIGINT | 1 |
| SUM | 1 | 2: with a count |
| MIN, MAX | 1 | a map of values |
| AVG | 2 | 2 |
| any with DISTINCT | one more: the map of its values | likewise |

Equal aggregates have one accumulator. A count of all rows is added where rows are retracted and no COUNT(*) is there.

Flink: AggregateUtil#transformToStreamAggregateInfoList, the functions of org.apache.flink.table.planner.functions.aggfunctions
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from readers.serializers.table.rowdata import RowDataSerializer

_MAX_QUERY = 100_000  # characters
_LITERALS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_CALL = re.compile(r"\b(COUNT|SUM|MIN|MAX|AVG)\s*\(\s*(DISTINCT\b)?", re.IGNORECASE)
_OTHER = re.compile(
    r"\b(OVER|UNION|INTERSECT|EXCEPT|HAVING|FILTER|WITH|GROUPING|CUBE|ROLLUP|TUMBLE|HOP|SESSION|CUMULATE|ROW_NUMBER|"
    r"LISTAGG|COLLECT|STDDEV\w*|VAR\w*|FIRST_VALUE|LAST_VALUE|\w*AGG\w*)\b",
    re.IGNORECASE,
)
_SELECT = re.compile(r"\bSELECT\b", re.IGNORECASE)
_FROM = re.compile(r"\bFROM\b", re.IGNORECASE)
_GROUPED = re.compile(r"\bGROUP\s+BY\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate of a query: `COUNT`, its argument, and whether it counts each value once."""

    function: str
    argument: str
    is_distinct: bool

    def __str__(self) -> str:
        return f"{self.function}({'DISTINCT ' if self.is_distinct else ''}{self.argument})"


@dataclass(frozen=True, slots=True)
class Query:
    """The aggregates of one query, each once, in order."""

    aggregates: tuple[Aggregate, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.aggregates))

    def fits(self, stored: RowDataSerializer) -> bool:
        """Return whether a row may be that of the accumulators; True where it cannot be excluded."""
        least = sum((2 if each.function == "AVG" else 1) + each.is_distinct for each in self.aggregates)
        if stored.width < least:
            return False
        if stored.width > least:
            # Only counts have no more fields where rows are retracted.
            return any(each.function != "COUNT" for each in self.aggregates)
        position = 0
        for each in self.aggregates:
            if each.function == "COUNT" and stored.field_types[position].name != "BIGINT":
                return False
            position += (2 if each.function == "AVG" else 1) + each.is_distinct
        return True


def queries_in(texts: Iterable[str]) -> list[Query]:
    """Return the queries with aggregates among some texts, each once; those of other forms are left out."""
    found = []
    for text in sorted(set(texts)):
        query = _query(text) if len(text) <= _MAX_QUERY else None
        if query is not None and query not in found:
            found.append(query)
    return found


def _query(text: str) -> Query | None:
    plain = _LITERALS.sub(" ? ", text)
    selects = list(islice(_SELECT.finditer(plain), 2))
    begun = _FROM.search(plain, selects[0].end()) if len(selects) == 1 else None
    if begun is None or not _GROUPED.search(plain, begun.end()) or _OTHER.search(plain):
        return None
    columns = plain[selects[0].end() : begun.start()]
    aggregates = []
    for call in _CALL.finditer(columns):
        argument = _argument(columns, call.end())
        if argument is None or _CALL.search(argument):
            return None
        aggregates.append(Aggregate(call[1].upper(), argument, call[2] is not None))
    return Query(tuple(dict.fromkeys(aggregates))) if aggregates else None


def _argument(text: str, start: int) -> str | None:
    """Return the text up to the bracket that closes a call; None if there is none."""
    depth = 1
    for position in range(start, len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            # `COUNT(*)` and `COUNT(1)` are the same.
            argument = " ".join(text[start:position].split())
            return "*" if argument.isdecimal() else argument
    return None
