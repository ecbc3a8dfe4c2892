"""Parameters of a saved query: `:key` in its statement, and the values that texts are.

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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from sqlglot.tokenizer_core import TokenType

from service.base.errors import InvalidRequestError, NotFoundError, QueryError
from service.query.sql.text import Edit, edited, tokens_of


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
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
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


def is_parameter_name(text: str) -> bool:
    """Return whether a text may be the name of a parameter."""
    return _NAME.fullmatch(text) is not None


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
        and _NAME.fullmatch(sql[name.start : name.end + 1])
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
