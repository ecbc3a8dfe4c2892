"""A SQL text → a `Plan`. DuckDB runs the text itself, with other names for its tables.

| statement | plan |
|---|---|
| SELECT, WITH, VALUES, FROM, TABLE, set operations | the query |
| EXPLAIN [ANALYZE] query, DESCRIBE query, SUMMARIZE query | the query, to be explained, described or summarized |
| DESCRIBE table, SHOW COLUMNS FROM table, SUMMARIZE table | DESCRIBE or SUMMARIZE SELECT * FROM table |
| SHOW TABLES [FROM database] [LIKE pattern], SHOW ALL TABLES, SHOW SCHEMAS or DATABASES [LIKE pattern] | a query of `information_schema` |
| DESCRIBE | the tables of the database, with their comments |
| SHOW CREATE TABLE table, DESCRIBE DATABASE or SCHEMA database | a query of constants |

Everything else is refused. A statement in another dialect is translated first, and checked like any other after that.

Statements about the session may stand before a query of Flink's SQL, in one text with it:

| statement | here |
|---|---|
| `USE "database"`, `USE state."database"` | the database of the tables that name none, in the query behind it |
| `USE CATALOG state`, `USE CATALOG flink` | nothing: there is one catalog |
| `LOAD MODULE state` | nothing: `savepoint_metadata` is always there |
| `CREATE CATALOG state WITH (…)`, `SET 'key' = 'value'` | nothing, and a warning says so: the roots and limits are those of the service |

No text has a session that lasts: the next one begins anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from catalog import Catalog
from service.base.errors import (
    ForbiddenError,
    InvalidQueryError,
    InvalidRequestError,
    Position,
    QueryError,
    QuerySyntaxError,
)
from service.query.sql import schemas
from service.query.sql.names import quoting_hint
from service.query.sql.plan import ALLOWED_STATEMENTS, QUERY_WORDS, Plan, not_a_query, refusal_of
from service.query.sql.resolver import RememberedQueries, RememberedQuery, Resolver, SystemTables
from service.query.sql.short import short_plan
from service.query.sql.text import (
    DIALECT,
    blanked,
    check_length,
    parsed,
    position_of_word,
    text_constant,
    tokens_of,
    too_deep,
    with_double_quotes,
    with_values,
)


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

    def _database_called(self, tokens: Sequence[Token]) -> schemas.Owner:
        """Return the database that the tokens name, with its catalog or without."""
        parts = [token.text for token in tokens if token.text != "."]
        if parts[0].casefold() == schemas.CATALOG and len(parts) == 2:
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
            for name, value in schemas.facts_of(found)
        )
        return self._own(f"SELECT * FROM (VALUES {rows}) AS facts({', '.join(schemas.COLUMNS)})")

    def _show_create(self, token: Token) -> Plan:
        (reference,) = self._about_table(token, "").tables
        database = None if reference.database is None else reference.database.name
        definition = text_constant(schemas.definition_of(reference.table, database))
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


_CATALOGS = (schemas.CATALOG, schemas.STATE_CATALOG)
_DONE = "SELECT 'OK' AS result"
_MODULES = ("state", "core")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkScript:
    """A text of Flink's SQL.

    Attributes:
        query: its last statement, at its place in the text.
        database: that a `USE` before it names; None if there is none.
        notes: what the text asked for and has no effect, in sentences for the client.
    """

    query: str
    database: str | None = None
    notes: tuple[str, ...] = ()


def script_of(sql: str) -> FlinkScript:
    """Return the query of a text, and what the statements before it say.

    Raises:
        QueryError: a statement before the query is none of those above.
    """
    statements = _statements(sql)
    database: str | None = None
    notes: list[str] = []
    for number, tokens in enumerate(statements):
        word = tokens[0].text.upper()
        if word == "USE":
            database = _used(sql, tokens) or database
        elif word == "LOAD":
            _check_module(sql, tokens)
        elif word == "SET" or _words(tokens[:2]) == ["CREATE", "CATALOG"]:
            what = "SET" if word == "SET" else "CREATE CATALOG"
            notes.append(f"{what} has no effect here: the service has its own settings and roots")
        elif number < len(statements) - 1:
            position = Position.of(sql, statements[number + 1][0].start)
            raise ForbiddenError("expected one query, found a statement behind it", position=position)
        else:
            start, end = tokens[0].start, tokens[-1].end + 1
            return FlinkScript(query=blanked(sql, start)[:end], database=database, notes=tuple(notes))
    if not statements:
        raise QuerySyntaxError("expected a statement, found none")
    if database is not None:
        notes.append("USE holds for a query behind it in the same text, and for no other")
    return FlinkScript(query=_DONE, database=database, notes=tuple(notes))


def _statements(sql: str) -> list[list[Token]]:
    """Return the tokens of each statement."""
    found: list[list[Token]] = [[]]
    for token in tokens_of(sql, has_commands=False):
        if token.token_type is TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    return [tokens for tokens in found if tokens]


def _words(tokens: Sequence[Token]) -> list[str]:
    return [token.text.upper() for token in tokens]


def _used(sql: str, tokens: Sequence[Token]) -> str | None:
    """Return the database of a USE; None for USE CATALOG and USE MODULES."""
    words = _words(tokens)
    if words[1:2] == ["MODULES"]:
        return None
    names = [token.text for token in tokens[1:] if token.text != "."]
    if words[1:2] == ["CATALOG"]:
        if len(tokens) != 3 or names[1].casefold() not in _CATALOGS:
            raise InvalidQueryError(
                f"expected the catalog {' or '.join(_CATALOGS)}, found {' '.join(names[1:]) or 'none'}",
                position=Position.of(sql, tokens[-1].start),
            )
        return None
    if len(names) == 2 and names[0].casefold() in _CATALOGS:
        names = names[1:]
    if len(names) != 1:
        raise QuerySyntaxError(
            "expected the name of one database behind USE",
            hint="quote it: USE `prod/chk-41`",
            position=Position.of(sql, tokens[0].start),
        )
    return names[0]


def _check_module(sql: str, tokens: Sequence[Token]) -> None:
    words = _words(tokens)
    if words[1:2] != ["MODULE"] or len(words) < 3 or tokens[2].text.casefold() not in _MODULES:
        raise ForbiddenError(
            f"expected LOAD MODULE {_MODULES[0]}, found {' '.join(words)}",
            position=Position.of(sql, tokens[0].start),
        )


TRINO = "trino"
_FIRST_WORDS = re.compile(r"\s*(\w+)\s*(\w*)")
_ABOUT_TABLES = ("SHOW", "DESCRIBE", "DESC")
_WORD_AT = re.compile(r'"((?:[^"]|"")*)"|' + r"'((?:[^']|'')*)'|\w+")


def planned(
    sql: str,
    catalog: Catalog,
    *,
    dialect: str,
    max_sql_bytes: int,
    schema: str | None = None,
    system_tables: SystemTables | None = None,
    constants: Mapping[str, str],
    parameters: Sequence[Any] | Mapping[str, Any] = (),
    compat: str = "",
    may_be_short: bool = False,
) -> Plan:
    """Plan one statement in any dialect.

    Args:
        sql: the statement.
        catalog: its databases.
        dialect: `duckdb`, `trino` or `flink`.
        max_sql_bytes: length of the longest statement.
        schema: the database of tables without one; the only or the newest database if None.
        system_tables: tables that hide those of the catalog.
        constants: values of `current_user` and the like, for dialects that have them.
        parameters: values for its `?`, or for its `$name` by name.
        compat: `flink` if tables may have the names of Flink's State Catalog, too.
        may_be_short: whether a scan may answer it (`service.query.sql.short`).

    Raises:
        QueryError: the statement means nothing or is not allowed; the error's position is in `sql`, not in the translation.
    """
    if dialect not in _TRANSLATIONS:
        known = " or ".join(repr(name) for name in _TRANSLATIONS)
        raise InvalidRequestError(f"expected the dialect {known}, found {dialect!r}")
    if compat not in ("", schemas.FLINK):
        raise InvalidRequestError(f"expected the compat {schemas.FLINK!r} or none, found {compat!r}")
    check_length(sql, max_sql_bytes)
    sql = with_double_quotes(sql)
    notes: tuple[str, ...] = ()
    if dialect == schemas.FLINK:
        script = script_of(sql)
        sql, schema, notes = script.query, script.database or schema, script.notes
    try:
        bound = with_values(sql, parameters) if parameters else sql
        translation = _TRANSLATIONS[dialect](bound, constants)
    except QuerySyntaxError as error:
        error.hint = error.hint or quoting_hint(sql, error.position, catalog, schema)
        raise
    try:

        def in_full() -> Plan:
            # The default limit for the translation: it may be longer than the text.
            return plan(translation, catalog, schema=schema, system_tables=system_tables, compat=compat)

        short = (
            short_plan(translation, catalog, schema, system_tables, in_full)
            if may_be_short and not compat
            else None
        )
        result = short or in_full()
    except QueryError as error:
        if translation != sql:
            _relocate(error, translation, sql)
        elif isinstance(error, QuerySyntaxError):
            error.hint = error.hint or quoting_hint(sql, error.position, catalog, schema)
        raise
    if translation != sql:
        result = replace(result, sql=sql, is_translated=True)
    return replace(result, notes=notes) if notes else result


def _from_trino(sql: str, constants: Mapping[str, str]) -> str:
    words = _FIRST_WORDS.match(sql)
    first, second = (words[1].upper(), (words[2] or "").upper()) if words else ("", "")
    if first == "SUMMARIZE" or (first in _ABOUT_TABLES and second in QUERY_WORDS):
        raise ForbiddenError(
            f"{first} of a query is not Trino's" if second in QUERY_WORDS else f"{first} is not Trino's",
            hint="the dialect duckdb has it",
        )
    # Names of tables are the same in both dialects.
    if first in _ABOUT_TABLES:
        return sql
    from service.query.sql.translation.trino import translated  # heavy, and only clients of Trino need it

    return translated(sql, constants)


def _from_flink(sql: str, _constants: Mapping[str, str]) -> str:
    from service.query.sql.translation.flink import (
        translated,  # heavy, and only queries of Flink's dialect need it
    )

    return translated(sql)


def _relocate(error: QueryError, translated: str, sql: str) -> None:
    """Move the position of an error to the same word in the text as it was given."""
    position, error.position = error.position, None
    if position is None:
        return
    line = translated.split("\n")[position.line - 1]
    word = _WORD_AT.match(line, position.column - 1)
    if word is not None:
        error.position = position_of_word(sql, word[1] or word[2] or word[0])


_TRANSLATIONS: dict[str, Callable[[str, Mapping[str, str]], str]] = {
    DIALECT: lambda sql, _: sql,
    TRINO: _from_trino,
    schemas.FLINK: _from_flink,
}
