"""`HistoryTable`: one table in all checkpoints of a job, with three columns in front that say which checkpoint a row is of.

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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa

from catalog.cache.states import CacheUse
from catalog.database import Database
from catalog.predicate import ANYTHING, Predicate
from catalog.references import SavepointReference, is_gone
from catalog.scan import DerivedSplit, Scan, ScanCounter, Split
from catalog.splits import Output
from catalog.table import Table
from readers import ReaderError, SavepointGoneError

CHECKPOINT_ID = "_checkpoint_id"
CHECKPOINT_AT = "_checkpoint_at"
DATABASE = "_database"
RANGED = (CHECKPOINT_ID, CHECKPOINT_AT)
"""The columns of which ranges leave out checkpoints."""
_OWN = pa.schema(
    [(CHECKPOINT_ID, pa.int64()), (CHECKPOINT_AT, pa.timestamp("us", "UTC")), (DATABASE, pa.string())]
)


@dataclass(frozen=True, slots=True)
class Member:
    """A checkpoint that has the table.

    Attributes:
        database: the checkpoint.
        table: the table in it.
    """

    database: Database
    table: Table

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

    def elsewhere(self) -> HistorySplit:
        return self._with(self.origin.elsewhere(), self.outputs)

    def narrowed(self, columns: Sequence[str]) -> HistorySplit:
        by_name = {output.name: output for output in self.outputs}
        outputs = tuple(by_name[name] for name in columns)
        # Columns may come from the same one of the checkpoint.
        sources = dict.fromkeys(output.source for output in outputs if output.source is not None)
        return self._with(self.origin.narrowed(list(sources)), outputs)

    def _with(self, origin: Split, outputs: tuple[Output, ...]) -> HistorySplit:
        return replace(
            self,
            origin=origin,
            outputs=outputs,
            size_bytes=origin.size_bytes,
            cached_bytes=origin.cached_bytes,
        )

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


class HistoryTable(Table):
    """One table in all checkpoints of a job.

    Args:
        name: as listed.
        comment: what it holds, for people.
        members: the checkpoints that have it, the newest first; at least one.
        unread: the errors of the checkpoints that may have it and cannot be read.
    """

    leaves_out = True

    def __init__(
        self, name: str, comment: str, members: tuple[Member, ...], unread: tuple[ReaderError, ...]
    ) -> None:
        self.name = name
        self.comment = comment
        self.members = members
        self.unread = unread

    @cached_property
    def schema(self) -> pa.Schema:
        return history_schema([member.table.schema for member in self.members])

    @cached_property
    def unquoted(self) -> frozenset[str]:
        return frozenset.intersection(*(member.table.unquoted for member in self.members))

    @property
    def size_bytes(self) -> int:
        return sum(member.table.size_bytes for member in self.members)

    def databases_for(self, predicate: Predicate) -> tuple[Database, ...]:
        """Return the checkpoints that may have wanted rows."""
        return tuple(member.database for member in self.members if _is_wanted(member, predicate))

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        splits: list[Split] = []
        uses: list[CacheUse] = []
        unread = list(self.unread)
        for member in self.members:
            if not _is_wanted(member, predicate):
                continue
            try:
                scan = member.table.plan(self._own(member.table, predicate), allow_partial=allow_partial)
            except ReaderError as error:
                unread.append(left_out(member.database.name, error, member.database.reference))
                continue
            unread += scan.unread
            outputs = self._outputs(member)
            splits += (
                HistorySplit(
                    origin=split,
                    checkpoint=member.database.reference,
                    database=member.database.name,
                    outputs=outputs,
                    size_bytes=split.size_bytes,
                    cached_bytes=split.cached_bytes,
                )
                for split in scan.splits
            )
            if scan.cache_use is not None:
                uses.append(scan.cache_use)
        return Scan(schema=self.schema, splits=tuple(splits), cache_use=_together(uses), unread=tuple(unread))

    def _own(self, table: Table, predicate: Predicate) -> Predicate:
        """Return the conditions on columns that have the same values in the table of a checkpoint."""
        own = table.schema
        return Predicate(
            {
                name: values
                for name, values in predicate.values.items()
                if name not in _OWN.names
                and name in own.names
                and _is_kept(own.field(name).type, self.schema.field(name).type)
            }
        )

    def _outputs(self, member: Member) -> tuple[Output, ...]:
        facts, own = member.facts, member.table.schema
        return tuple(
            Output(column.name, column.type, constant=facts[column.name])
            if column.name in facts
            else _output(column, own)
            for column in self.schema
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

    columns = [(name, common_type(found)) for name, found in types.items() if name not in _OWN.names]
    return pa.schema([*_OWN, *columns])


def _is_wanted(member: Member, predicate: Predicate) -> bool:
    asked = {name: values for name in _OWN.names if (values := predicate.of(name)) is not None}
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
