"""Tables of Iceberg, by pyiceberg: a namespace for each job, a table for each state, a snapshot for each checkpoint.

A snapshot has the files of its checkpoint and no others, so a table as of a snapshot is the state as of that checkpoint. Files whose
rows the checkpoint before has, too, stay. The data files are those of all formats, with the numbers of fields by which Iceberg knows
columns.

| the type of a column has | the table |
|---|---|
| more fields, a wider number | gets them; older snapshots keep what they had |
| fewer fields, a narrower number | stays as it is |
| changed otherwise | gets a new column of the same name; older snapshots keep the old one |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from readers import KEY_GROUP
from service.base.errors import EngineUnavailableError, InvalidRequestError, QueryError
from service.tasks.copies.export.files.conversion import Conversion, TypeRules
from service.tasks.copies.export.files.destinations import Destination, Folder
from service.tasks.copies.export.files.parts import ExportedFile
from service.tasks.copies.export.layouts import HistoryLayout
from service.tasks.copies.export.manifest import CATALOG_FILE, ExportedSavepoint, ExportedTable
from service.tasks.copies.export.selection import ChosenTable

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import IcebergType

_CATALOG = "savepointdb"
# Each metadata file names all snapshots: all of them together would take more room than the data.
_PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true"}
_FIELD_ID = b"PARQUET:field_id"
_INSTALL = "python -m pip install 'savepointdb[iceberg]'"


class IcebergTables(HistoryLayout):
    """`<namespace>/<table>/data/….parquet`, and the metadata of Iceberg beside `data`.

    Args:
        destination: of the export.
        rules: for the types of columns.
        catalog: name or URI; empty for `catalog.db` in the folder of the export.
        is_partitioned: True for a partition for each key group.
        is_complete: True if tables that a savepoint lacks become empty.

    Raises:
        EngineUnavailableError: pyiceberg is not installed.
        InvalidRequestError: there is no such catalog, or none can be at the destination.
    """

    def __init__(
        self,
        destination: Destination,
        rules: TypeRules,
        catalog: str,
        *,
        is_partitioned: bool,
        is_complete: bool,
    ) -> None:
        super().__init__(destination, rules, is_partitioned=is_partitioned, is_complete=is_complete)
        self._catalog = _opened(destination, catalog)
        self._location = f"file://{destination.url}" if isinstance(destination, Folder) else destination.url

    def close(self) -> None:
        self._catalog.close()

    def conversion(self, savepoint: ExportedSavepoint, table: ChosenTable) -> Conversion:
        wanted = self._rules.schema(table.table.schema)
        with _asked():
            transaction, _ = self._begun(savepoint, table.folder, wanted)
            fields = transaction.table_metadata.schema().as_struct().fields
        by_name = {field.name: field for field in fields}
        written = pa.schema([_numbered(column, by_name[column.name]) for column in wanted])
        return Conversion(table.table.name, written, written)

    def known(self, savepoint: ExportedSavepoint, folder: str) -> ExportedTable | None:
        found = self._snapshot_of(self._table(savepoint, folder), savepoint)
        return None if found is None else replace(self.described(folder), snapshot_id=found)

    def is_newest(self, savepoint: ExportedSavepoint, folder: str) -> bool:
        table = self._table(savepoint, folder)
        current = None if table is None else table.current_snapshot()
        return current is not None and self._is_of(current, savepoint)

    def others(self, savepoint: ExportedSavepoint, folders: set[str]) -> list[str]:
        with _asked():
            if not self._catalog.namespace_exists(savepoint.namespace):
                return []
            found = [name[-1] for name in self._catalog.list_tables(savepoint.namespace)]
        return [name for name in found if name not in folders]

    def commit_table(
        self, savepoint: ExportedSavepoint, table: ExportedTable, schema: pa.Schema | None
    ) -> ExportedTable:
        with _asked():
            transaction, before = self._begun(savepoint, table.folder, schema)
            properties = self.facts_of(savepoint)
            spec = transaction.table_metadata.spec()
            with transaction.update_snapshot(snapshot_properties=properties).overwrite() as snapshot:
                files = {f"{self._location}/{file.path}": file for file in table.files}
                if before is not None and before.current_snapshot() is not None:
                    for task in before.scan().plan_files():
                        if files.pop(task.file.file_path, None) is None:
                            snapshot.delete_data_file(task.file)
                for path, file in files.items():
                    snapshot.append_data_file(_data_file(path, file, spec))
            after = transaction.commit_transaction()
            current = after.current_snapshot()
        assert current is not None
        return replace(table, snapshot_id=current.snapshot_id)

    def _begun(
        self, savepoint: ExportedSavepoint, folder: str, wanted: pa.Schema | None
    ) -> tuple[Transaction, Table | None]:
        """Return a transaction whose table has the wanted columns, and the table if there is one; commits nothing."""
        before = self._table(savepoint, folder)
        if before is not None:
            transaction = before.transaction()
            if wanted is not None:
                _evolve(transaction, wanted)
            return transaction, before
        assert wanted is not None
        self._catalog.create_namespace_if_not_exists(savepoint.namespace)
        created = self._catalog.create_table_transaction(
            (savepoint.namespace, folder),
            wanted,
            location=f"{self._location}/{self.table_folder(savepoint, folder)}",
            properties=_PROPERTIES,
        )
        if self._is_partitioned and KEY_GROUP in wanted.names:
            with created.update_spec() as partitions:
                partitions.add_identity(KEY_GROUP)
        return created, None

    def _table(self, savepoint: ExportedSavepoint, folder: str) -> Table | None:
        from pyiceberg.exceptions import NoSuchTableError

        with _asked():
            try:
                return self._catalog.load_table((savepoint.namespace, folder))
            except NoSuchTableError:
                return None

    def _snapshot_of(self, table: Table | None, savepoint: ExportedSavepoint) -> int | None:
        """Return the id of the snapshot of a savepoint; None if there is none."""
        for snapshot in table.snapshots() if table is not None else ():
            if self._is_of(snapshot, savepoint):
                return snapshot.snapshot_id
        return None

    def _is_of(self, snapshot: Snapshot, savepoint: ExportedSavepoint) -> bool:
        found = {} if snapshot.summary is None else snapshot.summary.additional_properties
        return self.identity_of(savepoint).items() <= found.items()


def _data_file(path: str, file: ExportedFile, spec: PartitionSpec) -> DataFile:
    """Return how a manifest of Iceberg names a file. It has no bounds of columns: Python has no dates beyond the year 9999."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record() if spec.is_unpartitioned() else Record(file.key_group),
        record_count=file.rows,
        file_size_in_bytes=file.bytes,
        sort_order_id=None,
        spec_id=spec.spec_id,
        equality_ids=None,
        key_metadata=None,
    )


def _opened(destination: Destination, catalog: str) -> Catalog:
    try:
        from pyiceberg.catalog import load_catalog  # optional: the extra `iceberg` has it
    except ImportError as error:
        raise EngineUnavailableError(
            f"expected pyiceberg, which writes tables of Iceberg, found it not installed: {_INSTALL}"
        ) from error
    properties = _io_properties(destination.s3_options())
    if not catalog:
        if not isinstance(destination, Folder):
            raise InvalidRequestError(
                f"{destination.url}: expected a catalog, because an object store cannot hold catalog.db, found none",
                hint="--catalog names one",
            )
        properties |= {
            "type": "sql",
            "uri": f"sqlite:///{destination.url}/{CATALOG_FILE}",
            "warehouse": f"file://{destination.url}",
        }
    elif "://" in catalog:
        properties |= {"uri": catalog, "warehouse": destination.url}
    with _asked():
        return load_catalog(catalog if catalog and "://" not in catalog else _CATALOG, **properties)


def _io_properties(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of Iceberg that stand for arguments of Arrow's S3."""
    names = {
        "access_key": "s3.access-key-id",
        "secret_key": "s3.secret-access-key",
        "session_token": "s3.session-token",
        "region": "s3.region",
        "connect_timeout": "s3.connect-timeout",
        "request_timeout": "s3.request-timeout",
    }
    found = {name: str(arguments[given]) for given, name in names.items() if arguments.get(given)}
    if arguments.get("endpoint_override"):
        found["s3.endpoint"] = f"{arguments.get('scheme', 'https')}://{arguments['endpoint_override']}"
    return found


def _evolve(transaction: Transaction, wanted: pa.Schema) -> None:
    """Give the table of a transaction the columns that it lacks, and wider types."""
    own = {field.name: field.field_type for field in transaction.table_metadata.schema().as_struct().fields}
    new = {field.name: field.field_type for field in _iceberg_schema(wanted).as_struct().fields}
    replaced = [name for name, kind in new.items() if name in own and not _fits(own[name], kind)]
    if replaced:
        with transaction.update_schema(allow_incompatible_changes=True) as update:
            for name in replaced:
                update.delete_column(name)
    with transaction.update_schema() as update:
        update.union_by_name(wanted)
    if not replaced:
        return
    with transaction.update_schema() as update:
        # New columns stand at the end; these have the place of those that they replace.
        for before, name in pairwise(["", *wanted.names]):
            if name in replaced and before:
                update.move_after(name, before)
            elif name in replaced:
                update.move_first(name)


def _iceberg_schema(schema: pa.Schema) -> Any:
    from pyiceberg.catalog import Catalog

    return Catalog._convert_schema_if_needed(schema)


def _fits(own: IcebergType, new: IcebergType) -> bool:
    """Return whether a column can have both types, one after the other, and keep its number."""
    from pyiceberg.exceptions import ResolveError
    from pyiceberg.schema import promote
    from pyiceberg.types import ListType, MapType, StructType

    if isinstance(own, StructType) and isinstance(new, StructType):
        kinds = {field.name: field.field_type for field in own.fields}
        return all(_fits(kinds[field.name], field.field_type) for field in new.fields if field.name in kinds)
    if isinstance(own, ListType) and isinstance(new, ListType):
        return _fits(own.element_type, new.element_type)
    if isinstance(own, MapType) and isinstance(new, MapType):
        # Iceberg lets the type of a key stay, and nothing else.
        return own.key_type == new.key_type and _fits(own.value_type, new.value_type)
    if own == new or not (own.is_primitive and new.is_primitive):
        return own == new
    for narrow, wide in ((own, new), (new, own)):
        try:
            promote(narrow, wide)
        except ResolveError:
            continue
        return True
    return False


def _numbered(column: pa.Field, field: Any) -> pa.Field:
    """Return a column with the number, and the type, that a field of Iceberg has."""
    return pa.field(
        column.name, _numbered_type(column.type, field.field_type), metadata={_FIELD_ID: str(field.field_id)}
    )


def _numbered_type(own: pa.DataType, kind: Any) -> pa.DataType:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    if pa.types.is_struct(own):
        known = {field.name: field for field in kind.fields}
        return pa.struct([_numbered(part, known[part.name]) for part in own])
    if pa.types.is_map(own):
        return pa.map_(
            _numbered(pa.field("key", own.key_type), kind.key_field).with_nullable(False),
            _numbered(pa.field("value", own.item_type), kind.value_field),
        )
    if pa.types.is_list(own):
        return pa.list_(_numbered(pa.field("element", own.value_type), kind.element_field))
    # The table may have a wider number than this savepoint.
    is_number = pa.types.is_integer(own) or pa.types.is_floating(own) or pa.types.is_decimal(own)
    return schema_to_pyarrow(kind) if is_number else own


@contextmanager
def _asked() -> Iterator[None]:
    """Translate the errors of pyiceberg."""
    try:
        yield
    except (QueryError, pa.ArrowInvalid):
        raise
    except Exception as error:  # of catalogs and stores of any kind
        raise QueryError(
            f"the catalog of Iceberg fails: {type(error).__name__}: {error}", code="TARGET_FAILED"
        ) from error
