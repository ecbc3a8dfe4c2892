"""The tables of a parsed query: the catalog's, those of `information_schema`, and those that a protocol adds.

| name | table |
|---|---|
| `table` | of the default database: the one that the session names, or the only one, or the newest one under the roots |
| `"database".table`, `flink."database".table` | of that database |
| `information_schema.table` | lists the catalog |
| `savepointdb.jobs`, `savepointdb.checkpoints` | list jobs, and savepoints and checkpoints |
| the names of Flink's State Catalog | of that database, if they are asked for (`service.query.sql.schemas`) |
| `diff('before', 'after', 'table')` | the rows of it that differ between two databases (`service.query.sql.schemas`) |
| `"job__history".changes('table')` | what each checkpoint of the job changed in it (`catalog.follow.changes`) |

In the plan a table has a name of its own for each place where it stands, so the query never means another table that an
engine may know by its name.

Queries that were planned before are remembered: a dashboard asks the same text again and again, and its tree does not change.
What is remembered of a text is what it says: its tree, and what that tells of tables of certain columns. Which tables its names
mean, and whether the client may see them, is asked each time; if a name means another table than before, the text is planned
anew. Nothing here keeps a savepoint open.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sqlglot import exp

from catalog import Catalog, CatalogError, Database, HistoryDatabase, NoSuchTableError, Predicate, Table
from catalog.differences.databases import ComparedDatabases
from catalog.errors import NotComparableError, near_names
from catalog.follow.changes import changes_of
from catalog.scan import ANYTHING
from readers import ReaderError
from service.base.catalogtables import name_tables
from service.base.errors import (
    DatabaseNotFoundError,
    ForbiddenError,
    InvalidQueryError,
    Position,
    QueryError,
    TableNotFoundError,
    near_names_hint,
    query_error_of,
    translated,
)
from service.query.sql.names import (
    TablesBySelect,
    common_table,
    rename_tables,
    respell,
    used_columns,
    used_names,
)
from service.query.sql.plan import (
    CHANGES,
    DIFFERENCES,
    NO_GROUNDS,
    Plan,
    PredicateGrounds,
    Reading,
    ReadStatement,
    TableReference,
    check_table_function,
    check_tree,
)
from service.query.sql.pruning import is_plain, predicates_of, requested_databases
from service.query.sql.schemas import (
    CATALOG,
    FLINK,
    INFORMATION_SCHEMA,
    METADATA,
    PREVIOUS,
    SAVEPOINT_METADATA,
    STATE_CATALOG,
    JobTables,
    ListedSchema,
    NameArgument,
    Owner,
    database_at,
    information_schema_table,
    listed_names,
    one_before,
    schema_called,
    table_call,
)
from service.query.sql.text import edited, generated

_MOST_TEXTS = 128
# The tree of a text takes some hundred times its bytes.
_LONGEST_TEXT = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedQuery:
    """A query over tables of savepoints.

    Attributes:
        nodes: where it names its tables, in order, as it names them.
        prefix: see `Plan`.
        reading: see `Plan`.
        tables: the tables, without what keeps them open.
    """

    nodes: tuple[exp.Table, ...]
    prefix: str
    reading: Reading
    tables: tuple[_RememberedTable, ...]

    @classmethod
    def of(cls, plan: Plan, nodes: Sequence[exp.Table]) -> RememberedQuery | None:
        """Return what to remember of a plan; None if it reads anything but tables that savepoints have under the names of `nodes`."""
        tables = [_RememberedTable.of(reference) for reference in plan.tables]
        known = tuple(table for table in tables if table is not None)
        if len(known) < len(tables) or len(nodes) != len(tables):
            return None
        return cls(nodes=tuple(nodes), prefix=plan.prefix, reading=plan.reading, tables=known)

    def again(self, found: Sequence[TableReference]) -> tuple[TableReference, ...] | None:
        """Return the tables of the plan for the tables that its names mean now; None if these are others."""
        if not all(table.is_of(reference) for table, reference in zip(self.tables, found, strict=True)):
            return None
        return tuple(
            replace(reference, **table.told) for table, reference in zip(self.tables, found, strict=True)
        )


@dataclass(frozen=True, slots=True)
class _RememberedTable:
    """A table of a remembered query.

    Attributes:
        name: in the plan.
        database: that it is in.
        table: the table.
        told: what the query tells of it.
    """

    name: str
    database: weakref.ref[Database]
    table: weakref.ref[Table]
    told: dict[str, Any]

    @classmethod
    def of(cls, reference: TableReference) -> _RememberedTable | None:
        """Return what to remember of a table; None unless it is of one savepoint."""
        if not isinstance(reference.database, Database):
            return None
        told = {"columns": reference.columns, "predicate": reference.predicate, "grounds": reference.grounds}
        return cls(reference.name, weakref.ref(reference.database), weakref.ref(reference.table), told)

    def is_of(self, reference: TableReference) -> bool:
        """Return whether a name means this table still."""
        return (
            self.name == reference.name
            and self.database() is reference.database
            and self.table() is reference.table
        )


class RememberedQueries:
    """The last texts. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: OrderedDict[tuple[str, str], RememberedQuery] = OrderedDict()

    def get(self, sql: str, compat: str) -> RememberedQuery | None:
        """Return what is known of a text; None if nothing is."""
        with self._lock:
            found = self._queries.get((sql, compat))
            if found is not None:
                self._queries.move_to_end((sql, compat))
        return found

    def put(self, sql: str, compat: str, query: RememberedQuery) -> None:
        """Remember a text, if it is short enough."""
        if len(sql) > _LONGEST_TEXT:
            return
        with self._lock:
            self._queries[sql, compat] = query
            if len(self._queries) > _MOST_TEXTS:
                self._queries.popitem(last=False)


class SystemTables(Protocol):
    """Tables that a protocol has beside those of the catalog."""

    def table(self, path: tuple[str, ...], databases: Sequence[str] | None) -> Table | None:
        """Return the table that a path names; None if the path names no system table.

        Args:
            path: the parts of the name, casefolded.
            databases: the databases of the catalog that the rows may describe; None for all.

        Raises:
            QueryError: the path names a system schema that has no such table.
        """

    def file(self, path: str) -> Table | None:
        """Return the table of a file that FROM names by a text; None where files are not read: everywhere, unless this says more.

        Raises:
            QueryError: the file is none that can be read.
        """
        return None

    def frame(self, name: str) -> Table | None:
        """Return the data frame of this name in the program that asks; None where it has none, or has no frames: everywhere else.

        Args:
            name: as it is written. The catalog has no table of this name.

        Raises:
            QueryError: the frame cannot be read.
        """
        return None


class Resolver:
    """Finds the tables of one statement.

    Args:
        sql: the text, for positions in errors.
        catalog: its databases.
        schema: the database of tables without one; the only or the newest database if None.
        system_tables: tables that hide those of the catalog.
        compat: `flink` if tables may have the names of Flink's State Catalog, too.

    Attributes:
        assumed: what it assumed so far, in sentences for the client.
        skipped: savepoints that an alias would mean if they could be read, in sentences for the client.
        named: where the planned query names tables, as it does; calls of functions that become tables are not among them.
    """

    def __init__(
        self,
        sql: str,
        catalog: Catalog,
        schema: str | None,
        system_tables: SystemTables | None,
        compat: str = "",
    ) -> None:
        self._sql = sql
        self._catalog = catalog
        self._schema = schema
        self._system_tables = system_tables
        self._is_upstream = compat == FLINK
        self.assumed: tuple[str, ...] = ()
        self.skipped: tuple[str, ...] = ()
        self.named: tuple[exp.Table, ...] = ()

    def plan(self, query: exp.Query, prefix: str, text: str | None) -> Plan:
        """Return the plan of a query; its tree is changed.

        Args:
            query: the tree of the query.
            prefix: what stands before the query.
            text: the text of the query, in which the identifiers of the tree have their positions; None if it has none.

        Raises:
            QueryError: the query has something that is not allowed, or a table that does not exist.
        """
        check_tree(query)
        references: list[TableReference] = []
        tables: dict[int, list[tuple[exp.Table, TableReference]]] = {}
        for node in list(query.find_all(exp.Table, bfs=False)):
            called = self._called(node, len(references) + 1)
            if called is not None:
                reference = called
            elif isinstance(node.this, exp.Func):
                check_table_function(node.this)
                continue
            # The tables of a WITH have no rows of their own: the tables inside of them are found, too.
            elif common_table(node) is not None:
                continue
            else:
                self.named += (node.copy(),)
                reference = self._reference(node, len(references) + 1)
            references.append(reference)
            tables.setdefault(id(node.find_ancestor(exp.Select)), []).append((node, reference))
        # First the names: predicates look for tables by their aliases.
        edits = rename_tables(query, tables)
        edits += respell(query, tables, text)
        predicates = _predicates(query, tables)
        nothing = ANYTHING, NO_GROUNDS
        names = used_names(query)
        return Plan(
            sql=self._sql,
            assumed=self.assumed,
            skipped=self.skipped,
            prefix=prefix,
            reading=ReadStatement(query, generated(query) if text is None else edited(text, edits)),
            tables=tuple(
                replace(
                    reference,
                    columns=used_columns(reference.table.schema, names),
                    predicate=predicates.get(reference.name, nothing)[0],
                    grounds=predicates.get(reference.name, nothing)[1],
                )
                for reference in references
            ),
        )

    def _called(self, node: exp.Table, number: int) -> TableReference | None:
        """Return the table that a call of a function stands for; None for anything else."""
        functions = {DIFFERENCES: self._difference, CHANGES: self._changes}
        if self._is_upstream:
            functions[SAVEPOINT_METADATA] = self._metadata
        for function, made in functions.items() if isinstance(node.this, exp.Func) else ():
            call = table_call(node, self._sql, function)
            if call is not None:
                return made(call, number)
        return None

    def again(self, query: RememberedQuery) -> Plan | None:
        """Return the plan of a query that was planned before; None if its names mean other tables now.

        Raises:
            QueryError: it names a table that does not exist.
        """
        tables = query.again(
            [self._reference(node, number) for number, node in enumerate(query.nodes, start=1)]
        )
        if tables is None:
            return None
        return Plan(
            sql=self._sql,
            reading=query.reading,
            tables=tables,
            prefix=query.prefix,
            assumed=self.assumed,
            skipped=self.skipped,
        )

    def database(self, name: str, position: Position | None) -> Owner:
        """Return the database of this name or alias.

        Raises:
            DatabaseNotFoundError: the catalog has no such database.
        """
        with translated(CatalogError, position=position):
            return self._database_of(schema_called(self._catalog, name))

    def _database_of(self, schema: ListedSchema) -> Owner:
        """Return the database of a schema; the client learns of newer ones that cannot be read."""
        self._skip(
            f'"{schema.name}" is "{schema.database.name}": "{one.name}" is newer, and cannot be read: '
            f"{query_error_of(one.error).message}"
            for one in schema.skipped
        )
        return schema.database

    def _skip(self, found: Iterable[str]) -> None:
        """Note savepoints that would be meant if they could be read, in sentences for the client."""
        self.skipped = tuple(dict.fromkeys((*self.skipped, *found)))

    def default_database(self, name: str, position: Position | None = None) -> Owner:
        """Return the database of tables without one; warn if nothing but its age says that it is meant.

        Args:
            name: the table, for the error.
            position: of the table in the text.

        Raises:
            InvalidQueryError: the session names no database, and there are several, none of them under a root.
            DatabaseNotFoundError: the catalog has no database.
        """
        if self._schema is not None:
            return self.database(self._schema, position)
        database = self._catalog.default
        if database is not None:
            return database
        known = self._catalog.databases
        if not known:
            raise DatabaseNotFoundError("there is no database: no savepoint was found", position=position)
        latest = self._catalog.latest
        if latest is not None:
            newest = self._database_of(latest)
            self.assumed = (
                f'tables that name no database are read from "{newest.name}", the newest of {len(known)}',
            )
            return newest
        raise InvalidQueryError(
            f"{name!r} names no database, and there are {len(known)}",
            hint=f'name one, such as "{known[0]}"; SHOW SCHEMAS lists them',
            position=position,
        )

    def table(self, path: Sequence[str]) -> TableReference:
        """Return the table of a name of one to three parts, the only one of its statement.

        Raises:
            QueryError: there is no such table.
        """
        parts = [exp.to_identifier(part, quoted=True) for part in path]
        node = exp.Table(**dict(zip(("this", "db", "catalog"), reversed(parts), strict=False)))
        return self._reference(node, 1)

    def _reference(self, node: exp.Table, number: int) -> TableReference:
        parts = [part.name for part in node.parts]
        start = node.this.meta.get("start")
        position = None if start is None else Position.of(self._sql, start)
        # DuckDB would read the file that a string in FROM names.
        if start is not None and self._sql[start] == "'":
            return self._file(node, number, position)
        # Before the catalog: `system.jdbc.tables` has three parts, as a table of a database has.
        system = self._system_table(parts, node, position)
        if system is not None:
            return _reference(number, ".".join(parts), system)
        catalogs = (CATALOG, STATE_CATALOG) if self._is_upstream else (CATALOG,)
        if len(parts) > 3 or (len(parts) == 3 and parts[0].casefold() not in catalogs):
            raise TableNotFoundError(
                f"there is no table {'.'.join(parts)!r}",
                hint=f'tables are named "database".table or {CATALOG}."database".table',
                position=position,
            )
        qualifier = parts[-2] if len(parts) > 1 else None
        if qualifier is not None and qualifier.casefold() == INFORMATION_SCHEMA:
            listing = self._listing(parts[-1], node, position)
            return _reference(number, f"{INFORMATION_SCHEMA}.{listing.name}", listing)
        if qualifier is not None:
            return self._of_database(self.database(qualifier, position), parts[-1], number, position)
        assumed = self.assumed
        try:
            return self._of_database(self.default_database(parts[-1], position), parts[-1], number, position)
        except (DatabaseNotFoundError, InvalidQueryError, TableNotFoundError):
            # As in DuckDB, a table hides a data frame of its name.
            frame = self._frame(parts[-1], number, position)
            if frame is None:
                raise
            self.assumed = assumed
            return frame

    def _of_database(
        self, database: Owner, name: str, number: int, position: Position | None
    ) -> TableReference:
        table = self._table(database, name, position)
        read = None if isinstance(database, JobTables) else database
        return _reference(number, f"{database.name}.{table.name}", table, read)

    @property
    def upstream_databases(self) -> Sequence[str]:
        """Names of the databases in Flink's State Catalog, if they are asked for."""
        return self._catalog.upstream_names() if self._is_upstream else ()

    def upstream_tables(self, database: Owner) -> Sequence[str]:
        """Return the names of the tables of a database in Flink's State Catalog, if they are asked for.

        Raises:
            ReaderError: the savepoint cannot be opened.
        """
        return database.upstream_tables if self._is_upstream and isinstance(database, Database) else ()

    def _metadata(self, call: tuple[NameArgument, ...], number: int) -> TableReference:
        """Return the metadata of the database at a path, or of a name."""
        (argument,) = call
        database = database_at(self._catalog, argument.name) or self._one_database(argument)
        table = self._table(database, METADATA, argument.position)
        return _reference(number, f"{SAVEPOINT_METADATA}({database.name})", table, database)

    def _difference(self, call: tuple[NameArgument, ...], number: int) -> TableReference:
        old, new, *table_named = call
        after = self._one_database(new)
        before = self._before(old, after) if old.name else None
        compared = ComparedDatabases(before, after)
        wanted = table_named[0] if table_named else None
        try:
            table = compared.table(None if wanted is None else wanted.name)
        except NoSuchTableError as error:
            failure = query_error_of(error, None if wanted is None else wanted.position)
            where = " or ".join(repr(one.name) for one in (before, after) if one is not None)
            failure.message = f"there is no table {error.name!r} in database {where}"
            raise failure from error
        except NotComparableError as error:
            raise query_error_of(error, old.position) from error
        names = [compared.name, *([] if wanted is None else [table.name])]
        return _reference(number, f"{DIFFERENCES}({', '.join(names)})", table, compared)

    def _changes(self, call: tuple[NameArgument, ...], number: int) -> TableReference:
        schema, argument = call
        position = argument.position
        history = self.database(schema.name, schema.position)
        if not isinstance(history, HistoryDatabase):
            raise InvalidQueryError(
                f"expected the schema of a history before {CHANGES}, found {schema.name!r}",
                hint="the schema of a job's history ends in __history; SHOW SCHEMAS lists all",
                position=position,
            )
        with translated(CatalogError, ReaderError, position=position):
            table = changes_of(history, argument.name)
        return _reference(number, f"{history.name}.{CHANGES}({table.name})", table, history)

    def _before(self, argument: NameArgument, after: Database) -> Database:
        """Return the database that a call compares with another one, which may be the one before it in its job."""
        if argument.name.casefold() != PREVIOUS or self._catalog.claims(PREVIOUS):
            return self._one_database(argument)
        earlier, skipped = one_before(after, self._catalog.jobs())
        self._skip(skipped)
        if earlier is not None:
            return earlier
        raise DatabaseNotFoundError(
            f"there is no savepoint before {after.name!r} in its job that can be read",
            position=argument.position,
        )

    def _one_database(self, argument: NameArgument) -> Database:
        found = self.database(argument.name, argument.position)
        if not isinstance(found, Database):
            raise InvalidQueryError(
                f"expected a savepoint to compare, found {argument.name!r}, which holds several",
                hint="SHOW SCHEMAS lists all; name one of its savepoints",
                position=argument.position,
            )
        return found

    def _file(self, node: exp.Table, number: int, position: Position | None) -> TableReference:
        path = node.name
        with translated(QueryError, position=position):
            found = self._system_tables.file(path) if self._system_tables is not None else None
        if found is None:
            raise ForbiddenError("reading files is not allowed", position=position)
        # Columns may be qualified by the name of the table: counts.word FROM 'folder/counts.csv'.
        node.this.set("this", found.name)
        return _reference(number, path, found)

    def _frame(self, name: str, number: int, position: Position | None) -> TableReference | None:
        with translated(QueryError, position=position):
            found = self._system_tables.frame(name) if self._system_tables is not None else None
        return None if found is None else _reference(number, name, found)

    def _system_table(self, parts: Sequence[str], node: exp.Table, position: Position | None) -> Table | None:
        if self._system_tables is None:
            return None
        path = tuple(part.casefold() for part in parts)
        with translated(QueryError, position=position):
            return self._system_tables.table(path, self._requested(node))

    def _requested(self, node: exp.Table) -> tuple[str, ...] | None:
        return requested_databases(node, lambda: listed_names(self._catalog))

    def _listing(self, name: str, node: exp.Table, position: Position | None) -> Table:
        with translated(NoSuchTableError, position=position):
            return information_schema_table(self._catalog, name, self._requested(node))

    def _table(self, database: Owner, name: str, position: Position | None) -> Table:
        try:
            found = None
            if self._is_upstream and isinstance(database, Database):
                found = database.upstream_table(name)
            return found or database.table(name)
        except NoSuchTableError as error:
            failure = query_error_of(error, position)
            # A database may stand where a table is expected: FROM chk-41.
            near = error.near or near_names(name, listed_names(self._catalog))
            failure.message = f"there is no table {name!r} in database {database.name!r}"
            failure.hint = near_names_hint(near) or f'SHOW TABLES FROM "{database.name}" lists its tables'
            raise failure from error


def _reference(
    number: int,
    name: str,
    table: Table,
    database: Database | HistoryDatabase | ComparedDatabases | None = None,
) -> TableReference:
    return TableReference(name=f"{number}: {name}", database=database, table=table)


def _predicates(query: exp.Query, tables: TablesBySelect) -> dict[str, tuple[Predicate, PredicateGrounds]]:
    """Return the predicates of the tables and what implies them, by their names in the plan."""
    predicates: dict[str, tuple[Predicate, PredicateGrounds]] = {}
    for select in query.find_all(exp.Select):
        references = {
            node.alias.casefold(): reference
            for node, reference in tables.get(id(select), [])
            if is_plain(node)
        }
        schemas = {alias: reference.table.schema for alias, reference in references.items()}
        found, grounds = predicates_of(select, schemas)
        if all(predicate == ANYTHING for predicate in found.values()):
            continue
        try:
            texts = PredicateGrounds(
                conditions=tuple(map(generated, grounds.conditions)),
                source=" ".join(map(generated, grounds.sources)).strip(),
                commons=tuple(map(generated, grounds.commons)),
            )
        except QueryError:  # what has no text cannot be compared, so all rows are read
            continue
        for alias, predicate in found.items():
            if predicate != ANYTHING:
                predicates[references[alias].name] = predicate, texts
    return predicates


name_tables()
