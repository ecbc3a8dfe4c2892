"""`Encoder`: the loop around the machine: rows in, entries out.

An `Encoder` holds a program and the machine's stack and registers; it belongs to one thread. The machine stops where the
output is full and goes on in a larger one. That costs less than a first pass that computes sizes, because the bytes of a
row of the batch before are a good guess for the next.

`Columns` are Arrow arrays as the machine sees them: one table with the addresses of their buffers, nothing copied. The machine takes
items in order, so a column is its buffers and a cursor. What Arrow allows and the machine does not expect is removed: the elements of
null lists. A value of a struct that is null may be anything; it is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers import NO_COLUMN, Batch, Code, ColumnTree, Serializer, StatePart, sql_type
from readers import instructions as op
from writers.encode.fitting import fitted, refusals, same_entries, shown, value_program
from writers.encode.machine import state
from writers.encode.machine.execute import execute
from writers.encode.program import encoding_code
from writers.errors import UnencodableTypeError, UnencodableValueError, WriterError


class Columns:
    """The columns of some rows.

    Args:
        tree: the columns of the program.
        arrays: the children of the root, of the types of the tree.

    Attributes:
        table: int64 (columns, FIELDS); see `machine/state.py`.
    """

    def __init__(self, tree: ColumnTree, arrays: Sequence[pa.Array]) -> None:
        self.tree = tree
        self.table: NDArray[np.int64] = np.zeros((len(tree.types), state.FIELDS), dtype=np.int64)
        self._arrays: list[pa.Array | None] = [None] * len(tree.types)  # keeps the buffers alive
        self.table[:, state.NEXT] = tree.next
        self.table[0, state.LAYOUT] = state.STRUCT
        for column, array in zip(tree.children[0], arrays, strict=True):
            self._add(column, array)

    def _add(self, column: int, array: pa.Array) -> None:
        entry = self.table[column]
        data_type = self.tree.types[column]
        children = self.tree.children[column]
        if pa.types.is_list(data_type) or pa.types.is_map(data_type):
            array = _without_hidden_elements(array)
        self._arrays[column] = array
        buffers = array.buffers()
        entry[state.CURSOR] = array.offset
        if array.null_count:
            entry[state.VALIDITY] = buffers[0].address
        if pa.types.is_struct(data_type):
            entry[state.LAYOUT] = state.STRUCT
            for index, child in enumerate(children):
                self._add(child, array.field(index))
            return
        # An array without items may lack its buffers; nothing is taken from it.
        entry[state.VALUES] = buffers[1].address if buffers[1] is not None else 0
        if pa.types.is_list(data_type) or pa.types.is_map(data_type):
            entry[state.LAYOUT] = state.LIST
            values = array.values
            self._add(children[0], values)
            self._move(children[0], int(array.offsets[0].as_py()) if len(array) else 0)
        elif pa.types.is_string(data_type) or pa.types.is_binary(data_type):
            entry[state.LAYOUT] = state.VARIABLE
            if buffers[2] is not None:
                entry[state.DATA], entry[state.DATA_END] = buffers[2].address, buffers[2].size
        else:
            entry[state.LAYOUT] = state.BITS if pa.types.is_boolean(data_type) else state.FIXED

    def _move(self, column: int, items: int) -> None:
        """Pass over the first items of a column and of those below it."""
        self.table[column, state.CURSOR] += items
        if self.table[column, state.LAYOUT] == state.STRUCT:
            for child in self.tree.children[column]:
                self._move(child, items)
        elif self.table[column, state.LAYOUT] == state.LIST and items:
            array = self._arrays[column]
            assert array is not None
            child = self.tree.children[column][0]
            self._move(child, array.offsets[items].as_py() - array.offsets[0].as_py())

    def text(self, column: int) -> str:
        """Return the next item of a column as text, for an error."""
        array = self._arrays[column]
        if array is None:
            return "a row"
        index = int(self.table[column, state.CURSOR]) - array.offset
        if not 0 <= index < len(array):
            return "no value"
        return shown(array[index])


def _without_hidden_elements(array: pa.Array) -> pa.Array:
    """Return a list or map array whose nulls have no elements."""
    if not array.null_count:
        return array
    offsets = np.asarray(array.offsets, dtype=np.int64)
    missing = np.asarray(array.is_null())
    counts = np.diff(offsets)
    if not counts[missing].any():
        return array
    shown = np.repeat(~missing, counts)
    elements = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    elements = elements.filter(pa.array(shown))
    counts[missing] = 0
    begins = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    mask = pa.array(missing)
    if pa.types.is_map(array.type):
        return pa.MapArray.from_arrays(
            begins, elements.field(0), elements.field(1), type=array.type, mask=mask
        )
    return pa.ListArray.from_arrays(begins, elements, type=array.type, mask=mask)


_LEAST_BYTES = 4096
_INITIAL_ROW_BYTES = 32.0
_MARGIN = 1.25


@dataclass(frozen=True, slots=True)
class Encoded:
    """Entries.

    Attributes:
        data: uint8, the bytes of all entries, one after the other.
        offsets: int64, shape (entries · segments + 1,): where each segment begins, and the end of the last.
        segments: the segments of an entry.
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    segments: int

    def __len__(self) -> int:
        return (len(self.offsets) - 1) // self.segments

    @property
    def starts(self) -> NDArray[np.int64]:
        """The begin of each segment, int64 (entries, segments)."""
        return self.offsets[:-1].reshape(-1, self.segments)

    @property
    def ends(self) -> NDArray[np.int64]:
        """The end of each segment, int64 (entries, segments)."""
        return self.offsets[1:].reshape(-1, self.segments)

    def array(self) -> pa.LargeBinaryArray:
        """Return entries of one segment as an array."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self), buffers)

    def entry(self, number: int) -> list[bytes]:
        """Return the segments of an entry."""
        first = number * self.segments
        bounds = self.offsets[first : first + self.segments + 1].tolist()
        return [self.data[start:end].tobytes() for start, end in pairwise(bounds)]


class Encoder:
    """One program, run from columns to bytes.

    Args:
        tree: the columns that the program fills when it decodes.
        codes: the program; several, of which each row has the first that fits it.
        segments: of an entry.
        reserves_nulls: whether a decimal or timestamp of a binary row that is null owns the room of a value. Flink
            writes both: its generated code reserves the room, `RowDataSerializer` does not.
    """

    def __init__(
        self, tree: ColumnTree, *codes: Code, segments: int = 1, reserves_nulls: bool = True
    ) -> None:
        self.tree = tree
        self.schema = pa.schema(list(tree.root))
        self.refusals = tuple(dict.fromkeys(refusal for code in codes for refusal in refusals(tree, code)))
        self._code = encoding_code(tree, codes, segments, reserves_nulls=reserves_nulls)
        self._stack: NDArray[np.int64] = np.zeros((self._code.depth, state.WORDS), dtype=np.int64)
        self._registers: NDArray[np.int64] = np.zeros(state.REGISTERS, dtype=np.int64)
        self._row_bytes = float(_INITIAL_ROW_BYTES)
        self._has_key_group = bool((self._code.instructions[:, op.OPCODE] == op.KEY_GROUP).any())

    @classmethod
    def of(cls, serializer: Serializer, *, reserves_nulls: bool = True) -> Encoder:
        """Return the encoder of single values of a serializer, in the column `value`."""
        return cls(*value_program(serializer), reserves_nulls=reserves_nulls)

    @classmethod
    def of_part(cls, part: StatePart, segments: int, *, reserves_nulls: bool = True) -> Encoder:
        """Return the encoder of a state's entries in the layout of their source.

        Args:
            part: the state in its source; its columns are those of `StatePart.entries`.
            segments: of an entry: 2 where key and value stand apart.
            reserves_nulls: see `Encoder`.
        """
        tree, codes = part.programs()
        return cls(tree, *codes, segments=segments, reserves_nulls=reserves_nulls)

    def encode(self, rows: pa.RecordBatch, key_groups: NDArray[np.int32] | None = None) -> Encoded:
        """Return the entries of rows.

        Args:
            rows: has the columns of `schema`, in any order and of any type whose values fit.
            key_groups: int32 (rows,), the key group of each, if entries begin with it.

        Raises:
            UnencodableValueError: a value that its type cannot hold; nothing wraps and nothing is cut.
            UnencodableTypeError: a row needs bytes that no column holds.
        """
        arrays = [self._column(rows, field) for field in self.schema]
        encoded, error = self.encode_arrays(arrays, rows.num_rows, key_groups)
        if error is not None:
            raise error
        return encoded

    def encode_arrays(
        self, arrays: Sequence[pa.Array], rows: int, key_groups: NDArray[np.int32] | None = None
    ) -> tuple[Encoded, WriterError | None]:
        """Return the entries before the first row that cannot be encoded, and its error; all, and None.

        Args:
            arrays: the columns of `schema`, of its types.
            rows: their length.
            key_groups: see `encode`.
        """
        code = self._code
        columns = Columns(self.tree, arrays)
        offsets: NDArray[np.int64] = np.empty(rows * code.segments + 1, dtype=np.int64)
        offsets[0] = 0
        output: NDArray[np.uint8] = np.empty(
            _LEAST_BYTES + int(rows * self._row_bytes * _MARGIN), dtype=np.uint8
        )
        groups = np.ascontiguousarray(key_groups, dtype=np.int32) if key_groups is not None else None
        if groups is None and self._has_key_group:
            raise ValueError(
                "expected the key groups of the rows, which their entries begin with; found none"
            )
        registers = self._registers
        registers[:] = 0
        while True:
            execute(
                code.instructions, code.targets, code.cases, code.pool, columns.table,
                0 if groups is None else groups, code.segments, rows, output, len(output),
                offsets[1:], self._stack, registers,
            )  # fmt: skip
            if registers[state.STATUS] != state.FULL:
                break
            output = _grown(output, int(registers[state.POSITION]), int(registers[state.ROOM]))
        done = int(registers[state.ROW])
        ends = offsets[: done * code.segments + 1]
        size = int(ends[-1])
        if done:
            self._row_bytes = size / done
        error = None if registers[state.STATUS] == state.DONE else self._error(columns)
        return Encoded(output[:size], ends, code.segments), error

    def restores(self, batch: Batch) -> NDArray[np.bool_]:
        """Return which entries of a decoded batch are encoded to the bytes that they were read from; bool (entries,).

        An entry that is not restored holds something that its columns do not: see `fitting.py`. To change a value of it would
        lose that; its bytes may only be copied, or left out.
        """
        page, arrays = batch.page, batch.arrays
        restored: NDArray[np.bool_] = np.zeros(len(page), dtype=np.bool_)
        first = 0
        while first < len(page):
            left = page.slice(first, len(page))
            rest = [array.slice(first) for array in arrays]
            encoded, _ = self.encode_arrays(rest, len(left), left.key_groups)
            done = len(encoded)
            restored[first : first + done] = same_entries(
                encoded.data,
                encoded.starts,
                encoded.ends,
                left.slice(0, done),
                has_key_group=self._has_key_group,
            )
            first += done + 1
        return restored

    def _column(self, rows: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name not in rows.schema.names:
            raise UnencodableTypeError(
                f"expected a column {field.name}, found {', '.join(rows.schema.names)}"
            )
        column = rows.column(field.name)
        # What was read from a savepoint fits, whatever it is: the last day of all, too.
        return column if column.type.equals(field.type) else fitted(column, field.type, (field.name,))

    def _error(self, columns: Columns) -> WriterError:
        """Return the error for the machine's status, with the value."""
        registers = self._registers
        status, column = int(registers[state.STATUS]), int(registers[state.COLUMN])
        path = self._code.paths[int(registers[state.PC])]
        row = int(registers[state.ROW])
        if status in (state.LEAF, state.HIDDEN):
            reason = next((why for where, why in self.refusals if where == path), "no column holds the bytes")
            return UnencodableTypeError(reason, breadcrumbs=path, row=row)
        text = columns.text(column) if column != NO_COLUMN else "a row"
        type_ = sql_type(self.tree.types[column]) if column != NO_COLUMN else "row"
        message = state.MESSAGES[status].format(value=text, type=type_, detail=int(registers[state.DETAIL]))
        return UnencodableValueError(message, breadcrumbs=path, row=row)


def _grown(output: NDArray[np.uint8], used: int, room: int) -> NDArray[np.uint8]:
    """Return a buffer with the first bytes of `output`, and room for more."""
    larger: NDArray[np.uint8] = np.empty(max(2 * len(output), used + room), dtype=np.uint8)
    larger[:used] = output[:used]
    return larger
