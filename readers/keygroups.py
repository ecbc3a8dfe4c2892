"""The key group of a key, and the id of an operator: Java's `hashCode`, Flink's and Guava's murmur hashes.

Flink: KeyGroupRangeAssignment, MathUtils#murmurHash, StreamGraphHasherV2 (unchanged since 1.2.1).
Hashes are int32; arithmetic wraps at 32 bits, as in Java.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation

_MOST_DIGITS = 4000
_M32 = 0xFFFFFFFF
_M64 = (1 << 64) - 1
MAX_ONE_BYTE_KEY_GROUPS = 128


def key_group_of(hash_code: int, max_parallelism: int) -> int:
    """Return the key group of a key: `KeyGroupRangeAssignment#computeKeyGroupForKeyHash`."""
    return murmur_hash(hash_code) % max_parallelism


def key_groups_of_subtask(subtask: int, parallelism: int, max_parallelism: int) -> tuple[int, int]:
    """Return the first and the last key group of a subtask: `KeyGroupRangeAssignment#computeKeyGroupRangeForOperatorIndex`."""
    first = (subtask * max_parallelism + parallelism - 1) // parallelism
    return first, ((subtask + 1) * max_parallelism - 1) // parallelism


def key_group_bytes(max_parallelism: int) -> int:
    """Return the length of the key-group prefix of a composite key: 1 up to 128 key groups, else 2."""
    return 1 if max_parallelism <= MAX_ONE_BYTE_KEY_GROUPS else 2


def key_group_chunks(
    sizes: Iterable[tuple[int, int]], most_bytes: int
) -> Iterator[tuple[frozenset[int], int]]:
    """Yield key groups, so many together as have at most `most_bytes`, and their bytes.

    Args:
        sizes: key groups and their bytes, in order.
        most_bytes: bytes of a chunk; a key group that has more is a chunk of its own.
    """
    chosen: list[int] = []
    size_bytes = 0
    for group, size in sizes:
        if chosen and size_bytes + size > most_bytes:
            yield frozenset(chosen), size_bytes
            chosen, size_bytes = [], 0
        chosen.append(group)
        size_bytes += size
    if chosen:
        yield frozenset(chosen), size_bytes


def murmur_hash(code: int) -> int:
    """Return `MathUtils#murmurHash` of an int32; not negative."""
    word = code * 0xCC9E2D51 & _M32
    word = _rotate(word, 15) * 0x1B873593 & _M32
    word = (_rotate(word, 13) * 5 + 0xE6546B64) & _M32
    mixed = _int32(_finish(word ^ 4))
    if mixed >= 0:
        return mixed
    # Java has no positive counterpart of the smallest int.
    return -mixed if mixed != -(1 << 31) else 0


def hash_string(text: str) -> int:
    """Return `String#hashCode`: over UTF-16 units."""
    raw = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in struct.unpack(f">{len(raw) // 2}H", raw):
        code = (31 * code + unit) & _M32
    return _int32(code)


def hash_long(value: int) -> int:
    """Return `Long#hashCode`."""
    value &= _M64
    return _int32(value ^ value >> 32)


def hash_bool(value: bool) -> int:
    """Return `Boolean#hashCode`."""
    return 1231 if value else 1237


def hash_double(value: float) -> int:
    """Return `Double#hashCode`: every NaN is one."""
    return hash_long(
        0x7FF8000000000000 if value != value else struct.unpack(">Q", struct.pack(">d", value))[0]
    )


def hash_float(value: float) -> int:
    """Return `Float#hashCode`."""
    return 0x7FC00000 if value != value else int(struct.unpack(">i", struct.pack(">f", value))[0])


def hash_big_integer(value: int) -> int:
    """Return `BigInteger#hashCode`: the magnitude's 32-bit words, times the sign."""
    magnitude = abs(value)
    code = 0
    for shift in range((magnitude.bit_length() + 31) // 32 - 1, -1, -1):
        code = (31 * code + (magnitude >> 32 * shift & _M32)) & _M32
    return _int32(code if value >= 0 else -code)


def hash_big_decimal(text: str) -> int | None:
    """Return `BigDecimal#hashCode` of a plain decimal text; None where the text is no such number.

    The scale is that of the text: 1.1 and 1.10 hash differently, as in Java.
    """
    try:
        sign, digits, exponent = Decimal(text).as_tuple()
    except InvalidOperation:
        return None
    # Python refuses to make integers of more digits.
    if not isinstance(exponent, int) or exponent > 0 or len(digits) > _MOST_DIGITS:
        return None
    unscaled = int("".join(map(str, digits)))
    signed = -unscaled if sign else unscaled
    if abs(unscaled) < 1 << 63:
        mixed = _int32((unscaled >> 32) * 31 + (unscaled & _M32))
        return _int32(31 * (-mixed if sign else mixed) - exponent)
    return _int32(31 * hash_big_integer(signed) - exponent)


def hash_sequence(codes: Iterable[int], seed: int = 1) -> int:
    """Return `List#hashCode`, `Arrays#hashCode`."""
    code = seed
    for element in codes:
        code = (31 * code + element) & _M32
    return _int32(code)


def hash_tuple(codes: list[int]) -> int:
    """Return `Tuple1…25#hashCode`: the first field's, then 31 · code + field's; null is 0."""
    return hash_sequence(codes[1:], codes[0]) if codes else 0


def hash_row(codes: list[int | None], kind: int = 0) -> int:
    """Return `org.apache.flink.types.Row#hashCode` of a positional row; None is a null field."""
    deep = hash_sequence(0 if code is None else _int32(31 + code) for code in codes)
    return _int32(31 * kind + deep)


def hash_local_date(year: int, month: int, day: int) -> int:
    """Return `LocalDate#hashCode`."""
    return _int32((year & 0xFFFFF800) ^ ((year << 11) + (month << 6) + day))


def hash_instant(seconds: int, nanos: int) -> int:
    """Return `Instant#hashCode`."""
    return _int32(hash_long(seconds) + 51 * nanos)


def hash_binary_row(data: bytes) -> int:
    """Return `BinaryRowData#hashCode`: murmur over little-endian words; `data` is a multiple of four bytes."""
    code = 42  # the seed of `MurmurHashUtil`
    for (word,) in struct.iter_unpack("<I", data):
        word = _rotate(word * 0xCC9E2D51 & _M32, 15) * 0x1B873593 & _M32
        code = (_rotate(code ^ word, 13) * 5 + 0xE6546B64) & _M32
    return _int32(_finish(code ^ len(data)))


def operator_id_of(uid: str) -> str:
    """Return the operator id (32 hex) that Flink derives from a uid: Guava's murmur3_128 of its UTF-8 bytes, seed 0."""
    return _murmur3_128(uid.encode("utf-8", "surrogatepass")).hex()


def _int32(value: int) -> int:
    value &= _M32
    return value - (1 << 32) if value & 0x80000000 else value


def _rotate(value: int, bits: int) -> int:
    value &= _M32
    return ((value << bits) | (value >> (32 - bits))) & _M32


def _finish(code: int) -> int:
    code &= _M32
    code ^= code >> 16
    code = code * 0x85EBCA6B & _M32
    code ^= code >> 13
    code = code * 0xC2B2AE35 & _M32
    return code ^ code >> 16


def _murmur3_128(data: bytes) -> bytes:
    first = second = 0
    mix_a, mix_b = 0x87C37B91114253D5, 0x4CF5AD432745937F

    def rotate(value: int, bits: int) -> int:
        return (value << bits | value >> 64 - bits) & _M64

    def scramble_a(word: int) -> int:
        return rotate(word * mix_a & _M64, 31) * mix_b & _M64

    def scramble_b(word: int) -> int:
        return rotate(word * mix_b & _M64, 33) * mix_a & _M64

    def finish(word: int) -> int:
        word ^= word >> 33
        word = word * 0xFF51AFD7ED558CCD & _M64
        word ^= word >> 33
        word = word * 0xC4CEB9FE1A85EC53 & _M64
        return word ^ word >> 33

    whole = len(data) // 16
    for index in range(whole):
        low, high = struct.unpack_from("<QQ", data, 16 * index)
        first ^= scramble_a(low)
        first = ((rotate(first, 27) + second) * 5 + 0x52DCE729) & _M64
        second ^= scramble_b(high)
        second = ((rotate(second, 31) + first) * 5 + 0x38495AB5) & _M64
    # The rest of the bytes, as if zeros followed.
    tail = data[16 * whole :]
    if tail:
        first ^= scramble_a(int.from_bytes(tail[:8], "little"))
        if len(tail) > 8:
            second ^= scramble_b(int.from_bytes(tail[8:], "little"))
    first ^= len(data)
    second ^= len(data)
    first = (first + second) & _M64
    second = (second + first) & _M64
    first, second = finish(first), finish(second)
    first = (first + second) & _M64
    second = (second + first) & _M64
    return struct.pack("<QQ", first, second)
