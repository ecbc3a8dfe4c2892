"""Constants in an older spelling: texts of Kryo were JSON text once, with quotation marks around them.

A column of `Table.unquoted` has no text that begins with a quotation mark, so `key = '"x"'` can only mean `key = 'x'`.
Constants that such a column is compared with lose their marks, in the tree and in the user's text. A column of a subquery or of
a common table is such a column if it stands for one, under any name.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson
from sqlglot import exp

from service.query.sql.edits import Edit
from service.query.sql.names import TablesBySelect, common_table
from service.query.sql.parser import DIALECT

_MARK = '"'
# The columns of a table or query: casefolded name, whether it has no text that begins with a quotation mark.
_Columns = list[tuple[str, bool]]


def respell(query: exp.Query, tables: TablesBySelect, text: str | None) -> Iterator[Edit]:
    """Take the quotation marks from constants of columns that have none; yield the edits of the text.

    Args:
        query: its tables have their names in the plan; changed.
        tables: the tables of the catalog, by the id of their SELECT.
        text: the text of the query; None if it has none.
    """
    if not any(reference.table.unquoted for pairs in tables.values() for _, reference in pairs):
        return
    for node in query.find_all(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In):
        operands = [node.this, *(node.expressions if isinstance(node, exp.In) else [node.expression])]
        literals = [one for one in operands if _is_marked(one, text)]
        columns = [one for one in operands if isinstance(one, exp.Column)]
        if not literals or len(columns) != 1 or not _is_unquoted(columns[0], tables):
            continue
        for literal in literals:
            literal.set("this", orjson.loads(literal.this))
            if text is not None:
                yield Edit(literal.meta["start"], literal.meta["end"] + 1, literal.sql(DIALECT))


def _is_marked(node: exp.Expr, text: str | None) -> bool:
    """Return whether a node is a constant in quotation marks, whose place in the text is known."""
    if not isinstance(node, exp.Literal) or not node.is_string or not node.this.startswith(_MARK):
        return False
    try:
        if not isinstance(orjson.loads(node.this), str):
            return False
    except orjson.JSONDecodeError:
        return False
    if text is None:
        return True
    start, end = node.meta.get("start"), node.meta.get("end")
    return start is not None and end is not None and text[start : end + 1] == f"'{node.this}'"


def _is_unquoted(column: exp.Column, tables: TablesBySelect) -> bool:
    """Return whether a column has no text that begins with a quotation mark."""
    select = column.find_ancestor(exp.Select)
    while select is not None:
        found = _in_select(column, select, tables)
        if found is not None:
            return found
        select = select.find_ancestor(exp.Select)
    return False


def _in_select(column: exp.Column, select: exp.Select, tables: TablesBySelect) -> bool | None:
    """Return whether a column is unquoted, if it is one of those in FROM and JOINs; None if it is none of them."""
    name, alias = column.name.casefold(), column.table.casefold()
    sources = [one for one in _sources(select) if alias in ("", one.alias_or_name.casefold())]
    known = [_source_columns(source, select, tables) for source in sources]
    found = [is_unquoted for columns in known for own, is_unquoted in columns or () if own == name]
    # Else a name without an alias is a column of one source, or an error.
    if None in known and (not found or _merges(select)):
        return False
    return all(found) if found else None


def _sources(select: exp.Select) -> list[exp.Expr]:
    source = select.args.get("from_")
    return [part.this for part in [*([source] if source else []), *(select.args.get("joins") or [])]]


def _merges(select: exp.Select) -> bool:
    """Return whether joins make one column of two, as USING and NATURAL do."""
    return any(join.args.get("using") or join.method for join in select.args.get("joins") or [])


def _source_columns(source: exp.Expr, select: exp.Select, tables: TablesBySelect) -> _Columns | None:
    """Return the columns of a source in FROM; None if they are not known."""
    if any(source.args.get(part) for part in ("joins", "pivots", "laterals")):
        return None
    for node, reference in tables.get(id(select), []):
        if node is source:
            unquoted = {name.casefold() for name in reference.table.unquoted}
            names = [name.casefold() for name in reference.table.schema.names]
            return _renamed([(name, name in unquoted) for name in names], source)
    if isinstance(source, exp.Subquery):
        return _renamed(_query_columns(source.this, tables), source)
    common = common_table(source) if isinstance(source, exp.Table) else None
    if common is None or (isinstance(common.parent, exp.With) and common.parent.recursive):
        return None
    return _renamed(_renamed(_query_columns(common.this, tables), common), source)


def _renamed(columns: _Columns | None, node: exp.Expr) -> _Columns | None:
    """Give columns the names of `AS alias(names)`."""
    alias = node.args.get("alias")
    names = [column.name.casefold() for column in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if columns is None or len(names) > len(columns):
        return None
    own = [name for name, _ in columns]
    return [(name, one) for name, (_, one) in zip([*names, *own[len(names) :]], columns, strict=True)]


def _query_columns(query: exp.Expr, tables: TablesBySelect) -> _Columns | None:
    """Return the columns of a query, in order; None if they are not known."""
    if isinstance(query, exp.Subquery):
        return _query_columns(query.this, tables)
    if isinstance(query, exp.SetOperation):
        one, other = _query_columns(query.this, tables), _query_columns(query.expression, tables)
        if one is None or other is None or len(one) != len(other) or query.args.get("by_name"):
            return None
        return [(name, first and second) for (name, first), (_, second) in zip(one, other, strict=True)]
    if not isinstance(query, exp.Select):
        return None
    columns: _Columns = []
    for item in query.expressions:
        value = item.unalias().unnest()
        star = value.this if isinstance(value, exp.Column) else value
        if isinstance(star, exp.Star):
            known = _star_columns(value, query, tables)
            if known is None:
                return None
            columns += known
        else:
            is_unquoted = isinstance(value, exp.Column) and _in_select(value, query, tables)
            columns.append((item.alias_or_name.casefold(), bool(is_unquoted)))
    return columns


def _star_columns(item: exp.Expr, select: exp.Select, tables: TablesBySelect) -> _Columns | None:
    """Return the columns that `*` or `t.*` stands for; None if they are not known."""
    star, alias = (item.this, item.table.casefold()) if isinstance(item, exp.Column) else (item, "")
    if any(star.args.values()) or (_merges(select) and not alias):
        return None
    columns: _Columns = []
    for source in _sources(select):
        if not alias or source.alias_or_name.casefold() == alias:
            known = _source_columns(source, select, tables)
            if known is None:
                return None
            columns += known
    return columns
