"""Functions in FROM whose arguments are names in single quotes: they become tables.

`FROM f('a', 'b')` and `FROM TABLE(f('a', 'b'))`, as Trino and Flink write it, mean the same. In the tree the call becomes the name of a
table that spans the whole call, so all that holds for tables holds for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from service.base.errors import InvalidQueryError, Position
from service.query.sql.parser import blanked, tokens_of

_TABLE = "table"


@dataclass(frozen=True, slots=True)
class NameArgument:
    """A name that a call gives, and where it stands in the text."""

    name: str
    position: Position | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCall:
    """A call in FROM.

    Attributes:
        arguments: of the call.
        position: of the call.
    """

    arguments: tuple[NameArgument, ...]
    position: Position | None


def table_call(
    node: exp.Table, sql: str, function: str, form: str, counts: Collection[int]
) -> TableCall | None:
    """Return the call of a function that stands in place of a table, and make the node a table of that name; None for anything else.

    Args:
        node: what stands in FROM.
        sql: the text in which the nodes have their positions.
        function: its name.
        form: how it is written, for errors.
        counts: how many arguments it may have.

    Raises:
        InvalidQueryError: the call has other arguments than names in single quotes.
    """
    outer = node.this
    call = outer
    if _is_call_of(_TABLE, outer) and len(outer.expressions) == 1:
        call = outer.expressions[0]
    if not _is_call_of(function, call):
        return None
    position = _position_of(call, sql)
    if len(node.parts) > 1:
        raise InvalidQueryError(
            f"expected {function} without a qualifier", hint=f"write {form}", position=position
        )
    arguments: Sequence[exp.Expr] = call.expressions
    if len(arguments) not in counts:
        raise InvalidQueryError(f"expected {form}, found {len(arguments)} arguments", position=position)
    names = tuple(_name(argument, sql, form) for argument in arguments)
    name = exp.to_identifier(function)
    name.meta.update(outer.meta)
    if "start" in outer.meta:
        name.meta["end"] = _end_of_call(sql, outer.meta["start"])
    node.set("this", name)
    return TableCall(arguments=names, position=position)


def _is_call_of(name: str, node: object) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.casefold() == name


def _name(argument: exp.Expr, sql: str, form: str) -> NameArgument:
    # Values in place of parameters stand in parentheses.
    literal = argument.unnest()
    position = _position_of(argument, sql)
    if not literal.is_string or not literal.name:
        raise InvalidQueryError(
            f"expected a name in single quotes, found {argument.sql()}",
            hint=f"write {form}, with the names of databases that SHOW SCHEMAS lists",
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
