"""The schemas of SQL: those of the catalog, and `savepointdb`, whose tables list its jobs and checkpoints.

| table | a row per |
|---|---|
| jobs | job |
| checkpoints | database, the newest of each job first; what cannot be read has an error |

They have rows only of the databases that the user sees. A database that is called `savepointdb` hides the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from catalog import Catalog, CatalogError, Database, HistoryDatabase, Job, NoSuchTableError
from catalog.freshness import AnySchema, Schema
from catalog.table import FactsTable, TableOwner
from readers import ReaderError
from service.base.errors import query_error_of

SERVICE_SCHEMA = "savepointdb"
_R = TypeVar("_R")
_Rows: TypeAlias = Callable[[Catalog], Iterator[dict[str, Any]]]


def facts_table(
    name: str,
    known: Mapping[str, tuple[str, pa.Schema, _R]],
    where: str,
    batch_of: Callable[[pa.Schema, _R], pa.RecordBatch],
) -> FactsTable:
    """Return one of the tables of a schema that lists the catalog; its rows are made when it is read.

    Args:
        name: of the table, in any case.
        known: the tables of the schema: comment, columns, and what yields the rows.
        where: the schema.
        batch_of: makes the rows, of the last two.

    Raises:
        NoSuchTableError: there is no such table; the error has near names.
    """
    found = known.get(name.casefold())
    if found is None:
        raise NoSuchTableError(name, known, where)
    comment, schema, rows = found
    return FactsTable(name.casefold(), comment, schema, lambda: batch_of(schema, rows))


class JobTables(TableOwner):
    """The tables of the schema `savepointdb`. Their rows are made when they are read: `checkpoints` reads each `_metadata`.

    Args:
        catalog: what the user sees.
    """

    name = SERVICE_SCHEMA

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @property
    def tables(self) -> list[str]:
        return list(_TABLES)

    def listed(self) -> tuple[FactsTable, ...]:
        return tuple(map(self.table, _TABLES))

    def table(self, name: str) -> FactsTable:
        """Return a table by name, in any case.

        Raises:
            NoSuchTableError: there is no such table; the error has near names.
        """

        def batch_of(schema: pa.Schema, rows: _Rows) -> pa.RecordBatch:
            return pa.RecordBatch.from_pylist(list(rows(self._catalog)), schema=schema)

        return facts_table(name, _TABLES, SERVICE_SCHEMA, batch_of)


ListedSchema: TypeAlias = AnySchema | Schema[JobTables]
Owner: TypeAlias = Database | HistoryDatabase | JobTables


def schema_called(catalog: Catalog, name: str) -> ListedSchema:
    """Return the database, the history or the schema of the service that a name stands for, in any case.

    Raises:
        CatalogError: there is none, with near names, or several.
    """
    try:
        return catalog.schema(name)
    except CatalogError:
        if name.casefold() == SERVICE_SCHEMA:
            return Schema(SERVICE_SCHEMA, JobTables(catalog))
        raise


def listed_schemas(catalog: Catalog, wanted: Iterable[str] | None = None) -> list[ListedSchema]:
    """Return the schemas that lists show.

    Args:
        catalog: what the user sees.
        wanted: the only names to list, in any case; None for all.
    """
    names = None if wanted is None else tuple(wanted)
    found: list[ListedSchema] = []
    found += catalog.all_schemas() if names is None else catalog.schemas_named(names)
    is_wanted = names is None or SERVICE_SCHEMA in {name.casefold() for name in names}
    if is_wanted and SERVICE_SCHEMA not in {schema.name.casefold() for schema in found}:
        found.append(Schema(SERVICE_SCHEMA, JobTables(catalog)))
    return found


def listed_names(catalog: Catalog) -> list[str]:
    """Return the names of `listed_schemas`; opens no savepoint."""
    return list(dict.fromkeys((*catalog.all_schema_names, SERVICE_SCHEMA)))


def _job_rows(catalog: Catalog) -> Iterator[dict[str, Any]]:
    for job in catalog.jobs():
        facts = catalog.facts_of(job)
        newest, oldest = job.databases[0], job.databases[-1]
        yield {
            "job": job.name,
            "title": job.title,
            "job_id": job.job_id,
            "job_name": None if facts is None else facts.name,
            "label": job.label,
            "state": None if facts is None else facts.state,
            "history": job.history,
            "checkpoints": len(job.databases),
            "newest": newest.name,
            "newest_created_at": newest.created_at,
            "oldest_created_at": oldest.created_at,
        }


def _checkpoint_rows(catalog: Catalog) -> Iterator[dict[str, Any]]:
    # Reads the metadata of all savepoints at the same time, not one after the other.
    catalog.described()
    for job in catalog.jobs():
        facts = catalog.facts_of(job)
        for database in job.databases:
            yield {
                "job_id": job.job_id,
                "job_name": None if facts is None else facts.name,
                **_checkpoint_row(job, database),
            }


def _checkpoint_row(job: Job, database: Database) -> dict[str, Any]:
    age, said = database.age, database.checkpoint_facts
    row: dict[str, Any] = {
        "database": database.name,
        "job": job.name,
        "label": job.label,
        "created_at": database.created_at,
        "age_s": None if age is None else age.total_seconds(),
        "status": None if said is None else said.status,
        "readable": True,
    }
    try:
        row["checkpoint_id"], row["kind"] = database.describe()
    except ReaderError as error:
        row["readable"], row["error"] = False, query_error_of(error).message
    return {**row, "size_bytes": database.size_bytes, "lineage": database.lineage}


_MOMENT = pa.timestamp("us", "UTC")
_TABLES: dict[str, tuple[str, pa.Schema, _Rows]] = {
    "jobs": (
        "the jobs",
        pa.schema(
            [
                ("job", pa.string()),
                ("title", pa.string()),
                ("job_id", pa.string()),
                ("job_name", pa.string()),
                ("label", pa.string()),
                ("state", pa.string()),
                ("history", pa.string()),
                ("checkpoints", pa.int64()),
                ("newest", pa.string()),
                ("newest_created_at", _MOMENT),
                ("oldest_created_at", _MOMENT),
            ]
        ),
        _job_rows,
    ),
    "checkpoints": (
        "the savepoints and checkpoints of all jobs",
        pa.schema(
            [
                ("database", pa.string()),
                ("job", pa.string()),
                ("job_id", pa.string()),
                ("job_name", pa.string()),
                ("label", pa.string()),
                ("checkpoint_id", pa.int64()),
                ("kind", pa.string()),
                ("created_at", _MOMENT),
                ("age_s", pa.float64()),
                ("status", pa.string()),
                ("readable", pa.bool_()),
                ("error", pa.string()),
                ("size_bytes", pa.int64()),
                ("lineage", pa.string()),
            ]
        ),
        _checkpoint_rows,
    ),
}
