"""Columns of text → dictionaries of their values, where values repeat.

An engine hashes, compares and copies each value of a dictionary once, and the rows of plain text one by one. A batch says by itself
which is better: one in which every text is new soon shows that, and stays as it is, behind numbers that count its rows.

The kernel has one record for each different text, of RECORD_WORDS int64: where the text begins, its length, its first eight bytes,
and the number of the text that followed it last. Days, states and names come in the same order again and again, so most rows
cost one comparison with the text that followed before, and no hash.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import load_le_i4, load_le_i8, load_u1, same_bytes, store_4, store_8

_TYPE = pa.dictionary(pa.int32(), pa.string())
# A lookup returns a row or two: to look for repeated values would cost more than it saves.
_LEAST_ROWS = 256
# Measured with DuckDB: the gain falls from 20 ns a row with few values to 12 with a thousand, and to nothing with some thousands.
_MOST_TEXTS = 1024
# Texts that may be new: so many at first, and one of eight rows.
_NEW_TEXTS = 32
_ROWS_A_NEW_TEXT_BITS = 3
_SLOT_BITS = 12
_SLOTS = 1 << _SLOT_BITS
# Texts of which all have one hash must not make each row search all of them.
_MOST_PROBES = 32
_MULTIPLIER = -0x61C8864680B583EB  # 2^64 divided by the golden ratio
_COUNTED = 1 << 16
_TOO_MANY = -1

_START = 0
_LENGTH = 1
_WORD = 2
_FOLLOWING = 3
_RECORD_WORDS = 4


def dictionary_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the result of `with_dictionaries`: texts are dictionaries."""
    return pa.schema(
        [field.with_type(_TYPE) if pa.types.is_string(field.type) else field for field in schema],
        schema.metadata,
    )


def with_dictionaries(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the same rows as DuckDB takes them: with dictionaries in place of texts; nested texts stay as they are.

    Args:
        batch: the rows.
        schema: the `dictionary_schema` of theirs.
    """
    arrays = [
        _dictionary(array) if pa.types.is_string(array.type) else _whole(array) for array in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch


def _whole(array: pa.Array) -> pa.Array:
    """Return structs that are no part of more structs, which DuckDB refuses; other values as they are."""
    is_part = array.offset and pa.types.is_struct(array.type)
    return array.take(pa.array(np.arange(len(array)))) if is_part else array


def _dictionary(array: pa.StringArray) -> pa.DictionaryArray:
    """Return texts as a dictionary: of the different ones, or of all rows. A null is none of its values."""
    validity, offsets, data = array.buffers()
    if not array.null_count:
        validity = None
    rows, offset = len(array), array.offset
    # Rows that are null have texts, too, mostly empty ones.
    texts = pa.Array.from_buffers(_TYPE.value_type, rows, [None, offsets, data], 0, offset)
    # The bits of `validity` begin at a whole byte.
    skipped = offset % 8 if validity is not None else 0
    if validity is not None:
        validity = validity.slice(offset // 8)
    numbers: NDArray[np.int32] | None = None
    if rows >= _LEAST_ROWS:
        numbers = np.empty(skipped + rows, dtype=np.int32)
        numbers[:skipped] = 0
        firsts = _numbered(offsets, offset, data, numbers[skipped:])
        if firsts is None:
            numbers = None
        else:
            texts = texts.take(pa.array(firsts))
    if numbers is None:
        numbers = _counted(rows) if not skipped else np.arange(-skipped, rows, dtype=np.int32)
    indices = pa.Array.from_buffers(
        pa.int32(), rows, [validity, pa.py_buffer(numbers)], array.null_count, skipped
    )
    return pa.DictionaryArray.from_arrays(indices, texts, safe=False)


def _counted(rows: int) -> NDArray[np.int32]:
    """Return the numbers 0, 1, … of so many rows."""
    return _COUNTING[:rows] if rows <= _COUNTED else np.arange(rows, dtype=np.int32)


def _numbered(
    offsets: pa.Buffer, offset: int, data: pa.Buffer | None, numbers: NDArray[np.int32]
) -> NDArray[np.int32] | None:
    """Number the texts in the order in which they are first found, and fill `numbers` with that of each row.

    Args:
        offsets, data: buffers of the column.
        offset: of the first row.
        numbers: int32 (rows,).

    Returns:
        The first row of each text; None if too few texts repeat, and the numbers mean nothing.
    """
    firsts: NDArray[np.int32] = np.empty(_MOST_TEXTS, dtype=np.int32)
    records: NDArray[np.int64] = np.empty((_MOST_TEXTS, _RECORD_WORDS), dtype=np.int64)
    slots: NDArray[np.int32] = np.zeros(_SLOTS, dtype=np.int32)
    address, size = (data.address, data.size) if data is not None else (0, 0)
    known = number_texts(
        offsets.address + 4 * offset, address, size, len(numbers), numbers, firsts, records, slots
    )
    return None if known == _TOO_MANY else firsts[:known]


@kernel
def number_texts(
    offsets: int, data: int, size: int, rows: int, numbers: int, firsts: int, records: int, slots: int
) -> int:
    """Number texts; for the arguments see `_numbered`.

    Args:
        offsets: int32 (rows + 1,); data: uint8 (size,).
        rows: at least one.
        numbers: int32 (rows,); firsts: int32 (_MOST_TEXTS,).
        records: int64 (_MOST_TEXTS, _RECORD_WORDS).
        slots: int32 (_SLOTS,) of zeros: a number and one more.

    Returns:
        How many different texts there are, or _TOO_MANY.
    """
    known = 0
    last = 0
    start = load_le_i4(offsets, 0)
    for row in range(rows):
        end = load_le_i4(offsets, row * 4 + 4)
        length = end - start
        word = _first_word(data, start, length, size)
        number = np.int64(0)
        if known > 0:
            number = _record(records, last, _FOLLOWING)
        if known == 0 or not _is_text(records, number, data, start, length, word):
            slot = _slot_of(data, start, length, word, size)
            number = np.int64(_TOO_MANY)
            for _ in range(_MOST_PROBES):
                number = load_le_i4(slots, slot * 4) - 1
                if number < 0 or _is_text(records, number, data, start, length, word):
                    break
                slot = (slot + 1) & (_SLOTS - 1)
                number = np.int64(_MOST_TEXTS)
            if number < 0:
                number = known
                if number >= _NEW_TEXTS + (row >> _ROWS_A_NEW_TEXT_BITS):
                    number = np.int64(_MOST_TEXTS)
                if number < _MOST_TEXTS:
                    known += 1
                    store_4(slots, slot * 4, known)
                    store_4(firsts, number * 4, row)
                    _set_record(records, number, _START, start)
                    _set_record(records, number, _LENGTH, length)
                    _set_record(records, number, _WORD, word)
                    _set_record(records, number, _FOLLOWING, number)
            if number >= _MOST_TEXTS:
                return _TOO_MANY
            _set_record(records, last, _FOLLOWING, number)
        store_4(numbers, row * 4, number)
        last = number
        start = end
    return known


@subroutine
def _record(records: int, number: int, index: int) -> int:
    """Return a word of the record of a text."""
    return load_le_i8(records, (number * _RECORD_WORDS + index) * 8)


@subroutine
def _set_record(records: int, number: int, index: int, value: int) -> None:
    """Set a word of the record of a text."""
    store_8(records, (number * _RECORD_WORDS + index) * 8, value)


@subroutine
def _first_word(data: int, start: int, length: int, size: int) -> int:
    """Return up to eight bytes of a text as one number."""
    if start + 8 <= size:
        word = load_le_i8(data, start)
        return word if length >= 8 else word & ((np.int64(1) << (8 * length)) - 1)
    word = np.int64(0)
    for index in range(min(length, 8)):
        word |= load_u1(data, start + index) << (8 * index)
    return word


@subroutine
def _is_text(records: int, number: int, data: int, start: int, length: int, word: int) -> bool:
    """Return whether a text is the one of a record."""
    if _record(records, number, _WORD) != word or _record(records, number, _LENGTH) != length:
        return False
    other = _record(records, number, _START)
    is_alike: bool = same_bytes(data + start + 8, data + other + 8, length - 8)
    return is_alike


@subroutine
def _slot_of(data: int, start: int, length: int, word: int, size: int) -> int:
    """Return the slot at which the search for a text begins."""
    code = (word ^ length) * _MULTIPLIER
    index = 8
    while index < length:
        code = (code ^ (code >> 29) ^ _first_word(data, start + index, length - index, size)) * _MULTIPLIER
        index += 8
    return (code ^ (code >> 32)) >> 20 & (_SLOTS - 1)


_COUNTING: NDArray[np.int32] = np.arange(_COUNTED, dtype=np.int32)
