"""A query in Flink's dialect → the same in DuckDB's. The planner checks it after that.

| Flink | DuckDB |
|---|---|
| `a / b` of integers: an integer, cut towards zero | `a // b`, which means that for integers only |
| NULL is the least value, in ORDER BY as in windows | NULL comes last |
| `a[i]` counts from 1; NULL if there is no such element | a negative number counts from the end |
| `CROSS JOIN UNNEST(m) AS t (k, v)` of a map | a query of its keys and values |
| an output column without a name: `EXPR$0`, by its position | the text of the expression |
| `EXTRACT(DOW FROM x)` and others that count otherwise | refused |
| TIMESTAMP_LTZ | TIMESTAMP WITH TIME ZONE, shown in UTC |

SHOW, DESCRIBE and EXPLAIN are those of the planner; `EXPLAIN PLAN FOR` is EXPLAIN. Decimals divide as DOUBLE.

sqlglot knows no dialect of Flink, and reads Trino's. Names in backquotes stand in double quotes already. All functions keep their
names and the order of their arguments, except those of SQL's own syntax, such as CAST, EXTRACT and TRIM.

A function means the same in DuckDB or is rewritten; all others are refused by their names. Source: Flink's list of built-in
functions (docs/dev/table/functions/systemFunctions), and the classes that run them.

CAST and TRY_CAST differ:

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
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.trino import Trino
from sqlglot.parsers.trino import TrinoParser
from sqlglot.tokenizer_core import TokenType

from service.base.errors import InvalidQueryError, NotSupportedError
from service.query.sql.translation.calls import (
    INTEGERS,
    call,
    formatted,
    of_joda,
    of_macro,
    renamed,
    taking,
    text,
)
from service.query.sql.translation.calls import macro as trino_macro
from service.query.sql.translation.macros import FLINK_PREFIX, failure
from service.query.sql.translation.trino import (
    OPERATORS,
    Rewrite,
    arguments_of,
    extracting,
    rewrite_nodes,
    rewritten_query,
)

_Arguments = Sequence[exp.Expr]
_Rewrite = Callable[[str, _Arguments], exp.Expr]
_macro = partial(of_macro, prefix=FLINK_PREFIX)


def macro(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call of a macro of this dialect; NULL if an argument is NULL."""
    return trino_macro(name, *arguments, prefix=FLINK_PREFIX)


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
    return taking(lambda time: exp.Extract(this=exp.var(part), expression=time), 1)


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


def _if(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=otherwise)


def _listagg(node: exp.Expr) -> exp.Expr:
    return call("string_agg", node.this, node.args.get("separator") or text(","))


def _average(value: exp.Expr) -> exp.Expr:
    if isinstance(value, exp.Distinct):
        raise refused("AVG", "AVG(DISTINCT x) is SUM(DISTINCT x) / COUNT(DISTINCT x)")
    # Of integers Flink's is an integer.
    return macro("avg", value)


def _row(_name: str, arguments: _Arguments) -> exp.Expr:
    fields = [
        exp.PropertyEQ(this=exp.to_identifier(f"EXPR${number}", quoted=True), expression=argument)
        for number, argument in enumerate(arguments)
    ]
    return exp.Struct(expressions=fields)


def _moment(value: exp.Expr, digits: exp.Expr | None = None) -> exp.Expr:
    precision = "3" if digits is None else digits.name
    if precision not in ("0", "3"):
        raise NotSupportedError(f"expected 0 or 3 as the precision of TO_TIMESTAMP_LTZ(), found {precision}")
    return macro(f"moment_of_{precision}", value)


# By their names in small letters; each gets its name in capitals, for errors.
REWRITTEN: dict[str, _Rewrite] = {
    "array_agg": renamed("list", 1),
    "array_contains": _macro(2),
    "array_max": renamed("list_max", 1),
    "array_min": renamed("list_min", 1),
    "array_reverse": renamed("list_reverse", 1),
    "avg": taking(_average, 1),
    "cardinality": taking(partial(trino_macro, "cardinality"), 1),
    "char_length": renamed("length", 1),
    "character_length": renamed("length", 1),
    "concat": _concat,
    "date_format": formatted("DATE_FORMAT", of_joda),
    **{
        part.lower(): _field(part)
        for part in ("HOUR", "MINUTE", "MONTH", "QUARTER", "SECOND", "WEEK", "YEAR")
    },
    "dayofmonth": _field("DAY"),
    "dayofyear": _field("DOY"),
    "greatest": _extremum,
    "if": taking(_if, 3),
    "ifnull": renamed("coalesce", 2),
    "least": _extremum,
    "left": _macro(2),
    "locate": taking(lambda part, whole: call("instr", whole, part), 2),
    "regexp": renamed("regexp_matches", 2),
    "regexp_extract": _macro(2, 3),
    "regexp_replace": _macro(3),
    "split_index": _macro(3),
    "stddev_pop": renamed("stddev_pop", 1),
    "stddev_samp": renamed("stddev_samp", 1),
    "right": _macro(2),
    "row": _row,
    "substr": taking(partial(macro, "substr"), 2, 3),
    "substring": taking(partial(macro, "substr"), 2, 3),
    "to_timestamp_ltz": taking(_moment, 1, 2),
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


def cast_as_flink(node: exp.Expr) -> exp.Expr | None:
    """Return what a CAST or TRY_CAST is in DuckDB; None if it is the same.

    Raises:
        InvalidQueryError: the type is not known here.
    """
    assert isinstance(node, exp.Cast)
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


class FlinkSyntax(Trino):
    """Flink's dialect, as Flink reads it."""

    INDEX_OFFSET = 0
    NULL_ORDERING = "nulls_are_small"

    class Tokenizer(Trino.Tokenizer):
        """Knows the names of Flink's types."""

        KEYWORDS: ClassVar = {
            **Trino.Tokenizer.KEYWORDS,
            "BYTES": TokenType.VARBINARY,
            "STRING": TokenType.TEXT,
            "TIMESTAMP_LTZ": TokenType.TIMESTAMPTZ,
        }

    class Parser(TrinoParser):
        """Leaves all functions as they are written."""

        FUNCTIONS: ClassVar = {}
        # A column in quotes may have such a name, too: the translation tells them apart.
        ARRAY_CONSTRUCTORS: ClassVar = {}


_EXPLAIN = re.compile(r"EXPLAIN(?:\s+PLAN\s+FOR)?\b", re.IGNORECASE)
_PASSED = re.compile(r"(?:SHOW|DESCRIBE|DESC)\b", re.IGNORECASE)
_FIELDS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE", "SECOND")
_ARRAY, _MAP = "array", "map"


def translated(sql: str) -> str:
    """Translate a query.

    Args:
        sql: a query, or EXPLAIN and a query; SHOW and DESCRIBE stay as they are.

    Raises:
        QueryError: it is no query, or has something that is not known here.
    """
    start = len(sql) - len(sql.lstrip())
    if _PASSED.match(sql, start):
        return sql

    def rewrite(tree: exp.Query) -> None:
        rewrite_nodes(tree, _REWRITES, _check)

    prefix, text = rewritten_query(sql, _EXPLAIN, FlinkSyntax, rewrite, "EXPR$")
    return f"EXPLAIN {text}" if prefix else text


def _check(node: exp.Expr) -> None:
    if isinstance(node, (exp.Func, *_REFUSED_SYNTAX)) and not isinstance(node, _SYNTAX):
        raise NotSupportedError(f"{node.key.upper()} is not known here in Flink's dialect")


def _function(node: exp.Expr) -> exp.Expr | None:
    outer = node.parent.parent if isinstance(node.parent, exp.Anonymous) else node.parent
    # What stands in FROM is checked where tables are resolved.
    return None if isinstance(outer, exp.Table) else rewritten(node.name, node.expressions)


def _plus(node: exp.Expr) -> exp.Expr | None:
    value, interval = node.this, node.expression
    if isinstance(node, exp.Add) and isinstance(value, exp.Interval):
        value, interval = interval, value
    if not isinstance(interval, exp.Interval) or isinstance(value, exp.Interval):
        return None
    if isinstance(node, exp.Sub):
        interval = exp.Neg(this=exp.paren(interval))
    # A date and an interval of days are a date.
    return trino_macro("plus", value, interval)


def _subscript(node: exp.Expr) -> exp.Expr | None:
    value, indexes = node.this, node.expressions
    is_word = isinstance(value, exp.Column) and len(value.parts) == 1 and not value.this.args.get("quoted")
    if is_word and value.name.casefold() == _MAP:
        if len(indexes) % 2:
            raise InvalidQueryError("expected keys and values in turn in MAP[…]")
        return call(_MAP, *(exp.Array(expressions=indexes[first::2]) for first in (0, 1)))
    if is_word and value.name.casefold() == _ARRAY:
        return exp.Array(expressions=indexes)
    if len(indexes) != 1 or isinstance(indexes[0], exp.Slice):
        raise NotSupportedError("expected one number or key in brackets")
    # A text is a key of a map.
    return None if indexes[0].is_string else macro("subscript", value, indexes[0])


def _position(node: exp.Expr) -> exp.Expr:
    if node.args.get("position") is not None:
        raise NotSupportedError("expected POSITION(part IN text), found a third argument")
    return call("instr", node.this, node.args["substr"])


def _unnest(node: exp.Expr) -> exp.Expr | None:
    alias = node.args.get("alias")
    names = [] if alias is None else list(alias.columns)
    if node.args.get("offset"):
        raise NotSupportedError("UNNEST … WITH ORDINALITY is not known here")
    if len(names) > 2 or len(node.expressions) != 1:
        raise NotSupportedError(
            "UNNEST of an array of rows into their fields is not known here",
            hint="UNNEST(a) AS t (r) and r.field",
        )
    if alias is None or len(names) < 2:
        return None
    entries = node.expressions[0]
    parts = [
        exp.alias_(call("unnest", call(part, entries.copy())), name)
        for part, name in zip(("map_keys", "map_values"), names, strict=True)
    ]
    query = exp.select(*parts).subquery(alias.this.name if alias.this is not None else "entries", copy=False)
    return exp.Lateral(this=query)


_REWRITES: dict[type[exp.Expr], Rewrite] = {
    **OPERATORS,
    exp.Add: _plus,
    exp.Anonymous: _function,
    exp.Bracket: _subscript,
    exp.Cast: cast_as_flink,
    exp.Extract: extracting(dict(zip(_FIELDS, _FIELDS, strict=True))),
    exp.GroupConcat: _listagg,
    exp.Map: lambda node: call(_MAP, *arguments_of(node, "keys", "values")),
    exp.StrPosition: _position,
    exp.Sub: _plus,
    exp.Substring: lambda node: rewritten("substring", arguments_of(node, "this", "start", "length")),
    exp.TryCast: cast_as_flink,
    exp.Unnest: _unnest,
}
_REFUSED_SYNTAX = (
    exp.JSONArray, exp.JSONExists, exp.JSONObject, exp.JSONTable, exp.JSONValue, exp.MatchRecognize,
    exp.SimilarTo,
)  # fmt: skip
# What sqlglot counts as functions and is SQL's own syntax, with one meaning in both dialects.
_SYNTAX = (
    exp.And, exp.Anonymous, exp.Array, exp.Case, exp.Coalesce, exp.Count, exp.CurrentDate, exp.CurrentTime,
    exp.CurrentTimestamp, exp.Exists, exp.If, exp.Localtime, exp.Localtimestamp, exp.Nullif, exp.Or,
    exp.Struct, exp.Trim, exp.Xor,
)  # fmt: skip
