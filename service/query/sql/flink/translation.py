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

SHOW, DESCRIBE and EXPLAIN are those of the planner; `EXPLAIN PLAN FOR` is EXPLAIN. Functions are in `calls.py`, casts in `casts.py`.
Decimals divide as DOUBLE.

Flink's syntax where sqlglot, which knows no dialect of Flink, reads Trino's differently.

Names in backquotes stand in double quotes already. All functions keep their names and the order of their arguments, except those of
SQL's own syntax, such as CAST, EXTRACT and TRIM.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.trino import Trino
from sqlglot.parsers.trino import TrinoParser
from sqlglot.tokenizer_core import TokenType

from service.base.errors import InvalidQueryError, NotSupportedError
from service.query.sql.flink.calls import cast_as_flink, listagg, macro, rewritten
from service.query.sql.trino.calls import macro as trino_macro
from service.query.sql.trino.translation import divide, enclose, rewritten_query


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
_FIELDS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE", "SECOND"})
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
        # A list, because nodes are replaced meanwhile.
        for node in list(tree.walk()):
            _rewrite(node)

    prefix, text = rewritten_query(sql, _EXPLAIN, FlinkSyntax, rewrite, "EXPR$")
    return f"EXPLAIN {text}" if prefix else text


def _rewrite(node: exp.Expr) -> None:
    rewrite = _REWRITES.get(type(node))
    if rewrite is not None:
        rewrite(node)
    elif isinstance(node, (exp.Func, *_REFUSED_SYNTAX)) and not isinstance(node, _SYNTAX):
        raise NotSupportedError(f"{node.key.upper()} is not known here in Flink's dialect")


def _function(node: exp.Expr) -> None:
    # What stands in FROM is checked where tables are resolved.
    if isinstance(node.parent, exp.Table) or (
        isinstance(node.parent, exp.Anonymous) and isinstance(node.parent.parent, exp.Table)
    ):
        return
    made = rewritten(node.name, node.expressions)
    if made is not None:
        node.replace(made)


def _plus(node: exp.Expr) -> None:
    value, interval = node.this, node.expression
    if isinstance(node, exp.Add) and isinstance(value, exp.Interval):
        value, interval = interval, value
    if not isinstance(interval, exp.Interval) or isinstance(value, exp.Interval):
        return
    if isinstance(node, exp.Sub):
        interval = exp.Neg(this=exp.paren(interval))
    # A date and an interval of days are a date.
    node.replace(trino_macro("plus", value, interval))


def _cast(node: exp.Expr) -> None:
    assert isinstance(node, exp.Cast)
    made = cast_as_flink(node)
    if made is not None:
        node.replace(made)


def _extract(node: exp.Expr) -> None:
    field = node.this.name.upper()
    if field not in _FIELDS:
        raise NotSupportedError(f"EXTRACT does not know the field {field} here")


def _subscript(node: exp.Expr) -> None:
    value, indexes = node.this, node.expressions
    is_word = isinstance(value, exp.Column) and len(value.parts) == 1 and not value.this.args.get("quoted")
    if is_word and value.name.casefold() == _MAP:
        _map_of(node)
        return
    if is_word and value.name.casefold() == _ARRAY:
        node.replace(exp.Array(expressions=indexes))
        return
    if len(indexes) != 1 or isinstance(indexes[0], exp.Slice):
        raise NotSupportedError("expected one number or key in brackets")
    # A text is a key of a map.
    if not indexes[0].is_string:
        node.replace(macro("subscript", value, indexes[0]))


def _map_of(node: exp.Expr) -> None:
    """Rewrite `MAP['a', 1, 'b', 2]`."""
    parts = node.expressions
    if len(parts) % 2:
        raise InvalidQueryError("expected keys and values in turn in MAP[…]")
    arrays = [exp.Array(expressions=parts[first::2]) for first in (0, 1)]
    node.replace(exp.Anonymous(this=_MAP, expressions=arrays))


def _map(node: exp.Expr) -> None:
    arrays = [
        argument for argument in (node.args.get("keys"), node.args.get("values")) if argument is not None
    ]
    node.replace(exp.Anonymous(this=_MAP, expressions=arrays))


def _substring(node: exp.Expr) -> None:
    arguments = [node.this, node.args.get("start"), node.args.get("length")]
    made = rewritten("substring", [argument for argument in arguments if argument is not None])
    assert made is not None
    node.replace(made)


def _position(node: exp.Expr) -> None:
    if node.args.get("position") is not None:
        raise NotSupportedError("expected POSITION(part IN text), found a third argument")
    node.replace(exp.Anonymous(this="instr", expressions=[node.this, node.args["substr"]]))


def _listagg(node: exp.Expr) -> None:
    assert isinstance(node, exp.GroupConcat)
    node.replace(listagg(node))


def _unnest(node: exp.Expr) -> None:
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
        return
    entries = node.expressions[0]
    parts = [
        exp.alias_(
            exp.Anonymous(
                this="unnest", expressions=[exp.Anonymous(this=part, expressions=[entries.copy()])]
            ),
            name,
        )
        for part, name in zip(("map_keys", "map_values"), names, strict=True)
    ]
    query = exp.select(*parts).subquery(alias.this.name if alias.this is not None else "entries", copy=False)
    node.replace(exp.Lateral(this=query))


_Rewrite = Callable[[exp.Expr], None]
_REWRITES: dict[type[exp.Expr], _Rewrite] = {
    exp.Add: _plus,
    exp.Anonymous: _function,
    exp.BitwiseAnd: enclose,
    exp.BitwiseNot: enclose,
    exp.BitwiseOr: enclose,
    exp.BitwiseXor: enclose,
    exp.Bracket: _subscript,
    exp.Cast: _cast,
    exp.Div: divide,
    exp.DPipe: enclose,
    exp.Extract: _extract,
    exp.GroupConcat: _listagg,
    exp.Map: _map,
    exp.Mod: enclose,
    exp.StrPosition: _position,
    exp.Sub: _plus,
    exp.Substring: _substring,
    exp.TryCast: _cast,
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
