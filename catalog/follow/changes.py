"""`ChangesTable`: what each checkpoint of a job changed in a table, one diff for each checkpoint that can be read.

| column | value |
|---|---|
| `_checkpoint_id`, `_checkpoint_at`, `_database` | the checkpoint with the change, as in `catalog.history` |
| all others | those of the table of differences (`catalog.differences`) between it and the one before it that can be read |

A checkpoint that cannot be read, or is gone, has no rows: the diff of the next one spans it, so the sum of all rows is right. The oldest
checkpoint has no rows, because nothing is before it. A state file that cannot be read makes the query fail: without its rows
the sum would be wrong. Conditions on the three columns leave out checkpoints; their diffs are not made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import pyarrow as pa

from catalog.database import Database
from catalog.errors import NotComparableError
from catalog.history import (
    HistoryDatabase,
    HistorySplit,
    JobTable,
    Member,
    conditions_of,
    history_schema,
    is_wanted,
)
from catalog.scan import ANYTHING, Predicate, Scan, ScanCounter, Split
from readers import ReaderError


@dataclass(frozen=True, slots=True)
class Change:
    """A checkpoint, and what differs from the one before it.

    Attributes:
        before: the checkpoint before it.
        after: the checkpoint; its table is that of the differences.
    """

    before: Database
    after: Member


class ChangeSplit(HistorySplit):
    """What differs in some key groups, as rows of the changes."""

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        return map(self._rows, self.origin.read(counter))


class ChangesTable(JobTable):
    """What each checkpoint of a job changed in a table.

    Args:
        name: of the table.
        changes: of each checkpoint that has one before it, the newest first; at least one.
        unread: the errors of the checkpoints that cannot be read.
    """

    leaves_out = True

    def __init__(self, name: str, changes: Sequence[Change], unread: Sequence[ReaderError]) -> None:
        self.name = name
        self.comment = f"what each checkpoint changed in {name}"
        self._changes = tuple(changes)
        self._unread = tuple(unread)

    @cached_property
    def schema(self) -> pa.Schema:
        return history_schema([change.after.table.schema for change in self._changes])

    @cached_property
    def size_bytes(self) -> int:
        return sum(change.after.table.size_bytes for change in self._changes)

    def databases_for(self, predicate: Predicate) -> tuple[Database, ...]:
        wanted = [change for change in self._changes if is_wanted(change.after, predicate)]
        found = [one for change in wanted for one in (change.after.database, change.before)]
        return tuple(dict.fromkeys(found))

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        """Return a scan of the changes; rows of files that cannot be read are never left out.

        Raises:
            ReaderError: a state file that holds wanted rows cannot be opened.
        """
        splits: list[Split] = []
        for change in self._changes:
            member = change.after
            if is_wanted(member, predicate):
                scan = member.table.plan(conditions_of(member.table, predicate, self.schema))
                splits += ChangeSplit.all_of(member, scan.splits, self.schema)
        return Scan(schema=self.schema, splits=tuple(splits), unread=self._unread)


def changes_of(history: HistoryDatabase, name: str) -> ChangesTable:
    """Return what each checkpoint of a job changed in a table.

    Args:
        history: of the job.
        name: of the table in any checkpoint, in any case.

    Raises:
        NoSuchTableError: no checkpoint has it; near names in the error.
        NotComparableError: fewer than two checkpoints can be read, or it is the wide table of an operator.
        ReaderError: no checkpoint can be read, or a file that may hold the state cannot.
    """
    from catalog.differences.table import diff_table  # heavy: few statements compare

    known = history.table(name)
    readable = [database for database in history.databases if is_readable(database)]
    found = {member.database.name for member in known.members}
    changes = [
        Change(before, Member(after, diff_table(before, after, known.name), after))
        for after, before in pairwise(readable)
        if {after.name, before.name} & found
    ]
    if not changes:
        raise NotComparableError(
            f"expected two checkpoints with {known.name} that can be read, found {len(readable)}: "
            f"nothing has changed in {history.name} yet"
        )
    return ChangesTable(known.name, changes, known.unread)


def is_readable(database: Database) -> bool:
    """Return whether the metadata of a checkpoint can be read."""
    try:
        database.describe()
    except ReaderError:
        return False
    return True
