"""What the shell says first of the savepoints that it has opened."""

from __future__ import annotations

from collections.abc import Iterator

from catalog import CatalogError, Database
from readers import ReaderError
from service.base.errors import query_error_of
from service.doors.cli.shell.console import Console
from service.query.encode import counted, dated, printable
from service.query.sql.schemas.named import schema_called


def banner_of(console: Console) -> str:
    """Return a line or two: the database, its age, its job, how many tables it has, and how many other databases there are."""
    return "\n".join(_lines(console))


def _lines(console: Console) -> Iterator[str]:
    name = console.view.database
    if name is None:
        yield f"{counted(len(console.catalog.databases), 'database')}: .database NAME chooses one, .databases lists them"
        return
    try:
        owner = schema_called(console.catalog, name).database
        facts = list(_facts(owner)) if isinstance(owner, Database) else []
        facts.append(counted(len(owner.tables), "table"))
    except (CatalogError, ReaderError) as error:
        facts = [f"cannot be read: {printable(query_error_of(error).message)}"]
    yield f"{printable(name)}: {', '.join(facts)}"
    others = len(console.catalog.databases) - 1
    if others > 0:
        yield f"{counted(others, 'other database')}: .database NAME chooses one, .databases lists them"
    latest = console.catalog.latest
    for one in () if latest is None or latest.database.name != name else latest.skipped:
        message = "" if one.error is None else f": {query_error_of(one.error).message}"
        yield f"{printable(one.name)} is newer, and cannot be read{printable(message)}"


def _facts(database: Database) -> Iterator[str]:
    kind = (database.kind or "savepoint or checkpoint").lower()
    yield f"{kind} {database.checkpoint_id}"
    if database.created_at is not None:
        yield dated(database.created_at)
    if database.job.title:
        yield f"job {printable(database.job.title)}"
