"""Recognition of the layout of a connector's state.

| state | kind | content |
|---|---|---|
| SourceReaderState | OPERATOR_LIST of byte[] | splits |
| coordinator state | COORDINATOR | state of an enumerator |
| writer_raw_states | OPERATOR_LIST of byte[] | state of a sink's writer |
| bucket-states | OPERATOR_LIST of byte[] | state of a StreamingFileSink |
| streaming_committer_raw_states | OPERATOR_LIST of byte[] | committables |

A layout is recognised if it alone reads every value to its last byte. An empty enumerator may fit the layouts of two
sources; then the splits of the readers decide. A user-defined state of these names and contents cannot exist: Flink's own
operators register them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from readers.connectors import (
    cdc,
    cdcassigner,
    committer,
    files,
    kafka,
    kinesis,
    pulsar,
    sequences,
    stateless,
)
from readers.connectors.layout import Layout
from readers.connectors.names import COORDINATOR_STATE, READER_STATE
from readers.errors import ReaderError
from readers.formats.entry import Entry, StateKind
from readers.serializers.primitives import BytePrimitiveArraySerializer

MAX_BYTES = 64 << 20  # values are read when states are listed: larger states stay bytes

LAYOUTS: dict[str, tuple[Layout, ...]] = {
    READER_STATE: (
        kafka.SPLITS, files.SPLITS, sequences.SPLITS, kinesis.SPLITS, pulsar.SPLITS, cdc.SPLITS,
        cdc.BASE_SPLITS,
    ),
    COORDINATOR_STATE: (
        kafka.ENUMERATOR, files.PENDING, sequences.ENUMERATOR, kinesis.ENUMERATOR, pulsar.ENUMERATOR,
        cdcassigner.ENUMERATOR, cdcassigner.BASE_ENUMERATOR, stateless.ENUMERATOR,
    ),
    "writer_raw_states": (kafka.WRITER, files.WRITER),
    "bucket-states": (files.WRITER,),
    "streaming_committer_raw_states": (committer.COLLECTOR,),
}  # fmt: skip


def is_candidate(name: str, entry: Entry) -> bool:
    """Return whether a state may belong to a connector."""
    if entry.kind is StateKind.COORDINATOR:
        return name == COORDINATOR_STATE
    is_bytes = isinstance(entry.value, BytePrimitiveArraySerializer)
    return entry.kind is StateKind.OPERATOR_LIST and is_bytes and name in LAYOUTS


def recognised(values: Mapping[str, Iterable[bytes]]) -> dict[str, Layout]:
    """Return state name → layout for the candidates of one operator whose layout is certain.

    Args:
        values: state name → its values, from all subtasks.
    """
    fitting = {name: _fitting(LAYOUTS[name], list(found)) for name, found in values.items()}
    # Readers and enumerator of one operator belong to one source.
    readers = {layout.connector for layout in fitting.get(READER_STATE, ())}
    enumerators = fitting.get(COORDINATOR_STATE, ())
    if len(enumerators) > 1 and len(readers) == 1:
        fitting[COORDINATOR_STATE] = tuple(layout for layout in enumerators if layout.connector in readers)
    return {name: layouts[0] for name, layouts in fitting.items() if len(layouts) == 1}


def _fitting(layouts: tuple[Layout, ...], values: list[bytes]) -> tuple[Layout, ...]:
    # Without values every layout would fit.
    return tuple(layout for layout in layouts if values and all(_fits(layout, value) for value in values))


def _fits(layout: Layout, value: bytes) -> bool:
    try:
        layout.read_whole(value)
    except ReaderError:
        return False
    return True
