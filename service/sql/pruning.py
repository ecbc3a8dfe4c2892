"""What of a query's conditions saves reading: `Predicate`s for the tables of a SELECT.

A row that a predicate leaves out is one that the SELECT would drop anyway, so a condition is taken only where that is
sure:

* it is a conjunct of WHERE, or of ON where all joins are inner, and true for the listed values only: `column = value`,
  `column IN (…)`, or several of these on one column with OR between them;
* its column belongs to a table that stands in FROM or JOIN itself, not in a subquery. Leaving out rows of the inner side
  of an outer join gives rows with NULL in their place, and these conditions are not true for NULL;
* no join but inner, left, right, full and cross: in an ASOF join, a missing row makes another one match;
* no sample: it would be taken of other rows;
* the value is a constant that compares with the column without a conversion of the column (see `literals.py`): `key = 5`
  where the key is text compares numbers, as `'05' = 5` does.

`column IN (SELECT …)` and an inner join on equality say the same where the other side is a table of constants, as
VALUES are (see `constants.py`).

A column that USING merged belongs to all tables it was merged from. Where all joins are inner, columns of the same type
that the joins make equal share their values: a condition on the key of one table prunes the tables joined to it by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from sqlglot import exp

from catalog import Predicate
from service.sql.constants import Constants, constants_of
from service.sql.literals import value_of

_SIDES = frozenset({"", "LEFT", "RIGHT", "FULL"})
_KINDS = frozenset({"", "INNER", "OUTER", "CROSS"})

_Place = tuple[str, str]  # alias of a table, column
_Condition = tuple[tuple[_Place, ...], tuple[Any, ...]]
_Values = dict[_Place, tuple[Any, ...]]


def predicates_of(select: exp.Select, schemas: Mapping[str, pa.Schema]) -> dict[str, Predicate]:
    """What the conditions of a SELECT say of the tables it names.

    Args:
        select: columns are qualified by alias, if at all.
        schemas: the tables of the catalog that stand in its FROM and JOINs as they are, by alias, casefolded.
    """
    joins: list[exp.Join] = select.args.get("joins") or []
    if not schemas or not _keeps_rows(select, joins):
        return {}
    scope = _scope_of(select, joins, schemas)
    all_inner = all(not join.side and join.kind in ("", "INNER", "CROSS") for join in joins)
    conditions = [select.args["where"].this] if select.args.get("where") else []
    if all_inner:
        conditions += [join.args["on"] for join in joins if join.args.get("on")]
    conjuncts = [conjunct for condition in conditions for conjunct in _conjuncts(condition)]
    values = _values(conjuncts, scope)
    if all_inner:
        constants = _joined_constants(select, joins)
        _meet_constants(values, [*_equal_sides(conjuncts), *_merged_sides(select, joins)], constants, scope)
        _share(values, [*_equalities(conjuncts, scope), *scope.merged_pairs()], scope)
    return {
        alias: Predicate({column: found for (owner, column), found in values.items() if owner == alias})
        for alias in schemas
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """What a name in the SELECT refers to.

    Attributes:
        schemas: the tables whose columns are known.
        merged: column of a USING → the places it was merged from; empty where not all are known.
        natural: whether columns were merged by NATURAL, so that a bare name may be any of them.
    """

    schemas: Mapping[str, pa.Schema]
    merged: Mapping[str, tuple[_Place, ...]]
    natural: bool

    def find(self, node: exp.Expr) -> tuple[_Place, ...]:
        """Where a column is; of a merged one, all places. Empty for anything else, and where that is not sure."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return ()
        names = [part.name.casefold() for part in node.parts]
        if len(names) == 2:
            own = self.own(names[0], names[1])
            return (own,) if own else ()
        if len(names) != 1 or self.natural:
            return ()
        places = (
            self.merged[names[0]] if names[0] in self.merged else tuple(self.owners(self.schemas, names[0]))
        )
        alone = len(places) == 1 or names[0] in self.merged
        return places if alone and len({self.type_of(place) for place in places}) == 1 else ()

    def owners(self, aliases: Iterable[str], column: str) -> list[_Place]:
        """The places of a column in some of the tables."""
        return [own for alias in aliases if (own := self.own(alias, column))]

    def own(self, alias: str, column: str) -> _Place | None:
        """The place of a table's column, in any case."""
        if alias in self.schemas:
            for name in self.schemas[alias].names:
                if name.casefold() == column:
                    return alias, name
        return None

    def type_of(self, place: _Place) -> pa.DataType:
        alias, name = place
        return self.schemas[alias].field(name).type

    def merged_pairs(self) -> Iterator[tuple[_Place, _Place]]:
        """Places whose values USING makes equal."""
        for places in self.merged.values():
            yield from pairwise(places)


def is_plain(node: exp.Table) -> bool:
    """Return whether a table stands in FROM or JOIN as it is: not sampled, pivoted, renamed or in parentheses."""
    alias = node.args.get("alias")
    changed = any(node.args.get(name) for name in ("joins", "pivots", "sample", "laterals"))
    direct = isinstance(node.parent, exp.From | exp.Join) and isinstance(node.parent.parent, exp.Select)
    return direct and not changed and not (alias and alias.args.get("columns"))


def _scope_of(select: exp.Select, joins: Sequence[exp.Join], schemas: Mapping[str, pa.Schema]) -> _Scope:
    bare = _Scope(schemas=schemas, merged={}, natural=False)
    merged: dict[str, list[_Place | None]] = {}
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
        name: tuple(place for place in places if place) if all(places) else ()
        for name, places in merged.items()
    }
    return _Scope(schemas=schemas, merged=known, natural=any(join.method == "NATURAL" for join in joins))


def _keeps_rows(select: exp.Select, joins: Sequence[exp.Join]) -> bool:
    """Whether FROM and JOINs are such that a row may be left out."""
    if select.args.get("sample") or select.args.get("laterals"):
        return False
    return all(
        join.method in ("", "NATURAL") and join.side in _SIDES and join.kind in _KINDS for join in joins
    )


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        for operand in condition.flatten():
            yield from _conjuncts(operand)
    else:
        yield condition


def _values(conjuncts: Iterable[exp.Expr], scope: _Scope) -> _Values:
    values: _Values = {}
    for conjunct in conjuncts:
        places, allowed = _condition(conjunct, scope) or ((), ())
        for place in places:
            values[place] = _both(values.get(place), allowed)
    return values


def _both(known: tuple[Any, ...] | None, more: tuple[Any, ...]) -> tuple[Any, ...]:
    return more if known is None else tuple(value for value in known if value in more)


def _condition(node: exp.Expr, scope: _Scope) -> _Condition | None:
    """The places of a column and the values it must have one of; None if the condition says no such thing."""
    node = node.unnest()
    if isinstance(node, exp.Or):
        return _any_of([_condition(operand, scope) for operand in node.flatten()])
    if isinstance(node, exp.EQ | exp.NullSafeEQ):
        return _is_one_of(node.this, [node.expression], scope) or _is_one_of(
            node.expression, [node.this], scope
        )
    if isinstance(node, exp.In) and not any(node.args.get(name) for name in ("unnest", "field")):
        query = node.args.get("query")
        if query is None:
            return _is_one_of(node.this, node.expressions, scope)
        columns = list((constants_of(query) or {}).values())
        return _meets(scope.find(node.this), columns[0], scope) if len(columns) == 1 else None
    return None


def _meets(places: tuple[_Place, ...], constants: Sequence[exp.Expr], scope: _Scope) -> _Condition | None:
    """A column and the constants of another one that it must equal; NULL equals nothing."""
    if not places:
        return None
    known = [node for node in constants if not isinstance(node.unnest(), exp.Null)]
    values = [value_of(node, scope.type_of(places[0]), strict=True) for node in known]
    return None if any(value is None for value in values) else (places, _distinct(values))


def _joined_constants(select: exp.Select, joins: Sequence[exp.Join]) -> dict[str, Constants]:
    """The tables of constants in FROM and JOINs, by alias."""
    source = select.args.get("from_")
    nodes = [*([source.this] if source else []), *(join.this for join in joins)]
    found = {node.alias_or_name.casefold(): constants_of(node) for node in nodes}
    return {alias: constants for alias, constants in found.items() if alias and constants is not None}


def _meet_constants(
    values: _Values,
    pairs: Iterable[tuple[exp.Expr, exp.Expr]],
    constants: Mapping[str, Constants],
    scope: _Scope,
) -> None:
    """What columns must equal that are joined to a table of constants; `pairs` are equal."""
    for left, right in pairs:
        for one, other in ((left, right), (right, left)):
            if not isinstance(other, exp.Column) or len(other.parts) != 2:
                continue
            column = constants.get(other.table.casefold(), {}).get(other.name.casefold())
            condition = None if column is None else _meets(scope.find(one), column, scope)
            for place in condition[0] if condition else ():
                values[place] = _both(values.get(place), condition[1] if condition else ())


def _equal_sides(conjuncts: Iterable[exp.Expr]) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    for conjunct in conjuncts:
        if isinstance(conjunct, exp.EQ):
            yield conjunct.this, conjunct.expression


def _merged_sides(select: exp.Select, joins: Sequence[exp.Join]) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """What USING makes equal where two tables are joined: whose columns they are is plain then."""
    source = select.args.get("from_")
    if source is not None and len(joins) == 1:
        for name in joins[0].args.get("using") or []:
            one, other = (exp.column(name.name, table=table.alias) for table in (source.this, joins[0].this))
            yield one, other


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    """Each once, in order; some are lists and structs, which do not hash."""
    return tuple({repr(value): value for value in values}.values())


def _any_of(conditions: Sequence[_Condition | None]) -> _Condition | None:
    known = [condition for condition in conditions if condition is not None]
    if len(known) != len(conditions) or len({places for places, _ in known}) != 1:
        return None
    return known[0][0], _distinct(value for _, values in known for value in values)


def _is_one_of(left: exp.Expr, right: Iterable[exp.Expr], scope: _Scope) -> _Condition | None:
    places = scope.find(left)
    if not places:
        return None
    values = [value_of(node, scope.type_of(places[0])) for node in right]
    return None if any(value is None for value in values) else (places, _distinct(values))


def _equalities(conjuncts: Iterable[exp.Expr], scope: _Scope) -> Iterator[tuple[_Place, _Place]]:
    """Pairs of columns that a conjunct makes equal."""
    for conjunct in conjuncts:
        if isinstance(conjunct, exp.EQ):
            yield from pairwise(scope.find(conjunct.this)[:1] + scope.find(conjunct.expression)[:1])


def _share(values: _Values, pairs: Iterable[tuple[_Place, _Place]], scope: _Scope) -> None:
    """Give columns that are equal the values of each other."""
    equal = [(one, other) for one, other in pairs if scope.type_of(one).equals(scope.type_of(other))]
    for _ in equal:
        for one, other in [*equal, *((b, a) for a, b in equal)]:
            if one in values:
                values[other] = _both(values.get(other), values[one])
