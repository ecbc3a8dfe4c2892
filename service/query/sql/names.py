"""Names in a statement: tables get their names in the plan, and qualified columns follow them.

    SELECT "chk-41".orders.key FROM "chk-41".orders
    SELECT "orders".key FROM "1: chk-41.orders" AS "orders"

Two tables of the same name, from two databases, get the aliases `database.table`. The tree is changed, and the same changes are
returned as edits of the text (`service.query.sql.text`).

Some constants have an older spelling: texts of Kryo were JSON text once, with quotation marks around them. A column of
`Table.unquoted` has no text that begins with a quotation mark, so `key = '"x"'` can only mean `key = 'x'`. Constants that such a
column is compared with lose their marks, in the tree and in the user's text. A column of a subquery or of a common table is such
a column if it stands for one, under any name.

A statement may have tables of constants: VALUES, SELECT of constants, and the WITHs that name them.

    WITH wanted(k) AS (VALUES ('a'), ('b')) SELECT … FROM t JOIN wanted ON t.key = wanted.k

`constants_of` returns all values that a column of such a table may have. Conditions, LIMIT and DISTINCT may drop some of them:
these are too many values, never too few.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson
import pyarrow as pa
from sqlglot import exp

from catalog import Catalog, CatalogError
from readers import ReaderError
from service.base.errors import Position
from service.query.sql.plan import DIFFERENCES, TableReference
from service.query.sql.schemas import CATALOG, INFORMATION_SCHEMA
from service.query.sql.text import DIALECT, Edit, edit_of, edited, parsed, quoted, text_constant

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


def with_databases(sql: str, names: Mapping[str, str]) -> str:
    """Return a statement with other names of databases: before tables and their columns, and in calls of `diff`.

    Args:
        sql: the statement.
        names: each name in lower case → the one in its place.

    Raises:
        QueryError: the text is no statement.
    """
    tree = parsed(sql)
    tables = [node for node in tree.find_all(exp.Table) if node.db.casefold() in names]
    known = {(node.db.casefold(), node.name.casefold()) for node in tables}
    columns = (list(column.parts) for column in tree.find_all(exp.Column))
    qualifiers = [node.args["db"] for node in tables]
    qualifiers += [
        parts[0]
        for parts in columns
        if len(parts) > 2 and (parts[0].name.casefold(), parts[1].name.casefold()) in known
    ]
    edits = [edit_of([part], quoted(names[part.name.casefold()])) for part in qualifiers]
    calls = (call for call in tree.find_all(exp.Anonymous) if call.name.casefold() == DIFFERENCES)
    edits += [
        edit_of([argument], text_constant(names[argument.name.casefold()]))
        for call in calls
        for argument in call.expressions[:2]
        if argument.name.casefold() in names
    ]
    return edited(sql, edits)


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


# A scan looks for each value: beyond this many it may as well read everything.
_MAX_VALUES = 1000

Constants = Mapping[str, Sequence[exp.Expr]]
"""Column, casefolded → all constants that it may hold."""


def constants_of(node: exp.Expr | None) -> Constants | None:
    """Return the columns of a table in FROM or of a query; None if not all are constants, or there are too many."""
    if isinstance(node, exp.Values):
        return _with_names(_of_rows(node), node)
    if isinstance(node, exp.Subquery):
        changed = any(node.args.get(name) for name in ("joins", "pivots", "laterals"))
        return None if changed else _with_names(constants_of(node.this), node)
    if isinstance(node, exp.Table):
        common = _common_table(node)
        return None if common is None else _with_names(_with_names(constants_of(common.this), common), node)
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


def _with_names(constants: Constants | None, node: exp.Expr) -> Constants | None:
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
