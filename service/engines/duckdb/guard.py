"""Refuses statements that DuckDB reads differently from the plan.

sqlglot has parsed and checked the statement, but DuckDB parses the text again. So DuckDB's own parser returns its tree as JSON
(`json_serialize_sql`), and everything in the tree must be something that the plan allows: its tables, common table
expressions, allowed functions, and the parts of queries in `_NODES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import orjson

from service.errors import ForbiddenError, QuerySyntaxError, without_folders
from service.sql.functions import is_allowed_function, is_allowed_table_function
from service.sql.plan import Plan

# Values of `type` that a query may have: statements, parts of FROM, and modifiers. An expression has a `class` beside its
# `type` and is not looked up here.
_NODES = frozenset(
    {
        "BASE_TABLE",
        "COLUMN_DATA",
        "CTE_NODE",
        "DISTINCT_MODIFIER",
        "EMPTY",
        "EMPTY_FROM",
        "EXPRESSION_LIST",
        "JOIN",
        "LIMIT_MODIFIER",
        "LIMIT_PERCENT_MODIFIER",
        "ORDER_MODIFIER",
        "PIVOT",
        "RECURSIVE_CTE_NODE",
        "SELECT_NODE",
        "SET_OPERATION_NODE",
        "SUBQUERY",
        "TABLE_FUNCTION",
    }
)


def check_statement(sql: str, plan: Plan, connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse a statement that DuckDB's parser reads differently from the plan.

    Raises:
        QuerySyntaxError: it is no statement to DuckDB.
        ForbiddenError: it is not a statement that may run.
    """
    tree = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    found = orjson.loads(tree[0][0])
    if found.get("error", True):
        text = str(found.get("error_message", ""))
        raise QuerySyntaxError(without_folders(text) or "expected one query")
    if len(found["statements"]) != 1:
        raise ForbiddenError("expected one statement, found several")
    tables = {reference.name for reference in plan.tables}
    tables |= {
        entry["key"] for node in _dictionaries(found) if "cte_map" in node for entry in node["cte_map"]["map"]
    }
    for node in _dictionaries(found):
        _check_node(node, tables)


def _dictionaries(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]  # not recursive: a client decides how deep the tree is
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _check_node(node: dict[str, Any], tables: set[str]) -> None:
    kind = node.get("type")
    if not isinstance(kind, str):
        return
    if kind == "BASE_TABLE":
        path = node["qualified_name"]["path"]
        if len(path) != 1 or path[0].casefold() not in {table.casefold() for table in tables}:
            raise ForbiddenError("the statement names a table in a way that is not understood")
    elif kind == "TABLE_FUNCTION":
        name = node["function"]["function_name"]
        if not is_allowed_table_function(name):
            raise ForbiddenError(f"reading from {name}() is not allowed")
    elif node.get("class") == "FUNCTION" or kind == "FUNCTION":
        if not is_allowed_function(node["function_name"]):
            raise ForbiddenError(f"{node['function_name']}() is not allowed")
    elif kind.endswith(("_NODE", "_REF", "_MODIFIER")) and "class" not in node and kind not in _NODES:
        raise ForbiddenError("only queries are allowed")
