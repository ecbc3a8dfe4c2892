"""Values that carry a time zone: `x AT TIME ZONE 'Europe/Berlin'`, and timestamps that name one.

In Trino such a value is a moment and a zone: it is compared as a moment, and shows the hour of its zone. In DuckDB it is a moment
only, or in `AT TIME ZONE` the local time only. So a function of dates gets the local time, and everything else the moment, which
the answer shows in UTC. Where the zone would be lost on the way to a function, the statement is refused.
"""

from __future__ import annotations

import re

from sqlglot import exp

from service.base.errors import InvalidQueryError
from service.query.sql.trino.calls import call, macro, text

_ZONE_OF_TEXT = re.compile(r"\d\s+([A-Za-z][\w/+-]*|[+-]\d\d?(?::?\d\d)?)$|\d([+-]\d\d:\d\d)$")
_OFFSET = re.compile(r"([+-])(\d\d?)(?::?(\d\d))?")
_UTC = frozenset({"utc", "z", "gmt", "etc/utc", "zulu", "+00:00", "-00:00", "+00", "+0"})
# Their result depends on the local time of the first argument that carries a zone.
_OF_LOCAL_TIME = (
    exp.Date,
    exp.Day,
    exp.DayOfMonth,
    exp.DayOfWeekIso,
    exp.DayOfYear,
    exp.Extract,
    exp.Hour,
    exp.LastDay,
    exp.Minute,
    exp.Month,
    exp.Quarter,
    exp.Second,
    exp.TsOrDsToDate,
    exp.Week,
    exp.WeekOfYear,
    exp.Year,
    exp.YearOfWeekIso,
)
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
        raise InvalidQueryError(
            "a value with a time zone can stand in the answer, in a comparison, or in a function of dates; "
            "elsewhere its zone would be lost",
            hint="write AT TIME ZONE within the function: hour(x AT TIME ZONE 'Europe/Berlin')",
            code="NOT_SUPPORTED",
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
    if isinstance(node, exp.Add | exp.Sub) and _has_interval(node):
        source = _source(node)
        return None if source is None else _zone(source)
    if isinstance(node, exp.Cast) and node.to.this is _Type.TIMESTAMPTZ and node.this.is_string:
        found = _ZONE_OF_TEXT.search(node.this.name)
        name = (found[1] or found[2]) if found else "utc"
        return None if name.lower() in _UTC else text(name)
    return None


def _has_interval(node: exp.Add | exp.Sub) -> bool:
    return isinstance(node.this, exp.Interval) or isinstance(node.expression, exp.Interval)


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
