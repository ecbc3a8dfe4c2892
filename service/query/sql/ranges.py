"""Conditions on the columns that tell checkpoints apart → ranges: `_checkpoint_id >= 41`, `_checkpoint_at BETWEEN … AND …`.

A range prunes, it does not filter: the bounds belong to it, whether or not the condition has them. A time without a zone is in the zone of
the session, which is not known here: its bound is wider by what zones differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from sqlglot import exp

from catalog.jobs.historytable import CHECKPOINT_ID, RANGED
from catalog.predicate import Range
from service.query.sql.literals import value_of

# Between the zones farthest apart, if the text has one and the session another.
_MOST_ZONE = timedelta(hours=30)
_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?(?P<zone>Z|[+-]\d{2}(:?\d{2})?)?"
)

_Column = tuple[str, str]  # alias of its table, name
_Find = Callable[[exp.Expr], tuple[_Column, ...]]


def ranges_of(conjuncts: Iterable[exp.Expr], find: _Find) -> tuple[dict[_Column, Range], list[exp.Expr]]:
    """Return the ranges of columns, and the conjuncts that give them.

    Args:
        conjuncts: all are true of the rows that the statement keeps.
        find: returns the columns that a node refers to; none if it is no column for certain.
    """
    ranges: dict[_Column, Range] = {}
    used: list[exp.Expr] = []
    for conjunct in conjuncts:
        for node, found in _bounds(conjunct):
            for column in find(node):
                if column[1] in RANGED:
                    limit = found(column[1])
                    if limit is not None:
                        ranges[column] = ranges.get(column, Range()).within(limit)
                        used.append(conjunct)
    return ranges, used


def _bounds(conjunct: exp.Expr) -> Iterator[tuple[exp.Expr, Callable[[str], Range | None]]]:
    """Yield a node that may be a column, and its range by the name of the column."""
    node = conjunct.unnest()
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low, high = node.args["low"], node.args["high"]
        yield node.this, lambda name: _range(name, low, high)
        return
    if type(node) not in _SIDES:
        return
    has_least, has_greatest = _SIDES[type(node)]
    one, other = node.this, node.expression
    yield one, lambda name: _range(name, other if has_least else None, other if has_greatest else None)
    yield other, lambda name: _range(name, one if has_greatest else None, one if has_least else None)


def _range(name: str, low: exp.Expr | None, high: exp.Expr | None) -> Range | None:
    """Return the range between two constants; None if one of them is no constant for certain."""
    least = None if low is None else _bound(name, low, -_MOST_ZONE)
    greatest = None if high is None else _bound(name, high, _MOST_ZONE)
    if (low is not None and least is None) or (high is not None and greatest is None):
        return None
    return Range(least, greatest)


def _bound(name: str, node: exp.Expr, unknown_zone: timedelta) -> Any:
    return value_of(node, pa.int64()) if name == CHECKPOINT_ID else _moment(node, unknown_zone)


def _moment(node: exp.Expr, unknown_zone: timedelta) -> datetime | None:
    """Return the moment of a constant, in UTC; None if it is no moment for certain."""
    node = node.unnest()
    has_zone = True
    if isinstance(node, exp.Cast):
        if node.to.this not in _TIMES or node.to.expressions:
            return None
        # A cast to a type without zones may drop the zone of the text.
        has_zone = node.to.this is exp.DataType.Type.TIMESTAMPTZ
        node = node.this
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    found = _TIME.fullmatch(node.this)
    if found is None:
        return None
    try:
        moment = datetime.fromisoformat(node.this)
        if found["zone"] and has_zone:
            return moment.astimezone(UTC)
        return moment.replace(tzinfo=UTC) + unknown_zone
    except (ValueError, OverflowError):
        return None


# The comparison `column < constant` → whether the constant is the least value, and whether it is the greatest.
_SIDES: dict[type[exp.Expr], tuple[bool, bool]] = {
    exp.GT: (True, False),
    exp.GTE: (True, False),
    exp.LT: (False, True),
    exp.LTE: (False, True),
    exp.EQ: (True, True),
}
_TIMES = frozenset(
    {
        exp.DataType.Type.TIMESTAMPTZ,
        exp.DataType.Type.TIMESTAMP,
        exp.DataType.Type.TIMESTAMPNTZ,
        exp.DataType.Type.DATE,
    }
)
