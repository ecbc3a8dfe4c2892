"""Calls, casts and literals of Spark's SQL, and `translate`, which finds the handler of an expression.

Columns, fields, elements and literals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Protocol

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from catalog.errors import near_names
from service.base.errors import ColumnNotFoundError, NotOnSparkError, near_names_hint
from service.query.engines.spark.types import (
    HUGEINT,
    TIMESTAMP,
    Term,
    common_type,
    decimal,
    holds,
    integer_type,
    is_integer,
    is_nanoseconds,
    spark_name,
)

DOUBLE, BIGINT, INTEGER = pa.float64(), pa.int64(), pa.int32()
TEXT, BOOLEAN, DATE = pa.string(), pa.bool_(), pa.date32()
ZONED = pa.timestamp("us", tz="UTC")
DUCKDB = Dialect.get_or_raise("duckdb")
_DATE_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)?")
_DIGITS_IN_64_BITS = 18
_WRITTEN = {
    **{
        f"integer_of_{bits}": f"a cast to {name}"
        for bits, name in ((8, "TINYINT"), (16, "SMALLINT"), (32, "INTEGER"), (64, "BIGINT"))
    },
    "boolean": "a cast to BOOLEAN",
    "instant": "a cast to TIMESTAMP WITH TIME ZONE",
    "moment_of_0": "to_timestamp_ltz()",
    "moment_of_3": "to_timestamp_ltz()",
    "plus": "+",
    "string": "a cast to STRING",
    "subscript": "a subscript",
    "varchar": "a cast to VARCHAR",
}
_WIDE = exp.column("wide")
# DuckDB converts the halves of 64 bits one by one, so its last digit is not always that of the nearest DOUBLE.
_DOUBLE_OF_128_BITS = sqlglot.parse_one(
    """
    CASE
        WHEN wide BETWEEN -9007199254740992 AND 18446744073709551615 THEN CAST(wide AS DOUBLE)
        WHEN wide BETWEEN -18446744073709551616 AND -1 THEN -CAST(-1 - wide AS DOUBLE) - CAST(1 AS DOUBLE)
        ELSE CAST(pmod(wide, 18446744073709551616) AS DOUBLE)
            + CAST((wide - pmod(wide, 18446744073709551616)) / 18446744073709551616 AS DOUBLE)
            * CAST(18446744073709551616 AS DOUBLE)
    END
    """,
    dialect="spark",
)


class Scope(Protocol):
    """The meaning of names at the place of an expression.

    Attributes:
        divided: the values whose average is sum / count there: see `service.query.engines.spark.partial.divided`.
    """

    divided: Collection[exp.Expr]

    def column(self, node: exp.Column) -> Term:
        """Return the column that a name means."""

    def subquery(self, query: exp.Query) -> tuple[exp.Query, list[tuple[str, pa.DataType]]]:
        """Translate a query inside an expression; return it and its columns."""

    def handler(self, kind: type[exp.Expr]) -> Handler | None:
        """Return the handler of expressions of this kind; None if there is none."""


def translate(node: exp.Expr, scope: Scope) -> Term:
    """Translate an expression; return it with its type in DuckDB.

    Raises:
        NotOnSparkError: Spark cannot answer it as DuckDB does.
    """
    handler = scope.handler(type(node))
    if handler is None:
        raise NotOnSparkError(shown(node))
    return handler(node, scope)


def cast(typed: Term, target: pa.DataType) -> exp.Expr:
    """Return a value cast to the type that it takes beside other values; such a cast loses nothing."""
    if typed.text is not None and not pa.types.is_string(target):
        return parsed(typed.text, target)
    if typed.type == target:
        # Spark gives an integer literal a type of its own.
        return typed.node if typed.integer is None else as_type(typed.node, target)
    if is_nanoseconds(typed.type) and pa.types.is_timestamp(target):
        return microseconds(typed.node)
    if is_nanoseconds(target) and pa.types.is_timestamp(typed.type) and pa.types.is_timestamp(target):
        return _nanoseconds(typed.node)
    refuse_if(typed.type != pa.null() and is_nanoseconds(target), f"{typed.type} beside {target}")
    if pa.types.is_floating(target):
        return as_floating(typed.node, typed.type, target)
    return as_type(typed.node, target)


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call of a Spark function; sqlglot writes it without a translation of its own."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def as_type(node: exp.Expr, target: pa.DataType) -> exp.Expr:
    """Return a cast to the Spark type of a type of DuckDB's; no cast for the type of an untyped NULL."""
    if target == pa.null():
        return node
    return exp.Cast(this=node, to=exp.DataType.build(spark_name(target), dialect="spark"))


def as_floating(node: exp.Expr, source: pa.DataType, target: pa.DataType) -> exp.Expr:
    """Return a number cast to FLOAT or DOUBLE. DuckDB converts whole numbers of 128 bits in its own way.

    Raises:
        NotOnSparkError: Spark would convert the number differently.
    """
    if not (pa.types.is_decimal(source) and source.scale == 0 and source.precision > _DIGITS_IN_64_BITS):
        return as_type(node, target)
    refuse_if(target != DOUBLE, f"{source} as {target}")
    wide = as_type(node, HUGEINT)
    return _DOUBLE_OF_128_BITS.transform(lambda part: wide.copy() if part == _WIDE else part)


def knows(node: exp.Expr, *arguments: str) -> None:
    """Check that a node has no arguments but these, which its handler translates.

    Raises:
        NotOnSparkError: it has another one, which would be lost.
    """
    for name, value in node.args.items():
        if name not in arguments and value not in (None, False, []):
            raise NotOnSparkError(f"{shown(node)} with {name.replace('_', ' ').upper()}")


def only(node: exp.Expr, scope: Scope, *others: str) -> Term:
    """Translate the argument of a node that has one, beside others that its handler translates."""
    knows(node, "this", *others)
    return translate(node.this, scope)


def both(node: exp.Expr, scope: Scope, *others: str) -> tuple[Term, Term]:
    """Translate the two sides of a node, which has no arguments but these and others that its handler translates."""
    return only(node, scope, "expression", *others), translate(node.args["expression"], scope)


def is_whole(node: exp.Expr | None) -> bool:
    """Return whether a node is a literal integer."""
    return isinstance(node, exp.Literal) and node.is_int


def refuse_if(condition: object, what: str) -> None:
    """Refuse an expression that Spark cannot answer as DuckDB does.

    Args:
        condition: true if it cannot.
        what: the expression, for people.

    Raises:
        NotOnSparkError: the condition is true.
    """
    if condition:
        raise NotOnSparkError(what)


def shown(node: exp.Expr) -> str:
    """Return an expression's name for people."""
    if isinstance(node, exp.Anonymous):
        prefix, _, name = node.name.lower().partition("_")
        # The macros of other dialects, which nobody wrote.
        return _WRITTEN.get(name, f"{name}()") if prefix in ("trino", "flink") else f"{node.name}()"
    return f"{node.sql_name().lower()}()" if isinstance(node, exp.Func) else node.key.upper()


def number_of(value: float | str) -> exp.Expr:
    """Return a literal number; a text is written as it is, with Spark's suffixes."""
    return exp.Literal.number(value)


def text_of(value: str) -> exp.Expr:
    """Return a literal text."""
    return exp.Literal.string(value)


def if_else(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr) -> exp.Expr:
    """Return a CASE of two values."""
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=otherwise)


def is_null(node: exp.Expr) -> exp.Expr:
    """Return a condition that is true for NULL."""
    return exp.Is(this=node, expression=exp.Null())


def negation(condition: exp.Expr) -> exp.Expr:
    """Return the opposite of a condition."""
    return exp.Not(this=exp.Paren(this=condition))


def only_if(condition: exp.Expr, then: exp.Expr, otherwise: str) -> exp.Expr:
    """Return `then`, or an error where the condition is false. A condition that is NULL is no error."""
    # `errors.py` knows this text again, and makes a NotOnSparkError of it.
    error = call("raise_error", text_of(f"{otherwise} is not answered by Spark as by DuckDB"))
    return if_else(negation(condition), error, then)


def binary(kind: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return an operator with two operands, in parentheses."""
    return exp.Paren(this=kind(this=left, expression=right))


def parsed(text: str, target: pa.DataType) -> exp.Expr:
    """Return a text literal as the type that stands beside it, if both engines read it alike."""
    if is_integer(target) and re.fullmatch(r"-?\d{1,19}", text) and holds(target, int(text)):
        return as_type(number_of(text), target)
    if pa.types.is_date(target) and _DATE_TEXT.fullmatch(text):
        return as_type(text_of(text), target)
    if pa.types.is_timestamp(target) and target.tz is None and _TIMESTAMP_TEXT.fullmatch(text):
        instant = as_type(text_of(text), TIMESTAMP)
        return _nanoseconds(instant) if target.unit == "ns" else instant
    raise NotOnSparkError(f"the text {text!r} as {target}")


def microseconds(nanoseconds: exp.Expr) -> exp.Expr:
    """Return a timestamp[ns] as TIMESTAMP."""
    return as_type(call("timestamp_micros", thousandths(nanoseconds)), TIMESTAMP)


def thousandths(number: exp.Expr) -> exp.Expr:
    """Return a thousandth of a BIGINT, with halves rounded away from zero: so DuckDB makes coarser timestamps of finer ones.

    Spark's own functions round down, and `div` truncates towards zero.
    """
    rest = binary(exp.Mod, number.copy(), number_of(1000))
    return binary(
        exp.Add,
        exp.IntDiv(this=number, expression=number_of(1000)),
        exp.IntDiv(this=rest, expression=number_of(500)),
    )


def _nanoseconds(instant: exp.Expr) -> exp.Expr:
    """Return a TIMESTAMP_NTZ as the BIGINT that stands for a timestamp[ns]; Spark raises an error beyond its range."""
    return binary(exp.Mul, unix_micros(instant), as_type(number_of(1000), BIGINT))


def unix_micros(instant: exp.Expr) -> exp.Expr:
    """Return the microseconds of a TIMESTAMP_NTZ: Spark's functions of the epoch take a zone, and that of the session is UTC."""
    return call("unix_micros", as_type(instant, ZONED))


def instant_of(typed: Term) -> exp.Expr:
    """Return a date or timestamp as TIMESTAMP_NTZ."""
    if pa.types.is_date(typed.type) or (pa.types.is_timestamp(typed.type) and typed.type.tz is None):
        return cast(typed, TIMESTAMP)
    raise NotOnSparkError(f"a part of {typed.type}")


Handler = Callable[[exp.Expr, Scope], Term]


def _column(node: exp.Expr, scope: Scope) -> Term:
    assert isinstance(node, exp.Column)
    found = scope.column(node)
    spark_name(found.type)  # refuses a type that Spark does not have
    return found


def _dot(node: exp.Expr, scope: Scope) -> Term:
    return _field(only(node, scope, "expression"), node.args["expression"].name)


def _struct_extract(node: exp.Expr, scope: Scope) -> Term:
    name = node.args["expression"]
    refuse_if(not name.is_string, "struct_extract() of anything but a name")
    return _field(only(node, scope, "expression"), name.name)


def _field(whole: Term, name: str) -> Term:
    refuse_if(not pa.types.is_struct(whole.type), f"a field of {whole.type}")
    for part in whole.type:
        if part.name.casefold() == name.casefold():
            return Term(
                exp.Dot(this=whole.node, expression=exp.to_identifier(part.name, quoted=True)), part.type
            )
    near = near_names(name, [part.name for part in whole.type])
    raise ColumnNotFoundError(f"there is no column {name!r}", hint=near_names_hint(near))


def _bracket(node: exp.Expr, scope: Scope) -> Term:
    whole = only(node, scope, "expressions")
    # sqlglot's parser makes indexes count from 0; this undoes it, as sqlglot's generator for DuckDB does.
    (index,) = exp.apply_index_offset(node.this, node.expressions, DUCKDB.INDEX_OFFSET, dialect=DUCKDB)
    refuse_if(isinstance(index, exp.Slice), "a slice of a list")
    if pa.types.is_struct(whole.type) and index.is_string:
        return _field(whole, index.name)
    if pa.types.is_map(whole.type):
        key = same_kind(translate(index, scope), whole.type.key_type)
        return Term(call("try_element_at", whole.node, key), whole.type.item_type)
    place = translate(index, scope)
    refuse_if(
        not pa.types.is_list(whole.type) or not is_integer(place.type),
        f"an element of {whole.type} by {place.type}",
    )
    # `list[0]` is NULL on DuckDB; for Spark, 0 is an error also in `try_element_at`.
    number = call("nullif", as_type(place.node, INTEGER), number_of(0))
    return Term(call("try_element_at", whole.node, number), whole.type.value_type)


def same_kind(typed: Term, target: pa.DataType) -> exp.Expr:
    """Return a value cast to a type that it takes beside a value of this type.

    Raises:
        NotOnSparkError: the common type is another.
    """
    refuse_if(common_type(typed, Term(exp.Null(), target)) != target, f"{typed.type} beside {target}")
    return cast(typed, target)


def _literal(node: exp.Expr, _: Scope) -> Term:
    if node.is_string:
        return Term(node.copy(), TEXT, text=node.name)
    return number_literal(node.name, "")


def number_literal(digits: str, sign: str) -> Term:
    """Return a literal number with DuckDB's type: an integer, a decimal of its digits, or a DOUBLE if it has an exponent."""
    if re.fullmatch(r"\d+", digits):
        value = int(sign + digits)
        kind = integer_type(value)
        return Term(as_type(number_of(sign + digits), kind), kind, integer=value)
    if re.fullmatch(r"\d*\.\d+", digits):
        whole, _, fraction = digits.partition(".")
        kind = decimal(max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction))
        # The one leading zero of `0.5` is a digit to DuckDB: DECIMAL(2, 1).
        if whole == "0":
            kind = decimal(1 + len(fraction), len(fraction))
        return Term(as_type(number_of(f"{sign}{digits}BD"), kind), kind)
    return Term(as_type(text_of(sign + digits), DOUBLE), DOUBLE)


def _paren(node: exp.Expr, scope: Scope) -> Term:
    inner = translate(node.this, scope)
    return Term(exp.Paren(this=inner.node), inner.type, inner.integer, inner.text)


HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.Boolean: lambda node, _: Term(exp.Boolean(this=node.this), BOOLEAN),
    exp.Bracket: _bracket,
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Literal: _literal,
    exp.Null: lambda *_: Term(exp.Null(), pa.null()),
    exp.Paren: _paren,
    exp.StructExtract: _struct_extract,
}
