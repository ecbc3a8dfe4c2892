"""The rows of a step: those of `diff('before', 'after', 'table')`, or the rows of a SELECT that appear and vanish.

A step's rows are read to the end before anybody gets the first one: a checkpoint that Flink removes meanwhile gives an error, and never a
part. Few rows stay in memory, more are in a file without a name; any number of followers read them.

A SELECT is run in each of the two checkpoints, whose tables need no qualifier in it. Its answers are compared as multisets: a row that is
twice in one and once in the other is added or removed once.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa

from catalog import Database
from catalog.differences.splits import CHANGE, JoinedRows, Role, compared_columns
from catalog.follow.steps import Step
from catalog.history import CHECKPOINT_AT, CHECKPOINT_ID, DATABASE
from readers import KEY_GROUP, sql_type
from service.base.errors import LimitExceededError, SavepointError, TableNotFoundError
from service.query.encode.formats import Column, decoded, decoded_schema, plain, plain_type
from service.query.serving.results import Spool
from service.query.sql.plan import DIFFERENCES, QUERY_WORDS
from service.query.sql.text import text_constant
from service.tasks.task import Context

_KEPT_BYTES = 1 << 20
_MOST_ANSWER_BYTES = 256 << 20
_TAKEN = (CHANGE, CHECKPOINT_ID, CHECKPOINT_AT, DATABASE, "checkpoint_id", "checkpoint_at")


def is_statement(what: str) -> bool:
    """Return whether a text is a statement, and not the name of a table."""
    words = what.split(maxsplit=1)
    return what.lstrip().startswith("(") or (len(words) > 1 and words[0].upper() in QUERY_WORDS)


@dataclass(frozen=True, slots=True)
class _Extent:
    """Where a batch stands in the file."""

    offset: int
    length: int


class Changes:
    """Rows that may be read any number of times, by several threads.

    Args:
        columns: names and SQL types.
        schema: of the rows.
        batches: the rows; read now.
        spool: has the room for the file that takes what is more than a megabyte.

    Attributes:
        columns: names and SQL types.
        schema: of the rows.
        row_count: how many there are.
        size_bytes: about how many bytes they take, in memory or in the file.

    Raises:
        LimitExceededError: there is no room for them.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        spool: Spool,
    ) -> None:
        self.columns = tuple(columns)
        # Each row may refer to one long value, which the size of a batch hides.
        self.schema = decoded_schema(schema)
        self.row_count = self.size_bytes = 0
        self._kept: list[pa.RecordBatch] = []
        self._extents: list[_Extent] = []
        self._spool = spool
        self._file: int | None = None
        for batch in map(decoded, batches):
            if not batch.num_rows:
                continue
            self.row_count += batch.num_rows
            if self._file is None and self.size_bytes + batch.nbytes <= _KEPT_BYTES:
                self._kept.append(batch)
                self.size_bytes += batch.nbytes
            else:
                self._write(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, batch by batch."""
        yield from self._kept
        for extent in self._extents:
            assert self._file is not None
            content = os.pread(self._file, extent.length, extent.offset)
            yield pa.ipc.open_stream(pa.py_buffer(content)).read_next_batch()

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._file is None:
            with self._spool.opened() as file:
                self._file = os.dup(file.fileno())
            weakref.finalize(self, _drop, self._file, self._extents, self._spool)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        content = memoryview(sink.getvalue())
        last = self._extents[-1] if self._extents else _Extent(0, 0)
        extent = _Extent(last.offset + last.length, len(content))
        if not self._spool.take(extent.length):
            raise LimitExceededError(
                f"expected room on the disk for the changes of a checkpoint, found none for {self.size_bytes + extent.length:,} bytes",
                hint="follow a SELECT with fewer columns or rows, or set more spool_total_bytes",
            )
        self._extents.append(extent)
        written = 0
        while written < len(content):
            written += os.pwrite(self._file, content[written:], extent.offset + written)
        self.size_bytes += len(content)


def _drop(file: int, extents: Sequence[_Extent], spool: Spool) -> None:
    os.close(file)
    spool.give_back(sum(extent.length for extent in extents))


def changes_of(what: str, step: Step, context: Context, spool: Spool | None = None) -> Changes:
    """Return the rows of a step.

    Args:
        what: a table, or a SELECT.
        step: the checkpoints.
        context: runs the statements, with the grants and limits of the caller.
        spool: has the room for rows; None for one without a limit.

    Raises:
        SavepointError: a checkpoint cannot be read, or is another one meanwhile.
        QueryError: a statement means nothing, is not allowed, or fails.
    """
    columns, schema, batches = (_of_statement if is_statement(what) else _of_table)(what, step, context)
    # A query whose rows are not read to the end would go on.
    with closing(batches):
        room = spool or Spool(context.settings.storage.temp_directory, sys.maxsize)
        found = Changes(columns, schema, batches, room)
    for one in (step.before, step.database):
        # A name may mean a checkpoint that was written anew under the same path.
        if one is not None and context.catalog.database(one.name).modified_ns != one.modified_ns:
            raise SavepointError(f'"{one.name}" was written again while it was read')
    return found


_Rows = tuple[Sequence[Column], pa.Schema, Generator[pa.RecordBatch]]


def _no_rows() -> _Rows:
    """Return the rows of a table that is known of another checkpoint of the job."""
    nothing: Sequence[pa.RecordBatch] = ()
    return (), pa.schema([]), (batch for batch in nothing)


def _of_table(table: str, step: Step, context: Context) -> _Rows:
    before = "" if step.before is None else step.before.name
    names = ", ".join(map(text_constant, (before, step.database.name, table)))
    try:
        query = context.start(replace(context.asked, sql=f"SELECT * FROM {DIFFERENCES}({names})"))
    except TableNotFoundError:
        return _no_rows()
    shown = [name for name in query.schema.names if name != KEY_GROUP]

    def batches() -> Generator[pa.RecordBatch]:
        with query:
            yield from (batch.select(shown) for batch in query.batches())

    columns = [column for column in query.columns if column.name != KEY_GROUP]
    return columns, pa.schema([query.schema.field(name) for name in shown]), batches()


def _of_statement(sql: str, step: Step, context: Context) -> _Rows:
    answers = [
        None if database is None else _answer(sql, database, context)
        for database in (step.before, step.database)
    ]
    known = [answer for answer in answers if answer is not None]
    if not known:
        return _no_rows()
    schemas = [rows.schema for _, rows in known]
    types = {name: kind for types, _ in known for name, kind in types.items()}
    columns = compared_columns(schemas[0], schemas[-1], dict.fromkeys(types, Role.IDENTITY))
    before, after = ([] if answer is None else answer[1].to_batches() for answer in answers)
    joined = JoinedRows(
        before=lambda: iter(before), after=lambda: iter(after), columns=columns, is_paired=False
    )
    shown = [
        Column(one.name, types[one.name])
        if one.name in types and all(_has(schema, one) for schema in schemas)
        else Column(one.name, sql_type(one.type))
        for one in columns.schema
    ]
    return shown, columns.schema, (batch for batch in joined.batches())


def _answer(sql: str, database: Database, context: Context) -> tuple[dict[str, str], pa.Table] | None:
    """Return the SQL types of the columns, and all rows, of a statement in a checkpoint; None if it has not the tables.

    Raises:
        LimitExceededError: they are too many to be compared.
    """
    try:
        query = context.start(replace(context.asked, sql=sql, schema=database.name))
    except TableNotFoundError:
        return None
    names = _distinct([column.name for column in query.columns])
    schema = pa.schema([(name, plain_type(one)) for name, one in zip(names, query.schema.types, strict=True)])
    types = {name: column.type for name, column in zip(names, query.columns, strict=True)}
    batches: list[pa.RecordBatch] = []
    size_bytes = 0
    with query:
        for batch in query.batches():
            batches.append(
                pa.RecordBatch.from_arrays([plain(array) for array in batch.columns], schema=schema)
            )
            size_bytes += batches[-1].nbytes
            if size_bytes > _MOST_ANSWER_BYTES:
                raise LimitExceededError(
                    f"expected an answer of at most {_MOST_ANSWER_BYTES:,} bytes in a checkpoint, found more",
                    hint="follow the table itself, or an aggregate",
                )
    return types, pa.Table.from_batches(batches, schema)


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names of columns, repeated ones with a number, and those that say what changed in which checkpoint."""
    found: dict[str, None] = dict.fromkeys(_TAKEN)
    for name in names:
        number, one = 0, name
        while one in found:
            number += 1
            one = f"{name}_{number}"
        found[one] = None
    return list(found)[len(_TAKEN) :]


def _has(schema: pa.Schema, column: pa.Field) -> bool:
    """Return whether a column has the same type in a schema, or is not there."""
    return column.name not in schema.names or schema.field(column.name).type.equals(column.type)
