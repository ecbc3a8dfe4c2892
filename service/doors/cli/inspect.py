"""`savepointdb inspect`: the operators and states of a savepoint: types, sizes, and states that do not decode."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from catalog import Database
from readers import ReaderError
from service.doors.cli.compile import log_compilation
from service.doors.cli.outcome import IncompleteError, ended
from service.doors.cli.output import json_object, screen_width
from service.doors.cli.sources import catalog_of
from service.query.encode import counted, dated, section_lines, size_text, state_sizes


def main(options: Namespace) -> int:
    """Show the savepoint; return the exit code."""
    return ended(_inspect, options)


def _inspect(options: Namespace) -> None:
    log_compilation()
    catalog = catalog_of([options.path], options)
    databases = [catalog.database(name) for name in catalog.databases]
    shown = _as_json if options.format == "json" else _as_text
    texts: list[str] = []
    failures: list[ReaderError] = []
    lacking: list[str] = []
    for database in databases:
        try:
            missing = _missing_files(database)
            texts.append(shown(database, missing))
            if len(missing):
                lacking.append(database.name)
        except ReaderError as error:
            failures.append(error)
            if len(databases) > 1:
                print(f"savepointdb: {database.name} cannot be read: {error}", file=sys.stderr)
    if failures and not texts:
        raise failures[0]
    print(",\n".join(texts).join("[]") if options.format == "json" else "\n\n".join(texts))
    sys.stdout.flush()
    if lacking:
        raise IncompleteError(f"files are missing or cut: {', '.join(lacking)}")


def _as_text(database: Database, missing: pa.Table) -> str:
    return "\n".join(_lines(database, missing))


def _lines(database: Database, missing: pa.Table) -> Iterator[str]:
    operators = _rows(database, "operators")
    states = _rows(database, "StateMeta")
    kind = (database.kind or "savepoint or checkpoint").lower()
    total = sum(operators["operator_total_size_in_bytes"].to_pylist())
    made = database.created_at
    age = f"{dated(made)}, " if made else ""
    job = f"job {database.job.title}, " if database.job.title else ""
    yield f"{database.name}: {kind} {database.checkpoint_id}, {age}{job}{size_text(total)}, {database.path}"
    yield f"\n{counted(len(operators), 'operator')}"
    yield from section_lines(operators, _OPERATORS, screen_width(None))
    yield f"\n{counted(len(states), 'state')}"
    sized = states.set_column(states.schema.get_field_index("size_bytes"), "size_bytes", state_sizes(states))
    yield from section_lines(sized, _STATES, screen_width(None))
    odd = states.filter(pc.not_equal(states["decode_status"], "decoded"))
    if len(odd):
        yield f"\n{counted(len(odd), 'state')} not decoded, or not all of it"
        yield from section_lines(odd, _NOTES, screen_width(None))
    noted = states.filter(
        pc.and_(pc.equal(states["decode_status"], "decoded"), pc.is_valid(states["decode_note"]))
    )
    if len(noted):
        yield f"\n{counted(len(noted), 'decoded state')} with a note"
        yield from section_lines(noted, _NOTES, screen_width(None))
    if len(missing):
        yield f"\n{counted(len(missing), 'file')} missing or cut: what needs them cannot be read"
        yield from section_lines(missing, _FILES, screen_width(None))
    if not len(odd) and not len(missing):
        yield "\nall of it decodes"


def _missing_files(database: Database) -> pa.Table:
    """Return the files that the savepoint refers to and that are not there as it says; asks the storage for each."""
    files = _rows(database, "files")
    return files.filter(pc.equal(files["exists"], False))


def _rows(database: Database, table: str) -> pa.Table:
    return database.table(table).scan().to_arrow()


def _as_json(database: Database, missing: pa.Table) -> str:
    facts = {
        "name": database.name,
        "path": database.path,
        "kind": database.kind,
        "checkpoint_id": database.checkpoint_id,
        "created_at": database.created_at,
        "age_s": None if database.age is None else database.age.total_seconds(),
        "readable": database.readable,
        "job": database.job.title,
        "lineage": database.lineage,
    }
    tables = {"operators": _rows(database, "operators"), "states": _rows(database, "StateMeta")}
    return json_object(facts, tables | {"missing_files": missing})


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
