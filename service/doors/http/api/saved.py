"""`/api/saved`: saved queries; `GET /saved/{name}`: the rows of one, as a link (`service.doors.http.api.links.addresses`).

| call | needs |
|---|---|
| `GET /api/saved`, `GET /api/saved/{name}` | to see the database of the query, where it names one |
| `GET /saved/{name}.csv?key=…` | the same; it reads what its caller may read |
| `PUT`, `DELETE /api/saved/{name}` | the setting `save_queries`, and a grant such as `saved:prod/*` for the database |

A query that its caller may not see is not there. Parameters of a link that belong to it and not to the query begin with `_`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.status import HTTP_204_NO_CONTENT

from service.base.errors import InvalidRequestError, NotFoundError
from service.doors.http.api.answers import ANSWERS, QueryAnswer, accepted_format, max_rows_of, with_formulas
from service.doors.http.api.links.answers import UNCHANGED, Formulas, MostRows, check_each_once, link_answer
from service.doors.http.api.state import Asking
from service.doors.http.errors import FAILURES
from service.doors.operations.logs import audit_saved
from service.query.encode import FORMATS, split_suffix
from service.query.sql.text import DIALECT
from service.tasks.saved.query import InvalidParameterError, SavedQuery, parameter
from service.tasks.saved.store import UserQueries

router = APIRouter(tags=["saved queries"])

_OF_LINKS = ("_limit", "_formulas", "_database")
_ANY = "*"


class ParameterBody(BaseModel):
    """What is known of a parameter."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(default="text", description="text, integer, number, boolean, date or timestamp")
    default: str | None = Field(
        default=None, description="the text that stands where nobody gives one; null if somebody must"
    )


class SavedParameter(ParameterBody):
    """A parameter of a saved query: `:name` in its statement."""

    name: str


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


async def _user_queries(client: Asking) -> UserQueries:
    return client.saved


Mine = Annotated[UserQueries, Depends(_user_queries)]


@router.get("/api/saved", responses=FAILURES, response_model=SavedList)
def list_saved(mine: Mine) -> UserQueries:
    """List the saved queries whose databases this user sees."""
    return mine


@router.get("/api/saved/{name}", responses=FAILURES, response_model=SavedEntry)
def describe_saved(name: str, mine: Mine) -> SavedQuery:
    """Return a saved query."""
    return mine.get(name)


@router.put("/api/saved/{name}", responses=FAILURES, response_model=SavedEntry)
def save_query(
    name: str,
    body: SavedBody,
    mine: Mine,
    if_none_match: Annotated[str | None, Header(description="`*` refuses to replace a query")] = None,
) -> SavedQuery:
    """Save a query, or replace one; needs a grant such as `saved:prod/*` for its database."""
    if if_none_match not in (None, _ANY):
        raise InvalidRequestError(f"expected * in If-None-Match, found {if_none_match!r:.100}")
    facts = body.model_dump()
    facts["declared"] = {
        called: parameter(called, **known) for called, known in facts.pop("parameters").items()
    }
    query = mine.put(name, is_new=if_none_match == _ANY, **facts)
    audit_saved(mine.caller.identity, "written", name, query.database)
    return query


@router.delete("/api/saved/{name}", responses=FAILURES, status_code=HTTP_204_NO_CONTENT)
def delete_saved(name: str, mine: Mine) -> None:
    """Delete a query that a client saved; needs a grant such as `saved:prod/*` for its database."""
    audit_saved(mine.caller.identity, "deleted", name, mine.delete(name).database)


@router.head("/saved/{file}", include_in_schema=False)
@router.get("/saved/{file}", response_model=QueryAnswer, responses=ANSWERS | UNCHANGED)
async def rows_of_saved(
    file: str,
    request: Request,
    client: Asking,
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
    query = await to_thread.run_sync(client.saved.get, name)
    plain = client.request("", max_rows=max_rows_of(limit, wanted, client.served.settings))
    asked = query.asked(plain, _given(request), database)
    return await link_answer(request, client, asked, wanted, name)


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
