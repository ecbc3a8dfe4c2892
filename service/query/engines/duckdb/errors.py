"""The texts of DuckDB's errors → errors of the service.

DuckDB's Python module has a class for each kind of error, but an error inside a scan or on an executor of Spark comes as text
only. So all errors are known by their texts: `KIND Error: MESSAGE`, with candidates, advice and a piece of the statement in
further lines.
"""

from __future__ import annotations

import re

import pyarrow as pa
from sqlglot import exp

from catalog.errors import near_names
from service.base.errors import (
    ColumnNotFoundError,
    EngineError,
    ForbiddenError,
    InvalidQueryError,
    InvalidValueError,
    MemoryExceededError,
    Position,
    QueryCancelledError,
    QueryError,
    QuerySyntaxError,
    near_names_hint,
    without_folders,
)
from service.query.sql.plan import Plan
from service.query.sql.translation.macros import sentence_of

_MISSING_COLUMN = re.compile(
    r'(?:Referenced column|does not have a column named) "(?P<name>(?:[^"]|"")+)"'
    r"|Could not find key \"(?P<key>[^\"]+)\" in struct"
)
_MISSING_TABLE = re.compile(r'Referenced table "(?P<name>[^"]+)" not found')
_TEXT_AS_NUMBER = re.compile(
    r"Could not convert string .* to \w+ when casting from source column (?P<name>\w+)", re.DOTALL
)
_NO_FUNCTION_OF_TEXT = re.compile(r"No function matches .*\bVARCHAR\b|Cannot (?:compare|mix) .*\bVARCHAR\b")
_CANDIDATES = re.compile(r"Candidate (?:bindings|tables|Entries): (?P<names>[^\n]*)")
# Kinds may have several words: `Invalid Input Error: …`.
_KIND = re.compile(r"^(?P<kind>[A-Za-z][A-Za-z ]*?) Error: (?P<message>.*)", re.DOTALL)
# What follows repeats a part of the statement, or lists functions that are not allowed here.
_END_OF_MESSAGE = re.compile(
    r"\n\s*(?:LINE \d+:|Candidate functions:|Possible solutions:|Detail:).*", re.DOTALL
)


def statement_error_of(text: str, plan: Plan) -> QueryError:
    """Return the error that DuckDB's text means, with the place in the statement and names that are near."""
    kind, message = _kind_and_message(text)
    refused = _refused_of(message)
    if refused is not None:
        return refused
    candidates = _CANDIDATES.search(message)
    plain = without_folders(_CANDIDATES.sub("", _END_OF_MESSAGE.sub("", message)).strip())
    missing = _MISSING_COLUMN.search(message)
    if missing is not None:
        return _missing_column(missing["name"] or missing["key"], candidates, plan)
    unknown = _MISSING_TABLE.search(message)
    if unknown is not None:
        return _missing_table(unknown["name"], plain, candidates, plan, detail=text)
    text_column = _TEXT_AS_NUMBER.search(message)
    if text_column is not None:
        return _text_as_number(plain, text_column["name"], plan, detail=text)
    untyped = _untyped_table(plan) if _NO_FUNCTION_OF_TEXT.search(message) else None
    if untyped is not None:
        return InvalidQueryError(
            plain.partition("\n")[0],
            hint=f'the states of "{untyped}" have several types, so its value is text; '
            f'"{untyped}__<state>" has the type of one state, and StateMeta.table_name lists these tables',
            position=plan.position_of("value"),
            detail=text,
        )
    hint = near_names_hint(_listed(candidates))
    # DuckDB puts its advice into further lines.
    plain, _, advice = plain.partition("\n")
    return _error_of(kind, plain, text, hint or advice.strip() or None)


def value_error_of(text: str) -> QueryError:
    """Return the error that DuckDB's text means, without a statement: for an error in a value."""
    kind, message = _kind_and_message(text)
    plain = without_folders(_END_OF_MESSAGE.sub("", message).strip()).partition("\n")[0]
    return _refused_of(message) or _error_of(kind, plain, text)


def _kind_and_message(text: str) -> tuple[str, str]:
    found = _KIND.match(text)
    return (found["kind"], found["message"]) if found else ("", text)


def _error_of(kind: str, message: str, detail: str, hint: str | None = None) -> QueryError:
    return _ERRORS.get(kind, EngineError)(_RENAMED.get(kind, message), hint=hint, detail=detail)


def _refused_of(message: str) -> InvalidValueError | None:
    """Return the error of a value that Trino's function refuses; None for other errors."""
    sentence = sentence_of(message)
    if sentence is None:
        return None
    code = "INVALID_VALUE" if sentence.startswith("Cannot cast") else "INVALID_FUNCTION_ARGUMENT"
    return InvalidValueError(sentence, code=code)


def _missing_column(name: str, candidates: re.Match[str] | None, plan: Plan) -> ColumnNotFoundError:
    near = tuple(dict.fromkeys([*near_names(name, _columns(plan)), *_listed(candidates)]))[:3]
    hint = near_names_hint(near)
    if f'"{name}"' in plan.sql:
        advice = f"a text stands in single quotes: {exp.Literal.string(name).sql()}"
        hint = f"{hint} {advice}" if hint else advice
    return ColumnNotFoundError(f"there is no column {name!r}", hint=hint, position=plan.position_of(name))


def _missing_table(
    name: str, message: str, candidates: re.Match[str] | None, plan: Plan, *, detail: str
) -> QueryError:
    """Return the error of what DuckDB takes for a table: all that stands before the last dot, a column and its fields among it."""
    first, *rest = name.split(".")
    listed = _listed(candidates)
    tables = {name.casefold() for name in (*listed, *(reference.table.name for reference in plan.tables))}
    databases = {one.name.casefold() for reference in plan.tables for one in reference.databases}
    if not rest and near_names(first, listed):
        name = first
    elif rest and (first.casefold() in databases or rest[0].casefold() in tables):
        known = next((end for end, part in enumerate(rest, 2) if part.casefold() in tables), 2)
        missing = ".".join([first, *rest][:known])
        message, name = f"FROM has no table {missing!r}", first
    elif near_names(first, _columns(plan)):
        return _missing_column(first, None, plan)
    return InvalidQueryError(
        message, hint=near_names_hint(listed), position=plan.position_of(name), detail=detail
    )


def _columns(plan: Plan) -> set[str]:
    return {column for reference in plan.tables for column in reference.table.schema.names}


def _listed(candidates: re.Match[str] | None) -> tuple[str, ...]:
    """Return the names that DuckDB proposes."""
    return tuple(re.findall(r'"([^"]+)"', candidates["names"])) if candidates else ()


def _text_as_number(message: str, name: str, plan: Plan, *, detail: str) -> InvalidValueError:
    number = re.search(rf"\b{re.escape(name)}\"?\s*(?:=|<>|!=|IN\s*\()\s*(-?\d+)\b", plan.sql, re.IGNORECASE)
    example = f", such as '{number[1]}'" if number else ""
    return InvalidValueError(
        message.partition("\n")[0],
        hint=f"{name} is a text: compare it with texts in single quotes{example}",
        position=Position.of(plan.sql, number.start(1)) if number else plan.position_of(name),
        detail=detail,
    )


def _untyped_table(plan: Plan) -> str | None:
    """Return the table of an operator whose states have several types, if the plan reads one."""
    for reference in plan.tables:
        schema = reference.table.schema
        if {"state_name", "value"} <= set(schema.names) and pa.types.is_string(schema.field("value").type):
            return reference.table.name
    return None


_ERRORS: dict[str, type[QueryError]] = {
    "Binder": InvalidQueryError,
    "Catalog": InvalidQueryError,
    "Parser": QuerySyntaxError,
    "Syntax": QuerySyntaxError,
    "Conversion": InvalidValueError,
    "Out of Range": InvalidValueError,
    "Invalid Input": InvalidValueError,
    "Invalid Type": InvalidValueError,
    "Mismatch Type": InvalidValueError,
    "Not implemented": InvalidQueryError,
    "Not Implemented": InvalidQueryError,
    "Permission": ForbiddenError,
    "Out of Memory": MemoryExceededError,
    "INTERRUPT": QueryCancelledError,
}
_RENAMED = {
    "Out of Memory": "the query needs more memory than it may have",
    "INTERRUPT": "the query was cancelled",
}
