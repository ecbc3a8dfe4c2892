"""Inspect: the operators and states of savepoints: types, sizes, states that do not decode, and files that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from catalog import Database
from readers import ReaderError, json_text
from service.base.errors import QueryError, SavepointError, query_error_of
from service.query.encode import counted, dated, section_lines, size_text, state_sizes
from service.query.running.request import sendable
from service.tasks.task import Context, Task, TaskRequest, option

_SIZE = "operator_total_size_in_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectRequest(TaskRequest):
    """A savepoint, or all."""

    database: str | None = option("name or alias; default: all", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """One savepoint.

    Attributes:
        database: the savepoint.
        tables: `operators`, `states`, and `missing_files`: those that it refers to and that are not there as it says.
    """

    database: Database
    tables: Mapping[str, pa.Table]

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that are JSON."""
        database = self.database
        facts = {
            "name": sendable(database.name),
            "path": sendable(database.path),
            "kind": database.kind,
            "checkpoint_id": database.checkpoint_id,
            "created_at": _time(database.created_at),
            "age_s": None if database.age is None else database.age.total_seconds(),
            "readable": database.readable,
            "job": database.job.title,
            "lineage": database.lineage,
        }
        return facts | {name: json_rows(table) for name, table in self.tables.items()}

    def lines(self, width: int | None) -> Iterator[str]:
        """Yield it as lines for people."""
        operators, states, missing = self.tables.values()
        title = self.database.job.title
        job = f"job {title}, " if title else ""
        yield head_of(self.database, sum(operators[_SIZE].to_pylist()), job)
        yield f"\n{counted(len(operators), 'operator')}"
        yield from section_lines(operators, _OPERATORS, width)
        yield f"\n{counted(len(states), 'state')}"
        place = states.schema.get_field_index("size_bytes")
        yield from section_lines(states.set_column(place, "size_bytes", state_sizes(states)), _STATES, width)
        decoded = pc.equal(states["decode_status"], "decoded")
        odd = states.filter(pc.invert(decoded))
        if len(odd):
            yield f"\n{counted(len(odd), 'state')} not decoded, or not all of it"
            yield from section_lines(odd, _NOTES, width)
        noted = states.filter(pc.and_(decoded, pc.is_valid(states["decode_note"])))
        if len(noted):
            yield f"\n{counted(len(noted), 'decoded state')} with a note"
            yield from section_lines(noted, _NOTES, width)
        if len(missing):
            yield f"\n{counted(len(missing), 'file')} missing or cut: what needs them cannot be read"
            yield from section_lines(missing, _FILES, width)
        if not len(odd) and not len(missing):
            yield "\nall of it decodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectOutcome:
    """What was inspected.

    Attributes:
        savepoints: those that can be read.
        left_out: how many others there are.
        unread: those that cannot be read, and why.
    """

    savepoints: tuple[Inspected, ...]
    left_out: int
    unread: tuple[tuple[Database, QueryError], ...]

    @property
    def rows(self) -> pa.Table:
        """The states of all savepoints."""
        return self.tables["states"]

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables of all savepoints, each row with the name of its database."""
        return {name: pa.concat_tables(map(_named(name), self.savepoints)) for name in _TABLES}

    @property
    def exit_code(self) -> int:
        """See `Outcome`: 1 if files are missing."""
        return int(any(len(one.tables["missing_files"]) for one in self.savepoints))

    def to_dict(self) -> dict[str, Any]:
        """See `Outcome`."""
        return {
            "savepoints": [one.to_dict() for one in self.savepoints],
            "databases_left_out": self.left_out,
            "unread": [
                {"database": sendable(database.name), "code": error.code, "message": error.message}
                for database, error in self.unread
            ],
        }

    def lines(self, width: int | None) -> Iterator[str]:
        """See `Outcome`."""
        for number, one in enumerate(self.savepoints):
            if number:
                yield ""
            yield from one.lines(width)


def run(request: InspectRequest, context: Context) -> InspectOutcome:
    """Inspect one savepoint, or all.

    Raises:
        CatalogError: there is no such database.
        ReaderError, QueryError: none of them can be read, or it takes longer than it may.
    """
    databases = context.databases(request.database)
    found: list[Inspected] = []
    failures: list[tuple[Database, QueryError]] = []
    for database in databases:
        try:
            found.append(_inspected(context, database))
        except (ReaderError, SavepointError) as error:
            failures.append((database, query_error_of(error)))
    if failures and not found:
        raise failures[0][1]
    left_out = 0 if request.database is not None else len(context.catalog.databases) - len(databases)
    if left_out:
        context.warn(f"{counted(left_out, 'database')} left out; name one to inspect it")
    for database, failure in failures:
        context.warn(f"{database.name} cannot be read: {failure.message}")
    lacking = [one.database.name for one in found if len(one.tables["missing_files"])]
    if lacking:
        context.warn(f"files are missing or cut: {', '.join(lacking)}")
    return InspectOutcome(savepoints=tuple(found), left_out=left_out, unread=tuple(failures))


def _inspected(context: Context, database: Database) -> Inspected:
    # Asks the storage for each file.
    files = context.table(database, "files")
    tables = {
        "operators": context.table(database, "operators"),
        "states": context.table(database, "StateMeta"),
        "missing_files": files.filter(pc.equal(files["exists"], False)),
    }
    return Inspected(database=database, tables=tables)


def head_of(database: Database, size_bytes: int, job: str = "") -> str:
    """Return the first line about a savepoint.

    Args:
        database: the savepoint.
        size_bytes: of its state.
        job: what stands before the size.
    """
    kind = (database.kind or "savepoint or checkpoint").lower()
    age = f"{dated(database.created_at)}, " if database.created_at else ""
    number = database.checkpoint_id
    return f"{database.name}: {kind} {number}, {age}{job}{size_text(size_bytes)}, {database.path}"


def _named(name: str) -> Any:
    def table(one: Inspected) -> pa.Table:
        rows = one.tables[name]
        return rows.add_column(0, "database", pa.array([one.database.name] * len(rows), pa.string()))

    return table


def _time(made: datetime | None) -> str | None:
    return None if made is None else orjson.loads(orjson.dumps(made, option=orjson.OPT_UTC_Z))


def json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON has them."""
    texts: list[str] = json_text(table.to_struct_array().combine_chunks()).to_pylist()
    rows: list[dict[str, Any]] = orjson.loads(f"[{','.join(texts)}]")
    return rows


_TABLES = ("operators", "states", "missing_files")
_OPERATORS = {
    "operator_uid": "uid",
    "operator_name": "name",
    "operator_uid_hash": "id",
    "operator_parallelism": "parallelism",
    "operator_max_parallelism": "max",
    "operator_total_size_in_bytes": "size",
}
_STATES = {
    "table_name": "table",
    "state_kind": "kind",
    "key_type": "key",
    "namespace_type": "namespace",
    "map_key_type": "map key",
    "value_type": "value",
    "state_backend": "backend",
    "size_bytes": "size",
    "decode_status": "status",
}
_FILES = {
    "operator_id": "operator",
    "subtask": "subtask",
    "handle_type": "type",
    "path": "file",
    "size_bytes": "size",
}
_NOTES = {"table_name": "table", "decode_status": "status", "decode_note": "note"}

TASK = Task(request=InspectRequest, run=run, listed="savepoints")
