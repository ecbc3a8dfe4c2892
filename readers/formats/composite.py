"""RocksDB's layout of an entry: a composite key and a value. Canonical savepoints and changelogs use it too.

| key segment | bytes |
|---|---|
| key group | 1 byte up to 128 key groups, else 2 |
| key | key serializer |
| [length of the key] | if key and namespace both vary: little endian, as many bytes as needed |
| namespace | namespace serializer |
| [length of the namespace] | likewise |
| [map key] | MAP: to the end |

| kind | value segment |
|---|---|
| VALUE REDUCING AGGREGATING | value serializer |
| LIST | elements joined by 0x2C (`ListDelimitedSerializer`) |
| MAP | bool is null, value serializer |
| TIMER | nothing; the key segment is key group, i8 timestamp with its sign inverted, key, namespace |

Flink: CompositeKeySerializationUtils, SerializedCompositeKeyBuilder, AbstractRocksDBState.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.decode.columns import ColumnTree
from readers.decode.decoder import Page, walker
from readers.decode.program import Code, Program
from readers.formats.entry import Entry, EntryLayout, StateKind, column_type, emit_undescribed, is_ambiguous
from readers.formats.source import (
    HandleSource,
    KeyBounds,
    KeyReader,
    Selection,
    Source,
    StateName,
    checked_bounds,
)
from readers.keygroups import key_group_bytes
from readers.schemas import UNDECODED
from readers.serializers.primitives import VoidNamespaceSerializer

_TIMESTAMP = pa.timestamp("ms")
_TIMESTAMP_BYTES = 8
_SCOPE = frozenset({"key", "namespace"})


def composite_columns(entry: Entry) -> dict[str, pa.DataType]:
    """Return the columns of an entry in this layout."""
    columns = {"key": column_type(entry, "key"), "namespace": column_type(entry, "namespace")}
    if entry.kind is StateKind.TIMER:
        return columns | {"value": _TIMESTAMP}
    if entry.kind is StateKind.MAP:
        columns["map_key"] = column_type(entry, "map_key")
    value = column_type(entry, "value")
    is_list = entry.kind is StateKind.LIST and not entry.is_raw("value")
    columns["value"] = pa.list_(value) if is_list else value
    return columns | {UNDECODED: pa.binary()} if entry.has_undecoded else columns


def emit_composite(
    program: Program,
    layout: EntryLayout,
    entry: Entry,
    max_parallelism: int,
    *,
    undescribed: bool = False,
    whole: bool = False,
) -> None:
    """Declare an entry: segment 0 is the composite key, segment 1 the value.

    An undescribed value is shown as bytes; of a list, only the elements from the first undescribed one on, unless `whole`.
    """
    program.key_group(key_group_bytes(max_parallelism))
    if entry.kind is StateKind.TIMER:
        _emit_timer(program, layout, entry)
        return
    _emit_key(program, layout, entry)
    program.segment(1)
    if undescribed:
        elements = entry.kind is StateKind.LIST and not whole
        emit_undescribed(program, layout, emit_element=entry.part("value").emit if elements else None)
        return
    _emit_value(program, layout, entry)
    if UNDECODED in layout.names:
        layout.null(program, UNDECODED)


def composite_program(entry: Entry, max_parallelism: int) -> tuple[ColumnTree, Code]:
    """Return the columns of an entry in this layout, and the program that lays it out: what a writer of new entries needs."""
    layout = EntryLayout(composite_columns(entry))
    return layout.tree, layout.code(
        lambda program, columns: emit_composite(program, columns, entry, max_parallelism)
    )


def emit_key_alone(program: Program, layout: EntryLayout, entry: Entry, max_parallelism: int) -> None:
    """Declare the key of an entry, and nothing behind it."""
    program.key_group(key_group_bytes(max_parallelism))
    if entry.kind is StateKind.TIMER:
        with layout.column(program, "value"):
            program.flipped()
    layout.emit(program, entry, "key")


def encode_key_prefix(entry: Entry, key: object, key_group: int, max_parallelism: int) -> bytes | None:
    """Return the bytes that all composite keys of `key` begin with; None if they are not known."""
    if entry.key is None or entry.kind is StateKind.TIMER:
        return None
    encoded = entry.key.encode(key)
    return None if encoded is None else key_group.to_bytes(key_group_bytes(max_parallelism), "big") + encoded


def compose_prefix(entry: Entry, key_group: int, key: bytes, namespace: bytes, max_parallelism: int) -> bytes:
    """Return the composite key of key and namespace bytes; a map key may follow it.

    Flink: SerializedCompositeKeyBuilder#buildCompositeKeyNamespace.
    """
    group = key_group.to_bytes(key_group_bytes(max_parallelism), "big")
    if not is_ambiguous(entry):
        return group + key + namespace
    return group + key + _length_suffix(key) + namespace + _length_suffix(namespace)


def composite_key_bounds(entry: Entry, max_parallelism: int) -> KeyBounds | None:
    """Return what finds keys in composite keys; None if the end of a key is not known."""
    if entry.key is None or entry.is_raw("key"):
        return None
    before = key_group_bytes(max_parallelism) + (_TIMESTAMP_BYTES if entry.kind is StateKind.TIMER else 0)
    if isinstance(entry.namespace, VoidNamespaceSerializer) and entry.kind is not StateKind.MAP:
        # One byte stands behind the key: no key is walked.
        return lambda page: checked_bounds(page, page.starts[:, 0] + before, page.ends[:, 0] - 1)
    walked = walker(entry.key.emit)

    def bounds(page: Page) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        starts = page.starts[:, 0] + before
        checked_bounds(page, starts, page.ends[:, 0])
        return starts, walked.measure_each(page.data, starts, page.ends[:, 0], page.path)

    return bounds


def _length_suffix(part: bytes) -> bytes:
    """Return the length of a part, little endian, in as few bytes as it needs."""
    return len(part).to_bytes(max(1, (len(part).bit_length() + 7) // 8), "little")


def _emit_key(program: Program, layout: EntryLayout, entry: Entry) -> None:
    if entry.is_raw("key") or entry.is_raw("namespace"):
        emit_raw_scope(program, layout, entry)
        if entry.kind is StateKind.MAP:
            layout.null(program, "map_key")
        return
    # The entries of a map follow each other: where nothing shows their key, its bytes are compared, not read.
    is_repeated = entry.kind is StateKind.MAP and not _SCOPE.intersection(layout.names)
    with program.repeated() if is_repeated else nullcontext():
        emit_scope(program, layout, entry)
    if entry.kind is StateKind.MAP:
        layout.emit(program, entry, "map_key")
    program.expect_end()


def emit_raw_scope(program: Program, layout: EntryLayout, entry: Entry) -> None:
    """Declare key and namespace if the end of one is not known: that one is shown with all bytes behind it."""
    layout.emit(program, entry, "key")
    with layout.column(program, "namespace"):
        program.null() if entry.is_raw("key") else program.rest()


def emit_scope(program: Program, layout: EntryLayout, entry: Entry) -> None:
    """Declare key and namespace, which stand between the key group and the map key."""
    ambiguous = is_ambiguous(entry)
    if ambiguous:
        # The length behind the key counts from here; it is checked, not needed: the key's serializer knows where it ends.
        program.mark()
    layout.emit(program, entry, "key")
    if ambiguous:
        program.length_suffix()
    layout.emit(program, entry, "namespace")
    if ambiguous:
        program.length_suffix()


def _emit_value(program: Program, layout: EntryLayout, entry: Entry) -> None:
    value = entry.part("value")
    with layout.column(program, "value"):
        if entry.kind is StateKind.MAP:
            # Behind the flag of a null value stand the bytes, if any, that the serializer writes for null.
            with program.nullable(null_flag=True):
                program.rest() if entry.is_raw("value") else value.emit(program)
                program.expect_end()
        elif entry.is_raw("value"):
            program.rest()
        elif entry.kind is StateKind.LIST:
            with program.delimited():
                value.emit(program)
        else:
            value.emit(program)
            program.expect_end()


def _emit_timer(program: Program, layout: EntryLayout, entry: Entry) -> None:
    with layout.column(program, "value"):
        # Flink inverts the sign of timestamps so that RocksDB's order of bytes is the order of time.
        program.flipped()
    if entry.is_raw("key") or entry.is_raw("namespace"):
        emit_raw_scope(program, layout, entry)
        return
    layout.emit(program, entry, "key")
    layout.emit(program, entry, "namespace")
    program.expect_end()


@dataclass(frozen=True, kw_only=True, eq=False)
class CompositeSource(Source):
    """A source whose entries have this layout.

    Attributes:
        max_parallelism: number of key groups of the operator.
    """

    max_parallelism: int

    is_composite = True
    frames_values = True
    keeps_old_bytes = True  # RocksDB rewrites only what a job touches

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return composite_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        emit_composite(program, layout, entry, self.max_parallelism)

    def emit_undescribed(
        self, program: Program, layout: EntryLayout, entry: Entry, *, whole: bool = False
    ) -> None:
        emit_composite(program, layout, entry, self.max_parallelism, undescribed=True, whole=whole)

    def key_bounds(self, state: StateName) -> KeyBounds | None:
        return composite_key_bounds(self.entries[state], self.max_parallelism)

    def key_offset(self, state: StateName) -> int:
        """Return how many bytes stand before the key in the composite keys of a state."""
        timestamp = _TIMESTAMP_BYTES if self.entries[state].kind is StateKind.TIMER else 0
        return key_group_bytes(self.max_parallelism) + timestamp

    def key_reader(self, state: StateName) -> KeyReader | None:
        entry = self.entries[state]
        if entry.key is None or entry.is_raw("key"):
            return None
        layout = EntryLayout(self.columns(entry), frozenset({"key"}))
        decoder = layout.decoder(
            lambda program, columns: emit_key_alone(program, columns, entry, self.max_parallelism)
        )
        return lambda page: ((batch.page, batch.arrays[0]) for batch in decoder.decode(page))


@dataclass(frozen=True, kw_only=True, eq=False)
class FilesSource(HandleSource, CompositeSource):
    """Keyed state in several files, none of which records how many bytes a key group takes."""

    def key_group_bytes(self, state: StateName) -> list[tuple[int, int]]:
        groups = self.key_group_range
        # Nothing but the sum is recorded. Key groups are hash buckets, so an equal share is the best estimate.
        each = self.size_bytes // max(groups.number_of_key_groups, 1)
        return [(group, each) for group in range(groups.start, groups.end + 1)]


@dataclass(frozen=True, kw_only=True, eq=False)
class ComposedSource(CompositeSource):
    """Entries of another source in this layout, as a writer has them: it decodes pages, and reads none."""

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        return iter(())
