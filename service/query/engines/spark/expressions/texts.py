"""Functions of texts, of dates and timestamps, of lists, maps and structs.

The macros of the dialects of Trino and Flink (`service.query.sql.translation.macros`) are translated for types of which they mean a
plain expression.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from service.base.errors import NotOnSparkError
from service.query.engines.spark.expressions.conditions import negated
from service.query.engines.spark.expressions.terms import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    TEXT,
    ZONED,
    Handler,
    Scope,
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
    negation,
    number_of,
    only,
    only_if,
    refuse_if,
    same_kind,
    shown,
    text_of,
    thousandths,
    translate,
    unix_micros,
)
from service.query.engines.spark.types import (
    TIMESTAMP,
    Term,
    common_type,
    is_integer,
    is_nanoseconds,
    is_nested,
)
from service.query.sql.translation.macros import FLINK_PREFIX, PREFIX

_UNITS_OF_DATES = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY"})


def _trino_date_trunc(node: exp.Expr, scope: Scope) -> Term:
    unit, value = _arguments(node, 2)
    kind = translate(value, scope).type
    refuse_if(not isinstance(unit, exp.Literal), shown(node))
    # sqlglot annotates no argument of this class.
    plain = exp.DateTrunc(this=value.copy(), unit=exp.var(unit.name.upper()))  # type: ignore[no-untyped-call]
    return _of_dates(plain, unit.name, kind, scope)


def _plus(node: exp.Expr, scope: Scope) -> Term:
    value, interval = _arguments(node, 2)
    written = interval.this if isinstance(interval, exp.Neg) else interval
    while isinstance(written, exp.Paren):
        written = written.this
    if not isinstance(written, exp.Interval) or written.args.get("unit") is None:
        raise NotOnSparkError(shown(node))
    unit = written.args["unit"]
    made = exp.Sub if isinstance(interval, exp.Neg) else exp.Add
    kind = translate(value, scope).type
    return _of_dates(made(this=value.copy(), expression=written.copy()), unit.name, kind, scope)


def _of_dates(plain: exp.Expr, unit: str, kind: pa.DataType, scope: Scope) -> Term:
    """Return a plain expression of dates, in the type of its argument."""
    if kind == TIMESTAMP:
        return translate(plain, scope)
    refuse_if(kind != DATE or unit.upper() not in _UNITS_OF_DATES, f"{unit} of {kind}")
    return Term(as_type(translate(plain, scope).node, DATE), DATE)


def _cast(target: str, *known: Callable[[pa.DataType], bool]) -> Handler:
    """Return the handler of a cast that is DuckDB's for types that pass one of these tests."""

    def handle(node: exp.Expr, scope: Scope) -> Term:
        (value,) = _arguments(node, 1)
        kind = translate(value, scope).type
        refuse_if(not any(test(kind) for test in known), f"this cast of {kind}")
        return translate(exp.cast(value.copy(), target), scope)

    return handle


def _arguments(node: exp.Expr, count: int) -> list[exp.Expr]:
    refuse_if(len(node.expressions) != count, shown(node))
    return node.expressions


_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}
_SHOWN_ALIKE = (pa.types.is_string, pa.types.is_integer, pa.types.is_date32)
MACROS: dict[str, Handler] = {
    PREFIX + "date_trunc": _trino_date_trunc,
    PREFIX + "plus": _plus,
    PREFIX + "varchar": _cast("VARCHAR", *_SHOWN_ALIKE, pa.types.is_boolean),
    FLINK_PREFIX + "string": _cast("VARCHAR", *_SHOWN_ALIKE),
    **{
        f"{prefix}integer_of_{bits}": _cast(name, pa.types.is_integer, pa.types.is_boolean)
        for prefix in (PREFIX, FLINK_PREFIX)
        for bits, name in _INTEGERS.items()
    },
}


# Letters that Java's toLowerCase and toUpperCase change into several, or into another one at the end of a word.
_ODD_LETTERS = {
    "lower": "[\\u0130\\u03A3]",
    "upper": "[\\u00DF\\u0149\\u01F0\\u0345\\u0390\\u03B0\\u0587\\u1E96-\\u1E9E\\u1F50-\\u1F57\\u1F80-\\u1FFC\\uFB00-\\uFB17]",
}


def _texts(node: exp.Expr, scope: Scope, *names: str) -> list[exp.Expr]:
    knows(node, *names)
    return [_plain_text(node.args[name], scope) for name in names]


def _plain_text(node: exp.Expr, scope: Scope) -> exp.Expr:
    typed = translate(node, scope)
    refuse_if(typed.type not in (TEXT, pa.null()), f"a text function of {typed.type}")
    return typed.node


def _text_call(name: str, result: pa.DataType, *arguments: str) -> Handler:
    """Return a handler for a function of texts that means the same on both engines."""

    def handle(node: exp.Expr, scope: Scope) -> Term:
        made = call(name, *_texts(node, scope, *arguments))
        return Term(as_type(made, result) if result == BIGINT else made, result)

    return handle


def _changed_case(node: exp.Expr, scope: Scope) -> Term:
    (text,), name = _texts(node, scope, "this"), node.key
    plain = negation(call("rlike", text.copy(), text_of(_ODD_LETTERS[name])))
    return Term(only_if(plain, call(name, text), f"{name}() of letters that change into several"), TEXT)


def _length(node: exp.Expr, scope: Scope) -> Term:
    value = only(node, scope)
    if value.type == TEXT:
        return Term(as_type(call("char_length", value.node), BIGINT), BIGINT)
    return _size(node, scope)


def _size(node: exp.Expr, scope: Scope) -> Term:
    value = only(node, scope)
    refuse_if(not pa.types.is_list(value.type), f"{shown(node)} of {value.type}")
    return Term(as_type(call("size", value.node), BIGINT), BIGINT)


def _substring(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "start", "length")
    text = _plain_text(node.this, scope)
    numbers = []
    for name, least in (("start", 1), ("length", 0)):
        number = node.args.get(name)
        if number is not None:
            is_known = is_whole(number) and int(number.name) >= least
            refuse_if(not is_known, f"substring() with a {name} that is not a number from {least} on")
            numbers.append(number.copy())
    return Term(call("substring", text, *numbers), TEXT)


def _end_of_text(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expression")
    number = node.args["expression"]
    refuse_if(not is_whole(number), f"{node.key}() by anything but a number")
    return Term(call(node.key, _plain_text(node.this, scope), number.copy()), TEXT)


def _joined(node: exp.Expr, scope: Scope) -> Term:
    left, right = both(node, scope, "safe")
    refuse_if(left.type != TEXT or right.type != TEXT, f"{left.type} || {right.type}")
    return Term(exp.Paren(this=exp.DPipe(this=left.node, expression=right.node, safe=True)), TEXT)


def _concat(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "expressions", "safe", "coalesce")
    parts = [_shown_text(translate(part, scope)) for part in node.expressions]
    return Term(call("concat_ws", text_of(""), *parts), TEXT)


def _concat_ws(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "expressions", "safe", "coalesce")
    separator, *parts = (translate(part, scope) for part in node.expressions)
    refuse_if(separator.text is None, "concat_ws() with a separator that is not a literal")
    return Term(call("concat_ws", separator.node, *map(_shown_text, parts)), TEXT)


def _shown_text(part: Term) -> exp.Expr:
    if part.type == TEXT:
        return part.node
    # Other types look different as texts.
    refuse_if(not is_integer(part.type) and part.type != pa.null(), f"concat() of {part.type}")
    return as_type(part.node, TEXT)


def _like(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expression", "negate")
    text, pattern = _plain_text(node.this, scope), node.args["expression"]
    # DuckDB's LIKE has no escape character; Spark's has the backslash.
    is_plain = isinstance(pattern, exp.Literal) and "\\" not in pattern.name
    refuse_if(not is_plain, "LIKE with a pattern that is no plain literal")
    return negated(node, exp.Like(this=text, expression=pattern.copy()))


def _digest(node: exp.Expr, scope: Scope) -> Term:
    sizes = [size for size in [node.args.get("length")] if size is not None]
    for size in sizes:
        refuse_if(size.name != "256", f"{shown(node)} of {size.name} bits")
    value = only(node, scope, "length")
    refuse_if(value.type not in (TEXT, pa.binary()), f"{shown(node)} of {value.type}")
    return Term(call(node.key, as_type(value.node, pa.binary()), *(size.copy() for size in sizes)), TEXT)


_TRUNCATED_TO = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})


# Spark counts days of the week from Sunday = 1 (`dayofweek`) or Monday = 0 (`weekday`); DuckDB from Sunday = 0 (DOW) or
# Monday = 1 (ISODOW).
_PARTS = {
    "YEAR": ("year", 0), "QUARTER": ("quarter", 0), "MONTH": ("month", 0), "WEEK": ("weekofyear", 0),
    "DAY": ("day", 0), "HOUR": ("hour", 0), "MINUTE": ("minute", 0), "SECOND": ("second", 0),
    "DOY": ("dayofyear", 0), "DAYOFYEAR": ("dayofyear", 0), "DOW": ("dayofweek", -1),
    "DAYOFWEEK": ("dayofweek", -1), "ISODOW": ("weekday", 1),
}  # fmt: skip


def _part_of(value: Term, unit: str) -> Term:
    name, shift = _PARTS[unit]
    number = call(name, instant_of(value))
    return Term(as_type(binary(exp.Add, number, number_of(shift)) if shift else number, BIGINT), BIGINT)


def _extract(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expression")
    unit = node.this.name.upper()
    value = translate(node.args["expression"], scope)
    if unit == "EPOCH":
        return _epoch_of(value)
    refuse_if(unit not in _PARTS, f"extract({unit})")
    return _part_of(value, unit)


def _part_call(node: exp.Expr, scope: Scope) -> Term:
    return _part_of(only(node, scope), node.key.upper())


def _epoch_of(value: Term) -> Term:
    micros = unix_micros(instant_of(value))
    return Term(binary(exp.Div, as_type(micros, DOUBLE), as_type(text_of("1e6"), DOUBLE)), DOUBLE)


def _epoch_ms(node: exp.Expr, scope: Scope) -> Term:
    """Translate `epoch_ms(timestamp)`, which sqlglot parses as the function that makes a timestamp of a number."""
    value, scale = only(node, scope, "scale"), node.args.get("scale")
    is_known = scale is not None and scale.name == "3" and pa.types.is_timestamp(value.type)
    refuse_if(not is_known or is_nanoseconds(value.type), "this conversion of an epoch")
    return Term(thousandths(unix_micros(instant_of(value))), BIGINT)


def _date_trunc(node: exp.Expr, scope: Scope) -> Term:
    unit = node.args["unit"].name.upper()
    refuse_if(unit not in _TRUNCATED_TO, f"date_trunc({unit})")
    instant = as_type(instant_of(only(node, scope, "unit")), ZONED)
    return Term(as_type(call("date_trunc", text_of(unit), instant), TIMESTAMP), TIMESTAMP)


def _date_diff(node: exp.Expr, scope: Scope) -> Term:
    instants = both(node, scope, "unit", "date_part_boundary")
    refuse_if(node.args["unit"].name.upper() != "DAY", f"date_diff({node.args['unit'].name})")
    # DuckDB counts the midnights between two instants: only their dates matter.
    days = (as_type(instant_of(value), DATE) for value in instants)
    return Term(as_type(call("datediff", *days), BIGINT), BIGINT)


def _struct(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "expressions")
    arguments: list[exp.Expr] = []
    fields: list[tuple[str, pa.DataType]] = []
    for item in node.expressions:
        refuse_if(not isinstance(item, exp.PropertyEQ), "a struct without names")
        value = translate(item.args["expression"], scope)
        refuse_if(value.type == pa.null(), "a struct of an untyped NULL")
        fields.append((item.this.name, value.type))
        arguments += [text_of(item.this.name), value.node]
    return Term(call("named_struct", *arguments), pa.struct(fields))


def _array(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "expressions", "bracket_notation", "value_constructor")
    values = [translate(value, scope) for value in node.expressions]
    refuse_if(not values, "an empty list")
    common = common_type(*values)
    return Term(call("array", *(cast(value, common) for value in values)), pa.list_(common))


def _contains(node: exp.Expr, scope: Scope) -> Term:
    """Translate `list_contains`; `contains` of a text is another node."""
    whole, item = both(node, scope)
    is_plain = pa.types.is_list(whole.type) and not is_nested(whole.type.value_type)
    refuse_if(not is_plain, f"list_contains() of {whole.type}")
    found = call("array_contains", whole.node, same_kind(item, whole.type.value_type))
    # NULL only if the list or the item is: Spark answers NULL also for a list that has NULLs and not the item.
    missing = exp.Or(this=is_null(whole.node.copy()), expression=is_null(item.node.copy()))
    return Term(if_else(missing, exp.Null(), call("coalesce", found, exp.false())), BOOLEAN)


def _map_part(name: str) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Term:
        value = only(node, scope)
        refuse_if(not pa.types.is_map(value.type), f"{name}() of {value.type}")
        kind = value.type.key_type if name == "map_keys" else value.type.item_type
        return Term(call(name, value.node), pa.list_(kind))

    return handle


def _named_call(node: exp.Expr, scope: Scope) -> Term:
    """Translate a function for which sqlglot has no class."""
    name = node.name.lower()
    if name in MACROS:
        return MACROS[name](node, scope)
    refuse_if(name != _MAP_VALUES, shown(node))
    (value,) = _arguments(node, 1)
    return _map_part(name)(exp.Func(this=value), scope)


_MAP_VALUES = "map_values"


HANDLERS: dict[type[exp.Expr], Handler] = {
    **dict.fromkeys(
        (exp.Day, exp.Hour, exp.Minute, exp.Month, exp.Quarter, exp.Second, exp.Year), _part_call
    ),
    **dict.fromkeys((exp.DayOfWeek, exp.DayOfYear), _part_call),
    exp.Anonymous: _named_call,
    exp.Array: _array,
    exp.ArrayContains: _contains,
    exp.ArraySize: _size,
    exp.Concat: _concat,
    exp.ConcatWs: _concat_ws,
    exp.Contains: _text_call("contains", BOOLEAN, "this", "expression"),
    exp.DPipe: _joined,
    exp.DateDiff: _date_diff,
    exp.DateTrunc: _date_trunc,
    exp.DayOfWeekIso: lambda node, scope: _part_of(only(node, scope), "ISODOW"),
    exp.EndsWith: _text_call("endswith", BOOLEAN, "this", "expression"),
    exp.Extract: _extract,
    exp.Left: _end_of_text,
    exp.Length: _length,
    exp.Like: _like,
    exp.Lower: _changed_case,
    exp.MD5: _digest,
    exp.MapKeys: _map_part("map_keys"),
    exp.Replace: _text_call("replace", TEXT, "this", "expression", "replacement"),
    exp.Right: _end_of_text,
    exp.SHA2: _digest,
    exp.StartsWith: _text_call("startswith", BOOLEAN, "this", "expression"),
    exp.StrPosition: _text_call("instr", BIGINT, "this", "substr"),
    exp.Struct: _struct,
    exp.Substring: _substring,
    exp.TimeToUnix: lambda node, scope: _epoch_of(only(node, scope)),
    exp.TimestampTrunc: _date_trunc,
    exp.UnixToTime: _epoch_ms,
    exp.Upper: _changed_case,
}
