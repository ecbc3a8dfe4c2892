"""The texts of Spark's errors → errors of the service.

An error on an executor or in its Python comes as the text of a Java exception with traces in it. So all errors are known by
their texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import catalog.errors
import readers
from service.base.errors import (
    EngineError,
    EngineUnavailableError,
    InvalidQueryError,
    InvalidValueError,
    NotOnSparkError,
    QueryError,
    query_error_of,
    without_folders,
)
from service.query.engines.duckdb.errors import value_error_of
from service.query.engines.spark.files import SHARED

# `service.spark.types` writes errors of ours in this form, Spark those of `raise_error` in that of `_RAISED`.
_CARRIED = re.compile(r"\[savepoint (?P<kind>\w+)\] (?P<text>[^\n]*)")
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'")
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (?P<text>.*?) is not answered by Spark as by DuckDB")
_CONDITION = re.compile(r"\[(?P<name>[A-Z][A-Z_]+)(?:\.[A-Z_]+)?\] (?P<text>[^\n]*)")
# Spark's advice names its own functions and settings, which are of no use here.
_ADVICE = re.compile(r" (?:Use|If necessary|To return|SQLSTATE:).*", re.DOTALL)
# Texts of errors after which Spark has to be started, or its server asked, anew.
_GONE = (
    "Connection refused",
    "Py4JNetworkError",
    "Answer from Java side is empty",
    "Cannot call methods on a stopped SparkContext",
    "SparkContext was shut down",
    "'JavaPackage' object is not callable",
    "Master removed our application",
    "All masters are unresponsive",
    "StatusCode.UNAVAILABLE",
    "[INVALID_HANDLE.",
    "[RETRIES_EXCEEDED]",
)
_ERRORS: Mapping[str, type[QueryError] | Callable[..., QueryError]] = {
    "ARITHMETIC_OVERFLOW": InvalidValueError,
    "BINARY_ARITHMETIC_OVERFLOW": InvalidValueError,
    "CAST_INVALID_INPUT": InvalidValueError,
    "CAST_OVERFLOW": InvalidValueError,
    "DATETIME_OVERFLOW": InvalidValueError,
    "DIVIDE_BY_ZERO": InvalidValueError,
    "NUMERIC_VALUE_OUT_OF_RANGE": InvalidValueError,
    "REMAINDER_BY_ZERO": InvalidValueError,
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": InvalidValueError,
    "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY": InvalidQueryError,
}


def spark_error_of(text: str) -> QueryError:
    """Return the error that a text of Spark's means."""
    carried = _CARRIED.search(text)
    if carried is not None:
        return _carried_error(carried["kind"], carried["text"])
    missing = missing_module(text)
    if missing:
        return EngineUnavailableError(
            f"the workers of Spark have no Python package {missing!r}",
            hint="install savepointdb on them, or send what it needs with spark.archives",
            detail=text,
        )
    raised = _RAISED.search(text)
    if raised is not None:
        return NotOnSparkError(raised["text"])
    if any(sign in text for sign in _GONE):
        return EngineUnavailableError("Spark is gone; the next query asks for it anew", detail=text)
    found = _CONDITION.search(text)
    name, message = (
        (found["name"], _ADVICE.sub("", found["text"])) if found else ("", text.partition("\n")[0])
    )
    kind = _ERRORS.get(name, EngineError)
    return kind(f"Spark: {without_folders(message)}", detail=text)


def missing_module(text: str) -> str:
    """Return the name of the Python package that is missing; empty if the error is another."""
    found = _MISSING_MODULE.search(text)
    return found["name"] if found is not None else ""


def _carried_error(kind: str, text: str) -> QueryError:
    """Return an error of the readers or the catalog that came as text from another process."""
    found = getattr(readers, kind, None)
    if isinstance(found, type) and issubclass(found, readers.ReaderError):
        return query_error_of(found(text))
    if kind == "NotWrittenError":
        return EngineError(f"an executor cannot write {without_folders(text)}", hint=SHARED)
    if kind == "PartialError":
        return value_error_of(text)
    if hasattr(catalog.errors, kind):
        return query_error_of(catalog.errors.CatalogError(text))
    return EngineError(without_folders(text), detail=text)
