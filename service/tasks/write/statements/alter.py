"""The statements that change what a state or an operator is: its name, the type of its values, its shape, whether it is there.

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

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from catalog.savepointtables import SOURCE_OFFSETS_NAME
from service.base.errors import InvalidQueryError
from service.tasks.write.statements.parser import Fragment, Parser, Statement

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
    return DropTable(table=parser.table(), position=parser.position)


def call(parser: Parser) -> RewindKafka:
    """Parse what follows CALL.

    Raises:
        QueryError: there is no such procedure, or no parentheses behind it.
    """
    position, name = parser.position, parser.name("a procedure")
    if name.casefold() != REWIND_KAFKA:
        raise InvalidQueryError(
            f"there is no procedure {name!r}", hint=f"there is {USAGE}", position=position
        )
    if not parser.is_symbol(TokenType.L_PAREN):
        raise parser.error("expected ( and arguments")
    return RewindKafka(table=(SOURCE_OFFSETS_NAME,), arguments=parser.fragment(), position=position)


def truncate(parser: Parser) -> Truncate:
    """Parse what follows TRUNCATE."""
    parser.accept("TABLE")
    return Truncate(table=parser.table(), position=parser.position)


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
    return RenameTable(table=table, new_name=new_name, position=parser.position)


def _rename_column(parser: Parser, table: tuple[str, ...]) -> Statement:
    path = parser.path("a column")
    parser.expect("TO")
    return RenameColumn(
        table=table, path=path, new_name=parser.name("the name of a field"), position=parser.position
    )


def _add_column(parser: Parser, table: tuple[str, ...]) -> Statement:
    path, type_ = parser.path("a column"), _type(parser)
    default = parser.fragment() if parser.accept("DEFAULT") else None
    return AddColumn(table=table, path=path, type=type_, default=default, position=parser.position)


def _drop_column(parser: Parser, table: tuple[str, ...]) -> Statement:
    return DropColumn(table=table, path=parser.path("a column"), position=parser.position)


def _alter_column(parser: Parser, table: tuple[str, ...]) -> Statement:
    path = parser.path("a column")
    parser.accept("SET", "DATA")
    parser.expect("TYPE")
    return AlterColumn(table=table, path=path, type=_type(parser), position=parser.position)


def _set(parser: Parser, table: tuple[str, ...]) -> Statement:
    options = parser.listed(lambda: _option(parser), "( before the options", ", or ) behind an option")
    return SetOptions(table=table, options=tuple(options), position=parser.position)


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
