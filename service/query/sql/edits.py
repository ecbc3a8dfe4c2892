"""Edits of a text: the statement that DuckDB runs is the user's own text, with names of tables replaced.

A text generated from the tree of sqlglot may mean something else: sqlglot reads some operators in another order than DuckDB.

    SELECT "chk-41".orders.key::DATE -- why not
    FROM "chk-41".orders

    SELECT "orders".key::DATE -- why not
    FROM "1: chk-41.orders" AS "orders"

Values of a client stand in place of its parameters before anything reads the statement: `?` for the next one, `$name` for one by its name.
They are written as constants, so that they prune as constants do; what they hold never becomes SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from service.base.errors import InvalidQueryError, Position
from service.query.sql.literals import value_constant
from service.query.sql.parser import blanked, tokens_of

_TABLE_WORD = re.compile(r"\bTABLE\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """The text that replaces `[start, end)` of a statement."""

    start: int
    end: int
    text: str


def quoted(name: str) -> str:
    """Return a name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def edit_of(parts: Sequence[exp.Expr], text: str) -> Edit:
    """Return the edit that replaces a name of several parts.

    Raises:
        InvalidQueryError: the text does not show where the name stands.
    """
    first, last = parts[0].meta, parts[-1].meta
    if "start" not in first or "end" not in last:
        name = ".".join(part.name for part in parts)
        raise InvalidQueryError(
            f"expected {name!r} as a plain name, found it in a form that is not understood"
        )
    return Edit(first["start"], last["end"] + 1, text)


def edited(sql: str, edits: Iterable[Edit]) -> str:
    """Return a text with its edits.

    Raises:
        InvalidQueryError: two edits replace the same part of the text.
    """
    pieces: list[str] = []
    end = 0
    behind_table = _behind_table(sql) if _TABLE_WORD.search(sql) else {}
    for edit in sorted(set(edits)):
        if edit.start < end:
            position = Position.of(sql, edit.start)
            raise InvalidQueryError("expected a name of a table or column", position=position)
        before, text = sql[end : edit.start], edit.text
        if edit.start in behind_table:
            before, text = before[: behind_table[edit.start] - end], f"SELECT * FROM {text}"
        pieces += [before, text]
        end = edit.end
    return "".join([*pieces, sql[end:]]).strip()


def with_values(sql: str, values: Sequence[Any] | Mapping[str, Any]) -> str:
    """Return a statement with values of Python in place of its parameters.

    Args:
        sql: the statement.
        values: for its `?`, in order; or for its `$name`, by name.

    Raises:
        InvalidQueryError: it has more or fewer parameters, or SQL has no constant for a value.
    """
    is_named = isinstance(values, Mapping)
    found = (
        list(_named_parameters(sql)) if is_named else [(token.start, token.end, "?") for token in _marks(sql)]
    )
    if isinstance(values, Mapping):
        names = {name for _, _, name in found}
        if names != values.keys():
            raise InvalidQueryError(
                f"expected values for {_listed(names)}, found values for {_listed(values)}",
                hint="parameters are written as $name",
            )
        chosen = [values[name] for _, _, name in found]
    else:
        if len(found) != len(values):
            raise InvalidQueryError(
                f"expected {len(found)} value{'' if len(found) == 1 else 's'} for parameters, found {len(values)}",
                hint="each ? is a parameter",
            )
        chosen = list(values)
    # Blanks and brackets: `1-?` must not become a comment.
    edits = (
        Edit(start, end + 1, f" ({value_constant(value)}) ")
        for (start, end, _), value in zip(found, chosen, strict=True)
    )
    return edited(sql, edits)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"${name}" for name in sorted(names)) or "none"


def _marks(sql: str) -> list[Token]:
    return [token for token in _all_tokens(sql) if token.token_type is TokenType.PLACEHOLDER]


def _named_parameters(sql: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and name of each `$name`."""
    for mark, name in pairwise(_all_tokens(sql)):
        if mark.token_type is TokenType.PARAMETER and mark.text == "$" and name.start == mark.end + 1:
            yield mark.start, name.end, name.text


def _all_tokens(sql: str) -> list[Token]:
    """Return the tokens of a statement, also those after EXPLAIN, which sqlglot takes for one."""
    tokens = tokens_of(sql)
    while tokens and tokens[0].token_type is TokenType.COMMAND:
        sql = blanked(sql, tokens[0].end + 1)
        tokens = tokens_of(sql)
    return tokens


def _behind_table(sql: str) -> dict[int, int]:
    """Return start of a name → start of the word TABLE before it. `TABLE t` is a query that allows no alias."""
    return {
        name.start: word.start
        for word, name in pairwise(tokens_of(sql))
        if word.text.upper() == "TABLE" and sql[word.start] not in "\"'"
    }
