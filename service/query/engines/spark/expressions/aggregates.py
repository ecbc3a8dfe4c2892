"""Aggregates and windows."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from service.query.engines.spark.expressions.conditions import ordered, truth
from service.query.engines.spark.expressions.terms import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    Handler,
    Scope,
    as_type,
    binary,
    both,
    call,
    cast,
    if_else,
    is_null,
    is_whole,
    knows,
    negation,
    number_of,
    only,
    refuse_if,
    same_kind,
    shown,
    text_of,
    translate,
)
from service.query.engines.spark.partial import MergedAvg, MergedCount
from service.query.engines.spark.types import HUGEINT, Term, is_nested, is_number

Wrap = Callable[[exp.Expr], exp.Expr]
AVERAGE = "savepointdb_average"
"""The name of `service.spark.average` in the SQL for Spark."""
_MOST_DIGITS_OF_16_BITS = 4


def has_aggregate(node: exp.Expr) -> bool:
    """Return whether an expression aggregates rows; a window does not."""
    if isinstance(node, exp.Window | exp.Query):
        return False
    if type(node) in _AGGREGATES:
        return True
    return any(has_aggregate(child) for child in node.iter_expressions())


def _plain(node: exp.Expr) -> exp.Expr:
    return node


def _aggregate(node: exp.Expr, scope: Scope, wrap: Wrap = _plain) -> Term:
    return _AGGREGATES[type(node)](node, scope, wrap)


def _filter(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expression")
    refuse_if(type(node.this) not in _AGGREGATES, f"FILTER of {shown(node.this)}")
    condition = truth(node.args["expression"].this, scope)

    def wrap(aggregate: exp.Expr) -> exp.Expr:
        return exp.Filter(this=aggregate, expression=exp.Where(this=condition.copy()))

    return _aggregate(node.this, scope, wrap)


def _window(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "partition_by", "order", "spec", "over")
    refuse_if(node.args.get("over") not in (None, "OVER"), "this kind of window")
    function = node.this
    is_known = type(function) in _WINDOW_FUNCTIONS or type(function) in _AGGREGATES
    refuse_if(not is_known, f"{shown(function)} of a window")
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
        # A rank in no order would be any number.
        refuse_if(not items, f"{shown(function)} without ORDER BY")
        return _WINDOW_FUNCTIONS[type(function)](function, scope, wrap)
    has_distinct = function.find(exp.Distinct) is not None
    refuse_if(type(function) is exp.ArrayAgg or has_distinct, f"{shown(function)} of a window")
    return _aggregate(function, scope, wrap)


def _frame(spec: exp.Expr | None) -> exp.Expr | None:
    if spec is None:
        return None
    knows(spec, "kind", "start", "start_side", "end", "end_side")
    refuse_if(str(spec.args.get("kind", "")).upper() != "ROWS", "a window frame of anything but ROWS")
    edges = (spec.args.get(name) for name in ("start", "end"))
    is_known = all(edge is None or isinstance(edge, str) or is_whole(edge) for edge in edges)
    refuse_if(not is_known, "a window frame of anything but numbers")
    return spec.copy()


def _rank(node: exp.Expr, _: Scope, wrap: Wrap) -> Term:
    assert isinstance(node, exp.Func)
    knows(node)
    return Term(as_type(wrap(call(node.sql_name().lower())), BIGINT), BIGINT)


def _neighbour(node: exp.Expr, scope: Scope, wrap: Wrap) -> Term:
    value, name = only(node, scope, "offset", "default"), node.key
    offset, default = node.args.get("offset") or number_of(1), node.args.get("default")
    refuse_if(not is_whole(offset), f"{name}() by anything but a number")
    arguments = [value.node, offset.copy()]
    if default is not None:
        arguments.append(same_kind(translate(default, scope), value.type))
    return Term(wrap(call(name, *arguments)), value.type)


def _count(node: exp.Expr, scope: Scope, wrap: Wrap) -> Term:
    if node.args.get("this") is None or isinstance(node.this, exp.Star):
        knows(node, "this", "big_int")
        return Term(wrap(exp.Count(this=exp.Star())), BIGINT)
    value, distinct = _argument(node, scope, "big_int")
    refuse_if(distinct and has_map(value.type), f"distinct {value.type}")
    return Term(wrap(exp.Count(this=_distinct(value.node, distinct))), BIGINT)


def has_map(arrow_type: pa.DataType) -> bool:
    """Return whether a type is or contains a map: Spark cannot group by maps."""
    parts = (arrow_type.field(number).type for number in range(arrow_type.num_fields))
    return bool(pa.types.is_map(arrow_type)) or any(map(has_map, parts))


def _argument(node: exp.Expr, scope: Scope, *others: str) -> tuple[Term, bool]:
    """Translate the only argument of an aggregate; return it and whether it is DISTINCT."""
    knows(node, "this", *others)
    inner = node.this
    if isinstance(inner, exp.Distinct):
        knows(inner, "expressions")
        refuse_if(len(inner.expressions) != 1, "DISTINCT of several values")
        return translate(inner.expressions[0], scope), True
    return translate(inner, scope), False


def _distinct(node: exp.Expr, distinct: bool) -> exp.Expr:
    return exp.Distinct(expressions=[node]) if distinct else node


def _sum(node: exp.Expr, scope: Scope, wrap: Wrap) -> Term:
    value, distinct = _argument(node, scope)
    return _total(value, distinct, wrap)


def _total(value: Term, distinct: bool, wrap: Wrap) -> Term:
    if value.type == BOOLEAN:
        value = Term(as_type(value.node, INTEGER), INTEGER)
    if pa.types.is_floating(value.type):
        return Term(wrap(exp.Sum(this=_distinct(as_type(value.node, DOUBLE), distinct))), DOUBLE)
    refuse_if(not is_number(value.type), f"sum() of {value.type}")
    if not pa.types.is_signed_integer(value.type):
        result = pa.decimal128(38, value.type.scale)
        return Term(as_type(wrap(exp.Sum(this=_distinct(value.node, distinct))), result), result)
    # HUGEINT is DuckDB's type for the sum of integers. Spark sums integers as BIGINT, and refuses one that overflows.
    if distinct:
        exact = as_type(value.node, pa.decimal128(20, 0))
        return Term(as_type(wrap(exp.Sum(this=_distinct(exact, True))), HUGEINT), HUGEINT)
    if value.type != BIGINT:
        return Term(as_type(wrap(exp.Sum(this=as_type(value.node, BIGINT))), HUGEINT), HUGEINT)
    # Each half has 32 bits, so its sum overflows a BIGINT after two billion rows at the earliest.
    high = wrap(exp.Sum(this=call("shiftright", value.node, number_of(32))))
    low = wrap(exp.Sum(this=exp.BitwiseAnd(this=value.node.copy(), expression=number_of("4294967295L"))))
    shifted = as_type(
        binary(exp.Mul, as_type(high, HUGEINT), as_type(number_of(4294967296), pa.decimal128(10, 0))), HUGEINT
    )
    return Term(as_type(binary(exp.Add, shifted, as_type(low, HUGEINT)), HUGEINT), HUGEINT)


def _avg(node: exp.Expr, scope: Scope, wrap: Wrap) -> Term:
    value, distinct = _argument(node, scope)
    if pa.types.is_floating(value.type):
        return Term(wrap(exp.Avg(this=_distinct(as_type(value.node, DOUBLE), distinct))), DOUBLE)
    # Of integers and decimals the two engines divide differently.
    total = _total(value, distinct, wrap)
    count = wrap(exp.Count(this=_distinct(value.node.copy(), distinct)))
    if wrap is _plain and node.this in scope.divided:
        return _quotient(total, count)
    return _average_of_group(total, count, is_narrow=is_narrow(value.type))


def _average_of_group(total: Term, count: exp.Expr, *, is_narrow: bool) -> Term:
    """Return the average that `service.spark.average` computes; DuckDB divides numbers of 16 bits as DOUBLE."""
    if not is_narrow:
        return Term(call(AVERAGE, total.node, count), DOUBLE)
    power = as_type(number_of(10**total.type.scale), HUGEINT)
    whole = Term(as_type(binary(exp.Mul, total.node, power), HUGEINT), HUGEINT)
    return _quotient(whole, binary(exp.Mul, as_type(count, DOUBLE), as_type(power.copy(), DOUBLE)))


def is_narrow(kind: pa.DataType) -> bool:
    """Return whether DuckDB keeps numbers of a type in 16 bits or fewer."""
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= _MOST_DIGITS_OF_16_BITS)
    return kind in (pa.int8(), pa.int16())


def _quotient(total: Term, count: exp.Expr) -> Term:
    divisor = call("nullif", as_type(count, DOUBLE), as_type(number_of(0), DOUBLE))
    return Term(binary(exp.Div, cast(total, DOUBLE), divisor), DOUBLE)


def _merged_count(node: exp.Expr, scope: Scope, wrap: Wrap) -> Term:
    total = wrap(exp.Sum(this=translate(node.this, scope).node))
    return Term(exp.Coalesce(this=total, expressions=[as_type(number_of(0), BIGINT)]), BIGINT)


def _merged_avg(node: exp.Expr, scope: Scope, wrap: Wrap) -> Term:
    count = wrap(exp.Sum(this=translate(node.args["expression"], scope).node))
    total = _total(translate(node.this, scope), False, wrap)
    if node.args["of_group"] and total.type != DOUBLE:
        return _average_of_group(total, count, is_narrow=node.args["is_narrow"])
    return _quotient(total, count)


def _extreme(node: exp.Expr, scope: Scope, wrap: Wrap) -> Term:
    value, _ = _argument(node, scope)
    refuse_if(is_nested(value.type) or value.type == pa.null(), f"{node.key}() of {value.type}")
    return Term(wrap(call(node.key, value.node)), value.type)


def _extreme_by(name: str) -> Aggregate:
    """Return a handler for `arg_max` or `arg_min`, over the rows where neither value is NULL."""

    def handle(node: exp.Expr, scope: Scope, wrap: Wrap) -> Term:
        value, by = both(node, scope)
        refuse_if(is_nested(by.type), f"{name}() by {by.type}")
        known = negation(is_null(value.node.copy()))
        return Term(wrap(call(name, value.node, if_else(known, by.node, exp.Null()))), value.type)

    return handle


def _count_if(node: exp.Expr, scope: Scope, wrap: Wrap) -> Term:
    knows(node, "this")
    # A sum, because DuckDB answers NULL if every condition is NULL, and Spark's count_if answers 0.
    return _total(Term(truth(node.this, scope), BOOLEAN), False, wrap)


def _logical(name: str) -> Aggregate:
    def handle(node: exp.Expr, scope: Scope, wrap: Wrap) -> Term:
        knows(node, "this")
        return Term(wrap(call(name, truth(node.this, scope))), BOOLEAN)

    return handle


def _median(node: exp.Expr, scope: Scope, wrap: Wrap) -> Term:
    value, distinct = _argument(node, scope)
    is_known = pa.types.is_signed_integer(value.type) or value.type == DOUBLE
    refuse_if(distinct or not is_known, f"median() of {value.type}")
    return Term(wrap(call("median", value.node)), DOUBLE)


def _spread(name: str) -> Aggregate:
    def handle(node: exp.Expr, scope: Scope, wrap: Wrap) -> Term:
        value, distinct = _argument(node, scope)
        refuse_if(distinct or not is_number(value.type), f"{name}() of {value.type}")
        return Term(wrap(call(name, cast(value, DOUBLE))), DOUBLE)

    return handle


def _list(node: exp.Expr, scope: Scope, wrap: Wrap) -> Term:
    """Translate `list(x ORDER BY y)`: a sorted list of structs (y is null, y, x), of which x is kept."""
    knows(node, "this")
    # Without ORDER BY the order is that of the rows, which differs between engines and runs.
    refuse_if(not isinstance(node.this, exp.Order), "list() without ORDER BY")
    knows(node.this, "this", "expressions")
    refuse_if(isinstance(node.this.this, exp.Distinct), "list(DISTINCT)")
    value = translate(node.this.this, scope)
    refuse_if(has_map(value.type) or value.type == pa.null(), f"list() of {value.type}")
    keys: list[exp.Expr] = []
    for place, item in enumerate(node.this.expressions):
        key = ordered(item, scope)
        refuse_if(key.args["desc"] or key.args["nulls_first"], "list() ORDER BY … DESC or NULLS FIRST")
        keys += [text_of(f"n{place}"), exp.Paren(this=is_null(key.this))]
        keys += [text_of(f"k{place}"), key.this.copy()]
    rows = wrap(call("collect_list", call("named_struct", *keys, text_of("v"), value.node)))
    row = exp.to_identifier("row")
    field = exp.Dot(this=exp.Column(this=row.copy()), expression=exp.to_identifier("v"))
    values = call("transform", call("array_sort", rows), exp.Lambda(this=field, expressions=[row]))
    # DuckDB's list() of no rows is NULL, Spark's is empty.
    none = exp.EQ(this=call("size", rows.copy()), expression=number_of(0))
    return Term(if_else(none, exp.Null(), values), pa.list_(value.type))


Aggregate = Callable[[exp.Expr, Scope, Wrap], Term]
_AGGREGATES: dict[type[exp.Expr], Aggregate] = {
    exp.ArgMax: _extreme_by("max_by"),
    exp.ArgMin: _extreme_by("min_by"),
    exp.ArrayAgg: _list,
    exp.Avg: _avg,
    exp.Count: _count,
    exp.CountIf: _count_if,
    exp.LogicalAnd: _logical("bool_and"),
    exp.LogicalOr: _logical("bool_or"),
    exp.Max: _extreme,
    exp.Median: _median,
    exp.Min: _extreme,
    exp.Stddev: _spread("stddev_samp"),
    exp.StddevPop: _spread("stddev_pop"),
    exp.StddevSamp: _spread("stddev_samp"),
    exp.Sum: _sum,
    exp.Variance: _spread("var_samp"),
    exp.VariancePop: _spread("var_pop"),
    MergedAvg: _merged_avg,
    MergedCount: _merged_count,
}
_WINDOW_FUNCTIONS: dict[type[exp.Expr], Aggregate] = {
    **dict.fromkeys((exp.DenseRank, exp.Rank, exp.RowNumber), _rank),
    **dict.fromkeys((exp.Lag, exp.Lead), _neighbour),
}


HANDLERS: dict[type[exp.Expr], Handler] = {
    **dict.fromkeys(_AGGREGATES, _aggregate),
    exp.Filter: _filter,
    exp.Window: _window,
}
