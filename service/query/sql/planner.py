"""A SQL text → a `Plan`. DuckDB runs the text itself, with other names for its tables.

| statement | plan |
|---|---|
| SELECT, WITH, VALUES, FROM, TABLE, set operations | the query |
| EXPLAIN [ANALYZE] query, DESCRIBE query, SUMMARIZE query | the query, to be explained, described or summarized |
| DESCRIBE table, SHOW COLUMNS FROM table, SUMMARIZE table | DESCRIBE or SUMMARIZE SELECT * FROM table |
| SHOW TABLES [FROM database] [LIKE pattern], SHOW ALL TABLES, SHOW SCHEMAS or DATABASES [LIKE pattern] | a query of `information_schema` |
| DESCRIBE | the tables of the database, with their comments |
| SHOW CREATE TABLE table, DESCRIBE DATABASE or SCHEMA database | a query of constants |

Everything else is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from catalog import Catalog
from service.base.errors import ForbiddenError, Position, QuerySyntaxError
from service.query.sql.allowlist import ALLOWED_STATEMENTS, QUERY_WORDS, not_a_query, refusal_of
from service.query.sql.literals import text_constant
from service.query.sql.parser import blanked, check_length, parsed, tokens_of, too_deep
from service.query.sql.plan import Plan
from service.query.sql.remembered import RememberedQueries, RememberedQuery
from service.query.sql.resolver import Resolver, SystemTables
from service.query.sql.schemas.named import CATALOG, COLUMNS, Owner, definition_of, facts_of


def plan(
    sql: str,
    catalog: Catalog,
    *,
    max_sql_bytes: int = 1 << 20,
    schema: str | None = None,
    system_tables: SystemTables | None = None,
    compat: str = "",
) -> Plan:
    """Plan one statement in DuckDB's dialect.

    Args:
        sql: the statement.
        catalog: its databases.
        max_sql_bytes: length of the longest statement.
        schema: the database of tables without one; the only or the newest database if None.
        system_tables: tables that hide those of the catalog.
        compat: `flink` if tables may have the names of Flink's State Catalog, too.

    Raises:
        QueryError: the statement is none of those above, is not allowed, or names a table that does not exist.
    """
    check_length(sql, max_sql_bytes)
    try:
        return _Planner(sql, catalog, schema, system_tables, compat).plan()
    except RecursionError as error:
        raise too_deep() from error


class _Planner:
    """Distinguishes the statements by their first tokens."""

    def __init__(
        self, sql: str, catalog: Catalog, schema: str | None, system_tables: SystemTables | None, compat: str
    ) -> None:
        self._sql = sql
        self._compat = compat
        self._context = catalog, schema, system_tables, compat
        self._resolver = Resolver(sql, *self._context)

    def plan(self) -> Plan:
        known = _REMEMBERED.get(self._sql, self._compat)
        found = None if known is None else Resolver(self._sql, *self._context).again(known)
        return found or self._planned()

    def _planned(self) -> Plan:
        prefix, tokens = self._prefix(tokens_of(self._sql))
        word = tokens[0].text.upper() if tokens else ""
        if word == "SHOW" and not prefix:
            return self._show(tokens[1:])
        if word in _ABOUT and not prefix:
            return self._about(tokens, _ABOUT[word])
        return self._query(tokens, prefix)

    def _prefix(self, tokens: list[Token]) -> tuple[str, list[Token]]:
        """Return `EXPLAIN [ANALYZE]` and the tokens after it."""
        if not tokens or tokens[0].text.upper() != "EXPLAIN":
            return "", tokens
        # sqlglot takes all that follows EXPLAIN for one token, so the rest is read without it.
        rest = tokens_of(blanked(self._sql, tokens[0].end + 1))
        if rest and rest[0].text.upper() == "ANALYZE":
            return "EXPLAIN ANALYZE", tokens_of(blanked(self._sql, rest[0].end + 1))
        return "EXPLAIN", rest

    def _query(self, tokens: Sequence[Token], prefix: str) -> Plan:
        self._check_statement(tokens)
        text = blanked(self._sql, tokens[0].start)[: tokens[-1].end + 1]
        tree = parsed(text)
        if not isinstance(tree, exp.Query):
            raise not_a_query(tree)
        planned = self._resolver.plan(tree, prefix, text)
        remembered = RememberedQuery.of(planned, self._resolver.named)
        if remembered is not None:
            _REMEMBERED.put(self._sql, self._compat, remembered)
        return planned

    def _check_statement(self, tokens: Sequence[Token]) -> None:
        if not tokens:
            raise QuerySyntaxError("expected a statement, found none", hint=ALLOWED_STATEMENTS)
        if tokens[0].text.upper() not in QUERY_WORDS:
            raise refusal_of(tokens[0].text, self._position(tokens[0]))
        for token in tokens:
            if token.token_type is TokenType.SEMICOLON:
                raise ForbiddenError("expected one statement, found several", position=self._position(token))

    def _show(self, tokens: Sequence[Token]) -> Plan:
        words = [token.text.upper() for token in tokens]
        if words[:1] in (["SCHEMAS"], ["DATABASES"]):
            return self._show_schemas(tokens[1:])
        if words == ["ALL", "TABLES"]:
            return self._own(
                "SELECT table_schema AS database_name, table_name AS name FROM information_schema.tables"
            )
        if words[:1] == ["TABLES"] and (len(words) == 1 or words[1] in ("FROM", "IN", "LIKE", "ILIKE")):
            return self._show_tables(tokens[1:])
        if words[:1] == ["COLUMNS"] and words[1:2] in (["FROM"], ["IN"]) and len(words) > 2:
            return self._about_table(tokens[2], "DESCRIBE")
        if words[:2] == ["CREATE", "TABLE"] and len(words) > 2:
            return self._show_create(tokens[2])
        raise QuerySyntaxError(
            f"expected something to show, found {' '.join(words) or 'nothing'!r}",
            hint="SHOW TABLES [FROM database] [LIKE pattern], SHOW ALL TABLES, SHOW SCHEMAS, SHOW COLUMNS FROM table, "
            "SHOW CREATE TABLE table",
        )

    def _show_schemas(self, tokens: Sequence[Token]) -> Plan:
        like, rest = self._like("database_name", tokens)
        if rest:
            raise QuerySyntaxError("expected nothing or LIKE and a pattern", position=self._position(rest[0]))
        listed = "SELECT schema_name AS database_name FROM information_schema.schemata"
        return self._own(self._listed(listed, "database_name", self._resolver.upstream_databases, like))

    def _listed(self, listed: str, column: str, more: Sequence[str], like: str) -> str:
        """Return the query of names: of those that a query lists, and of more, if they are like a pattern."""
        if more:
            values = ", ".join(f"({text_constant(name)})" for name in more)
            listed += f" UNION ALL SELECT * FROM (VALUES {values}) AS more ({column})"
        return f"SELECT {column} FROM ({listed}) WHERE {like or 'TRUE'}"

    def _like(self, column: str, tokens: Sequence[Token]) -> tuple[str, Sequence[Token]]:
        """Return the condition of `LIKE pattern` at the end, or an empty text, and the tokens before it.

        Names are compared without their case, as they are everywhere in the catalog.
        """
        words = [token.text.upper() for token in tokens if token.token_type in _LIKE]
        if not words:
            return "", tokens
        if len(tokens) < 2 or tokens[-2].token_type not in _LIKE or tokens[-1].token_type != TokenType.STRING:
            raise QuerySyntaxError(
                "expected a pattern in single quotes behind LIKE", position=self._position(tokens[-1])
            )
        pattern = text_constant(tokens[-1].text)
        return f"{column} ILIKE {pattern}", tokens[:-2]

    def _show_tables(self, tokens: Sequence[Token]) -> Plan:
        like, named = self._like("name", tokens)
        if named and len(named) < 2:
            raise QuerySyntaxError("expected the name of a database", position=self._position(named[0]))
        database = (
            self._database_called(named[1:])
            if named
            else self._resolver.default_database("SHOW TABLES FROM a database")
        )
        # A list passes over what cannot be read, and its tables alone would be an empty list.
        database.listed()
        listed = "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = "
        listed += text_constant(database.name)
        return self._own(self._listed(listed, "name", self._resolver.upstream_tables(database), like))

    def _database_called(self, tokens: Sequence[Token]) -> Owner:
        """Return the database that the tokens name, with its catalog or without."""
        parts = [token.text for token in tokens if token.text != "."]
        if parts[0].casefold() == CATALOG and len(parts) == 2:
            parts = parts[1:]
        if len(parts) > 1:
            raise QuerySyntaxError("expected the name of a database", position=self._position(tokens[0]))
        return self._resolver.database(parts[0], self._position(tokens[0]))

    def _describe_tables(self) -> Plan:
        database = self._resolver.default_database("DESCRIBE a table")
        database.listed()  # as in `_show_tables`
        return self._own(
            "SELECT table_name AS name, table_comment AS comment FROM information_schema.tables "
            f"WHERE table_schema = {text_constant(database.name)}"
        )

    def _describe_database(self, tokens: Sequence[Token]) -> Plan:
        found = self._database_called(tokens)
        rows = ", ".join(
            f"({text_constant(name)}, {'NULL' if value is None else text_constant(value)})"
            for name, value in facts_of(found)
        )
        return self._own(f"SELECT * FROM (VALUES {rows}) AS facts({', '.join(COLUMNS)})")

    def _show_create(self, token: Token) -> Plan:
        (reference,) = self._about_table(token, "").tables
        database = None if reference.database is None else reference.database.name
        definition = text_constant(definition_of(reference.table, database))
        return replace(self._own(f"SELECT {definition} AS sql"), is_definition=True)

    def _about(self, tokens: Sequence[Token], prefix: str) -> Plan:
        """Plan DESCRIBE or SUMMARIZE of a query or a table."""
        if len(tokens) < 2:
            if prefix == "DESCRIBE":
                return self._describe_tables()
            raise QuerySyntaxError(f"expected a table or a query behind {prefix}")
        if prefix == "DESCRIBE" and len(tokens) > 2 and tokens[1].text.upper() in ("DATABASE", "SCHEMA"):
            return self._describe_database(tokens[2:])
        if tokens[1].text.upper() in QUERY_WORDS:
            return self._query(tokens[1:], prefix)
        return self._about_table(tokens[1], prefix)

    def _about_table(self, token: Token, prefix: str) -> Plan:
        """Plan SELECT * FROM the table that is named from this token on, with a prefix."""
        start = "SELECT * FROM "
        try:
            tree = parsed(start + self._sql[token.start :])
        except QuerySyntaxError as error:
            if error.position and error.position.line == 1:
                shift = self._position(token).column - 1 - len(start)
                error.position = Position(self._position(token).line, error.position.column + shift)
            raise
        # Positions in errors are those of the statement as it was given.
        for node in tree.walk():
            for end in {"start", "end"} & node.meta.keys():
                node.meta[end] += token.start - len(start)
        table = tree.args["from_"].this if isinstance(tree, exp.Select) else None
        # Select, Star and From are all that may stand around the table.
        if not isinstance(table, exp.Table) or len(list(tree.walk())) != len(list(table.walk())) + 3:
            raise QuerySyntaxError("expected the name of a table", position=self._position(token))
        assert isinstance(tree, exp.Select)
        return self._resolver.plan(tree, prefix, None)

    def _own(self, sql: str) -> Plan:
        """Plan a statement in place of the given one."""
        own, resolver = _Planner(sql, *self._context).plan(), self._resolver
        return replace(own, sql=self._sql, assumed=resolver.assumed, skipped=resolver.skipped)

    def _position(self, token: Token) -> Position:
        return Position.of(self._sql, token.start)


# A word before a table or a query → what it asks.
_ABOUT = {"DESCRIBE": "DESCRIBE", "DESC": "DESCRIBE", "SUMMARIZE": "SUMMARIZE"}
_LIKE = (TokenType.LIKE, TokenType.ILIKE)
_REMEMBERED = RememberedQueries()
