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

Functions and casts are in `calls.py`. Decimals divide as DOUBLE: no digits are lost that Trino would cut. Where sqlglot reads
Trino's syntax differently, functions that are rewritten keep their names and the order of their arguments, and subscripts their
numbers.

A value may carry a time zone: `x AT TIME ZONE 'Europe/Berlin'`, and timestamps that name one. In Trino such a value is a moment
and a zone: it is compared as a moment, and shows the hour of its zone. In DuckDB it is a moment only, or in `AT TIME ZONE` the
local time only. So a function of dates gets the local time, and everything else the moment, which the answer shows in UTC. Where
the zone would be lost on the way to a function, the statement is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.trino import Trino
from sqlglot.parsers.trino import TrinoParser

from service.base.errors import NotSupportedError
from service.query.sql.plan import not_a_query
from service.query.sql.text import blanked, generated, parsed, too_deep
from service.query.sql.translation.calls import (
    REFUSED,
    REWRITTEN,
    call,
    cast_as_trino,
    macro,
    refused,
    substring,
    text,
)

_ZONE_OF_TEXT = re.compile(r"\d\s+([A-Za-z][\w/+-]*|[+-]\d\d?(?::?\d\d)?)$|\d([+-]\d\d:\d\d)$")
_OFFSET = re.compile(r"([+-])(\d\d?)(?::?(\d\d))?")
_UTC = frozenset({"utc", "z", "gmt", "etc/utc", "zulu", "+00:00", "-00:00", "+00", "+0"})
# Their result depends on the local time of the first argument that carries a zone.
_OF_LOCAL_TIME = (
    exp.Date, exp.Day, exp.DayOfMonth, exp.DayOfWeekIso, exp.DayOfYear, exp.Extract, exp.Hour, exp.LastDay,
    exp.Minute, exp.Month, exp.Quarter, exp.Second, exp.TsOrDsToDate, exp.Week, exp.WeekOfYear, exp.Year,
    exp.YearOfWeekIso,
)  # fmt: skip
_CALLS_OF_LOCAL_TIME = frozenset({"date_format", "format_datetime", "millisecond", "yow"})
# They keep the zone of their last argument.
_KEEP_THE_ZONE = frozenset({"date_add", "date_trunc"})
_COMPARE = (exp.Predicate, exp.Ordered, exp.Group, exp.Not, exp.Connector)
_Type = exp.DataType.Type
_LOCAL_TYPES = frozenset({_Type.DATE, _Type.TIME, _Type.TIMESTAMP})


def rewrite_zones(tree: exp.Query) -> None:
    """Rewrite the values of a query that carry a zone.

    Raises:
        InvalidQueryError: a zone would be lost.
    """
    values = [
        node
        for node in tree.walk()
        if node.parent is not None and _zone(node) is not None and not _is_part(node.parent, node)
    ]
    for node in values:
        assert node.parent is not None
        _replace(node, node.parent, tree)


def _replace(node: exp.Expr, parent: exp.Expr, tree: exp.Query) -> None:
    if isinstance(parent, exp.Cast) and parent.this is node and parent.to.this in _LOCAL_TYPES:
        node.replace(_local(node))
    elif isinstance(parent, exp.Cast) and parent.this is node and parent.to.is_type("varchar", "text"):
        zone = _zone(node)
        assert zone is not None
        shown = exp.DPipe(this=macro("varchar", _local(node)), expression=text(" "))
        parent.replace(exp.paren(exp.DPipe(this=shown, expression=zone.copy())))
    elif _is_of_local_time(parent):
        node.replace(_local(node))
    elif _is_of_moment(parent, node, tree):
        node.replace(_moment(node))
    else:
        raise NotSupportedError(
            "a value with a time zone can stand in the answer, in a comparison, or in a function of dates; "
            "elsewhere its zone would be lost",
            hint="write AT TIME ZONE within the function: hour(x AT TIME ZONE 'Europe/Berlin')",
        )


def _is_of_local_time(parent: exp.Expr) -> bool:
    if isinstance(parent, exp.Anonymous):
        return parent.name.lower() in _CALLS_OF_LOCAL_TIME
    return isinstance(parent, _OF_LOCAL_TIME)


def _is_of_moment(parent: exp.Expr, node: exp.Expr, tree: exp.Query) -> bool:
    """Return whether a place needs only the moment: comparisons, the order, and the answer itself."""
    if isinstance(parent, exp.TimeToUnix | exp.Cast | exp.Values | exp.Tuple):
        return not isinstance(parent, exp.Cast) or parent.to.this is _Type.TIMESTAMPTZ
    if isinstance(parent, _COMPARE):
        return True
    if isinstance(parent, exp.Alias):
        parent, node = parent.parent or parent, parent
    return parent is tree and isinstance(parent, exp.Select) and node.arg_key == "expressions"


def _is_part(parent: exp.Expr, node: exp.Expr) -> bool:
    """Return whether a value is a part of a larger value that carries its zone."""
    return _zone(parent) is not None and _source(parent) is node


def _source(node: exp.Expr) -> exp.Expr | None:
    """Return the part of a value that carries its zone, or is put into the zone."""
    if isinstance(node, exp.Paren | exp.AtTimeZone):
        found: exp.Expr = node.this
        return found
    if isinstance(node, exp.Anonymous) and node.expressions:
        arguments: list[exp.Expr] = node.expressions
        return arguments[-1 if node.name.lower() in _KEEP_THE_ZONE else 0]
    if isinstance(node, exp.Add | exp.Sub):
        other: exp.Expr = node.expression if isinstance(node.this, exp.Interval) else node.this
        return other
    return None


def _zone(node: exp.Expr) -> exp.Expr | None:
    """Return the zone that a value carries; None for none, and for UTC."""
    if isinstance(node, exp.AtTimeZone):
        zone: exp.Expr = node.args["zone"]
        return zone
    if isinstance(node, exp.Paren):
        return _zone(node.this)
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        arguments: list[exp.Expr] = node.expressions
        if name in ("at_timezone", "with_timezone", "from_unixtime") and len(arguments) == 2:
            return arguments[1]
        return _zone(arguments[-1]) if name in _KEEP_THE_ZONE and arguments else None
    if isinstance(node, exp.Add | exp.Sub) and exp.Interval in (type(node.this), type(node.expression)):
        source = _source(node)
        return None if source is None else _zone(source)
    if isinstance(node, exp.Cast) and node.to.this is _Type.TIMESTAMPTZ and node.this.is_string:
        found = _ZONE_OF_TEXT.search(node.this.name)
        name = (found[1] or found[2]) if found else "utc"
        return None if name.lower() in _UTC else text(name)
    return None


def _moment(node: exp.Expr) -> exp.Expr:
    """Return the moment of a value that carries a zone."""
    zone, source = _zone(node), _source(node)
    if isinstance(node, exp.Cast) or zone is None:
        return node.copy()
    assert source is not None
    if isinstance(node, exp.Paren):
        return exp.paren(_moment(source))
    if isinstance(node, exp.AtTimeZone) or node.name.lower() == "at_timezone":
        inner = _moment(source) if _zone(source) is not None else source.copy()
        return macro("instant", inner)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "with_timezone":
        return _in_zone(exp.Cast(this=source.copy(), to=exp.DataType.build("TIMESTAMP(6)")), zone)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "from_unixtime":
        return macro("from_unixtime", source.copy())
    if isinstance(node, exp.Anonymous):
        moved = [*(argument.copy() for argument in node.expressions[:-1]), _local(source)]
        return _in_zone(macro(node.name.lower(), *moved), zone)
    # An interval of days is a number of milliseconds; months are those of the calendar in the zone.
    interval = node.expression if isinstance(node.expression, exp.Interval) else node.this
    unit = str(interval.args["unit"].name if interval.args.get("unit") else "DAY").upper()
    if unit.startswith(("YEAR", "MONTH", "QUARTER")):
        return _in_zone(type(node)(this=_local(source), expression=interval.copy()), zone)
    return type(node)(this=_moment(source), expression=interval.copy())


def _local(node: exp.Expr) -> exp.Expr:
    """Return the local time of a value in its zone, a TIMESTAMP."""
    zone = _zone(node)
    assert zone is not None
    offset = _offset(zone)
    if offset is not None:
        utc = call("timezone", text("UTC"), _moment(node))
        return exp.paren(exp.Add(this=utc, expression=offset))
    return call("timezone", zone.copy(), _moment(node))


def _in_zone(local: exp.Expr, zone: exp.Expr) -> exp.Expr:
    """Return the moment of a local time."""
    offset = _offset(zone)
    if offset is not None:
        return call("timezone", text("UTC"), exp.Sub(this=local, expression=offset))
    return call("timezone", zone.copy(), local)


def _offset(zone: exp.Expr) -> exp.Interval | None:
    """Return a zone such as `+02:00` as an interval; None for a name."""
    found = _OFFSET.fullmatch(zone.name) if zone.is_string else None
    if found is None:
        return None
    sign, hours, minutes = found.groups()
    total = 60 * int(hours) + int(minutes or 0)
    return exp.Interval(this=text(f"{sign}{total}"), unit=exp.var("MINUTE"))


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


Rewrite = Callable[[exp.Expr], exp.Expr | None]


def translated(sql: str, constants: Mapping[str, str]) -> str:
    """Translate a query.

    Args:
        sql: a query, or EXPLAIN and a query.
        constants: values of `current_user` and the like.

    Raises:
        QueryError: it is no query, or has something that is not known here.
    """

    def rewrite(tree: exp.Query) -> None:
        _check_names(tree, sql)
        rewrite_zones(tree)
        _set_constants(tree, constants)
        rewrite_nodes(tree, _REWRITES)

    prefix, text_ = rewritten_query(sql, _EXPLAIN, TrinoSyntax, rewrite, "_col")
    return f"{prefix} {text_}" if prefix else text_


def rewritten_query(
    sql: str, explain: re.Pattern[str], syntax: type[Trino], rewrite: Callable[[exp.Query], None], column: str
) -> tuple[str, str]:
    """Return the words before a query, and the query in DuckDB's dialect.

    Args:
        sql: the query, and perhaps EXPLAIN before it.
        explain: matches EXPLAIN.
        syntax: reads the query.
        rewrite: changes its tree.
        column: the names of columns without a name begin so; the position follows, from 0.

    Raises:
        QueryError: it is no query, or has something that is not known here.
    """
    # sqlglot takes all that follows EXPLAIN for one token.
    start = len(sql) - len(sql.lstrip())
    found = explain.match(sql, start)
    prefix = found.group() if found else ""
    try:
        tree = parsed(blanked(sql, start + len(prefix)), syntax)
        if not isinstance(tree, exp.Query):
            raise not_a_query(tree)
        rewrite(tree)
        for select in tree.find_all(exp.Select):
            _name_columns(select, column)
    except RecursionError as error:
        raise too_deep() from error
    return prefix, generated(tree)


def rewrite_nodes(
    tree: exp.Expr, rewrites: Mapping[type[exp.Expr], Rewrite], otherwise: Rewrite = lambda _: None
) -> None:
    """Replace the nodes of a tree.

    Args:
        tree: changed.
        rewrites: return what stands in place of a node, by its type; None if it stays.
        otherwise: of nodes of other types.
    """
    # A list, because nodes are replaced meanwhile.
    for node in list(tree.walk()):
        made = rewrites.get(type(node), otherwise)(node)
        if made is not None:
            node.replace(made)


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


def _divided(node: exp.Expr) -> exp.Expr:
    # `//` of DuckDB divides integers only as such: 7 // 2 = 3, 7.0 // 2 = 3.5.
    return exp.paren(exp.IntDiv(this=node.this, expression=node.expression), copy=False)


def _enclose(node: exp.Expr) -> None:
    """Put parentheses around a node."""
    # sqlglot makes operators of functions: 2 * mod(7, 4) is not 2 * 7 % 4.
    enclosed = exp.Paren()
    node.replace(enclosed)
    enclosed.set("this", node)


def extracting(fields: Mapping[str, str]) -> Rewrite:
    """Return the rewriting of EXTRACT with these fields, by their names in the dialect, and no others."""

    def rewrite(node: exp.Expr) -> None:
        field = node.this.name.upper()
        if field not in fields:
            raise NotSupportedError(f"EXTRACT does not know the field {field} here")
        node.set("this", exp.var(fields[field]))

    return rewrite


def arguments_of(node: exp.Expr, *names: str) -> list[exp.Expr]:
    """Return the arguments that a node has, of those with these names."""
    return [node.args[name] for name in names if node.args.get(name) is not None]


def _plus(node: exp.Expr) -> exp.Expr | None:
    value, interval = node.this, node.expression
    if isinstance(node, exp.Sub) and _is_date(value) and _is_date(interval):
        raise NotSupportedError(
            "a date minus a date is not known here: Trino gives an interval, DuckDB a number",
            hint="write date_diff('day', from, to)",
        )
    if isinstance(node, exp.Add) and _is_interval(value):
        value, interval = interval, value
    if not _is_interval(interval) or _is_interval(value):
        return None
    if isinstance(node, exp.Sub):
        interval = exp.Neg(this=exp.paren(interval))
    return macro("plus", value, interval)


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


def _function(node: exp.Expr) -> exp.Expr | None:
    """Rewrite a function as it is written."""
    name = node.name.lower()
    rewrite = REWRITTEN.get(name)
    return None if rewrite is None else rewrite(name, node.expressions)


def _extremum(node: exp.Expr) -> exp.Expr | None:
    # DuckDB's passes over rows whose first argument is NULL.
    if node.args.get("count") is not None:
        return None
    name = "arg_max_null" if isinstance(node, exp.ArgMax) else "arg_min_null"
    return call(name, node.this, node.expression)


def _trim(node: exp.Expr) -> None:
    if node.args.get("expression") is None:
        node.set("expression", text(_BLANKS))


def _subscript(node: exp.Expr) -> exp.Expr | None:
    is_one = len(node.expressions) == 1 and not isinstance(node.expressions[0], exp.Slice)
    return macro("subscript", node.this, node.expressions[0]) if is_one else None


def _fetch(node: exp.Expr) -> None:
    options = node.args.get("limit_options")
    if options is not None and options.args.get("with_ties"):
        raise NotSupportedError("FETCH FIRST … WITH TIES is not known here")


def _unnest(node: exp.Expr) -> None:
    alias = node.args.get("alias")
    named = len(alias.columns) if alias is not None else 0
    if named > len(node.expressions) + bool(node.args.get("offset")):
        raise NotSupportedError(
            "UNNEST of a map, or of an array of rows, into several columns is not known here",
            hint="UNNEST(map_keys(m)), or UNNEST(a) AS t(r) and r.field",
        )


def _set_constants(tree: exp.Query, constants: Mapping[str, str]) -> None:
    """Replace `current_user` and the like by their values."""
    for node in list(tree.find_all(exp.Column, *_CONSTANTS)):
        name = _CONSTANTS.get(type(node), node.name.lower())
        # sqlglot reads `current_catalog` and `current_schema` as names of columns.
        is_other = isinstance(node, exp.Column) and (len(node.parts) > 1 or node.this.args.get("quoted"))
        if name in constants and not is_other:
            node.replace(exp.Literal.string(constants[name]))


def _name_columns(select: exp.Select, prefix: str) -> None:
    """Give output columns without a name the name that the dialect gives them: a prefix and their position, from 0."""
    for number, column in enumerate(select.expressions):
        if isinstance(column, exp.Alias | exp.Column | exp.Star | exp.Dot | exp.Aliases) or column.is_star:
            continue
        column.replace(exp.alias_(column.copy(), f"{prefix}{number}", quoted=True))


_CONSTANTS: dict[type[exp.Expr], str] = {
    exp.CurrentCatalog: "current_catalog",
    exp.CurrentSchema: "current_schema",
    exp.CurrentUser: "current_user",
    exp.CurrentVersion: "version",
}
_ENCLOSED = (exp.BitwiseAnd, exp.BitwiseNot, exp.BitwiseOr, exp.BitwiseXor, exp.DPipe, exp.Mod)
OPERATORS: dict[type[exp.Expr], Rewrite] = {**dict.fromkeys(_ENCLOSED, _enclose), exp.Div: _divided}
"""The operators of Trino and of Flink that are rewritten."""
_REWRITES: dict[type[exp.Expr], Rewrite] = {
    **OPERATORS,
    exp.Add: _plus,
    exp.Anonymous: _function,
    exp.ArgMax: _extremum,
    exp.ArgMin: _extremum,
    exp.Bracket: _subscript,
    exp.Cast: cast_as_trino,
    exp.Extract: extracting(_FIELDS),
    exp.Fetch: _fetch,
    exp.Sub: _plus,
    exp.Substring: lambda node: substring(*arguments_of(node, "this", "start", "length")),
    exp.Trim: _trim,
    exp.TryCast: cast_as_trino,
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
