"""Which queries are lookups: sure to be done soon, whoever asks and whatever for.

A query may take all memory and all time that it is given, and before it runs nobody knows. Of some it is known, by what they
are: they read some keys of one table, a few bytes of it, and hand on what they find without a function, a join or a query
inside. These have slots of their own (`service.queries.slots`), beside those whose memory is set aside.
"""

from __future__ import annotations

from sqlglot import exp

from service.sql.plan import Plan

_MOST_KEYS = 100
_MOST_BYTES = 4 << 20


def is_lookup(plan: Plan, size_bytes: int = 0) -> bool:
    """Whether a plan is sure to be done soon.

    Args:
        plan: any.
        size_bytes: about how much it reads, where that is known.
    """
    if plan.prefix or len(plan.tables) != 1 or size_bytes > _MOST_BYTES:
        return False
    keys = plan.tables[0].predicate.of("key")
    if plan.tables[0].database is None or keys is None or len(keys) > _MOST_KEYS:
        return False
    return all(type(node) in _PLAIN for node in plan.query.walk())


# What takes no longer than the rows that it is given; columns may be fields of one another.
_PLAIN = frozenset(
    {
        exp.Alias, exp.And, exp.Between, exp.Boolean, exp.Column, exp.Dot, exp.EQ, exp.From, exp.GT, exp.GTE, exp.Identifier,
        exp.In, exp.Is, exp.LT, exp.LTE, exp.Limit, exp.Literal, exp.NEQ, exp.Neg, exp.Not, exp.Null, exp.Offset, exp.Or,
        exp.Order, exp.Ordered, exp.Paren, exp.Select, exp.Star, exp.Table, exp.TableAlias, exp.Where,
    }
)  # fmt: skip
