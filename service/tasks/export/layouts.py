"""What a format does with the files of a savepoint.

Layout            what every format does
ParquetFolders    a folder for each table, which appears when all of them are whole
HistoryLayout     what formats have in common whose tables keep several checkpoints
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from readers import KEY_GROUP
from service.tasks.export.files.conversion import Conversion, TypeRules
from service.tasks.export.files.destinations import Destination
from service.tasks.export.ledger import UNFINISHED
from service.tasks.export.manifest import ExportedSavepoint, ExportedTable
from service.tasks.export.selection import ChosenTable

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

    @abstractmethod
    def commit(
        self, savepoint: ExportedSavepoint, tables: Sequence[ExportedTable], schemas: Mapping[str, pa.Schema]
    ) -> list[ExportedTable]:
        """Make all tables of a savepoint visible, those among them that already are; return them as the manifest names them.

        Args:
            savepoint: the savepoint.
            tables: its tables, of which all files are written.
            schemas: of their rows, by their folders.

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
        self, savepoint: ExportedSavepoint, tables: Sequence[ExportedTable], schemas: Mapping[str, pa.Schema]
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
        """Make the files of a table its only ones; return it with the snapshot, or version, that this is.

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
        self, savepoint: ExportedSavepoint, tables: Sequence[ExportedTable], schemas: Mapping[str, pa.Schema]
    ) -> list[ExportedTable]:
        done = []
        for table in tables:
            known = self.known(savepoint, table.folder)
            if known is None:
                done.append(self.commit_table(savepoint, table, schemas[table.folder]))
            else:
                done.append(replace(table, snapshot_id=known.snapshot_id, version=known.version))
        if self._is_complete:
            # A state that the job no longer has shows no rows of older checkpoints.
            for folder in self.others(savepoint, {table.folder for table in tables}):
                if self.known(savepoint, folder) is None:
                    self.commit_table(savepoint, self.described(folder), None)
        return done
