"""`SavedQuery`: a statement with a name and parameters, as files and clients give it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from service.base.errors import QuerySyntaxError
from service.query.sql.text import DIALECT
from service.tasks.saved.parameters import (
    LONGEST_VALUE,
    TYPES,
    InvalidParameterError,
    InvalidSavedQueryError,
    Parameter,
    bound,
    is_parameter_name,
    parameter_names,
)

# Bytes.
_LONGEST = {"sql": 256 * 1024, "description": 2000, "database": 1000, "saved_for": 1000, "dialect": 20}
_MOST_PARAMETERS = 100
# The name is a part of addresses and the name of a file, also where neither tells `A` from `a`.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


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

    def bound(self, given: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
        """Return the statement for a request, and its parameters.

        Args:
            given: a text for each parameter, by name; those with a default may be missing.

        Raises:
            InvalidParameterError: a text is missing, for no parameter, or no value of the parameter's type.
        """
        return bound(self.sql, self.parameters, given)


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
    if not is_parameter_name(name):
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
