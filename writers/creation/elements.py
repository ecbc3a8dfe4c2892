"""The elements of one new operator state, by subtask.

Flink gives each subtask the elements of its own handle as long as the parallelism stays, and deals them out anew when it changes. A
union state is the sum of all handles, in every subtask. Every subtask has a whole copy of a broadcast state, and all copies must be
equal.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers import SUBTASK, StateKind, operator_program
from writers.creation.states import NewState
from writers.encode.encoder import Encoder
from writers.errors import UnencodableValueError

# Flink holds operator state in the memory of its tasks, so whole states are small.
_MOST_BYTES = 1 << 30
_SHOWN_BYTES = 64


class CollectedElements:
    """The elements of a new operator state, or the entries of a broadcast state.

    Args:
        state: its types.
        parallelism: the number of subtasks.

    Attributes:
        rows: how many were added.
    """

    def __init__(self, state: NewState, parallelism: int) -> None:
        self.state = state
        self.parallelism = parallelism
        self.rows = 0
        self._encoder = Encoder(*operator_program(state.entry))
        self._batches: list[tuple[pa.LargeBinaryArray, NDArray[np.int64]]] = []
        self._keys: list[pa.LargeBinaryArray] = []
        self._size = 0

    @property
    def is_broadcast(self) -> bool:
        """True if every subtask has all of it."""
        return self.state.kind is StateKind.BROADCAST

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows; each makes an element.

        Raises:
            UnencodableValueError: a value does not fit, a key of a broadcast state comes twice, or there are too many.
        """
        arrays = self.state.entry_columns(rows, self._encoder.schema)
        encoded, error = self._encoder.encode_arrays(arrays, rows.num_rows)
        if error is not None:
            error.row += self.rows
            raise error
        self._size += len(encoded.data)
        if self._size > _MOST_BYTES:
            raise UnencodableValueError(
                f"expected at most {_MOST_BYTES >> 20} MiB of operator state in {self.state.name}, which Flink holds in memory"
            )
        self._batches.append((encoded.array(), self._subtasks(rows)))
        if self.is_broadcast:
            self._check_keys(rows.column("map_key"))
        self.rows += rows.num_rows

    def _subtasks(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        """Return the subtask of each row: the given one, or one after the other in turn."""
        if self.is_broadcast:
            return np.zeros(rows.num_rows, dtype=np.int64)
        if SUBTASK not in rows.schema.names:
            return (np.arange(rows.num_rows, dtype=np.int64) + self.rows) % self.parallelism
        given = rows.column(SUBTASK)
        wrong = pc.fill_null(pc.or_(pc.less(given, 0), pc.greater_equal(given, self.parallelism)), True)
        if pc.any(wrong).as_py():
            row = pc.index(wrong, True).as_py()
            raise UnencodableValueError(
                f"expected a subtask from 0 to {self.parallelism - 1}, found {given[row].as_py()}",
                breadcrumbs=(SUBTASK,),
                row=self.rows + row,
            )
        return np.asarray(given.cast(pa.int64()))

    def _check_keys(self, keys: pa.Array) -> None:
        """Check that no key of a broadcast state comes twice."""
        encoder = Encoder.of(self.state.types["map_key"])
        self._keys.append(encoder.encode(pa.record_batch([keys], ["value"])).array())
        found = pa.chunked_array(self._keys)
        if pc.count_distinct(found).as_py() < len(found):
            twice = pc.value_counts(found)
            number = pc.index(twice.field(1), pc.max(twice.field(1))).as_py()
            shown = twice.field(0)[number].as_py()[:_SHOWN_BYTES].hex(" ")
            raise UnencodableValueError(
                f"expected each map key once in {self.state.name}, found one twice; its bytes are {shown}"
            )

    def elements(self, subtask: int) -> pa.ChunkedArray:
        """Return the elements of a subtask; of a broadcast state one: its number of entries, and all entries."""
        if not self.is_broadcast:
            chosen = [array.filter(pa.array(subtasks == subtask)) for array, subtasks in self._batches]
            return pa.chunked_array(chosen, pa.large_binary())
        entries = b"".join(joined(array) for array, _ in self._batches)
        return pa.chunked_array([pa.array([self.rows.to_bytes(4, "big") + entries], pa.large_binary())])


def joined(elements: pa.LargeBinaryArray) -> memoryview:
    """Return the bytes of all elements, one after the other."""
    first, last = elements.offset, elements.offset + len(elements)
    offsets = np.frombuffer(elements.buffers()[1], dtype=np.int64)
    return memoryview(elements.buffers()[2] or b"")[offsets[first] : offsets[last]]
