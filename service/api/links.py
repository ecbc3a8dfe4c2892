"""`GET /db/…`: a database, a table or a key as an address that any program can read: `read_csv`, a spreadsheet, a link in a chat.

| address | rows |
|---|---|
| `/db` | the databases |
| `/db/{database}` | its tables |
| `/db/{database}/{table}?key=…&_key_group=…&columns=…&limit=…` | rows of a table |
| `/db?sql=…`, `/db/{database}?sql=…` | rows of a statement |

Each may end in a format: `.json`, `.jsonl`, `.csv`, `.arrow`, `.parquet`. A link becomes a statement, and `service.api.answers`
answers it as `POST /api/query`. A link whose rows cannot change has an ETag (`service.api.linktags`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import unquote

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response
from starlette.status import HTTP_304_NOT_MODIFIED

from catalog import Catalog, Database, NoSuchDatabaseError, NotAKeyError, Table, keyed_states, parse_key
from service.api.answers import ANSWERS, JSON, QueryAnswer, accepted_format, answer, formulas_escaped
from service.api.linktags import matches, tag_of
from service.api.query import QueryBody
from service.api.state import ServiceState, State, Visible
from service.auth.principal import Principal
from service.auth.user import Caller
from service.encode import FORMATS, Format
from service.errors import InvalidRequestError, InvalidValueError, NotFoundError
from service.queries.keyhints import example_of
from service.queries.query import Query as RunningQuery
from service.queries.request import QueryRequest
from service.sql.edits import quoted
from service.sql.literals import condition_of, text_constant

router = APIRouter(tags=["links"])

_FOLDER = b"/db/"
_KEY = "key"
_OF_TABLES = frozenset({_KEY, "key_group", "columns"})
_FACTS_OF_TIMERS = frozenset({"operator_id", "timer_service", "time_domain"})
_LONGEST_KEY = 100_000
_SUFFIXES = FORMATS | {known.suffix: known for known in FORMATS.values()}
_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
# An answer is data of its user: no other page may use it, and its address may hold a key.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept, Authorization",
    "X-Content-Type-Options": "nosniff",
}
_UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "the client has this answer already"}}


class LinkParameters(BaseModel):
    """The part of a link behind the question mark."""

    # A misspelt limit must not be ignored.
    model_config = ConfigDict(extra="forbid")

    sql: str | None = Field(default=None, description="a statement, in place of a table")
    key: str | None = Field(
        default=None,
        max_length=_LONGEST_KEY,
        description="a key as `savepointdb lookup` reads it: `42`, `(a,1)`",
    )
    key_group: int | None = Field(default=None, alias="_key_group", ge=0, le=32767, description="a key group")
    columns: str | None = Field(
        default=None, description='columns of the answer, with commas between them; `"a,b"` is one column'
    )
    limit: int | None = Field(
        default=None, ge=0, description="most rows; if not given, 10000 for JSON and all for other formats"
    )
    formulas: Literal["exact", "escape"] | None = Field(
        default=None, description="`escape` keeps a spreadsheet from reading a text of CSV as a formula"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A database, a table of it, or neither.

    Attributes:
        database: its name; empty for none.
        table: its name; empty for none.
        format: the format that the address ends in.
    """

    database: str = ""
    table: str = ""
    format: Format | None = None

    @property
    def file_name(self) -> str:
        """The name of a file with the answer, without its suffix."""
        return _NOT_IN_FILE_NAMES.sub("_", self.table or self.database or "answer")


@router.head("/db", include_in_schema=False)
@router.get("/db", response_model=QueryAnswer, responses=ANSWERS | _UNCHANGED)
async def databases_or_rows(
    parameters: Annotated[LinkParameters, Query()],
    request: Request,
    service: State,
    caller: Caller,
    catalog: Visible,
    accept: Annotated[str | None, Header()] = None,
) -> Response:
    """Return the rows of `sql`, or the databases; `/db.csv` and the like name the format."""
    return await _linked(Place(), parameters, request, service, caller, accept, catalog)


@router.head("/db.{suffix}", include_in_schema=False)
@router.get("/db.{suffix}", include_in_schema=False)
async def rows_in_a_format(
    suffix: str,
    parameters: Annotated[LinkParameters, Query()],
    request: Request,
    service: State,
    caller: Caller,
    catalog: Visible,
) -> Response:
    """Return the rows of `sql`, or the databases, in a format."""
    known = _SUFFIXES.get(suffix)
    if known is None:
        raise NotFoundError(f"nothing is at /db.{suffix:.100}", hint=f"formats are {', '.join(FORMATS)}")
    return await _linked(Place(format=known), parameters, request, service, caller, None, catalog)


@router.head("/db/{place:path}", include_in_schema=False)
@router.get("/db/{place:path}", response_model=QueryAnswer, responses=ANSWERS | _UNCHANGED)
async def tables_or_rows(
    place: str,
    parameters: Annotated[LinkParameters, Query()],
    request: Request,
    service: State,
    caller: Caller,
    catalog: Visible,
    accept: Annotated[str | None, Header()] = None,
) -> Response:
    """Return the rows of a table (`database/table`), of `sql`, or the tables of a database; `.csv` and the like name the format."""
    raw = request.scope.get("raw_path")
    parts = _parts(raw, place)
    found = await to_thread.run_sync(_place, parts, parameters, catalog)
    return await _linked(found, parameters, request, service, caller, accept, catalog)


async def _linked(
    place: Place,
    parameters: LinkParameters,
    request: Request,
    service: ServiceState,
    caller: Principal,
    accept: str | None,
    catalog: Catalog,
) -> Response:
    if len(request.query_params.multi_items()) != len(request.query_params):
        raise InvalidRequestError("expected each parameter of a link once, found one of them twice")
    wanted = _format(place, parameters, accept)
    sql = parameters.sql
    if sql is not None and parameters.model_fields_set & _OF_TABLES:
        raise InvalidRequestError("expected sql, or key, _key_group and columns of a table, found both")
    if sql is None:
        sql = await to_thread.run_sync(_statement, place, parameters, catalog)
    body = QueryBody(sql=sql, max_rows=parameters.limit, max_bytes=None, database=place.database or None)
    asked = body.request_of(request, service, caller, wanted)
    known = request.headers.get("if-none-match")
    if known is not None or request.method == "HEAD":
        # Planned and not run: this costs no slot, and refuses as the query would be refused.
        plan = await to_thread.run_sync(partial(asked.plan, catalog, service.settings.queries.max_sql_bytes))
        tag = await to_thread.run_sync(tag_of, asked, plan, wanted)
        headers = _headers(tag)
        if known is not None and tag is not None and matches(tag, known):
            return Response(status_code=HTTP_304_NOT_MODIFIED, headers=headers)
        if request.method == "HEAD":
            response = Response(media_type=wanted.media_type, headers=headers)
            # The length is not known before the rows are, and 0 would mean an empty file.
            del response.headers["Content-Length"]
            return response
    started, tag = await to_thread.run_sync(_started, service, asked, wanted)
    response = await answer(request, service, started, wanted)
    response.headers.update(_headers(None if started.incomplete else tag))
    if wanted is not JSON:
        response.headers["Content-Disposition"] = f'attachment; filename="{place.file_name}.{wanted.suffix}"'
    return response


def _started(service: ServiceState, asked: QueryRequest, wanted: Format) -> tuple[RunningQuery, str | None]:
    started = service.queries.start(asked)
    try:
        return started, tag_of(asked, started.plan, wanted)
    except BaseException:
        started.close()
        raise


def _headers(tag: str | None) -> dict[str, str]:
    if tag is None:
        return _HEADERS | {"Cache-Control": "private, no-store"}
    # A cache asks each time: a grant may end, and `latest` moves on.
    return _HEADERS | {"Cache-Control": "private, no-cache", "ETag": tag}


def _format(place: Place, parameters: LinkParameters, accept: str | None) -> Format:
    wanted = place.format or accepted_format(accept)
    if parameters.formulas is None:
        return wanted
    if wanted.name != "csv":
        raise InvalidRequestError(f"expected formulas only for csv, found them for {wanted.name}")
    return formulas_escaped(parameters.formulas)


def _parts(raw: bytes | None, place: str) -> list[str]:
    """Return the names between the slashes of an address; an escaped slash is part of a name."""
    behind = b"" if raw is None else raw.partition(_FOLDER)[2]
    try:
        parts = [unquote(part, errors="strict") for part in behind.decode("ascii").split("/")]
    except UnicodeDecodeError:
        parts = []
    # A proxy that sends no raw path, or another one, has unescaped the slashes.
    return parts if "/".join(parts) == place else place.split("/")


def _place(parts: Sequence[str], parameters: LinkParameters, catalog: Catalog) -> Place:
    name, dot, suffix = parts[-1].rpartition(".")
    known = _SUFFIXES.get(suffix) if dot else None
    parts = parts if known is None else [*parts[:-1], name]
    if parameters.sql is not None or len(parts) == 1:
        return Place(database="/".join(parts), format=known)
    split = 1 if len(parts) == 2 else _length_of_database(parts, catalog)
    return Place(database="/".join(parts[:split]), table="/".join(parts[split:]), format=known)


def _length_of_database(parts: Sequence[str], catalog: Catalog) -> int:
    """Return how many of the names are the name of a database, such as the two of `jobA/chk-42`: as many as make one."""
    for count in reversed(range(1, len(parts))):
        try:
            catalog.schema("/".join(parts[:count]))
        except NoSuchDatabaseError:
            continue
        return count
    return len(parts) - 1


def _statement(place: Place, parameters: LinkParameters, catalog: Catalog) -> str:
    """Return the statement of a link without `sql`."""
    if not place.table:
        if parameters.model_fields_set & _OF_TABLES:
            raise InvalidRequestError(
                "expected key, _key_group and columns behind a table",
                hint="a link to a table is /db/database/table",
            )
        return "SHOW TABLES" if place.database else "SHOW DATABASES"
    conditions = []
    if parameters.key is not None:
        found = catalog.schema(place.database).database
        conditions.append(_key_condition(found, found.table(place.table), parameters.key))
    if parameters.key_group is not None:
        conditions.append(f"_key_group = {parameters.key_group}")
    columns = "*" if parameters.columns is None else ", ".join(map(quoted, _names(parameters.columns)))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {columns} FROM {quoted(place.database)}.{quoted(place.table)}{where}"


def _names(text: str) -> list[str]:
    try:
        names = next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise InvalidRequestError(
            f"expected columns with commas between them, found {text!r:.100}"
        ) from error
    if not all(names) or not names:
        raise InvalidRequestError(f"expected columns with commas between them, found {text!r:.100}")
    return names


def _key_condition(database: object, table: Table, text: str) -> str:
    if _KEY not in table.schema.names:
        raise InvalidRequestError(
            f"expected a table with keys, found {table.name!r}",
            hint=f"its columns are {', '.join(table.schema.names)}",
        )
    if isinstance(database, Database) and _FACTS_OF_TIMERS.issubset(table.schema.names):
        conditions = list(_timers_conditions(database, table, text))
        if conditions:
            return f"({' OR '.join(conditions)})"
        raise _no_key(table, f"expected a key of one of its timers, found {text!r:.100}")
    try:
        key = parse_key(text, table.schema.field(_KEY).type, is_unquoted=_KEY in table.unquoted)
    except NotAKeyError as error:
        raise _no_key(table, str(error)) from error
    return condition_of(_KEY, key.array)


def _timers_conditions(database: Database, table: Table, text: str) -> Iterator[str]:
    """Yield a condition for each timer service that may have the key: services have keys of different types."""
    for state in keyed_states(database):
        if state.table.name != table.name:
            continue
        try:
            condition = condition_of(_KEY, state.in_column(state.parse(text)))
        except NotAKeyError:
            continue
        facts = [f"{name} = {text_constant(value)}" for name, value in state.facts.items()]
        yield f"({' AND '.join([condition, *facts])})"


def _no_key(table: Table, reason: str) -> InvalidValueError:
    example = example_of(table)
    hint = None if example is None else f"keys of {table.name!r} look like {example}"
    return InvalidValueError(f"this is no key of {table.name!r}: {reason}", hint=hint)
