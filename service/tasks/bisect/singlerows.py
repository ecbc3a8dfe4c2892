"""Queries that have a row whatever a checkpoint holds, such as `SELECT count(*) FROM t`: they tell no checkpoint from another."""

from __future__ import annotations

from sqlglot import exp

from service.base.errors import QueryError
from service.query.sql.parser import parsed

WARNING = (
    "the query has a row for every checkpoint that has its tables, because an aggregate without GROUP BY always returns one row; "
    "add a condition on the value, such as HAVING count(*) > 0"
)
# Aggregates of DuckDB whose names sqlglot does not know.
_AGGREGATES = frozenset(
    {
        *(
            "arg_max_null",
            "arg_max_nulls_last",
            "arg_min_null",
            "arg_min_nulls_last",
            "bitstring_agg",
            "count_star",
            "entropy",
        ),
        *(
            "favg",
            "fsum",
            "histogram",
            "histogram_exact",
            "kahan_sum",
            "kurtosis_pop",
            "mad",
            "mean",
            "product",
        ),
        *("reservoir_quantile", "sem", "sum_no_overflow", "sumkahan"),
    }
)


def always_has_a_row(sql: str) -> bool:
    """Return whether a query returns a row even where its tables have none; False if that is not certain."""
    try:
        tree = parsed(sql)
    except QueryError:
        return False
    return _always(tree, {})


def _always(tree: exp.Expr | None, named: dict[str, exp.Expr]) -> bool:
    """Return whether a query always has a row.

    Args:
        tree: the query.
        named: those of WITH, by their names.
    """
    if isinstance(tree, exp.Subquery):
        return _always(tree.this, named)
    if isinstance(tree, exp.Union):
        return not _limited(tree) and (_always(tree.left, named) or _always(tree.right, named))
    if not isinstance(tree, exp.Select) or _limited(tree):
        return False
    if any(tree.args.get(part) is not None for part in ("group", "having", "qualify")):
        return False
    if any(map(_is_aggregated, tree.expressions)):
        return True
    if tree.args.get("where") is not None or tree.args.get("joins"):
        return False
    source = tree.args.get("from_")
    if source is None:
        return True
    named = named | {one.alias.casefold(): one.this for one in tree.ctes}
    table = source.this
    if isinstance(table, exp.Table) and not table.db:
        # A query of WITH that names itself is asked once.
        known = named.pop(table.name.casefold(), None)
        return known is not None and _always(known, named)
    return isinstance(table, exp.Subquery) and _always(table, named)


def _limited(tree: exp.Expr) -> bool:
    """Return whether LIMIT or OFFSET may leave out the only row."""
    limit = tree.args.get("limit")
    count = None if limit is None else limit.args.get("expression")
    is_some = limit is None or (isinstance(count, exp.Literal) and count.this not in ("0", "0.0"))
    return not is_some or tree.args.get("offset") is not None


def _is_aggregated(column: exp.Expr) -> bool:
    """Return whether a column of SELECT calls an aggregate, neither in a window nor in a query of its own."""
    if isinstance(column, exp.Window | exp.Query):
        return False
    if isinstance(column, exp.AggFunc):
        return True
    if isinstance(column, exp.Anonymous) and column.name.casefold() in _AGGREGATES:
        return True
    return any(map(_is_aggregated, column.iter_expressions()))
