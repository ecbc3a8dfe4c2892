"""Which databases a query of `information_schema` and the like asks for, so that only these are opened.

SELECT * FROM information_schema.columns WHERE table_schema = 'chk-41'
SELECT * FROM system.jdbc.tables WHERE table_schem LIKE 'chk\\_41' ESCAPE '\\' AND …     JDBC's drivers
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from catalog.scan import ANYTHING
from service.query.sql.pruning import is_plain, predicates_of

# The columns that name a database: of `information_schema`, of JDBC's tables, of `schemata`.
_SCHEMA_COLUMNS = ("table_schema", "table_schem", "schema_name")


def requested_databases(node: exp.Table, databases: Sequence[str]) -> tuple[str, ...] | None:
    """Return the databases that the SELECT around a table asks for; None for all.

    Args:
        node: a table that lists databases, or what is in them.
        databases: the names that patterns are matched with.
    """
    select = node.find_ancestor(exp.Select)
    if select is None or not is_plain(node):
        return None
    alias = node.alias_or_name.casefold()
    schema = pa.schema([(name, pa.string()) for name in _SCHEMA_COLUMNS])
    predicates, _ = predicates_of(select, {alias: schema})
    predicate = predicates.get(alias, ANYTHING)
    for column in _SCHEMA_COLUMNS:
        names = predicate.of(column)
        if names is not None:
            return names
    # A pattern is taken by the name of its column alone, so no other table may have such a column.
    patterns = _schema_patterns(select) if len(list(select.find_all(exp.Table))) == 1 else []
    if not patterns:
        return None
    # A pattern without wildcards may be an alias, which is not among the names.
    literals = [text for text, _ in patterns if text is not None]
    return tuple(
        name
        for name in dict.fromkeys((*databases, *literals))
        if all(pattern.fullmatch(name) for _, pattern in patterns)
    )


def _schema_patterns(select: exp.Select) -> list[tuple[str | None, re.Pattern[str]]]:
    """Return the patterns of `table_schem LIKE '…'` among the conditions of a SELECT: the only text that fits, and the pattern."""
    where = select.args.get("where")
    patterns = []
    whole = where.this.unnest() if where else None
    conditions = whole.flatten() if isinstance(whole, exp.And) else [whole] if whole else []
    for condition in conditions:
        like, escape = condition.unnest(), ""
        if isinstance(like, exp.Escape):
            like, escape = like.this, like.expression.name
        if type(like) is not exp.Like or like.args.get("negate") or not isinstance(like.this, exp.Column):
            continue
        if like.this.name.casefold() in _SCHEMA_COLUMNS and like.expression.is_string:
            text = like.expression.this
            patterns.append((_literal(text, escape), like_pattern(text, escape)))
    return patterns


def _literal(pattern: str, escape: str) -> str | None:
    """Return the only text that a pattern of LIKE fits; None if it has wildcards."""
    text = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            text.append(next(characters, ""))
        elif character in "%_":
            return None
        else:
            text.append(character)
    return "".join(text)


def like_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
    """Return a pattern of LIKE as a regular expression."""
    parts = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            parts.append(re.escape(next(characters, "")))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)
