"""A script → its statements.

| statement | changes |
|---|---|
| `DROP TABLE operator` | the operator goes, with all of its states |
| `ALTER TABLE operator RENAME TO 'uid'` | the operator gets this uid |
| `UPDATE source_offsets SET starting_offset = … [WHERE …]` | where sources go on reading |

Expressions and conditions stay as they were written: DuckDB reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from service.errors import ForbiddenError, Position, QuerySyntaxError
from service.sql.parser import check_length, tokens_of, with_double_quotes

_NO_NAMES = frozenset(
    {
        TokenType.COMMA,
        TokenType.DOT,
        TokenType.EQ,
        TokenType.L_PAREN,
        TokenType.NUMBER,
        TokenType.R_PAREN,
        TokenType.SEMICOLON,
        TokenType.STRING,
    }
)
_KNOWN = (
    "DROP TABLE operator, ALTER TABLE operator RENAME TO 'uid', UPDATE source_offsets SET starting_offset = …"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a script.

    Attributes:
        table: the parts of the name of its table.
        position: of the statement in the script.
    """

    table: tuple[str, ...]
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable(Statement):
    """`DROP TABLE table`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTable(Statement):
    """`ALTER TABLE table RENAME TO name`."""

    name: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """`column = expression` of an UPDATE, the expression as it was written."""

    column: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Statement):
    """`UPDATE table SET … WHERE condition`, the condition as it was written; None if there is none."""

    assignments: tuple[Assignment, ...]
    condition: str | None


def statements_of(script: str, max_bytes: int) -> tuple[Statement, ...]:
    """Parse a script: statements with semicolons between them.

    Raises:
        QuerySyntaxError: it is empty, or not one of the statements above.
        ForbiddenError: a statement that writes nothing, or that is not written yet.
        LimitExceededError: it is longer than `max_bytes`.
    """
    check_length(script, max_bytes)
    script = with_double_quotes(script)
    found = [_StatementParser(script, tokens).statement() for tokens in _divided(tokens_of(script))]
    if not found:
        raise QuerySyntaxError("expected a statement, found none", hint=f"there are {_KNOWN}")
    return tuple(found)


def _divided(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Return the tokens of each statement."""
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    return [one for one in found if one]


class _StatementParser:
    """Reads the tokens of one statement in order."""

    def __init__(self, script: str, tokens: Sequence[Token]) -> None:
        self._script = script
        self._tokens = tokens
        self._next = 0

    def statement(self) -> Statement:
        position = Position.of(self._script, self._tokens[0].start)
        word = self._word()
        if word == "DROP":
            self._expect("TABLE")
            return self._ended(DropTable(table=self._table(), position=position))
        if word == "ALTER":
            self._expect("TABLE")
            table = self._table()
            self._expect("RENAME")
            self._expect("TO")
            return self._ended(RenameTable(table=table, name=self._name("a uid"), position=position))
        if word == "UPDATE":
            table = self._table()
            self._expect("SET")
            return self._update(table, position)
        raise ForbiddenError(
            f"a script cannot have {word or 'this'} yet", hint=f"there are {_KNOWN}", position=position
        )

    def _update(self, table: tuple[str, ...], position: Position) -> Update:
        assignments = [self._assignment()]
        while self._is(TokenType.COMMA):
            self._next += 1
            assignments.append(self._assignment())
        condition = None
        if self._next < len(self._tokens):
            self._expect("WHERE")
            condition = self._text_until(None)
        return Update(table=table, assignments=tuple(assignments), condition=condition, position=position)

    def _assignment(self) -> Assignment:
        column = ".".join(self._path("a column"))
        if not self._is(TokenType.EQ):
            raise self._syntax_error("expected = behind the column")
        self._next += 1
        return Assignment(column, self._text_until(TokenType.COMMA))

    def _text_until(self, end: TokenType | None) -> str:
        """Return the text up to a token outside of parentheses, or to WHERE or FROM; with None, all the rest."""
        first, depth = self._next, 0
        while self._next < len(self._tokens):
            token = self._tokens[self._next]
            if token.token_type in _OPENING:
                depth += 1
            elif token.token_type in _CLOSING:
                depth -= 1
            elif (
                depth == 0 and end is not None and token.token_type in (end, TokenType.WHERE, TokenType.FROM)
            ):
                break
            if depth < 0:
                break
            self._next += 1
        if self._next == first or depth:
            raise self._syntax_error("expected an expression")
        return self._script[self._tokens[first].start : self._tokens[self._next - 1].end + 1]

    def _table(self) -> tuple[str, ...]:
        return self._path("a table")

    def _path(self, what: str) -> tuple[str, ...]:
        names = [self._name(what)]
        while self._is(TokenType.DOT):
            self._next += 1
            names.append(self._name(what))
        return tuple(names)

    def _name(self, what: str) -> str:
        is_uid = what == "a uid" and self._is(TokenType.STRING)
        if self._next == len(self._tokens) or not (
            is_uid or self._tokens[self._next].token_type not in _NO_NAMES
        ):
            raise self._syntax_error(f"expected {what}")
        self._next += 1
        return str(self._tokens[self._next - 1].text)

    def _is(self, kind: TokenType) -> bool:
        return self._next < len(self._tokens) and self._tokens[self._next].token_type is kind

    def _word(self) -> str:
        self._next += 1
        return str(self._tokens[self._next - 1].text).upper()

    def _expect(self, word: str) -> None:
        if self._next == len(self._tokens) or self._tokens[self._next].text.upper() != word:
            raise self._syntax_error(f"expected {word}")
        self._next += 1

    def _ended(self, statement: Statement) -> Statement:
        if self._next < len(self._tokens):
            raise self._syntax_error("expected the end of the statement")
        return statement

    def _syntax_error(self, message: str) -> QuerySyntaxError:
        token = self._tokens[min(self._next, len(self._tokens) - 1)]
        found = (
            f"{message}, found {token.text!r}"
            if self._next < len(self._tokens)
            else f"{message}, found the end"
        )
        return QuerySyntaxError(found, position=Position.of(self._script, token.start))


_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
