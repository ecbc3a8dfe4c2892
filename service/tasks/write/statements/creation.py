"""The statements that create a state, or copy an operator.

    CREATE TABLE operator__state [(column TYPE, …) or (LIKE savepoint.operator__state)] [WITH (option = value, …)] AS SELECT …
    COPY OPERATOR savepoint.operator [TO 'uid']

The columns of a state get the names and types of the list, by their places, or else those of the SELECT, or of the state that LIKE
names.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from service.base.errors import ForbiddenError, QuerySyntaxError
from service.query.sql.text import tokens_of
from service.tasks.write.statements.parser import OTHER_CLAUSES, Fragment, Parser, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOperator(Statement):
    """`COPY OPERATOR savepoint.operator TO 'uid'`; its table is the copy.

    Attributes:
        origin: the parts of the name of the operator that is copied, with that of its savepoint.
        uid: the uid of the copy; None to keep the operator's own.
    """

    origin: tuple[str, ...]
    uid: str | None


def copy(parser: Parser) -> CopyOperator:
    """Parse what follows COPY."""
    if not parser.accept("OPERATOR"):
        raise ForbiddenError(
            "a script cannot have COPY of rows, it copies whole operators: COPY OPERATOR other.operator"
        )
    origin = parser.path("a savepoint and an operator: other.operator")
    uid = parser.name("a uid", is_text_allowed=True) if parser.accept("TO") else None
    return CopyOperator(table=(uid or origin[-1],), origin=origin, uid=uid)


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
        like: the parts of the name of the table of a state that has the types; empty if the statement names none.
        options: by names in lower case, the values as texts.
        query: the rows.
    """

    columns: tuple[ColumnDefinition, ...]
    like: tuple[str, ...] = ()
    options: Mapping[str, str]
    query: Fragment


def create(parser: Parser) -> CreateTable:
    """Parse what follows CREATE."""
    parser.expect("TABLE")
    table = parser.table()
    has_columns = parser.is_symbol(TokenType.L_PAREN) and parser.peek(1) != "LIKE"
    columns = tuple(parser.listed(lambda: _column(parser))) if has_columns else ()
    like: tuple[str, ...] = ()
    if not has_columns and parser.accept("(", "LIKE"):
        like = parser.path("the table of a state")
        parser.expect_symbol(TokenType.R_PAREN, ") behind the state")
    options = _options(parser) if parser.accept("WITH") else {}
    parser.expect("AS")
    query = parser.fragment(what="a SELECT")
    return CreateTable(table=table, columns=columns, like=like, options=options, query=query)


def whole_rows(query: Fragment, table: tuple[str, ...]) -> tuple[str | None, Fragment | None] | None:
    """Return the alias and the condition of `SELECT * FROM table [AS alias] [WHERE …]`; None if a query is another one."""
    parser = Parser(str(query), tokens_of(str(query), has_commands=False))
    with suppress(QuerySyntaxError):
        if not (parser.accept("SELECT", "*") and parser.accept("FROM")):
            return None
        path = parser.table()
        alias = parser.alias("WHERE", *OTHER_CLAUSES)
        condition = parser.fragment(*OTHER_CLAUSES) if parser.accept("WHERE") else None
        if not parser.at_end or [one.casefold() for one in path] != [one.casefold() for one in table]:
            return None
        if condition is not None:
            start = query.start + condition.start
            condition = Fragment.of(query.script, start, start + len(condition))
        return alias, condition
    return None


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
