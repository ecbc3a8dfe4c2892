"""Statements in other dialects than DuckDB's → the same in DuckDB's. The planner checks all after that."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from catalog import Catalog
from service.base.errors import ForbiddenError, InvalidRequestError, QueryError, QuerySyntaxError
from service.query.sql.allowlist import QUERY_WORDS
from service.query.sql.edits import with_values
from service.query.sql.flink.script import script_of
from service.query.sql.names import quoting_hint
from service.query.sql.parser import DIALECT, check_length, position_of_word, with_double_quotes
from service.query.sql.plan import Plan
from service.query.sql.planner import plan
from service.query.sql.resolver import SystemTables
from service.query.sql.short.planning import short_plan
from service.query.sql.tablefunctions import FLINK, check_compat

TRINO = "trino"
_FIRST_WORDS = re.compile(r"\s*(\w+)\s*(\w*)")
_ABOUT_TABLES = ("SHOW", "DESCRIBE", "DESC")
_WORD_AT = re.compile(r'"((?:[^"]|"")*)"|' + r"'((?:[^']|'')*)'|\w+")


def planned(
    sql: str,
    catalog: Catalog,
    *,
    dialect: str,
    max_sql_bytes: int,
    schema: str | None = None,
    system_tables: SystemTables | None = None,
    constants: Mapping[str, str],
    parameters: Sequence[Any] | Mapping[str, Any] = (),
    compat: str = "",
    may_be_short: bool = False,
) -> Plan:
    """Plan one statement in any dialect.

    Args:
        sql: the statement.
        catalog: its databases.
        dialect: `duckdb`, `trino` or `flink`.
        max_sql_bytes: length of the longest statement.
        schema: the database of tables without one; the only or the newest database if None.
        system_tables: tables that hide those of the catalog.
        constants: values of `current_user` and the like, for dialects that have them.
        parameters: values for its `?`, or for its `$name` by name.
        compat: `flink` if tables may have the names of Flink's State Catalog, too.
        may_be_short: whether a scan may answer it (`service.query.sql.short`).

    Raises:
        QueryError: the statement means nothing or is not allowed; the error's position is in `sql`, not in the translation.
    """
    if dialect not in _TRANSLATIONS:
        known = " or ".join(repr(name) for name in _TRANSLATIONS)
        raise InvalidRequestError(f"expected the dialect {known}, found {dialect!r}")
    check_compat(compat)
    check_length(sql, max_sql_bytes)
    sql = with_double_quotes(sql)
    notes: tuple[str, ...] = ()
    if dialect == FLINK:
        script = script_of(sql)
        sql, schema, notes = script.query, script.database or schema, script.notes
    try:
        bound = with_values(sql, parameters) if parameters else sql
        translation = _TRANSLATIONS[dialect](bound, constants)
    except QuerySyntaxError as error:
        error.hint = error.hint or quoting_hint(sql, error.position, catalog, schema)
        raise
    try:

        def in_full() -> Plan:
            # The default limit for the translation: it may be longer than the text.
            return plan(translation, catalog, schema=schema, system_tables=system_tables, compat=compat)

        short = (
            short_plan(translation, catalog, schema, system_tables, in_full)
            if may_be_short and not compat
            else None
        )
        result = short or in_full()
    except QueryError as error:
        if translation != sql:
            _relocate(error, translation, sql)
        elif isinstance(error, QuerySyntaxError):
            error.hint = error.hint or quoting_hint(sql, error.position, catalog, schema)
        raise
    if translation != sql:
        result = replace(result, sql=sql, is_translated=True)
    return replace(result, notes=notes) if notes else result


def _from_trino(sql: str, constants: Mapping[str, str]) -> str:
    words = _FIRST_WORDS.match(sql)
    first, second = (words[1].upper(), (words[2] or "").upper()) if words else ("", "")
    if first == "SUMMARIZE" or (first in _ABOUT_TABLES and second in QUERY_WORDS):
        raise ForbiddenError(
            f"{first} of a query is not Trino's" if second in QUERY_WORDS else f"{first} is not Trino's",
            hint="the dialect duckdb has it",
        )
    # Names of tables are the same in both dialects.
    if first in _ABOUT_TABLES:
        return sql
    from service.query.sql.trino.translation import translated  # heavy, and only clients of Trino need it

    return translated(sql, constants)


def _from_flink(sql: str, _constants: Mapping[str, str]) -> str:
    from service.query.sql.flink.translation import (
        translated,  # heavy, and only queries of Flink's dialect need it
    )

    return translated(sql)


def _relocate(error: QueryError, translated: str, sql: str) -> None:
    """Move the position of an error to the same word in the text as it was given."""
    position, error.position = error.position, None
    if position is None:
        return
    line = translated.split("\n")[position.line - 1]
    word = _WORD_AT.match(line, position.column - 1)
    if word is not None:
        error.position = position_of_word(sql, word[1] or word[2] or word[0])


_TRANSLATIONS: dict[str, Callable[[str, Mapping[str, str]], str]] = {
    DIALECT: lambda sql, _: sql,
    TRINO: _from_trino,
    FLINK: _from_flink,
}
