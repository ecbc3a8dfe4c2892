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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from catalog import Database, Job
from catalog.jobs.grouping import earlier_than
from readers import ReaderError
from service.errors import InvalidQueryError, Position, query_error_of
from service.sql.functions import DIFFERENCES
from service.sql.parser import blanked, tokens_of

# A database of this name goes before.
PREVIOUS = "previous"
_TABLE = "table"
_FORM = f"{DIFFERENCES}('before', 'after') or {DIFFERENCES}('before', 'after', 'table')"


@dataclass(frozen=True, slots=True)
class NameArgument:
    """A name that a call gives, and where it stands in the text."""

    name: str
    position: Position | None


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
    outer = node.this
    call = outer
    if _is_call_of(_TABLE, outer) and len(outer.expressions) == 1:
        call = outer.expressions[0]
    if not _is_call_of(DIFFERENCES, call):
        return None
    position = _position_of(call, sql)
    if len(node.parts) > 1:
        raise InvalidQueryError(
            f"expected {DIFFERENCES} without a qualifier", hint=f"write {_FORM}", position=position
        )
    arguments: Sequence[exp.Expr] = call.expressions
    if len(arguments) not in (2, 3):
        raise InvalidQueryError(f"expected {_FORM}, found {len(arguments)} arguments", position=position)
    before, after, *table = [_name(argument, sql) for argument in arguments]
    name = exp.to_identifier(DIFFERENCES)
    name.meta.update(outer.meta)
    if "start" in outer.meta:
        name.meta["end"] = _end_of_call(sql, outer.meta["start"])
    node.set("this", name)
    return DifferenceCall(before=before, after=after, table=table[0] if table else None, position=position)


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


def _is_call_of(name: str, node: object) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.casefold() == name


def _name(argument: exp.Expr, sql: str) -> NameArgument:
    # Values in place of parameters stand in parentheses.
    literal = argument.unnest()
    position = _position_of(argument, sql)
    if not literal.is_string or not literal.name:
        raise InvalidQueryError(
            f"expected a name in single quotes, found {argument.sql()}",
            hint=f"write {_FORM}, with the names of databases that SHOW SCHEMAS lists",
            position=position,
        )
    return NameArgument(literal.name, position)


def _position_of(node: exp.Expr, sql: str) -> Position | None:
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return Position.of(sql, min(starts)) if starts else None


def _end_of_call(sql: str, start: int) -> int:
    """Return the offset of the parenthesis that ends a call."""
    depth = 0
    for token in tokens_of(blanked(sql, start)):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
            if depth == 0:
                return int(token.end)
    raise AssertionError("the text was parsed, so the call has an end")
