"""What a client asks, a statement and its limits; which checkpoints an answer comes from, and which of their files it lacks.

An answer says so wherever formats and protocols have room for it:

| where | what |
|---|---|
| JSON | `databases`: name, checkpoint id and path of each |
| Arrow, Parquet | the same as JSON in the schema's metadata, under `savepointdb.databases`; `savepointdb.query_id` beside it |
| every stream, pages of Trino's protocol | the header `X-Databases`: `"chk-41";checkpoint_id=41, "chk-42";checkpoint_id=42` |
| `GET /api/queries/{id}`, which Trino's `infoUri` names | `databases` as in JSON |

An answer that was allowed to be partial and is also has the member `incomplete`, the metadata `savepointdb.incomplete`, the header
`X-Incomplete` with the number of files, or a warning of Trino's protocol.

The header is a list of RFC 9651. Names are percent-encoded; if there are too many for a header, the last member is
`more;databases=7`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson

from catalog import Catalog, Database
from service.base.principal import ANYBODY, Identity, Principal
from service.query.engines.registry import AUTO, may_scan
from service.query.sql.plan import Plan, UnreadFile
from service.query.sql.planner import planned
from service.query.sql.resolver import SystemTables
from service.query.sql.text import DIALECT

HEADER = "X-Databases"
INCOMPLETE_HEADER = "X-Incomplete"
INCOMPLETE = "savepointdb.incomplete"
DATABASES = "savepointdb.databases"
QUERY_ID = "savepointdb.query_id"
# Servers and proxies accept 4 to 8 KB of headers, all together.
_HEADER_LENGTH = 2000


@dataclass(frozen=True, slots=True)
class Origin:
    """A savepoint that a query reads.

    Attributes:
        name: the name of its database.
        checkpoint_id: the number that Flink gave it.
        path: its folder.
    """

    name: str
    checkpoint_id: int
    path: str

    @classmethod
    def of(cls, database: Database) -> Origin:
        """Return the origin of rows of a database.

        Raises:
            ReaderError: the savepoint cannot be opened.
        """
        return cls(sendable(database.name), database.checkpoint_id, sendable(database.path))


def may_read(principal: Principal, origins: Sequence[Origin]) -> bool:
    """Return whether a principal may see all the savepoints that an answer comes from."""
    return all(principal.sees(origin.name) for origin in origins)


def headers_of(origins: Sequence[Origin], incomplete: Sequence[UnreadFile] = ()) -> dict[str, str]:
    """Return the headers that list the savepoints and count the files that the answer lacks; no header for none."""
    lacking = {INCOMPLETE_HEADER: str(len(incomplete))} if incomplete else {}
    if not origins:
        return lacking
    members = [f'"{quote(origin.name)}";checkpoint_id={origin.checkpoint_id}' for origin in origins]
    kept = members
    for count in reversed(range(len(members))):
        if len(", ".join(kept)) <= _HEADER_LENGTH:
            break
        kept = [*members[:count], f"more;databases={len(members) - count}"]
    return {HEADER: ", ".join(kept), **lacking}


def metadata_of(
    query_id: str, origins: Sequence[Origin], incomplete: Sequence[UnreadFile]
) -> Mapping[str, bytes]:
    """Return the metadata of the Arrow schema of an answer."""
    lacking = {INCOMPLETE: orjson.dumps(incomplete)} if incomplete else {}
    return {QUERY_ID: query_id.encode(), DATABASES: orjson.dumps(origins), **lacking}


def sendable(text: str) -> str:
    """Return a text with `?` in place of halves of surrogate pairs, which JSON and headers refuse.

    Paths may have bytes that are not UTF-8, which Python keeps as such halves; and in JSON a statement may come with them.
    """
    return text.encode(errors="replace").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest:
    """A query as a client asks for it.

    Attributes:
        sql: one statement.
        engine: `auto` or the name of an engine.
        max_rows: most rows of the answer; None for all.
        max_bytes: most bytes of savepoints to read; None for the limit of the settings.
        timeout_s: seconds that the query may take; None for the default of the settings.
        dialect: of the statement: `duckdb`, `trino` or `flink`.
        compat: `flink` if tables may have the names of Flink's State Catalog, too; None for what the settings say.
        user: name of the owner of the query.
        principal: the databases that the user may see.
        source: the client, as it calls itself.
        schema: the database of tables without one; None for the only or the newest database.
        explain: True to answer as if EXPLAIN stood before the statement.
        describe: True to answer as if DESCRIBE stood before the statement.
        system_tables: tables beside those of the catalog.
        constants: values of `current_user` and the like, for dialects that have them.
        abandoned_after_s: seconds without a request for the query after which it is cancelled; None for never.
        parameters: values for the `?` of the statement, or for its `$name` by name.
        allow_partial: whether the rows of files that cannot be read may be left out; the answer lists the files.
        query_id: the id of the query, hard to guess; None for a new one.
        catalog: the databases that the statement may name; None for those of the service.
        written: the statement as its user wrote it, with `:name` for a parameter, as lists of queries show it; empty for `sql`.
    """

    sql: str
    engine: str = AUTO
    max_rows: int | None = None
    max_bytes: int | None = None
    timeout_s: float | None = None
    dialect: str = DIALECT
    compat: str | None = None
    user: str = ""
    principal: Principal = ANYBODY
    source: str = ""
    schema: str | None = None
    explain: bool = False
    describe: bool = False
    system_tables: SystemTables | None = None
    constants: Mapping[str, str] = field(default_factory=dict)
    abandoned_after_s: float | None = None
    parameters: Sequence[Any] | Mapping[str, Any] = ()
    allow_partial: bool = False
    query_id: str | None = None
    catalog: Catalog | None = None
    written: str = ""

    @property
    def owner(self) -> Identity:
        """The owner of the query."""
        return Identity(self.principal.source, self.user, self.principal.mask)

    def plan(
        self, catalog: Catalog, max_sql_bytes: int, compat: str = "", *, may_be_short: bool = False
    ) -> Plan:
        """Plan the statement.

        Args:
            catalog: the databases that the statement may name.
            max_sql_bytes: length of the longest statement.
            compat: if the request does not say.
            may_be_short: whether a scan may answer it, unless the request asks for more.

        Raises:
            QueryError: the statement means nothing, or is not allowed.
        """
        plan = planned(
            self.sql,
            catalog,
            dialect=self.dialect,
            max_sql_bytes=max_sql_bytes,
            schema=self.schema,
            system_tables=self.system_tables,
            constants=self.constants,
            parameters=self.parameters,
            compat=compat if self.compat is None else self.compat,
            may_be_short=may_be_short
            and may_scan(self.engine)
            and not (self.explain or self.describe or self.allow_partial),
        )
        return plan.partial() if self.allow_partial else plan
