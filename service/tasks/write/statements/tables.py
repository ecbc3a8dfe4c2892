"""The statements that change whole operators or states.

| statement | changes |
|---|---|
| `DROP TABLE operator` | the operator goes, with all of its states |
| `DROP TABLE state` | the state goes |
| `ALTER TABLE … RENAME TO …` | the operator gets this uid, or the state this name |
"""

from __future__ import annotations

from dataclasses import dataclass

from service.tasks.write.statements.parser import Parser
from service.tasks.write.statements.statement import Statement


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
