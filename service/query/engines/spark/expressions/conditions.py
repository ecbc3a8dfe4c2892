"""Comparisons, logic, subqueries, CASE, and the order of rows."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from service.base.errors import NotOnSparkError
from service.query.engines.spark.expressions.terms import (
    BOOLEAN,
    Handler,
    Scope,
    as_type,
    call,
    cast,
    if_else,
    knows,
    translate,
)
from service.query.engines.spark.types import Term, common_type, is_nested


def ordered(node: exp.Expr, scope: Scope) -> exp.Ordered:
    """Translate an item of ORDER BY."""
    assert isinstance(node, exp.Ordered)
    knows(node, "this", "desc", "nulls_first")
    item = translate(node.this, scope)
    if is_nested(item.type):
        raise NotOnSparkError(f"an order of {item.type}")
    return exp.Ordered(
        this=item.node, desc=bool(node.args.get("desc")), nulls_first=bool(node.args.get("nulls_first"))
    )


def _comparison(kind: type[exp.Binary]) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Term:
        knows(node, "this", "expression")
        left, right = translate(node.this, scope), translate(node.args["expression"], scope)
        return Term(kind(this=_side(left, right), expression=_side(right, left)), BOOLEAN)

    return handle


def _side(typed: Term, *others: Term) -> exp.Expr:
    """Return one side of a comparison, cast to the type that both sides have."""
    common = common_type(typed, *others)
    if is_nested(common):
        raise NotOnSparkError(f"a comparison of {common}")
    made = cast(typed, common)
    return (
        made
        if isinstance(made, exp.Column | exp.Literal | exp.Cast | exp.Anonymous)
        else exp.Paren(this=made)
    )


def _differs(node: exp.Expr, scope: Scope) -> Term:
    same = _comparison(exp.NullSafeEQ)(node, scope)
    return Term(exp.Not(this=exp.Paren(this=same.node)), BOOLEAN)


def _between(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "low", "high", "negate")
    value, low, high = (translate(node.args[name], scope) for name in ("this", "low", "high"))
    made = exp.Between(
        this=_side(value, low, high), low=_side(low, value, high), high=_side(high, value, low)
    )
    return negated(node, made)


def _in(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expressions", "query", "negate")
    value = translate(node.this, scope)
    query = node.args.get("query")
    if query is not None:
        inner, columns = scope.subquery(query.this if isinstance(query, exp.Subquery) else query)
        if len(columns) != 1 or columns[0][1] != value.type or is_nested(value.type):
            raise NotOnSparkError(f"{value.type} IN a query of {', '.join(str(kind) for _, kind in columns)}")
        return negated(node, exp.In(this=cast(value, value.type), query=exp.Subquery(this=inner)))
    options = [translate(option, scope) for option in node.expressions]
    made = exp.In(
        this=_side(value, *options), expressions=[_side(option, value, *options) for option in options]
    )
    return negated(node, made)


def negated(node: exp.Expr, made: exp.Expr) -> Term:
    """Return a condition, negated if the node is (NOT IN, NOT LIKE, …)."""
    return Term(exp.Not(this=exp.Paren(this=made)) if node.args.get("negate") else made, BOOLEAN)


def _is(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expression", "negate")
    right = node.args["expression"]
    if not isinstance(right, exp.Null | exp.Boolean):
        raise NotOnSparkError("IS")
    left = translate(node.this, scope)
    made = exp.Is(this=exp.Paren(this=left.node), expression=right.copy())
    return negated(node, made)


def _connector(kind: type[exp.Connector]) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Term:
        knows(node, "this", "expression")
        left, right = truth(node.this, scope), truth(node.args["expression"], scope)
        return Term(kind(this=exp.Paren(this=left), expression=exp.Paren(this=right)), BOOLEAN)

    return handle


def truth(node: exp.Expr, scope: Scope) -> exp.Expr:
    """Translate a condition: of WHERE, HAVING, ON, CASE or a logical operator.

    Raises:
        NotOnSparkError: it is a number or another value, which DuckDB takes as a condition.
    """
    condition = translate(node, scope)
    if condition.type not in (BOOLEAN, pa.null()):
        raise NotOnSparkError(f"{condition.type} as a condition")
    # Spark takes no untyped NULL for a condition.
    return as_type(condition.node, BOOLEAN) if condition.type == pa.null() else condition.node


def _exists(node: exp.Expr, scope: Scope) -> Term:
    query = node.this.this if isinstance(node.this, exp.Subquery) else node.this
    return Term(exp.Exists(this=scope.subquery(query)[0]), BOOLEAN)


def _scalar(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this")
    inner, columns = scope.subquery(node.this)
    if len(columns) != 1:
        raise NotOnSparkError("a query of several columns as a value")
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
    made = exp.Case(
        ifs=[
            exp.If(this=condition, true=cast(value, common))
            for condition, value in zip(conditions, values, strict=False)
        ],
        default=cast(values[-1], common),
    )
    return Term(made, common)


def _if_function(node: exp.Expr, scope: Scope) -> Term:
    return _case(
        exp.Case(ifs=[exp.If(this=node.this, true=node.args["true"])], default=node.args.get("false")), scope
    )


def _common_call(name: str) -> Handler:
    """Return a handler for a function that has the common type of its arguments."""

    def handle(node: exp.Expr, scope: Scope) -> Term:
        knows(node, "this", "expressions", "ignore_nulls")
        values = [translate(value, scope) for value in (node.this, *node.expressions)]
        common = common_type(*values)
        if (
            is_nested(common) and name != "coalesce"
        ):  # greatest and least compare, and the engines order these differently
            raise NotOnSparkError(f"{name}() of {common}")
        if len(values) == 1:  # Spark's greatest and least take two arguments or more
            return Term(cast(values[0], common), common)
        return Term(call(name, *(cast(value, common) for value in values)), common)

    return handle


def _nullif(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expression")
    value, other = translate(node.this, scope), translate(node.args["expression"], scope)
    same = exp.EQ(this=_side(value, other), expression=_side(other, value))
    return Term(if_else(same, exp.Null(), value.node.copy()), value.type)


HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.And: _connector(exp.And),
    exp.Between: _between,
    exp.Case: _case,
    exp.Coalesce: _common_call("coalesce"),
    exp.EQ: _comparison(exp.EQ),
    exp.Exists: _exists,
    exp.GT: _comparison(exp.GT),
    exp.GTE: _comparison(exp.GTE),
    exp.Greatest: _common_call("greatest"),
    exp.If: _if_function,
    exp.In: _in,
    exp.Is: _is,
    exp.LT: _comparison(exp.LT),
    exp.LTE: _comparison(exp.LTE),
    exp.Least: _common_call("least"),
    exp.NEQ: _comparison(exp.NEQ),
    exp.Not: lambda node, scope: Term(exp.Not(this=exp.Paren(this=truth(node.this, scope))), BOOLEAN),
    exp.NullSafeEQ: _comparison(exp.NullSafeEQ),
    exp.NullSafeNEQ: _differs,
    exp.Nullif: _nullif,
    exp.Or: _connector(exp.Or),
    exp.Subquery: _scalar,
}
