"""SHOW CREATE TABLE: the columns of a table as statements that DuckDB takes. DESCRIBE of a schema: a row for each fact."""

from __future__ import annotations

import re
from collections.abc import Iterator

from catalog import Database, HistoryDatabase
from catalog.table import Table
from service.query.sql.edits import quoted
from service.query.sql.literals import text_constant
from service.query.sql.schemas.named import Owner
from service.query.sql.types import sql_type

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def definition_of(table: Table, database: str | None) -> str:
    """Return the statements that make an empty table with the same columns and comment.

    Args:
        table: the table.
        database: the schema before its name; None for none.
    """
    name = ".".join(map(_identifier, [*([] if database is None else [database]), table.name]))
    columns = ",\n".join(
        f"    {_identifier(column.name)} {sql_type(column.type, as_identifier)}" for column in table.schema
    )
    return f"CREATE TABLE {name} (\n{columns}\n);\nCOMMENT ON TABLE {name} IS {text_constant(table.comment)};"


def as_identifier(name: str) -> str:
    """Return a name as a statement writes it: in quotation marks where it needs them."""
    return name if _PLAIN.fullmatch(name) and name.casefold() not in _RESERVED else quoted(name)


def _identifier(name: str) -> str:
    """Return a name in quotation marks also where it has capitals: other databases would read it in small letters."""
    return as_identifier(name) if name == name.lower() else quoted(name)


# The words that DuckDB takes for no name, and some that sqlglot, which reads a statement first, takes for none.
_WORDS = """all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast check collate
    collation column columns concurrently constraint create cross default deferrable desc describe distinct do else end
    except false fetch for foreign freeze from full generated glob group having ilike in initially inner intersect into
    is isnull join lambda lateral leading left like limit map natural not notnull null offset on only or order outer
    overlaps partition pivot pivot_longer pivot_wider placing positional primary qualify references returning right
    select semi show similar some struct summarize symmetric table tablesample then to trailing true try_cast tuple
    union unique unpack unpivot using values variadic verbose when where window with"""
_RESERVED = frozenset(_WORDS.split())


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
