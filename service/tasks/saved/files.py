"""TOML ↔ saved queries.

    [queries.large-counts]
    description = "The keys with the largest counts."
    database = "latest"                    # if not given, the only or the newest one
    dialect = "duckdb"                     # or trino, flink
    sql = '''
    SELECT key, value FROM aggregate WHERE value >= :least ORDER BY value DESC'''
    parameters.least.default = 1000        # its type is that of the parameter: an integer
    parameters.from.type = "date"          # without a default somebody must give it

The file of a query that a client saved has one table of this kind, and `saved_by`, `saved_at` and perhaps `saved_for` in it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

from service.base.errors import known_words
from service.tasks.saved.parameters import InvalidSavedQueryError, Parameter, SavedQueryFileError
from service.tasks.saved.query import SavedQuery, parameter, saved_query

MOST_QUERIES = 1000
_KEYS = ("sql", "description", "database", "dialect", "parameters")
_KEYS_OF_CLIENTS = ("saved_by", "saved_at", "saved_for")
_KEYS_OF_PARAMETERS = ("type", "default")
# A literal text of TOML has neither escapes nor control characters.
_NOT_LITERAL = re.compile(r"'''|'\Z|[\x00-\x08\x0b-\x1f\x7f]")
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')


def parse_queries(text: str, place: str, *, is_written_by_hand: bool) -> dict[str, SavedQuery]:
    """Parse a file of saved queries.

    Args:
        text: of the file.
        place: the name of the file, for errors.
        is_written_by_hand: False for the file of a query that a client saved.

    Raises:
        SavedQueryFileError: the text is not as documented.
    """
    try:
        document = tomllib.loads(text)
    # Deeply nested arrays exhaust the stack of the parser.
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SavedQueryFileError(f"{place}: expected TOML: {error}") from error
    tables = document.pop("queries", {})
    if document:
        raise SavedQueryFileError(f"{place}: expected [queries.name], found {next(iter(document))!r:.100}")
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise SavedQueryFileError(f"{place}: expected each query as [queries.name]")
    if len(tables) > MOST_QUERIES:
        raise SavedQueryFileError(f"{place}: expected at most {MOST_QUERIES} queries, found {len(tables)}")
    try:
        return {name: _query(name, table, place, is_written_by_hand) for name, table in tables.items()}
    except InvalidSavedQueryError as error:
        raise SavedQueryFileError(error.message, hint=error.hint) from error


def toml_of(query: SavedQuery) -> str:
    """Return the file of a query."""
    lines = [f"[queries.{query.name}]"]
    for key in ("description", "database", "dialect", *_KEYS_OF_CLIENTS):
        value = getattr(query, key)
        if value:
            lines.append(f"{key} = {_text(value)}")
    lines.append(f"sql = {_long_text(query.sql)}")
    for one in query.parameters:
        lines.append(f"parameters.{one.name}.type = {_text(one.type)}")
        if one.default is not None:
            lines.append(f"parameters.{one.name}.default = {_text(one.default)}")
    return "\n".join(lines) + "\n"


def _query(name: str, table: Mapping[str, Any], place: str, is_written_by_hand: bool) -> SavedQuery:
    where = f"{place}: query {name!r:.100}: "
    keys = _KEYS if is_written_by_hand else _KEYS + _KEYS_OF_CLIENTS
    _check_keys(table, keys, where)
    texts = {key: _text_in(table, key, where) for key in keys if key != "parameters" and key in table}
    if "sql" not in texts:
        raise InvalidSavedQueryError(f"{where}expected sql, found none")
    parameters = table.get("parameters", {})
    if not isinstance(parameters, dict):
        raise InvalidSavedQueryError(f"{where}expected parameters as tables, found {parameters!r:.100}")
    declared = {called: _parameter(called, found, where) for called, found in parameters.items()}
    return saved_query(name, declared=declared, is_written_by_hand=is_written_by_hand, where=where, **texts)


def _parameter(name: str, table: Any, where: str) -> Parameter:
    if not isinstance(table, dict):
        raise InvalidSavedQueryError(
            f"{where}expected parameters.{name:.100}.default or .type, found {table!r:.100}"
        )
    _check_keys(table, _KEYS_OF_PARAMETERS, where)
    default = table.get("default")
    # `bool` before `int` and `datetime` before `date`: they are subclasses.
    kind = next((kind for type_, kind in _TYPES if isinstance(default, type_)), "")
    if default is not None and (not kind or isinstance(default, time)):
        raise InvalidSavedQueryError(
            f"{where}expected a text, a number, a date or true or false as default of {name:.100}, found {default!r:.100}"
        )
    text = None if default is None else _text_of(default)
    return parameter(
        name,
        type=_text_in(table, "type", where) if "type" in table else kind or "text",
        default=text,
        where=where,
    )


def _text_of(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return default.isoformat() if isinstance(default, date) else str(default)


def _check_keys(table: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in keys:
            raise InvalidSavedQueryError(
                f"{where}expected a word of saved queries, found {key!r:.100}{known_words(key, keys)}"
            )


def _text_in(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table[key]
    if not isinstance(value, str):
        raise InvalidSavedQueryError(f"{where}expected {key} as a text, found {value!r:.100}")
    return value


def _text(text: str) -> str:
    escaped = _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return f'"{escaped}"'


def _long_text(text: str) -> str:
    # The line break behind the quotes is no part of the text.
    return _text(text) if _NOT_LITERAL.search(text) else f"'''\n{text}'''"


_TYPES: tuple[tuple[type, str], ...] = (
    (str, "text"),
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (datetime, "timestamp"),
    (date, "date"),
)
