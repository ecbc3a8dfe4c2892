"""Functions of dates and timestamps."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from service.base.errors import NotOnSparkError
from service.query.engines.spark.expressions.terms import (
    BIGINT,
    DATE,
    DOUBLE,
    Handler,
    Scope,
    as_type,
    binary,
    call,
    instant_of,
    knows,
    number_of,
    text_of,
    thousandths,
    translate,
)
from service.query.engines.spark.types import TIMESTAMP, Term, is_nanoseconds

_TRUNCATED_TO = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})


def _part(name: str, shift: int = 0) -> Callable[[exp.Expr], exp.Expr]:
    def made(instant: exp.Expr) -> exp.Expr:
        number = call(name, instant)
        return as_type(binary(exp.Add, number, number_of(shift)) if shift else number, BIGINT)

    return made


# Spark counts days of the week from Sunday = 1 (`dayofweek`) or Monday = 0 (`weekday`); DuckDB from Sunday = 0 (DOW) or
# Monday = 1 (ISODOW).
_PARTS: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    "YEAR": _part("year"),
    "QUARTER": _part("quarter"),
    "MONTH": _part("month"),
    "WEEK": _part("weekofyear"),
    "DAY": _part("day"),
    "HOUR": _part("hour"),
    "MINUTE": _part("minute"),
    "SECOND": _part("second"),
    "DOY": _part("dayofyear"),
    "DAYOFYEAR": _part("dayofyear"),
    "DOW": _part("dayofweek", -1),
    "DAYOFWEEK": _part("dayofweek", -1),
    "ISODOW": _part("weekday", 1),
}


def _extract(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expression")
    unit = node.this.name.upper()
    value = translate(node.args["expression"], scope)
    if unit == "EPOCH":
        return _epoch_of(value)
    if unit not in _PARTS:
        raise NotOnSparkError(f"extract({unit})")
    return Term(_PARTS[unit](instant_of(value)), BIGINT)


def _part_call(unit: str) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Term:
        knows(node, "this")
        return Term(_PARTS[unit](instant_of(translate(node.this, scope))), BIGINT)

    return handle


def _epoch(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this")
    return _epoch_of(translate(node.this, scope))


def _epoch_of(value: Term) -> Term:
    # Spark's own functions of the epoch take timestamps with a zone; the session's zone is UTC.
    micros = call("unix_micros", as_type(instant_of(value), pa.timestamp("us", tz="UTC")))
    return Term(binary(exp.Div, as_type(micros, DOUBLE), as_type(text_of("1e6"), DOUBLE)), DOUBLE)


def _epoch_ms(node: exp.Expr, scope: Scope) -> Term:
    """Translate `epoch_ms(timestamp)`, which sqlglot parses as the function that makes a timestamp of a number."""
    knows(node, "this", "scale")
    value, scale = translate(node.this, scope), node.args.get("scale")
    if (
        scale is None
        or scale.name != "3"
        or not pa.types.is_timestamp(value.type)
        or is_nanoseconds(value.type)
    ):
        raise NotOnSparkError("this conversion of an epoch")
    micros = call("unix_micros", as_type(instant_of(value), pa.timestamp("us", tz="UTC")))
    return Term(thousandths(micros), BIGINT)


def _date_trunc(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "unit")
    unit = node.args["unit"].name.upper()
    if unit not in _TRUNCATED_TO:
        raise NotOnSparkError(f"date_trunc({unit})")
    instant = as_type(instant_of(translate(node.this, scope)), pa.timestamp("us", tz="UTC"))
    return Term(as_type(call("date_trunc", text_of(unit), instant), TIMESTAMP), TIMESTAMP)


def _date_diff(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expression", "unit", "date_part_boundary")
    later, earlier = translate(node.this, scope), translate(node.args["expression"], scope)
    if node.args["unit"].name.upper() != "DAY":
        raise NotOnSparkError(f"date_diff({node.args['unit'].name})")
    # DuckDB counts the midnights between two instants: only their dates matter.
    days = (as_type(instant_of(value), DATE) for value in (later, earlier))
    return Term(as_type(call("datediff", *days), BIGINT), BIGINT)


HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.DateDiff: _date_diff,
    exp.DateTrunc: _date_trunc,
    exp.Day: _part_call("DAY"),
    exp.DayOfWeek: _part_call("DOW"),
    exp.DayOfWeekIso: _part_call("ISODOW"),
    exp.DayOfYear: _part_call("DOY"),
    exp.Extract: _extract,
    exp.Hour: _part_call("HOUR"),
    exp.Minute: _part_call("MINUTE"),
    exp.Month: _part_call("MONTH"),
    exp.Quarter: _part_call("QUARTER"),
    exp.Second: _part_call("SECOND"),
    exp.TimeToUnix: _epoch,
    exp.TimestampTrunc: _date_trunc,
    exp.UnixToTime: _epoch_ms,
    exp.Year: _part_call("YEAR"),
}
