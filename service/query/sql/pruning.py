"""Conditions of a SELECT that save reading → `Predicate`s for its tables.

A predicate may leave out only rows that the SELECT drops anyway. So a condition is used only if all of this is true:

* It is a conjunct of WHERE, or of ON if all joins are inner, and it is true for listed values only: `column = value`,
  `column IN (…)`, or several of these on one column with OR between them.
* Its column belongs to a table in FROM or JOIN, not in a subquery. Without rows on the inner side of an outer join, the join
  gives rows with NULL, and these conditions are not true for NULL.
* All joins are inner, left, right, full or cross. In an ASOF join, another row matches if one is missing.
* There is no sample: it would be taken of other rows.
* Fields of a struct count together: `key.f0 = … AND key.f1 = …` is `key = …` if all fields of the key are there.
* Of the columns that tell checkpoints of a history apart, `<`, `<=`, `>`, `>=` and BETWEEN count, too.
* The value is a constant that compares with the column without a conversion of the column (`service.query.sql.text`). If the key is
  text, `key = 5` compares numbers, and `'05' = 5` is true.

`column IN (SELECT …)` and an inner join on equality are such conditions if the other side is a table of constants, such as
VALUES (`service.query.sql.names`).

A column that USING merges belongs to all tables that it is merged from. If all joins are inner, columns of the same type
that the joins make equal share their values: a condition on the key of one table prunes the tables joined by key.

Conditions on the columns that tell checkpoints apart are ranges: `_checkpoint_id >= 41`, `_checkpoint_at BETWEEN … AND …`. A range
prunes, it does not filter: the bounds belong to it, whether or not the condition has them. A time without a zone is in the zone of
the session, which is not known here: its bound is wider by what zones differ.

A query of `information_schema` and the like opens only the databases that its conditions ask for:

    SELECT * FROM information_schema.columns WHERE table_schema = 'chk-41'
    SELECT * FROM system.jdbc.tables WHERE table_schem LIKE 'chk\\_41' ESCAPE '\\' AND …     JDBC's drivers
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
from sqlglot import exp

from catalog import Predicate
from catalog.history import CHECKPOINT_ID, RANGED
from catalog.scan import ANYTHING, Range
from service.query.sql.names import Constants, commons_of, constants_of
from service.query.sql.text import value_of

# Between the zones farthest apart, if the text has one and the session another.
_MOST_ZONE = timedelta(hours=30)
_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?(?P<zone>Z|[+-]\d{2}(:?\d{2})?)?"
)

_Column = tuple[str, str]  # alias of its table, name
_Find = Callable[[exp.Expr], tuple[_Column, ...]]


def ranges_of(conjuncts: Iterable[exp.Expr], find: _Find) -> tuple[dict[_Column, Range], list[exp.Expr]]:
    """Return the ranges of columns, and the conjuncts that give them.

    Args:
        conjuncts: all are true of the rows that the statement keeps.
        find: returns the columns that a node refers to; none if it is no column for certain.
    """
    ranges: dict[_Column, Range] = {}
    used: list[exp.Expr] = []
    for conjunct in conjuncts:
        for node, found in _bounds(conjunct):
            for column in find(node):
                if column[1] in RANGED:
                    limit = found(column[1])
                    if limit is not None:
                        ranges[column] = ranges.get(column, Range()).within(limit)
                        used.append(conjunct)
    return ranges, used


def _bounds(conjunct: exp.Expr) -> Iterator[tuple[exp.Expr, Callable[[str], Range | None]]]:
    """Yield a node that may be a column, and its range by the name of the column."""
    node = conjunct.unnest()
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low, high = node.args["low"], node.args["high"]
        yield node.this, lambda name: _range(name, low, high)
        return
    if type(node) not in _SIDES:
        return
    has_least, has_greatest = _SIDES[type(node)]
    one, other = node.this, node.expression
    yield one, lambda name: _range(name, other if has_least else None, other if has_greatest else None)
    yield other, lambda name: _range(name, one if has_greatest else None, one if has_least else None)


def _range(name: str, low: exp.Expr | None, high: exp.Expr | None) -> Range | None:
    """Return the range between two constants; None if one of them is no constant for certain."""
    least = None if low is None else _bound(name, low, -_MOST_ZONE)
    greatest = None if high is None else _bound(name, high, _MOST_ZONE)
    if (low is not None and least is None) or (high is not None and greatest is None):
        return None
    return Range(least, greatest)


def _bound(name: str, node: exp.Expr, unknown_zone: timedelta) -> Any:
    return value_of(node, pa.int64()) if name == CHECKPOINT_ID else _moment(node, unknown_zone)


def _moment(node: exp.Expr, unknown_zone: timedelta) -> datetime | None:
    """Return the moment of a constant, in UTC; None if it is no moment for certain."""
    node = node.unnest()
    has_zone = True
    if isinstance(node, exp.Cast):
        if node.to.this not in _TIMES or node.to.expressions:
            return None
        # A cast to a type without zones may drop the zone of the text.
        has_zone = node.to.this is exp.DataType.Type.TIMESTAMPTZ
        node = node.this
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    found = _TIME.fullmatch(node.this)
    if found is None:
        return None
    try:
        moment = datetime.fromisoformat(node.this)
        if found["zone"] and has_zone:
            return moment.astimezone(UTC)
        return moment.replace(tzinfo=UTC) + unknown_zone
    except (ValueError, OverflowError):
        return None


# The comparison `column < constant` → whether the constant is the least value, and whether it is the greatest.
_SIDES: dict[type[exp.Expr], tuple[bool, bool]] = {
    exp.GT: (True, False),
    exp.GTE: (True, False),
    exp.LT: (False, True),
    exp.LTE: (False, True),
    exp.EQ: (True, True),
}
_Type = exp.DataType.Type
_TIMES = frozenset({_Type.TIMESTAMPTZ, _Type.TIMESTAMP, _Type.TIMESTAMPNTZ, _Type.DATE})


_JOIN_SIDES = frozenset({"", "LEFT", "RIGHT", "FULL"})
_KINDS = frozenset({"", "INNER", "OUTER", "CROSS"})

_Condition = tuple[tuple[_Column, ...], tuple[Any, ...]]
_Values = dict[_Column, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Grounds:
    """The parts of a SELECT that imply predicates.

    Attributes:
        conditions: conjuncts of WHERE and ON.
        sources: FROM and the joins, if the predicates depend on them; else nothing.
        commons: the common tables of constants that both name.
    """

    conditions: Sequence[exp.Expr] = ()
    sources: Sequence[exp.Expr] = ()
    commons: Sequence[exp.CTE] = ()


def predicates_of(
    select: exp.Select, schemas: Mapping[str, pa.Schema]
) -> tuple[dict[str, Predicate], Grounds]:
    """Return the predicates that a SELECT implies for its tables, and the parts of it that do.

    Args:
        select: its columns have no qualifier but an alias.
        schemas: the tables of the catalog that stand plainly in its FROM and JOINs (`is_plain`), by casefolded alias.
    """
    joins: list[exp.Join] = select.args.get("joins") or []
    if not schemas or not _keeps_rows(select, joins):
        return {}, Grounds()
    scope = _scope_of(select, joins, schemas)
    all_inner = all(not join.side and join.kind in ("", "INNER", "CROSS") for join in joins)
    conditions = [select.args["where"].this] if select.args.get("where") else []
    if all_inner:
        conditions += [join.args["on"] for join in joins if join.args.get("on")]
    conjuncts = [conjunct for condition in conditions for conjunct in _conjuncts(condition)]
    values = _values(conjuncts, scope)
    fields, by_fields = _field_values(conjuncts, scope)
    for column, allowed in fields.items():
        values[column] = _both(values.get(column), allowed)
    sources: list[exp.Expr] = []
    if all_inner:
        constants = _joined_constants(select, joins)
        if constants or scope.merged:
            sources = [select.args["from_"], *joins]
        equal = [(one.this, one.expression) for one in conjuncts if isinstance(one, exp.EQ)]
        _meet_constants(values, [*equal, *_merged_sides(select, joins)], constants, scope)
        _share(values, [*_equalities(conjuncts, scope), *scope.merged_pairs()], scope)
    ranges, by_ranges = ranges_of(conjuncts, scope.find)
    predicates = {
        alias: Predicate(
            {name: known for (owner, name), known in values.items() if owner == alias},
            {name: known for (owner, name), known in ranges.items() if owner == alias},
        )
        for alias in schemas
    }
    others = [*by_fields, *by_ranges]
    used = [conjunct for conjunct in conjuncts if _is_used(conjunct, scope) or conjunct in others]
    return predicates, Grounds(used, sources, list(commons_of([*used, *sources])))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """The columns that names in the SELECT refer to.

    Attributes:
        schemas: the tables whose columns are known.
        merged: name in a USING → the columns that it merges; empty if not all are known.
        natural: True if NATURAL merges columns, so that a name without alias may be any of them.
        aliases: casefolded aliases of all tables, also of those whose columns are not known.
    """

    schemas: Mapping[str, pa.Schema]
    merged: Mapping[str, tuple[_Column, ...]]
    natural: bool
    aliases: frozenset[str] = frozenset()

    def find(self, node: exp.Expr) -> tuple[_Column, ...]:
        """Return the columns that a node refers to: several if they are merged, none if it is no column for certain."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return ()
        names = [part.name.casefold() for part in node.parts]
        if len(names) == 2:
            own = self.own(names[0], names[1])
            return (own,) if own else ()
        if len(names) != 1 or self.natural:
            return ()
        is_merged = names[0] in self.merged
        columns = self.merged[names[0]] if is_merged else tuple(self.owners(self.schemas, names[0]))
        is_certain = is_merged or len(columns) == 1
        return columns if is_certain and len({self.type_of(column) for column in columns}) == 1 else ()

    def find_field(self, node: exp.Expr) -> tuple[_Column, tuple[str, ...]] | None:
        """Return a column and the path to the field of it that a node refers to; None if it is no field for certain."""
        names = _path(node)
        if len(names) < 2:
            return None
        # A table goes before a column of the same name.
        width = 2 if names[0].casefold() in self.aliases else 1
        columns = self.find(exp.column(*reversed(names[:width])))
        return (columns[0], tuple(names[width:])) if len(columns) == 1 and len(names) > width else None

    def owners(self, aliases: Iterable[str], folded: str) -> list[_Column]:
        """Return the columns of this casefolded name in some of the tables."""
        return [own for alias in aliases if (own := self.own(alias, folded))]

    def own(self, alias: str, folded: str) -> _Column | None:
        """Return the column of this casefolded name in a table; None if there is none."""
        if alias in self.schemas:
            for name in self.schemas[alias].names:
                if name.casefold() == folded:
                    return alias, name
        return None

    def type_of(self, column: _Column) -> pa.DataType:
        alias, name = column
        return self.schemas[alias].field(name).type

    def merged_pairs(self) -> Iterator[tuple[_Column, _Column]]:
        """Yield pairs of columns whose values USING makes equal."""
        for columns in self.merged.values():
            yield from pairwise(columns)


def is_plain(node: exp.Table) -> bool:
    """Return whether a table stands in FROM or JOIN as it is: not sampled, pivoted, renamed or in parentheses."""
    alias = node.args.get("alias")
    changed = any(node.args.get(name) for name in ("joins", "pivots", "sample", "laterals"))
    direct = isinstance(node.parent, exp.From | exp.Join) and isinstance(node.parent.parent, exp.Select)
    return direct and not changed and not (alias and alias.args.get("columns"))


def _scope_of(select: exp.Select, joins: Sequence[exp.Join], schemas: Mapping[str, pa.Schema]) -> _Scope:
    bare = _Scope(schemas=schemas, merged={}, natural=False)
    merged: dict[str, list[_Column | None]] = {}
    source = select.args.get("from_")
    before = [source.this.alias.casefold()] if source else []
    for join in joins:
        alias = join.this.alias.casefold()
        for identifier in join.args.get("using") or []:
            name = identifier.name.casefold()
            if name not in merged:
                owners = bare.owners(before, name)
                merged[name] = [owners[0] if len(owners) == 1 else None]
            merged[name].append(bare.own(alias, name))
        before.append(alias)
    known = {
        name: tuple(column for column in columns if column) if all(columns) else ()
        for name, columns in merged.items()
    }
    return _Scope(
        schemas=schemas,
        merged=known,
        natural=any(join.method == "NATURAL" for join in joins),
        aliases=frozenset([*before, *schemas]),
    )


def _keeps_rows(select: exp.Select, joins: Sequence[exp.Join]) -> bool:
    """Return whether FROM and JOINs allow rows to be left out."""
    if select.args.get("sample") or select.args.get("laterals"):
        return False
    return all(
        join.method in ("", "NATURAL") and join.side in _JOIN_SIDES and join.kind in _KINDS for join in joins
    )


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        for operand in condition.flatten():
            yield from _conjuncts(operand)
    else:
        yield condition


def _is_used(conjunct: exp.Expr, scope: _Scope) -> bool:
    """Return whether a conjunct may limit the values of a column."""
    if isinstance(conjunct, exp.EQ) and isinstance(conjunct.this, exp.Column):
        return isinstance(conjunct.expression, exp.Column) or _condition(conjunct, scope) is not None
    return _condition(conjunct, scope) is not None


def _values(conjuncts: Iterable[exp.Expr], scope: _Scope) -> _Values:
    values: _Values = {}
    for conjunct in conjuncts:
        columns, allowed = _condition(conjunct, scope) or ((), ())
        for column in columns:
            values[column] = _both(values.get(column), allowed)
    return values


def _path(node: exp.Expr) -> list[str]:
    """Return the names of `key.f0.f1`; none if it is no such path."""
    if isinstance(node, exp.Column) and all(isinstance(part, exp.Identifier) for part in node.parts):
        return [part.name for part in node.parts]
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        before = _path(node.this.unnest())
        return [*before, node.expression.name] if before else []
    return []


def _field_values(conjuncts: Sequence[exp.Expr], scope: _Scope) -> tuple[_Values, list[exp.Expr]]:
    """Return the values of struct columns of which conjuncts give each field one value, and these conjuncts."""
    given: dict[_Column, dict[tuple[str, ...], tuple[exp.Expr, exp.Expr]]] = {}
    for conjunct in conjuncts:
        if isinstance(conjunct, exp.EQ):
            sides = conjunct.this, conjunct.expression
            for field, constant in (sides, reversed(sides)):
                found = scope.find_field(field)
                if found is not None:
                    column, path = found
                    folded = tuple(map(str.casefold, path))
                    given.setdefault(column, {}).setdefault(folded, (constant, conjunct))
    values: _Values = {}
    used: list[exp.Expr] = []
    for column, fields in given.items():
        constants = {path: constant for path, (constant, _) in fields.items()}
        value = _struct_of(scope.type_of(column), constants)
        if value is not None:
            values[column] = (value,)
            used += [conjunct for _, conjunct in fields.values()]
    return values, used


def _struct_of(
    data_type: pa.DataType, constants: Mapping[tuple[str, ...], exp.Expr], path: tuple[str, ...] = ()
) -> Any:
    """Return the value whose fields are constants; None if one of them is not known for certain."""
    if path in constants:
        return value_of(constants[path], data_type)
    if not pa.types.is_struct(data_type):
        return None
    names = [field.name.casefold() for field in data_type]
    if len(set(names)) != len(names):
        return None
    members = {
        field.name: _struct_of(field.type, constants, (*path, field.name.casefold())) for field in data_type
    }
    return None if None in members.values() else members


def _both(known: tuple[Any, ...] | None, more: tuple[Any, ...]) -> tuple[Any, ...]:
    return more if known is None else tuple(value for value in known if value in more)


def _condition(node: exp.Expr, scope: _Scope) -> _Condition | None:
    """Return a column and the values that it must have one of; None for any other condition."""
    node = node.unnest()
    if isinstance(node, exp.Or):
        return _any_of([_condition(operand, scope) for operand in node.flatten()])
    if isinstance(node, exp.EQ | exp.NullSafeEQ):
        one, other = node.this, node.expression
        return _one_of(scope.find(one), [other], scope) or _one_of(scope.find(other), [one], scope)
    if isinstance(node, exp.In) and not any(node.args.get(name) for name in ("unnest", "field")):
        query = node.args.get("query")
        if query is None:
            return _one_of(scope.find(node.this), node.expressions, scope)
        columns = list((constants_of(query) or {}).values())
        return _one_of_column(scope.find(node.this), columns[0], scope) if len(columns) == 1 else None
    return None


def _one_of(
    columns: tuple[_Column, ...], nodes: Iterable[exp.Expr], scope: _Scope, *, strict: bool = False
) -> _Condition | None:
    """Return a column and the constants that it must equal one of."""
    if not columns:
        return None
    values = [value_of(node, scope.type_of(columns[0]), strict=strict) for node in nodes]
    return None if any(value is None for value in values) else (columns, _distinct(values))


def _one_of_column(
    columns: tuple[_Column, ...], constants: Iterable[exp.Expr], scope: _Scope
) -> _Condition | None:
    """Return a column and the constants of another column that it must equal."""
    # NULL equals nothing.
    known = [node for node in constants if not isinstance(node.unnest(), exp.Null)]
    return _one_of(columns, known, scope, strict=True)


def _joined_constants(select: exp.Select, joins: Sequence[exp.Join]) -> dict[str, Constants]:
    """Return the tables of constants in FROM and JOINs, by alias."""
    source = select.args.get("from_")
    nodes = [*([source.this] if source else []), *(join.this for join in joins)]
    tables = {node.alias_or_name.casefold(): constants_of(node) for node in nodes}
    return {alias: constants for alias, constants in tables.items() if alias and constants is not None}


def _meet_constants(
    values: _Values,
    pairs: Iterable[tuple[exp.Expr, exp.Expr]],
    constants: Mapping[str, Constants],
    scope: _Scope,
) -> None:
    """Limit the values of columns that are joined to a table of constants.

    Args:
        values: of the columns; changed.
        pairs: expressions that the statement makes equal.
        constants: the tables of constants, by alias.
        scope: of the SELECT.
    """
    for left, right in pairs:
        for one, other in ((left, right), (right, left)):
            if not isinstance(other, exp.Column) or len(other.parts) != 2:
                continue
            allowed = constants.get(other.table.casefold(), {}).get(other.name.casefold())
            condition = None if allowed is None else _one_of_column(scope.find(one), allowed, scope)
            columns, known = condition or ((), ())
            for column in columns:
                values[column] = _both(values.get(column), known)


def _merged_sides(select: exp.Select, joins: Sequence[exp.Join]) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """Yield the columns that USING makes equal, if two tables are joined: with more, a side may be a merged column."""
    source = select.args.get("from_")
    if source is not None and len(joins) == 1:
        for name in joins[0].args.get("using") or []:
            one, other = (
                exp.column(name.name, table=table.alias_or_name) for table in (source.this, joins[0].this)
            )
            yield one, other


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    """Drop repeated values."""
    # By `repr`, because lists and structs do not hash.
    return tuple({repr(value): value for value in values}.values())


def _any_of(conditions: Sequence[_Condition | None]) -> _Condition | None:
    known = [condition for condition in conditions if condition is not None]
    if len(known) != len(conditions) or len({columns for columns, _ in known}) != 1:
        return None
    return known[0][0], _distinct(value for _, values in known for value in values)


def _equalities(conjuncts: Iterable[exp.Expr], scope: _Scope) -> Iterator[tuple[_Column, _Column]]:
    """Yield pairs of columns that a conjunct makes equal."""
    for conjunct in conjuncts:
        if isinstance(conjunct, exp.EQ):
            yield from pairwise(scope.find(conjunct.this)[:1] + scope.find(conjunct.expression)[:1])


def _share(values: _Values, pairs: Iterable[tuple[_Column, _Column]], scope: _Scope) -> None:
    """Give equal columns the values of each other."""
    equal = [(one, other) for one, other in pairs if scope.type_of(one).equals(scope.type_of(other))]
    # As many rounds as pairs: values reach every column along a chain of joins, whatever its order.
    for _ in equal:
        for one, other in [*equal, *((b, a) for a, b in equal)]:
            if one in values:
                values[other] = _both(values.get(other), values[one])


# The columns that name a database: of `information_schema`, of JDBC's tables, of `schemata`.
_SCHEMA_COLUMNS = ("table_schema", "table_schem", "schema_name")


def requested_databases(node: exp.Table, databases: Callable[[], Sequence[str]]) -> tuple[str, ...] | None:
    """Return the databases that the SELECT around a table asks for; None for all.

    Args:
        node: a table that lists databases, or what is in them.
        databases: returns the names that patterns are matched with.
    """
    select = node.find_ancestor(exp.Select)
    if select is None or not is_plain(node):
        return None
    alias = node.alias_or_name.casefold()
    schema = pa.schema([(name, pa.string()) for name in _SCHEMA_COLUMNS])
    predicates, _ = predicates_of(select, {alias: schema})
    predicate = predicates.get(alias, ANYTHING)
    for column in _SCHEMA_COLUMNS:
        names = predicate.of(column)
        if names is not None:
            return names
    # A pattern is taken by the name of its column alone, so no other table may have such a column.
    patterns = _schema_patterns(select) if len(list(select.find_all(exp.Table))) == 1 else []
    if not patterns:
        return None
    # A pattern without wildcards may be an alias, which is not among the names.
    literals = [text for text, _ in patterns if text is not None]
    return tuple(
        name
        for name in dict.fromkeys((*databases(), *literals))
        if all(pattern.fullmatch(name) for _, pattern in patterns)
    )


def _schema_patterns(select: exp.Select) -> list[tuple[str | None, re.Pattern[str]]]:
    """Return the patterns of `table_schem LIKE '…'` among the conditions of a SELECT: the only text that fits, and the pattern."""
    where = select.args.get("where")
    patterns = []
    whole = where.this.unnest() if where else None
    conditions = whole.flatten() if isinstance(whole, exp.And) else [whole] if whole else []
    for condition in conditions:
        like, escape = condition.unnest(), ""
        if isinstance(like, exp.Escape):
            like, escape = like.this, like.expression.name
        if type(like) is not exp.Like or like.args.get("negate") or not isinstance(like.this, exp.Column):
            continue
        if like.this.name.casefold() in _SCHEMA_COLUMNS and like.expression.is_string:
            text = like.expression.this
            patterns.append((_literal(text, escape), like_pattern(text, escape)))
    return patterns


def _literal(pattern: str, escape: str) -> str | None:
    """Return the only text that a pattern of LIKE fits; None if it has wildcards."""
    characters = list(_characters(pattern, escape))
    return None if any(is_wild for _, is_wild in characters) else "".join(one for one, _ in characters)


def like_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
    """Return a pattern of LIKE as a regular expression."""
    parts = (
        ".*" if one == "%" and is_wild else "." if is_wild else re.escape(one)
        for one, is_wild in _characters(pattern, escape)
    )
    return re.compile("".join(parts), re.DOTALL)


def _characters(pattern: str, escape: str) -> Iterator[tuple[str, bool]]:
    """Yield the characters of a pattern of LIKE, and whether each is a wildcard."""
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            yield next(characters, ""), False
        else:
            yield character, character in "%_"
