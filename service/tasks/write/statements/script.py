"""A script → its statements: parts of a text with semicolons between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from service.base.errors import ForbiddenError, LimitExceededError, QuerySyntaxError
from service.query.sql.parser import check_length, tokens_of, with_double_quotes
from service.tasks.write.statements.alter import USAGE, alter, call, drop, truncate
from service.tasks.write.statements.create import create
from service.tasks.write.statements.parser import Parser, Statement
from service.tasks.write.statements.rows import delete, insert, merge, update

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
        raise LimitExceededError(
            f"expected a script of at most {_MOST_STATEMENTS:,} statements, found {len(divided):,}",
            hint="one MERGE changes many rows: put their keys and values into a file, or into VALUES",
        )
    found = [_statement(Parser(script, tokens)) for tokens in divided]
    if not found:
        raise QuerySyntaxError("expected a statement, found none", hint=f"there are {_KNOWN}")
    return tuple(found)


def _statement(parser: Parser) -> Statement:
    word = parser.peek()
    if word not in STATEMENTS:
        raise ForbiddenError(
            f"a script cannot have {word or 'this'}", hint=f"there are {_KNOWN}", position=parser.position
        )
    parser.expect(word)
    statement = STATEMENTS[word](parser)
    parser.expect_end()
    return statement


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
    "CREATE": create,
    "DELETE": delete,
    "DROP": drop,
    "INSERT": insert,
    "MERGE": merge,
    "TRUNCATE": truncate,
    "UPDATE": update,
}
"""The first word of a statement → what parses the words that follow it."""

_KNOWN = (
    "UPDATE table SET …, DELETE FROM table, INSERT INTO table, MERGE INTO table, DROP TABLE operator, DROP TABLE operator__state, "
    "TRUNCATE operator__state, ALTER TABLE operator RENAME TO 'uid', ALTER TABLE operator__state …, "
    "CREATE TABLE operator__state AS SELECT …, " + USAGE
)
