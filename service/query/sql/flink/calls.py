"""Flink's functions: those that mean the same in DuckDB, and those that are rewritten. All others are refused by their names.

Source: Flink's list of built-in functions (docs/dev/table/functions/systemFunctions), and the classes that run them.

CAST and TRY_CAST of Flink.

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
from collections.abc import Callable, Sequence
from functools import partial

from sqlglot import exp

from service.base.errors import InvalidQueryError, NotSupportedError
from service.query.sql.flink.macros import PREFIX
from service.query.sql.trino.calls import INTEGERS, call, constant, of_joda, of_macro, renamed, takes, text
from service.query.sql.trino.calls import macro as trino_macro
from service.query.sql.trino.macros import failure

_Arguments = Sequence[exp.Expr]
_Rewrite = Callable[[str, _Arguments], exp.Expr]
_macro = partial(of_macro, prefix=PREFIX)


def macro(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call of a macro of this dialect; NULL if an argument is NULL."""
    return trino_macro(name, *arguments, prefix=PREFIX)


def refused(name: str, hint: str | None = None) -> InvalidQueryError:
    """Return the error of a function that is not known here."""
    return NotSupportedError(
        f"Flink's function {name.upper()}() is not known here",
        hint=hint
        or "docs/reference/upstream.md lists those that are; the dialect duckdb has all of DuckDB's",
    )


def rewritten(name: str, arguments: _Arguments) -> exp.Expr | None:
    """Return what a function is in DuckDB; None if it is the same.

    Raises:
        InvalidQueryError: it is not known here, or has other arguments.
    """
    folded = name.lower()
    if folded in SAME:
        return None
    found = REWRITTEN.get(folded)
    if found is None:
        raise refused(name)
    return found(folded.upper(), arguments)


def _field(part: str) -> _Rewrite:
    def rewrite(name: str, arguments: _Arguments) -> exp.Expr:
        takes(name, arguments, 1)
        return exp.Extract(this=exp.var(part), expression=arguments[0])

    return rewrite


def _no_arguments(name: str) -> InvalidQueryError:
    return InvalidQueryError(f"expected arguments of {name}(), found none", code="FUNCTION_NOT_FOUND")


def _concat(name: str, arguments: _Arguments) -> exp.Expr:
    if not arguments:
        raise _no_arguments(name)
    # DuckDB's passes over NULL.
    first, *others = arguments
    found: exp.Expr = first
    for other in others:
        found = exp.DPipe(this=found, expression=other, safe=True)
    return exp.paren(found, copy=False) if others else found


def _extremum(name: str, arguments: _Arguments) -> exp.Expr:
    if not arguments:
        raise _no_arguments(name)
    # DuckDB's pass over NULL.
    conditions = [exp.Is(this=argument.copy(), expression=exp.null()) for argument in arguments]
    is_null = exp.or_(*conditions, copy=False) if len(conditions) > 1 else conditions[0]
    return exp.Case(ifs=[exp.If(this=is_null, true=exp.null())], default=call(name.lower(), *arguments))


def _if(name: str, arguments: _Arguments) -> exp.Expr:
    takes(name, arguments, 3)
    condition, then, otherwise = arguments
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=otherwise)


def listagg(node: exp.GroupConcat) -> exp.Expr:
    """Return what LISTAGG is in DuckDB."""
    return call("string_agg", node.this, node.args.get("separator") or text(","))


def _average(name: str, arguments: _Arguments) -> exp.Expr:
    takes(name, arguments, 1)
    if isinstance(arguments[0], exp.Distinct):
        raise refused(name, "AVG(DISTINCT x) is SUM(DISTINCT x) / COUNT(DISTINCT x)")
    # Of integers Flink's is an integer.
    return macro("avg", *arguments)


def _cardinality(name: str, arguments: _Arguments) -> exp.Expr:
    takes(name, arguments, 1)
    return trino_macro("cardinality", *arguments)


def _row(_name: str, arguments: _Arguments) -> exp.Expr:
    fields = [
        exp.PropertyEQ(this=exp.to_identifier(f"EXPR${number}", quoted=True), expression=argument)
        for number, argument in enumerate(arguments)
    ]
    return exp.Struct(expressions=fields)


def _substring(name: str, arguments: _Arguments) -> exp.Expr:
    takes(name, arguments, 2, 3)
    return macro("substr", *arguments)


def _locate(name: str, arguments: _Arguments) -> exp.Expr:
    takes(name, arguments, 2)
    return call("instr", arguments[1], arguments[0])


def _formatted(name: str, arguments: _Arguments) -> exp.Expr:
    takes(name, arguments, 2)
    value, pattern = arguments
    return call("strftime", value, text(of_joda(constant(name, pattern))))


def _moment(name: str, arguments: _Arguments) -> exp.Expr:
    takes(name, arguments, 1, 2)
    precision = arguments[1].name if len(arguments) == 2 else "3"
    if precision not in ("0", "3"):
        raise NotSupportedError(f"expected 0 or 3 as the precision of {name}(), found {precision}")
    return macro(f"moment_of_{precision}", arguments[0])


# By their names in small letters; each gets its name in capitals, for errors.
REWRITTEN: dict[str, _Rewrite] = {
    "array_agg": renamed("list", 1),
    "array_contains": _macro(2),
    "array_max": renamed("list_max", 1),
    "array_min": renamed("list_min", 1),
    "array_reverse": renamed("list_reverse", 1),
    "avg": _average,
    "cardinality": _cardinality,
    "char_length": renamed("length", 1),
    "character_length": renamed("length", 1),
    "concat": _concat,
    "date_format": _formatted,
    "dayofmonth": _field("DAY"),
    "dayofyear": _field("DOY"),
    "greatest": _extremum,
    "hour": _field("HOUR"),
    "if": _if,
    "ifnull": renamed("coalesce", 2),
    "least": _extremum,
    "left": _macro(2),
    "locate": _locate,
    "minute": _field("MINUTE"),
    "month": _field("MONTH"),
    "quarter": _field("QUARTER"),
    "regexp": renamed("regexp_matches", 2),
    "regexp_extract": _macro(2, 3),
    "regexp_replace": _macro(3),
    "second": _field("SECOND"),
    "split_index": _macro(3),
    "stddev_pop": renamed("stddev_pop", 1),
    "stddev_samp": renamed("stddev_samp", 1),
    "right": _macro(2),
    "row": _row,
    "substr": _substring,
    "substring": _substring,
    "to_timestamp_ltz": _moment,
    "week": _field("WEEK"),
    "year": _field("YEAR"),
}
# They mean the same in DuckDB.
_SAME = """
    abs acos asin atan atan2 ceil ceiling coalesce concat_ws cos cot count cume_dist degrees dense_rank exp first_value floor instr lag
    last_value lead ln log10 log2 lower lpad map_keys map_values max md5 min mod ntile nullif percent_rank pi position power
    radians rank repeat replace reverse round row_number rpad sha1 sha256 sign sin sqrt sum tan upper var_pop var_samp
"""
SAME = frozenset(_SAME.split())


_Type = exp.DataType.Type
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
    if kind in INTEGERS:
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
    return macro(INTEGERS[node.to.this], value)


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
            raise NotSupportedError(
                f"a cast to {kind.sql().upper()} is not known here: its parts would be cast in another way",
                hint="cast the parts, one by one",
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
    return NotSupportedError(
        f"a cast to {kind.sql().upper()} is not known here", hint="docs/reference/upstream.md lists the types"
    )
