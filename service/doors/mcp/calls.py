"""One call of a tool: its arguments, who asks, what the caller sees, and the queries that run for it.

The arguments say what an agent reads about them, and what is accepted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

from anyio import CancelScope, to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from catalog import Catalog, Database
from service.base.errors import DatabaseNotFoundError, InvalidRequestError
from service.doors.served import Client, with_options
from service.query.running.request import QueryRequest
from service.query.serving.query import Query
from service.tasks.write.request import WriteRequest

MOST_ROWS = 1000
LEAST_BYTES, USUAL_BYTES, MOST_BYTES = 1_000, 20_000, 200_000
_LONGEST_NAME = 1000

_Name = Annotated[str, Field(max_length=_LONGEST_NAME)]
_Database = Annotated[
    str | None,
    Field(max_length=_LONGEST_NAME, description="name or alias; default: the only one, or the newest"),
]
_Bytes = Annotated[int, Field(ge=LEAST_BYTES, le=MOST_BYTES)]
_Most = Annotated[int, Field(ge=1, le=MOST_ROWS)]


class Arguments(BaseModel):
    """Arguments of a tool."""

    # A misspelt limit must not be ignored.
    model_config = ConfigDict(extra="forbid")


class LimitedArguments(Arguments):
    """Arguments of a tool whose result may be long."""

    max_bytes: _Bytes = USUAL_BYTES


class ListDatabases(Arguments):
    """Which databases are listed."""

    search: _Name | None = Field(default=None, description="only those whose name or job contains this")
    max_rows: _Most = 50


class DescribeDatabase(Arguments):
    """A database."""

    database: _Database = None
    search: _Name | None = Field(default=None, description="only tables whose name contains this")
    max_rows: _Most = 100


class DescribeTable(Arguments):
    """A table."""

    table: _Name
    database: _Database = None


class RunQuery(Arguments):
    """A statement and its limits."""

    sql: str = Field(description="one SELECT, EXPLAIN, SHOW, DESCRIBE or SUMMARIZE")
    database: _Database = None
    max_rows: int = Field(default=100, ge=0, le=MOST_ROWS)
    max_bytes: _Bytes = USUAL_BYTES
    allow_partial: bool = Field(
        default=False,
        description="leave out files that cannot be read, and list them; otherwise the query fails",
    )


class RunSavedQuery(Arguments):
    """A saved query and its limits."""

    name: _Name | None = Field(default=None, description="default: list the saved queries")
    parameters: dict[str, str | int | float | bool] = Field(default_factory=dict)
    database: _Database = None
    max_rows: int = Field(default=100, ge=0, le=MOST_ROWS)
    max_bytes: _Bytes = USUAL_BYTES


@with_options(
    WriteRequest, without=("target", "dry_run", "files", "engine", "parallelism", "max_parallelism")
)
class PreviewWrite(LimitedArguments):
    """A script over a database."""

    sql: str = Field(description="UPDATE, DELETE, INSERT, MERGE, … with semicolons between them")
    database: _Database = None


_Kind = TypeVar("_Kind", bound=Arguments)


def arguments_of(kind: type[_Kind], values: Mapping[str, Any] | None) -> _Kind:
    """Return the arguments that a client sent.

    Raises:
        InvalidRequestError: one is missing, unknown, or out of its limits.
    """
    try:
        return kind.model_validate(dict(values or {}), strict=False)
    except ValidationError as error:
        reasons = [
            f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}"
            for each in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        known = ", ".join(kind.model_fields)
        raise InvalidRequestError(
            "; ".join(reasons[:_MOST_REASONS]), hint=f"arguments are {known}"
        ) from error


def schema_of(kind: type[Arguments]) -> dict[str, Any]:
    """Return the JSON schema of arguments, without what costs an agent tokens and says nothing."""
    schema = kind.model_json_schema()
    properties = {name: _short(each) for name, each in schema.get("properties", {}).items()}
    found: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return found | ({"required": schema["required"]} if "required" in schema else {})


def _short(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an argument without titles, lengths, and the null that stands for its absence."""
    choices = schema.get("anyOf", ())
    own: dict[str, Any] = next((choice for choice in choices if choice.get("type") != "null"), {})
    merged = {**own, **{name: value for name, value in schema.items() if name != "anyOf"}}
    if merged.get("default", ...) in (None, [], {}):
        del merged["default"]
    if "items" in merged:
        merged["items"] = _short(merged["items"])
    return {name: value for name, value in merged.items() if name not in _SAYS_NOTHING}


_SAYS_NOTHING = frozenset({"title", "maxLength", "maxItems", "additionalProperties"})
_MOST_REASONS = 5


class Call(Client):
    """One call of a tool."""

    @asynccontextmanager
    async def running(self, request: QueryRequest) -> AsyncIterator[Query]:
        """Start a query for the time of a block; a call that is cancelled cancels it."""
        query = await to_thread.run_sync(self.queries.start, request)
        try:
            yield query
        finally:
            with CancelScope(shield=True):
                await to_thread.run_sync(query.close)


def database_of(visible: Catalog, name: str | None) -> Database:
    """Return the database of a name or alias; without a name the only one, or the newest.

    Raises:
        CatalogError: there is no such database.
        DatabaseNotFoundError: there is none at all.
    """
    if name is not None:
        return visible.database(name)
    found = visible.implied
    if found is None:
        known = visible.databases
        raise DatabaseNotFoundError(
            f"no database is named, and there are {len(known)}", hint="list_databases lists them"
        )
    return found
