"""Tables of Delta, by deltalake: a table for each state, a version for each checkpoint.

A version replaces all files of the one before it, so a table as of a version is the state as of that checkpoint; `DESCRIBE HISTORY`
shows which. The data files are those of all formats.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from readers import KEY_GROUP
from service.base.errors import EngineUnavailableError, QueryError
from service.tasks.export.files.conversion import TypeRules
from service.tasks.export.files.destinations import Destination
from service.tasks.export.layouts import HistoryLayout
from service.tasks.export.manifest import ExportedSavepoint, ExportedTable

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

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

    def others(self, savepoint: ExportedSavepoint, folders: set[str]) -> list[str]:
        found = {name.partition("/")[0] for name in self._names(savepoint) if _LOG in name}
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
            actions: list[Any] = list(self._actions(savepoint, table, is_partitioned=is_partitioned))
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
            else:
                before.create_write_transaction(
                    actions, "overwrite", own, partitions, commit_properties=properties
                )
            after = self._table(savepoint, table.folder)
        assert after is not None
        return replace(table, version=after.version())

    def _actions(
        self, savepoint: ExportedSavepoint, table: ExportedTable, *, is_partitioned: bool
    ) -> Iterator[AddAction]:
        from deltalake.transaction import AddAction

        above = f"{self.table_folder(savepoint, table.folder)}/"
        for file in table.files:
            yield AddAction(
                path=file.path.removeprefix(above),
                size=file.bytes,
                partition_values={KEY_GROUP: str(file.key_group)} if is_partitioned else {},
                modification_time=int(time.time() * 1000),
                data_change=True,
                stats=json.dumps({"numRecords": file.rows}),
            )

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
