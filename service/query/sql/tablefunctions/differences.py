"""`diff('before', 'after', 'table')` in FROM: the rows of a table that differ between two savepoints.

| in FROM | is |
|---|---|
| `diff('a', 'b', 'op__state')` | the rows of the table that were added, removed or changed from a to b |
| `diff('a', 'b')` | the summary: a row for each state |
| `diff('previous', 'b', …)` | the same from the savepoint before b, in the job of b |
| `TABLE(diff(…))` | the same, as Trino writes functions in FROM |

The names of databases and tables are texts, so that they need no other quotes. In the tree the call becomes the name of a table that
spans the whole call, so all that holds for tables holds for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from catalog import Database, Job
from catalog.jobs.grouping import earlier_than
from readers import ReaderError
from service.base.errors import Position, query_error_of
from service.query.sql.functions import DIFFERENCES
from service.query.sql.tablefunctions.calls import NameArgument, table_call

# A database of this name goes before.
PREVIOUS = "previous"
_FORM = f"{DIFFERENCES}('before', 'after') or {DIFFERENCES}('before', 'after', 'table')"


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceCall:
    """A call of `diff` in FROM.

    Attributes:
        before, after: names of databases.
        table: name of a table; None for the summary.
        position: of the call.
    """

    before: NameArgument
    after: NameArgument
    table: NameArgument | None
    position: Position | None


def difference_call(node: exp.Table, sql: str) -> DifferenceCall | None:
    """Return the call of `diff` that stands in place of a table, and make the node a table of that name; None for anything else.

    Args:
        node: what stands in FROM.
        sql: the text in which the nodes have their positions.

    Raises:
        InvalidQueryError: the call has other arguments than names in single quotes.
    """
    found = table_call(node, sql, DIFFERENCES, _FORM, (2, 3))
    if found is None:
        return None
    before, after, *table = found.arguments
    return DifferenceCall(
        before=before, after=after, table=table[0] if table else None, position=found.position
    )


def one_before(after: Database, jobs: Iterable[Job]) -> tuple[Database | None, tuple[str, ...]]:
    """Return the savepoint before one in its job, and a sentence for each newer one that cannot be read.

    Args:
        after: the savepoint.
        jobs: of the catalog.

    Returns:
        The newest one before it that can be read; None if there is none.
    """
    skipped: list[str] = []
    for earlier in earlier_than(after, jobs):
        try:
            earlier.describe()
        except ReaderError as error:
            skipped.append(
                f'"{earlier.name}" is newer than "{PREVIOUS}", and cannot be read: {query_error_of(error).message}'
            )
        else:
            return earlier, tuple(skipped)
    return None, tuple(skipped)
