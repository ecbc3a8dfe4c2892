"""Columns of keys → Java's hash codes → key groups, for whole columns at once.

Flink looks for a key in the key group of its hash code and nowhere else, and checks nothing: a key in another group would be restored,
listed, and never found. So where the hash is not known the key is refused. `readers/keygroups.py` has the same functions for one
value; `Serializer.hash_code` is asked for the types that are not in the table here, once for each distinct key.

Codes are uint32 here, whose arithmetic wraps as that of Java's int does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers import Serializer
from writers.encode.encoder import Encoder
from writers.encode.fitting import fitted, identities, shown
from writers.errors import RefusedEditError

_SLICE_ROWS = 1 << 16
_WORD_BYTES = 4
_NANOSECONDS = 1_000_000_000
_ROW_SEED = 42  # of `MurmurHashUtil`

_Codes = NDArray[np.uint32]


def key_groups_of(serializer: Serializer, keys: pa.Array, max_parallelism: int) -> NDArray[np.int32]:
    """Return the key group of each key, int32 (rows,).

    Args:
        serializer: of the keys.
        keys: of any type whose values fit.
        max_parallelism: the number of key groups.

    Raises:
        RefusedEditError: a key is NULL, or its hash code is not known.
        UnencodableValueError, UnencodableTypeError: it is none of the serializer's values.
    """
    mixed = _murmur(hash_codes(serializer, keys).view(np.uint32)).view(np.int32)
    # Java has no positive counterpart of the smallest int: Flink takes 0.
    positive = np.where(mixed == np.iinfo(np.int32).min, 0, np.abs(mixed))
    groups: NDArray[np.int32] = positive.astype(np.int32) % np.int32(max_parallelism)
    return groups


def hash_codes(serializer: Serializer, keys: pa.Array) -> NDArray[np.int32]:
    """Return Java's `hashCode` of each key, int32 (rows,).

    Raises:
        RefusedEditError: a key is NULL, or its hash code is not known.
        UnencodableValueError, UnencodableTypeError: it is none of the serializer's values.
    """
    keys = fitted(keys, serializer.arrow(), ("key",))
    if keys.null_count:
        raise _Unknown(int(np.flatnonzero(np.asarray(keys.is_null()))[0]), "NULL").error(serializer)
    codes: _Codes = np.empty(len(keys), dtype=np.uint32)
    for first in range(0, len(keys), _SLICE_ROWS):
        some = keys.slice(first, _SLICE_ROWS)
        try:
            codes[first : first + len(some)] = _codes(serializer, some)
        except _Unknown as unknown:
            raise _Unknown(first + unknown.row, unknown.value).error(serializer) from unknown
    return codes.view(np.int32)


class _Unknown(Exception):
    """The hash code of a value is not known."""

    def __init__(self, row: int, value: str) -> None:
        self.row = row
        self.value = value
        super().__init__(value)

    def error(self, serializer: Serializer) -> RefusedEditError:
        return RefusedEditError(
            f"expected a key of type {serializer.type_name} whose hash code in Java is known, as it decides where Flink looks for "
            f"the key; found {self.value}",
            breadcrumbs=("key",),
            row=self.row,
        )


def _codes(serializer: Serializer, array: pa.Array) -> _Codes:
    """Return the codes of values; those of nulls may be any."""
    return _HASHES.get(serializer.java_class, _listed)(serializer, array)


def _integers(_: Serializer, array: pa.Array) -> _Codes:
    numbers = np.asarray(array.fill_null(0)).astype(np.int32)
    return numbers.view(np.uint32)


def _longs(_: Serializer, array: pa.Array) -> _Codes:
    return _of_longs(np.asarray(array.fill_null(0)))


def _millis(_: Serializer, array: pa.Array) -> _Codes:
    return _of_longs(np.asarray(array.cast(pa.int64()).fill_null(0)))


def _instants(_: Serializer, array: pa.Array) -> _Codes:
    """Return `Instant#hashCode`: of the seconds, and 51 times the nanoseconds."""
    numbers: NDArray[np.int64] = np.asarray(array.cast(pa.int64()).fill_null(0))
    seconds: NDArray[np.int64] = numbers // _NANOSECONDS
    nanoseconds: _Codes = (numbers - seconds * _NANOSECONDS).astype(np.uint32)
    codes: _Codes = _of_longs(seconds) + nanoseconds * np.uint32(51)
    return codes


def _of_longs(numbers: NDArray[np.int64]) -> _Codes:
    words = numbers.view(np.uint64)
    return (words ^ words >> np.uint64(32)).astype(np.uint32)


def _booleans(_: Serializer, array: pa.Array) -> _Codes:
    return np.where(np.asarray(array.fill_null(False)), 1231, 1237).astype(np.uint32)


def _doubles(_: Serializer, array: pa.Array) -> _Codes:
    numbers = np.array(array.fill_null(0.0))
    numbers[np.isnan(numbers)] = np.nan
    return _of_longs(numbers.view(np.int64))


def _floats(_: Serializer, array: pa.Array) -> _Codes:
    numbers = np.array(array.fill_null(0.0))
    numbers[np.isnan(numbers)] = np.nan
    return numbers.view(np.uint32)


def _strings(_: Serializer, array: pa.Array) -> _Codes:
    """Return `String#hashCode`: the sum of each UTF-16 unit times 31 to the power of the units behind it."""
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    first, end = int(offsets[0]), int(offsets[-1])
    data = bytes(array.buffers()[2][first:end]) if end > first else b""
    units = np.frombuffer(
        data.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass"), dtype="<u2"
    )
    bounds = (offsets - first).astype(np.int64)
    if len(units) != len(data):
        # A byte that begins a character stands for its units: two from four bytes on.
        lead = np.frombuffer(data, dtype=np.uint8)
        counts = np.where(lead >= 0xF0, 2, (lead & 0xC0) != 0x80)
        bounds = np.concatenate([[0], np.cumsum(counts)])[bounds]
    lengths = np.diff(bounds)
    powers = np.cumprod(np.append(1, np.full(int(lengths.max(initial=0)), 31)), dtype=np.uint32)
    behind = np.repeat(bounds[1:], lengths) - np.arange(len(units)) - 1
    sums = np.append(0, np.cumsum(units.astype(np.uint32) * powers[behind], dtype=np.uint32)).astype(
        np.uint32
    )
    return sums[bounds[1:]] - sums[bounds[:-1]]


def _tuples(serializer: Serializer, array: pa.Array) -> _Codes:
    """Return `Tuple1…25#hashCode`; a null field is 0."""
    codes: _Codes = np.zeros(len(array), dtype=np.uint32)
    for number, (_, field) in enumerate(serializer.children):
        values = array.field(number)
        found = np.where(np.asarray(values.is_null()), np.uint32(0), _codes(field, values))
        codes = codes * np.uint32(31) + found if number else found
    return codes


def _binary_rows(serializer: Serializer, array: pa.Array) -> _Codes:
    """Return `BinaryRowData#hashCode`: over the bytes of the row, behind its size."""
    _check_rows(serializer, array)
    encoded = Encoder.of(serializer).encode(pa.RecordBatch.from_arrays([array], ["value"]))
    words = np.frombuffer(encoded.data.tobytes(), dtype="<u4").astype(np.uint32)
    starts = encoded.offsets[:-1] // _WORD_BYTES + 1
    lengths = encoded.offsets[1:] // _WORD_BYTES - starts
    codes: _Codes = np.full(len(array), _ROW_SEED, dtype=np.uint32)
    for number in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > number)
        codes[rows] = _stirred(codes[rows], words[starts[rows] + number])
    return _finished(codes ^ (lengths * _WORD_BYTES).astype(np.uint32))


def _check_rows(serializer: Serializer, array: pa.Array) -> None:
    """Check that the bytes of the rows are the only ones: one row of each pattern of nulls is asked for.

    Raises:
        _Unknown: another writer of Flink would write other bytes.
    """
    nulls = identities([field.is_null() for field in array.flatten()])
    for row in np.unique(nulls, return_index=True)[1].tolist():
        code = _code(serializer, array, row)
        if code is None:
            raise _Unknown(row, shown(array[row]))


def _listed(serializer: Serializer, array: pa.Array) -> _Codes:
    """Return the codes of values of any other type: each distinct value is asked for."""
    numbers = identities([array])
    firsts = np.unique(numbers, return_index=True)[1]
    codes: _Codes = np.zeros(len(firsts), dtype=np.uint32)
    for number, row in enumerate(firsts.tolist()):
        code = _code(serializer, array, row)
        if code is None:
            raise _Unknown(row, shown(array[row]))
        codes[number] = code & 0xFFFFFFFF
    return codes[numbers]


def _code(serializer: Serializer, array: pa.Array, row: int) -> int | None:
    """Return the hash code of a value; None if it is not known, as of a time that Python has no date for."""
    try:
        value = array[row].as_py()
    except (ValueError, OverflowError):
        return None
    return 0 if value is None else serializer.hash_code(value)


def _murmur(codes: _Codes) -> _Codes:
    """Return `MathUtils#murmurHash`, before it is made positive."""
    return _finished(_stirred(np.zeros(len(codes), dtype=np.uint32), codes) ^ np.uint32(_WORD_BYTES))


def _stirred(codes: _Codes, words: _Codes) -> _Codes:
    words = _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(codes ^ words, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _rotated(words: _Codes, bits: int) -> _Codes:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)


def _finished(codes: _Codes) -> _Codes:
    codes = codes ^ codes >> np.uint32(16)
    codes = codes * np.uint32(0x85EBCA6B)
    codes = codes ^ codes >> np.uint32(13)
    codes = codes * np.uint32(0xC2B2AE35)
    return codes ^ codes >> np.uint32(16)


_BASE = "org.apache.flink.api.common.typeutils.base."

_HASHES: dict[str, Callable[[Serializer, pa.Array], _Codes]] = {
    f"{_BASE}BooleanSerializer": _booleans,
    f"{_BASE}ByteSerializer": _integers,
    f"{_BASE}ShortSerializer": _integers,
    f"{_BASE}IntSerializer": _integers,
    f"{_BASE}LongSerializer": _longs,
    f"{_BASE}FloatSerializer": _floats,
    f"{_BASE}DoubleSerializer": _doubles,
    f"{_BASE}StringSerializer": _strings,
    f"{_BASE}DateSerializer": _millis,
    f"{_BASE}SqlDateSerializer": _millis,
    f"{_BASE}SqlTimeSerializer": _millis,
    f"{_BASE}InstantSerializer": _instants,
    "org.apache.flink.api.java.typeutils.runtime.TupleSerializer": _tuples,
    "org.apache.flink.table.runtime.typeutils.RowDataSerializer": _binary_rows,
}
