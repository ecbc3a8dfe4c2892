"""The statement that creates a state.

    CREATE TABLE operator__state [(column TYPE, …)] [WITH (option = value, …)] AS SELECT …

The columns get the names and types of the list, by their places, or else those of the SELECT.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from service.tasks.write.statements.parser import Fragment, Parser, Statement


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """`column TYPE`, the type as it was written."""

    name: str
    type: Fragment


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable(Statement):
    """`CREATE TABLE table (…) WITH (…) AS query`, the query as it was written.

    Attributes:
        columns: empty if the statement has no list of them.
        options: by names in lower case, the values as texts.
        query: the rows.
    """

    columns: tuple[ColumnDefinition, ...]
    options: Mapping[str, str]
    query: Fragment


def create(parser: Parser) -> CreateTable:
    """Parse what follows CREATE."""
    position = parser.position
    parser.expect("TABLE")
    table = parser.table()
    has_columns = parser.is_symbol(TokenType.L_PAREN)
    columns = tuple(parser.listed(lambda: _column(parser))) if has_columns else ()
    options = _options(parser) if parser.accept("WITH") else {}
    parser.expect("AS")
    query = parser.fragment(what="a SELECT")
    return CreateTable(table=table, columns=columns, options=options, query=query, position=position)


def _column(parser: Parser) -> ColumnDefinition:
    name = parser.name("a column")
    return ColumnDefinition(name, parser.fragment(",", ")", what="the type of the column"))


def _options(parser: Parser) -> dict[str, str]:
    """Read `(option = value, …)`."""
    found: dict[str, str] = {}

    def read() -> None:
        name = parser.name("an option").lower()
        if name in found:
            raise parser.error(f"expected the option {name} once")
        parser.expect_symbol(TokenType.EQ, "= behind the option")
        found[name] = parser.value("a text, a number, TRUE or FALSE")

    parser.listed(read, "( and options")
    return found
