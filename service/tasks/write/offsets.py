"""UPDATE of `source_offsets` and `CALL rewind_kafka`: the rows as the script has left them, and the i8 of each changed row.

The rows have one more column, `_row`, which says which of them a SELECT of new values returns. A row whose offset has no i8 of its
own, such as one of a split that a CDC connector keeps as JSON, can be read and not changed; the error has the reason.

A FLIP-27 source keeps its splits in its readers, with their offsets, and in its enumerator, which knows what it has given out. Flink
assigns a partition that the enumerator does not know from the start again, whatever offset a reader has: `rewind_kafka` checks that
the two halves agree.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from catalog import Database, FactsTable, Table
from catalog.savepointtables import SOURCE_OFFSETS_NAME
from readers import OffsetPlace, Savepoint, State, StateKind, offset_places, source_offsets
from service.base.errors import InvalidQueryError, InvalidValueError
from service.query.sql.text import quoted
from service.tasks.write.changes import Changes, Composition, Effect, ScriptContext
from service.tasks.write.rows.layers import check_found
from service.tasks.write.statements.script import USAGE, RewindKafka, Update
from writers import SetOffsets, UnwritableError

ROW = "_row"
_UNPROVEN = "and no restore in Flink has proven that other bytes are read"
_REASONS = {
    "cdc": f"CDC sources keep log positions as JSON, {_UNPROVEN}",
    "filesystem": f"FileSource counts the records behind an offset of the file's format, {_UNPROVEN}",
    "kafka": "the element is a Java object of Flink 1.3 or older",
    "kinesis": "Kinesis has sequence numbers, which no BIGINT holds",
    "mysql-cdc": f"CDC sources keep log positions as JSON, {_UNPROVEN}",
    "pulsar": "Pulsar has ids of messages, which no BIGINT holds",
}
_WRITABLE = "starting_offset"
_READER_STATE = "SourceReaderState"
_ASSIGNED = "ASSIGNED"
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
_VERIFIED = ["subtask", "connector", "topic", "partition", "starting_offset", "stopping_offset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """A row whose starting offset an UPDATE changed.

    Attributes:
        operator, split: which it is of.
        before, after: the offset.
        meaning: what the number stands for, such as EARLIEST; empty for an offset.
    """

    operator: str
    split: str
    before: int | None
    after: int
    meaning: str

    def text(self) -> str:
        """Return the change as a line for people."""
        named = f" ({self.meaning})" if self.meaning else ""
        return f"{self.operator}, {self.split}: {_WRITABLE} {self.before} → {self.after}{named}"


class OffsetChanges(Changes):
    """UPDATE of `source_offsets`."""

    only: ClassVar = SOURCE_OFFSETS_NAME

    def __init__(self, context: ScriptContext) -> None:
        super().__init__(context)
        self._rows: OffsetRows | None = None

    @property
    def changes(self) -> tuple[OffsetChange, ...]:
        """The rows whose offset is another one than the savepoint's."""
        return self._rows.changes if self._rows is not None else ()

    def edits(self) -> Iterator[SetOffsets]:
        edits = [] if self._rows is None else list(self._rows.edits())
        self._check_apart(edits)
        return iter(edits)

    def _check_apart(self, edits: Iterable[SetOffsets]) -> None:
        """Check that no statement changed rows of a state whose offsets another one set: neither saw the other's.

        Raises:
            InvalidQueryError: there are such statements.
        """
        changed = self.context.states.table_changes.changes
        operators = {one.operator_id: one for one in self.context.database.savepoint.operators}
        rows = {(owner, operators[owner].states[number].name) for owner, number in changed}
        for edit in edits:
            for place in edit.numbers:
                if (place.operator_id, place.state) in rows:
                    raise InvalidQueryError(
                        f"{SOURCE_OFFSETS_NAME} shows the offsets in the rows of the state {place.state}, and the script changes "
                        "both",
                        hint="change one of them, or write twice",
                    )

    def table(self, name: str) -> Table | None:
        return self._rows.table if self._rows is not None and name == self.only else None

    def verify(self, savepoint: Savepoint) -> None:
        if self._rows is None:
            return
        found = source_offsets(savepoint).select(_VERIFIED).to_pylist()
        if found != self._rows.rows.select(_VERIFIED).to_pylist():
            raise UnwritableError("expected the offsets of the script, read others back; nothing was written")

    def _update(self, statement: Update) -> Effect:
        return self._effect(self._known.update(statement, self.context))

    def _rewind(self, statement: RewindKafka) -> Effect:
        query = Composition("SELECT * FROM (VALUES ").add(statement.arguments, ")")
        operator, topic, offsets = rewind_arguments(self.context.read(query))
        operator_id, _ = self.context.operator(operator)
        check_source(self.context.database.savepoint, operator_id, operator)
        return self._effect(self._known.rewind(operator_id, operator, topic, offsets))

    @property
    def _known(self) -> OffsetRows:
        if self._rows is None:
            self._rows = OffsetRows(self.context.database, self.context.operator_ids)
        return self._rows

    @staticmethod
    def _effect(rows: int) -> Effect:
        text = (
            f"{rows} row{'' if rows == 1 else 's'} of {SOURCE_OFFSETS_NAME} change{'s' if rows == 1 else ''}"
        )
        return Effect(table=SOURCE_OFFSETS_NAME, changed=rows, text=text)

    appliers: ClassVar = {Update: _update, RewindKafka: _rewind}


class OffsetRows:
    """The rows of `source_offsets`, with the changes so far.

    Args:
        database: the savepoint.
        operator_ids: as in `ScriptContext`.

    Raises:
        ReaderError: a state file with positions cannot be read.
    """

    def __init__(self, database: Database, operator_ids: Mapping[str, str | None]) -> None:
        self._operator_ids = operator_ids
        table = database.table(SOURCE_OFFSETS_NAME)
        rows = table.scan().to_arrow()
        numbers = pa.array(range(rows.num_rows), pa.int64())
        self._rows = rows.append_column(ROW, numbers)
        self._before = rows.column(_WRITABLE).to_pylist()
        self._places = offset_places(database.savepoint)
        self._comment = table.comment

    @property
    def rows(self) -> pa.Table:
        """The rows that are left."""
        left = pa.array([source_id for source_id, now in self._operator_ids.items() if now], pa.string())
        return self._rows.filter(pc.is_in(self._rows.column("operator_id"), value_set=left))

    @property
    def table(self) -> Table:
        """The rows that are left, as a table for a SELECT."""
        rows = self.rows.combine_chunks()
        batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
        return FactsTable(SOURCE_OFFSETS_NAME, self._comment, rows.schema, lambda: batches[0])

    def update(self, statement: Update, context: ScriptContext) -> int:
        """Change rows; return how many have a value of their own now that they had not.

        Args:
            statement: the UPDATE.
            context: runs a SELECT in which `source_offsets` means these rows.

        Raises:
            QueryError: another column is set, no row matches, a value is no BIGINT, or a row's offset cannot be written.
        """
        for assignment in statement.assignments:
            if assignment.column.casefold() != _WRITABLE:
                raise InvalidQueryError(
                    f"{assignment.column} of {SOURCE_OFFSETS_NAME} cannot be set, only {_WRITABLE} can",
                )
        if len(statement.assignments) > 1:
            raise InvalidQueryError(f"{_WRITABLE} is set twice")
        query = Composition(f"SELECT {ROW}, ")
        query.expression(statement.assignments[0].expression, _WRITABLE)
        query.add(f" FROM {SOURCE_OFFSETS_NAME}")
        if statement.alias is not None:
            query.add(f" AS {quoted(statement.alias)}")
        if statement.source is not None:
            query.add(", ", statement.source)
        if statement.condition is not None:
            query.add(" WHERE ").expression(statement.condition)
        found = context.read(query)
        check_found(context, statement, found.num_rows, SOURCE_OFFSETS_NAME)
        rows, values = found.columns
        twice = pc.filter(
            (counts := pc.value_counts(rows)).field("values"), pc.greater(counts.field("counts"), 1)
        )
        if len(twice):
            raise InvalidQueryError(
                f"expected to change each row of {SOURCE_OFFSETS_NAME} once in a statement, found {self._split(twice[0].as_py())} "
                "twice: a row of FROM matches it more than once",
            )
        if pa.types.is_temporal(values.type):
            values = values.cast(pa.string())
        return self._set(zip(rows.to_pylist(), values.to_pylist(), strict=True))

    def rewind(self, operator_id: str, name: str, topic: str, offsets: Mapping[int, int]) -> int:
        """Set the offsets of partitions of a Kafka source; return how many change.

        Args:
            operator_id, name: of the source.
            topic: of the partitions.
            offsets: partition → offset.

        Raises:
            QueryError: the operator has no such partitions, or an offset cannot be written.
        """
        rows: dict[int, list[int]] = {}
        topics = set()
        columns = ("operator_id", "connector", "topic", "partition")
        for row, (own_id, connector, found, partition) in enumerate(
            zip(*(self._rows.column(column).to_pylist() for column in columns), strict=True)
        ):
            if own_id == operator_id and connector == "kafka":
                topics.add(found)
                if found == topic:
                    rows.setdefault(partition, []).append(row)
        if not rows:
            has = f"those of {', '.join(sorted(topics))}" if topics else "none of a Kafka source"
            raise InvalidQueryError(f"expected partitions of topic {topic!r} in {name!r}, found {has}")
        missing = sorted(offsets.keys() - rows.keys())
        if missing:
            raise InvalidQueryError(
                f"topic {topic!r} has no partition {', '.join(map(str, missing))} in {name!r}",
                hint=f"it has {', '.join(map(str, sorted(rows)))}",
            )
        chosen = ((row, offset) for partition, offset in offsets.items() for row in rows[partition])
        return self._set(chosen)

    def _set(self, chosen: Iterable[tuple[int, object]]) -> int:
        """Give rows other values; return how many change."""
        values = self._values
        changed = 0
        for row, value in chosen:
            number = self._number(row, value)
            changed += values[row] != number
            values[row] = number
        index = self._rows.schema.get_field_index(_WRITABLE)
        self._rows = self._rows.set_column(
            index, self._rows.schema.field(index), pa.array(values, pa.int64())
        )
        return changed

    def _number(self, row: int, value: object) -> int:
        """Return a new offset: a whole number in the range of a BIGINT, of a row whose offset can be written."""
        # A HUGEINT, as of a sum, comes as a Decimal.
        if isinstance(value, Decimal) and value == value.to_integral_value():
            value = int(value)
        if type(value) is not int or not _LEAST <= value <= _GREATEST:
            shown = value if isinstance(value, Decimal) else repr(value)
            raise InvalidValueError(f"expected a BIGINT for {_WRITABLE}, found {shown}")
        place = self._places[row]
        if place is None:
            raise InvalidQueryError(
                f"the starting offset of {self._split(row)} cannot be written: {self._reason(row)}",
                hint="leave the row out by a WHERE",
            )
        problem = place.bounds.problem(value)
        if problem:
            raise InvalidValueError(
                f"the starting offset of {self._split(row)} cannot be set: {problem}",
                hint=f"greatest({_WRITABLE} - 1000, 0) stops at 0",
            )
        return value

    def _reason(self, row: int) -> str:
        """Return the reason why no number can be set."""
        if self._value(row, "subtask") is None:
            return "no reader has the split yet, and its enumerator's state stays as it is"
        return _REASONS.get(self._value(row, "connector"), "it is in bytes whose layout is not known")

    @property
    def _values(self) -> list[int | None]:
        found: list[int | None] = self._rows.column(_WRITABLE).to_pylist()
        return found

    def _changed(self) -> Iterator[tuple[int, int]]:
        """Yield the numbers of the changed rows, with the new values."""
        for row, (before, value) in enumerate(zip(self._before, self._values, strict=True)):
            if value != before and self._operator_ids[self._value(row, "operator_id")]:
                assert value is not None
                yield row, value

    def _place(self, row: int) -> OffsetPlace:
        place = self._places[row]
        assert place is not None
        return place

    def _value(self, row: int, column: str) -> Any:
        return self._rows.column(column)[row].as_py()

    def _split(self, row: int) -> str:
        topic, partition = self._value(row, "topic"), self._value(row, "partition")
        if topic is not None:
            return f"topic {topic}, partition {partition}"
        return f"split {json.loads(self._value(row, 'details')).get('split_id', row)}"

    @property
    def changes(self) -> tuple[OffsetChange, ...]:
        """The rows whose offset is another one than the savepoint's."""
        return tuple(
            OffsetChange(
                operator=self._value(row, "operator_uid")
                or self._value(row, "operator_name")
                or self._value(row, "operator_id"),
                split=self._split(row),
                before=self._before[row],
                after=value,
                meaning=self._place(row).bounds.named.get(value, ""),
            )
            for row, value in self._changed()
        )

    def edits(self) -> Iterator[SetOffsets]:
        """Yield what writes the changed offsets, by the operator ids of the source savepoint."""
        numbers: dict[str, dict[OffsetPlace, tuple[int, int]]] = {}
        for row, value in self._changed():
            place, before = self._place(row), self._before[row]
            numbers.setdefault(place.operator_id, {})[place] = (before, value)
        yield from itertools.starmap(SetOffsets, numbers.items())


def rewind_arguments(found: pa.Table) -> tuple[str, str, dict[int, int]]:
    """Return operator, topic and offsets by partition.

    Args:
        found: one row with a column for each argument.

    Raises:
        InvalidQueryError: there are others.
    """
    types = found.schema.types
    if (
        found.num_rows != 1
        or len(types) != 3
        or not (pa.types.is_string(types[0]) and pa.types.is_string(types[1]) and pa.types.is_map(types[2]))
        or any(map(pa.types.is_temporal, (types[2].key_type, types[2].item_type)))
    ):
        shown = ", ".join(map(str, types))
        raise InvalidQueryError(f"expected {USAGE}, found arguments of the types {shown}")
    operator, topic, pairs = (column[0].as_py() for column in found.columns)
    if operator is None or topic is None or not pairs:
        raise InvalidQueryError(f"expected {USAGE}, found NULL or an empty map")
    offsets = {}
    for partition, offset in pairs:
        if type(partition) is not int or type(offset) is not int or partition < 0 or offset < 0:
            raise InvalidQueryError(
                f"expected a partition and an offset from 0 on, found {partition!r} and {offset!r}"
            )
        offsets[partition] = offset
    return operator, topic, offsets


def check_source(savepoint: Savepoint, operator_id: str, name: str) -> None:
    """Check that readers and enumerator of a source know the same partitions; legacy sources have no enumerator.

    Raises:
        InvalidQueryError: one half is missing, or the halves differ.
        ReaderError: the state cannot be read.
    """
    operator = next(one for one in savepoint.operators if one.operator_id == operator_id)
    readers = next((state for state in operator.states if state.name == _READER_STATE), None)
    enumerator = next((state for state in operator.states if state.kind is StateKind.COORDINATOR), None)
    if readers is None:
        return
    if enumerator is None:
        raise InvalidQueryError(
            f"{name!r} has the splits of its readers and no state of its enumerator: Flink would read every partition from "
            "its start again, whatever their offsets are"
        )
    given = {
        (one["topic"], one["partition"])
        for value in _kafka_values(enumerator)
        for one in value["partitions"]
        if one["assignment_status"] == _ASSIGNED
    }
    unknown = sorted({(value["topic"], value["partition"]) for value in _kafka_values(readers)} - given)
    if unknown:
        topic, partition = unknown[0]
        raise InvalidQueryError(
            f"the enumerator of {name!r} does not know that a reader has topic {topic}, partition {partition}: Flink would "
            "read it twice"
        )


def _kafka_values(state: State) -> list[Any]:
    """Return the values of a connector's state; none if its layout is not that of Kafka."""
    found = [value for batch in state.read(["value"]) for value in batch.column(0).to_pylist()]
    return [
        value
        for value in found
        if isinstance(value, dict) and value.keys() & {"partitions", "starting_offset"}
    ]
