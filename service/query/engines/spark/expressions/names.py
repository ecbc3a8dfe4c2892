"""Columns, fields, elements and literals."""

from __future__ import annotations

import re

import pyarrow as pa
from sqlglot import exp

from catalog.errors import near_names
from service.base.errors import ColumnNotFoundError, NotOnSparkError, near_names_hint
from service.query.engines.spark.expressions.terms import (
    BOOLEAN,
    DOUBLE,
    DUCKDB,
    INTEGER,
    TEXT,
    Handler,
    Scope,
    as_type,
    call,
    cast,
    knows,
    number_of,
    text_of,
    translate,
)
from service.query.engines.spark.types import Term, common_type, decimal, integer_type, is_integer, spark_name


def _column(node: exp.Expr, scope: Scope) -> Term:
    assert isinstance(node, exp.Column)
    found = scope.column(node)
    spark_name(found.type)  # refuses a type that Spark does not have
    return found


def _dot(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expression")
    return _field(translate(node.this, scope), node.args["expression"].name)


def _struct_extract(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expression")
    name = node.args["expression"]
    if not name.is_string:
        raise NotOnSparkError("struct_extract() of anything but a name")
    return _field(translate(node.this, scope), name.name)


def _field(whole: Term, name: str) -> Term:
    if not pa.types.is_struct(whole.type):
        raise NotOnSparkError(f"a field of {whole.type}")
    for part in whole.type:
        if part.name.casefold() == name.casefold():
            return Term(
                exp.Dot(this=whole.node, expression=exp.to_identifier(part.name, quoted=True)), part.type
            )
    near = near_names(name, [part.name for part in whole.type])
    raise ColumnNotFoundError(f"there is no column {name!r}", hint=near_names_hint(near))


def _bracket(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expressions")
    whole = translate(node.this, scope)
    # sqlglot's parser makes indexes count from 0; this undoes it, as sqlglot's generator for DuckDB does.
    (index,) = exp.apply_index_offset(node.this, node.expressions, DUCKDB.INDEX_OFFSET, dialect=DUCKDB)
    if isinstance(index, exp.Slice):
        raise NotOnSparkError("a slice of a list")
    if pa.types.is_struct(whole.type) and index.is_string:
        return _field(whole, index.name)
    if pa.types.is_map(whole.type):
        key = cast(same_kind(translate(index, scope), whole.type.key_type), whole.type.key_type)
        return Term(call("try_element_at", whole.node, key), whole.type.item_type)
    place = translate(index, scope)
    if not pa.types.is_list(whole.type) or not is_integer(place.type):
        raise NotOnSparkError(f"an element of {whole.type} by {place.type}")
    # `list[0]` is NULL on DuckDB; for Spark, 0 is an error also in `try_element_at`.
    number = call("nullif", as_type(place.node, INTEGER), number_of(0))
    return Term(call("try_element_at", whole.node, number), whole.type.value_type)


def same_kind(typed: Term, target: pa.DataType) -> Term:
    """Return a value that becomes this type beside another one.

    Raises:
        NotOnSparkError: the common type is another.
    """
    if common_type(typed, Term(exp.Null(), target)) != target:
        raise NotOnSparkError(f"{typed.type} beside {target}")
    return typed


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


def _boolean(node: exp.Expr, _: Scope) -> Term:
    return Term(exp.Boolean(this=node.this), BOOLEAN)


def _null(_: exp.Expr, __: Scope) -> Term:
    return Term(exp.Null(), pa.null())


def _paren(node: exp.Expr, scope: Scope) -> Term:
    inner = translate(node.this, scope)
    return Term(exp.Paren(this=inner.node), inner.type, inner.integer, inner.text)


HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.Boolean: _boolean,
    exp.Bracket: _bracket,
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Paren: _paren,
    exp.StructExtract: _struct_extract,
}
