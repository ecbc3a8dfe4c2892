"""What a format does with the files of a savepoint.

Layout            what every format does
ParquetFolders    a folder for each table, which appears when all of them are whole
HistoryLayout     what formats have in common whose tables keep several checkpoints
DeltaTables       tables of Delta, by deltalake: a table for each state, a version for each checkpoint

A version of a table of Delta has the files of its checkpoint and no others, so a table as of a version is the state as of that
checkpoint; `DESCRIBE HISTORY` shows which. Files whose rows the checkpoint before has, too, stay. The data files are those of all formats.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from readers import KEY_GROUP
from service.base.errors import EngineUnavailableError, QueryError
from service.tasks.copies.export.files.conversion import Conversion, TypeRules
from service.tasks.copies.export.files.destinations import Destination
from service.tasks.copies.export.files.parts import ExportedFile
from service.tasks.copies.export.manifest import UNFINISHED, ExportedSavepoint, ExportedTable
from service.tasks.copies.export.selection import ChosenTable

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction


_STAGED = f"{UNFINISHED}/tables"


class Layout(ABC):
    """What a format does with the files of one savepoint.

    Args:
        destination: of the export.
        rules: for the types of columns.
    """

    def __init__(self, destination: Destination, rules: TypeRules) -> None:
        self._destination = destination
        self._rules = rules

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Release what it holds."""

    def conversion(self, savepoint: ExportedSavepoint, table: ChosenTable) -> Conversion:
        """Return how rows of a table are converted.

        Raises:
            UnexportableTypeError: the format has no type for a column.
            QueryError: the table that is there has other columns, or cannot be read.
        """
        schema = self._rules.schema(table.table.schema)
        return Conversion(table.table.name, schema, schema)

    @abstractmethod
    def folder(self, savepoint: ExportedSavepoint, table: str) -> str:
        """Return the folder of the files of a table, while they are written."""

    @abstractmethod
    def prefix(self, savepoint: ExportedSavepoint) -> str:
        """Return how the names of its files begin."""

    needs_files = True
    """True if a table without rows has a file all the same."""
    partition = "key_group"
    """The name in the folders of key groups. Many readers of folders pass over those whose names begin with `_`."""

    def is_there(self, table: ExportedTable) -> bool:
        """Return whether all files of a table are there that an earlier run has finished."""
        return self._destination.has_all({file.path: file.bytes for file in table.files})

    def is_newest(self, savepoint: ExportedSavepoint, folder: str) -> bool:
        """Return whether a table is now as it was committed for a savepoint: its files may stay."""
        return False

    @abstractmethod
    def commit(
        self,
        savepoint: ExportedSavepoint,
        tables: Sequence[ExportedTable],
        schemas: Mapping[str, pa.Schema],
        *,
        is_again: bool,
    ) -> list[ExportedTable]:
        """Make all tables of a savepoint visible; return them as the manifest names them.

        Args:
            savepoint: the savepoint.
            tables: its tables, of which all files are written.
            schemas: of their rows, by their folders.
            is_again: whether an earlier run may have made some of them visible.

        Raises:
            QueryError: the destination fails, or another process writes to the same tables.
        """


class ParquetFolders(Layout):
    """`<table>/part-00000.parquet`."""

    def folder(self, savepoint: ExportedSavepoint, table: str) -> str:
        # An object store has no folders to rename: there the manifest alone says that all is whole.
        return f"{_STAGED}/{table}" if self._destination.moves else table

    def prefix(self, savepoint: ExportedSavepoint) -> str:
        return "part"

    def is_there(self, table: ExportedTable) -> bool:
        # A run that was killed between two moves has moved some tables.
        return super().is_there(table) or super().is_there(self._visible(table))

    def commit(
        self,
        savepoint: ExportedSavepoint,
        tables: Sequence[ExportedTable],
        schemas: Mapping[str, pa.Schema],
        *,
        is_again: bool,
    ) -> list[ExportedTable]:
        if not self._destination.moves:
            return list(tables)
        for table in tables:
            staged = f"{_STAGED}/{table.folder}"
            if next(iter(self._destination.names(staged)), None) is not None:
                self._destination.move(staged, table.folder)
        return [self._visible(table) for table in tables]

    def _visible(self, table: ExportedTable) -> ExportedTable:
        files = (replace(file, path=file.path.removeprefix(f"{_STAGED}/")) for file in table.files)
        return replace(table, files=tuple(files))


class HistoryLayout(Layout):
    """`<namespace>/<table>/data/<checkpoint>-00000.parquet`: nobody sees files before a snapshot, or a version, has them.

    Args:
        destination: of the export.
        rules: for the types of columns.
        is_partitioned: True for a partition for each key group.
        is_complete: True if tables that a savepoint lacks become empty.
    """

    needs_files = False
    # Polars looks for the column of a partition of Delta in the path, and knows it by its own name.
    partition = KEY_GROUP

    def __init__(
        self, destination: Destination, rules: TypeRules, *, is_partitioned: bool, is_complete: bool
    ) -> None:
        super().__init__(destination, rules)
        self._is_partitioned = is_partitioned
        self._is_complete = is_complete

    @abstractmethod
    def known(self, savepoint: ExportedSavepoint, folder: str) -> ExportedTable | None:
        """Return what is committed of a table of a savepoint; None if nothing is."""

    @abstractmethod
    def others(self, savepoint: ExportedSavepoint, folders: set[str]) -> list[str]:
        """Return the folders of all tables of its namespace but some."""

    @abstractmethod
    def commit_table(
        self, savepoint: ExportedSavepoint, table: ExportedTable, schema: pa.Schema | None
    ) -> ExportedTable:
        """Make the files of a table its only ones, at once; return it with the snapshot, or version, that this is.

        Args:
            savepoint: the savepoint.
            table: the table.
            schema: of its rows; None for the columns that the table has.
        """

    def table_folder(self, savepoint: ExportedSavepoint, folder: str) -> str:
        """Return the folder of a table below that of the export."""
        return f"{savepoint.namespace}/{folder}"

    def folder(self, savepoint: ExportedSavepoint, table: str) -> str:
        return f"{self.table_folder(savepoint, table)}/data"

    def prefix(self, savepoint: ExportedSavepoint) -> str:
        return f"chk-{savepoint.checkpoint_id}-{savepoint.identity[:12]}"

    def identity_of(self, savepoint: ExportedSavepoint) -> dict[str, str]:
        """Return by which properties a snapshot, or a version, is that of a savepoint."""
        return {"savepointdb.identity": savepoint.identity}

    def facts_of(self, savepoint: ExportedSavepoint) -> dict[str, str]:
        """Return the properties of the snapshot, or version, of a savepoint."""
        return self.identity_of(savepoint) | {
            "savepointdb.database": savepoint.database,
            "savepointdb.checkpoint-id": str(savepoint.checkpoint_id),
            "savepointdb.created-at": savepoint.created_at or "",
            "savepointdb.path": savepoint.path,
        }

    def described(self, folder: str) -> ExportedTable:
        """Return a table of which only the folder matters."""
        return ExportedTable(name=folder, folder=folder, rows=0, schema=(), files=())

    def commit(
        self,
        savepoint: ExportedSavepoint,
        tables: Sequence[ExportedTable],
        schemas: Mapping[str, pa.Schema],
        *,
        is_again: bool,
    ) -> list[ExportedTable]:
        done = []
        for table in tables:
            known = self.known(savepoint, table.folder) if is_again else None
            if known is None:
                done.append(self.commit_table(savepoint, table, schemas[table.folder]))
            else:
                done.append(replace(table, snapshot_id=known.snapshot_id, version=known.version))
        if self._is_complete:
            # A state that the job no longer has shows no rows of older checkpoints.
            for folder in self.others(savepoint, {table.folder for table in tables}):
                if not is_again or self.known(savepoint, folder) is None:
                    self.commit_table(savepoint, self.described(folder), None)
        return done


_LOG = "_delta_log/"
_INSTALL = "python -m pip install 'savepointdb[delta]'"


class DeltaTables(HistoryLayout):
    """`<namespace>/<table>/data/….parquet`, and the log of Delta beside `data`.

    Args:
        destination: of the export.
        rules: for the types of columns.
        is_partitioned: True for a partition for each key group.
        is_complete: True if tables that a savepoint lacks become empty.

    Raises:
        EngineUnavailableError: deltalake is not installed.
    """

    def __init__(
        self, destination: Destination, rules: TypeRules, *, is_partitioned: bool, is_complete: bool
    ) -> None:
        super().__init__(destination, rules, is_partitioned=is_partitioned, is_complete=is_complete)
        try:
            import deltalake  # optional: the extra `delta` has it
        except ImportError as error:
            raise EngineUnavailableError(
                f"expected deltalake, which writes tables of Delta, found it not installed: {_INSTALL}"
            ) from error
        self._delta = deltalake
        # Nobody else makes tables meanwhile, and to list all files takes long.
        self._folders: dict[str, set[str]] = {}
        self._storage = _storage_options(destination.s3_options())

    def known(self, savepoint: ExportedSavepoint, folder: str) -> ExportedTable | None:
        table = self._table(savepoint, folder)
        wanted = self.identity_of(savepoint)
        if table is None:
            return None
        with _asked():
            for commit in table.history():
                if wanted.items() <= commit.items():
                    return replace(self.described(folder), version=int(commit["version"]))
        return None

    def is_newest(self, savepoint: ExportedSavepoint, folder: str) -> bool:
        table = self._table(savepoint, folder)
        if table is None:
            return False
        with _asked():
            return self.identity_of(savepoint).items() <= table.history(limit=1)[0].items()

    def others(self, savepoint: ExportedSavepoint, folders: set[str]) -> list[str]:
        found = self._folders.get(savepoint.namespace)
        if found is None:
            found = {name.partition("/")[0] for name in self._names(savepoint) if _LOG in name}
        self._folders[savepoint.namespace] = found | folders
        return sorted(found - folders)

    def commit_table(
        self, savepoint: ExportedSavepoint, table: ExportedTable, schema: pa.Schema | None
    ) -> ExportedTable:
        before = self._table(savepoint, table.folder)
        with _asked():
            properties = self._delta.CommitProperties(custom_metadata=dict(self.facts_of(savepoint)))
            if schema is not None:
                own = self._delta.Schema.from_arrow(schema)
            else:
                assert before is not None
                own = before.schema()
            is_partitioned = self._is_partitioned and KEY_GROUP in [field.name for field in own.fields]
            partitions = [KEY_GROUP] if is_partitioned else []
            above = f"{self.table_folder(savepoint, table.folder)}/"
            files = {file.path.removeprefix(above): file for file in table.files}
            there = {} if before is None else _files_of(before)
            kept = files.keys() & there.keys()
            actions: list[Any] = [
                _added(path, file, is_partitioned=is_partitioned)
                for path, file in files.items()
                if path not in kept
            ]
            if before is None:
                from deltalake.transaction import create_table_with_add_actions

                create_table_with_add_actions(
                    self._url(savepoint, table.folder),
                    own,
                    actions,
                    mode="error",
                    partition_by=partitions,
                    storage_options=self._storage,
                    commit_properties=properties,
                )
            elif kept:
                # A path that is both removed and added would mean nothing.
                actions += [removed for path, removed in there.items() if path not in kept]
                before.create_write_transaction(
                    actions, "append", own, partitions, commit_properties=properties
                )
            else:
                before.create_write_transaction(
                    actions, "overwrite", own, partitions, commit_properties=properties
                )
            after = self._table(savepoint, table.folder)
        assert after is not None
        return replace(table, version=after.version())

    def _url(self, savepoint: ExportedSavepoint, folder: str) -> str:
        return f"{self._destination.url}/{self.table_folder(savepoint, folder)}"

    def _table(self, savepoint: ExportedSavepoint, folder: str) -> DeltaTable | None:
        from deltalake.exceptions import TableNotFoundError

        with _asked():
            try:
                return self._delta.DeltaTable(self._url(savepoint, folder), storage_options=self._storage)
            except TableNotFoundError:
                return None

    def _names(self, savepoint: ExportedSavepoint) -> Iterator[str]:
        above = f"{savepoint.namespace}/"
        return (name.removeprefix(above) for name in self._destination.names(savepoint.namespace))


def _added(path: str, file: ExportedFile, *, is_partitioned: bool) -> AddAction:
    from deltalake.transaction import AddAction

    return AddAction(
        path=path,
        size=file.bytes,
        partition_values={KEY_GROUP: str(file.key_group)} if is_partitioned else {},
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps({"numRecords": file.rows}),
    )


def _files_of(table: DeltaTable) -> dict[str, RemoveAction]:
    """Return the files of a table now, each with what removes it."""
    from deltalake.transaction import RemoveAction

    now = int(time.time() * 1000)
    found = pa.table(table.get_add_actions()).to_pylist()
    return {
        file["path"]: RemoveAction(
            path=file["path"],
            data_change=True,
            deletion_timestamp=now,
            size=file["size_bytes"],
            partition_values={name: str(value) for name, value in (file.get("partition") or {}).items()},
        )
        for file in found
    }


def _storage_options(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of deltalake that stand for arguments of Arrow's S3."""
    names = {
        "access_key": "AWS_ACCESS_KEY_ID",
        "secret_key": "AWS_SECRET_ACCESS_KEY",
        "session_token": "AWS_SESSION_TOKEN",
        "region": "AWS_REGION",
    }
    found = {name: str(arguments[given]) for given, name in names.items() if arguments.get(given)}
    for given, name in (("connect_timeout", "connect_timeout"), ("request_timeout", "timeout")):
        if arguments.get(given):
            found[name] = f"{float(arguments[given]):.0f}s"
    if arguments.get("endpoint_override"):
        scheme = arguments.get("scheme", "https")
        found["AWS_ENDPOINT_URL"] = f"{scheme}://{arguments['endpoint_override']}"
        found["AWS_ALLOW_HTTP"] = str(scheme == "http").lower()
    return found


@contextmanager
def _asked() -> Iterator[None]:
    """Translate the errors of deltalake."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError, ValueError) as error:
        raise QueryError(f"the table of Delta fails: {error}", code="TARGET_FAILED") from error
