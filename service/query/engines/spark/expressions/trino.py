"""The macros of the dialects of Trino and Flink, for types of which they mean a plain expression.

They are in `service.query.sql.trino.macros` and `service.query.sql.flink.macros`.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from service.base.errors import NotOnSparkError
from service.query.engines.spark.expressions.terms import DATE, Handler, Scope, as_type, shown, translate
from service.query.engines.spark.types import TIMESTAMP, Term
from service.query.sql.flink.macros import PREFIX as FLINK
from service.query.sql.trino.macros import PREFIX

_UNITS_OF_DATES = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY"})
# Texts, integers, booleans, dates: in this order.
_PLAIN = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date32)


def _date_trunc(node: exp.Expr, scope: Scope) -> Term:
    unit, value = _two(node)
    kind = _type_of(value, scope)
    if not isinstance(unit, exp.Literal):
        raise NotOnSparkError(shown(node))
    # sqlglot annotates no argument of this class.
    plain = exp.DateTrunc(this=value.copy(), unit=exp.var(unit.name.upper()))  # type: ignore[no-untyped-call]
    return _of_dates(plain, unit.name, kind, scope)


def _plus(node: exp.Expr, scope: Scope) -> Term:
    value, interval = _two(node)
    written = interval.this if isinstance(interval, exp.Neg) else interval
    while isinstance(written, exp.Paren):
        written = written.this
    if not isinstance(written, exp.Interval) or written.args.get("unit") is None:
        raise NotOnSparkError(shown(node))
    made = exp.Sub if isinstance(interval, exp.Neg) else exp.Add
    kind = _type_of(value, scope)
    return _of_dates(
        made(this=value.copy(), expression=written.copy()), written.args["unit"].name, kind, scope
    )


def _of_dates(plain: exp.Expr, unit: str, kind: pa.DataType, scope: Scope) -> Term:
    """Return a plain expression of dates, in the type of its argument."""
    if kind == TIMESTAMP:
        return translate(plain, scope)
    if kind != DATE or unit.upper() not in _UNITS_OF_DATES:
        raise NotOnSparkError(f"{unit} of {kind}")
    return Term(as_type(translate(plain, scope).node, DATE), DATE)


def _cast(target: str, *known: int) -> Handler:
    """Return the handler of a cast that is DuckDB's for some types.

    Args:
        target: the type.
        known: numbers of `_PLAIN`.
    """

    def handle(node: exp.Expr, scope: Scope) -> Term:
        if len(node.expressions) != 1:
            raise NotOnSparkError(shown(node))
        kind = _type_of(node.expressions[0], scope)
        if not any(_PLAIN[number](kind) for number in known):
            raise NotOnSparkError(f"this cast of {kind}")
        return translate(exp.cast(node.expressions[0].copy(), target), scope)

    return handle


def _two(node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    if len(node.expressions) != 2:
        raise NotOnSparkError(shown(node))
    first, second = node.expressions
    return first, second


def _type_of(node: exp.Expr, scope: Scope) -> pa.DataType:
    return translate(node, scope).type


_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}
MACROS: dict[str, Handler] = {
    PREFIX + "date_trunc": _date_trunc,
    PREFIX + "plus": _plus,
    PREFIX + "varchar": _cast("VARCHAR", 0, 1, 2, 3),
    FLINK + "string": _cast("VARCHAR", 0, 1, 3),
    **{
        f"{prefix}integer_of_{bits}": _cast(name, 1, 2)
        for prefix in (PREFIX, FLINK)
        for bits, name in _INTEGERS.items()
    },
}
