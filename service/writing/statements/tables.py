"""The statements that change operators.

| statement | changes |
|---|---|
| `DROP TABLE operator` | the operator goes, with all of its states |
| `ALTER TABLE operator RENAME TO 'uid'` | the operator gets this uid |
"""

from __future__ import annotations

from dataclasses import dataclass

from service.writing.statements.parser import Parser
from service.writing.statements.statement import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable(Statement):
    """`DROP TABLE table`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTable(Statement):
    """`ALTER TABLE table RENAME TO uid`.

    Attributes:
        uid: the new name.
    """

    uid: str


def drop(parser: Parser) -> DropTable:
    """Parse what follows DROP."""
    parser.expect("TABLE")
    return DropTable(table=parser.table(), position=parser.position)


def alter(parser: Parser) -> RenameTable:
    """Parse what follows ALTER."""
    parser.expect("TABLE")
    table = parser.table()
    parser.expect("RENAME", "TO")
    return RenameTable(table=table, uid=parser.name("a uid", is_text_allowed=True), position=parser.position)
