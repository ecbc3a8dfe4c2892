"""Reads the tokens of one statement, in order: words, names, and texts that DuckDB reads later.

What every statement of a script has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlglot.tokenizer_core import Token, TokenType

from service.base.errors import Position, QuerySyntaxError

_T = TypeVar("_T")
_BEGINNING = Position(line=1, column=1)
_SYMBOLS = frozenset(
    {
        TokenType.COMMA,
        TokenType.DOT,
        TokenType.EQ,
        TokenType.L_PAREN,
        TokenType.NUMBER,
        TokenType.R_PAREN,
        TokenType.SEMICOLON,
    }
)
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})

# What may follow a table in a query, and not in FROM or USING of a statement that changes rows.
OTHER_CLAUSES = (
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


class Fragment(str):
    """A part of a script as it was written.

    Attributes:
        script: the script.
        start: where it begins in the script.
    """

    __slots__ = ("script", "start")

    script: str
    start: int

    @classmethod
    def of(cls, script: str, start: int, end: int) -> Fragment:
        """Return the characters `[start, end)` of a script."""
        found = cls(script[start:end])
        found.script, found.start = script, start
        return found

    def position(self, offset: int) -> Position:
        """Return the position in the script of one of its characters."""
        return Position.of(self.script, self.start + offset)


class Parser:
    """The tokens of one statement, and the next of them.

    Args:
        script: the text.
        tokens: of the statement; at least one.

    Attributes:
        script: the text.
    """

    def __init__(self, script: str, tokens: Sequence[Token]) -> None:
        self.script = script
        self._tokens = tokens
        self._next = 0

    @property
    def position(self) -> Position:
        """Where the statement begins."""
        return Position.of(self.script, self._tokens[0].start)

    @property
    def at_end(self) -> bool:
        """True if no token is left."""
        return self._next == len(self._tokens)

    def peek(self, ahead: int = 0) -> str:
        """Return a word in capitals without reading it; empty for texts, quoted names and the end."""
        if self._next + ahead >= len(self._tokens):
            return ""
        return _word(self._tokens[self._next + ahead])

    def is_at(self, *words: str) -> bool:
        """Return whether these words come next."""
        return all(self.peek(ahead) == word for ahead, word in enumerate(words))

    def is_symbol(self, kind: TokenType) -> bool:
        """Return whether a token of this kind comes next."""
        return not self.at_end and self._tokens[self._next].token_type is kind

    def accept(self, *words: str) -> bool:
        """Read these words if they come next; return whether they did."""
        found = self.is_at(*words)
        if found:
            self._next += len(words)
        return found

    def accept_symbol(self, kind: TokenType) -> bool:
        """Read a token of this kind if it comes next; return whether it did."""
        found = self.is_symbol(kind)
        if found:
            self._next += 1
        return found

    def expect(self, *words: str) -> None:
        """Read these words.

        Raises:
            QuerySyntaxError: something else comes next.
        """
        for word in words:
            if not self.accept(word):
                raise self.error(f"expected {word}")

    def expect_symbol(self, kind: TokenType, what: str) -> None:
        """Read a token of this kind; `what` names it in the error.

        Raises:
            QuerySyntaxError: something else comes next.
        """
        if not self.accept_symbol(kind):
            raise self.error(f"expected {what}")

    def expect_end(self) -> None:
        """Check that no token is left.

        Raises:
            QuerySyntaxError: one is.
        """
        if not self.at_end:
            raise self.error("expected the end of the statement")

    def table(self) -> tuple[str, ...]:
        """Read the name of a table: its parts."""
        return self.path("a table")

    def path(self, what: str) -> tuple[str, ...]:
        """Read names with dots between them."""
        return tuple(self.several(lambda: self.name(what), TokenType.DOT))

    def name(self, what: str, *, is_text_allowed: bool = False) -> str:
        """Read a name; `what` says in the error what it names.

        Raises:
            QuerySyntaxError: something else comes next.
        """
        kind = None if self.at_end else self._tokens[self._next].token_type
        if kind is None or kind in _SYMBOLS or (kind is TokenType.STRING and not is_text_allowed):
            raise self.error(f"expected {what}")
        self._next += 1
        return str(self._tokens[self._next - 1].text)

    def alias(self, *words: str) -> str | None:
        """Read the alias of a table, with or without AS; None if one of these words comes next, or the end."""
        if self.accept("AS"):
            return self.name("a name")
        return None if self.at_end or self.peek() in words else self.name("a name")

    def text(self, what: str) -> str:
        """Read a text in single quotes; `what` says in the error what it is.

        Raises:
            QuerySyntaxError: something else comes next.
        """
        if not self.is_symbol(TokenType.STRING):
            raise self.error(f"expected {what} in single quotes")
        return self.name(what, is_text_allowed=True)

    def value(self, what: str) -> str:
        """Read a text, a number or a word, as text; `what` says in the error what it is.

        Raises:
            QuerySyntaxError: something else comes next.
        """
        if self.accept_symbol(TokenType.NUMBER):
            return str(self._tokens[self._next - 1].text)
        return self.name(what, is_text_allowed=True)

    def names(self, what: str) -> tuple[str, ...]:
        """Read `(name, name, …)`."""
        return tuple(self.listed(lambda: self.name(what)))

    def listed(self, read: Callable[[], _T], opening: str = "(", end: str = ", or )") -> list[_T]:
        """Read `(one, one, …)`, each by a function; `opening` and `end` name what stands around them in the error."""
        self.expect_symbol(TokenType.L_PAREN, opening)
        found = self.several(read)
        self.expect_symbol(TokenType.R_PAREN, end)
        return found

    def several(self, read: Callable[[], _T], separator: TokenType = TokenType.COMMA) -> list[_T]:
        """Read something, and more of it behind each separator."""
        found = [read()]
        while self.accept_symbol(separator):
            found.append(read())
        return found

    def parenthesized(self, what: str) -> Fragment:
        """Read `(`, what stands in it, and `)`; `what` names it in the error.

        Raises:
            QuerySyntaxError: nothing stands there, or a parenthesis has no partner.
        """
        self.expect_symbol(TokenType.L_PAREN, "(")
        first, depth = self._next, 0
        while not self.at_end and (depth or not self.is_symbol(TokenType.R_PAREN)):
            kind = self._tokens[self._next].token_type
            depth += (kind in _OPENING) - (kind in _CLOSING)
            self._next += 1
        if self._next == first:
            raise self.error(f"expected {what}")
        found = Fragment.of(self.script, self._tokens[first].start, self._tokens[self._next - 1].end + 1)
        self.expect_symbol(TokenType.R_PAREN, ")")
        return found

    def fragment(self, *ends: str | tuple[str, ...], what: str = "an expression") -> Fragment:
        """Read up to one of these words, or sequences of words, or a comma, outside of parentheses and CASE; or up to the end.

        Args:
            *ends: in capitals; `,` for a comma.
            what: names what is read, for the error.

        Raises:
            QuerySyntaxError: nothing stands there, or a parenthesis has no partner.
        """
        words = [(end,) if isinstance(end, str) else end for end in ends]
        first, depth = self._next, 0
        while not self.at_end:
            kind = self._tokens[self._next].token_type
            if not depth and any(self._is_end(end) for end in words):
                break
            depth += (kind in _OPENING) - (kind in _CLOSING)
            if depth < 0:
                break
            self._next += 1
        if self._next == first or depth:
            raise self.error(f"expected {what}")
        return Fragment.of(self.script, self._tokens[first].start, self._tokens[self._next - 1].end + 1)

    def _is_end(self, words: tuple[str, ...]) -> bool:
        # `a IS DISTINCT FROM b` is an expression, and `a.offset` is a field.
        before = self.peek(-1) if self._next else ""
        is_inside = before == "." or (words == ("FROM",) and before == "DISTINCT")
        return self.is_at(*words) and not is_inside

    def error(self, message: str) -> QuerySyntaxError:
        """Return the error that something else was expected here."""
        token = self._tokens[min(self._next, len(self._tokens) - 1)]
        found = f"{message}, found the end" if self.at_end else f"{message}, found {token.text!r}"
        return QuerySyntaxError(found, position=Position.of(self.script, token.start))


def _word(token: Token) -> str:
    is_quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    # The tokenizer takes GROUP BY for one token.
    return "" if is_quoted else str(token.text).upper().partition(" ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a script.

    Attributes:
        table: the parts of the name of its table.
        position: of the statement in the script, which `statements_of` tells.
    """

    table: tuple[str, ...]
    position: Position = _BEGINNING

    @property
    def name(self) -> str:
        """The name of its table, without that of a database."""
        return self.table[-1]
