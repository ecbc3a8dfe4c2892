"""`Database`: one savepoint, its age and its tables."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog import references
from catalog.cache.files import ListedTable, listing_key, outline_key
from catalog.cache.states import StateCache
from catalog.scan import Predicate
from catalog.table import Table, TableOwner
from readers import ReaderError, operator_id_of

if TYPE_CHECKING:
    from catalog.masks.masks import Masks
    from catalog.savepointtables import SavepointTables
    from catalog.statetables import StateTable, TimersTable
    from readers import Savepoint

_NANOSECONDS = 1_000_000_000
_LINEAGE_DIGITS = 12


class Database(TableOwner):
    """One savepoint or checkpoint. `_metadata` is read when it is first needed, state files when their tables are.

    Args:
        name: in the catalog.
        reference: opens the savepoint.
        uids: uids of operators of which the savepoint stores only the ids.
        cache: of decoded states; None for none.
        modified_ns: when its `_metadata` was modified, since 1970; 0 where that is not known.
        job: the place of the job that wrote it; that of the path alone if None.
        facts: what a cluster of Flink says of it.
    """

    def __init__(
        self,
        name: str,
        reference: references.SavepointReference,
        uids: Iterable[str] = (),
        cache: StateCache | None = None,
        modified_ns: int = 0,
        job: references.JobPlace | None = None,
        facts: references.KnownFacts = references.NO_FACTS,
    ) -> None:
        self.name = name
        self.reference = reference
        self.modified_ns = modified_ns
        self.job = job or references.job_place(name, (), reference.path)
        self._facts = facts
        self.cache = cache
        self._given_uids = {operator_id_of(uid): uid for uid in uids}
        self._description: tuple[int, str | None] | None = None
        self._lineage: str | None = None
        self._size_bytes: int | None = None
        self._outline: tuple[bytes | None] | None = None
        self._lock = threading.Lock()
        self._tables: SavepointTables | None = None
        self._tables_uids: Mapping[str, str] = {}
        self._listed: tuple[ListedTable, ...] | None = None
        self._listed_uids: Mapping[str, str] = {}
        self._masked: dict[Masks, Database] = {}

    @property
    def masks(self) -> Masks | None:
        """What stands in place of values in its tables; None for the values themselves."""
        return self.reference.masks

    def masked(self, masks: Masks) -> Database:
        """Return the same savepoint with masks in all tables: the same object each time, by which engines know its tables.

        One that has masks keeps them.
        """
        if self.masks is not None:
            return self
        with self._lock:
            found = self._masked.get(masks)
            if found is None:
                reference = replace(self.reference, masks=masks)
                uids = self._given_uids.values()
                found = self._masked[masks] = Database(
                    self.name, reference, uids, self.cache, self.modified_ns, self.job, self._facts
                )
            return found

    @property
    def uids(self) -> Mapping[str, str]:
        """Operator id → uid: what was given, and what a cluster of Flink says of the job."""
        told = self._facts.operator_uids_of(self.path, self.job.job_id)
        return {**told, **self._given_uids} if told else self._given_uids

    @property
    def savepoint(self) -> Savepoint:
        """The open savepoint.

        Raises:
            ReaderError: it cannot be opened.
        """
        known = self._tables
        # While its tables are used it stays open, however many others the process opens.
        if known is not None and not known.savepoint.has_failed:
            return known.savepoint
        return references.open_savepoint(self.reference)

    @property
    def is_gone(self) -> bool:
        """True if the savepoint was removed. Asks the storage also if it is open: Flink removes `_metadata` first."""
        return references.is_gone(self.reference)

    @property
    def version(self) -> str | None:
        """A text that changes with the savepoint and with what decides on its rows; None where the storage does not say.

        Asks the storage for the times of `_metadata` and of what lies beside it.

        Raises:
            ReaderError: the savepoint cannot be opened.
        """
        # What the jars of a `stateInfo` hold now is not known without reading them.
        if self.savepoint.state_info.jars:
            return None
        own = listing_key(self.reference, self.modified_ns, tuple(self.uids.items()))
        return own if own is None or self.masks is None else f"{own} {self.masks.digest}"

    @property
    def path(self) -> str:
        """Its directory."""
        return self.reference.path

    @property
    def created_at(self) -> datetime | None:
        """When Flink made it, in UTC; None where it is not known.

        The cluster says so; otherwise it is the time of `_metadata`, which Flink writes last, to the second.
        """
        known = self.checkpoint_facts
        if known is not None and known.created_at is not None:
            return known.created_at
        seconds = self.modified_ns // _NANOSECONDS
        return datetime.fromtimestamp(seconds, UTC) if seconds else None

    @property
    def folder(self) -> str:
        """The last folder of its path, such as `chk-41`."""
        return (references.folders_above(self.path) or (self.name,))[-1]

    @property
    def checkpoint_facts(self) -> references.CheckpointFacts | None:
        """What a cluster of Flink says of it; None if none does."""
        return self._facts.of_checkpoint(self.path)

    @property
    def age(self) -> timedelta | None:
        """How long ago Flink made it; None where it is not known."""
        created_at = self.created_at
        return None if created_at is None else datetime.now(UTC) - created_at

    @property
    def readable(self) -> bool:
        """True if its `_metadata` can be read; reads it the first time."""
        try:
            self.describe()
        except ReaderError:
            return False
        return True

    @property
    def is_described(self) -> bool:
        """True if `describe` answers without reading."""
        return self._description is not None

    def describe(self) -> tuple[int, str | None]:
        """Return `checkpoint_id` and `kind`; reads `_metadata` the first time.

        Raises:
            ReaderError: it cannot be opened.
        """
        # Asked once: other threads may have it closed by the second time, and it would be read again.
        return self._description or self._described(self.savepoint)

    def _described(self, savepoint: Savepoint) -> tuple[int, str | None]:
        metadata = savepoint.metadata
        kind = str(metadata.properties.kind) if metadata.properties else None
        self._lineage, self._size_bytes = _lineage_of(savepoint), metadata.size_bytes
        self._description = metadata.checkpoint_id, kind
        return self._description

    def outline(self) -> bytes | None:
        """Return its outline, see `Savepoint.outline`, and describe it: opened once for both, and not kept open.

        Raises:
            ReaderError: it cannot be opened.
        """
        if self._outline is None:
            # A history of thousands would close what queries read.
            savepoint = references.open_anew(self.reference)
            self._described(savepoint)
            self._outline = (savepoint.outline(),)
        return self._outline[0]

    def likeness(self) -> Hashable:
        """Return what databases with the same tables share: outline and uids, or the database itself where it has no outline.

        Raises:
            ReaderError: it cannot be opened.
        """
        outline = self.outline()
        return self if outline is None else (outline, *sorted(self.uids.items()))

    @property
    def lineage(self) -> str | None:
        """A digest of the ids of its operators, which savepoints of one program share; None before `describe`."""
        return self._lineage

    @property
    def size_bytes(self) -> int | None:
        """The bytes of all its files, those that it shares with others among them; None before `describe`."""
        return self._size_bytes

    @property
    def checkpoint_id(self) -> int:
        """The number that Flink gave to the checkpoint."""
        return self.describe()[0]

    @property
    def kind(self) -> str | None:
        """`SAVEPOINT` or `CHECKPOINT`; None where the savepoint does not say (before Flink 1.16)."""
        return self.describe()[1]

    def damaged_files(self) -> tuple[list[ReaderError], int]:
        """Return the errors of files that are not there or too short, and the number of all files; reads only `_metadata`.

        Raises:
            ReaderError: it cannot be opened.
        """
        from catalog.facts import damaged_files  # heavy, as what opens a savepoint is

        return damaged_files(self.savepoint)

    @property
    def tables(self) -> list[str]:
        """Names of its tables; reads the headers of all state files."""
        return [table.name for table in self._opened().all()]

    def listed(self) -> Sequence[ListedTable | Table]:
        """Return its tables as lists show them; reads the headers of all state files, unless they are remembered.

        Raises:
            ReaderError: it cannot be opened.
        """
        uids = self.uids
        if self._listed is not None and self._listed_uids == uids:
            return self._listed
        memory = None if self.cache is None else self.cache.listings
        if memory is None:
            return tuple(self._opened().all())
        key = listing_key(self.reference, self.modified_ns, tuple(uids.items()))
        if key is None:
            return tuple(self._opened().all())
        self._listed, self._listed_uids = memory.read(key), uids
        if self._listed is None:
            outline = self.outline()
            common = None if outline is None else outline_key(outline, tuple(uids.items()))
            self._listed = None if common is None else memory.link(key, common)
        if self._listed is None:
            opened = self._opened()
            found = tuple(ListedTable(one.name, one.comment, one.schema) for one in opened.all())
            # The key does not say which jars its stateInfo names, and what they hold now.
            if not opened.is_whole or self.savepoint.state_info.jars:
                return found
            memory.write(key, found)
            if common is not None:
                memory.link(common, key)
            self._listed = found
        return self._listed

    @property
    def table_schemas(self) -> Iterator[tuple[str, pa.Schema]]:
        """(table, its columns) of all tables."""
        return ((table.name, table.schema) for table in self._opened().all())

    def table(self, name: str) -> Table:
        """Return a table by name, in any case; reads the headers of the operators that the name may mean, mostly one.

        An operator answers to uid, name and id, whichever of them its table is named after.

        Raises:
            NoSuchTableError: near names in the error; reads the headers of all state files for them.
            ReaderError: a file that may hold the state of this name cannot be read.
        """
        return self._opened().find(name)

    @property
    def upstream_tables(self) -> list[str]:
        """Names of its tables in Flink's State Catalog; reads the headers of all state files."""
        return self._opened().upstream.names

    def upstream_table(self, name: str) -> Table | None:
        """Return a table by its name in Flink's State Catalog, in any case; None if there is none.

        Raises:
            ReaderError: a file that may hold the state of this name cannot be read.
        """
        return self._opened().upstream.find(name)

    def databases_for(self, _table: Table, _predicate: Predicate) -> tuple[Database, ...]:
        """Return the databases of which a scan of one of its tables reads rows: itself."""
        return (self,)

    def operator_of(self, name: str) -> str:
        """Return the id of an operator by the name of its table, or another of its names, in any case.

        Raises:
            NoSuchTableError: near names in the error.
        """
        return self._opened().operator_of(name)

    def state_tables(self) -> Iterator[tuple[str, StateTable]]:
        """Yield the table of each state but timers, with the id of its operator.

        Raises:
            ReaderError: `_metadata` or the headers of an operator cannot be read.
        """
        return self._opened().state_tables()

    @property
    def timers(self) -> TimersTable:
        """The table of the timers of all operators."""
        return self._opened().timers

    @property
    def operator_names(self) -> dict[str, str]:
        """Operator id → the name of its table."""
        return self._opened().operator_names

    def _opened(self) -> SavepointTables:
        """Return the tables of the open savepoint: the same ones as long as it stays open, by which engines know them again."""
        # Heavy: many statements need the tables of no savepoint, or of one.
        from catalog.savepointtables import SavepointTables

        savepoint, uids = self.savepoint, self.uids
        with self._lock:
            # A cluster may tell uids later: the tables then get the names that people know.
            is_current = self._tables is not None and self._tables.savepoint is savepoint
            if self._tables is None or not is_current or self._tables_uids != uids:
                self._tables = SavepointTables(self.name, savepoint, self.reference, uids, self.cache)
                self._tables_uids = uids
            return self._tables


def _lineage_of(savepoint: Savepoint) -> str:
    ids = sorted(operator.operator_id for operator in savepoint.operators)
    return hashlib.sha256(" ".join(ids).encode()).hexdigest()[:_LINEAGE_DIGITS]
