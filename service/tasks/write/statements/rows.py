"""The statements that change rows.

| statement | changes |
|---|---|
| `UPDATE table [AS name] SET column = …, … [FROM …] [WHERE …]` | values of rows |
| `DELETE FROM table [AS name] [USING …] [WHERE …]` | which rows are there |
| `INSERT INTO table [AS name] [BY NAME] [(columns)] query [ON CONFLICT [(columns)] DO UPDATE SET … [WHERE …] or DO NOTHING]` | the same |
| `MERGE INTO table [AS name] USING … ON … WHEN [NOT] MATCHED [BY SOURCE] [AND …] THEN …` | both |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlglot.tokenizer_core import TokenType

from service.base.errors import LimitExceededError
from service.tasks.write.statements.parser import Fragment, Parser, Statement

# The SELECT of a clause has the conditions of those before it.
_MOST_CLAUSES = 64
# What may follow a table in a query, and not in FROM or USING of a statement that changes rows.
_OTHER_CLAUSES = (
    "GROUP",
    "HAVING",
    "WINDOW",
    "QUALIFY",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "RETURNING",
)


@dataclass(frozen=True, slots=True)
class Assignment:
    """`column = expression`, the expression as it was written.

    Attributes:
        path: the column, and the fields that lead to a part of it.
        expression: the new value.
    """

    path: tuple[str, ...]
    expression: Fragment

    @property
    def column(self) -> str:
        """The path as it is written."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStatement(Statement):
    """A statement that changes rows.

    Attributes:
        alias: the name of the table in the expressions of the statement; None for its own.
    """

    alias: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(RowStatement):
    """`UPDATE table SET … FROM source WHERE condition`; what is not written is None."""

    assignments: tuple[Assignment, ...]
    source: Fragment | None = None
    condition: Fragment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(RowStatement):
    """`DELETE FROM table USING source WHERE condition`; what is not written is None."""

    source: Fragment | None = None
    condition: Fragment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """`ON CONFLICT (columns) DO UPDATE SET … WHERE condition`.

    Attributes:
        columns: that tell a row from others; empty if they are not written.
        assignments: what an existing row gets; empty for DO NOTHING.
        condition: which existing rows get it; None for all.
    """

    columns: tuple[str, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    condition: Fragment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert(RowStatement):
    """`INSERT INTO table (columns) query ON CONFLICT …`.

    Attributes:
        columns: that the query has the values of; empty if they are not written.
        query: SELECT or VALUES.
        is_by_name: whether the names of the query's columns say what they are.
        conflict: what happens to rows that are there already; None if that is an error.
    """

    columns: tuple[str, ...] = ()
    query: Fragment
    is_by_name: bool = False
    conflict: Conflict | None = None


class Match(Enum):
    """Which rows a clause of MERGE is about."""

    MATCHED = "MATCHED"
    NOT_MATCHED = "NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "NOT MATCHED BY SOURCE"


class Action(Enum):
    """What a clause of MERGE does."""

    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"
    NOTHING = "DO NOTHING"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """`WHEN match AND condition THEN action`.

    Attributes:
        match: which rows.
        condition: which of them; None for all.
        action: what happens to them.
        assignments: of an UPDATE.
        columns: of an INSERT; empty if they are not written.
        values: of an INSERT; None for all columns of the source.
    """

    match: Match
    condition: Fragment | None = None
    action: Action
    assignments: tuple[Assignment, ...] = ()
    columns: tuple[str, ...] = ()
    values: Fragment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(RowStatement):
    """`MERGE INTO table USING source ON condition clauses`."""

    source: Fragment
    condition: Fragment
    clauses: tuple[MergeClause, ...]


def update(parser: Parser) -> Update:
    """Parse what follows UPDATE."""
    table, alias = parser.table(), _alias(parser, "SET")
    parser.expect("SET")
    assignments = _assignments(parser, "WHERE", "FROM")
    source = _source(parser) if parser.accept("FROM") else None
    return Update(
        table=table,
        alias=alias,
        assignments=assignments,
        source=source,
        condition=_condition(parser),
        position=parser.position,
    )


def delete(parser: Parser) -> Delete:
    """Parse what follows DELETE."""
    parser.expect("FROM")
    table, alias = parser.table(), _alias(parser, "USING", "WHERE", *_OTHER_CLAUSES)
    source = _source(parser) if parser.accept("USING") else None
    return Delete(
        table=table, alias=alias, source=source, condition=_condition(parser), position=parser.position
    )


def insert(parser: Parser) -> Insert:
    """Parse what follows INSERT."""
    parser.expect("INTO")
    table = parser.table()
    alias = parser.name("a name") if parser.accept("AS") else None
    is_by_name = parser.accept("BY", "NAME")
    # `INSERT INTO t (SELECT …)` has a query in parentheses, and no columns.
    has_columns = parser.is_symbol(TokenType.L_PAREN) and parser.peek(1) not in _QUERY_WORDS
    columns = parser.names("a column") if has_columns and not is_by_name else ()
    is_by_name = is_by_name or (not columns and parser.accept("BY", "NAME"))
    query = parser.fragment(("ON", "CONFLICT"), "RETURNING", what="SELECT or VALUES")
    conflict = _conflict(parser) if parser.accept("ON", "CONFLICT") else None
    return Insert(
        table=table,
        alias=alias,
        columns=columns,
        query=query,
        is_by_name=is_by_name,
        conflict=conflict,
        position=parser.position,
    )


def merge(parser: Parser) -> Merge:
    """Parse what follows MERGE."""
    parser.expect("INTO")
    table, alias = parser.table(), _alias(parser, "USING")
    parser.expect("USING")
    source = parser.fragment("ON", *_OTHER_CLAUSES, what="a table or a query in parentheses")
    parser.expect("ON")
    condition = parser.fragment("WHEN")
    clauses = []
    while parser.accept("WHEN"):
        clauses.append(_merge_clause(parser))
        if len(clauses) > _MOST_CLAUSES:
            raise LimitExceededError(
                f"expected a MERGE of at most {_MOST_CLAUSES} clauses, found more",
                hint="one clause with CASE, or with a column of the source, does the work of many",
                position=parser.position,
            )
    if not clauses:
        raise parser.error("expected WHEN")
    return Merge(
        table=table,
        alias=alias,
        source=source,
        condition=condition,
        clauses=tuple(clauses),
        position=parser.position,
    )


def _conflict(parser: Parser) -> Conflict:
    columns = parser.names("a column") if parser.is_symbol(TokenType.L_PAREN) else ()
    parser.expect("DO")
    if parser.accept("NOTHING"):
        return Conflict(columns=columns)
    parser.expect("UPDATE", "SET")
    return Conflict(
        columns=columns, assignments=_assignments(parser, "WHERE", "RETURNING"), condition=_condition(parser)
    )


def _merge_clause(parser: Parser) -> MergeClause:
    match = Match.MATCHED
    if parser.accept("NOT"):
        match = Match.NOT_MATCHED
        parser.expect("MATCHED")
        if parser.accept("BY", "SOURCE"):
            match = Match.NOT_MATCHED_BY_SOURCE
        else:
            parser.accept("BY", "TARGET")
    else:
        parser.expect("MATCHED")
    condition = parser.fragment("THEN") if parser.accept("AND") else None
    parser.expect("THEN")
    if parser.accept("DO", "NOTHING"):
        return MergeClause(match=match, condition=condition, action=Action.NOTHING)
    if match is Match.NOT_MATCHED:
        parser.expect("INSERT")
        return _inserting_clause(parser, condition)
    if parser.accept("DELETE"):
        return MergeClause(match=match, condition=condition, action=Action.DELETE)
    parser.expect("UPDATE", "SET")
    return MergeClause(
        match=match, condition=condition, action=Action.UPDATE, assignments=_assignments(parser, "WHEN")
    )


def _inserting_clause(parser: Parser, condition: Fragment | None) -> MergeClause:
    columns = parser.names("a column") if parser.is_symbol(TokenType.L_PAREN) else ()
    values = None
    if parser.accept("VALUES"):
        values = parser.parenthesized("values")
    elif columns or not parser.accept("*"):
        raise parser.error("expected VALUES")
    return MergeClause(
        match=Match.NOT_MATCHED, condition=condition, action=Action.INSERT, columns=columns, values=values
    )


def _alias(parser: Parser, *words: str) -> str | None:
    """Return the alias of a table, with or without AS; None if one of these words comes next, or the end."""
    if parser.accept("AS"):
        return parser.name("a name")
    return None if parser.at_end or parser.peek() in words else parser.name("a name")


def _assignments(parser: Parser, *ends: str) -> tuple[Assignment, ...]:
    found = [_assignment(parser, ends)]
    while parser.accept_symbol(TokenType.COMMA):
        found.append(_assignment(parser, ends))
    return tuple(found)


def _assignment(parser: Parser, ends: tuple[str, ...]) -> Assignment:
    path = parser.path("a column")
    parser.expect_symbol(TokenType.EQ, "= behind the column")
    return Assignment(path, parser.fragment(",", *ends))


def _source(parser: Parser) -> Fragment:
    return parser.fragment("WHERE", *_OTHER_CLAUSES, what="a table")


def _condition(parser: Parser) -> Fragment | None:
    if parser.at_end:
        return None
    parser.expect("WHERE")
    return parser.fragment()


_QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "("})
