"""Refuses statements that DuckDB reads differently from the plan.

sqlglot has parsed and checked the statement, but DuckDB parses the text again. So DuckDB's own parser returns its tree as JSON
(`json_serialize_sql`), and everything in the tree must be something that the plan allows: its tables, common table
expressions where they are known, allowed functions, and the parts of queries in `_QUERIES` and `_SOURCES`.

The conditions that leave out rows of a scan come from sqlglot's tree, too. They count only if DuckDB's tree has the same
conditions in the same place:

    WHERE j -> true AND key = 'a'        sqlglot: (j -> true) AND (key = 'a')     DuckDB: j -> (true AND key = 'a')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import duckdb
import orjson

from catalog.predicate import ANYTHING
from service.errors import ForbiddenError, InvalidQueryError, QuerySyntaxError, without_folders
from service.sql.functions import is_allowed_function, is_allowed_table_function
from service.sql.plan import Plan

# Nodes of DuckDB's tree are dictionaries.
_Node = dict[str, Any]
_QUERIES = frozenset({"CTE_NODE", "RECURSIVE_CTE_NODE", "SELECT_NODE", "SET_OPERATION_NODE"})
# What stands in FROM.
_SOURCES = frozenset(
    {
        "BASE_TABLE",
        "COLUMN_DATA",
        "EMPTY",
        "EMPTY_FROM",
        "EXPRESSION_LIST",
        "JOIN",
        "PIVOT",
        "SUBQUERY",
        "TABLE_FUNCTION",
    }
)
_MODIFIERS = frozenset({"DISTINCT_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "ORDER_MODIFIER"})
# Names of types that sqlglot replaces by one of their synonyms.
_TYPES = {
    synonym: name
    for name, synonyms in {
        "VARCHAR": ("BPCHAR", "CHAR", "NVARCHAR", "STRING", "TEXT"),
        "TINYINT": ("INT1",),
        "SMALLINT": ("INT2", "INT16", "SHORT"),
        "INTEGER": ("INT", "INT4", "INT32", "SIGNED"),
        "HUGEINT": ("INT128",),
        "BIGINT": ("INT8", "INT64", "LONG", "OID"),
        "TIMESTAMP": ("DATETIME", "TIMESTAMP_US"),
    }.items()
    for synonym in synonyms
}
_PLACES = frozenset({"query_location", "query_location_length"})


def check_statement(plan: Plan, connection: duckdb.DuckDBPyConnection) -> bool:
    """Refuse a statement that DuckDB's parser reads differently from the plan.

    Returns:
        False if only the conditions for the scans differ; see `without_conditions`.

    Raises:
        QuerySyntaxError: it is no statement to DuckDB.
        ForbiddenError: it is not a statement that may run.
        InvalidQueryError: it has a parameter, or lacks a table of the plan.
    """
    tree = tree_of(plan.text, connection)
    # DuckDB's names have no case, and Spark's translation writes them in small letters.
    tables = {reference.name.casefold() for reference in plan.tables}
    found: set[str] = set()
    for node, commons in _nodes(tree):
        _check_node(node)
        if node.get("type") == "BASE_TABLE":
            found.add(_table(node, tables, commons))
    if not found >= tables:
        raise InvalidQueryError("the statement can be read in two ways: put its parts in parentheses")
    return _has_conditions(tree, plan, connection)


def without_conditions(plan: Plan) -> Plan:
    """Return a plan that reads all rows of its tables."""
    return replace(plan, tables=tuple(replace(table, predicate=ANYTHING) for table in plan.tables))


def tree_of(sql: str, connection: duckdb.DuckDBPyConnection) -> _Node:
    """Return DuckDB's tree of a statement."""
    tree = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    found: _Node = orjson.loads(tree[0][0])
    if found.get("error", True):
        text = str(found.get("error_message", ""))
        raise QuerySyntaxError(without_folders(text) or "expected one query")
    if len(found["statements"]) != 1:
        raise ForbiddenError("expected one statement, found several")
    return found


def _nodes(tree: _Node) -> Iterator[tuple[_Node, frozenset[str]]]:
    """Yield each node with the casefolded names of the common tables that it may name."""
    waiting: list[tuple[Any, frozenset[str]]] = [
        (tree, frozenset())
    ]  # not recursive: a client decides how deep it is
    while waiting:
        node, commons = waiting.pop()
        if isinstance(node, list):
            waiting += ((child, commons) for child in node)
        elif isinstance(node, dict):
            # A common table knows those before it, and itself if it is recursive.
            for common in node.get("cte_map", {}).get("map", ()):
                query, name = common["value"]["query_node"], common["key"].casefold()
                own = {name} if query["type"] == "RECURSIVE_CTE_NODE" else set()
                waiting.append((common["value"], commons | own))
                commons |= {name}
            yield node, commons
            waiting += ((child, commons) for name, child in node.items() if name != "cte_map")


def _check_node(node: _Node) -> None:
    kind = node.get("type")
    if isinstance(node.get("function_name"), str) and not is_allowed_function(node["function_name"]):
        raise ForbiddenError(f"{node['function_name']}() is not allowed")
    if kind == "TABLE_FUNCTION":
        name = node["function"]["function_name"]
        if not is_allowed_table_function(name):
            raise ForbiddenError(f"reading from {name}() is not allowed")
    if node.get("class") == "PARAMETER":
        raise InvalidQueryError("parameters are not supported: write their values")
    if "class" in node or not isinstance(kind, str):
        return
    is_query = "cte_map" in node or kind.endswith("_NODE")
    is_source = "sample" in node or kind.endswith("_REF")
    if (
        (is_query and kind not in _QUERIES)
        or (is_source and not is_query and kind not in _SOURCES)
        or (kind.endswith("_MODIFIER") and kind not in _MODIFIERS)
    ):
        raise ForbiddenError("only queries are allowed")


def _table(node: _Node, tables: set[str], commons: frozenset[str]) -> str:
    """Return the name of a table that the plan allows here, casefolded."""
    path: list[str] = node["qualified_name"]["path"]
    if len(path) != 1 or (path[0].casefold() not in tables and path[0].casefold() not in commons):
        raise ForbiddenError("the statement names a table in a way that is not understood")
    return path[0].casefold()


def _has_conditions(tree: _Node, plan: Plan, connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the conditions of the scans are conditions of each SELECT that reads their tables."""
    wanted = {table.name: table.conditions for table in plan.tables if table.predicate != ANYTHING}
    written = list(dict.fromkeys(condition for conditions in wanted.values() for condition in conditions))
    # A table that USING joins to constants has a predicate, but no condition.
    if not written:
        return True
    try:
        select = tree_of("SELECT " + ", ".join(f"({condition})" for condition in written), connection)
    except QuerySyntaxError:
        return False
    read = [canonical(item) for item in select["statements"][0]["node"]["select_list"]]
    if None in read:
        return False
    known = dict(zip(written, read, strict=True))
    for node, _ in _nodes(tree):
        if node.get("type") != "SELECT_NODE":
            continue
        sources = list(_joined(node["from_table"]))
        names = {source["table_name"] for source in sources if source["type"] == "BASE_TABLE"}
        needed = {known[condition] for name in names & wanted.keys() for condition in wanted[name]}
        if not needed:
            continue
        conditions = [source["condition"] for source in sources if source.get("join_type") == "INNER"]
        if not needed <= set(map(canonical, _conjuncts([node["where_clause"], *conditions]))):
            return False
    return True


def _joined(source: _Node) -> Iterator[_Node]:
    """Yield the tables in FROM, and the joins between them."""
    waiting = [source]
    while waiting:
        node = waiting.pop()
        yield node
        if node["type"] == "JOIN":
            waiting += [node["left"], node["right"]]


def _conjuncts(conditions: Iterable[_Node | None]) -> Iterator[_Node]:
    waiting = list(conditions)
    while waiting:
        node = waiting.pop()
        if node is not None and node.get("type") == "CONJUNCTION_AND":
            waiting += node["children"]
        elif node is not None:
            yield node


def canonical(node: _Node) -> bytes | None:
    """Return a tree without the places in its text; None if it is too deep to be compared."""
    try:
        return orjson.dumps(_placeless(node), option=orjson.OPT_SORT_KEYS)
    except (RecursionError, orjson.JSONEncodeError):
        return None


def _placeless(node: Any) -> Any:
    if isinstance(node, dict):
        if node.get("class") == "TYPE" and len(node["qualified_name"]["path"]) == 1:
            name = node["type_name"].upper()
            return _TYPES.get(name, name), _placeless(node["children"])
        return {name: _placeless(child) for name, child in node.items() if name not in _PLACES}
    return [_placeless(child) for child in node] if isinstance(node, list) else node
