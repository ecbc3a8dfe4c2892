"""CAST and TRY_CAST."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from service.base.errors import NotOnSparkError
from service.query.engines.spark.expressions.terms import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TEXT,
    Handler,
    Scope,
    as_floating,
    as_type,
    call,
    knows,
    microseconds,
    number_of,
    only_if,
    parsed,
    text_of,
    translate,
)
from service.query.engines.spark.types import (
    HUGEINT,
    TIMESTAMP,
    Term,
    decimal,
    is_integer,
    is_nanoseconds,
    spark_name,
)

# DuckDB reads more texts as numbers than Spark does; both read these alike.
_INTEGER_TEXT = "^-?[0-9]+$"
_NUMBER_TEXT = "^-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]{1,3})?$"


def _cast(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "to", "safe")
    value, target = translate(node.this, scope), _cast_type(node.args["to"])
    safe = isinstance(node, exp.TryCast)
    if value.type == target:
        return Term(value.node, target)
    if value.type == pa.null():
        return Term(as_type(value.node, target), target)
    if (
        value.text is not None
        and not safe
        and not pa.types.is_string(target)
        and not pa.types.is_floating(target)
    ):
        return Term(parsed(value.text, target), target)
    if safe:
        return Term(_tried(value, target), target)
    for source_test, target_test, convert in _CASTS:
        if source_test(value.type) and target_test(target):
            return Term(convert(value.node, value.type, target), target)
    raise NotOnSparkError(f"a cast of {value.type} to {target}")


def _cast_type(node: exp.DataType) -> pa.DataType:
    if node.this is exp.DType.DECIMAL:
        digits = [int(item.name) for item in node.expressions] or [18, 3]  # DuckDB's DECIMAL without digits
        return decimal(digits[0], digits[1] if len(digits) > 1 else 0)
    if node.expressions or node.this not in _CAST_TYPES:
        raise NotOnSparkError(f"a cast to {node.sql('duckdb')}")
    return _CAST_TYPES[node.this]


def _tried(value: Term, target: pa.DataType) -> exp.Expr:
    name = exp.DataType.build(spark_name(target), dialect="spark")
    tried = exp.TryCast(this=value.node, to=name, safe=True)
    if is_integer(value.type) and is_integer(target):
        return tried
    if pa.types.is_string(value.type) and is_integer(target):
        return _matching(value.node, _INTEGER_TEXT, tried, "TRY_CAST of a text that is no plain number")
    raise NotOnSparkError(f"a cast of {value.type} to {target}")


def _matching(text: exp.Expr, pattern: str, then: exp.Expr, otherwise: str) -> exp.Expr:
    return only_if(call("rlike", text.copy(), text_of(pattern)), then, otherwise)


_Convert = Callable[[exp.Expr, pa.DataType, pa.DataType], exp.Expr]


def _plainly(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    return as_type(node, target)


def _float_to_integer(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    # `rint` rounds halves to even numbers, as DuckDB does; Spark's CAST truncates.
    return as_type(call("rint", as_type(node, DOUBLE)), target)


def _decimal_to_integer(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    return as_type(call("round", node, number_of(0)), target)


def _decimal_to_decimal(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    return as_type(call("round", node, number_of(target.scale)), target)


def _text_to_number(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    pattern = _INTEGER_TEXT if is_integer(target) else _NUMBER_TEXT
    return _matching(node, pattern, as_type(node, target), "a cast of a text that is no plain number")


# DuckDB writes years before 1 as `(BC)`, and Spark those after 9999 with a sign.
def _date_to_text(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    known = exp.Between(
        this=node.copy(), low=as_type(text_of("0001-01-01"), DATE), high=as_type(text_of("9999-12-31"), DATE)
    )
    return only_if(known, as_type(node, target), "a year outside 1 to 9999 as text")


def _instant_to_text(node: exp.Expr, source: pa.DataType, target: pa.DataType) -> exp.Expr:
    known = exp.And(
        this=exp.GTE(this=node.copy(), expression=as_type(text_of("0001-01-01 00:00:00"), TIMESTAMP)),
        expression=exp.LT(this=node.copy(), expression=as_type(text_of("9999-12-31 00:00:00"), TIMESTAMP)),
    )
    return only_if(known, as_type(node, target), "a year outside 1 to 9999 as text")


def _from_nanoseconds(node: exp.Expr, source: pa.DataType, target: pa.DataType) -> exp.Expr:
    return as_type(microseconds(node), target)


def _is_nanosecond_timestamp(kind: pa.DataType) -> bool:
    return is_nanoseconds(kind) and bool(pa.types.is_timestamp(kind))


def _is_local_timestamp(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.tz is None and kind.unit != "ns"


def _is_micros(kind: pa.DataType) -> bool:
    return bool(kind == TIMESTAMP)


# (type of the value, type to cast to, translation): the first that fits; a pair without a line is refused.
_CASTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool], _Convert], ...] = (
    (is_integer, is_integer, _plainly),
    (is_integer, pa.types.is_floating, as_floating),
    (is_integer, pa.types.is_decimal, _plainly),
    (is_integer, pa.types.is_string, _plainly),
    (is_integer, pa.types.is_boolean, _plainly),
    (pa.types.is_boolean, pa.types.is_signed_integer, _plainly),
    (pa.types.is_boolean, pa.types.is_string, _plainly),
    (pa.types.is_floating, pa.types.is_floating, _plainly),
    (pa.types.is_floating, pa.types.is_signed_integer, _float_to_integer),
    (pa.types.is_decimal, is_integer, _decimal_to_integer),
    (pa.types.is_decimal, pa.types.is_floating, as_floating),
    (pa.types.is_decimal, pa.types.is_decimal, _decimal_to_decimal),
    (pa.types.is_decimal, pa.types.is_string, _plainly),
    (pa.types.is_string, is_integer, _text_to_number),
    (pa.types.is_string, pa.types.is_float64, _text_to_number),
    (pa.types.is_date32, pa.types.is_string, _date_to_text),
    (pa.types.is_date32, _is_micros, _plainly),
    (_is_local_timestamp, pa.types.is_string, _instant_to_text),
    (_is_local_timestamp, pa.types.is_date32, _plainly),
    (_is_local_timestamp, _is_micros, _plainly),
    (_is_nanosecond_timestamp, _is_micros, _from_nanoseconds),
    (_is_nanosecond_timestamp, pa.types.is_date32, _from_nanoseconds),
)
_CAST_TYPES = {
    exp.DType.BOOLEAN: BOOLEAN,
    exp.DType.TINYINT: pa.int8(),
    exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: INTEGER,
    exp.DType.BIGINT: BIGINT,
    exp.DType.INT128: HUGEINT,
    exp.DType.FLOAT: pa.float32(),
    exp.DType.DOUBLE: DOUBLE,
    exp.DType.TEXT: TEXT,
    exp.DType.VARCHAR: TEXT,
    exp.DType.DATE: DATE,
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: TIMESTAMP,
}


HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.Cast: _cast,
    exp.TryCast: _cast,
}
