"""What stands before the name of a table, and functions that stand in its place.

The schemas of SQL are those of the catalog, databases and histories, and `savepointdb`, whose tables list its jobs and checkpoints.

| table | a row per |
|---|---|
| jobs | job |
| checkpoints | database, the newest of each job first; what cannot be read has an error |

They have rows only of the databases that the user sees. A database that is called `savepointdb` hides the schema.

`information_schema`: the catalog as tables. A savepoint that cannot be read appears without tables.

| table | a row per |
|---|---|
| schemata | database, alias of a database, history of a job, and `savepointdb`; `tables` and `columns` have rows for all of these |
| tables | table |
| columns | column |

SHOW CREATE TABLE returns the columns of a table as statements that DuckDB takes; DESCRIBE of a schema returns a row for each fact.

Functions in FROM whose arguments are names in single quotes become tables: `FROM f('a', 'b')` and `FROM TABLE(f('a', 'b'))`, as
Trino and Flink write it, mean the same. In the tree the call becomes the name of a table that spans the whole call, so all that
holds for tables holds for it. The names of databases and tables are texts, so that they need no other quotes.

`diff` returns the rows of a table that differ between two savepoints:

| in FROM | is |
|---|---|
| `diff('a', 'b', 'op__state')` | the rows of the table that were added, removed or changed from a to b |
| `diff('a', 'b')` | the summary: a row for each state |
| `diff('previous', 'b', …)` | the same from the savepoint before b, in the job of b |
| `TABLE(diff(…))` | the same, as Trino writes functions in FROM |

With `compat=flink`, statements may have the names of Flink's State Catalog:

| in a statement | is |
|---|---|
| `metadata`, `uid_<uid>_keyed`, … behind a database | a table by the name that it has there (`catalog.upstream`) |
| `savepoint_metadata('path')` in FROM, also within `TABLE(…)` | `metadata` of the database at this path, or of this name |
| `state."database".table` | `flink."database".table` |

A path is compared with those of the databases that the user sees, and never opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from catalog import (
    Catalog,
    CatalogError,
    Database,
    HistoryDatabase,
    Job,
    ListedTable,
    NoSuchTableError,
    Table,
)
from catalog.aliases import AnySchema, Schema
from catalog.history import earlier_than
from catalog.table import FactsTable, TableOwner
from readers import ReaderError, schema_of, sql_type
from service.base.errors import InvalidQueryError, Position, query_error_of
from service.query.sql.plan import CHANGES, DIFFERENCES
from service.query.sql.text import blanked, quoted, text_constant, tokens_of

SERVICE_SCHEMA = "savepointdb"
_R = TypeVar("_R")
_Rows: TypeAlias = Callable[[Catalog], Iterator[dict[str, Any]]]


def facts_table(
    name: str,
    known: Mapping[str, tuple[str, pa.Schema, _R]],
    where: str,
    batch_of: Callable[[pa.Schema, _R], pa.RecordBatch],
) -> FactsTable:
    """Return one of the tables of a schema that lists the catalog; its rows are made when it is read.

    Args:
        name: of the table, in any case.
        known: the tables of the schema: comment, columns, and what yields the rows.
        where: the schema.
        batch_of: makes the rows, of the last two.

    Raises:
        NoSuchTableError: there is no such table; the error has near names.
    """
    found = known.get(name.casefold())
    if found is None:
        raise NoSuchTableError(name, known, where)
    comment, schema, rows = found
    return FactsTable(name.casefold(), comment, schema, lambda: batch_of(schema, rows))


class JobTables(TableOwner):
    """The tables of the schema `savepointdb`. Their rows are made when they are read: `checkpoints` reads each `_metadata`.

    Args:
        catalog: what the user sees.
    """

    name = SERVICE_SCHEMA

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @property
    def tables(self) -> list[str]:
        return list(_TABLES)

    def listed(self) -> tuple[FactsTable, ...]:
        return tuple(map(self.table, _TABLES))

    def table(self, name: str) -> FactsTable:
        """Return a table by name, in any case.

        Raises:
            NoSuchTableError: there is no such table; the error has near names.
        """

        def batch_of(schema: pa.Schema, rows: _Rows) -> pa.RecordBatch:
            return pa.RecordBatch.from_pylist(list(rows(self._catalog)), schema=schema)

        return facts_table(name, _TABLES, SERVICE_SCHEMA, batch_of)


ListedSchema: TypeAlias = AnySchema | Schema[JobTables]
Owner: TypeAlias = Database | HistoryDatabase | JobTables


def schema_called(catalog: Catalog, name: str) -> ListedSchema:
    """Return the database, the history or the schema of the service that a name stands for, in any case.

    Raises:
        CatalogError: there is none, with near names, or several.
    """
    try:
        return catalog.schema(name)
    except CatalogError:
        if name.casefold() == SERVICE_SCHEMA:
            return Schema(SERVICE_SCHEMA, JobTables(catalog))
        raise


def listed_schemas(catalog: Catalog, wanted: Iterable[str] | None = None) -> list[ListedSchema]:
    """Return the schemas that lists show.

    Args:
        catalog: what the user sees.
        wanted: the only names to list, in any case; None for all.
    """
    names = None if wanted is None else tuple(wanted)
    found: list[ListedSchema] = []
    found += catalog.all_schemas() if names is None else catalog.schemas_named(names)
    is_wanted = names is None or SERVICE_SCHEMA in {name.casefold() for name in names}
    if is_wanted and SERVICE_SCHEMA not in {schema.name.casefold() for schema in found}:
        found.append(Schema(SERVICE_SCHEMA, JobTables(catalog)))
    return found


def listed_names(catalog: Catalog) -> list[str]:
    """Return the names of `listed_schemas`; opens no savepoint."""
    return list(dict.fromkeys((*catalog.all_schema_names, SERVICE_SCHEMA)))


def _job_rows(catalog: Catalog) -> Iterator[dict[str, Any]]:
    for job in catalog.jobs():
        facts = catalog.facts_of(job)
        newest, oldest = job.databases[0], job.databases[-1]
        yield {
            "job": job.name,
            "title": job.title,
            "job_id": job.job_id,
            "job_name": None if facts is None else facts.name,
            "label": job.label,
            "state": None if facts is None else facts.state,
            "history": job.history,
            "checkpoints": len(job.databases),
            "newest": newest.name,
            "newest_created_at": newest.created_at,
            "oldest_created_at": oldest.created_at,
        }


def _checkpoint_rows(catalog: Catalog) -> Iterator[dict[str, Any]]:
    # Reads the metadata of all savepoints at the same time, not one after the other.
    catalog.described()
    for job in catalog.jobs():
        facts = catalog.facts_of(job)
        for database in job.databases:
            yield {
                "job_id": job.job_id,
                "job_name": None if facts is None else facts.name,
                **_checkpoint_row(job, database),
            }


def _checkpoint_row(job: Job, database: Database) -> dict[str, Any]:
    age, said = database.age, database.checkpoint_facts
    row: dict[str, Any] = {
        "database": database.name,
        "job": job.name,
        "label": job.label,
        "created_at": database.created_at,
        "age_s": None if age is None else age.total_seconds(),
        "status": None if said is None else said.status,
        "readable": True,
    }
    try:
        row["checkpoint_id"], row["kind"] = database.describe()
    except ReaderError as error:
        row["readable"], row["error"] = False, query_error_of(error).message
    return {**row, "size_bytes": database.size_bytes, "lineage": database.lineage}


_TABLES: dict[str, tuple[str, pa.Schema, _Rows]] = {
    "jobs": (
        "the jobs",
        schema_of(
            "job, title, job_id, job_name, label, state, history, checkpoints bigint, newest, "
            "newest_created_at instant, oldest_created_at instant"
        ),
        _job_rows,
    ),
    "checkpoints": (
        "the savepoints and checkpoints of all jobs",
        schema_of(
            "database, job, job_id, job_name, label, checkpoint_id bigint, kind, created_at instant, "
            "age_s double, status, readable boolean, error, size_bytes bigint, lineage"
        ),
        _checkpoint_rows,
    ),
}


INFORMATION_SCHEMA = "information_schema"
# The one catalog that clients see.
CATALOG = "flink"

Tables: TypeAlias = Sequence[ListedTable | Table]
_NamedRows: TypeAlias = Callable[[str, Tables], Iterator[dict[str, Any]]]


def information_schema_table(catalog: Catalog, name: str, databases: Iterable[str] | None = None) -> Table:
    """Return a table that lists the catalog; its rows are made when it is read.

    Args:
        catalog: the catalog to list.
        name: of the table, in any case.
        databases: the only databases to list; None for all.

    Raises:
        NoSuchTableError: there is no such table; the error has near names.
    """
    wanted = None if databases is None else tuple(databases)

    # Made when it is read: rows of `columns` need the headers of all operators of all databases.
    def batch_of(schema: pa.Schema, rows: _NamedRows) -> pa.RecordBatch:
        return _rows_of(listed_schemas(catalog, wanted), schema, rows)

    return facts_table(name, _NAMED_TABLES, INFORMATION_SCHEMA, batch_of)


def schemata_rows(name: str, _tables: Tables = ()) -> Iterator[dict[str, Any]]:
    """Yield the row of a schema."""
    yield {"catalog_name": CATALOG, "schema_name": name}


def tables_rows(name: str, tables: Tables) -> Iterator[dict[str, Any]]:
    """Yield the rows of the tables of a schema."""
    for table in tables:
        yield {
            "table_catalog": CATALOG,
            "table_schema": name,
            "table_name": table.name,
            "table_type": "BASE TABLE",
            "table_comment": table.comment,
        }


def columns_rows(
    name: str, tables: Tables, type_name: Callable[[pa.DataType], str] = sql_type
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the columns of a schema, with the names that a dialect has for types."""
    for table in tables:
        for position, column in enumerate(table.schema, start=1):
            yield {
                "table_catalog": CATALOG,
                "table_schema": name,
                "table_name": table.name,
                "column_name": column.name,
                "ordinal_position": position,
                "is_nullable": "YES" if column.nullable else "NO",
                "data_type": type_name(column.type),
            }


def tables_of(database: TableOwner) -> Tables:
    """Return the tables of a database; none if the database cannot be read."""
    try:
        return database.listed()
    except ReaderError:
        return []


def _rows_of(listed: Sequence[ListedSchema], schema: pa.Schema, rows: _NamedRows) -> pa.RecordBatch:
    """Return the rows of schemas. Those of schemas with the same tables are made once: most savepoints of a job have the same."""
    if rows is schemata_rows:
        return pa.RecordBatch.from_pylist(
            [row for one in listed for row in rows(one.name, ())], schema=schema
        )
    # As long as all are kept, no other tables get the id of any of them.
    all_tables = [tables_of(one.database) for one in listed]
    distinct = {id(tables): tables for tables in all_tables}
    numbers = {tables_id: number for number, tables_id in enumerate(distinct)}
    group_of = np.array([numbers[id(tables)] for tables in all_tables], dtype=np.int64)
    groups = [
        pa.RecordBatch.from_pylist(list(rows("", tables)), schema=schema) for tables in distinct.values()
    ]
    if not groups:
        return pa.RecordBatch.from_pylist([], schema=schema)
    lengths = np.array([group.num_rows for group in groups], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    counts = lengths[group_of]
    ends = np.cumsum(counts)
    # The place of a row among the rows of all groups: where its group begins, and its own place in the schema.
    places = pa.array(np.arange(ends[-1]) + np.repeat(starts[group_of] - (ends - counts), counts))
    names = pa.array([one.name for one in listed], pa.string())
    name_of = pa.array(np.repeat(np.arange(len(listed)), counts))
    columns = [
        names.take(name_of)
        if field.name == "table_schema"
        else pa.concat_arrays([group.column(field.name) for group in groups]).take(places)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


_NAMED_TABLES: dict[str, tuple[str, pa.Schema, _NamedRows]] = {
    "schemata": ("the databases", schema_of("catalog_name, schema_name"), schemata_rows),
    "tables": (
        "the tables of all databases",
        schema_of("table_catalog, table_schema, table_name, table_type, table_comment"),
        tables_rows,
    ),
    "columns": (
        "the columns of all tables",
        schema_of(
            "table_catalog, table_schema, table_name, column_name, ordinal_position int, is_nullable, data_type"
        ),
        columns_rows,
    ),
}


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def definition_of(table: Table, database: str | None) -> str:
    """Return the statements that make an empty table with the same columns and comment.

    Args:
        table: the table.
        database: the schema before its name; None for none.
    """
    name = ".".join(map(_identifier, [*([] if database is None else [database]), table.name]))
    columns = ",\n".join(
        f"    {_identifier(column.name)} {sql_type(column.type, as_identifier)}" for column in table.schema
    )
    return f"CREATE TABLE {name} (\n{columns}\n);\nCOMMENT ON TABLE {name} IS {text_constant(table.comment)};"


def as_identifier(name: str) -> str:
    """Return a name as a statement writes it: in quotation marks where it needs them."""
    return name if _PLAIN.fullmatch(name) and name.casefold() not in _RESERVED else quoted(name)


def _identifier(name: str) -> str:
    """Return a name in quotation marks also where it has capitals: other databases would read it in small letters."""
    return as_identifier(name) if name == name.lower() else quoted(name)


# The words that DuckDB takes for no name, and some that sqlglot, which reads a statement first, takes for none.
_WORDS = """all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast check collate
    collation column columns concurrently constraint create cross default deferrable desc describe distinct do else end
    except false fetch for foreign freeze from full generated glob group having ilike in initially inner intersect into
    is isnull join lambda lateral leading left like limit map natural not notnull null offset on only or order outer
    overlaps partition pivot pivot_longer pivot_wider placing positional primary qualify references returning right
    select semi show similar some struct summarize symmetric table tablesample then to trailing true try_cast tuple
    union unique unpack unpivot using values variadic verbose when where window with"""
_RESERVED = frozenset(_WORDS.split())


COLUMNS = ("name", "value")


def facts_of(owner: Owner) -> Iterator[tuple[str, str | None]]:
    """Yield what is known of a schema, each with its name; reads the headers of all state files.

    Raises:
        ReaderError: it cannot be read.
    """
    yield "database", owner.name
    if isinstance(owner, Database):
        yield from _of_savepoint(owner)
    elif isinstance(owner, HistoryDatabase):
        yield "kind", "HISTORY"
        yield "checkpoints", str(len(owner.databases))
        yield "newest", owner.databases[0].name
        yield "oldest", owner.databases[-1].name
    else:
        yield "kind", "LISTINGS"
    yield "tables", str(len(owner.tables))


def _of_savepoint(database: Database) -> Iterator[tuple[str, str | None]]:
    made = database.created_at
    yield "kind", database.kind
    yield "checkpoint_id", str(database.checkpoint_id)
    yield "created_at", None if made is None else f"{made:%Y-%m-%d %H:%M:%S}+00"
    yield "job", database.job.title or None
    yield "job_id", database.job.job_id
    yield "flink", str(database.savepoint.metadata.flink_versions)
    yield "operators", str(len(database.savepoint.operators))
    yield "size_bytes", str(database.size_bytes)


_TABLE = "table"


@dataclass(frozen=True, slots=True)
class NameArgument:
    """A name that a call gives, and where it stands in the text."""

    name: str
    position: Position | None


# A database of this name goes before.
PREVIOUS = "previous"
FLINK = "flink"
STATE_CATALOG = "state"
"""The name that Flink's own examples give to the catalog."""
METADATA = "metadata"
SAVEPOINT_METADATA = "savepoint_metadata"
# A function that stands in place of a table → how it is written, and how many arguments it may have.
_CALLS = {
    DIFFERENCES: (f"{DIFFERENCES}('before', 'after') or {DIFFERENCES}('before', 'after', 'table')", (2, 3)),
    CHANGES: (f"\"job__history\".{CHANGES}('table')", (1,)),
    SAVEPOINT_METADATA: (f"{SAVEPOINT_METADATA}('path')", (1,)),
}


def table_call(node: exp.Table, sql: str, function: str) -> tuple[NameArgument, ...] | None:
    """Return the arguments of a call that stands in place of a table, and make the node a table of that name; None for anything else.

    Args:
        node: what stands in FROM.
        sql: the text in which the nodes have their positions.
        function: its name.

    Returns:
        the names; of `changes` the schema before its argument.

    Raises:
        InvalidQueryError: the call has other arguments than names in single quotes, or stands in a schema, or in none.
    """
    form, counts = _CALLS[function]
    outer = node.this
    *qualifier, call = node.parts
    if _is_call_of(_TABLE, outer) and len(outer.expressions) == 1:
        *qualifier, call = (
            outer.expressions[0].flatten() if isinstance(outer.expressions[0], exp.Dot) else outer.expressions
        )
    if not _is_call_of(function, call):
        return None
    position = _position_of(call, sql)
    if bool(qualifier) != (function == CHANGES):
        expected = (
            f"{function} without a qualifier" if qualifier else f"the schema of a history before {function}"
        )
        raise InvalidQueryError(f"expected {expected}", hint=f"write {form}", position=position)
    arguments: Sequence[exp.Expr] = call.expressions
    if len(arguments) not in counts:
        raise InvalidQueryError(f"expected {form}, found {len(arguments)} arguments", position=position)
    names = tuple(
        _name(argument, sql, form, may_be_empty=function == DIFFERENCES and not place)
        for place, argument in enumerate(arguments)
    )
    name = exp.to_identifier(function)
    name.meta.update(outer.meta)
    if "start" in outer.meta:
        name.meta["end"] = _end_of_call(sql, outer.meta["start"])
    node.set("this", name)
    return (*(NameArgument(one.name, position) for one in qualifier[-1:]), *names)


def _is_call_of(name: str, node: object) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.casefold() == name


def _name(argument: exp.Expr, sql: str, form: str, *, may_be_empty: bool) -> NameArgument:
    # Values in place of parameters stand in parentheses.
    literal = argument.unnest()
    position = _position_of(argument, sql)
    if not literal.is_string or not (literal.name or may_be_empty):
        raise InvalidQueryError(
            f"expected a name in single quotes, found {argument.sql()}",
            hint=f"write {form}, with the names of databases that SHOW SCHEMAS lists",
            position=position,
        )
    return NameArgument(literal.name, position)


def _position_of(node: exp.Expr, sql: str) -> Position | None:
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return Position.of(sql, min(starts)) if starts else None


def _end_of_call(sql: str, start: int) -> int:
    """Return the offset of the parenthesis that ends a call."""
    depth = 0
    for token in tokens_of(blanked(sql, start)):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
            if depth == 0:
                return int(token.end)
    raise AssertionError("the text was parsed, so the call has an end")


_METADATA_FILE = "/_metadata"


def one_before(after: Database, jobs: Iterable[Job]) -> tuple[Database | None, tuple[str, ...]]:
    """Return the savepoint before one in its job, and a sentence for each newer one that cannot be read.

    Args:
        after: the savepoint.
        jobs: of the catalog.

    Returns:
        The newest one before it that can be read; None if there is none.
    """
    skipped: list[str] = []
    for earlier in earlier_than(after, jobs):
        try:
            earlier.describe()
        except ReaderError as error:
            skipped.append(
                f'"{earlier.name}" is newer than "{PREVIOUS}", and cannot be read: {query_error_of(error).message}'
            )
        else:
            return earlier, tuple(skipped)
    return None, tuple(skipped)


def database_at(catalog: Catalog, path: str) -> Database | None:
    """Return the database at a path that the user sees; None if there is none."""
    wanted = _plain(path)
    return next((one for one in catalog.known() if _plain(one.path) == wanted), None)


def _plain(path: str) -> str:
    """Return a path in the one spelling in which paths are compared."""
    if path.startswith("file:"):
        path = unquote(urlsplit(path).path)
    return path.rstrip("/").removesuffix(_METADATA_FILE)
