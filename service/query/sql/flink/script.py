"""Statements about the session that stand before a query of Flink's SQL, in one text with it.

| statement | here |
|---|---|
| `USE "database"`, `USE state."database"` | the database of the tables that name none, in the query behind it |
| `USE CATALOG state`, `USE CATALOG flink` | nothing: there is one catalog |
| `LOAD MODULE state` | nothing: `savepoint_metadata` is always there |
| `CREATE CATALOG state WITH (…)`, `SET 'key' = 'value'` | nothing, and a warning says so: the roots and limits are those of the service |

No text has a session that lasts: the next one begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from service.base.errors import ForbiddenError, InvalidQueryError, Position, QuerySyntaxError
from service.query.sql.parser import blanked, tokens_of
from service.query.sql.schemas.named import CATALOG
from service.query.sql.tablefunctions import STATE_CATALOG

_CATALOGS = (CATALOG, STATE_CATALOG)
_DONE = "SELECT 'OK' AS result"
_MODULES = ("state", "core")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkScript:
    """A text of Flink's SQL.

    Attributes:
        query: its last statement, at its place in the text.
        database: that a `USE` before it names; None if there is none.
        notes: what the text asked for and has no effect, in sentences for the client.
    """

    query: str
    database: str | None = None
    notes: tuple[str, ...] = ()


def script_of(sql: str) -> FlinkScript:
    """Return the query of a text, and what the statements before it say.

    Raises:
        QueryError: a statement before the query is none of those above.
    """
    statements = _statements(sql)
    database: str | None = None
    notes: list[str] = []
    for number, tokens in enumerate(statements):
        word = tokens[0].text.upper()
        if word == "USE":
            database = _used(sql, tokens) or database
        elif word == "LOAD":
            _check_module(sql, tokens)
        elif word == "SET" or _words(tokens[:2]) == ["CREATE", "CATALOG"]:
            what = "SET" if word == "SET" else "CREATE CATALOG"
            notes.append(f"{what} has no effect here: the service has its own settings and roots")
        elif number < len(statements) - 1:
            position = Position.of(sql, statements[number + 1][0].start)
            raise ForbiddenError("expected one query, found a statement behind it", position=position)
        else:
            start, end = tokens[0].start, tokens[-1].end + 1
            return FlinkScript(query=blanked(sql, start)[:end], database=database, notes=tuple(notes))
    if not statements:
        raise QuerySyntaxError("expected a statement, found none")
    if database is not None:
        notes.append("USE holds for a query behind it in the same text, and for no other")
    return FlinkScript(query=_DONE, database=database, notes=tuple(notes))


def _statements(sql: str) -> list[list[Token]]:
    """Return the tokens of each statement."""
    found: list[list[Token]] = [[]]
    for token in tokens_of(sql, has_commands=False):
        if token.token_type is TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    return [tokens for tokens in found if tokens]


def _words(tokens: Sequence[Token]) -> list[str]:
    return [token.text.upper() for token in tokens]


def _used(sql: str, tokens: Sequence[Token]) -> str | None:
    """Return the database of a USE; None for USE CATALOG and USE MODULES."""
    words = _words(tokens)
    if words[1:2] == ["MODULES"]:
        return None
    names = [token.text for token in tokens[1:] if token.text != "."]
    if words[1:2] == ["CATALOG"]:
        if len(tokens) != 3 or names[1].casefold() not in _CATALOGS:
            raise InvalidQueryError(
                f"expected the catalog {' or '.join(_CATALOGS)}, found {' '.join(names[1:]) or 'none'}",
                position=Position.of(sql, tokens[-1].start),
            )
        return None
    if len(names) == 2 and names[0].casefold() in _CATALOGS:
        names = names[1:]
    if len(names) != 1:
        raise QuerySyntaxError(
            "expected the name of one database behind USE",
            hint="quote it: USE `prod/chk-41`",
            position=Position.of(sql, tokens[0].start),
        )
    return names[0]


def _check_module(sql: str, tokens: Sequence[Token]) -> None:
    words = _words(tokens)
    if words[1:2] != ["MODULE"] or len(words) < 3 or tokens[2].text.casefold() not in _MODULES:
        raise ForbiddenError(
            f"expected LOAD MODULE {_MODULES[0]}, found {' '.join(words)}",
            position=Position.of(sql, tokens[0].start),
        )
