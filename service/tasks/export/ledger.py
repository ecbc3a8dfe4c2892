"""What an export in progress has finished, so that another run goes on where one was killed.

| file | content |
|---|---|
| `_unfinished/begun.json` | the savepoint and the options: another run goes on only with the same ones |
| `_unfinished/finished/<folder>.json` | a table that is whole, as in the manifest |
| `manifest.json` | the savepoints that are whole; the files above are removed after it was written |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from service.base.errors import ConflictError
from service.base.version import installed_version
from service.tasks.export.files.conversion import ICEBERG
from service.tasks.export.files.destinations import Destination
from service.tasks.export.manifest import MANIFEST, ExportedSavepoint, ExportedTable, Manifest
from service.tasks.export.request import ExportRequest

UNFINISHED = "_unfinished"
CATALOG_FILE = "catalog.db"  # of Iceberg
_BEGUN = f"{UNFINISHED}/begun.json"
_FINISHED = f"{UNFINISHED}/finished"
_IS_WRITTEN = "is_written"
_METADATA = "_metadata"
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

    def is_whole(self, savepoint: ExportedSavepoint) -> bool:
        """Return whether a savepoint is in the manifest."""
        return self._begun is None and any(one.is_same(savepoint) for one in self.manifest.savepoints)

    def later_than(self, savepoint: ExportedSavepoint) -> ExportedSavepoint | None:
        """Return a savepoint of the same tables that is later than one, by number and by time; None if there is none."""
        for one in self.manifest.savepoints:
            is_later = one.checkpoint_id > savepoint.checkpoint_id
            if one.namespace == savepoint.namespace and savepoint.namespace and is_later:
                known = one.created_at is not None and savepoint.created_at is not None
                # A job that was started anew counts from 1 again.
                if not known or str(one.created_at) >= str(savepoint.created_at):
                    return one
        return None

    def begin(self, savepoint: ExportedSavepoint) -> dict[str, ExportedTable]:
        """Begin a savepoint, or go on with it; return the tables that are whole, by their folders.

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
        if differing == ["options"] and self._may_begin_anew(self._begun):
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
        self._destination.put(_finished_name(table), json.dumps(table.to_dict()).encode())

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
        self.manifest = self.manifest.with_savepoint(savepoint)
        self._destination.put(MANIFEST, self.manifest.to_bytes())
        for table in savepoint.tables:
            self._destination.remove(_finished_name(table))
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


def _finished_name(table: ExportedTable) -> str:
    return f"{_FINISHED}/{table.folder}.json"
