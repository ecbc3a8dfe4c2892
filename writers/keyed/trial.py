"""Tries changes of the types of a state's values: reads all values, makes the new ones, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from readers import Operator, Page, Selection, Source, StateName, StoredHeader
from writers.alteration import StateAlteration
from writers.evolution import TypeChange
from writers.keyed.altered import TypeEditor, altered_header
from writers.keyed.carry import carrier_of, check_carried, composed_part, state_names


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
