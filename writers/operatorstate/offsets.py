"""The edit of positions of sources: numbers in elements of operator state; everything else keeps its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from readers import OffsetPlace, OperatorSource, SavepointLocation, Selection
from readers.metadata import OperatorStreamStateHandle, SavepointMetadata
from writers.edits import Edit, find_operator, with_operator
from writers.errors import RefusedEditError
from writers.operatorstate.elements import check_size, joined, stored_entries
from writers.operatorstate.stream import Elements, new_handle, rewritten

_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True)
class SetOffsets(Edit):
    """Replace numbers in the operator state of one operator.

    Attributes:
        operator_id: whose state.
        numbers: where a number is → the number there, and the new one.
    """

    operator_id: str
    numbers: Mapping[OffsetPlace, tuple[int, int]]

    def applied(self, metadata: SavepointMetadata, source: SavepointLocation) -> SavepointMetadata:
        operator = find_operator(metadata, self.operator_id)
        touched = {place.subtask for place in self.numbers}
        subtasks = tuple(
            replace(one, managed_operator_state=self._handle(one.index, one.managed_operator_state, source))
            if one.index in touched and one.managed_operator_state is not None
            else one
            for one in operator.subtasks
        )
        return with_operator(metadata, operator, replace(operator, subtasks=subtasks))

    def _handle(
        self, subtask: int, handle: OperatorStreamStateHandle, source: SavepointLocation
    ) -> OperatorStreamStateHandle:
        opened = OperatorSource.open(subtask, handle, source.open_stream(handle.delegate))
        places = [place for place in self.numbers if place.subtask == subtask]
        changed = {name: self._elements(opened, name, places) for name in {place.state for place in places}}
        return new_handle(rewritten(opened, changed))

    def _elements(self, source: OperatorSource, state: str, places: list[OffsetPlace]) -> Elements:
        name = next((name for name in source.entries if name.name == state), None)
        found: list[bytes] = []
        if name is not None:
            check_size(source.cost_bytes(name), state)
            pages = [stored_entries(page) for page in source.pages(name, Selection())]
            found = joined(pa.chunked_array(pages, pa.large_binary())).to_pylist()
        for place in places:
            if place.state == state:
                before, after = self.numbers[place]
                element = found[place.element] if place.element < len(found) else b""
                found[place.element : place.element + 1] = [_patched(element, place, before, after)]
        return Elements(data=pa.array(found, pa.large_binary()), is_broadcast=False)


def _patched(element: bytes, place: OffsetPlace, before: int, after: int) -> bytes:
    """Return an element with another number.

    Raises:
        RefusedEditError: the number that was read is not there.
    """
    start = len(element) - place.from_end
    end = start + _NUMBER_BYTES
    found = int.from_bytes(element[max(start, 0) : max(end, 0)], "big", signed=True)
    if start < 0 or end > len(element) or found != before:
        raise RefusedEditError(
            f"expected the number {before} at byte {start} of element {place.element} of {place.state} in subtask "
            f"{place.subtask}, found {found}"
        )
    return element[:start] + after.to_bytes(_NUMBER_BYTES, "big", signed=True) + element[end:]
