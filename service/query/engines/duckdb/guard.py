"""DuckDB's trees of texts, and whether sqlglot's tree of a statement means what DuckDB reads in its text.

DuckDB's own parser reads the text, and the text that sqlglot generates from its tree. Both must have the same tree, beside the
differences that mean nothing: other names of the same function or type, `x IS NOT NULL` for `NOT x IS NULL`, and the like.

Refuses statements that DuckDB reads differently from the plan.

sqlglot has parsed and checked the statement, but DuckDB parses the text again. So DuckDB's own parser returns its tree as JSON
(`json_serialize_sql`), and everything in the tree must be something that the plan allows: its tables, common table
expressions where they are known, allowed functions, and the parts of queries in `_QUERIES` and `_SOURCES`.

The predicates that leave out rows of a scan come from sqlglot's tree, too. They count only if DuckDB's tree has what implies them
in the same place: conditions, joins, tables of constants.

    WHERE j -> true AND key = 'a'        sqlglot: (j -> true) AND (key = 'a')     DuckDB: j -> (true AND key = 'a')

Statements that select columns of one table unchanged: `SELECT *`, `SELECT key, value AS v`, and nothing more.

DuckDB binds such a statement, but its rows are those of the scan and need not pass through DuckDB, which copies them two
thousand at a time. An export of 18 million rows of four states takes three quarters of the CPU time this way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import duckdb
import orjson
import pyarrow as pa
from sqlglot import exp

from catalog.scan import ANYTHING
from service.base.errors import (
    ForbiddenError,
    InvalidQueryError,
    QueryError,
    QuerySyntaxError,
    without_folders,
)
from service.query.encode.formats import is_kept
from service.query.sql.plan import (
    Plan,
    PredicateGrounds,
    TableReference,
    is_allowed_function,
    is_allowed_table_function,
)
from service.query.sql.text import generated

_Node = dict[str, Any]
# What only shows how a function was written.
_WRITTEN = frozenset({"is_operator", "qualified_name"})
_SYNONYMS = {
    "**": "pow", "^": "pow", "^@": "starts_with", "argmax": "arg_max", "argmin": "arg_min",
    "array_agg": "list", "array_contains": "list_contains", "array_length": "len", "countif": "count_if",
    "length": "len", "list_has": "list_contains", "max_by": "arg_max", "min_by": "arg_min", "power": "pow",
    "stddev_samp": "stddev", "substring": "substr", "var_samp": "variance",
}  # fmt: skip
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


# Nodes of DuckDB's tree are dictionaries.
_QUERIES = frozenset({"CTE_NODE", "RECURSIVE_CTE_NODE", "SELECT_NODE", "SET_OPERATION_NODE"})
# What stands in FROM.
_SOURCES = frozenset({
    "BASE_TABLE", "COLUMN_DATA", "EMPTY", "EMPTY_FROM", "EXPRESSION_LIST", "JOIN", "PIVOT", "SUBQUERY",
    "TABLE_FUNCTION",
})  # fmt: skip
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


_SELECT_PARTS = frozenset({"expressions", "from", "from_"})
_TABLE_PARTS = frozenset({"this", "db", "catalog", "alias"})
# A batch of a scan is limited in bytes only, and small rows (elements of lists) may be very many.
_ROWS = 65_536


def unchanged_columns(plan: Plan) -> list[str] | None:
    """Return the columns of the plan's only table that are its answer, in order; None for any other statement."""
    query = plan.query
    if plan.prefix or len(plan.tables) != 1 or not isinstance(query, exp.Select):
        return None
    if not _has_only(query, _SELECT_PARTS) or not _is_alone(query):
        return None
    table: pa.Schema = plan.tables[0].table.schema
    found = [name for part in query.expressions for name in _names(part, table) or (None,)]
    names = [name for name in found if name is not None]
    if len(names) < len(found) or not names:
        return None
    return names if all(is_kept(table.field(name).type) for name in names) else None


def reads_to_the_end(plan: Plan) -> bool:
    """Return whether a plan needs every row of its tables: no LIMIT ends it early."""
    limits = plan.query.find_all(exp.Limit, exp.Fetch)
    return all(limit.parent is not None and limit.parent.args.get("order") for limit in limits)


def as_they_are(
    batches: Iterable[pa.RecordBatch], columns: Sequence[str], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a scan as rows of the statement.

    Args:
        batches: batches of the scan.
        columns: columns of the scan that the statement selects.
        schema: schema of the answer.
    """
    for batch in batches:
        arrays = [batch.column(name) for name in columns]
        made = pa.RecordBatch.from_arrays(arrays, schema=schema)
        del batch, arrays  # else they stay in memory while the consumer waits
        rows = made.num_rows
        yield from (made.slice(start, _ROWS) for start in range(0, rows, _ROWS))
        del made


def answer_schema(reference: TableReference, columns: Sequence[str], names: Iterable[str]) -> pa.Schema:
    """Return the schema of the answer, whose columns have these names."""
    table: pa.Schema = reference.table.schema
    return pa.schema([(name, table.field(column).type) for name, column in zip(names, columns, strict=True)])


def _has_only(node: exp.Expr, parts: frozenset[str]) -> bool:
    return all(part in parts for part, value in node.args.items() if value)


def _is_alone(query: exp.Select) -> bool:
    """Return whether FROM is one table, without other names for its columns."""
    found = query.args.get("from_") or query.args.get("from")
    return (
        isinstance(found, exp.From)
        and isinstance(found.this, exp.Table)
        and _has_only(found.this, _TABLE_PARTS)
        and not (found.this.args.get("alias") and found.this.args["alias"].args.get("columns"))
    )


def _names(part: exp.Expr, table: pa.Schema) -> Sequence[str] | None:
    """Return the columns that an item of SELECT stands for; None for an expression or a name in another case."""
    if isinstance(part, exp.Star):
        return None if any(part.args.values()) else list(table.names)
    if isinstance(part, exp.Alias):
        part = part.this
    if not isinstance(part, exp.Column) or not _has_only(part, frozenset({"this"})):
        return None
    return [part.name] if isinstance(part.this, exp.Identifier) and part.name in table.names else None
