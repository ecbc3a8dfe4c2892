"""`/api/saved`: saved queries; `GET /saved/{name}`: the rows of one, as a link (`service.doors.http.api.links`).

| call | needs |
|---|---|
| `GET /api/saved`, `GET /api/saved/{name}` | to see the database of the query, where it names one |
| `GET /saved/{name}.csv?key=…` | the same; it reads what its caller may read |
| `PUT`, `DELETE /api/saved/{name}` | the setting `save_queries`, and a grant such as `saved:prod/*` for the database |

A query that its caller may not see is not there. Parameters of a link that belong to it and not to the query begin with `_`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.status import HTTP_204_NO_CONTENT

from catalog import Catalog, NoSuchDatabaseError
from catalog.errors import AmbiguousDatabaseError
from service.base.errors import ForbiddenError, InvalidRequestError, NotFoundError
from service.base.principal import Principal
from service.doors.http.api.answers import ANSWERS, QueryAnswer, accepted_format, with_formulas
from service.doors.http.api.linkanswers import UNCHANGED, Formulas, MostRows, check_each_once, link_answer
from service.doors.http.api.query import QueryBody
from service.doors.http.api.state import ServiceState, State, Visible
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import FAILURES
from service.doors.operations.logs import audit_saved
from service.doors.served import Served
from service.query.encode import FORMATS, split_suffix
from service.query.running.request import sendable
from service.query.sql.text import DIALECT
from service.tasks.saved.parameters import InvalidParameterError
from service.tasks.saved.query import SavedQuery, parameter, saved_query

router = APIRouter(tags=["saved queries"])

_OF_LINKS = ("_limit", "_formulas", "_database")
_ANY = "*"


class SavedParameter(BaseModel):
    """A parameter of a saved query: `:name` in its statement."""

    name: str
    type: str = Field(description="text, integer, number, boolean, date or timestamp")
    default: str | None = Field(
        default=None, description="the text that stands where nobody gives one; null if somebody must"
    )


class SavedEntry(BaseModel):
    """A saved query."""

    name: str
    sql: str
    description: str
    database: str | None = Field(description="the database of tables without one")
    dialect: str
    parameters: list[SavedParameter] = Field(description="in the order of the statement")
    link: str = Field(description="address of the rows, without parameters, from the folder of the service")
    may_change: bool = Field(description="whether this user may replace or delete it")
    saved_by: str | None = Field(
        default=None, description="the user who saved it; null if it is written by hand"
    )
    saved_at: str | None = Field(default=None, description="when, in ISO 8601")


class SavedList(BaseModel):
    """The saved queries that this user sees, by name."""

    may_save: bool = Field(description="whether this user may save queries at all, here")
    queries: list[SavedEntry]


class ParameterBody(BaseModel):
    """What is known of a parameter."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(default="text", description="text, integer, number, boolean, date or timestamp")
    default: str | None = Field(default=None, description="the text that stands where nobody gives one")


class SavedBody(BaseModel):
    """A query to save."""

    # A misspelt option must not be ignored.
    model_config = ConfigDict(extra="forbid")

    sql: str = Field(description="one statement, with `:name` for each parameter")
    description: str = ""
    database: str | None = Field(default=None, description="the database of tables without one")
    dialect: str = Field(default=DIALECT, description="SQL dialect: duckdb, trino or flink")
    parameters: dict[str, ParameterBody] = Field(
        default_factory=dict, description="those that are no texts, or have defaults"
    )


@router.get("/api/saved", responses=FAILURES)
def list_saved(service: State, caller: Caller, catalog: Visible) -> SavedList:
    """List the saved queries whose databases this user sees."""
    found = visible_queries(service, caller, catalog)
    return SavedList(
        may_save=_are_open(service) and caller.saves,
        queries=[_entry(query, service, caller) for query in found],
    )


@router.get("/api/saved/{name}", responses=FAILURES)
def describe_saved(name: str, service: State, caller: Caller, catalog: Visible) -> SavedEntry:
    """Return a saved query."""
    return _entry(visible_query(name, service, caller, catalog), service, caller)


@router.put("/api/saved/{name}", responses=FAILURES)
def save_query(
    name: str,
    body: SavedBody,
    service: State,
    caller: Caller,
    catalog: Visible,
    if_none_match: Annotated[str | None, Header(description="`*` refuses to replace a query")] = None,
) -> SavedEntry:
    """Save a query, or replace one; needs a grant such as `saved:prod/*` for its database."""
    _check_open(service)
    sees = _sees(caller, catalog)
    if if_none_match not in (None, _ANY):
        raise InvalidRequestError(f"expected * in If-None-Match, found {if_none_match!r:.100}")
    # One that the caller does not see is not there, and so is one that is misspelt.
    meant = None if body.database is None else catalog.schema(body.database).database.name
    _check_may_save(meant, caller)
    declared = {
        called: parameter(called, kind=given.type, default=given.default)
        for called, given in body.parameters.items()
    }
    query = saved_query(
        name,
        sql=body.sql,
        description=body.description,
        database=body.database,
        dialect=body.dialect,
        declared=declared,
        saved_by=sendable(caller.name),
        saved_at=datetime.now(UTC).isoformat(timespec="seconds"),
        saved_for="" if meant is None or meant == body.database else meant,
    )
    before = service.saved.all(sees).get(name)
    if before is not None and not _may_change(before, caller):
        raise ForbiddenError(f"expected a name that is free, found {name!r} taken by another query")
    service.saved.put(query, is_new=if_none_match == _ANY, sees=sees)
    audit_saved(caller.identity, "written", name, query.database)
    return _entry(query, service, caller)


@router.delete("/api/saved/{name}", responses=FAILURES, status_code=HTTP_204_NO_CONTENT)
def delete_saved(name: str, service: State, caller: Caller, catalog: Visible) -> None:
    """Delete a query that a client saved; needs a grant such as `saved:prod/*` for its database."""
    _check_open(service)
    query = visible_query(name, service, caller, catalog)
    _check_may_save(_owner(query), caller)
    service.saved.delete(name, _sees(caller, catalog))
    audit_saved(caller.identity, "deleted", name, query.database)


@router.head("/saved/{file}", include_in_schema=False)
@router.get("/saved/{file}", response_model=QueryAnswer, responses=ANSWERS | UNCHANGED)
async def rows_of_saved(
    file: str,
    request: Request,
    service: State,
    caller: Caller,
    catalog: Visible,
    limit: Annotated[MostRows, Query(alias="_limit")] = None,
    formulas: Annotated[Formulas, Query(alias="_formulas")] = None,
    database: Annotated[
        str | None,
        Query(alias="_database", max_length=1000, description="another database than that of the query"),
    ] = None,
    accept: Annotated[str | None, Header()] = None,
) -> Response:
    """Return the rows of a saved query: each parameter of it is one of the address; `.csv` and the like name the format."""
    name, known = split_suffix(file)
    # No saved query has a dot in its name.
    if "." in name:
        raise NotFoundError(f"nothing is at /saved/{file:.100}", hint=f"formats are {', '.join(FORMATS)}")
    wanted = with_formulas(known or accepted_format(accept), formulas)
    query = await to_thread.run_sync(visible_query, name, service, caller, catalog)
    bound = query.bound(_given(request))
    body = QueryBody(
        sql=query.sql,
        max_rows=limit,
        max_bytes=None,
        dialect=query.dialect,
        database=database or query.database,
    )
    asked = body.request_of(request, service, caller, wanted, bound)
    return await link_answer(request, service, asked, catalog, wanted, name)


def _given(request: Request) -> Mapping[str, str]:
    """Return the texts of an address that are for parameters of the query."""
    check_each_once(request)
    found = [(name, text) for name, text in request.query_params.items() if name not in _OF_LINKS]
    for name, _ in found:
        if name.startswith("_"):
            raise InvalidParameterError(
                f"expected {', '.join(_OF_LINKS)} or a parameter of the query, found {name:.100}"
            )
    return dict(found)


def visible_queries(service: Served, caller: Principal, catalog: Catalog) -> list[SavedQuery]:
    """Return the queries that the caller may see, by their names."""
    return list(service.saved.all(_sees(caller, catalog)).values())


def visible_query(name: str, service: Served, caller: Principal, catalog: Catalog) -> SavedQuery:
    """Return a query that the caller may see.

    Raises:
        NoSuchSavedQueryError: there is none of this name.
    """
    return service.saved.get(name, _sees(caller, catalog))


def _sees(caller: Principal, catalog: Catalog) -> Callable[[SavedQuery], bool]:
    return lambda query: _is_visible(query, caller, catalog)


def _owner(query: SavedQuery) -> str | None:
    """Return the name of the database whose users have a query; None for all users."""
    return query.saved_for or query.database


def _is_visible(query: SavedQuery, caller: Principal, catalog: Catalog) -> bool:
    owner = _owner(query)
    # A checkpoint that is gone had a name, too.
    if owner is None or caller.sees_everything or caller.sees(owner):
        return True
    try:
        found = catalog.schema(owner).database.name
    except NoSuchDatabaseError:
        return False
    except AmbiguousDatabaseError:
        return query.is_written_by_hand
    # What an alias stands for differs by user. Who writes the file means each user's own.
    return query.is_written_by_hand or found.casefold() == owner.casefold()


def _are_open(service: ServiceState) -> bool:
    return service.saved.is_open and service.settings.queries.save_queries


def _check_open(service: ServiceState) -> None:
    if not _are_open(service):
        raise ForbiddenError(
            "this service saves no queries of clients",
            hint="its owner can allow it with the settings saved_queries and save_queries",
        )


def _may_change(query: SavedQuery, caller: Principal) -> bool:
    return caller.may_save(_owner(query))


def _check_may_save(database: str | None, caller: Principal) -> None:
    if not caller.may_save(database):
        wanted = "for any database" if database is None else f"for {database!r}"
        raise ForbiddenError(
            f"expected a user who may save queries {wanted}", hint="a grant such as saved:prod/* allows it"
        )


def _entry(query: SavedQuery, service: ServiceState, caller: Principal) -> SavedEntry:
    return SavedEntry(
        name=query.name,
        sql=query.sql,
        description=query.description,
        database=query.database,
        dialect=query.dialect,
        parameters=[
            SavedParameter(name=one.name, type=one.type, default=one.default) for one in query.parameters
        ],
        link=f"saved/{quote(query.name)}",
        may_change=_are_open(service) and not query.is_written_by_hand and _may_change(query, caller),
        saved_by=query.saved_by or None,
        saved_at=query.saved_at or None,
    )
