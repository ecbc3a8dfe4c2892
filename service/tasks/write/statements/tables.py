"""The statements that change whole operators or states.

| statement | changes |
|---|---|
| `DROP TABLE operator` | the operator goes, with all of its states |
| `DROP TABLE state` | the state goes |
| `ALTER TABLE … RENAME TO …` | the operator gets this uid, or the state this name |
| `CALL rewind_kafka('operator', 'topic', MAP {partition: offset, …})` | where a Kafka source goes on reading |
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from catalog.savepointtables import SOURCE_OFFSETS_NAME
from service.base.errors import InvalidQueryError
from service.tasks.write.statements.parser import Fragment, Parser, Statement


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


def drop(parser: Parser) -> DropTable:
    """Parse what follows DROP."""
    parser.expect("TABLE")
    return DropTable(table=parser.table(), position=parser.position)


REWIND_KAFKA = "rewind_kafka"
USAGE = f"CALL {REWIND_KAFKA}('operator', 'topic', MAP {{partition: offset, …}})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindKafka(Statement):
    """`CALL rewind_kafka(…)`, the arguments with their parentheses as they were written."""

    arguments: Fragment


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
