"""A SQL text → a `Plan`. Parsed once; what runs is what was parsed, generated anew from the tree.

| statement | plan |
|---|---|
| SELECT, WITH, VALUES, FROM, TABLE, set operations | the query |
| EXPLAIN [ANALYZE] query, DESCRIBE query | the query, to be explained or described |
| DESCRIBE table, SHOW COLUMNS FROM table | DESCRIBE SELECT * FROM table |
| SHOW TABLES [FROM database], SHOW ALL TABLES, SHOW SCHEMAS, SHOW DATABASES | a query of `information_schema` |

Everything else is refused. A table is what the catalog knows, by `table` (of the default database), `"database".table` or
`flink."database".table`, or one of `information_schema`; in the plan it has a name of its own for each place it stands at,
so nothing else that an engine may know by that name is ever meant. The dots of `value.f0` and `a.value.f0` belong to columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
from sqlglot import exp, parse, tokenize
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, TokenError, UnsupportedError
from sqlglot.tokenizer_core import Token, TokenType

from catalog import Catalog, CatalogError, Database, NoSuchTableError, Predicate, Table
from catalog.errors import near_names
from catalog.predicate import ANYTHING
from service.errors import (
    DatabaseNotFoundError,
    ForbiddenError,
    InvalidQueryError,
    LimitExceededError,
    Position,
    QueryError,
    QuerySyntaxError,
    TableNotFoundError,
    near_names_hint,
    query_error_of,
)
from service.sql.functions import ALLOWED_TABLE_FUNCTIONS, is_allowed_function, is_allowed_table_function
from service.sql.information_schema import INFORMATION_SCHEMA, information_schema_table
from service.sql.pruning import predicates_of

CATALOG = "flink"
DIALECT = "duckdb"

_QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "("})
# Where the tables that list the catalog have the name of a database.
_SCHEMA_COLUMNS = ("table_schema", "table_schem", "schema_name")
_STATEMENTS = "SELECT, EXPLAIN, SHOW and DESCRIBE are allowed"
_LINE_OF_TOKEN = re.compile(r"\s*but got <Token.*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """A table at one place of a statement.

    Attributes:
        name: what it is called there.
        database: None for `information_schema`.
        table: what is read.
        columns: those that the statement may need; None for all.
        predicate: what saves reading.
    """

    name: str
    database: Database | None
    table: Table
    columns: tuple[str, ...] | None = None
    predicate: Predicate = ANYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A statement that may run.

    Attributes:
        sql: the text as it was given.
        query: what runs, with the tables' names of `tables`.
        tables: what these names mean.
        prefix: `EXPLAIN`, `EXPLAIN ANALYZE`, `DESCRIBE` or empty.
        is_translated: whether the query was parsed from a translation of the text.
    """

    sql: str
    query: exp.Query
    tables: tuple[TableReference, ...]
    prefix: str = ""
    is_translated: bool = False

    @property
    def databases(self) -> tuple[Database, ...]:
        """The databases it reads, in the order they are named."""
        found = {table.database.name: table.database for table in self.tables if table.database}
        return tuple(found.values())

    @property
    def size_bytes(self) -> int:
        """About how many bytes it reads."""
        return sum(
            reference.table.scan(list(reference.columns or ()) or None, reference.predicate).bytes_total
            for reference in self.tables
        )

    def query_sql(self, dialect: str = DIALECT) -> str:
        """The text of the query, without the prefix."""
        return _generated(self.query, dialect)

    def position_of(self, name: str) -> Position | None:
        """Where a name first stands in the text."""
        if self.is_translated:
            return position_of_word(self.sql, name)
        for identifier in self.query.find_all(exp.Identifier):
            if identifier.name.casefold() == name.casefold() and "start" in identifier.meta:
                return Position.of(self.sql, identifier.meta["start"])
        return None


def check_length(sql: str, max_sql_bytes: int) -> None:
    """Refuse a text that is too long.

    Raises:
        LimitExceededError: it is.
    """
    length = len(sql.encode(errors="surrogatepass"))
    if length > max_sql_bytes:
        raise LimitExceededError(f"expected a statement of at most {max_sql_bytes} bytes, found {length}")


class SystemTables(Protocol):
    """Tables that a protocol has beside those of the catalog."""

    def table(self, path: tuple[str, ...], databases: Sequence[str] | None) -> Table | None:
        """The table that this path names.

        Args:
            path: the parts of its name, casefolded.
            databases: of the catalog, that its rows may be of; None for all.

        Returns:
            None if it names none of these.

        Raises:
            QueryError: it names what would be one of these, and there is no such one.
        """


def plan(
    sql: str,
    catalog: Catalog,
    *,
    max_sql_bytes: int = 1 << 20,
    schema: str | None = None,
    system_tables: SystemTables | None = None,
) -> Plan:
    """What a SQL text means.

    Args:
        sql: one statement.
        catalog: where its tables are.
        max_sql_bytes: its length at most.
        schema: the database of tables without one; the only one there is where None.
        system_tables: tables that stand before those of the catalog.

    Raises:
        QueryError: what it is, is none of the statements above; or a table is not there.
    """
    check_length(sql, max_sql_bytes)
    try:
        return _Planner(sql, catalog, schema, system_tables).plan()
    except RecursionError as error:
        raise _too_deep() from error


class _Planner:
    """One statement on its way to a plan."""

    def __init__(
        self,
        sql: str,
        catalog: Catalog,
        schema: str | None = None,
        system_tables: SystemTables | None = None,
    ) -> None:
        self.sql = sql
        self.catalog = catalog
        self.schema = schema
        self.system_tables = system_tables

    def plan(self) -> Plan:
        prefix, tokens = self._prefix(_tokens(self.sql))
        word = tokens[0].text.upper() if tokens else ""
        if word == "SHOW" and not prefix:
            return self._show(tokens[1:])
        if word in ("DESCRIBE", "DESC") and not prefix:
            return self._describe(tokens)
        return self._query(tokens, prefix)

    def _prefix(self, tokens: list[Token]) -> tuple[str, list[Token]]:
        """`EXPLAIN [ANALYZE]` and the tokens behind it."""
        if not tokens or tokens[0].text.upper() != "EXPLAIN":
            return "", tokens
        rest = _tokens(_blank(self.sql, tokens[0].end + 1))
        if rest and rest[0].text.upper() == "ANALYZE":
            return "EXPLAIN ANALYZE", _tokens(_blank(self.sql, rest[0].end + 1))
        return "EXPLAIN", rest

    def _query(self, tokens: Sequence[Token], prefix: str) -> Plan:
        self._check_statement(tokens)
        tree = self._parsed(_blank(self.sql, tokens[0].start)[: tokens[-1].end + 1])
        if not isinstance(tree, exp.Query):
            raise ForbiddenError(f"expected a query, found {tree.key.upper()}", hint=_STATEMENTS)
        return self._resolved(tree, prefix)

    def _check_statement(self, tokens: Sequence[Token]) -> None:
        if not tokens:
            raise QuerySyntaxError("expected a statement, found none", hint=_STATEMENTS)
        if tokens[0].text.upper() not in _QUERY_WORDS:
            raise self._unknown_statement(tokens[0])
        for token in tokens:
            if token.token_type is TokenType.SEMICOLON:
                raise ForbiddenError(
                    "expected one statement, found several", position=self._position(token.start)
                )

    def _unknown_statement(self, token: Token) -> QueryError:
        word = token.text.partition(" ")[0].upper()
        position = self._position(token.start)
        if word in _REFUSED_WORDS:
            return ForbiddenError(f"{word} is not allowed", hint=_STATEMENTS, position=position)
        return QuerySyntaxError(f"expected a statement, found {word!r}", hint=_STATEMENTS, position=position)

    def _parsed(self, sql: str) -> exp.Expr:
        try:
            trees = parse(sql, read=DIALECT)
        except ParseError as error:
            raise syntax_error(error) from error
        if len(trees) != 1 or trees[0] is None:
            raise ForbiddenError("expected one statement, found several")
        tree = trees[0]
        if isinstance(tree, exp.Values):
            return exp.select("*").from_(tree)
        return tree

    def _show(self, tokens: Sequence[Token]) -> Plan:
        words = [token.text.upper() for token in tokens]
        if words in (["SCHEMAS"], ["DATABASES"]):
            return self._generated("SELECT schema_name AS database_name FROM information_schema.schemata")
        if words == ["ALL", "TABLES"]:
            return self._generated(
                "SELECT table_schema AS database_name, table_name AS name FROM information_schema.tables"
            )
        if words[:1] == ["TABLES"] and (len(words) == 1 or words[1] in ("FROM", "IN")):
            return self._show_tables(tokens[2:])
        if words[:1] == ["COLUMNS"] and words[1:2] in (["FROM"], ["IN"]) and len(words) > 2:
            return self._query_of_table(tokens[2])
        raise QuerySyntaxError(
            f"expected something to show, found {' '.join(words) or 'nothing'!r}",
            hint="SHOW TABLES [FROM database], SHOW ALL TABLES, SHOW SCHEMAS, SHOW COLUMNS FROM table",
        )

    def _show_tables(self, tokens: Sequence[Token]) -> Plan:
        parts = [token.text for token in tokens if token.text != "."]
        if parts and parts[0].casefold() == CATALOG and len(parts) == 2:
            parts = parts[1:]
        if len(parts) > 1:
            raise QuerySyntaxError("expected the name of a database behind SHOW TABLES FROM")
        position = self._position(tokens[0].start) if tokens else None
        database = (
            self._database(parts[0], position) if parts else self._default("SHOW TABLES FROM a database")
        )
        name = exp.Literal.string(database.name).sql(DIALECT)
        return self._generated(
            f"SELECT table_name AS name FROM information_schema.tables WHERE table_schema = {name}"
        )

    def _describe(self, tokens: Sequence[Token]) -> Plan:
        if len(tokens) < 2:
            raise QuerySyntaxError("expected a table or a query behind DESCRIBE")
        if tokens[1].text.upper() in _QUERY_WORDS:
            return self._query(tokens[1:], "DESCRIBE")
        return self._query_of_table(tokens[1])

    def _query_of_table(self, token: Token) -> Plan:
        """DESCRIBE SELECT * FROM the table that is named from this token on."""
        start = "SELECT * FROM "
        tree = self._parsed(start + self.sql[token.start :])
        for identifier in tree.find_all(exp.Identifier):
            identifier.meta["start"] += token.start - len(start)
        table = tree.args["from_"].this if isinstance(tree, exp.Select) else None
        if not isinstance(table, exp.Table) or len(list(tree.walk())) != len(list(table.walk())) + 3:
            raise QuerySyntaxError("expected the name of a table", position=self._position(token.start))
        return self._resolved(tree, "DESCRIBE")

    def _generated(self, sql: str) -> Plan:
        """The plan of a statement of our own."""
        return replace(_Planner(sql, self.catalog, self.schema, self.system_tables).plan(), sql=self.sql)

    def _resolved(self, tree: exp.Expr, prefix: str) -> Plan:
        assert isinstance(tree, exp.Query)
        _check_nodes(tree)
        references: list[TableReference] = []
        places: dict[int, list[tuple[exp.Table, TableReference]]] = {}
        for node in list(tree.find_all(exp.Table, bfs=False)):
            if isinstance(node.this, exp.Func):
                self._check_table_function(node.this)
            elif not _is_common_table(node):
                reference = self._reference(node, len(references) + 1)
                references.append(reference)
                select = node.find_ancestor(exp.Select)
                places.setdefault(id(select), []).append((node, reference))
        self._rename(tree, places)
        predicates = _predicates(tree, places)
        names = _used_names(tree)
        return Plan(
            sql=self.sql,
            prefix=prefix,
            query=tree,
            tables=tuple(
                replace(
                    reference,
                    columns=_columns(reference.table.schema, names),
                    predicate=predicates.get(reference.name, ANYTHING),
                )
                for reference in references
            ),
        )

    def _check_table_function(self, function: exp.Func) -> None:
        name = _function_name(function)
        if not is_allowed_table_function(name):
            raise ForbiddenError(
                f"reading from {name}() is not allowed",
                hint=f"allowed are {', '.join(sorted(ALLOWED_TABLE_FUNCTIONS))}",
            )

    def _reference(self, node: exp.Table, number: int) -> TableReference:
        parts = [part.name for part in node.parts]
        position = self._position_in(node.this)
        if node.this.meta.get("start") is not None and self.sql[node.this.meta["start"]] == "'":
            raise ForbiddenError("reading files is not allowed", position=position)
        system = self._system_table(parts, node, position)
        if system is not None:
            return TableReference(name=f"{number}: {'.'.join(parts)}", database=None, table=system)
        if len(parts) > 3 or (len(parts) == 3 and parts[0].casefold() != CATALOG):
            raise TableNotFoundError(
                f"there is no table {'.'.join(parts)!r}",
                hint=f'tables are named "database".table or {CATALOG}."database".table',
                position=position,
            )
        qualifier = parts[-2] if len(parts) > 1 else None
        if qualifier is not None and qualifier.casefold() == INFORMATION_SCHEMA:
            return self._listing(parts[-1], number, position, node)
        database = self._database(qualifier, position) if qualifier else self._default(parts[-1], position)
        table = self._table(database, parts[-1], position)
        return TableReference(name=f"{number}: {database.name}.{table.name}", database=database, table=table)

    def _system_table(self, parts: Sequence[str], node: exp.Table, position: Position | None) -> Table | None:
        if self.system_tables is None:
            return None
        path = tuple(part.casefold() for part in parts)
        try:
            return self.system_tables.table(path, _asked_databases(node, self.catalog.schema_names))
        except QueryError as error:
            raise _at(error, position) from error

    def _listing(self, name: str, number: int, position: Position | None, node: exp.Table) -> TableReference:
        """A table of `information_schema`, of the databases that the SELECT around it asks for."""
        try:
            table = information_schema_table(
                self.catalog, name, _asked_databases(node, self.catalog.schema_names)
            )
        except NoSuchTableError as error:
            raise _at(query_error_of(error), position) from error
        return TableReference(name=f"{number}: {INFORMATION_SCHEMA}.{table.name}", database=None, table=table)

    def _default(self, name: str, position: Position | None = None) -> Database:
        if self.schema is not None:
            return self._database(self.schema, position)
        database = self.catalog.default
        if database is not None:
            return database
        known = self.catalog.databases
        if not known:
            raise DatabaseNotFoundError("there is no database: no savepoint was found", position=position)
        raise InvalidQueryError(
            f"{name!r} names no database, and there are {len(known)}",
            hint=f'name one, such as "{known[0]}"; SHOW SCHEMAS lists them',
            position=position,
        )

    def _database(self, name: str, position: Position | None) -> Database:
        try:
            return self.catalog.database(name)
        except CatalogError as error:
            raise _at(query_error_of(error), position) from error

    def _table(self, database: Database, name: str, position: Position | None) -> Table:
        try:
            return database.table(name)
        except NoSuchTableError as error:
            found = _at(query_error_of(error), position)
            near = error.near or near_names(name, self.catalog.schema_names)
            found.message = f"there is no table {name!r} in database {database.name!r}"
            found.hint = near_names_hint(near) or f'SHOW TABLES FROM "{database.name}" lists its tables'
            raise found from error

    def _rename(self, tree: exp.Expr, places: dict[int, list[tuple[exp.Table, TableReference]]]) -> None:
        """Call tables by their names in the plan, and columns that name a database by their table's alias."""
        aliases: dict[int, dict[tuple[str, ...], str]] = {}
        for place, tables in places.items():
            written = Counter(node.name.casefold() for node, _ in tables if not node.alias)
            for node, reference in tables:
                if node.alias:
                    _call(node, reference.name)
                    continue
                alone = written[node.name.casefold()] == 1
                own = reference.database.name if reference.database else INFORMATION_SCHEMA
                written_as = (node.db if reference.database else "") or own
                alias = node.name if alone else f"{written_as}.{node.name}"
                known = aliases.setdefault(place, {})
                known[written_as.casefold(), node.name.casefold()] = alias
                known.setdefault((own.casefold(), node.name.casefold()), alias)
                node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
                _call(node, reference.name)
        for column in tree.find_all(exp.Column):
            _requalify(column, aliases)

    def _position_in(self, node: exp.Expr) -> Position | None:
        start = node.meta.get("start")
        return None if start is None else self._position(start)

    def _position(self, offset: int) -> Position:
        return Position.of(self.sql, offset)


def syntax_error(error: ParseError) -> QuerySyntaxError:
    """What sqlglot could not read, and where."""
    known = error.errors[0] if error.errors else {}
    words = str(known.get("description") or "it is not SQL")
    text = _LINE_OF_TOKEN.sub("", words).partition(" missing for ")[0]
    near = known.get("highlight")
    position = None
    if known.get("line"):
        column = max(1, int(known["col"]) - len(str(near or " ")) + 1)
        position = Position(int(known["line"]), column)
    return QuerySyntaxError(f"{text} near {near!r}" if near else text, position=position)


def position_of_word(sql: str, word: str) -> Position | None:
    """Where a word first stands in a text, in any case."""
    found = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", sql, re.IGNORECASE)
    return Position.of(sql, found.start()) if found else None


def _too_deep() -> LimitExceededError:
    return LimitExceededError("the statement is nested too deeply")


def _tokens(sql: str) -> list[Token]:
    """The tokens, without semicolons at the end."""
    try:
        tokens = tokenize(sql, read=DIALECT)
    except TokenError as error:
        raise QuerySyntaxError("a string, a quoted name or a comment has no end") from error
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    return tokens


def _blank(sql: str, length: int) -> str:
    """`sql` with blanks for its first characters, so that positions stay."""
    return re.sub(r"[^\n]", " ", sql[:length]) + sql[length:]


def _generated(tree: exp.Expr, dialect: str) -> str:
    try:
        return tree.sql(dialect, comments=False, unsupported_level=ErrorLevel.RAISE)
    except RecursionError as error:
        raise _too_deep() from error
    except UnsupportedError as error:
        raise InvalidQueryError(f"{str(error).strip()}") from error
    except SqlglotError as error:
        raise QuerySyntaxError("it is not SQL") from error


def _check_nodes(tree: exp.Expr) -> None:
    for node in tree.walk():
        if isinstance(node, _REFUSED_NODES):
            raise ForbiddenError(f"{node.key.upper()} is not allowed in a query", hint=_STATEMENTS)
        if isinstance(node, exp.Placeholder | exp.Parameter):
            raise InvalidQueryError("parameters are not supported: write their values")
        if isinstance(node, exp.CTE) and not isinstance(node.this, exp.Query | exp.Values):
            raise ForbiddenError("expected a query in WITH", hint=_STATEMENTS)
        if isinstance(node, exp.Func) and not isinstance(node.parent, exp.Table):
            name = _function_name(node)
            if not is_allowed_function(name):
                raise ForbiddenError(f"{name}() is not allowed")


def _function_name(function: exp.Func) -> str:
    return function.name.lower() if isinstance(function, exp.Anonymous) else function.sql_name().lower()


def _is_common_table(node: exp.Table) -> bool:
    """Whether a table is one of a WITH around it: one before it, or itself where that is recursive."""
    if node.args.get("db"):
        return False
    name = node.name.casefold()
    child: exp.Expr = node
    common: exp.CTE | None = None
    parent = node.parent
    while parent is not None:
        if isinstance(parent, exp.CTE):
            common = parent
        with_ = parent.args.get("with_")
        if isinstance(with_, exp.With) and any(
            known.alias.casefold() == name for known in _visible(with_, common if child is with_ else None)
        ):
            return True
        child, parent = parent, parent.parent
    return False


def _visible(with_: exp.With, inside: exp.CTE | None) -> Iterator[exp.CTE]:
    commons: list[exp.CTE] = with_.expressions
    for common in commons:
        if common is inside:
            if with_.recursive:
                yield common
            return
        yield common


def _call(node: exp.Table, name: str) -> None:
    node.set("this", exp.to_identifier(name, quoted=True))
    node.set("db", None)
    node.set("catalog", None)


def _requalify(column: exp.Column, aliases: dict[int, dict[tuple[str, ...], str]]) -> None:
    """`"database".table.column` → `alias.column`, for tables without an alias of their own."""
    parts = list(column.parts)
    names = tuple(part.name.casefold() for part in parts)
    skipped = 1 if names[0] == CATALOG else 0
    if len(names) - skipped < 3:
        return
    select = column.find_ancestor(exp.Select)
    while select is not None:
        alias = aliases.get(id(select), {}).get(names[skipped : skipped + 2])
        if alias is not None:
            left = [exp.to_identifier(alias, quoted=True), *parts[skipped + 2 :]]
            for argument in ("catalog", "db", "table"):
                column.set(argument, None)
            for argument, part in zip(("this", "table", "db", "catalog"), reversed(left), strict=False):
                column.set(argument, part)
            return
        select = select.find_ancestor(exp.Select)


def _predicates(
    tree: exp.Expr, places: dict[int, list[tuple[exp.Table, TableReference]]]
) -> dict[str, Predicate]:
    found: dict[str, Predicate] = {}
    for select in tree.find_all(exp.Select):
        direct = {
            node.alias.casefold(): reference
            for node, reference in places.get(id(select), [])
            if _is_plain(node)
        }
        schemas = {alias: reference.table.schema for alias, reference in direct.items()}
        for alias, predicate in predicates_of(select, schemas).items():
            found[direct[alias].name] = predicate
    return found


def _is_plain(node: exp.Table) -> bool:
    """Whether a table stands in FROM or JOIN as it is: not sampled, pivoted, renamed or in parentheses."""
    alias = node.args.get("alias")
    changed = any(node.args.get(name) for name in ("joins", "pivots", "sample", "laterals"))
    direct = isinstance(node.parent, exp.From | exp.Join) and isinstance(node.parent.parent, exp.Select)
    return direct and not changed and not (alias and alias.args.get("columns"))


def _asked_databases(node: exp.Table, databases: Sequence[str]) -> tuple[str, ...] | None:
    """The databases that a query of `information_schema` and the like asks for; None for all."""
    select = node.find_ancestor(exp.Select)
    if select is None or not _is_plain(node):
        return None
    alias = node.alias_or_name.casefold()
    schema = pa.schema([(name, pa.string()) for name in _SCHEMA_COLUMNS])
    predicate = predicates_of(select, {alias: schema}).get(alias, ANYTHING)
    asked = [found for name in _SCHEMA_COLUMNS if (found := predicate.of(name)) is not None]
    if asked:
        return asked[0]
    patterns = _schema_patterns(select) if len(list(select.find_all(exp.Table))) == 1 else []
    if not patterns:
        return None
    return tuple(name for name in databases if all(pattern.fullmatch(name) for pattern in patterns))


def _schema_patterns(select: exp.Select) -> list[re.Pattern[str]]:
    """What `table_schem LIKE '…'` among the conditions of a SELECT lets through, as JDBC's drivers ask."""
    where = select.args.get("where")
    found = []
    for condition in where.this.flatten() if where and isinstance(where.this, exp.And) else ():
        like, escape = condition, ""
        if isinstance(condition, exp.Escape):
            like, escape = condition.this, condition.expression.name
        if type(like) is not exp.Like or not isinstance(like.this, exp.Column):
            continue
        if like.this.name.casefold() in _SCHEMA_COLUMNS and like.expression.is_string:
            found.append(like_pattern(like.expression.this, escape))
    return found


def like_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
    """A pattern of LIKE as a regular expression."""
    parts = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            parts.append(re.escape(next(characters, "")))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


def _used_names(tree: exp.Expr) -> frozenset[str] | None:
    """All names that may be of columns; None if columns are asked for without being named."""
    for node in tree.find_all(exp.Star, exp.Columns, exp.Join):
        counts = isinstance(node, exp.Star) and isinstance(node.parent, exp.Count)
        named = isinstance(node, exp.Join) and node.method != "NATURAL"
        if not counts and not named:
            return None
    names = {identifier.name.casefold() for identifier in tree.find_all(exp.Identifier)}
    aliases = {table.alias.casefold() for table in tree.find_all(exp.Table)}
    rows = (column.name.casefold() for column in tree.find_all(exp.Column) if len(column.parts) == 1)
    return None if aliases & set(rows) else frozenset(names)


def _columns(schema: pa.Schema, names: frozenset[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    return tuple(name for name in schema.names if name.casefold() in names)


def _at(error: QueryError, position: Position | None) -> QueryError:
    error.position = error.position or position
    return error


_REFUSED_NODES = (
    exp.Attach,
    exp.Command,
    exp.Copy,
    exp.Create,
    exp.Delete,
    exp.Describe,
    exp.Detach,
    exp.Drop,
    exp.Insert,
    exp.Into,
    exp.Lock,
    exp.Merge,
    exp.Pragma,
    exp.Set,
    exp.Show,
    exp.Summarize,
    exp.Update,
    exp.Use,
)
_REFUSED_WORDS = frozenset(
    {
        "ADD",
        "ALTER",
        "ANALYZE",
        "ATTACH",
        "BEGIN",
        "CACHE",
        "CALL",
        "CHECKPOINT",
        "COMMENT",
        "COMMIT",
        "COPY",
        "CREATE",
        "DEALLOCATE",
        "DELETE",
        "DETACH",
        "DROP",
        "EXECUTE",
        "EXPORT",
        "FORCE",
        "GRANT",
        "IMPORT",
        "INSERT",
        "INSTALL",
        "KILL",
        "LOAD",
        "MERGE",
        "PIVOT",
        "PRAGMA",
        "PREPARE",
        "REFRESH",
        "RENAME",
        "REPLACE",
        "RESET",
        "REVOKE",
        "ROLLBACK",
        "SET",
        "START",
        "SUMMARIZE",
        "TRUNCATE",
        "UNPIVOT",
        "UPDATE",
        "UPSERT",
        "USE",
        "VACUUM",
    }
)
