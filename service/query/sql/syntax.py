"""DuckDB's syntax where sqlglot reads it differently.

`TYPE 'text'::other` is a typed literal that is cast: CAST(CAST('text' AS TYPE) AS other). sqlglot casts the text first.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType


class _WordTokenizer(DuckDB.Tokenizer):
    COMMANDS: ClassVar[set[TokenType]] = set()


class _BackquotingTokenizer(_WordTokenizer):
    IDENTIFIERS: ClassVar = ['"', "`"]


def words_of(sql: str) -> list[Token]:
    """Return the tokens of a text, also those behind a word like CALL.

    Raises:
        TokenError: a string, a quoted name or a comment has no end.
    """
    return _WordTokenizer(dialect=DuckDB()).tokenize(sql)


def backquoting_words_of(sql: str) -> list[Token]:
    """Return the tokens as `words_of`, of a text whose names may stand in backquotes.

    Raises:
        TokenError: a string, a quoted name or a comment has no end.
    """
    return _BackquotingTokenizer(dialect=DuckDB()).tokenize(sql)


class DuckDBSyntax(DuckDB):
    """DuckDB's dialect, as DuckDB reads it."""

    class Parser(DuckDBParser):
        """Reads typed literals before what follows them."""

        def _parse_type(
            self, parse_interval: bool = True, fallback_to_identifier: bool = False
        ) -> exp.Expr | None:
            literal = self._typed_literal()
            if literal is not None:
                return self._parse_column_ops(literal)
            return super()._parse_type(parse_interval, fallback_to_identifier)

        def _typed_literal(self) -> exp.Expr | None:
            """Read a type and a text; read nothing if something else stands there."""
            # What follows an interval may be its unit.
            is_type = self._curr is not None and self._curr.token_type in self.TYPE_TOKENS
            if not is_type or self._curr.token_type is TokenType.INTERVAL:
                return None
            start = self._index
            kind = self._parse_types(check_func=True, allow_identifiers=False)
            text = self._parse_string()
            if not isinstance(kind, exp.DataType) or not isinstance(text, exp.Literal):
                self._retreat(start)
                return None
            make = self.TYPE_LITERAL_PARSERS.get(kind.this)
            return make(self, text, kind) if make else self.expression(exp.Cast(this=text, to=kind))
