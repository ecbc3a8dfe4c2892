"""What a comparison is asked; two savepoints → the query that compares them → `Comparison`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from catalog import Catalog, CatalogError, Database
from readers import ReaderError
from service.base.errors import DatabaseNotFoundError, QueryError, query_error_of
from service.query.sql.tablefunctions import PREVIOUS, one_before
from service.tasks.diff.comparison import Comparison, comparison_of, gone_or, summary_statement
from service.tasks.request import TaskRequest, option
from service.tasks.task import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRequest(TaskRequest):
    """Two savepoints to compare."""

    before: str = option(
        "name or alias of the database before; `previous`: the one before `after` in its job",
        default=PREVIOUS,
    )
    after: str | None = option("name or alias of the database after; default: the newest", default=None)
    operator: str | None = option(
        "Compare the states of this operator: its uid, name or id.", default=None, metavar="NAME"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two savepoints that are compared.

    Attributes:
        before, after: the databases.
        operator_id: of the only operator to compare; None for all.
        skipped: savepoints between the two that cannot be read, in sentences.
    """

    before: Database
    after: Database
    operator_id: str | None
    skipped: tuple[str, ...]

    @property
    def statement(self) -> str:
        """The statement whose rows become the comparison."""
        return summary_statement(self.before.name, self.after.name, self.operator_id)


def compared_of(request: DiffRequest, catalog: Catalog) -> Compared:
    """Return what is compared.

    Raises:
        CatalogError: there is no such database, or no such operator.
        DatabaseNotFoundError: there is no savepoint, or none before it.
    """
    after = catalog.newest if request.after is None else catalog.database(request.after)
    if after is None:
        raise DatabaseNotFoundError("expected two savepoints of a job, found none")
    before, skipped = _before(catalog, request.before, after)
    operator_id = None if request.operator is None else _operator_id(request.operator, before, after)
    return Compared(before=before, after=after, operator_id=operator_id, skipped=skipped)


def comparison_by(compared: Compared, context: Context) -> Comparison:
    """Return the comparison that a query of the caller finds.

    Raises:
        QueryError: the query fails, or a savepoint cannot be read any more.
    """
    before, after = compared.before, compared.after
    try:
        with context.start(replace(context.asked, sql=compared.statement)) as query:
            rows = pa.Table.from_batches(list(query.batches()), query.schema)
            return comparison_of(before, after, rows, compared.operator_id)
    except (QueryError, ReaderError) as error:
        raise gone_or(query_error_of(error), (before, after)) from error


def _before(catalog: Catalog, name: str, after: Database) -> tuple[Database, tuple[str, ...]]:
    """Return the database of a name, which may be that of the one before another, as in SQL."""
    if name.casefold() != PREVIOUS or PREVIOUS in map(str.casefold, catalog.databases):
        return catalog.database(name), ()
    before, skipped = one_before(after, catalog.jobs())
    if before is None:
        raise DatabaseNotFoundError(
            f"there is no savepoint before {after.name!r} in its job that can be read"
        )
    return before, skipped


def _operator_id(name: str, before: Database, after: Database) -> str:
    """Return the id of an operator of either database, by any of its names."""
    try:
        return after.operator_of(name)
    except CatalogError as error:
        try:
            return before.operator_of(name)
        except CatalogError:
            raise error from None
