"""Which plans are lookups: sure to end soon.

A query may take all its memory and time, and nobody knows before it runs. A lookup cannot: it reads some keys of one table, a few
bytes, and returns the rows without a function, a join or a query inside. So lookups have slots of their own
(`service.query.serving.slots`).
"""

from __future__ import annotations

from sqlglot import exp

from service.query.sql.plan import Plan

MOST_KEYS = 100
MOST_BYTES = 4 << 20


def is_lookup(plan: Plan, size_bytes: int = 0) -> bool:
    """Return whether a plan is sure to end soon.

    Args:
        plan: the plan.
        size_bytes: about how many bytes it reads; 0 if that is unknown.
    """
    if plan.short is not None:
        return True
    if plan.prefix or len(plan.tables) != 1 or size_bytes > MOST_BYTES:
        return False
    keys = plan.tables[0].predicate.of("key")
    if plan.tables[0].database is None or keys is None or len(keys) > MOST_KEYS:
        return False
    return all(type(node) in _PLAIN for node in plan.query.walk())


# Nodes whose cost is bounded by the rows that were read. `Dot` is a field of a struct.
_PLAIN = frozenset(
    {
        exp.Alias, exp.And, exp.Between, exp.Boolean, exp.Column, exp.Dot, exp.EQ, exp.From, exp.GT, exp.GTE, exp.Identifier,
        exp.In, exp.Is, exp.LT, exp.LTE, exp.Limit, exp.Literal, exp.NEQ, exp.Neg, exp.Not, exp.Null, exp.Offset, exp.Or,
        exp.Order, exp.Ordered, exp.Paren, exp.Select, exp.Star, exp.Table, exp.TableAlias, exp.Where,
    }
)  # fmt: skip
