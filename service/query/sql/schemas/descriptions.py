"""DESCRIBE of a database, of a history, or of another schema: a row for each thing that is known of it."""

from __future__ import annotations

from collections.abc import Iterator

from catalog import Database, HistoryDatabase
from service.query.sql.schemas.named import Owner

COLUMNS = ("name", "value")


def facts_of(owner: Owner) -> Iterator[tuple[str, str | None]]:
    """Yield what is known of a schema, each with its name; reads the headers of all state files.

    Raises:
        ReaderError: it cannot be read.
    """
    yield "database", owner.name
    if isinstance(owner, Database):
        yield from _of_savepoint(owner)
    elif isinstance(owner, HistoryDatabase):
        yield "kind", "HISTORY"
        yield "checkpoints", str(len(owner.databases))
        yield "newest", owner.databases[0].name
        yield "oldest", owner.databases[-1].name
    else:
        yield "kind", "LISTINGS"
    yield "tables", str(len(owner.tables))


def _of_savepoint(database: Database) -> Iterator[tuple[str, str | None]]:
    made = database.created_at
    yield "kind", database.kind
    yield "checkpoint_id", str(database.checkpoint_id)
    yield "created_at", None if made is None else f"{made:%Y-%m-%d %H:%M:%S}+00"
    yield "job", database.job.title or None
    yield "job_id", database.job.job_id
    yield "flink", str(database.savepoint.metadata.flink_versions)
    yield "operators", str(len(database.savepoint.operators))
    yield "size_bytes", str(database.size_bytes)
