"""The result of planning: a query that was checked and whose tables are resolved; what it is going to read.

A statement may contain queries only. Scalar and aggregate functions compute, so all are allowed except a list: functions that read
settings, secrets, logs or other SQL, change the session, or only wait. Table functions read files and the inside of the engine, so
none is allowed except a list. The engine reports unknown functions itself, with near names. One more table function never reaches
an engine: `diff` is resolved as a table (`service.query.sql.schemas`). The check walks sqlglot's tree. DuckDB runs the user's text,
so `service.query.engines.duckdb.guard` checks DuckDB's own tree of it, too.

Some plans are lookups: sure to end soon. A query may take all its memory and time, and nobody knows before it runs. A lookup
cannot: it reads some keys of one table, a few bytes, and returns the rows without a function, a join or a query inside. So lookups
have slots of their own (`service.query.serving.slots`).

EXPLAIN shows what a query is going to read beside the engine's plan, for each table: splits, key groups, bytes of the savepoint and
of the cache, and the conditions that reached the scan. The numbers are those of the planned scan and of the table's extent;
nothing is read for them, and files that the query does not read may be missing. A lookup of a key counts the bytes of the key's
key group, of which it reads less. A partial answer, if the request allows one, lists the files that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from sqlglot import exp

from catalog import Database, HistoryDatabase, PlannedTable, Predicate, Scan, Table
from catalog.differences.databases import ComparedDatabases
from catalog.scan import ANYTHING
from readers import ReaderError
from service.base.errors import (
    ConditionsDifferError,
    ForbiddenError,
    InvalidQueryError,
    Position,
    QueryError,
    QuerySyntaxError,
    query_error_of,
    without_folders,
)
from service.query.sql.text import position_of_word

DIFFERENCES = "diff"
CHANGES = "changes"
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
            hint=f"allowed are {', '.join(sorted({*ALLOWED_TABLE_FUNCTIONS, CHANGES, DIFFERENCES}))}",
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


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that an answer lacks; safe to show to every client.

    Attributes:
        table: the table that lacks its rows, with its database.
        path: the name of the file, without its folders; None where the error is of no file.
        code: the code of the error.
        message: the reason.
    """

    table: str
    path: str | None
    code: str
    message: str

    def text(self) -> str:
        """Return one line of text."""
        return f"{self.table} lacks rows: {self.message}"


def unread_files(table: str, errors: Iterable[ReaderError]) -> tuple[UnreadFile, ...]:
    """Return the files behind the errors of a scan, each once."""
    found: dict[UnreadFile, None] = {}
    for error in errors:
        public = query_error_of(error)
        path = None if error.path is None else without_folders(error.path)
        found[UnreadFile(table, path, public.code, public.message)] = None
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicateGrounds:
    """The parts of a statement that imply the predicate of a table, as texts of SQL.

    Attributes:
        conditions: conjuncts of WHERE and ON.
        source: what stands behind FROM, if the predicate depends on joins.
        commons: the common tables of constants that both name: what stands behind WITH.
    """

    conditions: tuple[str, ...] = ()
    source: str = ""
    commons: tuple[str, ...] = ()


NO_GROUNDS = PredicateGrounds()


# No slots: a cached property needs a dictionary.
@dataclass(frozen=True, kw_only=True)
class TableReference:
    """A table at one place of a statement.

    Attributes:
        name: its name in the plan's query; unique for each place.
        database: None for tables that are not part of a savepoint, such as those of `information_schema`.
        table: the table to read.
        columns: the columns that the statement may need; None for all.
        predicate: the conditions that save reading.
        grounds: the parts of the statement that imply them; DuckDB must read them in the same place.
        allow_partial: whether rows of files that cannot be read may be left out.
    """

    name: str
    database: Database | HistoryDatabase | ComparedDatabases | None
    table: Table
    columns: tuple[str, ...] | None = None
    predicate: Predicate = ANYTHING
    grounds: PredicateGrounds = NO_GROUNDS
    allow_partial: bool = False

    @property
    def title(self) -> str:
        """Its name for people, with its database."""
        return self.name.partition(": ")[2]

    @property
    def databases(self) -> tuple[Database, ...]:
        """The savepoints that it may read rows of."""
        return () if self.database is None else self.database.databases_for(self.table, self.predicate)

    @cached_property
    def scan(self) -> Scan:
        """The planned scan of the table. Its size, EXPLAIN and the engine all use this one plan.

        Raises:
            ReaderError: a state file that holds wanted rows cannot be opened.
        """
        return self.table.plan(self.predicate, allow_partial=self.allow_partial)


@dataclass(frozen=True, slots=True)
class ReadStatement:
    """A statement that was read when it was planned."""

    query: exp.Query
    text: str
    whole: None = None


class UnreadStatement:
    """A statement that is read when an engine wants it.

    Args:
        plan: plans it for an engine.
    """

    def __init__(self, plan: Callable[[], Plan]) -> None:
        self._plan = plan

    @cached_property
    def whole(self) -> Plan:
        """The plan for an engine.

        Raises:
            QueryError: a savepoint was removed meanwhile.
        """
        return self._plan()

    @property
    def query(self) -> exp.Query:
        """See `Reading`."""
        return self.whole.query

    @property
    def text(self) -> str:
        """See `Reading`."""
        return self.whole.text


Reading: TypeAlias = ReadStatement | UnreadStatement
"""The statement of a plan: its tree, its text, and the plan of it that was not short; None if it is that."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition that a scan applies exactly as DuckDB does.

    Attributes:
        column: of the scan.
        sign: `=`, `<>`, `<`, `<=`, `>`, `>=`, or `IN`.
        values: in the type of the column.
    """

    column: str
    sign: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortStatement:
    """Columns and conditions of one table: a scan answers them (`service.query.sql.short`).

    Attributes:
        columns: columns of the table that are the answer.
        names: their names in the answer.
        conditions: all must be true.
        limit: most rows; None for all.
        shape: the statement with `?` in place of every constant.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    conditions: tuple[Comparison, ...]
    limit: int | None
    shape: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A statement that may run.

    Attributes:
        sql: the text as it was given.
        reading: the query as an engine reads it; it calls its tables by the names in `tables`.
        tables: the tables that the query reads.
        prefix: `EXPLAIN`, `EXPLAIN ANALYZE`, `DESCRIBE`, `SUMMARIZE` or empty.
        is_translated: True if the query was parsed from a translation of the text.
        is_definition: True for SHOW CREATE TABLE.
        assumed: what the planner assumed, in sentences for the client.
        skipped: savepoints that an alias such as `latest` would mean if they could be read, in sentences for the client.
        short: the statement, if a scan answers it.
    """

    sql: str
    reading: Reading
    tables: tuple[TableReference, ...]
    prefix: str = ""
    is_translated: bool = False
    is_definition: bool = False
    assumed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    short: ShortStatement | None = None

    def in_full(self) -> Plan:
        """Return the plan for an engine, also of a short statement.

        Raises:
            QueryError: a savepoint was removed meanwhile.
        """
        return self.reading.whole or self

    def with_all_rows(self) -> Plan:
        """Return the plan with scans of all rows, for an engine that reads the conditions of the scans differently.

        Raises:
            ConditionsDifferError: a scan was planned by another process, and lacks rows.
        """
        if any(
            isinstance(found.table, PlannedTable) and not found.table.has_all_rows for found in self.tables
        ):
            raise ConditionsDifferError("the statement can be read in two ways: put its parts in parentheses")
        return replace(self, tables=tuple(replace(found, predicate=ANYTHING) for found in self.tables))

    @property
    def query(self) -> exp.Query:
        """The parsed query."""
        return self.reading.query

    @property
    def text(self) -> str:
        """The query in DuckDB's dialect."""
        return self.reading.text

    @property
    def warnings(self) -> tuple[str, ...]:
        """All that a client should know of how its names were read."""
        return self.assumed + self.skipped + self.notes

    @property
    def is_text(self) -> bool:
        """True if the last column of the answer is a text of several lines."""
        return self.is_definition or self.prefix.startswith("EXPLAIN")

    def partial(self) -> Plan:
        """Return the plan that leaves out the rows of files that cannot be read."""
        return replace(self, tables=tuple(replace(table, allow_partial=True) for table in self.tables))

    @property
    def incomplete(self) -> tuple[UnreadFile, ...]:
        """The files that cannot be opened, as far as the plan leaves out their rows."""
        return tuple(
            file
            for reference in self.tables
            if (reference.allow_partial or reference.table.leaves_out) and reference.database is not None
            for file in unread_files(reference.title, reference.scan.unread)
        )

    @property
    def databases(self) -> tuple[Database, ...]:
        """The databases that the query reads, in the order of their names in the text."""
        databases = {one.name: one for reference in self.tables for one in reference.databases}
        return tuple(databases.values())

    @property
    def size_bytes(self) -> int:
        """Estimated bytes of savepoints that the query reads.

        Raises:
            ReaderError: a state file that holds wanted rows cannot be opened.
        """
        # Listings of the catalog read no bytes; to plan them is to make their rows, which an engine may not need.
        return sum(reference.scan.bytes_total for reference in self.tables if reference.database is not None)

    def position_of(self, name: str) -> Position | None:
        """Return where a name first stands in the text."""
        if self.is_translated:
            return position_of_word(self.sql, name)
        for identifier in self.query.find_all(exp.Identifier):
            if identifier.name.casefold() == name.casefold() and "start" in identifier.meta:
                return Position.of(self.sql, identifier.meta["start"])
        return None


MOST_KEYS = 100
MOST_BYTES = 4 << 20


def is_lookup(plan: Plan, size_bytes: int = 0) -> bool:
    """Return whether a plan is sure to end soon.

    Args:
        plan: the plan.
        size_bytes: about how many bytes it reads; 0 if that is unknown.
    """
    if size_bytes > MOST_BYTES:
        return False
    if plan.short is not None:
        return True
    if plan.prefix or len(plan.tables) != 1:
        return False
    keys = plan.tables[0].predicate.of("key")
    if plan.tables[0].database is None or keys is None or len(keys) > MOST_KEYS:
        return False
    return all(type(node) in _PLAIN for node in plan.query.walk())


# Nodes whose cost is bounded by the rows that were read. `Dot` is a field of a struct.
_PLAIN = frozenset(
    {
        exp.Alias, exp.And, exp.Between, exp.Boolean, exp.Column, exp.Dot, exp.EQ, exp.From, exp.GT, exp.GTE, exp.Identifier,
        exp.In, exp.Is, exp.LT, exp.LTE, exp.Limit, exp.Literal, exp.NEQ, exp.Neg, exp.Not, exp.Null, exp.Offset, exp.Or,
        exp.Order, exp.Ordered, exp.Paren, exp.Select, exp.Star, exp.Table, exp.TableAlias, exp.Where,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanExplanation:
    """The scan of one table, before it is read.

    Attributes:
        table: its name, with its database.
        columns: the columns that the statement may need.
        splits, splits_total: splits to read, and splits of the whole table.
        key_groups, key_groups_total: key groups to read, and of the whole table; both are 0 if the table has none.
        bytes_to_read, bytes_total: bytes of the savepoint to read, and bytes of the whole table without the cache.
        cached_bytes: bytes to read from the cache instead.
        cache_hit: True if anything comes from the cache.
        predicate: column → the values that the scan looks for, as text.
    """

    table: str
    columns: tuple[str, ...]
    splits: int
    splits_total: int
    key_groups: int
    key_groups_total: int
    bytes_to_read: int
    bytes_total: int
    cached_bytes: int
    cache_hit: bool
    predicate: Mapping[str, tuple[str, ...]]

    def text(self) -> str:
        """Return one line of text."""
        read = [f"{self.splits:,} of {self.splits_total:,} splits"]
        if self.key_groups_total:
            read.append(f"{self.key_groups:,} of {self.key_groups_total:,} key groups")
        read.append(f"{self.bytes_to_read:,} of {self.bytes_total:,} bytes")
        read.append(f"{self.cached_bytes:,} bytes of the cache" if self.cache_hit else "not cached")
        conditions = [f"{column} IN ({', '.join(values)})" for column, values in self.predicate.items()]
        return f"{self.table}: {', '.join(read)}; {' AND '.join(conditions) or 'no condition that prunes'}"


def explanation_of(plan: Plan) -> tuple[ScanExplanation, ...]:
    """Return what a plan is going to read, a scan a table; plans the scans.

    Raises:
        ReaderError: a state file cannot be opened.
    """
    return tuple(_explained(reference) for reference in plan.tables if reference.database is not None)


def _explained(reference: TableReference) -> ScanExplanation:
    scan = reference.scan
    whole = reference.table.extent
    return ScanExplanation(
        table=reference.title,
        columns=reference.columns or tuple(scan.schema.names),
        splits=len(scan.splits),
        splits_total=whole.splits,
        key_groups=len(scan.key_groups),
        key_groups_total=whole.key_groups,
        bytes_to_read=scan.bytes_total,
        bytes_total=whole.size_bytes,
        cached_bytes=scan.cached_bytes_total,
        cache_hit=scan.is_cached,
        predicate={column: tuple(map(repr, values)) for column, values in reference.predicate.values.items()},
    )
