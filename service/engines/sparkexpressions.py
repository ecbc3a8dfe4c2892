"""An expression of DuckDB's SQL → one of Spark's that means the same, with its type.

Both engines know most names, and mean different things by many: so only what is in the tables below is translated, each
entry with what it takes to mean the same, and all else is refused. An entry that knows an argument of a node says so; an
argument that none knows is refused, too. What differs, and what is done about it:

| DuckDB | Spark | here |
|---|---|---|
| `1 / 2` = 0.5, `1 / 0` = inf | decimals divide as decimals, division by zero is an error | divided as doubles, zero apart |
| literals take the type beside them; TINYINTs overflow | others do | casts to DuckDB's type, before and after |
| `sum(BIGINT)` is a HUGEINT | BIGINT, overflows | summed in two halves |
| `avg(DECIMAL)` is a DOUBLE | a decimal | sum / count |
| CAST rounds | CAST truncates | rounded first |
| `list[1]` is the first, `list[9]` is NULL | `[0]` is, `[9]` is an error | `try_element_at` |
| `list(x)` keeps NULLs; NULL where there is no row | drops them; `[]` | a list of structs |
| NULLs last, also in DESC | NULLs first | said explicitly |
| `concat` passes over NULL | is NULL | `concat_ws` |
| text casts to numbers leniently (`'1e3'::INT`) | strictly | plain digits, or an error |
| LOWER, UPPER: a letter for a letter | `ß` → `SS`, `ς` | an error where a text has such letters |
| timestamps and times of nanoseconds | none | BIGINT, see `service/spark/types.py` |

Floating-point sums depend on the order of the rows, on either engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Protocol

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from service.engines.sparktypes import (
    HUGEINT,
    TIMESTAMP,
    Typed,
    common_type,
    decimal,
    digits_of,
    holds,
    integer_type,
    is_integer,
    is_nanoseconds,
    is_nested,
    is_number,
    spark_name,
)
from service.errors import NotOnSparkError

DOUBLE, BIGINT, INTEGER, TEXT, BOOLEAN, DATE = (
    pa.float64(),
    pa.int64(),
    pa.int32(),
    pa.string(),
    pa.bool_(),
    pa.date32(),
)
_DUCKDB = Dialect.get_or_raise("duckdb")
_DATE_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)?")
_INTEGER_TEXT = "^-?[0-9]+$"
_NUMBER_TEXT = "^-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]{1,3})?$"
# Letters that become several, or another one at the end of a word, in Java's toLowerCase and toUpperCase.
_ODD_LOWER = "[\\u0130\\u03A3]"
_ODD_UPPER = "[\\u00DF\\u0149\\u01F0\\u0345\\u0390\\u03B0\\u0587\\u1E96-\\u1E9E\\u1F50-\\u1F57\\u1F80-\\u1FFC\\uFB00-\\uFB17]"
_TRUNCATED_TO = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})
_INTERVALS = frozenset({"YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})

Wrap = Callable[[exp.Expr], exp.Expr]


class Scope(Protocol):
    """What names mean where an expression stands."""

    def column(self, node: exp.Column) -> Typed:
        """The column of that name."""

    def subquery(self, query: exp.Query) -> tuple[exp.Query, list[tuple[str, pa.DataType]]]:
        """A query inside an expression, translated, and its columns."""


def translate(node: exp.Expr, scope: Scope) -> Typed:
    """An expression for Spark, and its type.

    Raises:
        NotOnSparkError: Spark cannot answer it as DuckDB does.
    """
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise NotOnSparkError(_shown(node))
    return handler(node, scope)


def translate_to(node: exp.Expr, target: pa.DataType, scope: Scope) -> exp.Expr:
    """An expression, as this type."""
    return cast(translate(node, scope), target)


def cast(typed: Typed, target: pa.DataType) -> exp.Expr:
    """A value as the type that it has beside others; never one that loses something."""
    if typed.text is not None and not pa.types.is_string(target):
        return _parsed(typed.text, target)
    if typed.type == target:
        return typed.node if typed.integer is None else _as(typed.node, target)
    if is_nanoseconds(typed.type) and pa.types.is_timestamp(target):
        return _microseconds(typed.node)
    if is_nanoseconds(target) and pa.types.is_timestamp(typed.type) and pa.types.is_timestamp(target):
        return _nanoseconds(typed.node)
    if typed.type != pa.null() and is_nanoseconds(target):
        raise NotOnSparkError(f"{typed.type} beside {target}")
    return _as(typed.node, target)


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A call of a Spark function, written as it is."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def ordered(node: exp.Expr, scope: Scope) -> exp.Ordered:
    """One item of an ORDER BY."""
    assert isinstance(node, exp.Ordered)
    _knows(node, "this", "desc", "nulls_first")
    item = translate(node.this, scope)
    if is_nested(item.type):
        raise NotOnSparkError(f"an order of {item.type}")
    return exp.Ordered(
        this=item.node, desc=bool(node.args.get("desc")), nulls_first=bool(node.args.get("nulls_first"))
    )


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an expression aggregates; a window does not."""
    if isinstance(node, exp.Window | exp.Query):
        return False
    if type(node) in _AGGREGATES:
        return True
    return any(has_aggregate(child) for child in node.iter_expressions())


def _as(node: exp.Expr, target: pa.DataType) -> exp.Expr:
    if target == pa.null():
        return node
    return exp.Cast(this=node, to=exp.DataType.build(spark_name(target), dialect="spark"))


def _knows(node: exp.Expr, *arguments: str) -> None:
    for name, value in node.args.items():
        if name not in arguments and value not in (None, False, []):
            raise NotOnSparkError(f"{_shown(node)} with {name.replace('_', ' ').upper()}")


def _shown(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return f"{node.name}()"
    return f"{node.sql_name().lower()}()" if isinstance(node, exp.Func) else node.key.upper()


def _number(value: float | str) -> exp.Expr:
    return exp.Literal.number(value)


def _text(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def _if(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=otherwise)


def _only_if(condition: exp.Expr, then: exp.Expr, otherwise: str) -> exp.Expr:
    """`then`, or an error where the condition is false; NULL is neither."""
    error = call("raise_error", _text(f"{otherwise} is not answered by Spark as by DuckDB"))
    return exp.Case(ifs=[exp.If(this=exp.Not(this=exp.Paren(this=condition)), true=error)], default=then)


def _binary(kind: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Paren(this=kind(this=left, expression=right))


def _parsed(text: str, target: pa.DataType) -> exp.Expr:
    """A text literal as the type beside it."""
    if is_integer(target) and re.fullmatch(r"-?\d{1,19}", text) and holds(target, int(text)):
        return _as(_number(text), target)
    if pa.types.is_date(target) and _DATE_TEXT.fullmatch(text):
        return _as(_text(text), target)
    if pa.types.is_timestamp(target) and target.tz is None and _TIMESTAMP_TEXT.fullmatch(text):
        instant = _as(_text(text), TIMESTAMP)
        return _nanoseconds(instant) if target.unit == "ns" else instant
    raise NotOnSparkError(f"the text {text!r} as {target}")


def _microseconds(nanoseconds: exp.Expr) -> exp.Expr:
    """A timestamp[ns] as TIMESTAMP; DuckDB cuts digits off towards zero, as `div` does."""
    micros = call("timestamp_micros", exp.Paren(this=exp.IntDiv(this=nanoseconds, expression=_number(1000))))
    return _as(micros, TIMESTAMP)


def _nanoseconds(instant: exp.Expr) -> exp.Expr:
    """A TIMESTAMP_NTZ as what stands for a timestamp[ns]; an error beyond its range."""
    micros = call("unix_micros", _as(instant, pa.timestamp("us", tz="UTC")))
    return _binary(exp.Mul, micros, _as(_number(1000), BIGINT))


def _instant(typed: Typed) -> exp.Expr:
    """A date or timestamp as TIMESTAMP_NTZ."""
    if pa.types.is_date(typed.type) or (pa.types.is_timestamp(typed.type) and typed.type.tz is None):
        return cast(typed, TIMESTAMP)
    raise NotOnSparkError(f"a part of {typed.type}")


# Names and literals


def _column(node: exp.Expr, scope: Scope) -> Typed:
    assert isinstance(node, exp.Column)
    found = scope.column(node)
    spark_name(found.type)
    return found


def _dot(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "expression")
    return _field(translate(node.this, scope), node.args["expression"].name)


def _struct_extract(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "expression")
    name = node.args["expression"]
    if not name.is_string:
        raise NotOnSparkError("struct_extract() of anything but a name")
    return _field(translate(node.this, scope), name.name)


def _field(whole: Typed, name: str) -> Typed:
    if not pa.types.is_struct(whole.type):
        raise NotOnSparkError(f"a field of {whole.type}")
    for part in whole.type:
        if part.name.casefold() == name.casefold():
            return Typed(
                exp.Dot(this=whole.node, expression=exp.to_identifier(part.name, quoted=True)), part.type
            )
    raise NotOnSparkError(f"the field {name!r} of {whole.type}")


def _bracket(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "expressions")
    whole = translate(node.this, scope)
    # The parser counts from 0: undone as DuckDB's generator does.
    (index,) = exp.apply_index_offset(node.this, node.expressions, _DUCKDB.INDEX_OFFSET, dialect=_DUCKDB)
    if isinstance(index, exp.Slice):
        raise NotOnSparkError("a slice of a list")
    if pa.types.is_struct(whole.type) and index.is_string:
        return _field(whole, index.name)
    if pa.types.is_map(whole.type):
        key = cast(_same_kind(translate(index, scope), whole.type.key_type), whole.type.key_type)
        return Typed(call("try_element_at", whole.node, key), whole.type.item_type)
    place = translate(index, scope)
    if not pa.types.is_list(whole.type) or not is_integer(place.type):
        raise NotOnSparkError(f"an element of {whole.type} by {place.type}")
    number = call("nullif", _as(place.node, INTEGER), _number(0))
    return Typed(call("try_element_at", whole.node, number), whole.type.value_type)


def _same_kind(typed: Typed, target: pa.DataType) -> Typed:
    if common_type(typed, Typed(exp.Null(), target)) != target:
        raise NotOnSparkError(f"{typed.type} beside {target}")
    return typed


def _literal(node: exp.Expr, _: Scope) -> Typed:
    if node.is_string:
        return Typed(node.copy(), TEXT, text=node.name)
    return _number_literal(node.name, "")


def _number_literal(digits: str, sign: str) -> Typed:
    if re.fullmatch(r"\d+", digits):
        value = int(sign + digits)
        kind = integer_type(value)
        return Typed(_as(_number(sign + digits), kind), kind, integer=value)
    if re.fullmatch(r"\d*\.\d+", digits):
        whole, _, fraction = digits.partition(".")
        kind = decimal(max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction))
        if len(whole) == 1 and whole == "0":
            kind = decimal(1 + len(fraction), len(fraction))
        return Typed(_as(_number(f"{sign}{digits}BD"), kind), kind)
    return Typed(_as(_text(sign + digits), DOUBLE), DOUBLE)


def _boolean(node: exp.Expr, _: Scope) -> Typed:
    return Typed(exp.Boolean(this=node.this), BOOLEAN)


def _null(_: exp.Expr, __: Scope) -> Typed:
    return Typed(exp.Null(), pa.null())


def _paren(node: exp.Expr, scope: Scope) -> Typed:
    inner = translate(node.this, scope)
    return Typed(exp.Paren(this=inner.node), inner.type, inner.integer, inner.text)


# Arithmetic


def _neg(node: exp.Expr, scope: Scope) -> Typed:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number_literal(node.this.name, "-")
    value = translate(node.this, scope)
    if not is_number(value.type):
        raise NotOnSparkError(f"-{value.type}")
    return Typed(exp.Neg(this=exp.Paren(this=value.node)), value.type)


def _arithmetic(kind: type[exp.Binary]) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Typed:
        _knows(node, "this", "expression")
        left, right = _operand(node.this, scope), _operand(node.args["expression"], scope)
        if isinstance(left, exp.Interval) or isinstance(right, exp.Interval):
            return _moved(kind, left, right)
        if pa.types.is_temporal(left.type) or pa.types.is_temporal(right.type):
            return _dates(kind, left, right)
        if not (is_number(left.type) and is_number(right.type)):
            raise NotOnSparkError(f"{left.type} {node.key.upper()} {right.type}")
        common = common_type(left, right)
        if is_integer(common) or pa.types.is_floating(common):
            made = _binary(kind, cast(left, common), cast(right, common))
            return Typed(_as(made, common) if common == HUGEINT else made, common)
        return _decimals(kind, left, right)

    return handle


def _operand(node: exp.Expr, scope: Scope) -> Typed | exp.Interval:
    return _interval(node) if isinstance(node, exp.Interval) else translate(node, scope)


def _interval(node: exp.Interval) -> exp.Interval:
    unit = node.args.get("unit")
    number = node.this
    if not isinstance(unit, exp.Var) or not isinstance(number, exp.Literal):
        raise NotOnSparkError("such an INTERVAL")
    name = unit.name.upper().removesuffix("S")
    if name not in _INTERVALS or not re.fullmatch(r"-?\d{1,9}", number.name):
        raise NotOnSparkError(f"INTERVAL {number.name} {name}")
    return exp.Interval(this=_text(number.name), unit=exp.var(name))


def _moved(kind: type[exp.Binary], left: Typed | exp.Interval, right: Typed | exp.Interval) -> Typed:
    """A date or timestamp and an interval."""
    if isinstance(left, exp.Interval):
        left, right = right, left
        if kind is not exp.Add:
            raise NotOnSparkError("INTERVAL - anything")
    if isinstance(left, exp.Interval) or not isinstance(right, exp.Interval):
        raise NotOnSparkError("INTERVAL beside INTERVAL")
    if kind not in (exp.Add, exp.Sub):
        raise NotOnSparkError(f"{kind.key.upper()} of INTERVAL")
    return Typed(_binary(kind, _instant(left), right), TIMESTAMP)


def _dates(kind: type[exp.Binary], left: Typed, right: Typed) -> Typed:
    if kind is exp.Sub and left.type == DATE and right.type == DATE:
        return Typed(_as(call("datediff", left.node, right.node), BIGINT), BIGINT)
    if kind in (exp.Add, exp.Sub) and left.type == DATE and is_integer(right.type):
        name = "date_add" if kind is exp.Add else "date_sub"
        return Typed(call(name, left.node, _as(right.node, INTEGER)), DATE)
    raise NotOnSparkError(f"{left.type} {kind.key.upper()} {right.type}")


def _decimals(kind: type[exp.Binary], left: Typed, right: Typed) -> Typed:
    (first, scale), (second, other) = digits_of(left.type), digits_of(right.type)
    if kind is exp.Mul:
        result = decimal(first + second, scale + other)
        decimal(first + second + 1, scale + other)
    else:
        result = decimal(max(first - scale, second - other) + max(scale, other) + 1, max(scale, other))
    operands = (
        _as(typed.node, decimal(*digits))
        for typed, digits in ((left, (first, scale)), (right, (second, other)))
    )
    return Typed(_as(_binary(kind, *operands), result), result)


def _division(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "expression", "typed", "safe")
    left, right = translate(node.this, scope), translate(node.args["expression"], scope)
    if not (is_number(left.type) and is_number(right.type)):
        raise NotOnSparkError(f"{left.type} / {right.type}")
    common = (
        common_type(left, right)
        if pa.types.is_floating(left.type) or pa.types.is_floating(right.type)
        else DOUBLE
    )
    return Typed(_divided(cast(left, common), cast(right, common), common, right), common)


def _divided(left: exp.Expr, right: exp.Expr, kind: pa.DataType, divisor: Typed | None = None) -> exp.Expr:
    """Division as IEEE 754 has it: by zero it is ±infinity or NaN."""
    quotient = _binary(exp.Div, left, right)
    if kind != DOUBLE:
        quotient = _as(_binary(exp.Div, _as(left, DOUBLE), _as(right, DOUBLE)), kind)
    if divisor is not None and divisor.integer:
        return quotient
    zero = exp.EQ(this=right.copy(), expression=_as(_number(0), kind))
    infinity = _as(_text("Infinity"), kind)
    if divisor is None or pa.types.is_floating(divisor.type):
        negative = exp.EQ(this=_as(right.copy(), TEXT), expression=_text("-0.0"))
        infinity = _if(negative, _as(_text("-Infinity"), kind), infinity)
    return _if(zero, _binary(exp.Mul, left.copy(), infinity), quotient)


def _whole(kind: type[exp.Binary]) -> Handler:
    """`//` and `%` of integers; by zero an error on either engine."""

    def handle(node: exp.Expr, scope: Scope) -> Typed:
        _knows(node, "this", "expression")
        left, right = translate(node.this, scope), translate(node.args["expression"], scope)
        common = common_type(left, right)
        if not is_integer(common) or (kind is exp.IntDiv and common == HUGEINT):
            raise NotOnSparkError(f"{left.type} {node.key.upper()} {right.type}")
        made = _binary(kind, cast(left, common), cast(right, common))
        if kind is exp.IntDiv:
            made = call("div", cast(left, common), cast(right, common))
        return Typed(_as(made, common), common)

    return handle


def _bits(kind: type[exp.Binary]) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Typed:
        _knows(node, "this", "expression")
        left, right = translate(node.this, scope), translate(node.args["expression"], scope)
        common = common_type(left, right)
        if not pa.types.is_signed_integer(common):
            raise NotOnSparkError(f"{left.type} {node.key.upper()} {right.type}")
        return Typed(_binary(kind, cast(left, common), cast(right, common)), common)

    return handle


def _abs(node: exp.Expr, scope: Scope) -> Typed:
    value = _numeric(node, scope)
    return Typed(call("abs", value.node), value.type)


def _sign(node: exp.Expr, scope: Scope) -> Typed:
    value = _numeric(node, scope)
    return Typed(_as(call("sign", _as(value.node, DOUBLE)), pa.int8()), pa.int8())


def _sqrt(node: exp.Expr, scope: Scope) -> Typed:
    return Typed(call("sqrt", _as(_numeric(node, scope).node, DOUBLE)), DOUBLE)


def _isnan(node: exp.Expr, scope: Scope) -> Typed:
    value = _numeric(node, scope)
    if not pa.types.is_floating(value.type):
        raise NotOnSparkError(f"isnan() of {value.type}")
    return Typed(
        _if(exp.Is(this=value.node, expression=exp.Null()), exp.Null(), call("isnan", value.node.copy())),
        BOOLEAN,
    )


def _numeric(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this")
    value = translate(node.this, scope)
    if not is_number(value.type):
        raise NotOnSparkError(f"{_shown(node)} of {value.type}")
    return Typed(value.node, value.type)


def _round(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "decimals")
    value, places = translate(node.this, scope), node.args.get("decimals")
    digits = 0
    if places is not None:
        if not (isinstance(places, exp.Literal) and places.is_int):
            raise NotOnSparkError("round() to anything but a number of digits")
        digits = int(places.name)
    if is_integer(value.type):
        return Typed(value.node, value.type)
    if pa.types.is_decimal(value.type):
        precision, scale = digits_of(value.type)
        result = decimal(precision, min(digits, scale))
        return Typed(_as(call("round", value.node, _number(min(digits, scale))), result), result)
    if value.type != DOUBLE or digits > 15:
        raise NotOnSparkError(f"round() of {value.type} to {digits} digits")
    if places is None:
        return Typed(call("round", value.node), DOUBLE)
    factor = _as(_text(f"1e{digits}"), DOUBLE)
    scaled = call("round", _binary(exp.Mul, value.node, factor))
    return Typed(_binary(exp.Div, scaled, factor.copy()), DOUBLE)


def _whole_number(name: str) -> Handler:
    """`ceil` and `floor`; Spark's give BIGINTs, and end at its limits."""

    def handle(node: exp.Expr, scope: Scope) -> Typed:
        value = _numeric(node, scope)
        if is_integer(value.type):
            return Typed(_as(value.node, DOUBLE), DOUBLE)
        if pa.types.is_decimal(value.type):
            result = decimal(value.type.precision, 0)
            return Typed(_as(call(name, value.node), result), result)
        if value.type != DOUBLE:
            raise NotOnSparkError(f"{name}() of {value.type}")
        small = exp.LT(this=call("abs", value.node), expression=_as(_text("4503599627370496"), DOUBLE))
        if name == "ceil":
            negative = exp.And(
                this=exp.GT(this=value.node.copy(), expression=_number(-1)),
                expression=exp.LT(this=value.node.copy(), expression=_number(0)),
            )
            rounded = _if(negative, _as(_text("-0.0"), DOUBLE), _as(call("ceil", value.node.copy()), DOUBLE))
        else:
            rounded = _as(call("floor", value.node.copy()), DOUBLE)
        return Typed(_if(small, rounded, value.node.copy()), DOUBLE)

    return handle


# Comparisons and logic


def _comparison(kind: type[exp.Binary]) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Typed:
        _knows(node, "this", "expression")
        left, right = translate(node.this, scope), translate(node.args["expression"], scope)
        return Typed(kind(this=_side(left, right), expression=_side(right, left)), BOOLEAN)

    return handle


def _side(typed: Typed, *others: Typed) -> exp.Expr:
    """One side of a comparison, as the type that both have."""
    common = common_type(typed, *others)
    if is_nested(common):
        raise NotOnSparkError(f"a comparison of {common}")
    made = cast(typed, common)
    return (
        made
        if isinstance(made, exp.Column | exp.Literal | exp.Cast | exp.Anonymous)
        else exp.Paren(this=made)
    )


def _differs(node: exp.Expr, scope: Scope) -> Typed:
    same = _comparison(exp.NullSafeEQ)(node, scope)
    return Typed(exp.Not(this=exp.Paren(this=same.node)), BOOLEAN)


def _between(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "low", "high", "negate")
    value, low, high = (translate(node.args[name], scope) for name in ("this", "low", "high"))
    made = exp.Between(
        this=_side(value, low, high), low=_side(low, value, high), high=_side(high, value, low)
    )
    return _negated(node, made)


def _in(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "expressions", "query", "negate")
    value = translate(node.this, scope)
    query = node.args.get("query")
    if query is not None:
        inner, columns = scope.subquery(query.this if isinstance(query, exp.Subquery) else query)
        if len(columns) != 1 or columns[0][1] != value.type or is_nested(value.type):
            raise NotOnSparkError(f"{value.type} IN a query of {', '.join(str(kind) for _, kind in columns)}")
        return _negated(node, exp.In(this=cast(value, value.type), query=exp.Subquery(this=inner)))
    options = [translate(option, scope) for option in node.expressions]
    made = exp.In(
        this=_side(value, *options),
        expressions=[_side(option, value, *options) for option in options],
    )
    return _negated(node, made)


def _negated(node: exp.Expr, made: exp.Expr) -> Typed:
    return Typed(exp.Not(this=exp.Paren(this=made)) if node.args.get("negate") else made, BOOLEAN)


def _is(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "expression", "negate")
    right = node.args["expression"]
    if not isinstance(right, exp.Null | exp.Boolean):
        raise NotOnSparkError("IS")
    left = translate(node.this, scope)
    made = exp.Is(this=exp.Paren(this=left.node), expression=right.copy())
    return _negated(node, made)


def _not(node: exp.Expr, scope: Scope) -> Typed:
    return Typed(exp.Not(this=exp.Paren(this=_truth(node.this, scope))), BOOLEAN)


def _connector(kind: type[exp.Connector]) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Typed:
        _knows(node, "this", "expression")
        left, right = _truth(node.this, scope), _truth(node.args["expression"], scope)
        return Typed(kind(this=exp.Paren(this=left), expression=exp.Paren(this=right)), BOOLEAN)

    return handle


def _truth(node: exp.Expr, scope: Scope) -> exp.Expr:
    condition = translate(node, scope)
    if condition.type not in (BOOLEAN, pa.null()):
        raise NotOnSparkError(f"{condition.type} as a condition")
    return condition.node


def truth(node: exp.Expr, scope: Scope) -> exp.Expr:
    """A condition: of WHERE, HAVING, ON."""
    return _truth(node, scope)


def _exists(node: exp.Expr, scope: Scope) -> Typed:
    query = node.this.this if isinstance(node.this, exp.Subquery) else node.this
    return Typed(exp.Exists(this=scope.subquery(query)[0]), BOOLEAN)


def _scalar(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this")
    inner, columns = scope.subquery(node.this)
    if len(columns) != 1:
        raise NotOnSparkError("a query of several columns as a value")
    return Typed(exp.Subquery(this=inner), columns[0][1])


def _case(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "ifs", "default")
    subject = node.args.get("this")
    conditions, values = [], []
    for branch in node.args["ifs"]:
        condition = branch.this
        if subject is not None:
            condition = exp.EQ(this=subject.copy(), expression=condition.copy())
        conditions.append(_truth(condition, scope))
        values.append(translate(branch.args["true"], scope))
    default = node.args.get("default")
    values.append(translate(default, scope) if default is not None else Typed(exp.Null(), pa.null()))
    common = common_type(*values)
    made = exp.Case(
        ifs=[
            exp.If(this=condition, true=cast(value, common))
            for condition, value in zip(conditions, values, strict=False)
        ],
        default=cast(values[-1], common),
    )
    return Typed(made, common)


def _if_function(node: exp.Expr, scope: Scope) -> Typed:
    return _case(
        exp.Case(ifs=[exp.If(this=node.this, true=node.args["true"])], default=node.args.get("false")), scope
    )


def _common_call(name: str) -> Handler:
    """A function whose arguments have one type, which is its own."""

    def handle(node: exp.Expr, scope: Scope) -> Typed:
        _knows(node, "this", "expressions", "ignore_nulls")
        values = [translate(value, scope) for value in (node.this, *node.expressions)]
        common = common_type(*values)
        if is_nested(common) and name != "coalesce":
            raise NotOnSparkError(f"{name}() of {common}")
        if len(values) == 1:
            return Typed(cast(values[0], common), common)
        return Typed(call(name, *(cast(value, common) for value in values)), common)

    return handle


def _nullif(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "expression")
    value, other = translate(node.this, scope), translate(node.args["expression"], scope)
    same = exp.EQ(this=_side(value, other), expression=_side(other, value))
    return Typed(_if(same, exp.Null(), value.node.copy()), value.type)


# Casts


def _cast(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "to", "safe")
    value, target = translate(node.this, scope), _cast_type(node.args["to"])
    safe = isinstance(node, exp.TryCast)
    if value.type == target:
        return Typed(value.node, target)
    if value.type == pa.null():
        return Typed(_as(value.node, target), target)
    if (
        value.text is not None
        and not safe
        and not pa.types.is_string(target)
        and not pa.types.is_floating(target)
    ):
        return Typed(_parsed(value.text, target), target)
    if safe:
        return Typed(_tried(value, target), target)
    for source_test, target_test, convert in _CASTS:
        if source_test(value.type) and target_test(target):
            return Typed(convert(value.node, value.type, target), target)
    raise NotOnSparkError(f"a cast of {value.type} to {target}")


def _cast_type(node: exp.DataType) -> pa.DataType:
    if node.this is exp.DType.DECIMAL:
        digits = [int(item.name) for item in node.expressions] or [18, 3]
        return decimal(digits[0], digits[1] if len(digits) > 1 else 0)
    if node.expressions or node.this not in _CAST_TYPES:
        raise NotOnSparkError(f"a cast to {node.sql('duckdb')}")
    return _CAST_TYPES[node.this]


def _tried(value: Typed, target: pa.DataType) -> exp.Expr:
    name = exp.DataType.build(spark_name(target), dialect="spark")
    tried = exp.TryCast(this=value.node, to=name)
    if is_integer(value.type) and is_integer(target):
        return tried
    if pa.types.is_string(value.type) and is_integer(target):
        return _matching(value.node, _INTEGER_TEXT, tried, "TRY_CAST of a text that is no plain number")
    raise NotOnSparkError(f"a cast of {value.type} to {target}")


def _matching(text: exp.Expr, pattern: str, then: exp.Expr, otherwise: str) -> exp.Expr:
    return _only_if(call("rlike", text.copy(), _text(pattern)), then, otherwise)


_Convert = Callable[[exp.Expr, pa.DataType, pa.DataType], exp.Expr]


def _plainly(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    return _as(node, target)


def _float_to_integer(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    return _as(call("rint", _as(node, DOUBLE)), target)


def _decimal_to_integer(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    return _as(call("round", node, _number(0)), target)


def _decimal_to_decimal(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    return _as(call("round", node, _number(target.scale)), target)


def _text_to_number(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    pattern = _INTEGER_TEXT if is_integer(target) else _NUMBER_TEXT
    return _matching(node, pattern, _as(node, target), "a cast of a text that is no plain number")


def _date_to_text(node: exp.Expr, _: pa.DataType, target: pa.DataType) -> exp.Expr:
    known = exp.Between(
        this=node.copy(), low=_as(_text("0001-01-01"), DATE), high=_as(_text("9999-12-31"), DATE)
    )
    return _only_if(known, _as(node, target), "a year outside 1 to 9999 as text")


def _instant_to_text(node: exp.Expr, source: pa.DataType, target: pa.DataType) -> exp.Expr:
    known = exp.And(
        this=exp.GTE(this=node.copy(), expression=_as(_text("0001-01-01 00:00:00"), TIMESTAMP)),
        expression=exp.LT(this=node.copy(), expression=_as(_text("9999-12-31 00:00:00"), TIMESTAMP)),
    )
    return _only_if(known, _as(node, target), "a year outside 1 to 9999 as text")


def _from_nanoseconds(node: exp.Expr, source: pa.DataType, target: pa.DataType) -> exp.Expr:
    return _as(_microseconds(node), target)


def _is_nanosecond_timestamp(kind: pa.DataType) -> bool:
    return is_nanoseconds(kind) and bool(pa.types.is_timestamp(kind))


def _is_local_timestamp(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.tz is None and kind.unit != "ns"


def _is_micros(kind: pa.DataType) -> bool:
    return bool(kind == TIMESTAMP)


_CASTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool], _Convert], ...] = (
    (is_integer, is_integer, _plainly),
    (is_integer, pa.types.is_floating, _plainly),
    (is_integer, pa.types.is_decimal, _plainly),
    (is_integer, pa.types.is_string, _plainly),
    (is_integer, pa.types.is_boolean, _plainly),
    (pa.types.is_boolean, pa.types.is_signed_integer, _plainly),
    (pa.types.is_boolean, pa.types.is_string, _plainly),
    (pa.types.is_floating, pa.types.is_floating, _plainly),
    (pa.types.is_floating, pa.types.is_signed_integer, _float_to_integer),
    (pa.types.is_decimal, is_integer, _decimal_to_integer),
    (pa.types.is_decimal, pa.types.is_floating, _plainly),
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


# Text


def _texts(node: exp.Expr, scope: Scope, *names: str) -> list[exp.Expr]:
    _knows(node, *names)
    return [_plain_text(node.args[name], scope) for name in names]


def _plain_text(node: exp.Expr, scope: Scope) -> exp.Expr:
    typed = translate(node, scope)
    if typed.type not in (TEXT, pa.null()):
        raise NotOnSparkError(f"a text function of {typed.type}")
    return typed.node


def _text_call(name: str, result: pa.DataType, *arguments: str) -> Handler:
    """A function of texts that both engines have."""

    def handle(node: exp.Expr, scope: Scope) -> Typed:
        made = call(name, *_texts(node, scope, *arguments))
        return Typed(_as(made, result) if result == BIGINT else made, result)

    return handle


def _changed_case(name: str, odd: str) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Typed:
        (text,) = _texts(node, scope, "this")
        plain = exp.Not(this=exp.Paren(this=call("rlike", text.copy(), _text(odd))))
        return Typed(_only_if(plain, call(name, text), f"{name}() of letters that change into several"), TEXT)

    return handle


def _length(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this")
    value = translate(node.this, scope)
    if value.type == TEXT:
        return Typed(_as(call("char_length", value.node), BIGINT), BIGINT)
    return _size(node, scope)


def _size(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this")
    value = translate(node.this, scope)
    if not pa.types.is_list(value.type):
        raise NotOnSparkError(f"{_shown(node)} of {value.type}")
    return Typed(_as(call("size", value.node), BIGINT), BIGINT)


def _substring(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "start", "length")
    text = _plain_text(node.this, scope)
    numbers = []
    for name, least in (("start", 1), ("length", 0)):
        number = node.args.get(name)
        if number is None:
            continue
        if not (isinstance(number, exp.Literal) and number.is_int and int(number.name) >= least):
            raise NotOnSparkError(f"substring() but from 1 on, by numbers: its {name}")
        numbers.append(number.copy())
    return Typed(call("substring", text, *numbers), TEXT)


def _end_of_text(name: str) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Typed:
        _knows(node, "this", "expression")
        number = node.args["expression"]
        if not (isinstance(number, exp.Literal) and number.is_int):
            raise NotOnSparkError(f"{name}() but by a number")
        return Typed(call(name, _plain_text(node.this, scope), number.copy()), TEXT)

    return handle


def _joined(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "expression", "safe")
    left, right = translate(node.this, scope), translate(node.args["expression"], scope)
    if left.type != TEXT or right.type != TEXT:
        raise NotOnSparkError(f"{left.type} || {right.type}")
    return Typed(exp.Paren(this=exp.DPipe(this=left.node, expression=right.node, safe=True)), TEXT)


def _concat(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "expressions", "safe", "coalesce")
    parts = [_shown_text(translate(part, scope)) for part in node.expressions]
    return Typed(call("concat_ws", _text(""), *parts), TEXT)


def _concat_ws(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "expressions", "safe", "coalesce")
    separator, *parts = (translate(part, scope) for part in node.expressions)
    if separator.text is None:
        raise NotOnSparkError("concat_ws() but with a literal separator")
    return Typed(call("concat_ws", separator.node, *map(_shown_text, parts)), TEXT)


def _shown_text(part: Typed) -> exp.Expr:
    if part.type == TEXT:
        return part.node
    if is_integer(part.type) or part.type == pa.null():
        return _as(part.node, TEXT)
    raise NotOnSparkError(f"concat() of {part.type}")


def _like(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "expression", "negate")
    text, pattern = _plain_text(node.this, scope), node.args["expression"]
    if not isinstance(pattern, exp.Literal) or "\\" in pattern.name:
        raise NotOnSparkError("LIKE with a pattern that is no plain literal")
    return _negated(node, exp.Like(this=text, expression=pattern.copy()))


def _digest(name: str) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Typed:
        _knows(node, "this", "length")
        size = node.args.get("length")
        more = [size.copy()] if size is not None else []
        if more and size is not None and size.name != "256":
            raise NotOnSparkError(f"{_shown(node)} of {size.name} bits")
        value = translate(node.this, scope)
        if value.type not in (TEXT, pa.binary()):
            raise NotOnSparkError(f"{_shown(node)} of {value.type}")
        return Typed(call(name, _as(value.node, pa.binary()), *more), TEXT)

    return handle


# Dates and times


def _part(name: str, shift: int = 0) -> Callable[[exp.Expr], exp.Expr]:
    def made(instant: exp.Expr) -> exp.Expr:
        number = call(name, instant)
        return _as(_binary(exp.Add, number, _number(shift)) if shift else number, BIGINT)

    return made


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


def _extract(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "expression")
    unit = node.this.name.upper()
    value = translate(node.args["expression"], scope)
    if unit == "EPOCH":
        return _epoch_of(value)
    if unit not in _PARTS:
        raise NotOnSparkError(f"extract({unit})")
    return Typed(_PARTS[unit](_instant(value)), BIGINT)


def _part_call(unit: str) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Typed:
        _knows(node, "this")
        return Typed(_PARTS[unit](_instant(translate(node.this, scope))), BIGINT)

    return handle


def _epoch(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this")
    return _epoch_of(translate(node.this, scope))


def _epoch_of(value: Typed) -> Typed:
    micros = call("unix_micros", _as(_instant(value), pa.timestamp("us", tz="UTC")))
    return Typed(_binary(exp.Div, _as(micros, DOUBLE), _as(_text("1e6"), DOUBLE)), DOUBLE)


def _epoch_ms(node: exp.Expr, scope: Scope) -> Typed:
    """`epoch_ms(timestamp)`; the parser takes it for the function that makes a timestamp of a number."""
    _knows(node, "this", "scale")
    value, scale = translate(node.this, scope), node.args.get("scale")
    if (
        scale is None
        or scale.name != "3"
        or not pa.types.is_timestamp(value.type)
        or is_nanoseconds(value.type)
    ):
        raise NotOnSparkError("such a conversion of an epoch")
    return Typed(call("unix_millis", _as(_instant(value), pa.timestamp("us", tz="UTC"))), BIGINT)


def _date_trunc(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "unit")
    unit = node.args["unit"].name.upper()
    if unit not in _TRUNCATED_TO:
        raise NotOnSparkError(f"date_trunc({unit})")
    instant = _as(_instant(translate(node.this, scope)), pa.timestamp("us", tz="UTC"))
    return Typed(_as(call("date_trunc", _text(unit), instant), TIMESTAMP), TIMESTAMP)


def _date_diff(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "expression", "unit", "date_part_boundary")
    later, earlier = translate(node.this, scope), translate(node.args["expression"], scope)
    if node.args["unit"].name.upper() != "DAY":
        raise NotOnSparkError(f"date_diff({node.args['unit'].name})")
    days = (_as(_instant(value), DATE) for value in (later, earlier))
    return Typed(_as(call("datediff", *days), BIGINT), BIGINT)


# Lists, maps, structs


def _struct(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "expressions")
    arguments: list[exp.Expr] = []
    fields: list[tuple[str, pa.DataType]] = []
    for item in node.expressions:
        if not isinstance(item, exp.PropertyEQ):
            raise NotOnSparkError("a struct without names")
        value = translate(item.args["expression"], scope)
        if value.type == pa.null():
            raise NotOnSparkError("a struct of an untyped NULL")
        fields.append((item.this.name, value.type))
        arguments += [_text(item.this.name), value.node]
    return Typed(call("named_struct", *arguments), pa.struct(fields))


def _array(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "expressions", "bracket_notation", "value_constructor")
    values = [translate(value, scope) for value in node.expressions]
    if not values:
        raise NotOnSparkError("an empty list")
    common = common_type(*values)
    return Typed(call("array", *(cast(value, common) for value in values)), pa.list_(common))


def _contains(node: exp.Expr, scope: Scope) -> Typed:
    """`list_contains`; `contains` of a text is another."""
    _knows(node, "this", "expression")
    whole, item = translate(node.this, scope), translate(node.args["expression"], scope)
    if not pa.types.is_list(whole.type) or is_nested(whole.type.value_type):
        raise NotOnSparkError(f"list_contains() of {whole.type}")
    found = call(
        "array_contains", whole.node, cast(_same_kind(item, whole.type.value_type), whole.type.value_type)
    )
    missing = exp.Or(
        this=exp.Is(this=whole.node.copy(), expression=exp.Null()),
        expression=exp.Is(this=item.node.copy(), expression=exp.Null()),
    )
    return Typed(_if(missing, exp.Null(), call("coalesce", found, exp.false())), BOOLEAN)


def _map_part(name: str) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Typed:
        _knows(node, "this")
        value = translate(node.this, scope)
        if not pa.types.is_map(value.type):
            raise NotOnSparkError(f"{name}() of {value.type}")
        kind = value.type.key_type if name == "map_keys" else value.type.item_type
        return Typed(call(name, value.node), pa.list_(kind))

    return handle


def _named_call(node: exp.Expr, scope: Scope) -> Typed:
    """A function that the parser has no class for."""
    name = node.name.lower()
    if name not in _NAMED or len(node.expressions) != 1:
        raise NotOnSparkError(_shown(node))
    return _map_part(name)(exp.Func(this=node.expressions[0]), scope)


_NAMED = frozenset({"map_values"})


# Aggregates and windows


def _plain(node: exp.Expr) -> exp.Expr:
    return node


def _aggregate(node: exp.Expr, scope: Scope, wrap: Wrap = _plain) -> Typed:
    return _AGGREGATES[type(node)](node, scope, wrap)


def _filter(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "expression")
    if type(node.this) not in _AGGREGATES:
        raise NotOnSparkError(f"FILTER of {_shown(node.this)}")
    condition = _truth(node.args["expression"].this, scope)

    def wrap(aggregate: exp.Expr) -> exp.Expr:
        return exp.Filter(this=aggregate, expression=exp.Where(this=condition.copy()))

    return _aggregate(node.this, scope, wrap)


def _window(node: exp.Expr, scope: Scope) -> Typed:
    _knows(node, "this", "partition_by", "order", "spec", "over")
    if node.args.get("over") not in (None, "OVER"):
        raise NotOnSparkError("such a window")
    function = node.this
    if type(function) not in _WINDOW_FUNCTIONS and type(function) not in _AGGREGATES:
        raise NotOnSparkError(f"{_shown(function)} of a window")
    partition = [translate(item, scope).node for item in node.args.get("partition_by") or ()]
    order = node.args.get("order")
    items = [ordered(item, scope) for item in order.expressions] if order is not None else []
    spec = _frame(node.args.get("spec"))

    def wrap(aggregate: exp.Expr) -> exp.Expr:
        return exp.Window(
            this=aggregate,
            partition_by=[item.copy() for item in partition],
            order=exp.Order(expressions=[item.copy() for item in items]) if items else None,
            spec=spec.copy() if spec is not None else None,
            over="OVER",
        )

    if type(function) in _WINDOW_FUNCTIONS:
        if not items:
            raise NotOnSparkError(f"{_shown(function)} without ORDER BY")
        return _WINDOW_FUNCTIONS[type(function)](function, scope, wrap)
    if type(function) is exp.ArrayAgg or next(function.find_all(exp.Distinct), None) is not None:
        raise NotOnSparkError(f"{_shown(function)} of a window")
    return _aggregate(function, scope, wrap)


def _frame(spec: exp.Expr | None) -> exp.Expr | None:
    if spec is None:
        return None
    _knows(spec, "kind", "start", "start_side", "end", "end_side")
    if str(spec.args.get("kind", "")).upper() != "ROWS":
        raise NotOnSparkError("a window frame but of ROWS")
    for name in ("start", "end"):
        edge = spec.args.get(name)
        if not (edge is None or isinstance(edge, str) or (isinstance(edge, exp.Literal) and edge.is_int)):
            raise NotOnSparkError("a window frame but of numbers")
    return spec.copy()


def _rank(name: str) -> Aggregate:
    def handle(node: exp.Expr, _: Scope, wrap: Wrap) -> Typed:
        _knows(node)
        return Typed(_as(wrap(call(name)), BIGINT), BIGINT)

    return handle


def _neighbour(name: str) -> Aggregate:
    def handle(node: exp.Expr, scope: Scope, wrap: Wrap) -> Typed:
        _knows(node, "this", "offset", "default")
        value, offset = translate(node.this, scope), node.args.get("offset")
        if offset is not None and not (isinstance(offset, exp.Literal) and offset.is_int):
            raise NotOnSparkError(f"{name}() but by a number")
        arguments = [value.node, offset.copy() if offset is not None else _number(1)]
        default = node.args.get("default")
        if default is not None:
            arguments.append(cast(_same_kind(translate(default, scope), value.type), value.type))
        return Typed(wrap(call(name, *arguments)), value.type)

    return handle


def _count(node: exp.Expr, scope: Scope, wrap: Wrap) -> Typed:
    _knows(node, "this", "big_int")
    if node.args.get("this") is None or isinstance(node.this, exp.Star):
        return Typed(wrap(exp.Count(this=exp.Star())), BIGINT)
    value, distinct = _argument(node, scope)
    if distinct and _has_map(value.type):
        raise NotOnSparkError(f"distinct {value.type}")
    return Typed(wrap(exp.Count(this=_distinct(value.node, distinct))), BIGINT)


def _has_map(arrow_type: pa.DataType) -> bool:
    if pa.types.is_struct(arrow_type):
        return any(_has_map(part.type) for part in arrow_type)
    return bool(pa.types.is_map(arrow_type)) or (
        pa.types.is_list(arrow_type) and _has_map(arrow_type.value_type)
    )


def has_map(arrow_type: pa.DataType) -> bool:
    """Whether there is a map in it: Spark does not group by these."""
    return _has_map(arrow_type)


def _argument(node: exp.Expr, scope: Scope) -> tuple[Typed, bool]:
    """The argument of an aggregate, and whether it is DISTINCT."""
    inner = node.this
    if isinstance(inner, exp.Distinct):
        _knows(inner, "expressions")
        if len(inner.expressions) != 1:
            raise NotOnSparkError("DISTINCT of several values")
        return translate(inner.expressions[0], scope), True
    return translate(inner, scope), False


def _distinct(node: exp.Expr, distinct: bool) -> exp.Expr:
    return exp.Distinct(expressions=[node]) if distinct else node


def _sum(node: exp.Expr, scope: Scope, wrap: Wrap) -> Typed:
    _knows(node, "this")
    value, distinct = _argument(node, scope)
    return _total(value, distinct, wrap)


def _total(value: Typed, distinct: bool, wrap: Wrap) -> Typed:
    if value.type == BOOLEAN:
        value = Typed(_as(value.node, INTEGER), INTEGER)
    if pa.types.is_floating(value.type):
        return Typed(wrap(exp.Sum(this=_distinct(_as(value.node, DOUBLE), distinct))), DOUBLE)
    if not is_number(value.type):
        raise NotOnSparkError(f"sum() of {value.type}")
    if not pa.types.is_signed_integer(value.type):
        result = pa.decimal128(38, value.type.scale)
        return Typed(_as(wrap(exp.Sum(this=_distinct(value.node, distinct))), result), result)
    if distinct:
        exact = _as(value.node, pa.decimal128(20, 0))
        return Typed(_as(wrap(exp.Sum(this=_distinct(exact, True))), HUGEINT), HUGEINT)
    if value.type != BIGINT:
        return Typed(_as(wrap(exp.Sum(this=_as(value.node, BIGINT))), HUGEINT), HUGEINT)
    high = wrap(exp.Sum(this=call("shiftright", value.node, _number(32))))
    low = wrap(exp.Sum(this=exp.BitwiseAnd(this=value.node.copy(), expression=_number("4294967295L"))))
    shifted = _as(
        _binary(exp.Mul, _as(high, HUGEINT), _as(_number(4294967296), pa.decimal128(10, 0))), HUGEINT
    )
    return Typed(_as(_binary(exp.Add, shifted, _as(low, HUGEINT)), HUGEINT), HUGEINT)


def _avg(node: exp.Expr, scope: Scope, wrap: Wrap) -> Typed:
    _knows(node, "this")
    value, distinct = _argument(node, scope)
    if pa.types.is_floating(value.type):
        return Typed(wrap(exp.Avg(this=_distinct(_as(value.node, DOUBLE), distinct))), DOUBLE)
    total = _total(value, distinct, wrap)
    count = wrap(exp.Count(this=_distinct(value.node.copy(), distinct)))
    divisor = call("nullif", _as(count, DOUBLE), _as(_number(0), DOUBLE))
    return Typed(_binary(exp.Div, _as(total.node, DOUBLE), divisor), DOUBLE)


def _extreme(name: str) -> Aggregate:
    def handle(node: exp.Expr, scope: Scope, wrap: Wrap) -> Typed:
        _knows(node, "this")
        value, _ = _argument(node, scope)
        if is_nested(value.type) or value.type == pa.null():
            raise NotOnSparkError(f"{name}() of {value.type}")
        return Typed(wrap(call(name, value.node)), value.type)

    return handle


def _extreme_by(name: str) -> Aggregate:
    """`arg_max`: of the rows where neither is NULL."""

    def handle(node: exp.Expr, scope: Scope, wrap: Wrap) -> Typed:
        _knows(node, "this", "expression")
        value, by = translate(node.this, scope), translate(node.args["expression"], scope)
        if is_nested(by.type):
            raise NotOnSparkError(f"{name}() by {by.type}")
        known = exp.Not(this=exp.Paren(this=exp.Is(this=value.node.copy(), expression=exp.Null())))
        return Typed(wrap(call(name, value.node, _if(known, by.node, exp.Null()))), value.type)

    return handle


def _count_if(node: exp.Expr, scope: Scope, wrap: Wrap) -> Typed:
    _knows(node, "this")
    return Typed(_as(wrap(call("count_if", _truth(node.this, scope))), HUGEINT), HUGEINT)


def _logical(name: str) -> Aggregate:
    def handle(node: exp.Expr, scope: Scope, wrap: Wrap) -> Typed:
        _knows(node, "this")
        return Typed(wrap(call(name, _truth(node.this, scope))), BOOLEAN)

    return handle


def _median(node: exp.Expr, scope: Scope, wrap: Wrap) -> Typed:
    _knows(node, "this")
    value, distinct = _argument(node, scope)
    if distinct or not (pa.types.is_signed_integer(value.type) or value.type == DOUBLE):
        raise NotOnSparkError(f"median() of {value.type}")
    return Typed(wrap(call("median", value.node)), DOUBLE)


def _spread(name: str) -> Aggregate:
    def handle(node: exp.Expr, scope: Scope, wrap: Wrap) -> Typed:
        _knows(node, "this")
        value, distinct = _argument(node, scope)
        if distinct or not is_number(value.type):
            raise NotOnSparkError(f"{name}() of {value.type}")
        return Typed(wrap(call(name, _as(value.node, DOUBLE))), DOUBLE)

    return handle


def _list(node: exp.Expr, scope: Scope, wrap: Wrap) -> Typed:
    """`list(x ORDER BY y)`: structs of (y is null, y, x), sorted, and x taken out of them."""
    _knows(node, "this")
    if not isinstance(node.this, exp.Order):
        raise NotOnSparkError("list() without ORDER BY")
    _knows(node.this, "this", "expressions")
    if isinstance(node.this.this, exp.Distinct):
        raise NotOnSparkError("list(DISTINCT)")
    value = translate(node.this.this, scope)
    if _has_map(value.type) or value.type == pa.null():
        raise NotOnSparkError(f"list() of {value.type}")
    keys: list[exp.Expr] = []
    for place, item in enumerate(node.this.expressions):
        key = ordered(item, scope)
        if key.args["desc"] or key.args["nulls_first"]:
            raise NotOnSparkError("list() ORDER BY … DESC or NULLS FIRST")
        keys += [_text(f"n{place}"), exp.Paren(this=exp.Is(this=key.this, expression=exp.Null()))]
        keys += [_text(f"k{place}"), key.this.copy()]
    rows = wrap(call("collect_list", call("named_struct", *keys, _text("v"), value.node)))
    row = exp.to_identifier("row")
    field = exp.Dot(this=exp.Column(this=row.copy()), expression=exp.to_identifier("v"))
    values = call("transform", call("array_sort", rows), exp.Lambda(this=field, expressions=[row]))
    none = exp.EQ(this=call("size", rows.copy()), expression=_number(0))
    return Typed(_if(none, exp.Null(), values), pa.list_(value.type))


Handler = Callable[[exp.Expr, Scope], Typed]
Aggregate = Callable[[exp.Expr, Scope, Wrap], Typed]

_AGGREGATES: dict[type[exp.Expr], Aggregate] = {
    exp.ArgMax: _extreme_by("max_by"),
    exp.ArgMin: _extreme_by("min_by"),
    exp.ArrayAgg: _list,
    exp.Avg: _avg,
    exp.Count: _count,
    exp.CountIf: _count_if,
    exp.LogicalAnd: _logical("bool_and"),
    exp.LogicalOr: _logical("bool_or"),
    exp.Max: _extreme("max"),
    exp.Median: _median,
    exp.Min: _extreme("min"),
    exp.Stddev: _spread("stddev_samp"),
    exp.StddevPop: _spread("stddev_pop"),
    exp.StddevSamp: _spread("stddev_samp"),
    exp.Sum: _sum,
    exp.Variance: _spread("var_samp"),
    exp.VariancePop: _spread("var_pop"),
}
_WINDOW_FUNCTIONS: dict[type[exp.Expr], Aggregate] = {
    exp.DenseRank: _rank("dense_rank"),
    exp.Lag: _neighbour("lag"),
    exp.Lead: _neighbour("lead"),
    exp.Rank: _rank("rank"),
    exp.RowNumber: _rank("row_number"),
}
_HANDLERS: dict[type[exp.Expr], Handler] = {
    **dict.fromkeys(_AGGREGATES, _aggregate),
    exp.Abs: _abs,
    exp.Add: _arithmetic(exp.Add),
    exp.And: _connector(exp.And),
    exp.Anonymous: _named_call,
    exp.Array: _array,
    exp.ArrayContains: _contains,
    exp.ArraySize: _size,
    exp.Between: _between,
    exp.BitwiseAnd: _bits(exp.BitwiseAnd),
    exp.BitwiseOr: _bits(exp.BitwiseOr),
    exp.Boolean: _boolean,
    exp.Bracket: _bracket,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Ceil: _whole_number("ceil"),
    exp.Coalesce: _common_call("coalesce"),
    exp.Column: _column,
    exp.Concat: _concat,
    exp.ConcatWs: _concat_ws,
    exp.Contains: _text_call("contains", BOOLEAN, "this", "expression"),
    exp.DPipe: _joined,
    exp.DateDiff: _date_diff,
    exp.DateTrunc: _date_trunc,
    exp.Day: _part_call("DAY"),
    exp.DayOfWeek: _part_call("DOW"),
    exp.DayOfWeekIso: _part_call("ISODOW"),
    exp.DayOfYear: _part_call("DOY"),
    exp.Div: _division,
    exp.Dot: _dot,
    exp.EQ: _comparison(exp.EQ),
    exp.EndsWith: _text_call("endswith", BOOLEAN, "this", "expression"),
    exp.Exists: _exists,
    exp.Extract: _extract,
    exp.Filter: _filter,
    exp.Floor: _whole_number("floor"),
    exp.GT: _comparison(exp.GT),
    exp.GTE: _comparison(exp.GTE),
    exp.Greatest: _common_call("greatest"),
    exp.Hour: _part_call("HOUR"),
    exp.If: _if_function,
    exp.In: _in,
    exp.IntDiv: _whole(exp.IntDiv),
    exp.Is: _is,
    exp.IsNan: _isnan,
    exp.LT: _comparison(exp.LT),
    exp.LTE: _comparison(exp.LTE),
    exp.Least: _common_call("least"),
    exp.Left: _end_of_text("left"),
    exp.Length: _length,
    exp.Like: _like,
    exp.Literal: _literal,
    exp.Lower: _changed_case("lower", _ODD_LOWER),
    exp.MD5: _digest("md5"),
    exp.MapKeys: _map_part("map_keys"),
    exp.Minute: _part_call("MINUTE"),
    exp.Mod: _whole(exp.Mod),
    exp.Month: _part_call("MONTH"),
    exp.Mul: _arithmetic(exp.Mul),
    exp.NEQ: _comparison(exp.NEQ),
    exp.Neg: _neg,
    exp.Not: _not,
    exp.Null: _null,
    exp.NullSafeEQ: _comparison(exp.NullSafeEQ),
    exp.NullSafeNEQ: _differs,
    exp.Nullif: _nullif,
    exp.Or: _connector(exp.Or),
    exp.Paren: _paren,
    exp.Quarter: _part_call("QUARTER"),
    exp.Replace: _text_call("replace", TEXT, "this", "expression", "replacement"),
    exp.Right: _end_of_text("right"),
    exp.Round: _round,
    exp.SHA2: _digest("sha2"),
    exp.Second: _part_call("SECOND"),
    exp.Sign: _sign,
    exp.Sqrt: _sqrt,
    exp.StartsWith: _text_call("startswith", BOOLEAN, "this", "expression"),
    exp.StrPosition: _text_call("instr", BIGINT, "this", "substr"),
    exp.Struct: _struct,
    exp.StructExtract: _struct_extract,
    exp.Sub: _arithmetic(exp.Sub),
    exp.Subquery: _scalar,
    exp.Substring: _substring,
    exp.TimeToUnix: _epoch,
    exp.TimestampTrunc: _date_trunc,
    exp.TryCast: _cast,
    exp.UnixToTime: _epoch_ms,
    exp.Upper: _changed_case("upper", _ODD_UPPER),
    exp.Window: _window,
    exp.Year: _part_call("YEAR"),
}


def aggregates_in(nodes: Iterable[exp.Expr]) -> bool:
    """Whether any of these aggregates."""
    return any(map(has_aggregate, nodes))
