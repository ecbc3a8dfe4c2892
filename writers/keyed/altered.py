"""States of a source that go, become empty, or get other names or types: its header, and the values of the states.

Tries changes of the types of a state's values: reads all values, makes the new ones, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from readers import (
    UNDECODED,
    Batch,
    ComposedSource,
    Operator,
    Page,
    Selection,
    Source,
    StateKind,
    StateName,
    StatePart,
    StoredHeader,
)
from writers.conversion import Conversion
from writers.encode.encoder import Encoder
from writers.encode.fitting import shown
from writers.errors import RefusedEditError, UnencodableTypeError, UnencodableValueError
from writers.evolution import StateAlteration, TypeChange, retyped
from writers.headers import RegisteredState, registered_state, write_keyed_header
from writers.keyed.added import AddedState
from writers.keyed.carry import carrier_of, check_carried, composed_part, key_block, state_names
from writers.keyed.segments import EntrySegments

_SEGMENTS = 2
_NULL_FLAG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredHeader:
    """The header of the states that stay.

    Attributes:
        data: its bytes.
        ids: the new id of each state, by the old one; None for a state that goes.
        first_added: the id of the first state that is added.
    """

    data: bytes
    ids: tuple[int | None, ...]
    first_added: int


def altered_header(
    header: StoredHeader,
    source: Source,
    alterations: Mapping[StateName, StateAlteration],
    added: Sequence[AddedState] = (),
) -> AlteredHeader:
    """Return the header of a source after alterations of its states, with added states behind them.

    Raises:
        RefusedEditError: two states would have one name, a type cannot change so, or added states have other keys.
        UnencodableTypeError: no snapshot of a new type can be written.
    """
    names = state_names(header)
    if not added and not any(name in alterations for name in names):
        return AlteredHeader(data=header.data, ids=tuple(range(len(names))), first_added=len(names))
    ids: list[int | None] = []
    states: list[RegisteredState] = []
    for name, registered in zip(names, header.header.states, strict=True):
        alteration = alterations.get(name, StateAlteration())
        if alteration.dropped:
            ids.append(None)
            continue
        ids.append(len(states))
        state = registered_state(registered, header.data)
        if alteration.types:
            value, whole = source.entries[name].part("value"), registered.value_serializer
            assert whole is not None
            for change in alteration.types:
                value = change.evolved(value).serializer
            state = retyped(state, whole, value)
        states.append(replace(state, name=alteration.name or state.name))
    first_added = len(states)
    states += [one.registered() for one in added]
    kinds_and_names = [(state.kind, state.name) for state in states]
    if len(set(kinds_and_names)) < len(states):
        raise RefusedEditError(
            f"expected states of different names, found {', '.join(sorted(state.name for state in states))}"
        )
    keys = key_block(header)
    for one in added:
        if one.key_block() != keys:
            raise RefusedEditError(
                f"expected keys of type {header.header.key_serializer.type_name} in the new state {one.name}, as the states "
                "of the operator have, found others"
            )
    data = write_keyed_header(keys, states, compressed=header.header.compressed)
    return AlteredHeader(data=data, ids=tuple(ids), first_added=first_added)


class TypeEditor:
    """Writes the values of one state anew, in another type.

    Args:
        part: the state, in the layout of canonical entries.
        changes: of the type of its values, in order.

    Raises:
        RefusedEditError: the type cannot change so.
    """

    def __init__(self, part: StatePart, changes: Sequence[TypeChange]) -> None:
        self._part = part
        self._conversions: list[Conversion] = []
        value = part.entry.part("value")
        for change in changes:
            evolved = change.evolved(value)
            self._conversions.append(evolved.convert)
            value = evolved.serializer
        entry = replace(part.entry, value=value)
        assert isinstance(part.source, ComposedSource)
        source = replace(part.source, entries={part.name: entry})
        self._old = Encoder.of_part(part, _SEGMENTS)
        self._new = Encoder.of_part(StatePart(source=source, name=part.name, entry=entry), _SEGMENTS)

    def edited(self, pages: Iterator[Page]) -> Iterator[EntrySegments]:
        """Yield the entries of pages in their new type; keys keep their bytes.

        Raises:
            RefusedEditError: the columns of an entry do not hold all of its bytes.
            UnencodableValueError: a value that the new type cannot hold.
        """
        for batch in self._part.decoded(pages):
            self._check_restorable(batch)
            columns = dict(zip(self._old.schema.names, batch.arrays, strict=True))
            self._check_described(batch, columns.pop(UNDECODED, None))
            try:
                columns["value"] = self._converted(columns["value"])
                columns[UNDECODED] = pa.nulls(len(batch.page), pa.binary())
                names = self._new.schema.names
                encoded = self._new.encode(
                    pa.RecordBatch.from_arrays([columns[name] for name in names], names),
                    np.ascontiguousarray(batch.page.key_groups),
                )
            except (UnencodableValueError, UnencodableTypeError) as error:
                raise self._located(error, batch) from error
            values = EntrySegments.of(encoded.data, encoded.starts, encoded.ends)
            yield EntrySegments.of_page(batch.page).with_values(np.arange(len(batch.page)), values)

    def _converted(self, values: pa.Array) -> pa.Array:
        if self._part.entry.kind is not StateKind.LIST:
            for convert in self._conversions:
                values = convert(values)
            return values
        elements = values.flatten()
        for convert in self._conversions:
            elements = convert(elements)
        offsets = values.offsets
        # A slice of a list array has the offsets of the whole.
        starts = pa.array(np.asarray(offsets) - (np.asarray(offsets)[0] if len(offsets) else 0), pa.int32())
        return pa.ListArray.from_arrays(starts, elements)

    def _check_described(self, batch: Batch, undecoded: pa.Array | None) -> None:
        if undecoded is None or undecoded.null_count == len(undecoded):
            return
        row = int(np.flatnonzero(np.asarray(undecoded.is_valid()))[0])
        raise RefusedEditError(
            f"{self._part.name.name}, key {_key(batch, self._old, row)}: expected a value of classes that the savepoint "
            "describes, found one of another: DELETE it before, or let the job write it anew"
        )

    def _check_restorable(self, batch: Batch) -> None:
        lost = ~self._old.restores(batch)
        if lost.any() and self._part.entry.kind is StateKind.MAP:
            # Behind the flag of a null map value the hashmap backend writes bytes that hold nothing.
            flags = batch.page.data[batch.page.starts[:, 1]]
            lost &= flags != _NULL_FLAG
        if not lost.any():
            return
        raise RefusedEditError(
            f"{self._part.name.name}, key {_key(batch, self._old, int(np.flatnonzero(lost)[0]))}: expected a value whose "
            "columns hold all of its bytes, found one that would lose some if it was written in another type"
        )

    def _located(
        self, error: UnencodableValueError | UnencodableTypeError, batch: Batch
    ) -> UnencodableValueError | UnencodableTypeError:
        """Return the error with the state; the row of an element of a list is not that of its entry."""
        is_row = self._part.entry.kind is not StateKind.LIST and 0 <= error.row < len(batch.page)
        key = f"key {_key(batch, self._old, error.row)}: " if is_row else ""
        return type(error)(f"{key}{error.message}", breadcrumbs=(self._part.name.name, *error.breadcrumbs))


def _key(batch: Batch, encoder: Encoder, row: int) -> str:
    return shown(batch.arrays[encoder.schema.get_field_index("key")][row])


def try_types(operator: Operator, name: StateName, types: Sequence[TypeChange]) -> int:
    """Return how many entries of a state have other bytes after changes of their type.

    Args:
        operator: the operator in the source.
        name: of the state.
        types: the changes, in order.

    Raises:
        WriterError: the type cannot change so, or a value is none of the new type; the error names its key.
        ReaderError: the state cannot be read.
    """
    most = max(operator.metadata.max_parallelism, 1)
    entries = 0
    for source in operator.sources:
        if name not in source.entries or source.key_group_range is None:
            continue
        header = check_carried(source, source.stored_header())
        altered_header(header, source, {name: StateAlteration(types=tuple(types))})
        editor = TypeEditor(composed_part(source, name, most), types)
        for segments in editor.edited(_pages(source, header, name, most)):
            entries += len(segments)
    return entries


def _pages(source: Source, header: StoredHeader, name: StateName, most: int) -> Iterator[Page]:
    if source.stored_groups() is not None:
        return source.pages(name, Selection())
    return carrier_of(source, header, most).pages(state_names(header).index(name), Selection())
