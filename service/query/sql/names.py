"""Names in a statement: tables get their names in the plan, and qualified columns follow them.

    SELECT "chk-41".orders.key FROM "chk-41".orders
    SELECT "orders".key FROM "1: chk-41.orders" AS "orders"

Two tables of the same name, from two databases, get the aliases `database.table`. The tree is changed, and the same changes are
returned as edits of the text (`service.query.sql.edits`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import pyarrow as pa
from sqlglot import exp

from catalog import Catalog, CatalogError
from readers import ReaderError
from service.base.errors import Position
from service.query.sql.edits import Edit, edit_of, quoted
from service.query.sql.plan import TableReference
from service.query.sql.schemas.information_schema import CATALOG, INFORMATION_SCHEMA

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")
_MOST_DATABASES = 3
# The tables in FROM and JOINs of each SELECT, by the id of its node.
TablesBySelect = Mapping[int, list[tuple[exp.Table, TableReference]]]
# The aliases of the tables of each SELECT, by database and table as the statement may write them.
_Aliases = dict[int, dict[tuple[str, ...], str]]


def rename_tables(tree: exp.Expr, tables: TablesBySelect) -> list[Edit]:
    """Call tables by their names in the plan, and columns that name a database by the alias of their table.

    Returns:
        the same changes for the text.
    """
    edits: list[Edit] = []
    aliases: _Aliases = {}
    for select, references in tables.items():
        unaliased = Counter(node.name.casefold() for node, _ in references if not node.alias)
        for node, reference in references:
            if node.alias:
                edits.append(edit_of(node.parts, quoted(reference.name)))
                _call(node, reference.name)
                continue
            is_unique = unaliased[node.name.casefold()] == 1
            own = reference.database.name if reference.database else INFORMATION_SCHEMA
            # The name of the database may be an alias of it, such as `latest`.
            written = (node.db if reference.database else "") or own
            alias = node.name if is_unique else f"{written}.{node.name}"
            known = aliases.setdefault(select, {})
            known[written.casefold(), node.name.casefold()] = alias
            known.setdefault((own.casefold(), node.name.casefold()), alias)
            edits.append(edit_of(node.parts, f"{quoted(reference.name)} AS {quoted(alias)}"))
            node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
            _call(node, reference.name)
    for column in tree.find_all(exp.Column):
        edits += _requalify(column, aliases)
    return edits


def _call(node: exp.Table, name: str) -> None:
    node.set("this", exp.to_identifier(name, quoted=True))
    node.set("db", None)
    node.set("catalog", None)


def _requalify(column: exp.Column, aliases: _Aliases) -> Iterator[Edit]:
    """Turn `"database".table.column` into `alias.column`, for tables without an alias of their own; yield the edit."""
    parts = list(column.parts)
    names = tuple(part.name.casefold() for part in parts)
    skipped = 1 if names[0] == CATALOG else 0
    # `value.f0` and `a.value.f0` are fields of columns.
    if len(names) - skipped < 3:
        return
    select = column.find_ancestor(exp.Select)
    while select is not None:
        alias = aliases.get(id(select), {}).get(names[skipped : skipped + 2])
        if alias is not None:
            yield edit_of(parts[: skipped + 2], quoted(alias))
            left = [exp.to_identifier(alias, quoted=True), *parts[skipped + 2 :]]
            for argument in ("catalog", "db", "table"):
                column.set(argument, None)
            for argument, part in zip(("this", "table", "db", "catalog"), reversed(left), strict=False):
                column.set(argument, part)
            return
        select = select.find_ancestor(exp.Select)


def is_common_table(node: exp.Table) -> bool:
    """Return whether a table is one of a WITH around it."""
    return common_table(node) is not None


def common_table(node: exp.Table) -> exp.CTE | None:
    """Return the table of a WITH around it that a name means: an earlier one, or itself if the WITH is recursive."""
    if node.args.get("db"):
        return None
    name = node.name.casefold()
    child: exp.Expr = node
    inside: exp.CTE | None = None
    parent = node.parent
    while parent is not None:
        if isinstance(parent, exp.CTE):
            inside = parent
        with_ = parent.args.get("with_")
        if isinstance(with_, exp.With):
            for known in _visible(with_, inside if child is with_ else None):
                if known.alias.casefold() == name:
                    return known
        child, parent = parent, parent.parent
    return None


def _visible(with_: exp.With, inside: exp.CTE | None) -> Iterator[exp.CTE]:
    """Yield the common tables of a WITH that the query inside one of them may name."""
    commons: list[exp.CTE] = with_.expressions
    for common in commons:
        if common is inside:
            if with_.recursive:
                yield common
            return
        yield common


def quoting_hint(sql: str, position: Position | None, catalog: Catalog, schema: str | None) -> str | None:
    """Return the advice to quote a name of the catalog; None if none stands where the text could not be read.

    Args:
        sql: a statement that is no SQL.
        position: of the first token that could not be read.
        catalog: its databases, and the tables of the one that the statement or the session means.
        schema: the database of the session.
    """
    if position is None:
        return None
    offset = sum(map(len, sql.splitlines(keepends=True)[: position.line - 1])) + position.column - 1
    for name in _names_to_quote(sql, catalog, schema):
        for match in re.finditer(rf'(?<![\w"-]){re.escape(name)}(?![\w"-])', sql, re.IGNORECASE):
            if match.start() <= offset < match.end():
                return f"quote it: {exp.to_identifier(name, quoted=True).sql()}"
    return None


def _names_to_quote(sql: str, catalog: Catalog, schema: str | None) -> Iterator[str]:
    """Yield the names that SQL reads only in quotes: of databases, then of the tables that a statement may mean."""
    names = catalog.schema_names
    yield from (name for name in names if not _PLAIN_NAME.fullmatch(name))
    folded = sql.casefold()
    meant = [name for name in names if name.casefold() in folded][:_MOST_DATABASES]
    try:
        databases = [catalog.database(name) for name in meant]
        if not databases and schema is not None:
            databases = [catalog.database(schema)]
        elif not databases:
            databases = [one for one in [catalog.implied] if one is not None]
        for database in databases:
            yield from (name for name in database.tables if not _PLAIN_NAME.fullmatch(name))
    except (CatalogError, ReaderError):
        # The statement is wrong in any case.
        return


def used_names(tree: exp.Expr) -> frozenset[str] | None:
    """Return all names that may be names of columns; None if the statement may use unnamed columns."""
    for node in tree.find_all(exp.Star, exp.Columns, exp.Join):
        is_count = isinstance(node, exp.Star) and isinstance(node.parent, exp.Count)
        # NATURAL compares columns that it does not name.
        has_names = isinstance(node, exp.Join) and node.method != "NATURAL"
        if not is_count and not has_names:
            return None
    names = {identifier.name.casefold() for identifier in tree.find_all(exp.Identifier)}
    aliases = {table.alias.casefold() for table in tree.find_all(exp.Table)}
    # `SELECT t FROM t` takes a whole row as a struct.
    bare = (column.name.casefold() for column in tree.find_all(exp.Column) if len(column.parts) == 1)
    return None if aliases & set(bare) else frozenset(names)


def used_columns(schema: pa.Schema, names: frozenset[str] | None) -> tuple[str, ...] | None:
    """Return the columns of a schema that have one of these names, in any case; None if the names are None."""
    if names is None:
        return None
    return tuple(name for name in schema.names if name.casefold() in names)
