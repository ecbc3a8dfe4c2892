"""The statements about keys, in all states of operators:

| statement | changes |
|---|---|
| `DELETE KEY 'a' [, 'b', …] [FROM operator [, operator, …]]` | everything of the keys goes |
| `RENAME KEY 'a' TO 'b' [FROM operator [, …]] [ON CONFLICT DO NOTHING or DO REPLACE]` | everything of a key is that of another one |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlglot.tokenizer_core import TokenType

from service.base.errors import LimitExceededError
from service.tasks.write.statements.parser import Parser, Statement

KEY = "KEY"
"""Stands for the table in the effect of a statement about keys."""
_MOST_KEYS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStatement(Statement):
    """A statement about keys.

    Attributes:
        operators: the names of the operators; empty for all.
    """

    operators: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteKey(KeyStatement):
    """`DELETE KEY 'a', 'b' FROM operator`."""

    keys: tuple[str, ...]


class KeyConflict(Enum):
    """What happens in an operator that has the new key already."""

    REFUSE = ""
    NOTHING = "DO NOTHING"
    REPLACE = "DO REPLACE"


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameKey(KeyStatement):
    """`RENAME KEY 'a' TO 'b' FROM operator ON CONFLICT …`."""

    key: str
    new_key: str
    conflict: KeyConflict


def delete_key(parser: Parser) -> DeleteKey:
    """Parse what follows DELETE KEY."""
    keys = parser.several(lambda: _key(parser))
    if len(keys) > _MOST_KEYS:
        raise LimitExceededError(
            f"expected at most {_MOST_KEYS:,} keys in DELETE KEY, found {len(keys):,}",
            hint="savepointdb forget reads keys from a file",
        )
    return DeleteKey(table=(KEY,), keys=tuple(dict.fromkeys(keys)), operators=_operators(parser))


def rename_key(parser: Parser) -> RenameKey:
    """Parse what follows RENAME."""
    parser.expect("KEY")
    key = _key(parser)
    parser.expect("TO")
    new_key, operators, conflict = _key(parser), _operators(parser), KeyConflict.REFUSE
    if parser.accept("ON", "CONFLICT"):
        parser.expect("DO")
        conflict = KeyConflict.NOTHING if parser.accept("NOTHING") else KeyConflict.REPLACE
        if conflict is KeyConflict.REPLACE and not parser.accept("REPLACE"):
            raise parser.error("expected NOTHING or REPLACE")
    return RenameKey(table=(KEY,), key=key, new_key=new_key, operators=operators, conflict=conflict)


def _key(parser: Parser) -> str:
    return parser.value("a key") if parser.is_symbol(TokenType.NUMBER) else parser.text("a number, or a text")


def _operators(parser: Parser) -> tuple[tuple[str, ...], ...]:
    found = parser.several(lambda: parser.path("an operator")) if parser.accept("FROM") else ()
    return tuple(dict.fromkeys(found))
