"""`SavedQuery`: a statement with a name and parameters, as files of TOML and clients give it.

    [queries.large-counts]
    description = "The keys with the largest counts."
    database = "latest"                    # if not given, the only or the newest one
    dialect = "duckdb"                     # or trino, flink
    sql = '''
    SELECT key, value FROM aggregate WHERE value >= :least ORDER BY value DESC'''
    parameters.least.default = 1000        # its type is that of the parameter: an integer
    parameters.from.type = "date"          # without a default somebody must give it

The file of a query that a client saved has one table of this kind, and `saved_by`, `saved_at` and perhaps `saved_for` in it.

Parameters of a saved query: `:key` in its statement, and the values that texts are.

| in the statement | is |
|---|---|
| `:key` behind a blank, a bracket, a comma or an operator, also in `[:a, :b]` and `ARRAY[:a]` | a parameter |
| `x::INT`, `list[1:n]`, `list[:n]`, `{'a':b}`, `{'a': b}`, `a: 1` | what it is in SQL |
| `:key` in a text, a quoted name or a comment | what it is in SQL |

| type | text | value |
|---|---|---|
| `text` | any | a text, which DuckDB reads as what it stands beside: `count > :least` with `5` compares numbers |
| `integer` | `-5` | a BIGINT |
| `number` | `1.5`, `1e3` | a decimal, or a double |
| `boolean` | `true`, `false` | a BOOLEAN |
| `date` | `2026-01-31` | a DATE |
| `timestamp` | `2026-01-31T12:00:00` | a TIMESTAMP |

A value never becomes SQL: `service.query.sql.text` writes it as a constant.

The errors of saved queries.

QueryError
  SavedQueryFileError           a file of saved queries cannot be read or written
  InvalidRequestError
    InvalidSavedQueryError      a saved query is not as documented
    InvalidParameterError       a value for a parameter is missing, unknown, or does not fit
    NotFoundError
      NoSuchSavedQueryError     no saved query has this name
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from itertools import pairwise
from typing import Any

from sqlglot.tokenizer_core import TokenType

from service.base.errors import InvalidRequestError, NotFoundError, QueryError, QuerySyntaxError, known_words
from service.query.running.request import QueryRequest
from service.query.sql.text import DIALECT, Edit, edited, tokens_of


class SavedQueryFileError(QueryError, code="SAVED_QUERY_FILE"):
    """A file of saved queries cannot be read or written."""


class InvalidSavedQueryError(InvalidRequestError, code="INVALID_SAVED_QUERY"):
    """A saved query is not as documented."""


class InvalidParameterError(InvalidRequestError, code="INVALID_PARAMETER"):
    """A value of a saved query's parameter is missing, unknown, or of another type."""


class NoSuchSavedQueryError(NotFoundError, code="SAVED_QUERY_NOT_FOUND"):
    """No saved query has this name, or the user may not see its database."""


LONGEST_VALUE = 100_000
# No underscore at the beginning: links have parameters of their own there, such as `_limit`.
_PARAMETER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
# What stands directly before the colon of a slice, of a field or of an alias.
_IN_SQL = re.compile(r"""(?:[\w"'$\])}]|(?<!\bARRAY)(?<=[\w"'$\])}])\[)$""", re.IGNORECASE)
_LOOK_BACK = 8
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,19}(?:\.[0-9]{0,19})?|\.[0-9]{1,19})")
_FLOATING = re.compile(_DECIMAL.pattern + r"[eE][+-]?[0-9]{1,3}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOST_INTEGER = 2**63
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a saved query.

    Attributes:
        name: its name, without the colon.
        type: one of `TYPES`.
        default: the text that stands where nobody gives one; None if somebody must.
    """

    name: str
    type: str = "text"
    default: str | None = None

    def value(self, text: str) -> Any:
        """Return the value that a text is.

        Raises:
            InvalidParameterError: the text is no value of the type.
        """
        if len(text) > LONGEST_VALUE:
            raise InvalidParameterError(
                f"expected at most {LONGEST_VALUE} characters for {self.name}, found {len(text)}"
            )
        try:
            return _READERS[self.type](text)
        except ValueError as error:
            raise InvalidParameterError(
                f"expected {_ARTICLES[self.type]} for {self.name}, found {text!r:.100}"
            ) from error


def parameter_names(sql: str) -> tuple[str, ...]:
    """Return the names of the parameters of a statement, in the order in which they first stand in it.

    Raises:
        QuerySyntaxError: a string, a quoted name or a comment has no end.
    """
    return tuple(dict.fromkeys(name for _, name in _places(sql)))


def bound(sql: str, parameters: Sequence[Parameter], given: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return a statement with `$key` in place of `:key`, and the value of each parameter.

    Args:
        sql: the statement.
        parameters: all that it has.
        given: a text for each, by name; those with a default may be missing.

    Raises:
        InvalidParameterError: a text is missing, for no parameter, or no value of the type.
    """
    needed = [one.name for one in parameters if one.default is None]
    _check_names([one.name for one in parameters], needed, given)
    values = {one.name: one.value(given.get(one.name, one.default or "")) for one in parameters}
    return _with_dollars(sql), values


def with_values(sql: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a statement with `$key` in place of `:key`, and the values.

    Args:
        sql: a statement that is not saved, so that nothing is known of its parameters.
        values: one for each, by name.

    Raises:
        InvalidParameterError: a value is missing, or for no parameter.
        QuerySyntaxError: a string, a quoted name or a comment has no end.
    """
    names = parameter_names(sql)
    _check_names(names, names, values)
    return _with_dollars(sql), dict(values)


def _check_names(names: Sequence[str], needed: Iterable[str], given: Collection[str]) -> None:
    """Refuse values for no parameter, and parameters without a value that need one."""
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InvalidParameterError(
            f"expected {_listed(names)}, found {_listed(unknown)}",
            hint="parameters stand as :name in the statement",
        )
    missing = [name for name in needed if name not in given]
    if missing:
        raise InvalidParameterError(f"expected a value for {_listed(missing)}, found none")


def _with_dollars(sql: str) -> str:
    # As many characters as before, so that positions of errors stay where they are.
    return edited(sql, (Edit(start, start + 1, "$") for start, _ in _places(sql)))


def _places(sql: str) -> list[tuple[int, str]]:
    """Return where the colon of each parameter stands, and its name."""
    return [
        (colon.start, name.text)
        for colon, name in pairwise(tokens_of(sql, has_commands=False))
        if colon.token_type is TokenType.COLON
        and name.start == colon.end + 1
        and _PARAMETER_NAME.fullmatch(sql[name.start : name.end + 1])
        and not _IN_SQL.search(sql[max(0, colon.start - _LOOK_BACK) : colon.start])
    ]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"{name:.100}" for name in names[:10]) or "no parameter"
    return f"{shown} and {len(names) - 10} more" if len(names) > 10 else shown


def _integer(text: str) -> int:
    value = int(text) if _INTEGER.fullmatch(text.strip()) else _MOST_INTEGER
    if not -_MOST_INTEGER <= value < _MOST_INTEGER:
        raise ValueError(text)
    return value


def _number(text: str) -> Decimal | float:
    if _DECIMAL.fullmatch(text.strip()):
        return Decimal(text.strip())
    if not _FLOATING.fullmatch(text.strip()):
        raise ValueError(text)
    value = float(text)
    if abs(value) == float("inf"):
        raise ValueError(text)
    return value


def _boolean(text: str) -> bool:
    value = _BOOLEANS.get(text.strip().casefold())
    if value is None:
        raise ValueError(text)
    return value


def _date(text: str) -> date:
    # Python reads more forms, such as days of a week, than SQL does.
    if not _DATE.fullmatch(text.strip()):
        raise ValueError(text)
    return date.fromisoformat(text.strip())


def _timestamp(text: str) -> datetime:
    if not _DATE.match(text.strip()):
        raise ValueError(text)
    return datetime.fromisoformat(text.strip())


_READERS: dict[str, Callable[[str], Any]] = {
    "text": str,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
}
_ARTICLES = {
    "text": "a text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "date": "a date such as 2026-01-31",
    "timestamp": "a time such as 2026-01-31T12:00:00",
}
TYPES = tuple(_READERS)


# Bytes.
_LONGEST = {"sql": 256 * 1024, "description": 2000, "database": 1000, "saved_for": 1000, "dialect": 20}
_MOST_PARAMETERS = 100
# The name is a part of addresses and the name of a file, also where neither tells `A` from `a`.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
MOST_QUERIES = 1000
_KEYS = ("sql", "description", "database", "dialect", "parameters")
_KEYS_OF_CLIENTS = ("saved_by", "saved_at", "saved_for")
_KEYS_OF_PARAMETERS = ("type", "default")
# A literal text of TOML has neither escapes nor control characters.
_NOT_LITERAL = re.compile(r"'''|'\Z|[\x00-\x08\x0b-\x1f\x7f]")
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedQuery:
    """A saved query.

    Attributes:
        name: its name.
        sql: one statement, with `:name` for each parameter.
        description: what it is for.
        database: the database of tables without one; None for the only or the newest one.
        dialect: of the statement.
        parameters: all parameters of the statement, in its order.
        is_written_by_hand: True if it stands in the file that people write, which no client changes.
        saved_by: the user who saved it; None if no client did.
        saved_at: when, in ISO 8601; None if no client did.
        saved_for: name of the database that `database` stood for when a client saved the query, where that is an alias. An alias
            stands for another database for another user, so that it names nobody whose query it is.
        may_change: True if the user who sees it may replace or delete it.
    """

    name: str
    sql: str
    description: str = ""
    database: str | None = None
    dialect: str = DIALECT
    parameters: tuple[Parameter, ...] = ()
    is_written_by_hand: bool = False
    saved_by: str | None = None
    saved_at: str | None = None
    saved_for: str = ""
    may_change: bool = False

    @property
    def owner(self) -> str | None:
        """The name of the database whose users have the query; None for all users."""
        return self.saved_for or self.database

    @property
    def link(self) -> str:
        """The address of its rows, without parameters, from the folder of a service."""
        return f"saved/{self.name}"

    def asked(
        self, request: QueryRequest, given: Mapping[str, str], database: str | None = None
    ) -> QueryRequest:
        """Return the request that runs it. It is answered as a service answers it: no file of this machine is a table.

        Args:
            request: who asks, and the limits.
            given: a text for each parameter, by name; those with a default may be missing.
            database: another one than that of the query.

        Raises:
            InvalidParameterError: a text is missing, for no parameter, or no value of the parameter's type.
        """
        sql, values = bound(self.sql, self.parameters, given)
        return replace(
            request,
            sql=sql,
            written=self.sql,
            parameters=values,
            dialect=self.dialect,
            schema=database or self.database or request.schema,
            system_tables=None,
        )


def check_name(name: str, where: str = "") -> None:
    """Check the name of a saved query.

    Raises:
        InvalidSavedQueryError: it is none.
    """
    if not _NAME.fullmatch(name):
        raise InvalidSavedQueryError(
            f"{where}expected a name of at most 64 small letters, digits, - and _, found {name!r:.100}"
        )


def saved_query(
    name: str, *, declared: Mapping[str, Parameter] | None = None, where: str = "", **facts: Any
) -> SavedQuery:
    """Return a saved query that is as documented.

    Args:
        name: its name.
        declared: what is known of its parameters, by name; those that nobody declares are texts that somebody must give.
        where: the beginning of messages.
        **facts: other attributes of `SavedQuery`.

    Raises:
        InvalidSavedQueryError: it is not.
    """
    check_name(name, where)
    given = SavedQuery(name=name, **facts)
    sql = given.sql.strip().removesuffix(";").rstrip()
    query = replace(
        given,
        sql=sql,
        description=given.description.strip(),
        database=given.database or None,
        saved_by=given.saved_by or None,
    )
    for what, longest in _LONGEST.items():
        _check_text(getattr(query, what) or "", what, longest, where)
    if not sql:
        raise InvalidSavedQueryError(f"{where}expected sql, found none")
    try:
        names = parameter_names(sql)
    except QuerySyntaxError as error:
        raise InvalidSavedQueryError(f"{where}expected SQL: {error.message}") from error
    if len(names) > _MOST_PARAMETERS:
        raise InvalidSavedQueryError(
            f"{where}expected at most {_MOST_PARAMETERS} parameters, found {len(names)}"
        )
    declared = declared or {}
    for unknown in declared.keys() - set(names):
        raise InvalidSavedQueryError(f"{where}expected :{unknown:.100} in the statement, found it nowhere")
    return replace(query, parameters=tuple(declared.get(each) or Parameter(name=each) for each in names))


def parameter(name: str, *, type: str = "text", default: str | None = None, where: str = "") -> Parameter:
    """Return a parameter that is as documented.

    Raises:
        InvalidSavedQueryError: it is not: its name, its type, or a default that does not fit the type.
    """
    if not _PARAMETER_NAME.fullmatch(name):
        raise InvalidSavedQueryError(
            f"{where}expected a parameter's name, a letter and letters, digits and _ behind it, found {name!r:.100}"
        )
    if type not in TYPES:
        raise InvalidSavedQueryError(
            f"{where}expected a type of {name}, one of {', '.join(TYPES)}, found {type!r:.100}"
        )
    found = Parameter(name=name, type=type, default=default)
    if default is not None:
        _check_text(default, f"the default of {name}", LONGEST_VALUE, where)
        try:
            found.value(default)
        except InvalidParameterError as error:
            raise InvalidSavedQueryError(f"{where}{error.message}") from error
    return found


def _check_text(text: str, what: str, longest: int, where: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidSavedQueryError(
            f"{where}expected {what} in Unicode, found half a character at {error.start}"
        ) from error
    if size > longest:
        raise InvalidSavedQueryError(f"{where}expected {what} of at most {longest} bytes, found {size}")
    if "\0" in text:
        raise InvalidSavedQueryError(f"{where}expected {what} without NUL, found one at {text.index(chr(0))}")


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
