"""CAST, TRY_CAST and typed literals.

| Trino | DuckDB |
|---|---|
| a text is an integer only if it has digits only | `2.5` and ` 2 ` are integers |
| a half of a double is rounded away from zero | to the even number |
| `CAST(1e0 AS varchar)` = `1.0E0`; a timestamp has all digits of its type | `1.0`; without zeros at the end |
| `varchar(2)` cuts texts; a number must fit | no limit |
| `timestamp` is `timestamp(3)` | microseconds |
| `CAST('a' AS json)` is the JSON text `"a"` | `a` must be JSON |
| `decimal` has no digits behind the point | three of them |
"""

from __future__ import annotations

import re

from sqlglot import exp

from service.base.errors import InvalidQueryError
from service.query.sql.trino.calls import call, macro
from service.query.sql.trino.macros import failure

_Type = exp.DataType.Type
_INTEGERS = {
    _Type.TINYINT: "integer_of_8",
    _Type.SMALLINT: "integer_of_16",
    _Type.INT: "integer_of_32",
    _Type.BIGINT: "integer_of_64",
}
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?|[+-]?\.\d+")
_WHOLE = re.compile(r"[+-]?\d+")
_FRACTION = re.compile(r"\.(\d+)$")
_OFFSET = re.compile(r"\s+([+-]\d\d?:\d\d)$")
_MICROSECOND_DIGITS = 6
_PRECISIONS = (0, 3, 6, 9)


def cast_as_trino(node: exp.Cast) -> exp.Expr | None:
    """Return what a CAST or TRY_CAST is in DuckDB; None if it is the same.

    Raises:
        InvalidQueryError: the type is not known here.
    """
    found = _CASTS.get(node.to.this)
    if found is None:
        return None
    made = found(node)
    if made is None or not isinstance(node, exp.TryCast) or isinstance(made, exp.TryCast | exp.Null):
        return made
    return call("try", made)


def _integer(node: exp.Cast) -> exp.Expr | None:
    value = node.this
    if isinstance(value, exp.Literal) and _WHOLE.fullmatch(value.this):
        return None
    if isinstance(value, exp.Literal) and value.is_string:
        # A plain cast that fails, because DuckDB computes constants of macros before TRY could catch their errors.
        value.set("this", failure(f"Cannot cast '{value.this}' to {node.to.sql().upper()}"))
        return None
    return macro(_INTEGERS[node.to.this], value)


def _boolean(node: exp.Cast) -> exp.Expr | None:
    return (
        None if isinstance(node.this, exp.Literal | exp.Boolean | exp.Null) else macro("boolean", node.this)
    )


def _varchar(node: exp.Cast) -> exp.Expr | None:
    value, length = node.this, [parameter.this for parameter in node.to.expressions]
    if isinstance(value, exp.Null) or (isinstance(value, exp.Literal) and value.is_string and not length):
        return None
    return macro("varchar", value, *length)


def _char(node: exp.Cast) -> exp.Expr:
    raise InvalidQueryError("the type char(n) is not known here: use varchar", code="NOT_SUPPORTED")


def _json(node: exp.Cast) -> exp.Expr | None:
    return None if isinstance(node.this, exp.Null) else call("to_json", node.this)


def _timestamp(node: exp.Cast) -> exp.Expr | None:
    if not node.to.expressions:
        node.to.set("expressions", [exp.DataTypeParam(this=exp.Literal.number(3))])
    digits = int(node.to.expressions[0].name)
    # A literal has the digits that it shows.
    if digits > max(_PRECISIONS) or (digits not in _PRECISIONS and not node.this.is_string):
        raise _too_fine("timestamp", digits)
    return None


def _zoned(node: exp.Cast) -> exp.Expr | None:
    value = node.this
    if node.to.expressions and int(node.to.expressions[0].name) > _MICROSECOND_DIGITS:
        raise _too_fine("timestamp with time zone", int(node.to.expressions[0].name))
    if isinstance(value, exp.Literal) and value.is_string:
        # `… +02:00`: DuckDB expects the offset without a blank before it.
        value.set("this", _OFFSET.sub(r"\1", value.this))
    return None


def _too_fine(kind: str, digits: int) -> InvalidQueryError:
    return InvalidQueryError(
        f"{kind} of {digits} digits is not known here",
        hint="timestamps have 0, 3, 6 or 9 digits, those with a time zone 6",
        code="NOT_SUPPORTED",
    )


def _time(node: exp.Cast) -> exp.Expr | None:
    value = node.this
    found = _FRACTION.search(value.this) if isinstance(value, exp.Literal) and value.is_string else None
    if found and len(found[1]) > _MICROSECOND_DIGITS:
        return type(node)(this=value, to=exp.DataType.build("TIME_NS", dialect="duckdb"))
    return None


def _decimal(node: exp.Cast) -> exp.Expr | None:
    if node.to.expressions:
        return None
    value = node.this
    # sqlglot reads `DECIMAL '1.50'` as a cast of the text.
    if isinstance(value, exp.Literal) and value.is_string and _NUMBER.fullmatch(value.this.strip()):
        number = value.this.strip()
        if "." not in number:
            node.to.set("expressions", _digits(len(number.lstrip("+-0")) or 1))
            return None
        literal: exp.Expr = exp.Literal.number(number.lstrip("+-"))
        return exp.Neg(this=literal) if number.startswith("-") else literal
    node.to.set("expressions", _digits(38))
    return None


def _digits(count: int) -> list[exp.Expr]:
    return [exp.DataTypeParam(this=exp.Literal.number(number)) for number in (count, 0)]


_CASTS = {
    **dict.fromkeys(_INTEGERS, _integer),
    _Type.BOOLEAN: _boolean,
    _Type.CHAR: _char,
    _Type.NCHAR: _char,
    _Type.DECIMAL: _decimal,
    _Type.JSON: _json,
    _Type.TIME: _time,
    _Type.TIMESTAMP: _timestamp,
    _Type.TIMESTAMPTZ: _zoned,
    _Type.TEXT: _varchar,
    _Type.VARCHAR: _varchar,
}
