"""QueryError → the error object of an answer, with Trino's names and numbers.

Source: Trino: StandardErrorCode.
"""

from __future__ import annotations

import re
from typing import Any

from service.base.errors import QueryError, ScanLimitExceededError

_USER, _INTERNAL, _RESOURCES = "USER_ERROR", "INTERNAL_ERROR", "INSUFFICIENT_RESOURCES"
_UNKNOWN_FUNCTION = re.compile(r"(?:\w+ )?Function with name \S+ does not exist")
_GENERIC = ("GENERIC_INTERNAL_ERROR", 65_536, _INTERNAL)


def error_of(error: QueryError) -> dict[str, Any]:
    """Return the error object of the protocol."""
    # Our code for a division by zero is that of any invalid value; Trino has one of its own.
    code = "DIVISION_BY_ZERO" if error.message.startswith("Division by zero") else error.code
    if error.detail.startswith("Out of Range Error"):
        code = "NUMERIC_VALUE_OUT_OF_RANGE"
    elif _UNKNOWN_FUNCTION.match(error.message):
        code = "FUNCTION_NOT_FOUND"
    # So is the code of a scan that is too large.
    code = "EXCEEDED_SCAN_LIMIT" if isinstance(error, ScanLimitExceededError) else code
    name, number, kind = _ERRORS.get(code) or _BY_STATUS.get(error.status // 100, _GENERIC)
    message = error.message if error.hint is None else f"{error.message} ({error.hint})"
    position = error.position
    if position is not None:
        message = f"line {position.line}:{position.column}: {message}"
    content: dict[str, Any] = {
        "message": message,
        "errorCode": number,
        "errorName": name,
        "errorType": kind,
        "failureInfo": {"type": error.code, "message": message, "stack": [], "suppressed": []},
    }
    if position is not None:
        content["errorLocation"] = {"lineNumber": position.line, "columnNumber": position.column}
    return content


_BY_STATUS = {4: ("GENERIC_USER_ERROR", 0, _USER)}
# Our code → Trino's name, number and kind.
_ERRORS: dict[str, tuple[str, int, str]] = {
    "SYNTAX_ERROR": ("SYNTAX_ERROR", 1, _USER),
    "ABANDONED": ("ABANDONED_QUERY", 2, _USER),
    "STALLED": ("ABANDONED_QUERY", 2, _USER),
    "CANCELLED": ("USER_CANCELED", 3, _USER),
    "FORBIDDEN": ("PERMISSION_DENIED", 4, _USER),
    "NOT_FOUND": ("NOT_FOUND", 5, _USER),
    "QUERY_NOT_FOUND": ("NOT_FOUND", 5, _USER),
    "FUNCTION_NOT_FOUND": ("FUNCTION_NOT_FOUND", 6, _USER),
    "DIVISION_BY_ZERO": ("DIVISION_BY_ZERO", 8, _USER),
    "INVALID_VALUE": ("INVALID_CAST_ARGUMENT", 9, _USER),
    "INVALID_FUNCTION_ARGUMENT": ("INVALID_FUNCTION_ARGUMENT", 7, _USER),
    "NOT_SUPPORTED": ("NOT_SUPPORTED", 13, _USER),
    "INVALID_SESSION_PROPERTY": ("INVALID_SESSION_PROPERTY", 14, _USER),
    "NUMERIC_VALUE_OUT_OF_RANGE": ("NUMERIC_VALUE_OUT_OF_RANGE", 19, _USER),
    "LIMIT_EXCEEDED": ("QUERY_TEXT_TOO_LARGE", 35, _USER),
    "KILLED": ("ADMINISTRATIVELY_KILLED", 38, _USER),
    "CATALOG_NOT_FOUND": ("CATALOG_NOT_FOUND", 44, _USER),
    "DATABASE_NOT_FOUND": ("SCHEMA_NOT_FOUND", 45, _USER),
    "TABLE_NOT_FOUND": ("TABLE_NOT_FOUND", 46, _USER),
    "COLUMN_NOT_FOUND": ("COLUMN_NOT_FOUND", 47, _USER),
    "ENGINE_ERROR": _GENERIC,
    "ENGINE_UNAVAILABLE": ("REMOTE_TASK_ERROR", 65_542, _INTERNAL),
    "SERVICE_ENDING": ("SERVER_SHUTTING_DOWN", 65_545, _INTERNAL),
    "WORKER_LOST": ("REMOTE_HOST_GONE", 65_558, _INTERNAL),
    "EXCEEDED_MEMORY": ("EXCEEDED_LOCAL_MEMORY_LIMIT", 131_079, _RESOURCES),
    "TOO_MANY_QUERIES": ("QUERY_QUEUE_FULL", 131_074, _RESOURCES),
    "EXCEEDED_TIME_LIMIT": ("EXCEEDED_TIME_LIMIT", 131_075, _RESOURCES),
    "EXCEEDED_SCAN_LIMIT": ("EXCEEDED_SCAN_LIMIT", 131_081, _RESOURCES),
}
