"""Comparisons, logic, subqueries, CASE, and the order of rows."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from service.query.engines.spark.expressions.terms import (
    BOOLEAN,
    Handler,
    Scope,
    as_type,
    both,
    call,
    cast,
    if_else,
    knows,
    negation,
    only,
    refuse_if,
    translate,
)
from service.query.engines.spark.types import Term, common_type, is_nested


def ordered(node: exp.Expr, scope: Scope) -> exp.Ordered:
    """Translate an item of ORDER BY."""
    item = only(node, scope, "desc", "nulls_first")
    check_order(item.type)
    return same_order(item.node, node)


def same_order(by: exp.Expr, node: exp.Expr) -> exp.Ordered:
    """Return an item of ORDER BY in the direction of another one."""
    return exp.Ordered(
        this=by, desc=bool(node.args.get("desc")), nulls_first=bool(node.args.get("nulls_first"))
    )


def check_order(kind: pa.DataType) -> None:
    """Refuse to order by values that the engines order differently."""
    refuse_if(is_nested(kind), f"an order of {kind}")


def _comparison(node: exp.Expr, scope: Scope) -> Term:
    left, right = both(node, scope)
    return Term(type(node)(this=_side(left, right), expression=_side(right, left)), BOOLEAN)


def _side(typed: Term, *others: Term) -> exp.Expr:
    """Return one side of a comparison, cast to the type that both sides have."""
    common = common_type(typed, *others)
    refuse_if(is_nested(common), f"a comparison of {common}")
    made = cast(typed, common)
    is_closed = isinstance(made, exp.Column | exp.Literal | exp.Cast | exp.Anonymous)
    return made if is_closed else exp.Paren(this=made)


def _differs(node: exp.Expr, scope: Scope) -> Term:
    left, right = both(node, scope)
    same = exp.NullSafeEQ(this=_side(left, right), expression=_side(right, left))
    return Term(negation(same), BOOLEAN)


def _between(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "low", "high", "negate")
    value, low, high = (translate(node.args[name], scope) for name in ("this", "low", "high"))
    made = exp.Between(
        this=_side(value, low, high), low=_side(low, value, high), high=_side(high, value, low)
    )
    return negated(node, made)


def _in(node: exp.Expr, scope: Scope) -> Term:
    value = only(node, scope, "expressions", "query", "negate")
    query = node.args.get("query")
    if query is not None:
        inner, columns = scope.subquery(query.this if isinstance(query, exp.Subquery) else query)
        kinds = [kind for _, kind in columns]
        is_unlike = kinds != [value.type] or is_nested(value.type)
        refuse_if(is_unlike, f"{value.type} IN a query of {', '.join(map(str, kinds))}")
        return negated(node, exp.In(this=cast(value, value.type), query=exp.Subquery(this=inner)))
    options = [translate(option, scope) for option in node.expressions]
    made = exp.In(
        this=_side(value, *options), expressions=[_side(option, value, *options) for option in options]
    )
    return negated(node, made)


def negated(node: exp.Expr, made: exp.Expr) -> Term:
    """Return a condition, negated if the node is (NOT IN, NOT LIKE, …)."""
    return Term(negation(made) if node.args.get("negate") else made, BOOLEAN)


def _is(node: exp.Expr, scope: Scope) -> Term:
    right = node.args["expression"]
    refuse_if(not isinstance(right, exp.Null | exp.Boolean), "IS")
    left = only(node, scope, "expression", "negate")
    made = exp.Is(this=exp.Paren(this=left.node), expression=right.copy())
    return negated(node, made)


def _connector(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expression")
    left, right = truth(node.this, scope), truth(node.args["expression"], scope)
    return Term(type(node)(this=exp.Paren(this=left), expression=exp.Paren(this=right)), BOOLEAN)


def truth(node: exp.Expr, scope: Scope) -> exp.Expr:
    """Translate a condition: of WHERE, HAVING, ON, CASE or a logical operator.

    Raises:
        NotOnSparkError: it is a number or another value, which DuckDB takes as a condition.
    """
    condition = translate(node, scope)
    refuse_if(condition.type not in (BOOLEAN, pa.null()), f"{condition.type} as a condition")
    # Spark takes no untyped NULL for a condition.
    return as_type(condition.node, BOOLEAN) if condition.type == pa.null() else condition.node


def _exists(node: exp.Expr, scope: Scope) -> Term:
    query = node.this.this if isinstance(node.this, exp.Subquery) else node.this
    return Term(exp.Exists(this=scope.subquery(query)[0]), BOOLEAN)


def _scalar(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this")
    inner, columns = scope.subquery(node.this)
    refuse_if(len(columns) != 1, "a query of several columns as a value")
    return Term(exp.Subquery(this=inner), columns[0][1])


def _case(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "ifs", "default")
    subject = node.args.get("this")
    conditions, values = [], []
    for branch in node.args["ifs"]:
        condition = branch.this
        if subject is not None:  # CASE x WHEN 1: compared by the rules of `=`
            condition = exp.EQ(this=subject.copy(), expression=condition.copy())
        conditions.append(truth(condition, scope))
        values.append(translate(branch.args["true"], scope))
    default = node.args.get("default")
    # Without ELSE it is NULL, which takes any type.
    values.append(translate(default, scope) if default is not None else Term(exp.Null(), pa.null()))
    common = common_type(*values)
    *shown, last = (cast(value, common) for value in values)
    branches = [exp.If(this=one, true=value) for one, value in zip(conditions, shown, strict=True)]
    return Term(exp.Case(ifs=branches, default=last), common)


def _if_function(node: exp.Expr, scope: Scope) -> Term:
    branch = exp.If(this=node.this, true=node.args["true"])
    return _case(exp.Case(ifs=[branch], default=node.args.get("false")), scope)


def _common_call(node: exp.Expr, scope: Scope) -> Term:
    """Translate a function that has the common type of its arguments."""
    knows(node, "this", "expressions", "ignore_nulls")
    values = [translate(value, scope) for value in (node.this, *node.expressions)]
    common = common_type(*values)
    # The others compare, and the engines order these differently.
    refuse_if(is_nested(common) and type(node) is not exp.Coalesce, f"{node.key}() of {common}")
    if len(values) == 1:  # Spark's greatest and least take two arguments or more
        return Term(cast(values[0], common), common)
    return Term(call(node.key, *(cast(value, common) for value in values)), common)


def _nullif(node: exp.Expr, scope: Scope) -> Term:
    value, other = both(node, scope)
    same = exp.EQ(this=_side(value, other), expression=_side(other, value))
    return Term(if_else(same, exp.Null(), value.node.copy()), value.type)


HANDLERS: dict[type[exp.Expr], Handler] = {
    **dict.fromkeys((exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NEQ, exp.NullSafeEQ), _comparison),
    **dict.fromkeys((exp.And, exp.Or), _connector),
    **dict.fromkeys((exp.Coalesce, exp.Greatest, exp.Least), _common_call),
    exp.Between: _between,
    exp.Case: _case,
    exp.Exists: _exists,
    exp.If: _if_function,
    exp.In: _in,
    exp.Is: _is,
    exp.Not: lambda node, scope: Term(negation(truth(node.this, scope)), BOOLEAN),
    exp.NullSafeNEQ: _differs,
    exp.Nullif: _nullif,
    exp.Subquery: _scalar,
}
