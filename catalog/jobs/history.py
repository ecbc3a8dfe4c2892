"""`HistoryDatabase`: the tables of all checkpoints of a job, each with the rows of all of them.

`Histories` keeps those of a catalog while their checkpoints stay the same.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from catalog.cache.listings import ListedTable
from catalog.database import Database
from catalog.errors import NoSuchTableError
from catalog.jobs.grouping import Job
from catalog.jobs.historytable import HistoryTable, Member, history_schema, left_out
from catalog.predicate import Predicate
from catalog.table import Table, TableOwner
from readers import ReaderError


class HistoryDatabase(TableOwner):
    """The history of a job: the same tables as its checkpoints have. Safe to share between threads.

    Args:
        job: the job.

    Attributes:
        databases: its checkpoints, the newest first.
    """

    def __init__(self, job: Job) -> None:
        self.name = job.history
        self.databases = job.databases
        self._lock = threading.Lock()
        self._tables: dict[str, HistoryTable] = {}

    @property
    def tables(self) -> list[str]:
        return [table.name for table in self.listed()]

    def listed(self) -> Sequence[ListedTable | Table]:
        """Return the tables that any checkpoint has, as lists show them; those of the newest first.

        Raises:
            ReaderError: no checkpoint can be read.
        """
        found: dict[str, list[ListedTable | Table]] = {}
        failures: list[ReaderError] = []
        # Most checkpoints of a job have the same tables, remembered as one object.
        seen: dict[int, Sequence[ListedTable | Table]] = {}
        for database in self.databases:
            try:
                listed = database.listed()
            except ReaderError as error:
                failures.append(error)
                continue
            if id(listed) in seen:
                continue
            seen[id(listed)] = listed
            for table in listed:
                found.setdefault(table.name.casefold(), []).append(table)
        if len(failures) == len(self.databases):
            raise failures[0]
        return tuple(
            ListedTable(own[0].name, own[0].comment, history_schema([one.schema for one in own]))
            for own in found.values()
        )

    def table(self, name: str) -> HistoryTable:
        """Return the table of this name in all checkpoints that have it, in any case.

        Raises:
            NoSuchTableError: no checkpoint has it; near names in the error.
            ReaderError: no checkpoint can be read.
        """
        members: list[Member] = []
        unread: list[ReaderError] = []
        unknown: list[NoSuchTableError] = []
        failures: list[ReaderError] = []
        for database in self.databases:
            try:
                table = database.table(name)
                database.describe()
            except NoSuchTableError as error:
                unknown.append(error)
            except ReaderError as error:
                failures.append(error)
                unread.append(left_out(database.name, error, database.reference))
            else:
                members.append(Member(database, table))
        if not members:
            raise unknown[0] if unknown else failures[0]
        return self._kept(tuple(members), tuple(unread))

    def databases_for(self, table: Table, predicate: Predicate) -> tuple[Database, ...]:
        """Return the checkpoints of which a scan of one of its tables may read rows."""
        return self.table(table.name).databases_for(predicate)

    def _kept(self, members: tuple[Member, ...], unread: tuple[ReaderError, ...]) -> HistoryTable:
        """Return the table of these checkpoints, the same as before where nothing has changed: its columns are known then."""
        newest = members[0].table
        with self._lock:
            known = self._tables.get(newest.name)
            if known is None or known.members != members or known.unread or unread:
                known = HistoryTable(newest.name, newest.comment, members, unread)
                self._tables[newest.name] = known
            return known


# Users with different grants may have different histories of one job.
_MOST = 256


class Histories:
    """The latest histories that were asked for. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, tuple[int, ...]], HistoryDatabase] = OrderedDict()

    def of(self, job: Job) -> HistoryDatabase:
        """Return the history of a job: the same one as long as its checkpoints are the same."""
        # A history keeps its databases, so no other object has their numbers.
        key = job.history, tuple(map(id, job.databases))
        with self._lock:
            found = self._known.pop(key, None) or HistoryDatabase(job)
            self._known[key] = found
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
            return found
