"""Which functions a query may call.

Scalar and aggregate functions compute, so all are allowed except a list: functions that read settings, secrets, logs or
other SQL, change the session, or only wait. Table functions read files and the inside of the engine, so none is allowed except
a list. The engine reports unknown functions itself, with near names. One more table function never reaches an engine: `diff` is
resolved as a table (`service.query.sql.tablefunctions.differences`).
"""

from __future__ import annotations

DIFFERENCES = "diff"
ALLOWED_TABLE_FUNCTIONS = frozenset({"generate_series", "json_each", "json_tree", "range", "unnest"})

# Names of DuckDB and of Spark.
_DENIED = frozenset(
    {
        "add_parquet_key",
        "checkpoint",
        "copy_database",
        "current_setting",
        "currval",
        "force_checkpoint",
        "getenv",
        "getvariable",
        "import_database",
        "java_method",
        "json_execute_serialized_sql",
        "json_serialize_plan",
        "nextval",
        "parse_duckdb_log_message",
        "pg_sleep",
        "query",
        "query_table",
        "reflect",
        "set_config",
        "setseed",
        "setval",
        "sleep_ms",
        "sniff_csv",
        "try_reflect",
        "which_secret",
        "write_log",
    }
)
_DENIED_PREFIXES = ("__internal_", "duckdb_", "pragma_", "read_", "test_")


def is_allowed_function(name: str) -> bool:
    """Return whether a query may call a scalar or aggregate function."""
    name = name.lower()
    return name not in _DENIED and not name.startswith(_DENIED_PREFIXES)


def is_allowed_table_function(name: str) -> bool:
    """Return whether a query may read from a table function."""
    return name.lower() in ALLOWED_TABLE_FUNCTIONS
