"""`CALL rewind_kafka`: its arguments, and the two halves of a KafkaSource, which must agree.

A FLIP-27 source keeps its splits in its readers, with their offsets, and in its enumerator, which knows what it has given out. Flink
assigns a partition that the enumerator does not know from the start again, whatever offset a reader has.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from readers import Savepoint, State, StateKind
from service.base.errors import InvalidQueryError
from service.tasks.write.statements.tables import USAGE

_READER_STATE = "SourceReaderState"
_ASSIGNED = "ASSIGNED"


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
        for value in _values(enumerator)
        for one in value["partitions"]
        if one["assignment_status"] == _ASSIGNED
    }
    unknown = sorted({(value["topic"], value["partition"]) for value in _values(readers)} - given)
    if unknown:
        topic, partition = unknown[0]
        raise InvalidQueryError(
            f"the enumerator of {name!r} does not know that a reader has topic {topic}, partition {partition}: Flink would "
            "read it twice"
        )


def _values(state: State) -> list[Any]:
    """Return the values of a connector's state; none if its layout is not that of Kafka."""
    found = [value for batch in state.read(["value"]) for value in batch.column(0).to_pylist()]
    return [
        value
        for value in found
        if isinstance(value, dict) and value.keys() & {"partitions", "starting_offset"}
    ]
