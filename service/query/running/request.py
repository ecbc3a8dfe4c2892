"""What a client asks: a statement and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catalog import Catalog
from service.base.principal import ANYBODY, Identity, Principal
from service.query.engines.registry import AUTO, may_scan
from service.query.sql.dialects import planned
from service.query.sql.parser import DIALECT
from service.query.sql.plan import Plan
from service.query.sql.resolver import SystemTables


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
        return Identity(self.principal.source, self.user)

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
