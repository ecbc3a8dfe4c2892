"""A SELECT of aggregates over one table → the part that each executor's Python computes, and what is left for Spark.

Most of what Spark costs is taking rows from Python, one by one. So DuckDB computes groups beside the readers, of some
rows at a time, and Spark merges these: it takes a row a group.

| aggregate | of some rows | merged |
|---|---|---|
| count | the same | their sum, 0 where there is none |
| count_if | the same | their sum; NULL, as DuckDB has it, where there is none |
| sum, min, max, bool_and, bool_or | the same | the same |
| avg | sum and count | the sum of sums by the sum of counts |
| any of DISTINCT x | x is one more group | the same, of x |

What stands there in DuckDB's SQL is what DuckDB itself computes. Not split: joins, windows, subqueries, and aggregates
that are not in the table; these go the ordinary way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
from sqlglot import exp

ROWS = "rows"
"""What the table is called in the part of the executors."""


class MergedCount(exp.Expression, exp.AggFunc):
    """The sum of counts `this`; 0 where there is none."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class MergedAvg(exp.Expression, exp.AggFunc):
    """The sum of sums `this` by the sum of counts `expression`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


@dataclass(frozen=True, slots=True)
class PartialQuery:
    """What executors compute of a table's rows, in place of which it stands.

    Attributes:
        sql: in DuckDB's SQL, over a table `ROWS`.
        schema: of its answer, by DuckDB's types.
    """

    sql: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class PartialSelect:
    """A SELECT in two parts.

    Attributes:
        partial: over the table.
        columns: of `partial`: name and expression.
        merged: what is left, over the answers of `partial` under the table's name.
    """

    partial: exp.Select
    columns: tuple[tuple[str, exp.Expr], ...]
    merged: exp.Select


class _NotSplit(Exception):
    """There is something in the SELECT that is not split."""


def partial_select(select: exp.Select, keys: Sequence[exp.Expr]) -> PartialSelect | None:
    """The two parts of a SELECT; None if it is not split.

    Args:
        select: qualified: FROM is one table, and its columns are named by its alias.
        keys: what it groups by.
    """
    if not _may_be_split(select):
        return None
    distinct = select.args.get("distinct") is not None and not keys
    parts = _Parts(select.args["from_"].this.alias_or_name)
    try:
        for key in [item.unalias() for item in select.expressions] if distinct else keys:
            parts.group(key)
        merged = _merged(select, parts)
    except _NotSplit:
        return None
    columns = [(name, node) for found in (parts.groups, parts.sums) for node, name in found.items()]
    made = exp.select(*(exp.alias_(node.copy(), name, quoted=True) for name, node in columns))
    made.set("from_", exp.From(this=exp.to_table(ROWS, alias=exp.to_identifier(parts.table, quoted=True))))
    if select.args.get("where") is not None:
        made.set("where", select.args["where"].copy())
    if parts.groups:
        numbers = [exp.Literal.number(place) for place in range(1, len(parts.groups) + 1)]
        made.set("group", exp.Group(expressions=numbers))
    if not columns or any(column.table != parts.table for column in made.find_all(exp.Column)):
        return None
    return PartialSelect(made, tuple(columns), merged)


def _may_be_split(select: exp.Select) -> bool:
    source = select.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table) or select.args.get("joins"):
        return False
    if select.args.get("qualify") is not None or select.args.get("with_") is not None:
        return False
    return all(node is select for node in select.find_all(exp.Query, exp.Window))


@dataclass(slots=True)
class _Parts:
    """What the partial query has.

    Attributes:
        table: the table's alias.
        groups: what it groups by, and the names of these.
        sums: its aggregates, likewise.
    """

    table: str
    groups: dict[exp.Expr, str] = field(default_factory=dict)
    sums: dict[exp.Expr, str] = field(default_factory=dict)

    def group(self, key: exp.Expr) -> None:
        """Note a group; not a constant, nor ROLLUP and the like, but what stands in them."""
        if isinstance(key, exp.Rollup | exp.Cube):
            for item in key.expressions:
                self.group(item)
        elif next(key.find_all(exp.Column), None) is not None and key not in self.groups:
            self.groups[key] = f"group {len(self.groups) + 1}"

    def sum(self, aggregate: exp.Expr) -> exp.Column:
        """The column of an aggregate of some rows."""
        name = self.sums.setdefault(aggregate, f"part {len(self.sums) + 1}")
        return self.column(name)

    def column(self, name: str) -> exp.Column:
        """A column of the partial query."""
        return exp.column(
            exp.to_identifier(name, quoted=True), table=exp.to_identifier(self.table, quoted=True)
        )


def _merged(select: exp.Select, parts: _Parts) -> exp.Select:
    """The SELECT over the partial query, whose columns it finds."""
    merged = select.copy()
    merged.set("where", None)
    merged.set(
        "expressions",
        [
            exp.alias_(_rewritten(item.unalias(), parts), item.alias_or_name, quoted=True)
            for item in select.expressions
        ],
    )
    for clause in ("group", "having", "order"):
        if select.args.get(clause) is not None:
            merged.set(clause, _rewritten(select.args[clause], parts))
    return merged


def _rewritten(node: exp.Expr, parts: _Parts) -> exp.Expr:
    def rewrite(inner: exp.Expr) -> exp.Expr:
        if inner in parts.groups:
            return parts.column(parts.groups[inner])
        aggregate = inner.this if isinstance(inner, exp.Filter) else inner
        if isinstance(aggregate, exp.AggFunc):
            if type(aggregate) not in _MERGES:
                raise _NotSplit
            return _MERGES[type(aggregate)](inner, parts)
        if isinstance(inner, exp.Column) and inner.table:
            raise _NotSplit
        return inner

    return node.copy().transform(rewrite, copy=False)


_Merge = Callable[[exp.Expr, _Parts], exp.Expr]


def _again(kind: type[exp.AggFunc]) -> _Merge:
    """The same aggregate, of what it was of some rows."""

    def merge(node: exp.Expr, parts: _Parts) -> exp.Expr:
        return _of_distinct(node, parts) or kind(this=parts.sum(node.copy()))

    return merge


def _count(node: exp.Expr, parts: _Parts) -> exp.Expr:
    return _of_distinct(node, parts) or MergedCount(this=parts.sum(node.copy()))


def _count_if(node: exp.Expr, parts: _Parts) -> exp.Expr:
    return exp.Sum(this=parts.sum(node.copy()))


def _avg(node: exp.Expr, parts: _Parts) -> exp.Expr:
    distinct = _of_distinct(node, parts)
    if distinct is not None:
        return distinct
    return MergedAvg(this=parts.sum(_as(exp.Sum, node)), expression=parts.sum(_as(exp.Count, node)))


def _as(kind: type[exp.AggFunc], node: exp.Expr) -> exp.Expr:
    """Another aggregate of the same values."""
    if isinstance(node, exp.Filter):
        return exp.Filter(this=_as(kind, node.this), expression=node.args["expression"].copy())
    return kind(this=node.this.copy())


def _of_distinct(node: exp.Expr, parts: _Parts) -> exp.Expr | None:
    """An aggregate of distinct values, each of which is a group of its own; None for another aggregate."""
    if next(node.find_all(exp.Distinct), None) is None:
        return None
    if isinstance(node, exp.Filter) or len(node.this.expressions) != 1:
        raise _NotSplit
    (value,) = node.this.expressions
    parts.group(value)
    if value not in parts.groups:
        raise _NotSplit
    merged = node.copy()
    merged.this.set("expressions", [parts.column(parts.groups[value])])
    return merged


_MERGES: dict[type[exp.Expr], _Merge] = {
    exp.Avg: _avg,
    exp.Count: _count,
    exp.CountIf: _count_if,
    exp.LogicalAnd: _again(exp.LogicalAnd),
    exp.LogicalOr: _again(exp.LogicalOr),
    exp.Max: _again(exp.Max),
    exp.Min: _again(exp.Min),
    exp.Sum: _again(exp.Sum),
}
