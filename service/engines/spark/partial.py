"""A SELECT over one table → the part that each executor's Python computes, and what is left for Spark.

Most of what Spark costs is taking rows from Python, one by one. So DuckDB leaves out beside the readers what WHERE excludes,
and computes groups, of some rows at a time, which Spark merges: it takes a row a group.

| aggregate | of some rows | merged |
|---|---|---|
| count | the same | their sum, 0 where there is none |
| count_if | the same | their sum; NULL, as DuckDB has it, where there is none |
| sum, min, max, bool_and, bool_or | the same | the same |
| avg | sum and count | the sum of sums by the sum of counts |
| any of DISTINCT x | x is one more group | the same, of x |

What stands there in DuckDB's SQL is what DuckDB itself computes. Not split: joins, windows, subqueries, and aggregates
that are not in the table; these go the ordinary way, as do rows without a WHERE.

Without groups, or by key group or subtask, what the executors find is a row or a few for every million rows. Where a statement
asks for nothing else, these are all that is needed of the cluster, and DuckDB merges them, too (`merged_by_duckdb`): Spark
would need a second stage.

A SELECT without aggregates, order or limit makes a row, or none, of each row, whatever else there is (`row_by_row`): where its
answer is long, DuckDB computes all of it beside the readers, and Spark takes no rows at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
from sqlglot import exp

from readers import KEY_GROUP, SUBTASK

_FEW = (KEY_GROUP, SUBTASK)
_OF_MANY_ROWS = ("group", "having", "qualify", "distinct", "order", "limit", "offset")
ROWS = "rows"
"""What the table is called in the part of the executors."""


class MergedCount(exp.Expression, exp.AggFunc):
    """The sum of counts `this`; 0 where there is none."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class MergedAvg(exp.Expression, exp.AggFunc):
    """The sum of sums `this` by the sum of counts `expression`.

    `of_group` if it is not to be sum / count, see `divided`; `is_narrow`, of values of 16 bits, is for whoever knows types to set.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expression": True,
        "of_group": False,
        "is_narrow": False,
    }


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
        is_small: whether `partial` gives few rows, whatever it is of.
    """

    partial: exp.Select
    columns: tuple[tuple[str, exp.Expr], ...]
    merged: exp.Select
    is_small: bool


class _NotSplit(Exception):
    """There is something in the SELECT that is not split."""


def divided(select: exp.Select, *, has_groups: bool) -> Collection[exp.Expr]:
    """The values whose plain `avg` in a SELECT is sum / count to DuckDB, with all digits of DOUBLE but those of the sum.

    All other averages it computes as such, so that the last digit may be another: those of groups beside which there is
    neither a sum nor a count of the same, and those of DISTINCT, FILTER and windows.
    """
    found = [node for item in _own(select) for node in _aggregates(item)]
    values = {node.this for node in found if type(node) in (exp.Sum, exp.Count)}
    return {
        node.this for node in found if type(node) is exp.Avg and not (has_groups and node.this not in values)
    }


def _own(select: exp.Select) -> list[exp.Expr]:
    """Where a SELECT has aggregates."""
    clauses = (select.args.get(name) for name in ("having", "qualify", "order"))
    return [*select.expressions, *(clause for clause in clauses if clause is not None)]


def _aggregates(node: exp.Expr) -> Iterator[exp.AggFunc]:
    """The aggregates of an expression of a SELECT: not those of a FILTER, a window or a query inside."""
    if isinstance(node, exp.Filter | exp.Window | exp.Query):
        return
    if isinstance(node, exp.AggFunc):
        yield node
    for child in node.iter_expressions():
        yield from _aggregates(child)


def partial_select(select: exp.Select, keys: Sequence[exp.Expr]) -> PartialSelect | None:
    """The two parts of a SELECT; None if it is not split.

    Args:
        select: qualified: FROM is one table, and its columns are named by its alias.
        keys: what it groups by.
    """
    if not _is_of_a_table(select):
        return None
    return _aggregated(select, keys) or _filtered(select)


def row_by_row(select: exp.Select) -> exp.Select | None:
    """A SELECT that makes of each row of its table one of the answer, or none, over `ROWS`; None for another.

    Args:
        select: qualified, as that of `partial_select`.
    """
    if not _is_of_a_table(select) or any(select.args.get(clause) for clause in _OF_MANY_ROWS):
        return None
    if next(select.find_all(exp.AggFunc, exp.Window), None) is not None:
        return None
    columns = [(f"c{place}", item.unalias()) for place, item in enumerate(select.expressions)]
    made = _partial(select, columns)
    return made if _is_of_one_table(made, select.args["from_"].this.alias_or_name) else None


def merged_by_duckdb(merged: exp.Select, hugeints: Collection[str]) -> exp.Select:
    """`PartialSelect.merged` in DuckDB's own words.

    Args:
        merged: what is left; the table's name may have been changed.
        hugeints: the columns of the partial query that are HUGEINT to DuckDB, for which Arrow has no type.
    """

    def typed(node: exp.Expr) -> exp.Expr:
        is_hugeint = isinstance(node, exp.Column) and node.name in hugeints
        return exp.cast(node, "HUGEINT", dialect="duckdb") if is_hugeint else node

    def plain(node: exp.Expr) -> exp.Expr:
        if isinstance(node, MergedCount):
            total = exp.Coalesce(this=exp.Sum(this=node.this), expressions=[exp.Literal.number(0)])
            return exp.cast(total, "BIGINT", dialect="duckdb")
        if isinstance(node, MergedAvg):
            summed = exp.cast(exp.Sum(this=node.this), "DOUBLE", dialect="duckdb")
            return exp.Div(this=summed, expression=exp.Sum(this=node.expression))
        return node

    made = merged.copy()
    made.transform(typed, copy=False)
    made.transform(plain, copy=False)
    return made


def _is_of_a_table(select: exp.Select) -> bool:
    """Whether it reads one table, and nothing else."""
    source = select.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table):
        return False
    if select.args.get("joins") or select.args.get("with_") is not None:
        return False
    return all(node is select for node in select.find_all(exp.Query))


def _aggregated(select: exp.Select, keys: Sequence[exp.Expr]) -> PartialSelect | None:
    """Aggregates of the rows, and the rest of the SELECT over them."""
    if select.args.get("qualify") is not None or next(select.find_all(exp.Window), None) is not None:
        return None
    distinct = select.args.get("distinct") is not None and not keys
    parts = _Parts(select.args["from_"].this.alias_or_name, divided(select, has_groups=bool(keys)))
    try:
        for key in [item.unalias() for item in select.expressions] if distinct else keys:
            parts.group(key)
        merged = _merged(select, parts)
    except _NotSplit:
        return None
    columns = [(name, node) for found in (parts.groups, parts.sums) for node, name in found.items()]
    made = _partial(select, columns)
    if parts.groups:
        numbers = [exp.Literal.number(place) for place in range(1, len(parts.groups) + 1)]
        made.set("group", exp.Group(expressions=numbers))
    if not columns or not _is_of_one_table(made, parts.table):
        return None
    is_small = all(isinstance(key, exp.Column) and key.name in _FEW for key in parts.groups) and not any(
        average.args["of_group"] for average in merged.find_all(MergedAvg)
    )
    return PartialSelect(made, tuple(columns), merged, is_small)


def _filtered(select: exp.Select) -> PartialSelect | None:
    """The rows that WHERE leaves, with the columns that are needed, and the rest of the SELECT over them."""
    if select.args.get("where") is None:
        return None
    merged = select.copy()
    merged.set("where", None)
    needed = {column.name: column for column in merged.find_all(exp.Column) if column.table}
    condition = [column for column in select.args["where"].find_all(exp.Column) if column.table]
    columns = list(needed.items()) or [(column.name, column) for column in condition[:1]]
    made = _partial(select, columns)
    if not columns or not _is_of_one_table(made, select.args["from_"].this.alias_or_name):
        return None
    return PartialSelect(made, tuple(columns), merged, is_small=False)


def _partial(select: exp.Select, columns: Sequence[tuple[str, exp.Expr]]) -> exp.Select:
    """The query of these columns for the rows of the SELECT."""
    alias = exp.to_identifier(select.args["from_"].this.alias_or_name, quoted=True)
    made = exp.select(*(exp.alias_(node.copy(), name, quoted=True) for name, node in columns))
    made.set("from_", exp.From(this=exp.to_table(ROWS, alias=alias)))
    if select.args.get("where") is not None:
        made.set("where", select.args["where"].copy())
    return made


def _is_of_one_table(query: exp.Select, table: str) -> bool:
    return all(column.table == table for column in query.find_all(exp.Column))


@dataclass(slots=True)
class _Parts:
    """What the partial query has.

    Attributes:
        table: the table's alias.
        divided: as the function has it.
        groups: what it groups by, and the names of these.
        sums: its aggregates, likewise.
    """

    table: str
    divided: Collection[exp.Expr]
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
    return MergedAvg(
        this=parts.sum(_as(exp.Sum, node)),
        expression=parts.sum(_as(exp.Count, node)),
        of_group=isinstance(node, exp.Filter) or node.this not in parts.divided,
    )


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
