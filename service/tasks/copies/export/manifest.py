"""What an export has written, as JSON: `manifest.json`, written last, and at once.

    {"format": "parquet", "savepointdb": "1.0", "options": {…}, "savepoints": [
        {"database": "chk-42", "path": "/checkpoints/chk-42", "checkpoint_id": 42, "kind": "CHECKPOINT", "identity": "5feceb…",
         "created_at": "…", "exported_at": "…", "namespace": "", "undecoded_states": […], "incomplete": […], "tables": [
            {"name": "aggregate__count", "folder": "aggregate__count", "rows": 1000, "schema": [{"name": "key", "type": "string"}, …],
             "files": [{"path": "aggregate__count/part-00000.parquet", "rows": 1000, "bytes": 9126, "sha256": "ba7816…"}]}]}]}

A folder of Parquet files has one savepoint, tables of Iceberg and Delta have one for each snapshot or version.

The `Ledger` is what an export in progress has finished, so that another run goes on where one was killed.

| file | content |
|---|---|
| `_unfinished/begun.json` | the savepoint and the options: another run goes on only with the same ones |
| `_unfinished/finished/<folder>.json` | a table that is whole, as in the manifest |
| `manifest.json` | the savepoints that are whole; the files above are removed after it was written |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from service.base.errors import ConflictError
from service.base.version import installed_version
from service.tasks.copies.export.files.conversion import ICEBERG
from service.tasks.copies.export.files.destinations import Destination
from service.tasks.copies.export.files.parts import ExportedFile
from service.tasks.copies.export.request import ExportRequest

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
        files = tuple(map(ExportedFile.of, found["files"]))
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
        savepointdb: the version of the program that has written it last.
        options: of the request.
        savepoints: in the order in which they were exported.
    """

    format: str
    savepointdb: str
    options: Mapping[str, Any] = field(default_factory=dict)
    savepoints: tuple[ExportedSavepoint, ...] = ()

    def with_savepoint(self, savepoint: ExportedSavepoint, most: int | None) -> Manifest:
        """Return the manifest with one more savepoint, written by this version.

        Args:
            savepoint: the savepoint; it takes the place of another of the same identity.
            most: savepoints of its namespace that are kept, the last ones; None for all.
        """
        others = [one for one in self.savepoints if not one.is_same(savepoint)]
        own = [one for one in others if one.namespace == savepoint.namespace]
        dropped = [] if most is None else own[: max(0, len(own) - most + 1)]
        others = [one for one in others if one not in dropped]
        return replace(self, savepointdb=installed_version(), savepoints=(*others, savepoint))

    def last(self, namespace: str) -> ExportedSavepoint | None:
        """Return the last savepoint of a namespace, if this version has written it; None if there is none."""
        own = [one for one in self.savepoints if one.namespace == namespace]
        return own[-1] if own and self.savepointdb == installed_version() else None

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


UNFINISHED = "_unfinished"
CATALOG_FILE = "catalog.db"  # of Iceberg
_BEGUN = f"{UNFINISHED}/begun.json"
_FINISHED = f"{UNFINISHED}/finished"
_IS_WRITTEN = "is_written"
_METADATA = "_metadata"
# Savepoints in the manifest of an export that follows: it is written for each of them. The tables have all.
_FOLLOWED = 100
# What all savepoints of a table share.
_SHARED_OPTIONS = ("partition_by", "nanoseconds")


class Ledger:
    """The state of one export.

    Args:
        destination: of the export.
        request: the export.

    Raises:
        ConflictError: something else is there.
        TargetError: the destination cannot be read.
    """

    def __init__(self, destination: Destination, request: ExportRequest) -> None:
        self._destination = destination
        self._options = request.options
        self._format = request.format
        self._follows = request.follow
        self._begun = self._read_begun()
        found = destination.read(MANIFEST)
        if found is None:
            if self._begun is None:
                self._check_empty()
            self.manifest = Manifest(
                format=request.format, savepointdb=installed_version(), options=request.options
            )
            return
        self.manifest = Manifest.of(found, f"{destination.url}/{MANIFEST}")
        self._check_same(self.manifest, request)
        if self._begun is not None and any(map(self._has_begun, self.manifest.savepoints)):
            self._clear()

    @property
    def begun(self) -> Mapping[str, Any] | None:
        """The path of the savepoint that an earlier run has begun, and more of it; None if there is none."""
        return self._begun

    def is_whole(self, savepoint: ExportedSavepoint) -> bool:
        """Return whether a savepoint is in the manifest."""
        return any(one.is_same(savepoint) for one in self.manifest.savepoints)

    def _has_begun(self, savepoint: ExportedSavepoint) -> bool:
        names = ("identity", "namespace")
        return self._begun is not None and all(
            self._begun.get(one) == getattr(savepoint, one) for one in names
        )

    def later_than(self, savepoint: ExportedSavepoint) -> ExportedSavepoint | None:
        """Return a savepoint of the same tables that is later than one, by number and by time; None if there is none.

        The time of a copy says nothing: what lies between two numbers of the last run is older than the last one.
        """
        if not savepoint.namespace:
            return None
        number = savepoint.checkpoint_id
        run: list[ExportedSavepoint] = []
        for one in self.manifest.savepoints:
            if one.namespace != savepoint.namespace:
                continue
            if run and one.checkpoint_id < run[-1].checkpoint_id:
                run.clear()
            run.append(one)
            known = one.created_at is not None and savepoint.created_at is not None
            # A job that was started anew counts from 1 again.
            if one.checkpoint_id > number and (not known or str(one.created_at) >= str(savepoint.created_at)):
                return one
        # Whoever follows sees numbers of a new run as they come, and may miss the first ones.
        is_between = bool(run) and run[0].checkpoint_id < number < run[-1].checkpoint_id
        return run[-1] if is_between and not self._follows else None

    def begin(self, savepoint: ExportedSavepoint, *, may_drop: bool = False) -> dict[str, ExportedTable]:
        """Begin a savepoint, or go on with it; return the tables that are whole, by their folders.

        Args:
            savepoint: the savepoint.
            may_drop: whether another one that has begun is given up; its tables that are visible stay so.

        Raises:
            ConflictError: another one has begun here.
            TargetError: the destination cannot be written to.
        """
        facts = {
            "identity": savepoint.identity,
            "namespace": savepoint.namespace,
            "path": savepoint.path,
            "format": self._format,
            "options": self._options,
        }
        if self._begun is None:
            self._put_begun(facts)
            return {}
        differing = [
            name for name, value in facts.items() if name != "path" and self._begun.get(name) != value
        ]
        drops = may_drop and differing and not {"format", "options"} & set(differing)
        if drops or (differing == ["options"] and self._may_begin_anew(self._begun)):
            for name in list(self._destination.names(_FINISHED)):
                self._destination.remove(name)
            self._put_begun(facts)
            return {}
        if differing:
            raise ConflictError(
                f"{self._destination.url}: expected to go on with the export of {self._begun.get('path')} that has begun here, found "
                f"another {' and another '.join(differing)}; finish that one, or export to another folder"
            )
        tables = {}
        for name in list(self._destination.names(_FINISHED)):
            table = self._finished(name)
            if table is not None:
                tables[table.folder] = table
        return tables

    def finish(self, table: ExportedTable) -> None:
        """Note that a table is whole.

        Raises:
            TargetError: the destination cannot be written to.
        """
        self._destination.put(f"{_FINISHED}/{table.folder}.json", json.dumps(table.to_dict()).encode())

    def commit(self) -> None:
        """Note that all tables are whole, and become visible one after the other: from now on the options stay.

        Raises:
            TargetError: the destination cannot be written to.
        """
        assert self._begun is not None
        self._put_begun({**self._begun, _IS_WRITTEN: True})

    def publish(self, savepoint: ExportedSavepoint) -> None:
        """Write the manifest with a savepoint that is whole.

        Raises:
            TargetError: the destination cannot be written to.
        """
        self.manifest = self.manifest.with_savepoint(savepoint, _FOLLOWED if self._follows else None)
        self._destination.put(MANIFEST, self.manifest.to_bytes())
        self._clear()

    def _clear(self) -> None:
        """Remove the notes of a savepoint that is in the manifest."""
        for name in list(self._destination.names(UNFINISHED)):
            if name != _BEGUN:
                self._destination.remove(name)
        self._destination.remove(_BEGUN)
        self._begun = None

    def _put_begun(self, facts: Mapping[str, Any]) -> None:
        self._destination.put(_BEGUN, json.dumps(facts).encode())
        self._begun = facts

    def _may_begin_anew(self, begun: Mapping[str, Any]) -> bool:
        """Return whether a run with other options may write all tables anew, as it does where a value had no place in a column.

        With other tables it may not: files of those that it does not write would stay.
        """
        options = begun.get("options")
        is_same = isinstance(options, dict) and options.get("tables") == self._options["tables"]
        return is_same and not begun.get(_IS_WRITTEN)

    def _read_begun(self) -> Mapping[str, Any] | None:
        content = self._destination.read(_BEGUN)
        if content is None:
            return None
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ConflictError(
                f"{self._destination.url}/{_BEGUN}: expected the beginning of an export, found something else"
            )
        return found

    def _finished(self, name: str) -> ExportedTable | None:
        """Return a table that is whole; None if its note is not, or a file of it is gone."""
        try:
            return ExportedTable.of(json.loads(self._destination.read(name) or b""))
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def _check_empty(self) -> None:
        # What a run left that failed before its first table, as one does in which --tables has a typing error.
        left = CATALOG_FILE if self._format == ICEBERG else None
        found = next((name for name in self._destination.names() if name != left), None)
        if found is None:
            return
        what = "a savepoint" if found.rpartition("/")[2] == _METADATA else f"{found} and no {MANIFEST}"
        raise ConflictError(
            f"{self._destination.url}: expected an empty folder, or an export, found {what}",
            code="TARGET_EXISTS",
        )

    def _check_same(self, manifest: Manifest, request: ExportRequest) -> None:
        if manifest.format != request.format:
            raise ConflictError(
                f"{self._destination.url}: expected an export in the format {request.format}, found one in {manifest.format}"
            )
        for name in _SHARED_OPTIONS:
            if manifest.options.get(name) != self._options[name]:
                raise ConflictError(
                    f"{self._destination.url}: expected an export with {name} {self._options[name]}, found one with "
                    f"{manifest.options.get(name)}; export to another folder"
                )
