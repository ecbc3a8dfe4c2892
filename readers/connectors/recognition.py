"""State of a connector: its layout recognised, its values as columns.

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

`ConnectorSource` reads such a state. Connectors write few values, with little-endian numbers, magic numbers and versions of their
own. Python reads them (`Layout.read`) and writes them in this one layout:

| type | bytes |
|---|---|
| struct | its fields, each nullable |
| list | i4 n, n × nullable element |
| nullable | bool is null, value |
| string, binary | i4 length, UTF-8 or bytes |
| numbers, timestamps, bool | big endian |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa

from readers.connectors import (
    cdc,
    files,
    kafka,
    kinesis,
    pulsar,
    sequences,
)
from readers.connectors.layout import COORDINATOR_STATE, READER_STATE, Layout
from readers.decode.decoder import Page
from readers.decode.program import Program
from readers.errors import ReaderError
from readers.formats.entry import Entry, EntryLayout, StateKind
from readers.formats.source import Selection, Source, StateName, StateSize, Tally
from readers.serializers.base import Serializer
from readers.serializers.primitives import BytePrimitiveArraySerializer

MAX_BYTES = 64 << 20  # values are read when states are listed: larger states stay bytes

LAYOUTS: dict[str, tuple[Layout, ...]] = {
    READER_STATE: (
        kafka.SPLITS, files.SPLITS, sequences.SPLITS, kinesis.SPLITS, pulsar.SPLITS, cdc.SPLITS,
        cdc.BASE_SPLITS,
    ),
    COORDINATOR_STATE: (
        kafka.ENUMERATOR, files.PENDING, sequences.ENUMERATOR, kinesis.ENUMERATOR, pulsar.ENUMERATOR,
        cdc.ENUMERATOR, cdc.BASE_ENUMERATOR, sequences.STATELESS_ENUMERATOR,
    ),
    "writer_raw_states": (kafka.WRITER, files.WRITER),
    "bucket-states": (files.WRITER,),
    "streaming_committer_raw_states": (kafka.COLLECTOR,),
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


_WIDTHS: dict[pa.DataType, Literal[2, 4, 8]] = {
    pa.int16(): 2, pa.int32(): 4, pa.int64(): 8, pa.timestamp("ms"): 8,
}  # fmt: skip


class RecodedSerializer(Serializer):
    """The values of a connector's layout, recoded; equal if the layouts are equal."""

    __slots__ = ("java_class", "recoded")

    def __init__(self, layout: Layout) -> None:
        self.recoded = layout
        self.java_class = layout.java_class  # type: ignore[misc]  # every instance has its own

    @property
    def type_name(self) -> str:
        return self.java_class.rsplit(".", 1)[-1]

    @property
    def serializer_name(self) -> str:
        return f"SimpleVersionedSerializer<{self.type_name}>"

    def arrow(self) -> pa.DataType:
        return self.recoded.type

    def emit(self, program: Program) -> None:
        _emit(program, self.recoded.type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecodedSerializer) and other.recoded is self.recoded

    def __hash__(self) -> int:
        return hash(self.java_class)


def recode(value: Any, data_type: pa.DataType) -> bytes:
    """Write a value of `data_type` as `RecodedSerializer` reads it; missing fields of dicts are null."""
    if pa.types.is_struct(data_type):
        return b"".join(_nullable(value.get(field.name), field.type) for field in data_type)
    if pa.types.is_list(data_type):
        return len(value).to_bytes(4, "big") + b"".join(
            _nullable(item, data_type.value_type) for item in value
        )
    if pa.types.is_string(data_type):
        # Java text may have a lone surrogate, which UTF-8 does not have.
        value = value.encode("utf-8", "replace")
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return len(value).to_bytes(4, "big") + bytes(value)
    if pa.types.is_boolean(data_type):
        return b"\1" if value else b"\0"
    return int(value).to_bytes(_WIDTHS[data_type], "big", signed=True)


def _nullable(value: Any, data_type: pa.DataType) -> bytes:
    return b"\1" if value is None else b"\0" + recode(value, data_type)


def _emit(program: Program, data_type: pa.DataType) -> None:
    if pa.types.is_struct(data_type):
        program.struct()
        for index, field in enumerate(data_type):
            with program.field(index, field.name), program.nullable(null_flag=True):
                _emit(program, field.type)
    elif pa.types.is_list(data_type):
        with program.list(), program.nullable(null_flag=True):
            _emit(program, data_type.value_type)
    elif pa.types.is_string(data_type):
        program.text()
    elif pa.types.is_binary(data_type):
        program.blob()
    elif pa.types.is_boolean(data_type):
        program.boolean()
    else:
        program.fixed(_WIDTHS[data_type])


_LENGTH_BYTES = 4  # before the bytes of a BytePrimitiveArraySerializer's element


@dataclass(frozen=True, kw_only=True, eq=False)
class ConnectorSource(Source):
    """One state of another source, with typed values.

    Attributes:
        inner: the source of the bytes.
        name: the state in it.
        layout: the layout of its values.
    """

    inner: Source
    name: StateName
    layout: Layout

    @classmethod
    def open(cls, inner: Source, name: StateName, layout: Layout) -> Self:
        """Return a source that reads the values of one state of `inner` with a layout."""
        return cls(
            subtask=inner.subtask,
            path=inner.path,
            size_bytes=inner.size_bytes,
            entries={name: replace(inner.entries[name], value=RecodedSerializer(layout))},
            inner=inner,
            name=name,
            layout=layout,
        )

    def over(self, inner: Source) -> Self:
        """Return the same values of another source of the bytes."""
        return replace(self, inner=inner, path=inner.path, size_bytes=inner.size_bytes)

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return {"value": self.layout.type}

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        assert entry.value is not None
        with layout.column(program, "value"):
            entry.value.emit(program)
        program.expect_end()

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        for page in self.inner.pages(state, selection):
            values = [recode(value, self.layout.type) for value in self._read(page)]
            ends = np.cumsum([len(value) for value in values], dtype=np.int64).reshape(-1, 1)
            starts = np.zeros_like(ends)
            starts[1:] = ends[:-1]
            yield replace(
                page, data=np.frombuffer(b"".join(values), dtype=np.uint8), starts=starts, ends=ends
            )

    def counts(self, state: StateName, selection: Selection) -> Iterator[tuple[int, int]]:
        return self.inner.counts(state, selection)

    def tallies(self, states: Sequence[StateName], selection: Selection) -> Iterator[Tally]:
        return self.inner.tallies(states, selection)

    @property
    def tallied_bytes(self) -> int:
        return self.inner.tallied_bytes

    def values(self) -> Iterator[Any]:
        """Yield each value as the layout reads it."""
        for page in self.inner.pages(self.name, Selection()):
            yield from self._read(page)

    def cost_bytes(self, state: StateName) -> int:
        return self.inner.cost_bytes(state)

    def own_size(self, state: StateName, share: float) -> StateSize:
        return self.inner.own_size(state, share)

    def close(self) -> None:
        self.inner.close()

    def _read(self, page: Page) -> Iterator[Any]:
        for value in bytes_of(page, self.inner.entries[self.name]):
            yield self.layout.read_whole(value, self.path)


def bytes_of(page: Page, entry: Entry) -> Iterator[bytes]:
    """Yield the bytes of each value of a page."""
    length = _LENGTH_BYTES if isinstance(entry.value, BytePrimitiveArraySerializer) else 0
    data = memoryview(page.data)
    for start, end in zip(page.starts[:, 0].tolist(), page.ends[:, 0].tolist(), strict=True):
        yield bytes(data[start + length : end])
