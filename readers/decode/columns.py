"""The arenas that the machine fills, and how they become Arrow arrays without a copy.

One uint8 arena holds every buffer of a batch. A *column* is a node of the Arrow type tree, numbered in pre-order: the
first child of a column is the next column.

| layout | for | buffers |
|---|---|---|
| FIXED | ints, floats, timestamps, bool (a byte each until it becomes a bitmap), decimal128 | values |
| VARIABLE | string, binary | int32 offsets, data |
| LIST | list, map (its child is the struct of key and value) | int32 offsets |
| STRUCT | struct | – |

and each has a byte of validity an item, set to 1 beforehand, so that only nulls cost a write.

The machine sees `table`, int64 of shape (columns, FIELDS), whose fields are the constants below; its subroutines that
read and write them are in `machine/columns.py`.

A value that the type of its column cannot hold is an *outlier*: the column has NULL, and the text is kept beside it.

| value | column | cannot hold |
|---|---|---|
| Instant, java.sql.Timestamp, LocalDateTime, TIMESTAMP above 6 | timestamp[ns] | years before 1677 and after 2262 |
| TIMESTAMP of 4 to 6 digits | timestamp[us] | years beyond ±290,000 |
| LocalDate | date32 | years beyond ±5,800,000 |
| a map in a value | map | a null key: the whole map is NULL, its entries are text |

The machine stops at such a value as at a Python leaf, and goes on behind it: a page without outliers costs nothing
more. The row and path of an outlier are derived when the batch is done, from the offsets of the lists around it.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Set
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.decode import instructions as op
from readers.jsontext import civil_from_days, date_text, json_text

LENGTH = 0  # items written
CAPACITY = 1  # items that fit
VALUES = 2  # byte position in the arena of the values or of the int32 offsets
VALIDITY = 3  # byte position of the validity bytes
DATA = 4  # byte position of the data of a VARIABLE column
DATA_LENGTH = 5  # data bytes written
DATA_CAPACITY = 6  # data bytes that fit
NEXT = 7  # the first column behind this one's subtree
LAYOUT = 8
WIDTH = 9  # bytes a value of a FIXED column
NULLS = 10  # nulls written
FIELDS = 11

FIXED = 0
VARIABLE = 1
LIST = 2
STRUCT = 3

NO_COLUMN = -1  # of an instruction whose bytes are checked and stepped over

_ALIGNMENT = 64  # as Arrow recommends
# Room is guessed from the batches before: too much costs memory, too little a batch that ends early.
_GROWTH = 4
_MARGIN = 1.5
_INITIAL_DENSITY = 0.1
_INITIAL_DATA_DENSITY = 1.0
_LEAST_DENSITY = 0.01
_SPARE_ITEMS = 64
_SPARE_BYTES = 8192  # a decimal is written as text only where 5,000 bytes are free: see machine/decimals.py
_MAX_ITEMS = 2**31 - 2  # of one batch: Arrow's offsets are int32

_WIDTHS = {
    pa.types.is_boolean: 1,
    pa.types.is_int8: 1,
    pa.types.is_int16: 2,
    pa.types.is_int32: 4,
    pa.types.is_date32: 4,
    pa.types.is_time32: 4,
    pa.types.is_float32: 4,
    pa.types.is_decimal128: 16,
}


@dataclass(slots=True)
class ColumnTree:
    """The columns of one Arrow struct type, numbered in pre-order; column 0 is the struct itself.

    Attributes:
        types: the Arrow type of each column.
        children: the child columns of each column.
        maps: the columns that are maps.
        under_list: True for a column whose length is independent of the number of rows.
        next: the first column behind the subtree of each column.
        density, data_density: items and data bytes of each column, a byte of input, that the last batches needed.
    """

    root: pa.StructType
    types: list[pa.DataType] = field(default_factory=list)
    children: list[list[int]] = field(default_factory=list)
    maps: list[int] = field(default_factory=list)
    under_list: list[bool] = field(default_factory=list)
    next: list[int] = field(default_factory=list)
    density: list[float] = field(default_factory=list)
    data_density: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._add(self.root, under_list=False)

    def _add(self, data_type: pa.DataType, *, under_list: bool) -> int:
        column = len(self.types)
        self.types.append(data_type)
        self.children.append([])
        self.under_list.append(under_list)
        self.next.append(0)
        self.density.append(_INITIAL_DENSITY)
        self.data_density.append(_INITIAL_DATA_DENSITY)
        if pa.types.is_struct(data_type):
            children = [self._add(child.type, under_list=under_list) for child in data_type]
        elif pa.types.is_map(data_type):
            self.maps.append(column)
            children = [self._add(pa.struct([data_type.key_field, data_type.item_field]), under_list=True)]
        elif pa.types.is_list(data_type):
            children = [self._add(data_type.value_type, under_list=True)]
        else:
            children = []
        self.children[column] = children
        self.next[column] = len(self.types)
        return column

    def with_bytes(self, columns: Set[int]) -> ColumnTree:
        """Return the same columns, of which some hold bytes instead of text or numbers."""

        def kind(column: int) -> pa.DataType:
            data_type, children = self.types[column], self.children[column]
            if column in columns:
                return pa.binary()
            if pa.types.is_struct(data_type):
                fields = zip(data_type, children, strict=True)
                return pa.struct([field.with_type(kind(child)) for field, child in fields])
            if pa.types.is_map(data_type):
                key, item = self.children[children[0]]
                return pa.map_(kind(key), kind(item))
            return pa.list_(kind(children[0])) if pa.types.is_list(data_type) else data_type

        return ColumnTree(kind(0))

    def anew(self) -> ColumnTree:
        """Return the same columns without the densities of any batch; the rest does not change, and is shared."""
        tree = copy.copy(self)
        tree.density = [_INITIAL_DENSITY] * len(self.types)
        tree.data_density = [_INITIAL_DATA_DENSITY] * len(self.types)
        return tree

    def layout(self, column: int) -> int:
        """Return FIXED, VARIABLE, LIST or STRUCT."""
        data_type = self.types[column]
        if pa.types.is_struct(data_type):
            return STRUCT
        if pa.types.is_list(data_type) or pa.types.is_map(data_type):
            return LIST
        if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
            return VARIABLE
        return FIXED

    def width(self, column: int) -> int:
        """Return the bytes of a value of a FIXED column."""
        return next((width for test, width in _WIDTHS.items() if test(self.types[column])), 8)


class Arena:
    """The buffers of one batch.

    Args:
        tree: the columns.
        rows: the most rows that it can hold.
        input_bytes: the bytes of input that these rows have. With the densities of earlier batches they give the room
            for texts and for columns under lists. An entry that does not fit ends the batch early; see `Decoder`.
    """

    def __init__(self, tree: ColumnTree, rows: int, input_bytes: int) -> None:
        self.tree = tree
        self.input_bytes = input_bytes
        count = len(tree.types)
        self.table: NDArray[np.int64] = np.zeros((count, FIELDS), dtype=np.int64)
        size = 0
        for column in range(count):
            entry = self.table[column]
            entry[LAYOUT] = layout = tree.layout(column)
            entry[NEXT] = tree.next[column]
            capacity = rows
            if tree.under_list[column]:
                capacity = int(min(input_bytes * tree.density[column] + _SPARE_ITEMS, _MAX_ITEMS))
            entry[CAPACITY] = capacity
            if layout == FIXED:
                entry[WIDTH] = tree.width(column)
                entry[VALUES], size = size, _aligned(size + capacity * int(entry[WIDTH]))
            elif layout in (VARIABLE, LIST):
                entry[VALUES], size = size, _aligned(size + (capacity + 1) * 4)
            if layout == VARIABLE:
                entry[DATA_CAPACITY] = int(
                    min(input_bytes * tree.data_density[column] + _SPARE_BYTES, _MAX_ITEMS)
                )
                entry[DATA], size = size, _aligned(size + int(entry[DATA_CAPACITY]))
            entry[VALIDITY], size = size, _aligned(size + capacity)
        self.memory: NDArray[np.uint8] = np.empty(size + _ALIGNMENT, dtype=np.uint8)
        for column in range(count):
            entry = self.table[column]
            start = int(entry[VALIDITY])
            self.memory[start : start + int(entry[CAPACITY])] = 1
            if entry[LAYOUT] in (VARIABLE, LIST):
                self.memory[int(entry[VALUES]) : int(entry[VALUES]) + 4] = 0

    def to_arrays(self, rows: int) -> list[pa.Array]:
        """Return the first `rows` items of the root struct's children, without those of a row that is not finished.

        No map may have a null key, over which Arrow aborts the process; see `outliers.maps_with_null_keys`.
        """
        buffer = pa.py_buffer(self.memory)
        return [self._array(child, rows, buffer) for child in self.tree.children[0]]

    def lists_of_entries(self, column: int) -> pa.Array:
        """Return a map column, with the maps below it, as lists of structs: their keys may be null."""
        return self._array(column, int(self.table[column][LENGTH]), pa.py_buffer(self.memory), maps=False)

    def _array(self, column: int, length: int, buffer: pa.Buffer, *, maps: bool = True) -> pa.Array:
        entry = self.table[column]
        data_type = self.tree.types[column]
        validity = None
        if entry[NULLS]:
            start = int(entry[VALIDITY])
            validity = pa.py_buffer(np.packbits(self.memory[start : start + length], bitorder="little"))
        layout = int(entry[LAYOUT])
        if layout == STRUCT:
            children = [self._array(child, length, buffer, maps=maps) for child in self.tree.children[column]]
            if not maps:
                names = [child.name for child in data_type]
                data_type = pa.struct(
                    [(name, child.type) for name, child in zip(names, children, strict=True)]
                )
            return pa.Array.from_buffers(data_type, length, [validity], children=children)
        start = int(entry[VALUES])
        if layout == FIXED:
            values = buffer.slice(start, length * int(entry[WIDTH]))
            if pa.types.is_boolean(data_type):
                values = pa.py_buffer(np.packbits(self.memory[start : start + length], bitorder="little"))
            return pa.Array.from_buffers(data_type, length, [validity, values])
        offsets = buffer.slice(start, (length + 1) * 4)
        last = int(self.memory[start + 4 * length : start + 4 * length + 4].view(np.int32)[0])
        if layout == VARIABLE:
            data = buffer.slice(int(entry[DATA]), last)
            return pa.Array.from_buffers(data_type, length, [validity, offsets, data])
        child = self._array(self.tree.children[column][0], last, buffer, maps=maps)
        if not maps:
            data_type = pa.list_(child.type)
        return pa.Array.from_buffers(data_type, length, [validity, offsets], children=[child])

    def has_null_keys(self) -> bool:
        """Return whether a map may have a null key."""
        keys = (self.tree.children[self.tree.children[column][0]][0] for column in self.tree.maps)
        return any(self.table[key][NULLS] for key in keys)

    def cut(self, rows: int) -> None:
        """Remove all items behind the first `rows` rows."""
        for child in self.tree.children[0]:
            self._cut(child, rows)

    def _cut(self, column: int, length: int) -> None:
        """Remove all items of a column and its children behind the first `length`."""
        entry = self.table[column]
        behind = slice(int(entry[VALIDITY]) + length, int(entry[VALIDITY]) + int(entry[LENGTH]))
        entry[NULLS] -= int((self.memory[behind] == 0).sum())
        self.memory[behind] = 1
        entry[LENGTH] = length
        children = length
        if entry[LAYOUT] in (VARIABLE, LIST):
            at = int(entry[VALUES]) + 4 * length
            children = int(self.memory[at : at + 4].view(np.int32)[0])
        if entry[LAYOUT] == VARIABLE:
            entry[DATA_LENGTH] = children
        for child in self.tree.children[column]:
            self._cut(child, children)

    def settle(self) -> None:
        """Keep the room that this batch needed, with a margin, for the next one."""
        for column in range(len(self.tree.types)):
            entry = self.table[column]
            if self.tree.under_list[column]:
                self.tree.density[column] = _settled(
                    self.tree.density[column], entry[LENGTH], self.input_bytes
                )
            if entry[LAYOUT] == VARIABLE:
                used = entry[DATA_LENGTH]
                self.tree.data_density[column] = _settled(
                    self.tree.data_density[column], used, self.input_bytes
                )

    def grow(self) -> bool:
        """Ask for more room after not one entry fitted; return False if there is no more.

        Columns under lists that are full grow, and the data of all texts and bytes, because it is not known how much
        the next of them needs.
        """
        grown = False
        for column in range(len(self.tree.types)):
            entry = self.table[column]
            full = self.tree.under_list[column] and entry[LENGTH] >= entry[CAPACITY]
            if full and entry[CAPACITY] < _MAX_ITEMS:
                self.tree.density[column] = _GROWTH * int(entry[CAPACITY]) / max(self.input_bytes, 1)
                grown = True
            if entry[LAYOUT] == VARIABLE and entry[DATA_CAPACITY] < _MAX_ITEMS:
                needed = _GROWTH * int(entry[DATA_CAPACITY]) / max(self.input_bytes, 1)
                self.tree.data_density[column] = needed
                grown = True
        return grown


def _settled(density: float, used: int, input_bytes: int) -> float:
    """Return the density for the next batch. It falls slowly, so that a batch of empty lists does not starve the next."""
    needed = _MARGIN * int(used) / max(input_bytes, 1)
    return max(needed, density / _GROWTH, _LEAST_DENSITY)


def _aligned(size: int) -> int:
    return (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


Path = tuple[str | int, ...]

_SECONDS_A_DAY = 86_400
_NANOS_A_MILLISECOND = 1_000_000
_NANOS_A_MICROSECOND = 1000
_INSTANT = struct.Struct(">qi")
_DATE = struct.Struct(">iBB")
_TIME = struct.Struct(">BBBi")
_SLOT = struct.Struct("<iI")
_MILLIS = struct.Struct("<q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """One value that its column cannot hold.

    Attributes:
        entry: the number of the entry in its batch.
        path: the column, then names of fields and numbers of elements: `("value", "history", 3, "at")`.
        json: the value as JSON text.
    """

    entry: int
    path: Path
    json: str


@dataclass(frozen=True, slots=True)
class Cell:
    """An item of a column, and the text of what it cannot hold."""

    column: int
    index: int
    json: str


def located(cells: list[Cell], arena: Arena) -> list[Outlier]:
    """Return the outliers that the cells are, with their entry and path. The batch must be done."""
    parents = _parents(arena.tree)
    return [_located(cell, arena, parents) for cell in cells]


def _located(cell: Cell, arena: Arena, parents: list[int]) -> Outlier:
    # From the column up to the root: each list turns the number of an item into that of the list it is in.
    tree, column, index = arena.tree, cell.column, cell.index
    path: list[str | int] = []
    while column:
        parent = parents[column]
        if pa.types.is_struct(tree.types[parent]):
            path.append(tree.types[parent].field(tree.children[parent].index(column)).name)
        else:
            offsets = _offsets(arena, parent)
            item = int(np.searchsorted(offsets, index, side="right")) - 1
            path.append(index - int(offsets[item]))
            index = item
        column = parent
    return Outlier(entry=index, path=tuple(reversed(path)), json=cell.json)


def _parents(tree: ColumnTree) -> list[int]:
    """Return the parent of each column; the root is its own."""
    parents = [0] * len(tree.types)
    for column, children in enumerate(tree.children):
        for child in children:
            parents[child] = column
    return parents


def _offsets(arena: Arena, column: int) -> NDArray[np.int32]:
    """Return a view of the offsets of a LIST column."""
    entry = arena.table[column]
    start = int(entry[VALUES])
    offsets: NDArray[np.int32] = arena.memory[start : start + 4 * (int(entry[LENGTH]) + 1)].view(np.int32)
    return offsets


def maps_with_null_keys(arena: Arena) -> list[Cell]:
    """Make each map with a null key NULL, and return their entries as cells. Only whole rows may be in the arena."""
    cells = []
    for column in arena.tree.maps:
        key = arena.tree.children[arena.tree.children[column][0]][0]
        validity = _validity(arena, key)
        without = np.flatnonzero(validity == 0)
        if not len(without):
            continue
        maps = np.unique(np.searchsorted(_offsets(arena, column), without, side="right") - 1)
        texts = json_text(arena.lists_of_entries(column).take(pa.array(maps))).to_pylist()
        cells += [Cell(column, int(index), text) for index, text in zip(maps, texts, strict=True)]
        # Arrow aborts the process at a null key, also below a null map: the keys become empty values instead.
        _validity(arena, column)[maps] = 0
        arena.table[column][NULLS] += len(maps)
        validity[without] = 1
        arena.table[key][NULLS] -= len(without)
    return cells


def _validity(arena: Arena, column: int) -> NDArray[np.uint8]:
    """Return a view of the validity of a column: a byte an item, 0 for null."""
    entry = arena.table[column]
    start = int(entry[VALIDITY])
    validity: NDArray[np.uint8] = arena.memory[start : start + int(entry[LENGTH])]
    return validity


@dataclass(frozen=True, slots=True)
class UnreadValue:
    """A value that the machine stopped at, and where its bytes are.

    Attributes:
        data: the page's bytes.
        instruction: int64 (WORDS,), the instruction that lays out the value; see `instructions.py`.
        position: the begin of a value that is not in a slot.
        region, slots: the begin of the binary region and of its slots, for a value in a slot.
    """

    data: memoryview
    instruction: NDArray[np.int64]
    position: int
    region: int
    slots: int


def value_text(value: UnreadValue) -> tuple[str, int] | None:
    """Return the value as JSON text, and the position behind it; None if its instruction has no text."""
    read = _READ.get(int(value.instruction[op.OPCODE]))
    if read is None:
        return None
    text, position = read(value)
    return f'"{text}"', position


def _timestamp(value: UnreadValue) -> tuple[str, int]:
    millis, nanos = _INSTANT.unpack_from(value.data, value.position)
    return _moment(millis // 1000, nanos), value.position + _INSTANT.size


def _instant(value: UnreadValue) -> tuple[str, int]:
    return _moment(*_INSTANT.unpack_from(value.data, value.position)), value.position + _INSTANT.size


def _timestamp_data(value: UnreadValue) -> tuple[str, int]:
    millis, nanos = _INSTANT.unpack_from(value.data, value.position)
    return _of_millis(millis, nanos, int(value.instruction[op.NANOS_A_UNIT])), value.position + _INSTANT.size


def _slot_timestamp(value: UnreadValue) -> tuple[str, int]:
    nanos, offset = _SLOT.unpack_from(value.data, value.slots + int(value.instruction[op.SLOT]))
    (millis,) = _MILLIS.unpack_from(value.data, value.region + offset)
    return _of_millis(millis, nanos, int(value.instruction[op.NANOS_A_UNIT])), value.position


def _local_date(value: UnreadValue) -> tuple[str, int]:
    return date_text(*_DATE.unpack_from(value.data, value.position)), value.position + _DATE.size


def _local_date_time(value: UnreadValue) -> tuple[str, int]:
    date = date_text(*_DATE.unpack_from(value.data, value.position))
    hour, minute, second, nanos = _TIME.unpack_from(value.data, value.position + _DATE.size)
    clock = f"{hour:02d}:{minute:02d}:{second:02d}.{nanos:09d}"
    return f"{date}T{clock}", value.position + _DATE.size + _TIME.size


def _of_millis(millis: int, nanos: int, nanos_a_unit: int) -> str:
    seconds, rest = divmod(millis, 1000)
    text = _moment(seconds, rest * _NANOS_A_MILLISECOND + nanos)
    # Six digits, as `json_text` shows a column of microseconds.
    return text[:-3] if nanos_a_unit == _NANOS_A_MICROSECOND else text


def _moment(seconds: int, nanos: int) -> str:
    """Return ISO 8601 text as `jsontext.iso_timestamp` does, of seconds that no int64 of nanoseconds holds."""
    days, second_of_day = divmod(seconds, _SECONDS_A_DAY)
    clock = f"{second_of_day // 3600:02d}:{second_of_day // 60 % 60:02d}:{second_of_day % 60:02d}"
    return f"{date_text(*civil_from_days(days))}T{clock}.{nanos:09d}"


_READ: dict[int, Callable[[UnreadValue], tuple[str, int]]] = {
    op.TIMESTAMP: _timestamp,
    op.INSTANT: _instant,
    op.LOCAL_DATE: _local_date,
    op.LOCAL_DATE_TIME: _local_date_time,
    op.TIMESTAMP_DATA: _timestamp_data,
    op.SLOT_TIMESTAMP: _slot_timestamp,
}
