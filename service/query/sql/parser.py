"""SQL texts ↔ syntax trees of sqlglot. Errors carry the position in the text.

A short statement needs no dialect of sqlglot: that of DuckDB is loaded by the first text that does.
"""

from __future__ import annotations

import importlib
import re

from sqlglot import exp, parse, tokenize
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, TokenError, UnsupportedError
from sqlglot.tokenizer_core import Token, TokenType

from service.base.errors import (
    ForbiddenError,
    InvalidQueryError,
    LimitExceededError,
    Position,
    QuerySyntaxError,
)

DIALECT = "duckdb"

# sqlglot ends some descriptions with the dump of a token.
_DUMPED_TOKEN = re.compile(r"\s*but got <Token.*", re.DOTALL)


def load_dialect() -> None:
    """Load DuckDB's dialect now, for those who will need it: workers share what is loaded before they are forked."""
    importlib.import_module("service.query.sql.syntax")


def check_length(sql: str, max_sql_bytes: int) -> None:
    """Refuse a text that is too long.

    Raises:
        LimitExceededError: the text has more bytes.
    """
    length = len(sql.encode(errors="surrogatepass"))
    if length > max_sql_bytes:
        raise LimitExceededError(f"expected a statement of at most {max_sql_bytes} bytes, found {length}")


def tokens_of(sql: str, *, has_commands: bool = True) -> list[Token]:
    """Return the tokens of a text in DuckDB's dialect, without semicolons at the end.

    Args:
        sql: the text.
        has_commands: whether everything between a word like CALL and the next semicolon is one token, quoted or not.

    Raises:
        QuerySyntaxError: a string, a quoted name or a comment has no end.
    """
    from service.query.sql.syntax import words_of  # heavy

    try:
        tokens = tokenize(sql, read=DIALECT) if has_commands else words_of(sql)
    except TokenError as error:
        raise _unended() from error
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    return tokens


def with_double_quotes(sql: str) -> str:
    """Return a text whose names in backquotes, as Flink's SQL quotes them, stand in double quotes."""
    if "`" not in sql:
        return sql
    from service.query.sql.syntax import backquoting_words_of  # heavy

    try:
        tokens = backquoting_words_of(sql)
    except TokenError:
        return sql
    pieces, end = [], 0
    for token in tokens:
        if token.token_type is TokenType.IDENTIFIER and sql[token.start] == "`":
            name = token.text.replace('"', '""')
            pieces += [sql[end : token.start], f'"{name}"']
            end = token.end + 1
    return "".join([*pieces, sql[end:]])


def parsed(sql: str, dialect: str | type[Dialect] = DIALECT) -> exp.Expr:
    """Parse one statement. VALUES alone becomes `SELECT * FROM (VALUES …)`.

    Raises:
        QuerySyntaxError: the text is empty or not SQL.
        ForbiddenError: the text has several statements.
    """
    from service.query.sql.syntax import DuckDBSyntax  # heavy

    try:
        trees = [
            tree
            for tree in parse(sql, read=DuckDBSyntax if dialect == DIALECT else dialect)
            if tree is not None
        ]
    except ParseError as error:
        raise _syntax_error(error) from error
    except TokenError as error:
        raise _unended() from error
    except SqlglotError as error:
        raise QuerySyntaxError("it is not SQL") from error
    if not trees:
        raise QuerySyntaxError("expected a statement, found none")
    if len(trees) > 1:
        raise ForbiddenError("expected one statement, found several")
    tree = trees[0]
    return exp.select("*").from_(tree) if isinstance(tree, exp.Values) else tree


def generated(tree: exp.Expr, dialect: str = DIALECT) -> str:
    """Return the text of a tree.

    Raises:
        InvalidQueryError: the dialect has no words for some of it.
        LimitExceededError: the tree is too deep.
    """
    try:
        return tree.sql(dialect, comments=False, unsupported_level=ErrorLevel.RAISE)
    except RecursionError as error:
        raise too_deep() from error
    except UnsupportedError as error:
        raise InvalidQueryError(str(error).strip()) from error
    except SqlglotError as error:
        raise QuerySyntaxError("it is not SQL") from error


def blanked(sql: str, length: int) -> str:
    """Replace the first characters with blanks: what follows keeps its positions."""
    return re.sub(r"[^\n]", " ", sql[:length]) + sql[length:]


def position_of_word(sql: str, word: str) -> Position | None:
    """Return where a word, in any case, first stands in a text."""
    match = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", sql, re.IGNORECASE)
    return Position.of(sql, match.start()) if match else None


def too_deep() -> LimitExceededError:
    """Return the error of a statement that exhausts Python's stack."""
    return LimitExceededError("the statement is nested too deeply")


def _unended() -> QuerySyntaxError:
    return QuerySyntaxError("a string, a quoted name or a comment has no end")


def _syntax_error(error: ParseError) -> QuerySyntaxError:
    details = error.errors[0] if error.errors else {}
    description = str(details.get("description") or "it is not SQL")
    text = _DUMPED_TOKEN.sub("", description).partition(" missing for ")[0]
    near = details.get("highlight")
    position = None
    if details.get("line"):
        # sqlglot counts to the end of the token that it could not read.
        column = max(1, int(details["col"]) - len(str(near or " ")) + 1)
        position = Position(int(details["line"]), column)
    return QuerySyntaxError(f"{text} near {near!r}" if near else text, position=position)
