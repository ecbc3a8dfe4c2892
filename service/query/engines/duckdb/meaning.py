"""DuckDB's trees of texts, and whether sqlglot's tree of a statement means what DuckDB reads in its text.

DuckDB's own parser reads the text, and the text that sqlglot generates from its tree. Both must have the same tree, beside the
differences that mean nothing: other names of the same function or type, `x IS NOT NULL` for `NOT x IS NULL`, and the like.
"""

from __future__ import annotations

from typing import Any

import duckdb
import orjson

from service.base.errors import ForbiddenError, QueryError, QuerySyntaxError, without_folders
from service.query.sql.parser import generated
from service.query.sql.plan import Plan

_Node = dict[str, Any]
# What only shows how a function was written.
_WRITTEN = frozenset({"is_operator", "qualified_name"})
_SYNONYMS = {
    "**": "pow",
    "^": "pow",
    "^@": "starts_with",
    "argmax": "arg_max",
    "argmin": "arg_min",
    "array_agg": "list",
    "array_contains": "list_contains",
    "array_length": "len",
    "countif": "count_if",
    "length": "len",
    "list_has": "list_contains",
    "max_by": "arg_max",
    "min_by": "arg_min",
    "power": "pow",
    "stddev_samp": "stddev",
    "substring": "substr",
    "var_samp": "variance",
}
_UNITS = frozenset({"date_diff", "date_part", "date_sub", "date_trunc", "datediff", "datepart", "datetrunc"})
_UNIT_SYNONYMS = {"DAYOFWEEK": "DOW", "DAYOFYEAR": "DOY", "DAYOFWEEK_ISO": "ISODOW", "WEEKISO": "WEEK"}
_CONDITIONS = frozenset({"bool_and", "bool_or"})
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


def is_meant(plan: Plan, connection: duckdb.DuckDBPyConnection | None = None) -> bool:
    """Return whether the tree of a plan means what DuckDB reads in its text.

    Args:
        plan: the plan.
        connection: parses the texts; one of its own if None.
    """
    if connection is None:
        with duckdb.connect(config={"enable_external_access": "false"}) as own:
            return is_meant(plan, own)
    try:
        written = tree_of(plan.text, connection)
        meant = tree_of(generated(plan.query), connection)
    except QueryError:
        return False
    one = canonical(written)
    return one is not None and one == canonical(meant)


def canonical(node: _Node) -> bytes | None:
    """Return a tree without the places in its text and what means nothing; None if it is too deep to be compared."""
    try:
        return orjson.dumps(_placeless(_plain(node)), option=orjson.OPT_SORT_KEYS)
    except (RecursionError, orjson.JSONEncodeError):
        return None


def _placeless(node: Any) -> Any:
    if isinstance(node, dict):
        if node.get("class") == "TYPE" and len(node["qualified_name"]["path"]) == 1:
            name = node["type_name"].upper()
            return _TYPES.get(name, name), _placeless(node["children"])
        return {name: _placeless(child) for name, child in node.items() if name not in _PLACES}
    return [_placeless(child) for child in node] if isinstance(node, list) else node


def _plain(node: Any) -> Any:
    """Return a tree without differences that mean nothing."""
    if isinstance(node, list):
        return [_plain(child) for child in node]
    if not isinstance(node, dict):
        return node
    plain = {name: _plain(child) for name, child in node.items()}
    if isinstance(plain.get("function_name"), str):
        return _plain_function(plain)
    # `x IS NOT NULL` and `NOT x IS NULL`.
    if plain.get("type") == "OPERATOR_IS_NOT_NULL":
        inner = {**plain, "type": "OPERATOR_IS_NULL", "alias": ""}
        return {**plain, "type": "OPERATOR_NOT", "children": [inner]}
    # sqlglot writes VALUES in WITH as `SELECT * FROM (VALUES …) AS _values`.
    if plain.get("type") == "SUBQUERY" and plain.get("alias") == "_values" and "class" not in plain:
        rows = plain["subquery"]["node"].get("from_table", {})
        return rows if rows.get("type") == "EXPRESSION_LIST" else plain
    return plain


def _plain_function(node: _Node) -> _Node:
    name = node["function_name"].lower()
    kept = {key: child for key, child in node.items() if key not in _WRITTEN}
    kept["function_name"] = name = _SYNONYMS.get(name, name)
    first = node["arguments"][0]["expression"] if node.get("arguments") else {}
    if name in _UNITS and first.get("class") == "CONSTANT" and isinstance(first["literal"].get("text"), str):
        unit = first["literal"]["text"].upper()
        first["literal"]["text"] = _UNIT_SYNONYMS.get(unit, unit)
    # sqlglot writes bool_and(CAST(x AS BOOLEAN)).
    elif (
        name in _CONDITIONS and first.get("class") == "CAST" and first["type_expr"]["type_name"] == "BOOLEAN"
    ):
        node["arguments"][0]["expression"] = first["child"]
    # INTERVAL 1 DAY and INTERVAL '1' DAY.
    elif name.startswith("to_"):
        while first.get("class") in ("CAST", "FUNCTION"):
            first = first["child"] if first["class"] == "CAST" else _argument(first)
        if first.get("class") == "CONSTANT":
            first["literal"].pop("kind", None)
    return kept


def _argument(function: _Node) -> _Node:
    arguments = function["arguments"]
    expression: _Node = arguments[0]["expression"] if len(arguments) == 1 else {}
    return expression
