"""Edits of a text: the statement that DuckDB runs is the user's own text, with names of tables replaced.

A text generated from the tree of sqlglot may mean something else: sqlglot reads some operators in another order than DuckDB.

    SELECT "chk-41".orders.key::DATE -- why not
    FROM "chk-41".orders

    SELECT "orders".key::DATE -- why not
    FROM "1: chk-41.orders" AS "orders"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp

from service.errors import InvalidQueryError, Position
from service.sql.parser import tokens_of

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


def _behind_table(sql: str) -> dict[int, int]:
    """Return start of a name → start of the word TABLE before it. `TABLE t` is a query that allows no alias."""
    return {
        name.start: word.start
        for word, name in pairwise(tokens_of(sql))
        if word.text.upper() == "TABLE" and sql[word.start] not in "\"'"
    }
