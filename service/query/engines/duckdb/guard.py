"""Refuses statements that DuckDB reads differently from the plan.

sqlglot has parsed and checked the statement, but DuckDB parses the text again. So DuckDB's own parser returns its tree as JSON
(`json_serialize_sql`), and everything in the tree must be something that the plan allows: its tables, common table
expressions where they are known, allowed functions, and the parts of queries in `_QUERIES` and `_SOURCES`.

The predicates that leave out rows of a scan come from sqlglot's tree, too. They count only if DuckDB's tree has what implies them
in the same place: conditions, joins, tables of constants.

    WHERE j -> true AND key = 'a'        sqlglot: (j -> true) AND (key = 'a')     DuckDB: j -> (true AND key = 'a')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import duckdb

from catalog.predicate import ANYTHING
from service.base.errors import ForbiddenError, InvalidQueryError, QuerySyntaxError
from service.query.engines.duckdb.meaning import canonical, tree_of
from service.query.sql.functions import is_allowed_function, is_allowed_table_function
from service.query.sql.plan import Plan, PredicateGrounds

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


def check_statement(plan: Plan, connection: duckdb.DuckDBPyConnection) -> bool:
    """Refuse a statement that DuckDB's parser reads differently from the plan.

    Returns:
        False if only the conditions for the scans differ; see `Plan.with_all_rows`.

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
    return _has_grounds(tree, plan, connection)


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


def _has_grounds(tree: _Node, plan: Plan, connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether DuckDB reads what implies the predicates of the scans in each SELECT that reads their tables."""
    wanted = {table.name: table.grounds for table in plan.tables if table.predicate != ANYTHING}
    try:
        read = {grounds: _ReadGrounds(grounds, connection) for grounds in dict.fromkeys(wanted.values())}
    except QuerySyntaxError:
        return False
    if not all(grounds.is_complete for grounds in read.values()):
        return False
    for node, _ in _nodes(tree) if wanted else ():
        for common in node.get("cte_map", {}).get("map", ()):
            if not all(grounds.allow(common) for grounds in read.values()):
                return False
        if node.get("type") != "SELECT_NODE":
            continue
        sources = list(_joined(node["from_table"]))
        names = {source["table_name"] for source in sources if source["type"] == "BASE_TABLE"}
        needed = {wanted[name] for name in names & wanted.keys()}
        if not needed:
            continue
        conditions = [source["condition"] for source in sources if source.get("join_type") == "INNER"]
        written = set(map(canonical, _conjuncts([node["where_clause"], *conditions])))
        source = canonical(node["from_table"]) if any(grounds.source for grounds in needed) else None
        if not all(read[grounds].are_in(written, source) for grounds in needed):
            return False
    return True


class _ReadGrounds:
    """What implies a predicate, as canonical trees of DuckDB's.

    Raises:
        QuerySyntaxError: DuckDB cannot read its texts.
    """

    def __init__(self, grounds: PredicateGrounds, connection: duckdb.DuckDBPyConnection) -> None:
        commons = f"WITH {', '.join(grounds.commons)} " if grounds.commons else ""
        items = ", ".join(f"({condition})" for condition in grounds.conditions) or "1"
        text = f"{commons}SELECT {items} {grounds.source}"
        node = tree_of(text, connection)["statements"][0]["node"]
        self._conditions = set(map(canonical, node["select_list"])) if grounds.conditions else set()
        self._source = canonical(node["from_table"]) if grounds.source else None
        self._commons = {
            common["key"].casefold(): canonical(common["value"]) for common in node["cte_map"]["map"]
        }
        trees = [*self._conditions, *self._commons.values(), *([self._source] if grounds.source else [])]
        self.is_complete = None not in trees

    def are_in(self, conditions: set[bytes | None], source: bytes | None) -> bool:
        """Return whether a SELECT has them.

        Args:
            conditions: canonical trees of the conjuncts of its WHERE and inner joins.
            source: the canonical tree of its FROM.
        """
        return self._conditions <= conditions and self._source in (None, source)

    def allow(self, common: _Node) -> bool:
        """Return whether a common table of the statement is what a predicate takes it for; others may be anything.

        The name decides: where two common tables have one name, and one of them is not known, all rows are read.
        """
        name = common["key"].casefold()
        return name not in self._commons or canonical(common["value"]) == self._commons[name]


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
