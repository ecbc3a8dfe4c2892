"""`GET /db/…`: a database, a table or a key as an address that any program can read: `read_csv`, a spreadsheet, a link in a chat.

| address | rows |
|---|---|
| `/db` | the databases |
| `/db/{database}` | its tables |
| `/db/{database}/{table}?key=…&_key_group=…&columns=…&limit=…` | rows of a table |
| `/db/{database}/{table}?where=…` | rows for which a condition of SQL holds |
| `/db/{database}/{table}?value=100&sort=-value,key` | rows that have a value in a column; sorted, `-` for the largest first |
| `/db?sql=…`, `/db/{database}?sql=…` | rows of a statement |

Each may end in a format: `.json`, `.jsonl`, `.csv`, `.arrow`, `.parquet`. A browser that opens one without a format gets the page
(`service.doors.page.router`), which shows what is at the address. A link becomes a statement, and `service.doors.http.api.answers`
answers it as `POST /api/query`. A link whose rows cannot change has an ETag (`service.doors.http.api.links.answers`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import unquote

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp
from starlette.responses import Response

from catalog import (
    Catalog,
    Database,
    NoSuchColumnError,
    NoSuchDatabaseError,
    NotAKeyError,
    Table,
    keyed_states,
    parse_key,
)
from catalog.errors import near_names
from service.base.errors import (
    ForbiddenError,
    InvalidRequestError,
    InvalidValueError,
    NotFoundError,
    QuerySyntaxError,
    near_names_hint,
)
from service.doors.http.api.answers import ANSWERS, QueryAnswer, accepted_format, max_rows_of, with_formulas
from service.doors.http.api.links.answers import UNCHANGED, Formulas, MostRows, check_each_once, link_answer
from service.doors.http.api.query import COMPAT, dialect_of
from service.doors.http.api.state import Asking
from service.doors.served import Client
from service.query.encode import FORMATS, Format, split_suffix
from service.query.running.run import example_of
from service.query.sql.resolver import Resolver
from service.query.sql.text import condition_of, parsed, quoted, text_constant, too_deep

router = APIRouter(tags=["links"])

_FOLDER = b"/db/"
_KEY = "key"
_OF_TABLES = frozenset({_KEY, "key_group", "where", "columns", "sort"})
_FACTS_OF_TIMERS = frozenset({"operator_id", "timer_service", "time_domain"})
_LONGEST_KEY = 100_000
_LONGEST_CONDITION = 100_000
_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class LinkParameters(BaseModel):
    """The part of a link behind the question mark."""

    # Any other parameter is a column; a misspelt limit is none, and not ignored.
    model_config = ConfigDict(extra="allow")

    sql: str | None = Field(default=None, description="a statement, in place of a table")
    key: str | None = Field(
        default=None,
        max_length=_LONGEST_KEY,
        description="a key as `savepointdb lookup` reads it: `42`, `(a,1)`",
    )
    key_group: int | None = Field(default=None, alias="_key_group", ge=0, le=32767, description="a key group")
    where: str | None = Field(
        default=None,
        max_length=_LONGEST_CONDITION,
        description="a condition of SQL about the columns of the table: `value > 100`",
    )
    columns: str | None = Field(
        default=None, description='columns of the answer, with commas between them; `"a,b"` is one column'
    )
    sort: str | None = Field(
        default=None,
        description="columns that the rows are sorted by, with commas between them; `-value`: largest first",
    )
    limit: MostRows = None
    compat: str | None = Field(default=None, description=COMPAT)
    formulas: Formulas = None

    @property
    def values(self) -> dict[str, str]:
        """The other parameters: columns, and the value that they must have."""
        return self.model_extra or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
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
@router.get("/db", response_model=QueryAnswer, responses=ANSWERS | UNCHANGED)
async def databases_or_rows(
    parameters: Annotated[LinkParameters, Query()],
    request: Request,
    client: Asking,
    accept: Annotated[str | None, Header()] = None,
) -> Response:
    """Return the rows of `sql`, or the databases; `/db.csv` and the like name the format."""
    return await _linked(Address(), parameters, request, client, accept)


@router.head("/db.{suffix}", include_in_schema=False)
@router.get("/db.{suffix}", include_in_schema=False)
async def rows_in_a_format(
    suffix: str,
    parameters: Annotated[LinkParameters, Query()],
    request: Request,
    client: Asking,
) -> Response:
    """Return the rows of `sql`, or the databases, in a format."""
    known = split_suffix(f"db.{suffix}")[1]
    if known is None:
        raise NotFoundError(f"nothing is at /db.{suffix:.100}", hint=f"formats are {', '.join(FORMATS)}")
    return await _linked(Address(format=known), parameters, request, client, None)


@router.head("/db/{address:path}", include_in_schema=False)
@router.get("/db/{address:path}", response_model=QueryAnswer, responses=ANSWERS | UNCHANGED)
async def tables_or_rows(
    address: str,
    parameters: Annotated[LinkParameters, Query()],
    request: Request,
    client: Asking,
    accept: Annotated[str | None, Header()] = None,
) -> Response:
    """Return the rows of a table (`database/table`), of `sql`, or the tables of a database; `.csv` and the like name the format."""
    parts, known = _parts(request.scope.get("raw_path"), address)
    found = await to_thread.run_sync(_address_of, parts, known, parameters, client.visible)
    return await _linked(found, parameters, request, client, accept)


async def _linked(
    address: Address,
    parameters: LinkParameters,
    request: Request,
    client: Client,
    accept: str | None,
) -> Response:
    check_each_once(request)
    wanted = with_formulas(address.format or accepted_format(accept), parameters.formulas)
    sql = parameters.sql
    if parameters.values and (sql is not None or not address.table):
        raise _unknown(next(iter(parameters.values)), ())
    if sql is not None and parameters.model_fields_set & _OF_TABLES:
        raise InvalidRequestError(
            "expected sql, or key, _key_group, where, columns and sort of a table, found both"
        )
    if sql is None:
        sql = await to_thread.run_sync(_statement, address, parameters, client.visible)
    asked = client.request(
        sql,
        max_rows=max_rows_of(parameters.limit, wanted, client.served.settings),
        dialect=dialect_of(parameters.compat),
        compat=parameters.compat,
        schema=address.database or None,
    )
    return await link_answer(request, client, asked, wanted, address.file_name)


def _parts(raw: bytes | None, address: str) -> tuple[list[str], Format | None]:
    """Return the names between the slashes of an address, and the format behind the last; an escaped slash or dot is part of a name."""
    behind = b"" if raw is None else raw.partition(_FOLDER)[2]
    try:
        *folders, last = behind.decode("ascii").split("/")
        stem, known = split_suffix(last)
        names = [unquote(part, errors="strict") for part in (*folders, stem, last)]
        if "/".join((*names[:-2], names[-1])) == address:
            return names[:-1], known
    except UnicodeDecodeError:
        pass
    # A proxy that sends no raw path, or another one, has unescaped the slashes.
    *folders, last = address.split("/")
    stem, known = split_suffix(last)
    return [*folders, stem], known


def _address_of(
    parts: Sequence[str], known: Format | None, parameters: LinkParameters, catalog: Catalog
) -> Address:
    if parameters.sql is not None or len(parts) == 1:
        return Address(database="/".join(parts), format=known)
    split = 1 if len(parts) == 2 else _length_of_database(parts, catalog)
    return Address(database="/".join(parts[:split]), table="/".join(parts[split:]), format=known)


def _length_of_database(parts: Sequence[str], catalog: Catalog) -> int:
    """Return how many of the names are the name of a database, such as the two of `jobA/chk-42`: as many as make one."""
    for count in reversed(range(1, len(parts))):
        try:
            catalog.schema("/".join(parts[:count]))
        except NoSuchDatabaseError:
            continue
        return count
    return len(parts) - 1


def _statement(address: Address, parameters: LinkParameters, catalog: Catalog) -> str:
    """Return the statement of a link without `sql`."""
    if not address.table:
        if parameters.model_fields_set & _OF_TABLES:
            raise InvalidRequestError(
                "expected key, _key_group, where, columns and sort behind a table",
                hint="a link to a table is /db/database/table",
            )
        return "SHOW TABLES" if address.database else "SHOW DATABASES"
    conditions = []
    order = ""
    if parameters.key is not None:
        found = catalog.schema(address.database).database
        conditions.append(_key_condition(found, found.table(address.table), parameters.key))
    if parameters.values or parameters.sort is not None:
        # Not from the catalog alone: information_schema has tables, too.
        table = Resolver("", catalog, None, None).table((address.database, address.table)).table
        conditions += (_value_condition(table, name, text) for name, text in parameters.values.items())
        order = "" if parameters.sort is None else f" ORDER BY {_order(table, parameters.sort)}"
    if parameters.key_group is not None:
        conditions.append(f"_key_group = {parameters.key_group}")
    if parameters.where is not None:
        conditions.append(_condition(parameters.where))
    columns = (
        "*" if parameters.columns is None else ", ".join(map(quoted, _names("columns", parameters.columns)))
    )
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {columns} FROM {quoted(address.database)}.{quoted(address.table)}{where}{order}"


def _condition(text: str) -> str:
    """Return a condition in brackets; nothing that the text holds reaches behind them."""
    # A comment at its end must not hide the bracket.
    bracketed = f"({text}\n)"
    try:
        tree = parsed(f"SELECT 1 WHERE {bracketed}")
    except RecursionError as error:
        raise too_deep() from error
    except (QuerySyntaxError, ForbiddenError) as error:
        raise InvalidRequestError(
            f"expected a condition of SQL as where, found {text!r:.100}: {error}"
        ) from error
    parts = {name for name, part in tree.args.items() if part}
    if not parts <= {"expressions", "where"} or not isinstance(tree.args["where"].this, exp.Paren):
        raise InvalidRequestError(f"expected one condition of SQL as where, found {text!r:.100}")
    return bracketed


def _names(parameter: str, text: str) -> list[str]:
    try:
        names = next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise InvalidRequestError(
            f"{parameter}: expected columns with commas between them, found {text!r:.100}"
        ) from error
    if not all(names) or not names:
        raise InvalidRequestError(
            f"{parameter}: expected columns with commas between them, found {text!r:.100}"
        )
    return names


def _value_condition(table: Table, name: str, text: str) -> str:
    """Return the condition that a column has a value."""
    column = _column(table, name)
    if column is None:
        raise _unknown(name, table.schema.names, f" or a column of {table.name!r}")
    try:
        value = parse_key(text, table.schema.field(column).type, is_unquoted=column in table.unquoted)
    except NotAKeyError as error:
        raise InvalidValueError(
            f"this is no value of the column {column!r}: {error}",
            hint=f"where takes any condition: where={quoted(column)} IS NULL",
        ) from error
    return condition_of(quoted(column), value.array)


def _order(table: Table, text: str) -> str:
    """Return what stands behind ORDER BY."""
    order = []
    for name in _names("sort", text):
        column = _column(table, name)
        is_descending = column is None and name.startswith("-")
        wanted = name[1:] if is_descending else name
        column = column or _column(table, wanted)
        if column is None:
            raise NoSuchColumnError(wanted, table.schema.names, table.name)
        order.append(f"{quoted(column)} {'DESC' if is_descending else 'ASC'} NULLS LAST")
    return ", ".join(order)


def _column(table: Table, name: str) -> str | None:
    """Return the column of a name in any case; None if there is none."""
    return next((str(one) for one in table.schema.names if one.casefold() == name.casefold()), None)


def _unknown(name: str, columns: Sequence[str], more: str = "") -> InvalidRequestError:
    known = [field.alias or own for own, field in LinkParameters.model_fields.items()]
    near = near_names(name, [*known, *columns])
    return InvalidRequestError(
        f"expected a parameter of links{more}, found {name!r:.100}",
        hint=near_names_hint(near) or f"parameters are {', '.join(known)}",
    )


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
