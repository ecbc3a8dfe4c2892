"""The texts of DuckDB's errors → errors of the service.

DuckDB's Python module has a class for each kind of error, but an error inside a scan or on an executor of Spark comes as text
only. So all errors are known by their texts: `KIND Error: MESSAGE`, with candidates, advice and a piece of the statement in
further lines.
"""

from __future__ import annotations

import re

from catalog.errors import near_names
from service.errors import (
    ColumnNotFoundError,
    EngineError,
    ForbiddenError,
    InvalidQueryError,
    InvalidValueError,
    MemoryExceededError,
    QueryCancelledError,
    QueryError,
    QuerySyntaxError,
    near_names_hint,
    without_folders,
)
from service.sql.plan import Plan

_MISSING_COLUMN = re.compile(
    r'(?:Referenced column|does not have a column named) "(?P<name>(?:[^"]|"")+)"'
    r"|Could not find key \"(?P<key>[^\"]+)\" in struct"
)
_MISSING_TABLE = re.compile(r'Referenced table "(?P<name>[^"]+)" not found')
_CANDIDATES = re.compile(r"Candidate (?:bindings|tables|Entries): (?P<names>[^\n]*)")
# Kinds may have several words: `Invalid Input Error: …`.
_KIND = re.compile(r"^(?P<kind>[A-Za-z][A-Za-z ]*?) Error: (?P<message>.*)", re.DOTALL)
# What follows repeats a part of the statement, or lists functions that are not allowed here.
_END_OF_MESSAGE = re.compile(
    r"\n\s*(?:LINE \d+:|Candidate functions:|Possible solutions:|Detail:).*", re.DOTALL
)


def statement_error_of(text: str, plan: Plan) -> QueryError:
    """Return the error that DuckDB's text means, with the place in the statement and names that are near."""
    found = _KIND.match(text)
    kind, message = (found["kind"], found["message"]) if found else ("", text)
    candidates = _CANDIDATES.search(message)
    plain = without_folders(_CANDIDATES.sub("", _END_OF_MESSAGE.sub("", message)).strip())
    missing = _MISSING_COLUMN.search(message)
    if missing is not None:
        return _missing_column(missing["name"] or missing["key"], candidates, plan)
    unknown = _MISSING_TABLE.search(message)
    position = plan.position_of(unknown["name"]) if unknown else None
    hint = near_names_hint(tuple(re.findall(r'"([^"]+)"', candidates["names"]))) if candidates else None
    # DuckDB puts its advice into further lines.
    plain, _, advice = plain.partition("\n")
    error = _ERRORS.get(kind, EngineError)
    return error(
        _RENAMED.get(kind, plain), hint=hint or advice.strip() or None, position=position, detail=text
    )


def value_error_of(text: str) -> QueryError:
    """Return the error that DuckDB's text means, without a statement: for an error in a value."""
    found = _KIND.match(text)
    kind, message = (found["kind"], found["message"]) if found else ("", text)
    plain = without_folders(_END_OF_MESSAGE.sub("", message).strip()).partition("\n")[0]
    return _ERRORS.get(kind, EngineError)(_RENAMED.get(kind, plain), detail=text)


def _missing_column(name: str, candidates: re.Match[str] | None, plan: Plan) -> ColumnNotFoundError:
    known = {column for reference in plan.tables for column in reference.table.schema.names}
    listed = re.findall(r'"([^"]+)"', candidates["names"]) if candidates else []
    near = tuple(dict.fromkeys([*near_names(name, known), *listed]))[:3]
    return ColumnNotFoundError(
        f"there is no column {name!r}", hint=near_names_hint(near), position=plan.position_of(name)
    )


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
