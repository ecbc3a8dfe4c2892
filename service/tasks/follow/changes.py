"""The rows of a step: those of `diff('before', 'after', 'table')`, or the rows of a SELECT that appear and vanish.

A step's rows are read to the end before anybody gets the first one: a checkpoint that Flink removes meanwhile gives an error, and never a
part. Few rows stay in memory, more are in a file without a name; any number of followers read them.

A SELECT is run in each of the two checkpoints, whose tables need no qualifier in it. Its answers are compared as multisets: a row that is
twice in one and once in the other is added or removed once.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from catalog import Database
from catalog.differences.splits import CHANGE, JoinedRows, Role, compared_columns
from catalog.follow.steps import Step
from catalog.history import FACTS
from readers import KEY_GROUP, sql_type
from service.base.errors import LimitExceededError, NotSupportedError, SavepointError, TableNotFoundError
from service.query.encode.formats import Column, decoded, decoded_schema, plain, plain_type, unique
from service.query.serving.results import Extent, Spool, content_of
from service.query.sql.plan import DIFFERENCES, QUERY_WORDS
from service.query.sql.text import text_constant
from service.tasks.task import Context

_KEPT_BYTES = 1 << 20
_MOST_ANSWER_BYTES = 256 << 20
# The columns that say what changed in which checkpoint, in SQL and in events.
_TAKEN = [Column(one, "") for one in (CHANGE, *FACTS.names, "checkpoint_id", "checkpoint_at")]

# Blanks and comments.
_BEGINNING = re.compile(r"\A(?:\s+|--[^\n]*|/\*.*?\*/)+", re.DOTALL)


def is_statement(what: str) -> bool:
    """Return whether a text is a statement, and not the name of a table."""
    text = _BEGINNING.sub("", what)
    words = text.split(maxsplit=1)
    return text.startswith("(") or (len(words) > 1 and words[0].upper() in QUERY_WORDS)


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
        self._extents: list[Extent] = []
        self._file = spool.file(sys.maxsize)
        weakref.finalize(self, self._file.close)
        for batch in map(decoded, batches):
            if not batch.num_rows:
                continue
            self.row_count += batch.num_rows
            if not self._extents and self.size_bytes + batch.nbytes <= _KEPT_BYTES:
                self._kept.append(batch)
                self.size_bytes += batch.nbytes
            else:
                self._write(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, batch by batch."""
        yield from self._kept
        for extent in self._extents:
            yield pa.ipc.open_stream(pa.py_buffer(self._file.read(extent))).read_next_batch()

    def _write(self, batch: pa.RecordBatch) -> None:
        content = content_of(batch)
        extent = self._file.put(content)
        if extent is None:
            raise LimitExceededError(
                f"expected room on the disk for the changes of a checkpoint, found none for {self.size_bytes + len(content):,} bytes",
                hint="follow a SELECT with fewer columns or rows, or set more spool_total_bytes",
            )
        self._extents.append(extent)
        self.size_bytes += extent.length


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
    names = unique([*_TAKEN, *query.columns])[len(_TAKEN) :]
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
        # A history leaves out what cannot be read: its rows would seem to vanish.
        if query.incomplete:
            raise NotSupportedError(
                f"expected all rows of the statement, found some left out: {query.incomplete[0].message}",
                hint="name no history in it, or only checkpoints that can be read",
            )
    return types, pa.Table.from_batches(batches, schema)


def _has(schema: pa.Schema, column: pa.Field) -> bool:
    """Return whether a column has the same type in a schema, or is not there."""
    return column.name not in schema.names or schema.field(column.name).type.equals(column.type)
