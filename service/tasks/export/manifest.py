"""What an export has written, as JSON: `manifest.json`, written last, and at once.

    {"format": "parquet", "savepointdb": "1.0", "options": {…}, "savepoints": [
        {"database": "chk-42", "path": "/checkpoints/chk-42", "checkpoint_id": 42, "kind": "CHECKPOINT", "identity": "5feceb…",
         "created_at": "…", "exported_at": "…", "namespace": "", "undecoded_states": […], "incomplete": […], "tables": [
            {"name": "aggregate__count", "folder": "aggregate__count", "rows": 1000, "schema": [{"name": "key", "type": "string"}, …],
             "files": [{"path": "aggregate__count/part-00000.parquet", "rows": 1000, "bytes": 9126, "sha256": "ba7816…"}]}]}]}

A folder of Parquet files has one savepoint, tables of Iceberg and Delta have one for each snapshot or version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from service.base.errors import ConflictError
from service.tasks.export.files.parts import ExportedFile

MANIFEST = "manifest.json"
_LAYOUT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedTable:
    """A table that is whole.

    Attributes:
        name: as SQL calls it.
        folder: below that of the export.
        rows: of all files.
        schema: (column, Arrow type as text).
        files: that have its rows; one without rows if it has none.
        decode_status: of its state; None where it is of no single state.
        decode_note: of its state.
        undecoded_rows: rows of which some bytes are not decoded: they stand in `_undecoded`.
        out_of_range_rows: rows with a value in `_out_of_range`.
        incomplete: files of which rows are left out.
        snapshot_id: of Iceberg.
        version: of Delta.
    """

    name: str
    folder: str
    rows: int
    schema: tuple[tuple[str, str], ...]
    files: tuple[ExportedFile, ...]
    decode_status: str | None = None
    decode_note: str | None = None
    undecoded_rows: int = 0
    out_of_range_rows: int = 0
    incomplete: tuple[Mapping[str, Any], ...] = ()
    snapshot_id: int | None = None
    version: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that are JSON."""
        own = {name: getattr(self, name) for name in self.__slots__}
        files = [file.to_dict() for file in self.files]
        columns = [{"name": name, "type": kind} for name, kind in self.schema]
        kept = {name: value for name, value in own.items() if value is not None}
        return kept | {"schema": columns, "files": files, "incomplete": list(self.incomplete)}

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> ExportedTable:
        """Return what `to_dict` has made a dictionary of."""
        _check(found, name=str, folder=str, rows=int)
        for file in found["files"]:
            _check(file, path=str, rows=int, bytes=int)
        columns = tuple((column["name"], column["type"]) for column in found["schema"])
        files = tuple(ExportedFile(**file) for file in found["files"])
        lists = {"schema": columns, "files": files, "incomplete": tuple(found["incomplete"])}
        return cls(**{**found, **lists})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedSavepoint:
    """A savepoint of an export.

    Attributes:
        database: its name.
        path: where it is.
        identity: SHA-256 of its `_metadata`.
        checkpoint_id, kind, created_at: as its database has them; the time in ISO 8601.
        exported_at: when this was written, in ISO 8601.
        namespace: of its tables, in Iceberg and Delta.
        undecoded_states: states that are not wholly decoded.
        incomplete: files that may name more states, and cannot be read.
        tables: its tables.
    """

    database: str
    path: str
    identity: str
    checkpoint_id: int
    kind: str | None = None
    created_at: str | None = None
    exported_at: str = ""
    namespace: str = ""
    undecoded_states: tuple[Mapping[str, Any], ...] = ()
    incomplete: tuple[Mapping[str, Any], ...] = ()
    tables: tuple[ExportedTable, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that are JSON."""
        own = {name: getattr(self, name) for name in self.__slots__}
        return own | {
            "undecoded_states": list(self.undecoded_states),
            "incomplete": list(self.incomplete),
            "tables": [table.to_dict() for table in self.tables],
        }

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> ExportedSavepoint:
        """Return what `to_dict` has made a dictionary of."""
        _check(found, database=str, path=str, identity=str, checkpoint_id=int, namespace=str)
        lists = {name: tuple(found[name]) for name in ("undecoded_states", "incomplete")}
        return cls(**{**found, **lists, "tables": tuple(map(ExportedTable.of, found["tables"]))})

    def is_same(self, other: ExportedSavepoint) -> bool:
        """Return whether both are exports of one savepoint, wherever it was then."""
        return (self.identity, self.namespace) == (other.identity, other.namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All that stands in the folder of an export.

    Attributes:
        format: of its tables.
        savepointdb: the version of the program that has written it.
        options: of the request.
        savepoints: in the order in which they were exported.
    """

    format: str
    savepointdb: str
    options: Mapping[str, Any] = field(default_factory=dict)
    savepoints: tuple[ExportedSavepoint, ...] = ()

    def with_savepoint(self, savepoint: ExportedSavepoint) -> Manifest:
        """Return the manifest with one more savepoint, or with another of the same identity in the place of that."""
        others = tuple(one for one in self.savepoints if not one.is_same(savepoint))
        return replace(self, savepoints=(*others, savepoint))

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that are JSON."""
        return {
            "layout": _LAYOUT,
            "format": self.format,
            "savepointdb": self.savepointdb,
            "options": dict(self.options),
            "savepoints": [savepoint.to_dict() for savepoint in self.savepoints],
        }

    def to_bytes(self) -> bytes:
        """Return its file."""
        return (json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n").encode()

    @classmethod
    def of(cls, content: bytes, where: str) -> Manifest:
        """Return the manifest of a file.

        Args:
            content: of the file.
            where: its path, for errors.

        Raises:
            ConflictError: it is no manifest.
        """
        try:
            found = json.loads(content)
            if found.pop("layout") != _LAYOUT:
                raise ConflictError(f"{where}: expected a manifest of layout {_LAYOUT}, found another")
            savepoints = tuple(map(ExportedSavepoint.of, found["savepoints"]))
            return cls(**{**found, "options": dict(found["options"]), "savepoints": savepoints})
        # Deeply nested arrays exhaust the stack of the parser.
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ConflictError(
                f"{where}: expected the manifest of an export, found something else"
            ) from error


def _check(found: Mapping[str, Any], **kinds: type) -> None:
    """Check what decides whether an export goes on: a program, or a person, may have changed the file."""
    for name, kind in kinds.items():
        if not isinstance(found[name], kind):
            raise TypeError(f"expected {name} of type {kind.__name__}, found {found[name]!r:.100}")


def columns_of(schema: pa.Schema) -> tuple[tuple[str, str], ...]:
    """Return the columns of a schema with their types as texts."""
    return tuple((column.name, str(column.type)) for column in schema)
