"""The statements that change rows.

| statement | changes |
|---|---|
| `UPDATE table SET column = …, … [WHERE …]` | values of rows |
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from service.writing.statements.parser import Fragment, Parser
from service.writing.statements.statement import Statement


@dataclass(frozen=True, slots=True)
class Assignment:
    """`column = expression` of an UPDATE, the expression as it was written."""

    column: str
    expression: Fragment


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Statement):
    """`UPDATE table SET … WHERE condition`, the condition as it was written; None if there is none."""

    assignments: tuple[Assignment, ...]
    condition: Fragment | None


def update(parser: Parser) -> Update:
    """Parse what follows UPDATE."""
    position, table = parser.position, parser.table()
    parser.expect("SET")
    assignments = [_assignment(parser)]
    while parser.accept_symbol(TokenType.COMMA):
        assignments.append(_assignment(parser))
    condition = None
    if not parser.at_end:
        parser.expect("WHERE")
        condition = parser.fragment()
    return Update(table=table, assignments=tuple(assignments), condition=condition, position=position)


def _assignment(parser: Parser) -> Assignment:
    column = ".".join(parser.path("a column"))
    parser.expect_symbol(TokenType.EQ, "= behind the column")
    return Assignment(column, parser.fragment(",", "WHERE", "FROM"))
