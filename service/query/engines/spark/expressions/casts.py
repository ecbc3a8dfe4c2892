"""CAST and TRY_CAST.

Arithmetic: operators, intervals, rounding.
"""

from __future__ import annotations

import re
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
    binary,
    both,
    call,
    cast,
    if_else,
    instant_of,
    is_null,
    is_whole,
    knows,
    microseconds,
    number_literal,
    number_of,
    only,
    only_if,
    parsed,
    refuse_if,
    shown,
    text_of,
    translate,
)
from service.query.engines.spark.types import (
    HUGEINT,
    TIMESTAMP,
    Term,
    common_type,
    decimal,
    digits_of,
    is_integer,
    is_nanoseconds,
    is_number,
    is_plain_instant,
    spark_name,
)

# DuckDB reads more texts as numbers than Spark does; both read these alike.
_INTEGER_TEXT = "^-?[0-9]+$"
_NUMBER_TEXT = "^-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]{1,3})?$"


def _cast(node: exp.Expr, scope: Scope) -> Term:
    value, target = only(node, scope, "to", "safe"), _cast_type(node.args["to"])
    safe = isinstance(node, exp.TryCast)
    if value.type == target:
        return Term(value.node, target)
    if value.type == pa.null():
        return Term(as_type(value.node, target), target)
    if safe:
        return Term(_tried(value, target), target)
    if value.text is not None and not (pa.types.is_string(target) or pa.types.is_floating(target)):
        return Term(parsed(value.text, target), target)
    for source_test, target_test, convert in _CASTS:
        if source_test(value.type) and target_test(target):
            return Term(convert(value.node, value.type, target), target)
    raise NotOnSparkError(f"a cast of {value.type} to {target}")


def _cast_type(node: exp.DataType) -> pa.DataType:
    if node.this is exp.DType.DECIMAL:
        digits = [int(item.name) for item in node.expressions] or [18, 3]  # DuckDB's DECIMAL without digits
        return decimal(digits[0], digits[1] if len(digits) > 1 else 0)
    refuse_if(node.expressions or node.this not in _CAST_TYPES, f"a cast to {node.sql('duckdb')}")
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


_FAR_YEAR = "a year outside 1 to 9999 as text"
_Convert = Callable[[exp.Expr, pa.DataType, pa.DataType], exp.Expr]


def _plainly(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    return as_type(node, target)


def _rounded(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    digits = target.scale if pa.types.is_decimal(target) else 0
    return as_type(call("round", node, number_of(digits)), target)


def _text_to_number(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    pattern = _INTEGER_TEXT if is_integer(target) else _NUMBER_TEXT
    return _matching(node, pattern, as_type(node, target), "a cast of a text that is no plain number")


# DuckDB writes years before 1 as `(BC)`, and Spark those after 9999 with a sign.
def _date_to_text(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    first, last = (as_type(text_of(text), DATE) for text in ("0001-01-01", "9999-12-31"))
    known = exp.Between(this=node.copy(), low=first, high=last)
    return only_if(known, as_type(node, target), _FAR_YEAR)


def _instant_to_text(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    first, end = (
        as_type(text_of(text), TIMESTAMP) for text in ("0001-01-01 00:00:00", "9999-12-31 00:00:00")
    )
    known = exp.And(
        this=exp.GTE(this=node.copy(), expression=first), expression=exp.LT(this=node.copy(), expression=end)
    )
    return only_if(known, as_type(node, target), _FAR_YEAR)


def _from_nanoseconds(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    return as_type(microseconds(node), target)


def _is_nanosecond_timestamp(kind: pa.DataType) -> bool:
    return is_nanoseconds(kind) and bool(pa.types.is_timestamp(kind))


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
    # `rint` rounds halves to even numbers, as DuckDB does; Spark's CAST truncates.
    (
        pa.types.is_floating,
        pa.types.is_signed_integer,
        lambda node, _, target: as_type(call("rint", as_type(node, DOUBLE)), target),
    ),
    (pa.types.is_decimal, pa.types.is_floating, as_floating),
    (pa.types.is_decimal, is_number, _rounded),
    (pa.types.is_decimal, pa.types.is_string, _plainly),
    (pa.types.is_string, is_integer, _text_to_number),
    (pa.types.is_string, pa.types.is_float64, _text_to_number),
    (pa.types.is_date32, pa.types.is_string, _date_to_text),
    (is_plain_instant, pa.types.is_string, _instant_to_text),
    (is_plain_instant, pa.types.is_date32, _plainly),
    (is_plain_instant, _is_micros, _plainly),
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


_INTERVALS = frozenset({"YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})


def _neg(node: exp.Expr, scope: Scope) -> Term:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return number_literal(node.this.name, "-")
    value = translate(node.this, scope)
    refuse_if(not is_number(value.type), f"-{value.type}")
    return Term(exp.Neg(this=exp.Paren(this=value.node)), value.type)


def _arithmetic(node: exp.Expr, scope: Scope) -> Term:
    assert isinstance(node, exp.Binary)
    kind = type(node)
    if isinstance(node.this, exp.Interval) or isinstance(node.expression, exp.Interval):
        return _moved(node, scope)
    left, right = both(node, scope)
    if pa.types.is_temporal(left.type) or pa.types.is_temporal(right.type):
        return _dates(kind, left, right)
    _check_operands(node, left, right, is_known=is_number(left.type) and is_number(right.type))
    common = common_type(left, right)
    if is_integer(common) or pa.types.is_floating(common):
        made = binary(kind, cast(left, common), cast(right, common))
        return Term(as_type(made, common) if common == HUGEINT else made, common)
    return _decimals(kind, left, right)


def _check_operands(node: exp.Expr, left: Term, right: Term, *, is_known: bool) -> None:
    refuse_if(not is_known, f"{left.type} {node.key.upper()} {right.type}")


def _interval(node: exp.Interval) -> exp.Interval:
    unit, number = node.args.get("unit"), node.this
    if not isinstance(unit, exp.Var) or not isinstance(number, exp.Literal):
        raise NotOnSparkError("an INTERVAL that is not a number and a unit")
    name = unit.name.upper().removesuffix("S")
    is_known = name in _INTERVALS and re.fullmatch(r"-?\d{1,9}", number.name)
    refuse_if(not is_known, f"INTERVAL {number.name} {name}")
    return exp.Interval(this=text_of(number.name), unit=exp.var(name))


def _moved(node: exp.Binary, scope: Scope) -> Term:
    """Translate a date or timestamp plus or minus an interval."""
    knows(node, "this", "expression")
    kind, moved, by = type(node), node.this, node.expression
    if isinstance(moved, exp.Interval):
        moved, by = by, moved
        refuse_if(kind is not exp.Add, "INTERVAL - anything")
    refuse_if(isinstance(moved, exp.Interval), "INTERVAL beside INTERVAL")
    refuse_if(kind not in (exp.Add, exp.Sub), f"{kind.key.upper()} of INTERVAL")
    return Term(binary(kind, instant_of(translate(moved, scope)), _interval(by)), TIMESTAMP)


def _dates(kind: type[exp.Binary], left: Term, right: Term) -> Term:
    if kind is exp.Sub and left.type == DATE and right.type == DATE:
        return Term(as_type(call("datediff", left.node, right.node), BIGINT), BIGINT)
    if kind in (exp.Add, exp.Sub) and left.type == DATE and is_integer(right.type):
        name = "date_add" if kind is exp.Add else "date_sub"
        return Term(call(name, left.node, as_type(right.node, INTEGER)), DATE)
    raise NotOnSparkError(f"{left.type} {kind.key.upper()} {right.type}")


def _decimals(kind: type[exp.Binary], left: Term, right: Term) -> Term:
    (first, scale), (second, other) = digits_of(left.type), digits_of(right.type)
    if kind is exp.Mul:
        result = decimal(first + second, scale + other)
        decimal(first + second + 1, scale + other)  # Spark's product has a digit more, which must fit, too
    else:
        result = decimal(max(first - scale, second - other) + max(scale, other) + 1, max(scale, other))
    operands = (as_type(typed.node, decimal(*digits_of(typed.type))) for typed in (left, right))
    return Term(as_type(binary(kind, *operands), result), result)


def _division(node: exp.Expr, scope: Scope) -> Term:
    left, right = both(node, scope, "typed", "safe")
    refuse_if(not (is_number(left.type) and is_number(right.type)), f"{left.type} / {right.type}")
    has_floating = pa.types.is_floating(left.type) or pa.types.is_floating(right.type)
    common = common_type(left, right) if has_floating else DOUBLE
    return Term(_divided(cast(left, common), cast(right, common), common, right), common)


def _divided(left: exp.Expr, right: exp.Expr, kind: pa.DataType, divisor: Term) -> exp.Expr:
    """Return a division by the rules of IEEE 754: by zero it is ±infinity or NaN. Spark raises an error by zero."""
    quotient = binary(exp.Div, left, right)
    if kind != DOUBLE:
        quotient = as_type(binary(exp.Div, as_type(left, DOUBLE), as_type(right, DOUBLE)), kind)
    if divisor.integer:  # a literal that is not zero
        return quotient
    zero = exp.EQ(this=right.copy(), expression=as_type(number_of(0), kind))
    infinity = as_type(text_of("Infinity"), kind)
    if pa.types.is_floating(divisor.type):
        # -0.0 = 0.0, so only its text shows the sign.
        negative = exp.EQ(this=as_type(right.copy(), TEXT), expression=text_of("-0.0"))
        infinity = if_else(negative, as_type(text_of("-Infinity"), kind), infinity)
    # The product has the right sign, and is NaN for 0 / 0.
    return if_else(zero, binary(exp.Mul, left.copy(), infinity), quotient)


def _whole(node: exp.Expr, scope: Scope) -> Term:
    """Translate `//` or `%` of integers; by zero both engines raise an error."""
    left, right = both(node, scope)
    common = common_type(left, right)
    is_division = isinstance(node, exp.IntDiv)
    is_known = is_integer(common) and not (is_division and common == HUGEINT)
    _check_operands(node, left, right, is_known=is_known)
    operands = cast(left, common), cast(right, common)
    made = call("div", *operands) if is_division else binary(exp.Mod, *operands)
    return Term(as_type(made, common), common)


def _bits(node: exp.Expr, scope: Scope) -> Term:
    assert isinstance(node, exp.Binary)
    left, right = both(node, scope)
    common = common_type(left, right)
    _check_operands(node, left, right, is_known=pa.types.is_signed_integer(common))
    return Term(binary(type(node), cast(left, common), cast(right, common)), common)


def _abs(node: exp.Expr, scope: Scope) -> Term:
    value = _numeric(node, scope)
    return Term(call("abs", value.node), value.type)


def _sign(node: exp.Expr, scope: Scope) -> Term:
    value = _numeric(node, scope)
    return Term(as_type(call("sign", as_type(value.node, DOUBLE)), pa.int8()), pa.int8())


def _isnan(node: exp.Expr, scope: Scope) -> Term:
    value = _numeric(node, scope)
    refuse_if(not pa.types.is_floating(value.type), f"isnan() of {value.type}")
    # Spark's isnan(NULL) is false.
    return Term(if_else(is_null(value.node), exp.Null(), call("isnan", value.node.copy())), BOOLEAN)


def _numeric(node: exp.Expr, scope: Scope) -> Term:
    value = only(node, scope)
    refuse_if(not is_number(value.type), f"{shown(node)} of {value.type}")
    return Term(value.node, value.type)


def _round(node: exp.Expr, scope: Scope) -> Term:
    value, places = only(node, scope, "decimals"), node.args.get("decimals")
    refuse_if(places is not None and not is_whole(places), "round() to anything but a number of digits")
    digits = int(places.name) if places is not None else 0
    if is_integer(value.type):
        return Term(value.node, value.type)
    if pa.types.is_decimal(value.type):
        precision, scale = digits_of(value.type)
        result = decimal(precision, min(digits, scale))
        return Term(as_type(call("round", value.node, number_of(min(digits, scale))), result), result)
    refuse_if(value.type != DOUBLE or digits > 15, f"round() of {value.type} to {digits} digits")
    if places is None:
        return Term(_signed(call("round", value.node), value.node), DOUBLE)
    factor = as_type(text_of(f"1e{digits}"), DOUBLE)
    scaled = call("round", binary(exp.Mul, value.node, factor))
    return Term(_signed(binary(exp.Div, scaled, factor.copy()), value.node), DOUBLE)


def _signed(rounded: exp.Expr, value: exp.Expr) -> exp.Expr:
    """Return a rounded DOUBLE with the sign of the value where it is zero: Spark rounds by numbers that have no -0.0."""
    zero = as_type(text_of("0.0"), DOUBLE)
    is_zero = exp.EQ(this=exp.Paren(this=rounded.copy()), expression=zero)
    return if_else(is_zero, binary(exp.Mul, call("signum", value.copy()), zero.copy()), rounded)


def _whole_number(node: exp.Expr, scope: Scope) -> Term:
    """Translate `ceil` or `floor`: Spark's return BIGINTs, so large DOUBLEs need a case of their own."""
    value, name = _numeric(node, scope), node.key
    if is_integer(value.type):
        return Term(cast(value, DOUBLE), DOUBLE)
    if pa.types.is_decimal(value.type):
        result = decimal(value.type.precision, 0)
        return Term(as_type(call(name, value.node), result), result)
    refuse_if(value.type != DOUBLE, f"{name}() of {value.type}")
    # From 2**52 on, every DOUBLE is a whole number.
    small = exp.LT(this=call("abs", value.node), expression=as_type(text_of("4503599627370496"), DOUBLE))
    rounded = _signed(as_type(call(name, value.node.copy()), DOUBLE), value.node)
    return Term(if_else(small, rounded, value.node.copy()), DOUBLE)


HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.Abs: _abs,
    **dict.fromkeys((exp.Add, exp.Mul, exp.Sub), _arithmetic),
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr), _bits),
    **dict.fromkeys((exp.Cast, exp.TryCast), _cast),
    **dict.fromkeys((exp.Ceil, exp.Floor), _whole_number),
    **dict.fromkeys((exp.IntDiv, exp.Mod), _whole),
    exp.Div: _division,
    exp.IsNan: _isnan,
    exp.Neg: _neg,
    exp.Round: _round,
    exp.Sign: _sign,
    exp.Sqrt: lambda node, scope: Term(call("sqrt", cast(_numeric(node, scope), DOUBLE)), DOUBLE),
}
