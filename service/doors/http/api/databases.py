"""`/api/databases`: the catalog, the registration of savepoints under a root, and a key as people write it → queries that find it.

A key is read as the command line and SQL read keys (`catalog.keys`). The call reads no state: its client sends the queries, which have the
limits of all queries.
"""

from __future__ import annotations

import os
from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.status import HTTP_201_CREATED

from catalog import Database, KeyedState, NotAKeyError, Table, keyed_states, unread_operators
from catalog.aliases import DatabaseSchema, Schema
from readers import Location, ReaderError, given_location, sql_type
from service.base.errors import ForbiddenError, InvalidRequestError, query_error_of
from service.doors.http.api.state import State, Visible
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import FAILURES
from service.query.running.request import sendable
from service.query.sql.schemas import schema_called
from service.tasks.lookup.statements import any_key, condition_of_key, rows_of_key

router = APIRouter(prefix="/api/databases", tags=["catalog"], responses=FAILURES)
_LONGEST_KEY = 100_000


class SkippedEntry(BaseModel):
    """A savepoint that an alias would mean if it could be read."""

    name: str
    error: str


class DatabaseEntry(BaseModel):
    """A savepoint or checkpoint."""

    name: str
    path: str
    alias_of: str | None = Field(
        default=None, description="for an alias such as `latest`: the name of the savepoint that it means now"
    )
    created_at: datetime | None = Field(
        default=None, description="the time of `_metadata`, which Flink writes last, if the storage has it"
    )
    age_s: float | None = Field(default=None, description="seconds since then")
    job: str | None = Field(
        default=None,
        description="the title of the job, taken from the path: the folder of `chk-N`, a part of `savepoint-…-…`; "
        "`GET /api/jobs` has the jobs",
    )
    kind: str | None = Field(default=None, description="SAVEPOINT or CHECKPOINT, if the savepoint records it")
    checkpoint_id: int | None = None
    readable: bool = Field(default=True, description="false if `_metadata` cannot be read")
    error: str | None = Field(default=None, description="why the savepoint cannot be read")
    skipped: list[SkippedEntry] = Field(
        default_factory=list,
        description="for an alias such as `latest`: newer savepoints, which it does not mean because they cannot be read",
    )


class DatabaseList(BaseModel):
    """All databases."""

    databases: list[DatabaseEntry]


class ColumnEntry(BaseModel):
    """A column of a table."""

    name: str
    type: str


class TableEntry(BaseModel):
    """A table."""

    name: str
    comment: str
    size_bytes: int = Field(description="estimated bytes that a scan reads")


class TableDetail(TableEntry):
    """A table with its columns."""

    state_bytes: int | None = Field(
        description="bytes of its states in the files, as StateMeta.size_bytes; null if unknown, or if it is no table of states"
    )
    is_estimate: bool = Field(description="whether state_bytes is an estimate")
    columns: list[ColumnEntry]


class TableList(BaseModel):
    """All tables of a database."""

    tables: list[TableEntry]


class Registration(BaseModel):
    """A savepoint to register."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200)
    path: str = Field(min_length=1, description="a path under a folder that the service serves")


@router.get("")
def list_databases(catalog: Visible) -> DatabaseList:
    """List all databases, those of one job together and the newest first, then the aliases; a database that cannot be read has an error."""
    # Reads the metadata of all savepoints at the same time, not one after the other.
    catalog.described()
    place = {
        id(database): (number, age)
        for number, job in enumerate(catalog.jobs())
        for age, database in enumerate(job.databases)
    }
    schemas = catalog.schemas()
    own = [schema for schema in schemas if schema.alias_of is None]
    aliases = [schema for schema in schemas if schema.alias_of is not None]
    ordered = sorted(own, key=lambda schema: place.get(id(schema.database), (len(place), 0)))
    return DatabaseList(databases=[_entry(schema) for schema in (*ordered, *aliases)])


@router.post("", status_code=HTTP_201_CREATED)
def register_database(registration: Registration, service: State, principal: Caller) -> DatabaseEntry:
    """Register a savepoint under a folder that the service serves. Only for users who see all databases."""
    # A new name may match the grants of other users, who must not see a savepoint that the caller could not grant.
    if not principal.sees_everything:
        raise ForbiddenError(
            "only users with access to every database may register paths: the name could match the grants of others"
        )
    # Names get into headers, logs and addresses.
    if not registration.name.isprintable():
        raise InvalidRequestError(f"expected a name of printable characters, found {registration.name!r}")
    path = path_under(registration.path, service.roots)
    if path is None:
        raise ForbiddenError("expected a path under one of the folders that are served")
    database = service.catalog.add(registration.name, path)
    return _entry(Schema(database.name, database))


# Names of tables and aliases contain slashes, so the routes with more parts come first.
@router.get("/{database:path}/tables/{table:path}")
def describe_table(database: str, table: str, catalog: Visible) -> TableDetail:
    """Return a table with its columns and their types."""
    found = schema_called(catalog, database).database.table(table)
    columns = [ColumnEntry(name=field.name, type=sql_type(field.type)) for field in found.schema]
    own = found.own_size
    return TableDetail(
        **_table_entry(found).model_dump(),
        columns=columns,
        state_bytes=None if own is None else own.size_bytes,
        is_estimate=own is not None and own.is_estimate,
    )


@router.get("/{database:path}/tables")
def list_tables(database: str, catalog: Visible) -> TableList:
    """List the tables of a database."""
    found = schema_called(catalog, database).database
    return TableList(tables=[_table_entry(found.table(name)) for name in found.tables])


@router.get("/{database:path}")
def describe_database(database: str, catalog: Visible) -> DatabaseEntry:
    """Return a database."""
    return _entry(catalog.database_schema(database))


def path_under(path: str, roots: tuple[str, ...]) -> str | None:
    """Return a path with the options of the root that contains it, links followed; None outside all roots.

    The path must have no other options: they could send our requests, and their signatures, to an endpoint that the
    client chooses.
    """
    try:
        location, options = given_location(path)
    except ReaderError:
        return None
    for root in roots:
        above, root_options = given_location(root)
        if _followed(location).is_inside(_followed(above)) and options in ("", root_options):
            return path if options or not root_options else f"{path}?{root_options}"
    return None


def _followed(location: Location) -> Location:
    return location._replace(path=os.path.realpath(location.path)) if location.scheme == "file" else location


def _entry(schema: DatabaseSchema) -> DatabaseEntry:
    database = schema.database
    entry = DatabaseEntry(
        name=sendable(schema.name),
        path=sendable(database.path),
        alias_of=None if schema.alias_of is None else sendable(schema.alias_of),
        created_at=database.created_at,
        age_s=None if database.age is None else database.age.total_seconds(),
        job=None if database.job.title is None else sendable(database.job.title),
        skipped=[
            SkippedEntry(name=sendable(one.name), error=query_error_of(one.error).message)
            for one in schema.skipped
        ],
    )
    try:
        entry.checkpoint_id, entry.kind = database.describe()
    except ReaderError as error:
        entry.readable = False
        entry.error = query_error_of(error).message
    return entry


def _table_entry(table: Table) -> TableEntry:
    return TableEntry(name=table.name, comment=table.comment, size_bytes=table.size_bytes)


class KeyText(BaseModel):
    """A key as a user writes it."""

    model_config = ConfigDict(extra="forbid")

    key: str = Field(max_length=_LONGEST_KEY)


class KeyedStateEntry(BaseModel):
    """A state with keys, or the timers of a timer service."""

    operator_id: str
    operator: str = Field(description="name of the operator's table")
    table_name: str = Field(description="name of the table that the query reads")
    state_name: str
    state_kind: str
    key_type: str = Field(description="SQL type of its keys")
    columns: list[str] = Field(description="columns of the query")
    sql: str | None = Field(
        default=None, description="query of the key's rows; null if the text is no key of this type"
    )
    condition: str | None = Field(
        default=None, description="condition of that query, for others over the table, such as `diff`"
    )
    reason: str | None = Field(default=None, description="why the text is no key of this type")
    is_close: bool = Field(
        default=False, description="the text is a struct, as the keys are, with other fields or values"
    )
    example_sql: str = Field(description="query of one key, to see what keys look like")


class UnreadOperatorEntry(BaseModel):
    """An operator whose states are not known, because its files cannot be opened."""

    operator: str
    code: str
    message: str


class KeyAnswer(BaseModel):
    """The states of a database in which a key may be."""

    states: list[KeyedStateEntry]
    unread: list[UnreadOperatorEntry]


@router.post("/{database:path}/keys")
def read_key(database: str, body: KeyText, catalog: Visible) -> KeyAnswer:
    """Read a text as a key of each state; return the queries that find its rows."""
    found = catalog.database(database)
    states = [_keyed_entry(found, state, body.key) for state in keyed_states(found)]
    errors = [(operator, query_error_of(error)) for operator, error in unread_operators(found)]
    return KeyAnswer(
        states=states,
        unread=[
            UnreadOperatorEntry(operator=operator, code=error.code, message=error.message)
            for operator, error in errors
        ],
    )


def _keyed_entry(database: Database, state: KeyedState, text: str) -> KeyedStateEntry:
    entry = KeyedStateEntry(
        operator_id=state.operator_id,
        operator=state.operator,
        table_name=state.table.name,
        state_name=state.state,
        state_kind=state.kind,
        key_type=sql_type(state.key_type),
        columns=state.table.schema.names,
        example_sql=any_key(database, state),
    )
    try:
        entry.condition = condition_of_key(state, text)
        entry.sql = rows_of_key(database, state, text)
    except NotAKeyError as error:
        entry.reason, entry.is_close = str(error), error.is_close
    return entry
