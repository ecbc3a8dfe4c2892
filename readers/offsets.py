"""The positions of the sources of a savepoint: each split or partition is a row.

| column | type | meaning |
|---|---|---|
| operator_id, operator_uid, operator_name | string | the source; uid and name are null if the savepoint has none |
| subtask | int32 | the reader of the split; null for splits that no reader has yet |
| connector | string | `kafka`, `filesystem`, `datagen`, `mysql-cdc`, `cdc`, `kinesis`, `pulsar`; null if the layout is unknown |
| topic, partition | string, int32 | Kafka and Pulsar; of Kinesis, the stream is the topic |
| starting_offset | int64 | the next record, byte or number to read; negative (Kafka): a symbolic offset, named in details |
| stopping_offset | int64 | the first that is not read; null if the source is unbounded |
| details | string | JSON: the source class, the split's id and path, …; of unknown layouts version and base64 of the split; |
| | | `problem`: why the source cannot read on from the starting offset |

Kafka consumers from before FLIP-27 keep a list of (topic, partition, offset) in the state `topic-partition-offset-states`. It is
recognised by its name; the elements are tuples, or written by Kryo. Up to Flink 1.3 they are Java objects in the state `_default_`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from readers.connectors import kafka
from readers.connectors.layout import READER_STATE, OffsetBounds, SourceOffset, expect_end, versioned
from readers.connectors.recognition import ConnectorSource, bytes_of, is_candidate
from readers.cursor import Cursor
from readers.errors import ReaderError
from readers.formats.entry import StateKind
from readers.formats.source import Selection
from readers.operators import Operator
from readers.savepoint import Savepoint
from readers.schemas import schema_of
from readers.serializers.operators import JavaSerializer
from readers.states import State, StatePart

SCHEMA = schema_of(
    "operator_id, operator_uid, operator_name, subtask int, connector, topic, partition int,"
    " starting_offset bigint, stopping_offset bigint, details"
)
# The families of the states that may hold positions.
_FAMILIES = frozenset({StateKind.OPERATOR_LIST, StateKind.COORDINATOR})
_TUPLE = [pa.string(), pa.int32(), pa.int64()]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPlace:
    """Where the starting offset of a row is stored: an i8 in an element of operator state.

    Attributes:
        operator_id, subtask, state: whose state it is, and its name.
        element: the number of the element in the subtask.
        from_end: bytes from the i8 to the end of the element.
        bounds: the numbers that it can be.
    """

    operator_id: str
    subtask: int
    state: str
    element: int
    from_end: int
    bounds: OffsetBounds = field(compare=False)


def _raise(error: ReaderError) -> None:
    raise error


def source_offsets(savepoint: Savepoint, failed: Callable[[ReaderError], None] = _raise) -> pa.Table:
    """Return the positions of all sources, with the columns of `SCHEMA`. Reads the state of all sources.

    Args:
        savepoint: the savepoint.
        failed: takes the error of each state file that may hold positions and cannot be read; raises the first by default.

    Raises:
        ReaderError: a state file is missing or contradicts its format.
    """
    rows = [row for operator in savepoint.operators for row, _ in _rows(operator, failed)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def offset_places(savepoint: Savepoint) -> list[OffsetPlace | None]:
    """Return for each row of `source_offsets` where its starting offset is stored; None where no i8 of its own holds it.

    Raises:
        ReaderError: a state file is missing or contradicts its format.
    """
    return [place for operator in savepoint.operators for _, place in _rows(operator, _raise)]


def impossible_offsets(operator: Operator, most_bytes: int) -> Iterator[tuple[str, str]]:
    """Yield the state of each split of an operator whose reader has an impossible offset, and what is wrong with it.

    Args:
        operator: of a savepoint.
        most_bytes: of a state in one subtask; a larger one is not read.
    """
    for state in operator.states:
        for part in state.parts:
            # Who reads the rows is told what cannot be read of them.
            with suppress(ReaderError):
                if state.kind is StateKind.COORDINATOR or part.source.cost_bytes(part.name) > most_bytes:
                    continue
                for _, offset, element, _ in _offsets(state, part):
                    if offset.problem:
                        where = f"topic {offset.topic}, partition {offset.partition}"
                        named = where if offset.topic else f"split {offset.details.get('split_id', element)}"
                        yield state.name, f"{named}: {offset.problem}"


def offset_problem(state: str, value: Mapping[str, object]) -> str:
    """Return why no source can read on from the value of a list state; empty if one can, or if it is no offset.

    Args:
        state: the name of the state.
        value: its fields, in order.
    """
    match state, *value.values():
        case kafka.LEGACY_STATE, str(topic), int(partition), int(offset):
            return kafka.tuple_offset(topic, partition, offset).problem
    return ""


_Row = tuple[dict[str, object], OffsetPlace | None]


def _rows(operator: Operator, failed: Callable[[ReaderError], None]) -> Iterator[_Row]:
    for handle in operator.unread:
        if handle.family in _FAMILIES:
            failed(handle.error)
    for state in operator.states:
        for part in state.parts:
            try:
                yield from _rows_of(operator, state, part)
            except ReaderError as error:
                failed(error.within(operator.operator_id, path=part.source.path))


def _rows_of(operator: Operator, state: State, part: StatePart) -> Iterator[_Row]:
    has_reader = state.kind is not StateKind.COORDINATOR
    for connector, offset, element, from_end in _offsets(state, part):
        row: dict[str, object] = {
            "operator_id": operator.operator_id,
            "operator_uid": operator.metadata.uid,
            "operator_name": operator.metadata.name,
            "subtask": part.source.subtask if has_reader else None,
            "connector": connector,
            "topic": offset.topic,
            "partition": offset.partition,
            "starting_offset": offset.starting_offset,
            "stopping_offset": offset.stopping_offset,
            "details": json.dumps(offset.details | ({"problem": offset.problem} if offset.problem else {})),
        }
        place = None
        if has_reader and from_end is not None:
            place = OffsetPlace(
                operator_id=operator.operator_id,
                subtask=part.source.subtask,
                state=state.name,
                element=element,
                from_end=from_end,
                bounds=offset.bounds,
            )
        yield row, place


def _offsets(state: State, part: StatePart) -> Iterator[tuple[str | None, SourceOffset, int, int | None]]:
    """Yield connector, offset, the number of the element, and the bytes from the i8 that is the starting offset to its end.

    The last is None where no i8 of its own holds the starting offset.
    """
    if isinstance(part.source, ConnectorSource):
        layout = part.source.layout
        if layout.offsets is not None:
            for number, value in enumerate(part.source.values()):
                for offset in layout.offsets(value):
                    yield layout.connector, offset, number, layout.starting_offset_at
    elif state.name == kafka.LEGACY_STATE and state.kind in (StateKind.OPERATOR_LIST, StateKind.UNION_LIST):
        for number, (offset, from_end) in enumerate(_legacy_offsets(part)):
            yield "kafka", offset, number, from_end
    elif state.name == kafka.DEFAULT_STATE and isinstance(part.entry.value, JavaSerializer):
        for number, element in enumerate(_texts(part)):
            found = kafka.java_offset(json.loads(element))
            if found is not None:
                yield "kafka", found, number, None
    elif state.name == READER_STATE and is_candidate(state.name, part.entry):
        for number, split in enumerate(_elements(part)):
            yield None, _unknown(split), number, None


def _legacy_offsets(part: StatePart) -> Iterator[tuple[SourceOffset, int | None]]:
    value_type = (
        part.entry.value.arrow() if part.entry.value and not part.entry.is_raw("value") else pa.null()
    )
    if pa.types.is_struct(value_type) and [field.type for field in value_type] == _TUPLE:
        for batch in part.read(["value"], pa.schema([("value", value_type)]), Selection()):
            for value in batch.column(0).to_pylist():
                yield kafka.tuple_offset(*value.values()), kafka.LEGACY_OFFSET_AT
        return
    # KafkaTopicPartition is written by Kryo, which stores no field names: rows show bytes, and they are read here.
    for element in _elements(part):
        try:
            found = kafka.read_legacy_offset(Cursor(element, path=part.source.path))
        except ReaderError:
            yield _unknown(element), None
        else:
            offset = kafka.legacy_offset(found["topic"], found["partition"], found["starting_offset"])
            yield offset, kafka.LEGACY_OFFSET_AT


def _texts(part: StatePart) -> Iterator[str]:
    for batch in part.read(["value"], pa.schema([("value", pa.string())]), Selection()):
        yield from (text for text in batch.column(0).to_pylist() if text is not None)


def _elements(part: StatePart) -> Iterator[bytes]:
    for page in part.source.pages(part.name, Selection()):
        yield from bytes_of(page, part.entry)


def _unknown(split: bytes) -> SourceOffset:
    """Return a split of an unknown layout as base64, with its version if SourceReaderState frames it."""
    try:
        cursor = Cursor(split)
        version, body = versioned(cursor)
        expect_end(cursor)
    except ReaderError:
        return SourceOffset(details={"split": base64.b64encode(split).decode()})
    data = bytes(body.read(body.remaining))
    return SourceOffset(details={"split_version": version, "split": base64.b64encode(data).decode()})
