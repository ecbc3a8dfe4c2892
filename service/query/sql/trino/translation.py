"""A statement in Trino's dialect → the same in DuckDB's. The planner checks it after that.

sqlglot knows the syntax of Trino's dialect. What means something else in DuckDB is rewritten or refused here:

| Trino | DuckDB |
|---|---|
| `a / b` of integers: an integer, cut towards zero; division by zero is an error | `a // b`, which means that for integers only |
| `x + INTERVAL …` and functions of dates have the type of x | a TIMESTAMP |
| `a[9]` and `m['x']` are errors if there is no such element | NULL; `a[-1]` is the last |
| an output column without a name: `_col0`, by its position | the text of the expression |
| `EXTRACT(DOW FROM x)`: 7 on Sunday | 0 |
| `trim` takes all white space | blanks only |
| `current_user`, `current_catalog`, `current_schema`, `version()` | the values of the session |
| FETCH FIRST … WITH TIES | refused |

Functions are in `calls.py`, casts in `casts.py`, time zones in `zones.py`. Decimals divide as DOUBLE: no digits are lost that Trino
would cut.

Trino's syntax where sqlglot reads it differently.

Functions that are rewritten keep their names and the order of their arguments, and subscripts their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.trino import Trino
from sqlglot.parsers.trino import TrinoParser

from service.base.errors import InvalidQueryError
from service.query.sql.allowlist import not_a_query
from service.query.sql.parser import blanked, generated, parsed, too_deep
from service.query.sql.trino.calls import REFUSED, REWRITTEN, call, macro, refused, substring, text
from service.query.sql.trino.casts import cast_as_trino
from service.query.sql.trino.zones import rewrite_zones


class TrinoSyntax(Trino):
    """Trino's dialect, as Trino reads it."""

    INDEX_OFFSET = 0

    class Parser(TrinoParser):
        """Leaves the functions that are rewritten as they are written."""

        FUNCTIONS: ClassVar = {
            name: make for name, make in TrinoParser.FUNCTIONS.items() if name.lower() not in REWRITTEN
        }


_EXPLAIN = re.compile(r"EXPLAIN(?:\s+ANALYZE)?\b", re.IGNORECASE)
_BLANKS = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a\u2028\u2029\u205f\u3000"
_FIELDS = {
    "DAYOFWEEK": "ISODOW",
    "DAYOFYEAR": "DOY",
    "DAY_OF_MONTH": "DAY",
    "DAY_OF_WEEK": "ISODOW",
    "DAY_OF_YEAR": "DOY",
    "DOW": "ISODOW",
    "YEAR_OF_WEEK": "ISOYEAR",
    "YOW": "ISOYEAR",
    **{name: name for name in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE", "SECOND")},
}


def translated(sql: str, constants: Mapping[str, str]) -> str:
    """Translate a query.

    Args:
        sql: a query, or EXPLAIN and a query.
        constants: values of `current_user` and the like.

    Raises:
        QueryError: it is no query, or has something that is not known here.
    """
    # sqlglot takes all that follows EXPLAIN for one token.
    start = len(sql) - len(sql.lstrip())
    explain = _EXPLAIN.match(sql, start)
    prefix = explain.group() if explain else ""
    try:
        tree = parsed(blanked(sql, start + len(prefix)), TrinoSyntax)
        if not isinstance(tree, exp.Query):
            raise not_a_query(tree)
        _check_names(tree, sql)
        rewrite_zones(tree)
        # A list, because nodes are replaced meanwhile.
        for node in list(tree.walk()):
            rewrite = _REWRITES.get(type(node))
            if rewrite is not None:
                rewrite(node, constants)
        for select in tree.find_all(exp.Select):
            name_columns(select)
    except RecursionError as error:
        raise too_deep() from error
    generated_text = generated(tree)
    return f"{prefix} {generated_text}" if prefix else generated_text


def _check_names(tree: exp.Expr, sql: str) -> None:
    """Refuse functions of Trino that are not known here, by the names as they are written."""
    for node in tree.walk():
        if type(node) in _REFUSED_SYNTAX:
            raise refused(_REFUSED_SYNTAX[type(node)])
        if node.args.get("json_query"):
            raise refused("json_query")
        if not isinstance(node, exp.Func):
            continue
        first, last = node.meta.get("start"), node.meta.get("end")
        name = node.name if isinstance(node, exp.Anonymous) else ""
        name = name if first is None or last is None else sql[first : last + 1]
        if name.lower() in REFUSED:
            raise refused(name.lower())


def _divide(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    # `//` of DuckDB divides integers only as such: 7 // 2 = 3, 7.0 // 2 = 3.5.
    node.replace(exp.paren(exp.IntDiv(this=node.this, expression=node.expression), copy=False))


def _enclose(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    # sqlglot makes operators of functions: 2 * mod(7, 4) is not 2 * 7 % 4.
    enclosed = exp.Paren()
    node.replace(enclosed)
    enclosed.set("this", node)


def _plus(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    value, interval = node.this, node.expression
    if isinstance(node, exp.Sub) and _is_date(value) and _is_date(interval):
        raise InvalidQueryError(
            "a date minus a date is not known here: Trino gives an interval, DuckDB a number",
            hint="write date_diff('day', from, to)",
            code="NOT_SUPPORTED",
        )
    if isinstance(node, exp.Add) and _is_interval(value):
        value, interval = interval, value
    if not _is_interval(interval) or _is_interval(value):
        return
    if isinstance(node, exp.Sub):
        interval = exp.Neg(this=exp.paren(interval))
    node.replace(macro("plus", value, interval))


def _is_interval(node: exp.Expr) -> bool:
    """Return whether an operand is seen to be an interval."""
    while isinstance(node, exp.Paren | exp.Neg | exp.Mul):
        if isinstance(node, exp.Mul) and _is_interval(node.expression):
            return True
        node = node.this
    return isinstance(node, exp.Interval)


def _is_date(node: exp.Expr) -> bool:
    """Return whether an operand is seen to be a date."""
    is_cast = isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.DATE
    return is_cast or isinstance(node, exp.CurrentDate | exp.Date)


def _cast(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    assert isinstance(node, exp.Cast)
    made = cast_as_trino(node)
    if made is not None:
        node.replace(made)


def _function(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    """Rewrite a function as it is written."""
    name = node.name.lower()
    rewrite = REWRITTEN.get(name)
    if rewrite is not None:
        node.replace(rewrite(name, node.expressions))


def _substring(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    arguments = [node.this, node.args.get("start"), node.args.get("length")]
    node.replace(substring([argument for argument in arguments if argument is not None]))


def _extremum(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    # DuckDB's passes over rows whose first argument is NULL.
    if node.args.get("count") is None:
        name = "arg_max_null" if isinstance(node, exp.ArgMax) else "arg_min_null"
        node.replace(call(name, node.this, node.expression))


def _trim(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    if node.args.get("expression") is None:
        node.set("expression", text(_BLANKS))


def _extract(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    field = node.this.name.upper()
    if field not in _FIELDS:
        raise InvalidQueryError(f"EXTRACT does not know the field {field} here", code="NOT_SUPPORTED")
    node.set("this", exp.var(_FIELDS[field]))


def _subscript(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    if len(node.expressions) == 1 and not isinstance(node.expressions[0], exp.Slice):
        node.replace(macro("subscript", node.this, node.expressions[0]))


def _fetch(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    options = node.args.get("limit_options")
    if options is not None and options.args.get("with_ties"):
        raise InvalidQueryError("FETCH FIRST … WITH TIES is not known here", code="NOT_SUPPORTED")


def _unnest(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    alias = node.args.get("alias")
    named = len(alias.columns) if alias is not None else 0
    if named > len(node.expressions) + bool(node.args.get("offset")):
        raise InvalidQueryError(
            "UNNEST of a map, or of an array of rows, into several columns is not known here",
            hint="UNNEST(map_keys(m)), or UNNEST(a) AS t(r) and r.field",
            code="NOT_SUPPORTED",
        )


def _constant(name: str) -> Callable[[exp.Expr, Mapping[str, str]], None]:
    def rewrite(node: exp.Expr, constants: Mapping[str, str]) -> None:
        if name in constants:
            node.replace(exp.Literal.string(constants[name]))

    return rewrite


def _column(node: exp.Expr, constants: Mapping[str, str]) -> None:
    # sqlglot reads `current_catalog` and `current_schema` as names of columns.
    assert isinstance(node, exp.Column)
    name = node.name.lower()
    if len(node.parts) == 1 and name in constants and not node.this.args.get("quoted"):
        node.replace(exp.Literal.string(constants[name]))


def name_columns(select: exp.Select, prefix: str = "_col") -> None:
    """Give output columns without a name the name that the dialect gives them: a prefix and their position, from 0."""
    for number, column in enumerate(select.expressions):
        if isinstance(column, exp.Alias | exp.Column | exp.Star | exp.Dot | exp.Aliases) or column.is_star:
            continue
        column.replace(exp.alias_(column.copy(), f"{prefix}{number}", quoted=True))


_Rewrite = Callable[[exp.Expr, Mapping[str, str]], None]
_REWRITES: dict[type[exp.Expr], _Rewrite] = {
    exp.Add: _plus,
    exp.Anonymous: _function,
    exp.ArgMax: _extremum,
    exp.ArgMin: _extremum,
    exp.BitwiseAnd: _enclose,
    exp.BitwiseNot: _enclose,
    exp.BitwiseOr: _enclose,
    exp.BitwiseXor: _enclose,
    exp.Bracket: _subscript,
    exp.Cast: _cast,
    exp.Column: _column,
    exp.CurrentCatalog: _constant("current_catalog"),
    exp.CurrentSchema: _constant("current_schema"),
    exp.CurrentUser: _constant("current_user"),
    exp.CurrentVersion: _constant("version"),
    exp.Div: _divide,
    exp.Extract: _extract,
    exp.Fetch: _fetch,
    exp.DPipe: _enclose,
    exp.Mod: _enclose,
    exp.Sub: _plus,
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.TryCast: _cast,
    exp.Unnest: _unnest,
}
_REFUSED_SYNTAX = {
    exp.JSONArray: "json_array",
    exp.JSONExists: "json_exists",
    exp.JSONObject: "json_object",
    exp.JSONTable: "json_table",
    exp.JSONValue: "json_value",
    exp.OverflowTruncateBehavior: "listagg(… ON OVERFLOW TRUNCATE …)",
}
