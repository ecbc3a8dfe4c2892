"""CAST and TRY_CAST of Flink.

| Flink | DuckDB |
|---|---|
| the digits behind the point of a number or a text are cut: `CAST(2.7 AS INT)` = 2 | rounded |
| `CAST(TRUE AS STRING)` = `TRUE`, `CAST(1e10 AS STRING)` = `1.0E10` | `true`, `10000000000.0` |
| `VARCHAR(2)` cuts texts | no limit |
| `DECIMAL` is `DECIMAL(10, 0)` | `DECIMAL(18, 3)` |
| `TIMESTAMP` has 6 digits; `TIMESTAMP(3)` has 3 | the same by other names |
| digits that a timestamp has no room for are cut | rounded |
| `CAST(TIMESTAMP '…' AS STRING)` has all digits of the type | no zeros at the end |
| a number that does not fit wraps, a decimal is NULL | an error |

Refused: CHAR(n), which pads; bytes of texts; rows, lists and maps with parts that are cast as above.
"""

from __future__ import annotations

import re

from sqlglot import exp

from service.base.errors import InvalidQueryError
from service.query.sql.flink.calls import macro
from service.query.sql.trino.calls import call
from service.query.sql.trino.macros import failure

_Type = exp.DataType.Type
_INTEGERS = {
    _Type.TINYINT: "integer_of_8",
    _Type.SMALLINT: "integer_of_16",
    _Type.INT: "integer_of_32",
    _Type.BIGINT: "integer_of_64",
}
_TEXTS = frozenset({_Type.TEXT, _Type.VARCHAR})
_NESTED = frozenset({_Type.ARRAY, _Type.LIST, _Type.MAP, _Type.STRUCT})
_TIMES = frozenset({_Type.TIMESTAMP, _Type.TIMESTAMPTZ, _Type.TIMESTAMPNTZ})
_PLAIN = frozenset({_Type.BOOLEAN, _Type.DATE, _Type.DECIMAL, _Type.DOUBLE, _Type.FLOAT, _Type.TIME, *_TIMES})
_NUMBER = re.compile(r"([+-]?\d+)(?:\.\d*)?")
_DIGITS = ("0", "3", "6", "9")
_UNITS = {"0": "second", "3": "millisecond"}


def cast_as_flink(node: exp.Cast) -> exp.Expr | None:
    """Return what a CAST or TRY_CAST is in DuckDB; None if it is the same.

    Raises:
        InvalidQueryError: the type is not known here.
    """
    kind = node.to.this
    if isinstance(node.this, exp.Null):
        return None
    if kind in _INTEGERS:
        made = _integer(node)
    elif kind in _TEXTS:
        made = _text(node)
    elif kind in _NESTED:
        _check_parts(node.to)
        made = None
    elif kind in _PLAIN:
        _normalize(node.to)
        return _cut(node)
    else:
        raise _refused(node.to)
    return call("try", made) if made is not None and isinstance(node, exp.TryCast) else made


def _cut(node: exp.Cast) -> exp.Expr | None:
    """Return a cast to a timestamp that cuts the digits which its type does not have: DuckDB's rounds."""
    unit = _UNITS.get(next((parameter.name for parameter in node.to.expressions), ""))
    if node.to.this is not _Type.TIMESTAMP or unit is None:
        return None
    whole = type(node)(this=node.this, to=exp.DataType.build("TIMESTAMP", dialect="duckdb"))
    return exp.Cast(this=call("date_trunc", exp.Literal.string(unit), whole), to=node.to)


def _integer(node: exp.Cast) -> exp.Expr | None:
    value = node.this
    if isinstance(value, exp.Literal) and (value.is_string or _NUMBER.fullmatch(value.this)):
        # DuckDB computes constants of macros before TRY could catch their errors.
        found = _NUMBER.fullmatch(value.this.strip())
        if found is None and isinstance(node, exp.TryCast):
            node.set("this", exp.null())
        elif found is None:
            value.set("this", failure(f"Cannot cast '{value.this}' to {node.to.sql().upper()}"))
        else:
            value.set("this", found[1])
        return None
    return macro(_INTEGERS[node.to.this], value)


def _text(node: exp.Cast) -> exp.Expr | None:
    value, length = node.this, [parameter.this for parameter in node.to.expressions]
    is_text = isinstance(value, exp.Literal) and value.is_string
    made = value if is_text else macro("string", value)
    return call("left", made, *length) if length else (None if is_text else made)


def _check_parts(kind: exp.DataType) -> None:
    for part in kind.find_all(exp.DataType):
        if part.this in _NESTED:
            continue
        if part.this not in _PLAIN:
            raise InvalidQueryError(
                f"a cast to {kind.sql().upper()} is not known here: its parts would be cast in another way",
                hint="cast the parts, one by one",
                code="NOT_SUPPORTED",
            )
        _normalize(part)


def _normalize(kind: exp.DataType) -> None:
    """Give a type the digits that Flink gives it."""
    digits = [parameter.name for parameter in kind.expressions]
    if kind.this is _Type.DECIMAL and not digits:
        kind.set("expressions", [exp.DataTypeParam(this=exp.Literal.number(number)) for number in (10, 0)])
    elif kind.this is _Type.DECIMAL and len(digits) == 1:
        kind.append("expressions", exp.DataTypeParam(this=exp.Literal.number(0)))
    elif kind.this in _TIMES:
        if digits and digits[0] not in _DIGITS:
            raise _refused(kind)
        if kind.this is _Type.TIMESTAMPTZ:
            kind.set("expressions", [])


def _refused(kind: exp.DataType) -> InvalidQueryError:
    return InvalidQueryError(
        f"a cast to {kind.sql().upper()} is not known here",
        hint="docs/upstream.md lists the types",
        code="NOT_SUPPORTED",
    )
