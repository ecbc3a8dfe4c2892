"""Lists, maps and structs."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from service.base.errors import NotOnSparkError
from service.query.engines.spark.expressions.names import same_kind
from service.query.engines.spark.expressions.terms import (
    BOOLEAN,
    Handler,
    Scope,
    call,
    cast,
    if_else,
    knows,
    shown,
    text_of,
    translate,
)
from service.query.engines.spark.expressions.trino import MACROS
from service.query.engines.spark.types import Term, common_type, is_nested


def _struct(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "expressions")
    arguments: list[exp.Expr] = []
    fields: list[tuple[str, pa.DataType]] = []
    for item in node.expressions:
        if not isinstance(item, exp.PropertyEQ):
            raise NotOnSparkError("a struct without names")
        value = translate(item.args["expression"], scope)
        if value.type == pa.null():
            raise NotOnSparkError("a struct of an untyped NULL")
        fields.append((item.this.name, value.type))
        arguments += [text_of(item.this.name), value.node]
    return Term(call("named_struct", *arguments), pa.struct(fields))


def _array(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "expressions", "bracket_notation", "value_constructor")
    values = [translate(value, scope) for value in node.expressions]
    if not values:
        raise NotOnSparkError("an empty list")
    common = common_type(*values)
    return Term(call("array", *(cast(value, common) for value in values)), pa.list_(common))


def _contains(node: exp.Expr, scope: Scope) -> Term:
    """Translate `list_contains`; `contains` of a text is another node."""
    knows(node, "this", "expression")
    whole, item = translate(node.this, scope), translate(node.args["expression"], scope)
    if not pa.types.is_list(whole.type) or is_nested(whole.type.value_type):
        raise NotOnSparkError(f"list_contains() of {whole.type}")
    found = call(
        "array_contains", whole.node, cast(same_kind(item, whole.type.value_type), whole.type.value_type)
    )
    # NULL only if the list or the item is: Spark answers NULL also for a list that has NULLs and not the item.
    missing = exp.Or(
        this=exp.Is(this=whole.node.copy(), expression=exp.Null()),
        expression=exp.Is(this=item.node.copy(), expression=exp.Null()),
    )
    return Term(if_else(missing, exp.Null(), call("coalesce", found, exp.false())), BOOLEAN)


def _map_part(name: str) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Term:
        knows(node, "this")
        value = translate(node.this, scope)
        if not pa.types.is_map(value.type):
            raise NotOnSparkError(f"{name}() of {value.type}")
        kind = value.type.key_type if name == "map_keys" else value.type.item_type
        return Term(call(name, value.node), pa.list_(kind))

    return handle


def _named_call(node: exp.Expr, scope: Scope) -> Term:
    """Translate a function for which sqlglot has no class."""
    name = node.name.lower()
    if name in MACROS:
        return MACROS[name](node, scope)
    if name not in _NAMED or len(node.expressions) != 1:
        raise NotOnSparkError(shown(node))
    return _map_part(name)(exp.Func(this=node.expressions[0]), scope)


_NAMED = frozenset({"map_values"})


HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.Anonymous: _named_call,
    exp.Array: _array,
    exp.ArrayContains: _contains,
    exp.MapKeys: _map_part("map_keys"),
    exp.Struct: _struct,
}
