"""A SELECT over one table → the query that executors run in their Python, and the rest that Spark computes.

Most of the time of a query goes into Spark's reading of rows from Python, one by one. So DuckDB, in the Python of the
executors, applies WHERE and aggregates some rows at a time; Spark reads a row for each group and merges these.

| aggregate | on executors | merged |
|---|---|---|
| count | the same | their sum, 0 where there is none |
| count_if | the same | their sum; NULL, as DuckDB has it, where there is none |
| sum, min, max, bool_and, bool_or | the same | the same |
| avg | sum and count | the sum of sums by the sum of counts |
| any of them of DISTINCT x | x is one more group | the same, of x |

The query on executors is in DuckDB's SQL, so its expressions mean what they mean in DuckDB. Joins, windows, subqueries and
other aggregates are not split, nor is a SELECT without WHERE and aggregates: Spark reads all their rows.

Without groups, or with groups by key group or subtask, executors return a few rows for every million. If a statement needs
nothing else of the cluster, DuckDB merges these rows on this machine (`merged_by_duckdb`): Spark would need a second stage.

A SELECT without aggregates, order or limit makes at most one row of each row (`row_by_row`). If its answer may be long, DuckDB
computes all of it on the executors, and Spark reads no rows at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
from sqlglot import exp

from readers import KEY_GROUP, SUBTASK

# Columns with few values: a job has at most 32,768 key groups and as many subtasks.
_FEW = (KEY_GROUP, SUBTASK)
_OF_MANY_ROWS = ("group", "having", "qualify", "distinct", "order", "limit", "offset")
ROWS = "rows"
"""The name of the table in the query on executors."""


class MergedCount(exp.Expression, exp.AggFunc):
    """The sum of the counts `this`; 0 if there are none."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class MergedAvg(exp.Expression, exp.AggFunc):
    """The sum of the sums `this` divided by the sum of the counts `expression`.

    `of_group`: the division is not plain sum / count, see `divided`. `is_narrow`: the values have 16 bits; `sql.py`, which
    knows the types, sets it.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expression": True,
        "of_group": False,
        "is_narrow": False,
    }


@dataclass(frozen=True, slots=True)
class PartialQuery:
    """A query that executors run over the rows of a table; Spark reads its answer in place of the rows.

    Attributes:
        sql: its text in DuckDB's SQL, over a table `ROWS`.
        schema: schema of its answer, in DuckDB's types.
    """

    sql: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class PartialSelect:
    """A SELECT that is split in two.

    Attributes:
        partial: the SELECT over the rows of the table.
        columns: the columns of `partial`: names and expressions.
        merged: the SELECT over the answers of `partial`, which have the table's name.
        is_small: whether `partial` returns few rows for any number of rows.
    """

    partial: exp.Select
    columns: tuple[tuple[str, exp.Expr], ...]
    merged: exp.Select
    is_small: bool


class _NotSplitError(Exception):
    """The SELECT has an expression that cannot be split."""


def divided(select: exp.Select, *, has_groups: bool) -> Collection[exp.Expr]:
    """Return the values whose plain `avg` in a SELECT DuckDB computes as sum / count, in DOUBLE.

    DuckDB computes all other averages with an aggregate of its own, whose last digit may differ: averages of groups without a
    sum or a count of the same value beside them, and averages with DISTINCT, FILTER or a window.
    """
    found = [node for item in _own(select) for node in _aggregates(item)]
    values = {node.this for node in found if type(node) in (exp.Sum, exp.Count)}
    return {
        node.this for node in found if type(node) is exp.Avg and not (has_groups and node.this not in values)
    }


def _own(select: exp.Select) -> list[exp.Expr]:
    """Return the expressions and clauses of a SELECT that may have aggregates."""
    clauses = (select.args.get(name) for name in ("having", "qualify", "order"))
    return [*select.expressions, *(clause for clause in clauses if clause is not None)]


def _aggregates(node: exp.Expr) -> Iterator[exp.AggFunc]:
    """Yield the aggregates of an expression of a SELECT, without those of a FILTER, a window or a query inside."""
    if isinstance(node, exp.Filter | exp.Window | exp.Query):
        return
    if isinstance(node, exp.AggFunc):
        yield node
    for child in node.iter_expressions():
        yield from _aggregates(child)


def partial_select(select: exp.Select, keys: Sequence[exp.Expr]) -> PartialSelect | None:
    """Split a SELECT in two; return None if it cannot be split.

    Args:
        select: the SELECT, qualified: columns are named by the alias of their table.
        keys: the expressions that it groups by.
    """
    if not _is_of_a_table(select):
        return None
    return _aggregated(select, keys) or _filtered(select)


def row_by_row(select: exp.Select) -> exp.Select | None:
    """Return a SELECT over `ROWS` if each row of the table makes at most one row of the answer; None otherwise.

    Args:
        select: the SELECT, qualified as for `partial_select`.
    """
    if not _is_of_a_table(select) or any(select.args.get(clause) for clause in _OF_MANY_ROWS):
        return None
    if next(select.find_all(exp.AggFunc, exp.Window), None) is not None:
        return None
    columns = [(f"c{place}", item.unalias()) for place, item in enumerate(select.expressions)]
    made = _partial(select, columns)
    return made if _is_of_one_table(made, select.args["from_"].this.alias_or_name) else None


def merged_by_duckdb(merged: exp.Select, hugeints: Collection[str]) -> exp.Select:
    """Return `PartialSelect.merged` in DuckDB's SQL.

    Args:
        merged: the SELECT; its table may have another name by now.
        hugeints: the columns of the partial query that are HUGEINT in DuckDB, a type that Arrow does not have.
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
    """Return whether a SELECT reads one table and nothing else."""
    source = select.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table):
        return False
    if select.args.get("joins") or select.args.get("with_") is not None:
        return False
    return all(node is select for node in select.find_all(exp.Query))


def _aggregated(select: exp.Select, keys: Sequence[exp.Expr]) -> PartialSelect | None:
    """Split a SELECT with aggregates; return None if it cannot be split."""
    if select.args.get("qualify") is not None or next(select.find_all(exp.Window), None) is not None:
        return None
    # SELECT DISTINCT a, b is SELECT a, b GROUP BY a, b.
    distinct = select.args.get("distinct") is not None and not keys
    split = _PartialColumns(select.args["from_"].this.alias_or_name, divided(select, has_groups=bool(keys)))
    try:
        for key in [item.unalias() for item in select.expressions] if distinct else keys:
            split.group(key)
        merged = _merged(select, split)
    except _NotSplitError:
        return None
    columns = [(name, node) for found in (split.groups, split.sums) for node, name in found.items()]
    made = _partial(select, columns)
    if split.groups:
        numbers = [exp.Literal.number(place) for place in range(1, len(split.groups) + 1)]
        made.set("group", exp.Group(expressions=numbers))
    if not columns or not _is_of_one_table(made, split.table):
        return None
    # `merged_by_duckdb` divides sum by count, which is not DuckDB's average of a group.
    is_small = all(isinstance(key, exp.Column) and key.name in _FEW for key in split.groups) and not any(
        average.args["of_group"] for average in merged.find_all(MergedAvg)
    )
    return PartialSelect(made, tuple(columns), merged, is_small)


def _filtered(select: exp.Select) -> PartialSelect | None:
    """Split off the WHERE of a SELECT, with the columns that the rest needs; return None if there is none."""
    if select.args.get("where") is None:
        return None
    merged = select.copy()
    merged.set("where", None)
    needed = {column.name: column for column in merged.find_all(exp.Column) if column.table}
    condition = [column for column in select.args["where"].find_all(exp.Column) if column.table]
    # A SELECT that needs no column, such as count(*), still needs one to have rows.
    columns = list(needed.items()) or [(column.name, column) for column in condition[:1]]
    made = _partial(select, columns)
    if not columns or not _is_of_one_table(made, select.args["from_"].this.alias_or_name):
        return None
    return PartialSelect(made, tuple(columns), merged, is_small=False)


def _partial(select: exp.Select, columns: Sequence[tuple[str, exp.Expr]]) -> exp.Select:
    """Return a SELECT of these columns over `ROWS`, with the WHERE of another one."""
    alias = exp.to_identifier(select.args["from_"].this.alias_or_name, quoted=True)
    made = exp.select(*(exp.alias_(node.copy(), name, quoted=True) for name, node in columns))
    made.set("from_", exp.From(this=exp.to_table(ROWS, alias=alias)))
    if select.args.get("where") is not None:
        made.set("where", select.args["where"].copy())
    return made


def _is_of_one_table(query: exp.Select, table: str) -> bool:
    return all(column.table == table for column in query.find_all(exp.Column))


@dataclass(slots=True)
class _PartialColumns:
    """The columns of a partial query.

    Attributes:
        table: alias of the table.
        divided: the values whose average is sum / count: see the function of this name.
        groups: the expressions that the query groups by, with the names of their columns.
        sums: its aggregates, with the names of their columns.
    """

    table: str
    divided: Collection[exp.Expr]
    groups: dict[exp.Expr, str] = field(default_factory=dict)
    sums: dict[exp.Expr, str] = field(default_factory=dict)

    def group(self, key: exp.Expr) -> None:
        """Add a group; skip constants, and add the groups inside ROLLUP and CUBE."""
        if isinstance(key, exp.Rollup | exp.Cube):
            for item in key.expressions:
                self.group(item)
        elif next(key.find_all(exp.Column), None) is not None and key not in self.groups:
            self.groups[key] = f"group {len(self.groups) + 1}"

    def sum(self, aggregate: exp.Expr) -> exp.Column:
        """Return the column of an aggregate; add the aggregate if it is not there."""
        name = self.sums.setdefault(aggregate, f"part {len(self.sums) + 1}")
        return self.column(name)

    def column(self, name: str) -> exp.Column:
        """Return a column of the partial query."""
        return exp.column(name, self.table, quoted=True)


def _merged(select: exp.Select, columns: _PartialColumns) -> exp.Select:
    """Return the SELECT over the partial query; adds the columns that it needs."""
    merged = select.copy()
    merged.set("where", None)
    merged.set(
        "expressions",
        [
            exp.alias_(_rewritten(item.unalias(), columns), item.alias_or_name, quoted=True)
            for item in select.expressions
        ],
    )
    for clause in ("group", "having", "order"):
        if select.args.get(clause) is not None:
            merged.set(clause, _rewritten(select.args[clause], columns))
    return merged


def _rewritten(node: exp.Expr, columns: _PartialColumns) -> exp.Expr:
    def rewrite(inner: exp.Expr) -> exp.Expr:
        if inner in columns.groups:
            return columns.column(columns.groups[inner])
        # A FILTER stays with its aggregate: executors apply it.
        aggregate = inner.this if isinstance(inner, exp.Filter) else inner
        if isinstance(aggregate, exp.AggFunc):
            if type(aggregate) not in _MERGES:
                raise _NotSplitError
            return _MERGES[type(aggregate)](inner, columns)
        if isinstance(inner, exp.Column) and inner.table:  # of a row, which is gone
            raise _NotSplitError
        return inner

    return node.copy().transform(rewrite, copy=False)


_Merge = Callable[[exp.Expr, _PartialColumns], exp.Expr]


def _again(node: exp.Expr, columns: _PartialColumns) -> exp.Expr:
    """Apply the same aggregate to its own results."""
    kind = type(node.this if isinstance(node, exp.Filter) else node)
    return _of_distinct(node, columns) or kind(this=columns.sum(node.copy()))


def _count(node: exp.Expr, columns: _PartialColumns) -> exp.Expr:
    return _of_distinct(node, columns) or MergedCount(this=columns.sum(node.copy()))


def _count_if(node: exp.Expr, columns: _PartialColumns) -> exp.Expr:
    # Not MergedCount: count_if is NULL, not 0, if every condition is NULL.
    return exp.Sum(this=columns.sum(node.copy()))


def _avg(node: exp.Expr, columns: _PartialColumns) -> exp.Expr:
    return _of_distinct(node, columns) or MergedAvg(
        this=columns.sum(_as(exp.Sum, node)),
        expression=columns.sum(_as(exp.Count, node)),
        of_group=isinstance(node, exp.Filter) or node.this not in columns.divided,
    )


def _as(kind: type[exp.AggFunc], node: exp.Expr) -> exp.Expr:
    """Return another aggregate of the same values."""
    if isinstance(node, exp.Filter):
        return exp.Filter(this=_as(kind, node.this), expression=node.args["expression"].copy())
    return kind(this=node.this.copy())


def _of_distinct(node: exp.Expr, columns: _PartialColumns) -> exp.Expr | None:
    """Return an aggregate of distinct values, each of which becomes a group; None for an aggregate without DISTINCT."""
    if next(node.find_all(exp.Distinct), None) is None:
        return None
    # The rows that a FILTER excludes would still make groups.
    if isinstance(node, exp.Filter) or len(node.this.expressions) != 1:
        raise _NotSplitError
    (value,) = node.this.expressions
    columns.group(value)
    if value not in columns.groups:
        raise _NotSplitError
    merged = node.copy()
    merged.this.set("expressions", [columns.column(columns.groups[value])])
    return merged


_MERGES: dict[type[exp.Expr], _Merge] = {
    exp.Avg: _avg,
    exp.Count: _count,
    exp.CountIf: _count_if,
    **dict.fromkeys((exp.LogicalAnd, exp.LogicalOr, exp.Max, exp.Min, exp.Sum), _again),
}
