"""A script → its statements: parts of a text with semicolons between them.

The statements that change rows:

| statement | changes |
|---|---|
| `UPDATE table [AS name] SET column = …, … [FROM …] [WHERE …]` | values of rows |
| `DELETE FROM table [AS name] [USING …] [WHERE …]` | which rows are there |
| `INSERT INTO table [AS name] [BY NAME] [(columns)] query [ON CONFLICT [(columns)] DO UPDATE SET … [WHERE …] or DO NOTHING]` | the same |
| `MERGE INTO table [AS name] USING … ON … WHEN [NOT] MATCHED [BY SOURCE] [AND …] THEN …` | both |

The statements that change what a state or an operator is: its name, the type of its values, its shape, whether it is there:

| statement | changes |
|---|---|
| `DROP TABLE operator` | the operator goes, with all of its states |
| `DROP TABLE state` | the state goes |
| `ALTER TABLE operator RENAME TO 'uid'` | the operator gets this uid |
| `ALTER TABLE operator SET (max_parallelism = …, parallelism = …)` | key groups, and the subtasks that have them |
| `ALTER TABLE state RENAME TO name` | the state gets this name |
| `ALTER TABLE state RENAME COLUMN value.a TO b` | a field gets another name |
| `ALTER TABLE state ADD COLUMN value.x TYPE [DEFAULT …]` | values get a field |
| `ALTER TABLE state DROP COLUMN value.x` | values lose a field |
| `ALTER TABLE state ALTER COLUMN value.x TYPE …` | a value, or a field of it, gets another type |
| `ALTER TABLE state SET (ttl = true)` | values get the time of their last access, or lose it |
| `TRUNCATE [TABLE] state` | the state is empty |
| `CALL rewind_kafka('operator', 'topic', MAP {partition: offset, …})` | where a Kafka source goes on reading |

A type is one of SQL (`BIGINT`), or one of Flink in quotes (`'Long'`, `'Pojo(com.acme.Order: id Long)'`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from sqlglot.tokenizer_core import Token, TokenType

from catalog.savepointtables import SOURCE_OFFSETS_NAME
from service.base import errors
from service.query.sql.text import check_length, tokens_of, with_double_quotes
from service.tasks.write.statements.creation import copy, create
from service.tasks.write.statements.keys import DeleteKey, delete_key, rename_key
from service.tasks.write.statements.parser import OTHER_CLAUSES, Fragment, Parser, Statement

# The SELECT of a clause has the conditions of those before it.
_MOST_CLAUSES = 64


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
    table, alias = parser.table(), parser.alias("SET")
    parser.expect("SET")
    assignments = _assignments(parser, "WHERE", "FROM")
    source = _source(parser) if parser.accept("FROM") else None
    return Update(
        table=table,
        alias=alias,
        assignments=assignments,
        source=source,
        condition=_condition(parser),
    )


def delete(parser: Parser) -> Delete | DeleteKey:
    """Parse what follows DELETE."""
    if parser.accept("KEY"):
        return delete_key(parser)
    parser.expect("FROM")
    table, alias = parser.table(), parser.alias("USING", "WHERE", *OTHER_CLAUSES)
    source = _source(parser) if parser.accept("USING") else None
    return Delete(table=table, alias=alias, source=source, condition=_condition(parser))


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
    )


def merge(parser: Parser) -> Merge:
    """Parse what follows MERGE."""
    parser.expect("INTO")
    table, alias = parser.table(), parser.alias("USING")
    parser.expect("USING")
    source = parser.fragment("ON", *OTHER_CLAUSES, what="a table or a query in parentheses")
    parser.expect("ON")
    condition = parser.fragment("WHEN")
    clauses = []
    while parser.accept("WHEN"):
        clauses.append(_merge_clause(parser))
        if len(clauses) > _MOST_CLAUSES:
            raise errors.LimitExceededError(
                f"expected a MERGE of at most {_MOST_CLAUSES} clauses, found more",
                hint="one clause with CASE, or with a column of the source, does the work of many",
            )
    if not clauses:
        raise parser.error("expected WHEN")
    return Merge(
        table=table,
        alias=alias,
        source=source,
        condition=condition,
        clauses=tuple(clauses),
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


def _assignments(parser: Parser, *ends: str) -> tuple[Assignment, ...]:
    return tuple(parser.several(lambda: _assignment(parser, ends)))


def _assignment(parser: Parser, ends: tuple[str, ...]) -> Assignment:
    path = parser.path("a column")
    parser.expect_symbol(TokenType.EQ, "= behind the column")
    return Assignment(path, parser.fragment(",", *ends))


def _source(parser: Parser) -> Fragment:
    return parser.fragment("WHERE", *OTHER_CLAUSES, what="a table")


def _condition(parser: Parser) -> Fragment | None:
    if parser.at_end:
        return None
    parser.expect("WHERE")
    return parser.fragment()


_QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "("})


REWIND_KAFKA = "rewind_kafka"
USAGE = f"CALL {REWIND_KAFKA}('operator', 'topic', MAP {{partition: offset, …}})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable(Statement):
    """`DROP TABLE table`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTable(Statement):
    """`ALTER TABLE table RENAME TO name`.

    Attributes:
        new_name: the uid of an operator, or the name of a state.
    """

    new_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindKafka(Statement):
    """`CALL rewind_kafka(…)`, the arguments with their parentheses as they were written."""

    arguments: Fragment


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate(Statement):
    """`TRUNCATE table`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatement(Statement):
    """A statement about a column.

    Attributes:
        path: the column and the fields that lead to a part of it.
    """

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn(ColumnStatement):
    """`ALTER TABLE table RENAME COLUMN path TO name`."""

    new_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn(ColumnStatement):
    """`ALTER TABLE table ADD COLUMN path type DEFAULT expression`; the default is None if there is none."""

    type: str
    default: Fragment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumn(ColumnStatement):
    """`ALTER TABLE table DROP COLUMN path`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterColumn(ColumnStatement):
    """`ALTER TABLE table ALTER COLUMN path TYPE type`."""

    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOptions(Statement):
    """`ALTER TABLE table SET (option = value, …)`; names are in small letters."""

    options: tuple[tuple[str, Fragment], ...]


def drop(parser: Parser) -> DropTable:
    """Parse what follows DROP."""
    parser.expect("TABLE")
    return DropTable(table=parser.table())


def call(parser: Parser) -> RewindKafka:
    """Parse what follows CALL.

    Raises:
        QueryError: there is no such procedure, or no parentheses behind it.
    """
    name = parser.name("a procedure")
    if name.casefold() != REWIND_KAFKA:
        raise errors.InvalidQueryError(f"there is no procedure {name!r}", hint=f"there is {USAGE}")
    if not parser.is_symbol(TokenType.L_PAREN):
        raise parser.error("expected ( and arguments")
    return RewindKafka(table=(SOURCE_OFFSETS_NAME,), arguments=parser.fragment())


def truncate(parser: Parser) -> Truncate:
    """Parse what follows TRUNCATE."""
    parser.accept("TABLE")
    return Truncate(table=parser.table())


def alter(parser: Parser) -> Statement:
    """Parse what follows ALTER."""
    parser.expect("TABLE")
    table = parser.table()
    for words, parse in _ALTERATIONS:
        if parser.accept(*words):
            return parse(parser, table)
    raise parser.error("expected RENAME, ADD, DROP, ALTER or SET")


def _rename(parser: Parser, table: tuple[str, ...]) -> Statement:
    new_name = parser.name("a uid, or the name of a state", is_text_allowed=True)
    return RenameTable(table=table, new_name=new_name)


def _rename_column(parser: Parser, table: tuple[str, ...]) -> Statement:
    path = parser.path("a column")
    parser.expect("TO")
    return RenameColumn(table=table, path=path, new_name=parser.name("the name of a field"))


def _add_column(parser: Parser, table: tuple[str, ...]) -> Statement:
    path, type_ = parser.path("a column"), _type(parser)
    default = parser.fragment() if parser.accept("DEFAULT") else None
    return AddColumn(table=table, path=path, type=type_, default=default)


def _drop_column(parser: Parser, table: tuple[str, ...]) -> Statement:
    return DropColumn(table=table, path=parser.path("a column"))


def _alter_column(parser: Parser, table: tuple[str, ...]) -> Statement:
    path = parser.path("a column")
    parser.accept("SET", "DATA")
    parser.expect("TYPE")
    return AlterColumn(table=table, path=path, type=_type(parser))


def _set(parser: Parser, table: tuple[str, ...]) -> Statement:
    options = parser.listed(lambda: _option(parser), "( before the options", ", or ) behind an option")
    return SetOptions(table=table, options=tuple(options))


def _option(parser: Parser) -> tuple[str, Fragment]:
    name = parser.name("an option").lower()
    parser.expect_symbol(TokenType.EQ, "= behind the option")
    return name, parser.fragment(",", ")", what="a value")


def _type(parser: Parser) -> str:
    """Read a type, which may stand in quotes."""
    if parser.is_symbol(TokenType.STRING):
        return parser.text("a type")
    return str(parser.fragment("DEFAULT", what="a type"))


_ALTERATIONS: tuple[tuple[tuple[str, ...], Callable[[Parser, tuple[str, ...]], Statement]], ...] = (
    (("RENAME", "TO"), _rename),
    (("RENAME", "COLUMN"), _rename_column),
    (("ADD", "COLUMN"), _add_column),
    (("DROP", "COLUMN"), _drop_column),
    (("ALTER", "COLUMN"), _alter_column),
    (("SET",), _set),
)
"""The words behind the name of the table → what parses the rest."""


# Each reads what those before it have changed: a thousand take a minute.
_MOST_STATEMENTS = 1_000


def statements_of(script: str, max_bytes: int) -> tuple[Statement, ...]:
    """Parse a script: statements with semicolons between them.

    Raises:
        QuerySyntaxError: it is empty, or a statement is not as `STATEMENTS` reads it.
        ForbiddenError: a statement that writes nothing, or that is not written yet.
        LimitExceededError: it is longer than `max_bytes`, or has too many statements.
    """
    check_length(script, max_bytes)
    script = with_double_quotes(script)
    divided = _divided(tokens_of(script, has_commands=False))
    if len(divided) > _MOST_STATEMENTS:
        raise errors.LimitExceededError(
            f"expected a script of at most {_MOST_STATEMENTS:,} statements, found {len(divided):,}",
            hint="one MERGE changes many rows: put their keys and values into a file, or into VALUES",
        )
    found = [_statement(Parser(script, tokens)) for tokens in divided]
    if not found:
        raise errors.QuerySyntaxError("expected a statement, found none", hint=f"there are {_KNOWN}")
    return tuple(found)


def _statement(parser: Parser) -> Statement:
    word = parser.peek()
    try:
        if word not in STATEMENTS:
            raise errors.ForbiddenError(f"a script cannot have {word or 'this'}", hint=f"there are {_KNOWN}")
        parser.expect(word)
        statement = STATEMENTS[word](parser)
        parser.expect_end()
    except errors.QueryError as error:
        error.position = error.position or parser.position
        raise
    return replace(statement, position=parser.position)


def _divided(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Return the tokens of each statement."""
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    return [one for one in found if one]


STATEMENTS: dict[str, Callable[[Parser], Statement]] = {
    "ALTER": alter,
    "CALL": call,
    "COPY": copy,
    "CREATE": create,
    "DELETE": delete,
    "DROP": drop,
    "INSERT": insert,
    "MERGE": merge,
    "RENAME": rename_key,
    "TRUNCATE": truncate,
    "UPDATE": update,
}
"""The first word of a statement → what parses the words that follow it."""

_KNOWN = (
    "UPDATE table SET …, DELETE FROM table, INSERT INTO table, MERGE INTO table, DELETE KEY 'key', RENAME KEY 'key' TO 'new', "
    "DROP TABLE operator, DROP TABLE operator__state, TRUNCATE operator__state, ALTER TABLE operator RENAME TO 'uid', "
    "ALTER TABLE operator__state …, CREATE TABLE operator__state AS SELECT …, COPY OPERATOR savepoint.operator, "
    + USAGE
)
