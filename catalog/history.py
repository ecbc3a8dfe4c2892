"""`Job`: the databases of one job, by their paths alone.

| path below the root `prod` | job | why |
|---|---|---|
| `<id>/chk-4` | `prod__<id>` | Flink writes the checkpoints of a job into a folder of its own |
| `us/jobA/chk-4`, `us/jobA/nightly` | `prod__us__jobA` | the folder that they are in |
| `chk-4` | `prod` | the root is that folder |
| `savepoint-3f2a91-0c1d2e3f4a5b` | the job whose id begins with `3f2a91` | if the catalog has exactly one |
| | else `prod__savepoint-3f2a91` | all with these digits in this folder |
| any that a cluster of Flink knows | the job of the id that the cluster says | if the catalog has exactly one |
| none: the root is the savepoint | `prod` | a job with one database |

No file is opened, and the name of a job never depends on what else is there. So two folders with one name are two jobs, unless they
are the same folder.

`HistoryDatabase`: the tables of all checkpoints of a job, each with the rows of all of them.

`Histories` keeps those of a catalog while their checkpoints stay the same.

`HistoryTable`: one table in all checkpoints of a job, with three columns in front that say which checkpoint a row is of.

| column | type | value |
|---|---|---|
| `_checkpoint_id` | BIGINT | the number that Flink gave to the checkpoint |
| `_checkpoint_at` | TIMESTAMP WITH TIME ZONE | when Flink made it, in UTC |
| `_database` | VARCHAR | its database |

The other columns are those of the newest checkpoint that has the table, then those that only older ones have. A column whose types
differ has their common type, else it is JSON text.

Conditions on the three columns leave out checkpoints, all others prune in each checkpoint as they do in its own table. A checkpoint
that cannot be read, or is removed while it is read, is left out, and `Scan.incomplete` names it.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Self

import pyarrow as pa

from catalog.cache.files import ListedTable
from catalog.cache.states import CacheUse
from catalog.database import Database
from catalog.errors import NoSuchTableError
from catalog.references import SEPARATOR, JobPlace, KnownFacts, SavepointReference, database_name, is_gone
from catalog.scan import ANYTHING, DerivedSplit, Output, Predicate, Scan, ScanCounter, Split
from catalog.table import Table, TableOwner
from readers import ReaderError, SavepointGoneError

HISTORY = "history"
# No part of a spelled name begins so: `~` stands before two hexadecimal digits.
_OWN_NAME = "~"
_SAVEPOINTS = "savepoint-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The savepoints and checkpoints of a job.

    Attributes:
        name: unique in the catalog.
        label: of the root that they are under.
        title: the name for people, which other jobs may have, too.
        job_id: the id that Flink gave to the job, 32 hexadecimal digits; None where no path has it.
        databases: the newest first; at least one.
        history: the name of the schema of its history.
    """

    name: str
    label: str
    title: str
    job_id: str | None
    databases: tuple[Database, ...]
    history: str

    def is_called(self, name: str) -> bool:
        """Return whether the job has this casefolded name, id or title; several jobs may have one title."""
        spelled = database_name(self.title).casefold()
        return name in (self.name.casefold(), self.job_id, self.title.casefold(), spelled)


def jobs_of(databases: Sequence[Database], facts: KnownFacts) -> list[Job]:
    """Return the jobs of databases, in the order of their first ones; opens nothing.

    Args:
        databases: all that a user sees: the others have no influence.
        facts: what clusters say of them.
    """
    by_place = _by_job(databases, facts)
    taken = {database.name.casefold() for database in databases}
    return [
        Job(
            name=name,
            label=found[0].job.label,
            title=found[0].job.title or found[0].job.label,
            job_id=next(filter(None, (one.job.job_id or facts.job_id_of(one.path) for one in found)), None),
            databases=newest_first(found),
            history=_history_name(name, taken),
        )
        for name, found in by_place.items()
    ]


def earlier_than(database: Database, jobs: Iterable[Job]) -> tuple[Database, ...]:
    """Return the databases before one in its job, the newest first; opens nothing."""
    for job in jobs:
        if database in job.databases:
            return job.databases[job.databases.index(database) + 1 :]
    return ()


def newest_first(databases: Iterable[Database]) -> tuple[Database, ...]:
    """Return databases, the newest first; opens nothing."""
    found = list(databases)
    ages = ages_of(found)
    return tuple(sorted(found, key=lambda one: (*ages[one], one.name), reverse=True))


def ages_of(databases: Iterable[Database]) -> dict[Database, tuple[int, int]]:
    """Return what orders databases: the latest moment, in nanoseconds since 1970, when each can have been made, and its number.

    Flink counts the checkpoints in a folder on, and a copy of a file is never older than the file. So no checkpoint was made after
    `_metadata` of one with a higher number was modified, whatever the times of a copied folder.
    """
    ages: dict[Database, tuple[int, int]] = {}
    bounds: dict[str, int] = {}
    for one in sorted(databases, key=_number, reverse=True):
        counter = counter_of(one)
        bounds[counter] = min(one.modified_ns, bounds.get(counter, one.modified_ns))
        ages[one] = bounds[counter], _number(one)
    return ages


def counter_of(database: Database) -> str:
    """Return the folder in which a checkpoint is counted, or the path of another savepoint."""
    path = database.path.rstrip("/")
    return path if database.job.checkpoint is None else f"{path.rpartition('/')[0]}/"


def _number(database: Database) -> int:
    return database.job.checkpoint or 0


def _by_job(databases: Sequence[Database], facts: KnownFacts) -> dict[str, list[Database]]:
    """Return the name of each job → its databases."""
    named: dict[str, list[Database]] = {}
    waiting: list[Database] = []
    for database in databases:
        said = facts.job_id_of(database.path)
        if database.job.id_prefix is None and said in (None, database.job.job_id):
            named.setdefault(_name(database.job), []).append(database)
        else:
            waiting.append(database)
    by_id: dict[str, list[str]] = {}
    for name, found in named.items():
        for job_id in {one.job.job_id for one in found if one.job.job_id is not None}:
            by_id.setdefault(job_id, []).append(name)
    for database in waiting:
        is_savepoint = database.job.id_prefix is not None
        own = _savepoint_job(database.job, named) if is_savepoint else _name(database.job)
        joined = _only_job(database, by_id, facts)
        named.setdefault(joined or own, []).append(database)
    return named


def _only_job(database: Database, by_id: dict[str, list[str]], facts: KnownFacts) -> str | None:
    """Return the name of the only job of the id, or of its first digits, that is known of a savepoint; None for no such job."""
    known = facts.job_id_of(database.path)
    prefix = known or database.job.id_prefix or ""
    names = [name for job_id, of_id in by_id.items() if job_id.startswith(prefix) for name in of_id]
    return names[0] if len(names) == 1 else None


def _name(place: JobPlace) -> str:
    return database_name(place.label, place.folders)


def _savepoint_job(place: JobPlace, named: dict[str, list[Database]]) -> str:
    """Return the name of the job of savepoints in one folder whose names begin with the same digits."""
    if not place.folders:
        return database_name(place.label)
    above = database_name(place.label, place.folders[:-1])
    own = f"{_SAVEPOINTS}{place.id_prefix}"
    name = SEPARATOR.join((above, own))
    known = named.get(name)
    # A folder of checkpoints may be called so.
    if known is None or known[0].job.id_prefix is not None:
        return name
    return SEPARATOR.join((above, _OWN_NAME + own))


def _history_name(job: str, taken: set[str]) -> str:
    name = SEPARATOR.join((job, HISTORY))
    return SEPARATOR.join((job, _OWN_NAME + HISTORY)) if name.casefold() in taken else name


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
        # Checkpoints with one outline have the same tables: of these the headers of the first one are parsed.
        alike: dict[Hashable, Member | NoSuchTableError] = {}
        for database in self.databases:
            try:
                key = database.likeness()
                found = alike.get(key) or alike.setdefault(key, _member(database, name))
            except ReaderError as error:
                failures.append(error)
                unread.append(left_out(database.name, error, database.reference))
                continue
            if isinstance(found, Member):
                members.append(Member(database, found.shown, found.origin))
            else:
                unknown.append(found)
        if not members:
            raise unknown[0] if unknown else failures[0]
        return self._kept(tuple(members), tuple(unread))

    def databases_for(self, table: Table, predicate: Predicate) -> tuple[Database, ...]:
        """Return the checkpoints of which a scan of one of its tables may read rows."""
        found = table if isinstance(table, JobTable) else self.table(table.name)
        return found.databases_for(predicate)

    def _kept(self, members: tuple[Member, ...], unread: tuple[ReaderError, ...]) -> HistoryTable:
        """Return the table of these checkpoints, the same as before where nothing has changed: its columns are known then."""
        newest = members[0].shown
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


CHECKPOINT_ID = "_checkpoint_id"
CHECKPOINT_AT = "_checkpoint_at"
DATABASE = "_database"
RANGED = (CHECKPOINT_ID, CHECKPOINT_AT)
"""The columns of which ranges leave out checkpoints."""
FACTS = pa.schema(
    [(CHECKPOINT_ID, pa.int64()), (CHECKPOINT_AT, pa.timestamp("us", "UTC")), (DATABASE, pa.string())]
)
"""The columns that say which checkpoint a row is of."""


@dataclass(frozen=True, slots=True)
class Member:
    """A checkpoint that has the table.

    Attributes:
        database: the checkpoint.
        shown: the table as `origin` has it: of the same name and columns.
        origin: the checkpoint itself, or one with the same outline.
    """

    database: Database
    shown: Table
    origin: Database

    @property
    def table(self) -> Table:
        """The table in the checkpoint.

        Raises:
            ReaderError: it cannot be opened.
        """
        return self.shown if self.database is self.origin else self.database.table(self.shown.name)

    @property
    def facts(self) -> dict[str, Any]:
        """The values of the three columns in front."""
        return {
            CHECKPOINT_ID: self.database.checkpoint_id,
            CHECKPOINT_AT: self.database.created_at,
            DATABASE: self.database.name,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySplit(DerivedSplit):
    """A split of the table of one checkpoint, as rows of the history.

    Attributes:
        checkpoint: the savepoint that it is of.
        database: the name of its database.
        outputs: the columns of the history.
    """

    checkpoint: SavepointReference
    database: str
    outputs: tuple[Output, ...]

    @classmethod
    def all_of(cls, member: Member, splits: Iterable[Split], shown: pa.Schema) -> Iterator[Self]:
        """Yield splits of the table of a checkpoint as splits of a history with these columns."""
        outputs = outputs_of(member, shown)
        for split in splits:
            yield cls(
                origin=split,
                checkpoint=member.database.reference,
                database=member.database.name,
                outputs=outputs,
                size_bytes=split.size_bytes,
                cached_bytes=split.cached_bytes,
            )

    def elsewhere(self) -> HistorySplit:
        return self.over(self.origin.elsewhere())

    def narrowed(self, columns: Sequence[str]) -> HistorySplit:
        by_name = {output.name: output for output in self.outputs}
        outputs = tuple(by_name[name] for name in columns)
        # Columns may come from the same one of the checkpoint.
        sources = dict.fromkeys(output.source for output in outputs if output.source is not None)
        return self.over(self.origin.narrowed(list(sources)), outputs=outputs)

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self.origin.read(counter):
                yield self._rows(batch)
        except ReaderError as error:
            # Without a counter nobody would learn of an error.
            if counter is None:
                raise
            counter.add_failure(left_out(self.database, error, self.checkpoint))

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        schema = pa.schema([pa.field(output.name, output.type) for output in self.outputs])
        arrays = [output.array(batch) for output in self.outputs]
        # Without columns only the number of rows counts, which a batch without arrays would lose.
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch


def _member(database: Database, name: str) -> Member | NoSuchTableError:
    try:
        return Member(database, database.table(name), database)
    except NoSuchTableError as error:
        return error


def left_out(database: str, error: ReaderError, checkpoint: SavepointReference) -> ReaderError:
    """Return an error that says which checkpoint a history lacks, and why."""
    kind, reason = type(error), error.message
    # What is not there any more is not damaged: Flink removed all of it.
    if is_gone(checkpoint):
        kind, reason = SavepointGoneError, "it was removed"
    return kind(
        f'checkpoint "{database}" is left out: {reason}',
        path=error.path,
        position=error.position,
        breadcrumbs=error.breadcrumbs,
    )


class JobTable(Table):
    """A table over checkpoints of a job."""

    @abstractmethod
    def databases_for(self, predicate: Predicate) -> tuple[Database, ...]:
        """Return the checkpoints that may have wanted rows."""


@dataclass(eq=False)
class HistoryTable(JobTable):
    """One table in all checkpoints of a job.

    Attributes:
        members: the checkpoints that have it, the newest first; at least one.
        unread: the errors of the checkpoints that may have it and cannot be read.
    """

    name: str
    comment: str
    members: tuple[Member, ...]
    unread: tuple[ReaderError, ...]
    leaves_out = True

    @property
    def _shown(self) -> Iterable[Table]:
        """One table for all checkpoints in which it is alike."""
        return dict.fromkeys(member.shown for member in self.members)

    @cached_property
    def schema(self) -> pa.Schema:
        return history_schema([shown.schema for shown in self._shown])

    @cached_property
    def unquoted(self) -> frozenset[str]:
        return frozenset.intersection(*(shown.unquoted for shown in self._shown))

    @cached_property
    def size_bytes(self) -> int:
        return sum(member.table.size_bytes for member in self.members)

    def databases_for(self, predicate: Predicate) -> tuple[Database, ...]:
        return tuple(member.database for member in self.members if is_wanted(member, predicate))

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        splits: list[Split] = []
        uses: list[CacheUse] = []
        unread = list(self.unread)
        for member in self.members:
            if not is_wanted(member, predicate):
                continue
            try:
                table = member.table
                scan = table.plan(conditions_of(table, predicate, self.schema), allow_partial=allow_partial)
            except ReaderError as error:
                unread.append(left_out(member.database.name, error, member.database.reference))
                continue
            unread += scan.unread
            splits += HistorySplit.all_of(member, scan.splits, self.schema)
            if scan.cache_use is not None:
                uses.append(scan.cache_use)
        return Scan(schema=self.schema, splits=tuple(splits), cache_use=_together(uses), unread=tuple(unread))


def conditions_of(table: Table, predicate: Predicate, shown: pa.Schema) -> Predicate:
    """Return the conditions on columns that have the same values in the table of a checkpoint.

    Args:
        table: of the checkpoint.
        predicate: the conditions on columns of the history.
        shown: those columns.
    """
    known = table.schema
    return Predicate(
        {
            name: values
            for name, values in predicate.values.items()
            if name not in FACTS.names
            and name in known.names
            and _is_kept(known.field(name).type, shown.field(name).type)
        }
    )


def outputs_of(member: Member, shown: pa.Schema) -> tuple[Output, ...]:
    """Return where the columns of a history come from in the table of a checkpoint."""
    facts, known = member.facts, member.shown.schema
    return tuple(
        Output(column.name, column.type, constant=facts[column.name])
        if column.name in facts
        else _output(column, known)
        for column in shown
    )


def history_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the columns of the history of a table.

    Args:
        schemas: its columns in each checkpoint, the newest first.
    """
    types: dict[str, list[pa.DataType]] = {}
    for schema in dict.fromkeys(schemas):
        for column in schema:
            types.setdefault(column.name, []).append(column.type)
    # A column of a table of SQL may have such a name, too: the checkpoint goes before it.
    from catalog.statetables import common_type  # heavy, as all that reads states is

    columns = [(name, common_type(found)) for name, found in types.items() if name not in FACTS.names]
    return pa.schema([*FACTS, *columns])


def is_wanted(member: Member, predicate: Predicate) -> bool:
    """Return whether a checkpoint may have rows of a history that conditions on its own columns want."""
    asked = {name: values for name in FACTS.names if (values := predicate.of(name)) is not None}
    ranges = {name: one for name in RANGED if (one := predicate.ranges.get(name)) is not None}
    facts = member.facts if asked or ranges else {}
    return all(facts[name] in _comparable(values, facts[name]) for name, values in asked.items()) and all(
        facts[name] in one for name, one in ranges.items()
    )


def _comparable(values: tuple[Any, ...], fact: Any) -> tuple[Any, ...]:
    """Return the values, or the fact itself where one of them is a time without a zone, which no time with a zone equals."""
    is_certain = all(value.tzinfo is not None for value in values if isinstance(value, datetime))
    return values if is_certain else (fact,)


def _is_kept(own: pa.DataType, shown: pa.DataType) -> bool:
    """Return whether a value of the history's column can be looked for in a column of a checkpoint."""
    is_wider = any(test(own) and test(shown) for test in (pa.types.is_integer, pa.types.is_floating))
    return own.equals(shown) or is_wider


def _output(column: pa.Field, own: pa.Schema) -> Output:
    if column.name not in own.names:
        return Output(column.name, column.type)
    needs_json = pa.types.is_string(column.type) and not pa.types.is_string(own.field(column.name).type)
    return Output(column.name, column.type, source=column.name, as_json=needs_json)


def _together(uses: Sequence[CacheUse]) -> CacheUse | None:
    """Return what a scan of all checkpoints means to the cache, which keeps each state of each."""
    if not uses:
        return None
    return CacheUse(
        cache=uses[0].cache,
        states=tuple(state for use in uses for state in use.states),
        reads_whole_states=all(use.reads_whole_states for use in uses),
    )
