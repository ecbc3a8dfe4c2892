"""Which functions a query may call.

Scalar and aggregate functions compute, so all are allowed except a list: functions that read settings, secrets, logs or
other SQL, change the session, or only wait. Table functions read files and the inside of the engine, so none is allowed except
a list. The engine reports unknown functions itself, with near names. One more table function never reaches an engine: `diff` is
resolved as a table (`service.query.sql.tablefunctions`).

What a statement may contain: queries only. Functions have a list of their own in `functions.py`.

The check walks sqlglot's tree. DuckDB runs the user's text, so `service.query.engines.duckdb.guard` checks DuckDB's own tree of it, too.
"""

from __future__ import annotations

from sqlglot import exp

from service.base.errors import ForbiddenError, InvalidQueryError, Position, QueryError, QuerySyntaxError

DIFFERENCES = "diff"
ALLOWED_TABLE_FUNCTIONS = frozenset({"generate_series", "json_each", "json_tree", "range", "unnest"})

# Names of DuckDB and of Spark.
_DENIED = frozenset({
    "add_parquet_key", "checkpoint", "copy_database", "current_setting", "currval", "force_checkpoint",
    "getenv", "getvariable", "import_database", "java_method", "json_execute_serialized_sql",
    "json_serialize_plan", "nextval", "parse_duckdb_log_message", "pg_sleep", "query", "query_table",
    "reflect", "set_config", "setseed", "setval", "sleep_ms", "sniff_csv", "try_reflect", "which_secret",
    "write_log",
})  # fmt: skip
_DENIED_PREFIXES = ("__internal_", "duckdb_", "pragma_", "read_", "test_")


def is_allowed_function(name: str) -> bool:
    """Return whether a query may call a scalar or aggregate function."""
    name = name.lower()
    return name not in _DENIED and not name.startswith(_DENIED_PREFIXES)


def is_allowed_table_function(name: str) -> bool:
    """Return whether a query may read from a table function."""
    return name.lower() in ALLOWED_TABLE_FUNCTIONS


QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "("})
ALLOWED_STATEMENTS = "SELECT, EXPLAIN, SHOW, DESCRIBE and SUMMARIZE are allowed"
# Statements that a script may hold, by the command that runs it.
_WRITES = "to change states in a new savepoint, use: savepointdb write SOURCE --to TARGET 'SCRIPT'"
_CREATES = "to make a new savepoint, use: savepointdb create TARGET 'SCRIPT'"
_EXPORTS = "to save rows in a file, use --output FILE or savepointdb export"
_COMMANDS = {
    **dict.fromkeys(("ALTER", "CALL", "DELETE", "DROP", "INSERT", "MERGE", "UPDATE"), _WRITES),
    "CREATE": _CREATES,
    **dict.fromkeys(("COPY", "EXPORT"), _EXPORTS),
}


def check_tree(tree: exp.Expr) -> None:
    """Refuse everything but queries, parameters, and functions that compute.

    Raises:
        ForbiddenError: the tree has a statement or a function that is not allowed.
        InvalidQueryError: the tree has a parameter.
    """
    for node in tree.walk():
        if isinstance(node, _REFUSED_NODES):
            word = node.key.upper()
            raise ForbiddenError(f"{word} is not allowed in a query", hint=hint_for(word))
        if isinstance(node, exp.Placeholder | exp.Parameter):
            raise InvalidQueryError("parameters are not supported: write their values")
        # DuckDB lets WITH hold INSERT and the like.
        if isinstance(node, exp.CTE) and not isinstance(node.this, exp.Query | exp.Values):
            raise ForbiddenError("expected a query in WITH", hint=hint_for(node.this.key.upper()))
        # A function that is a table is checked where tables are resolved.
        if isinstance(node, exp.Func) and not isinstance(node.parent, exp.Table):
            name = _function_name(node)
            if not is_allowed_function(name):
                raise ForbiddenError(f"{name}() is not allowed")


def check_table_function(function: exp.Func) -> None:
    """Refuse a function in FROM that reaches beyond the catalog.

    Raises:
        ForbiddenError: the function is not allowed.
    """
    name = _function_name(function)
    if not is_allowed_table_function(name):
        raise ForbiddenError(
            f"reading from {name}() is not allowed",
            hint=f"allowed are {', '.join(sorted({*ALLOWED_TABLE_FUNCTIONS, DIFFERENCES}))}",
        )


def hint_for(word: str) -> str:
    """Return what to do in place of a statement that is not a query, by its first word in capitals."""
    command = _COMMANDS.get(word)
    return ALLOWED_STATEMENTS if command is None else f"{ALLOWED_STATEMENTS}; {command}"


def not_a_query(tree: exp.Expr) -> ForbiddenError:
    """Return the error of a statement that was parsed, and is not a query."""
    word = tree.name.upper() if isinstance(tree, exp.Command) else tree.key.upper()
    return ForbiddenError(f"expected a query, found {word}", hint=hint_for(word))


def refusal_of(first: str, position: Position) -> QueryError:
    """Return the error of a statement that is not a query.

    Args:
        first: its first token, which may hold further words.
        position: of the token.
    """
    word = first.partition(" ")[0].upper()
    if word in _REFUSED_WORDS:
        return ForbiddenError(f"{word} is not allowed", hint=hint_for(word), position=position)
    return QuerySyntaxError(
        f"expected a statement, found {word!r}", hint=ALLOWED_STATEMENTS, position=position
    )


def _function_name(function: exp.Func) -> str:
    return function.name.lower() if isinstance(function, exp.Anonymous) else function.sql_name().lower()


_REFUSED_NODES = (
    exp.Attach, exp.Command, exp.Copy, exp.Create, exp.Delete, exp.Describe, exp.Detach, exp.Drop,
    exp.Insert, exp.Into, exp.Lock, exp.Merge, exp.Pragma, exp.Set, exp.Show, exp.Summarize, exp.Update,
    exp.Use,
)  # fmt: skip
# Statements of DuckDB, Spark or Trino: they get FORBIDDEN, other words SYNTAX_ERROR.
_REFUSED_WORDS = frozenset({
    "ADD", "ALTER", "ANALYZE", "ATTACH", "BEGIN", "CACHE", "CALL", "CHECKPOINT", "COMMENT", "COMMIT", "COPY",
    "CREATE", "DEALLOCATE", "DELETE", "DETACH", "DROP", "EXECUTE", "EXPORT", "FORCE", "GRANT", "IMPORT",
    "INSERT", "INSTALL", "KILL", "LOAD", "MERGE", "PIVOT", "PRAGMA", "PREPARE", "REFRESH", "RENAME",
    "REPLACE", "RESET", "REVOKE", "ROLLBACK", "SET", "START", "TRUNCATE", "UNPIVOT", "UPDATE", "UPSERT",
    "USE", "VACUUM",
})  # fmt: skip
