"""Statements that select columns of one table unchanged: `SELECT *`, `SELECT key, value AS v`, and nothing more.

DuckDB binds such a statement, but its rows are those of the scan and need not pass through DuckDB, which copies them two
thousand at a time. An export of 18 million rows of four states takes three quarters of the CPU time this way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from sqlglot import exp

from service.query.sql.plan import Plan, TableReference
from service.query.sql.types import is_kept

_SELECT_PARTS = frozenset({"expressions", "from", "from_"})
_TABLE_PARTS = frozenset({"this", "db", "catalog", "alias"})
# A batch of a scan is limited in bytes only, and small rows (elements of lists) may be very many.
_ROWS = 65_536


def unchanged_columns(plan: Plan) -> list[str] | None:
    """Return the columns of the plan's only table that are its answer, in order; None for any other statement."""
    query = plan.query
    if plan.prefix or len(plan.tables) != 1 or not isinstance(query, exp.Select):
        return None
    if not _has_only(query, _SELECT_PARTS) or not _is_alone(query):
        return None
    table: pa.Schema = plan.tables[0].table.schema
    found = [name for part in query.expressions for name in _names(part, table) or (None,)]
    names = [name for name in found if name is not None]
    if len(names) < len(found) or not names:
        return None
    return names if all(is_kept(table.field(name).type) for name in names) else None


def reads_to_the_end(plan: Plan) -> bool:
    """Return whether a plan needs every row of its tables: no LIMIT ends it early."""
    limits = plan.query.find_all(exp.Limit, exp.Fetch)
    return all(limit.parent is not None and limit.parent.args.get("order") for limit in limits)


def as_they_are(
    batches: Iterable[pa.RecordBatch], columns: Sequence[str], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a scan as rows of the statement.

    Args:
        batches: batches of the scan.
        columns: columns of the scan that the statement selects.
        schema: schema of the answer.
    """
    for batch in batches:
        arrays = [batch.column(name) for name in columns]
        made = pa.RecordBatch.from_arrays(arrays, schema=schema)
        del batch, arrays  # else they stay in memory while the consumer waits
        rows = made.num_rows
        yield from (made.slice(start, _ROWS) for start in range(0, rows, _ROWS))
        del made


def answer_schema(reference: TableReference, columns: Sequence[str], names: Iterable[str]) -> pa.Schema:
    """Return the schema of the answer, whose columns have these names."""
    table: pa.Schema = reference.table.schema
    return pa.schema([(name, table.field(column).type) for name, column in zip(names, columns, strict=True)])


def _has_only(node: exp.Expr, parts: frozenset[str]) -> bool:
    return all(part in parts for part, value in node.args.items() if value)


def _is_alone(query: exp.Select) -> bool:
    """Return whether FROM is one table, without other names for its columns."""
    found = query.args.get("from_") or query.args.get("from")
    return (
        isinstance(found, exp.From)
        and isinstance(found.this, exp.Table)
        and _has_only(found.this, _TABLE_PARTS)
        and not (found.this.args.get("alias") and found.this.args["alias"].args.get("columns"))
    )


def _names(part: exp.Expr, table: pa.Schema) -> Sequence[str] | None:
    """Return the columns that an item of SELECT stands for; None for an expression or a name in another case."""
    if isinstance(part, exp.Star):
        return None if any(part.args.values()) else list(table.names)
    if isinstance(part, exp.Alias):
        part = part.this
    if not isinstance(part, exp.Column) or not _has_only(part, frozenset({"this"})):
        return None
    return [part.name] if isinstance(part.this, exp.Identifier) and part.name in table.names else None
