"""Rows → 128 bits each: rows with equal values have the same ones, others do not.

A hash has two lanes of 64 bits; a shape (rows, 2) of int64. Each lane mixes in the words of a value by the two halves of a
product, with secrets that this process draws at random: nobody can write a savepoint whose rows collide, and of 2^40 rows no two
do by chance, but for one time in 2^48. Values are equal as Java has them: floats by their bits, lists with their order, maps without
one.

| value | words |
|---|---|
| fixed width | its bits, narrower ones with zeros; an integer in 8 bytes |
| text, bytes | the length, then 8 bytes at a time |
| struct | the hashes of its fields |
| list | the number of elements, then their hashes |
| map | the number of entries, then the sum of their hashes |
| null | a constant |
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import load_le_i4, load_le_i8, load_u1, store_8
from readers.formats.rocksdb.sst.words import multiply_fold, wrapping_sum
from readers.jsontext import json_text

Hashes = NDArray[np.int64]

_SECRETS = np.frombuffer(secrets.token_bytes(32), dtype=np.int64)
_NULL = np.frombuffer(secrets.token_bytes(16), dtype=np.int64)
_LANES = 2


@subroutine
def _mix(state: int, word: int, secret: int, other: int) -> int:
    return multiply_fold(state ^ secret, wrapping_sum(word, other))


@subroutine
def _mix_into(hashes: int, row: int, word: int, key: int) -> None:
    """Mix a word into both lanes of the hash of a row."""
    at = row * 16
    store_8(hashes, at, _mix(load_le_i8(hashes, at), word, load_le_i8(key, 0), load_le_i8(key, 8)))
    store_8(hashes, at + 8, _mix(load_le_i8(hashes, at + 8), word, load_le_i8(key, 16), load_le_i8(key, 24)))


@kernel
def _mix_words(hashes: int, rows: int, words: int, width: int, key: int) -> None:
    """Mix `width` words of each row into its hash."""
    for row in range(rows):
        for index in range(width):
            _mix_into(hashes, row, load_le_i8(words, (row * width + index) * 8), key)


@kernel
def _mix_bytes(hashes: int, rows: int, offsets: int, data: int, key: int) -> None:
    """Mix a byte string of each row into its hash; `offsets` are int64."""
    for row in range(rows):
        position = load_le_i8(offsets, row * 8)
        end = load_le_i8(offsets, row * 8 + 8)
        _mix_into(hashes, row, end - position, key)
        while end - position >= 8:
            _mix_into(hashes, row, load_le_i8(data, position), key)
            position += 8
        if end - position >= 4:
            _mix_into(hashes, row, load_le_i4(data, position), key)
            position += 4
        if position < end:
            word = 0
            while position < end:
                word = word << 8 | load_u1(data, position)
                position += 1
            _mix_into(hashes, row, word, key)


@kernel
def _mix_elements(hashes: int, rows: int, offsets: int, elements: int, is_ordered: int, key: int) -> None:
    """Mix the hashes of the elements of each row into its hash; `offsets` are int64."""
    for row in range(rows):
        first = load_le_i8(offsets, row * 8)
        end = load_le_i8(offsets, row * 8 + 8)
        _mix_into(hashes, row, end - first, key)
        low = 0
        high = 0
        for element in range(first, end):
            if is_ordered:
                _mix_into(hashes, row, load_le_i8(elements, element * 16), key)
                _mix_into(hashes, row, load_le_i8(elements, element * 16 + 8), key)
            else:
                low = wrapping_sum(low, load_le_i8(elements, element * 16))
                high = wrapping_sum(high, load_le_i8(elements, element * 16 + 8))
        if not is_ordered:
            _mix_into(hashes, row, low, key)
            _mix_into(hashes, row, high, key)


def row_hashes(columns: Iterable[pa.Array], rows: int) -> Hashes:
    """Return the hashes of rows, an array of shape (rows, 2).

    Args:
        columns: of the rows, in an order that all rows to be compared share.
        rows: their number.
    """
    hashes = _empty(rows)
    for column in columns:
        _mix_words(hashes, rows, _hashes_of(column), _LANES, _SECRETS)
    return hashes


def combined_hashes(first: Hashes, second: Hashes) -> Hashes:
    """Return the hashes of rows of which some columns have these hashes, and the others those."""
    hashes = first.copy()
    _mix_words(hashes, len(hashes), second, _LANES, _SECRETS)
    return hashes


def _empty(rows: int) -> Hashes:
    return np.zeros((rows, _LANES), dtype=np.int64)


def _hashes_of(array: pa.Array) -> Hashes:
    """Return the hashes of the values of a column."""
    kind, rows = array.type, len(array)
    if rows == 0 or array.null_count == rows:
        return np.tile(_NULL, (rows, 1))
    hashes = _empty(rows)
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            _mix_words(hashes, rows, _hashes_of(array.field(index)), _LANES, _SECRETS)
    elif pa.types.is_map(kind):
        entries = row_hashes([array.keys, array.items], len(array.keys))
        _mix_elements(hashes, rows, _offsets(array.offsets), entries, 0, _SECRETS)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        _mix_elements(hashes, rows, _offsets(array.offsets), _hashes_of(array.values), 1, _SECRETS)
    elif (words := _words(array)) is not None:
        _mix_words(hashes, rows, words, words.shape[1], _SECRETS)
    else:
        _mix_texts(hashes, array)
    if array.null_count:
        hashes[np.asarray(array.is_null())] = _NULL
    return hashes


def _mix_texts(hashes: Hashes, array: pa.Array) -> None:
    """Mix texts or byte strings into hashes; values of other types as JSON text."""
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
        array = array.cast(pa.binary()) if _is_bytes(array.type) else json_text(array)
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    plain = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    _mix_bytes(hashes, len(array), bounds.astype(np.int64), plain, _SECRETS)


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (pa.types.is_fixed_size_binary, pa.types.is_large_binary, pa.types.is_large_string)
    )


def _offsets(offsets: pa.Array) -> NDArray[np.int64]:
    return np.asarray(offsets).astype(np.int64)


def _words(array: pa.Array) -> NDArray[np.int64] | None:
    """Return the bits of fixed-width values, shape (rows, words); None for other types."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array, kind = array.cast(pa.uint8()), pa.uint8()
    if not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind)):
        return None
    bits = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    width = kind.bit_width // 8
    plain = bits[array.offset * width : (array.offset + len(array)) * width]
    if width >= _WORD_BYTES:
        return np.ascontiguousarray(plain).view(np.int64).reshape(len(array), width // _WORD_BYTES)
    return plain.view(f"u{width}").astype(np.int64).reshape(len(array), 1)


_WORD_BYTES = 8
