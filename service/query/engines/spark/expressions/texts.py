"""Functions of texts."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from service.base.errors import NotOnSparkError
from service.query.engines.spark.expressions.conditions import negated
from service.query.engines.spark.expressions.terms import (
    BIGINT,
    BOOLEAN,
    TEXT,
    Handler,
    Scope,
    as_type,
    call,
    knows,
    only_if,
    shown,
    text_of,
    translate,
)
from service.query.engines.spark.types import Term, is_integer

# Letters that Java's toLowerCase and toUpperCase change into several, or into another one at the end of a word.
_ODD_LOWER = "[\\u0130\\u03A3]"
_ODD_UPPER = "[\\u00DF\\u0149\\u01F0\\u0345\\u0390\\u03B0\\u0587\\u1E96-\\u1E9E\\u1F50-\\u1F57\\u1F80-\\u1FFC\\uFB00-\\uFB17]"


def _texts(node: exp.Expr, scope: Scope, *names: str) -> list[exp.Expr]:
    knows(node, *names)
    return [_plain_text(node.args[name], scope) for name in names]


def _plain_text(node: exp.Expr, scope: Scope) -> exp.Expr:
    typed = translate(node, scope)
    if typed.type not in (TEXT, pa.null()):
        raise NotOnSparkError(f"a text function of {typed.type}")
    return typed.node


def _text_call(name: str, result: pa.DataType, *arguments: str) -> Handler:
    """Return a handler for a function of texts that means the same on both engines."""

    def handle(node: exp.Expr, scope: Scope) -> Term:
        made = call(name, *_texts(node, scope, *arguments))
        return Term(as_type(made, result) if result == BIGINT else made, result)

    return handle


def _changed_case(name: str, odd: str) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Term:
        (text,) = _texts(node, scope, "this")
        plain = exp.Not(this=exp.Paren(this=call("rlike", text.copy(), text_of(odd))))
        return Term(only_if(plain, call(name, text), f"{name}() of letters that change into several"), TEXT)

    return handle


def _length(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this")
    value = translate(node.this, scope)
    if value.type == TEXT:
        return Term(as_type(call("char_length", value.node), BIGINT), BIGINT)
    return _size(node, scope)


def _size(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this")
    value = translate(node.this, scope)
    if not pa.types.is_list(value.type):
        raise NotOnSparkError(f"{shown(node)} of {value.type}")
    return Term(as_type(call("size", value.node), BIGINT), BIGINT)


def _substring(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "start", "length")
    text = _plain_text(node.this, scope)
    numbers = []
    for name, least in (("start", 1), ("length", 0)):
        number = node.args.get(name)
        if number is None:
            continue
        if not (isinstance(number, exp.Literal) and number.is_int and int(number.name) >= least):
            raise NotOnSparkError(f"substring() with a {name} that is not a number from {least} on")
        numbers.append(number.copy())
    return Term(call("substring", text, *numbers), TEXT)


def _end_of_text(name: str) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Term:
        knows(node, "this", "expression")
        number = node.args["expression"]
        if not (isinstance(number, exp.Literal) and number.is_int):
            raise NotOnSparkError(f"{name}() by anything but a number")
        return Term(call(name, _plain_text(node.this, scope), number.copy()), TEXT)

    return handle


def _joined(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expression", "safe")
    left, right = translate(node.this, scope), translate(node.args["expression"], scope)
    if left.type != TEXT or right.type != TEXT:
        raise NotOnSparkError(f"{left.type} || {right.type}")
    return Term(exp.Paren(this=exp.DPipe(this=left.node, expression=right.node, safe=True)), TEXT)


def _concat(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "expressions", "safe", "coalesce")
    parts = [_shown_text(translate(part, scope)) for part in node.expressions]
    return Term(call("concat_ws", text_of(""), *parts), TEXT)


def _concat_ws(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "expressions", "safe", "coalesce")
    separator, *parts = (translate(part, scope) for part in node.expressions)
    if separator.text is None:
        raise NotOnSparkError("concat_ws() with a separator that is not a literal")
    return Term(call("concat_ws", separator.node, *map(_shown_text, parts)), TEXT)


def _shown_text(part: Term) -> exp.Expr:
    if part.type == TEXT:
        return part.node
    # Other types look different as texts.
    if is_integer(part.type) or part.type == pa.null():
        return as_type(part.node, TEXT)
    raise NotOnSparkError(f"concat() of {part.type}")


def _like(node: exp.Expr, scope: Scope) -> Term:
    knows(node, "this", "expression", "negate")
    text, pattern = _plain_text(node.this, scope), node.args["expression"]
    # DuckDB's LIKE has no escape character; Spark's has the backslash.
    if not isinstance(pattern, exp.Literal) or "\\" in pattern.name:
        raise NotOnSparkError("LIKE with a pattern that is no plain literal")
    return negated(node, exp.Like(this=text, expression=pattern.copy()))


def _digest(name: str) -> Handler:
    def handle(node: exp.Expr, scope: Scope) -> Term:
        knows(node, "this", "length")
        size = node.args.get("length")
        more = [size.copy()] if size is not None else []
        if more and size is not None and size.name != "256":
            raise NotOnSparkError(f"{shown(node)} of {size.name} bits")
        value = translate(node.this, scope)
        if value.type not in (TEXT, pa.binary()):
            raise NotOnSparkError(f"{shown(node)} of {value.type}")
        return Term(call(name, as_type(value.node, pa.binary()), *more), TEXT)

    return handle


HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.ArraySize: _size,
    exp.Concat: _concat,
    exp.ConcatWs: _concat_ws,
    exp.Contains: _text_call("contains", BOOLEAN, "this", "expression"),
    exp.DPipe: _joined,
    exp.EndsWith: _text_call("endswith", BOOLEAN, "this", "expression"),
    exp.Left: _end_of_text("left"),
    exp.Length: _length,
    exp.Like: _like,
    exp.Lower: _changed_case("lower", _ODD_LOWER),
    exp.MD5: _digest("md5"),
    exp.Replace: _text_call("replace", TEXT, "this", "expression", "replacement"),
    exp.Right: _end_of_text("right"),
    exp.SHA2: _digest("sha2"),
    exp.StartsWith: _text_call("startswith", BOOLEAN, "this", "expression"),
    exp.StrPosition: _text_call("instr", BIGINT, "this", "substr"),
    exp.Substring: _substring,
    exp.Upper: _changed_case("upper", _ODD_UPPER),
}
