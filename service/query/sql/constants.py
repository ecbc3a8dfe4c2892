"""Tables of constants in a statement: VALUES, SELECT of constants, and the WITHs that name them.

    WITH wanted(k) AS (VALUES ('a'), ('b')) SELECT … FROM t JOIN wanted ON t.key = wanted.k

The result holds all values that a column of such a table may have. Conditions, LIMIT and DISTINCT may drop some of them: the
result has too many values, never too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from service.query.sql.names import common_table

# A scan looks for each value: beyond this many it may as well read everything.
_MAX_VALUES = 1000

Constants = Mapping[str, Sequence[exp.Expr]]
"""Column, casefolded → all constants that it may hold."""


def constants_of(node: exp.Expr | None) -> Constants | None:
    """Return the columns of a table in FROM or of a query; None if not all are constants, or there are too many."""
    if isinstance(node, exp.Values):
        return _renamed(_of_rows(node), node)
    if isinstance(node, exp.Subquery):
        changed = any(node.args.get(name) for name in ("joins", "pivots", "laterals"))
        return None if changed else _renamed(constants_of(node.this), node)
    if isinstance(node, exp.Table):
        common = _common_table(node)
        return None if common is None else _renamed(_renamed(constants_of(common.this), common), node)
    if isinstance(node, exp.Union):
        return _of_union(node)
    return _of_select(node) if isinstance(node, exp.Select) else None


def commons_of(nodes: Iterable[exp.Expr]) -> Iterator[exp.CTE]:
    """Yield the common tables of constants that some nodes name, and those that these name."""
    waiting = list(nodes)
    found: set[int] = set()
    while waiting:
        for table in waiting.pop().find_all(exp.Table):
            common = _common_table(table)
            if common is not None and id(common) not in found and constants_of(table) is not None:
                found.add(id(common))
                waiting.append(common.this)
                yield common


def _of_rows(values: exp.Values) -> Constants | None:
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in values.expressions]
    width = len(rows[0]) if rows else 0
    if not width or len(rows) > _MAX_VALUES or any(len(row) != width for row in rows):
        return None
    return {f"col{index}": [row[index] for row in rows] for index in range(width)}


def _of_union(union: exp.Union) -> Constants | None:
    left, right = constants_of(union.this), constants_of(union.expression)
    by_name = union.args.get("by_name")
    if left is None or right is None or len(left) != len(right) or by_name or union.args.get("with_"):
        return None
    both = {name: [*one, *other] for (name, one), other in zip(left.items(), right.values(), strict=True)}
    return both if all(len(values) <= _MAX_VALUES for values in both.values()) else None


def _of_select(select: exp.Select) -> Constants | None:
    """Return the columns of SELECT constants, or of SELECT columns FROM a table of constants."""
    source = select.args.get("from_")
    if any(select.args.get(name) for name in ("joins", "laterals", "group", "windows", "with_")):
        return None
    below = {} if source is None else constants_of(source.this)
    if below is None:
        return None
    columns: dict[str, Sequence[exp.Expr]] = {}
    for index, projection in enumerate(select.expressions):
        if isinstance(projection, exp.Star) and not projection.args.get("except_"):
            if projection.args.get("replace") or projection.args.get("rename"):
                return None
            columns |= below
            continue
        value = projection.unalias()
        name = (projection.alias or value.name or f"col{index}").casefold()
        if isinstance(value, exp.Column):
            # Any other qualifier means a table of an outer query.
            alias = source.this.alias_or_name if source is not None else ""
            if value.name.casefold() not in below or value.table.casefold() not in ("", alias.casefold()):
                return None
            columns[name] = below[value.name.casefold()]
        elif source is None and value.find(exp.Column, exp.Query, exp.Explode, exp.Unnest) is None:
            columns[name] = [value]
        else:
            return None
    # Fewer columns: two of them have the same name.
    return columns if len(columns) >= len(select.expressions) else None


def _renamed(constants: Constants | None, node: exp.Expr) -> Constants | None:
    """Give columns the names of `AS alias(names)`."""
    alias = node.args.get("alias")
    names = [column.name.casefold() for column in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if constants is None or len(names) > len(constants):
        return None
    names += list(constants)[len(names) :]
    return dict(zip(names, constants.values(), strict=True)) if len(set(names)) == len(names) else None


def _common_table(node: exp.Table) -> exp.CTE | None:
    """Return the common table that a name means; None if its WITH is recursive, or if it does not stand plainly there."""
    if any(node.args.get(part) for part in ("joins", "pivots", "sample", "laterals")):
        return None
    common = common_table(node)
    with_ = common.parent if common is not None else None
    return None if isinstance(with_, exp.With) and with_.recursive else common
