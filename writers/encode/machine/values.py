"""Values of columns → bytes, for which the caller has asked for room.

| value | bytes |
|---|---|
| text, UTF-8 | varint UTF-16, modified UTF-8, UTF-8 |
| number, 128 bits or decimal text | two's complement of as few bytes as hold it, big endian |
| days, nanoseconds since the epoch | calendars: year, month, day; milliseconds and nanoseconds |

Flink: StringValue#writeString, BigIntSerializer#writeBigInteger, BigInteger#toByteArray.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from readers import (
    Intrinsic,
    load_le_i8,
    load_u1,
    stack_memory,
    store_1,
    store_8,
    store_be_2,
    store_be_4,
    subroutine,
)

_HIGH_BITS = np.int64(-0x7F7F7F7F7F7F7F80)  # 0x80 in each of eight bytes
_LONG_TEXT = 32
MAX_UTF_BYTES = 65_535  # the length of `writeUTF` is a u2


@subroutine
def copy_bytes(output: int, position: int, data: int, start: int, end: int, data_end: int) -> None:
    """Copy bytes; up to seven bytes behind them are overwritten."""
    if end - start >= _LONG_TEXT:
        # LLVM makes vectors of it, which take some time to begin.
        for index in range(end - start):
            store_1(output, position + index, load_u1(data, start + index))
        return
    while start < end:
        if start + 8 <= data_end:
            store_8(output, position, load_le_i8(data, start))
            start += 8
            position += 8
        else:
            store_1(output, position, load_u1(data, start))
            start += 1
            position += 1


@subroutine
def is_ascii(data: int, start: int, end: int, data_end: int) -> bool:
    """Return whether all bytes are less than 0x80."""
    seen = np.int64(0)
    while start < end:
        if start + 8 <= data_end:
            word = load_le_i8(data, start)
            if end - start < 8:
                word &= (np.int64(1) << (8 * (end - start))) - 1
            seen |= word
            start += 8
        else:
            seen |= load_u1(data, start)
            start += 1
    return seen & _HIGH_BITS == 0


@subroutine
def put_varint(output: int, position: int, value: int) -> int:
    """Write an unsigned LEB128; return the position behind it."""
    while value >= 0x80:
        store_1(output, position, value & 0x7F | 0x80)
        value >>= 7
        position += 1
    store_1(output, position, value)
    return position + 1


@subroutine
def code_point(data: int, start: int, end: int) -> tuple[int, int]:
    """Return the code point at `start` and the position behind it, -1 if the bytes are no UTF-8."""
    lead = load_u1(data, start)
    start += 1
    if lead < 0x80:
        return lead, start
    if lead < 0xC2 or lead > 0xF4:
        return 0, -1
    more = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
    if start + more > end:
        return 0, -1
    code = lead & (0x3F >> more)
    for index in range(more):
        byte = load_u1(data, start + index)
        if byte & 0xC0 != 0x80:
            return 0, -1
        code = code << 6 | byte & 0x3F
    if code > 0x10FFFF or (more == 2 and (code < 0x800 or 0xD800 <= code < 0xE000)):
        return 0, -1
    if more == 3 and code < 0x10000:
        return 0, -1
    return code, start + more


@subroutine
def count_units(data: int, start: int, end: int) -> int:
    """Return the UTF-16 units of UTF-8 text; -1 if the bytes are none."""
    units = np.int64(0)
    while start < end:
        code, start = code_point(data, start, end)
        if start < 0:
            return -1
        units += 2 if code > 0xFFFF else 1
    return units


@subroutine
def put_string(
    output: int, position: int, data: int, start: int, end: int, data_end: int, nullable: int
) -> int:
    """Write a string of `StringValue`; return the position behind it, -1 if the bytes are no UTF-8."""
    if is_ascii(data, start, end, data_end):
        position = put_varint(output, position, end - start + nullable)
        copy_bytes(output, position, data, start, end, data_end)
        return position + end - start
    units = count_units(data, start, end)
    if units < 0:
        return -1
    position = put_varint(output, position, units + nullable)
    while start < end:
        code, start = code_point(data, start, end)
        if code > 0xFFFF:
            code -= 0x10000
            position = put_varint(output, position, 0xD800 + (code >> 10))
            code = 0xDC00 + (code & 0x3FF)
        position = put_varint(output, position, code)
    return position


@subroutine
def _put_modified_unit(output: int, position: int, unit: int) -> int:
    """Write a UTF-16 unit as modified UTF-8; return the position behind it."""
    if 0 < unit < 0x80:
        store_1(output, position, unit)
        return position + 1
    if unit < 0x800:
        store_1(output, position, 0xC0 | unit >> 6)
        store_1(output, position + 1, 0x80 | unit & 0x3F)
        return position + 2
    store_1(output, position, 0xE0 | unit >> 12)
    store_1(output, position + 1, 0x80 | unit >> 6 & 0x3F)
    store_1(output, position + 2, 0x80 | unit & 0x3F)
    return position + 3


@subroutine
def put_utf(output: int, position: int, data: int, start: int, end: int) -> int:
    """Write a string of `DataOutput#writeUTF`; return the position behind it.

    Returns:
        -1 if the bytes are no UTF-8, -2 if the string is too long.
    """
    begin = position
    position += 2
    while start < end:
        code, start = code_point(data, start, end)
        if start < 0:
            return -1
        if code > 0xFFFF:
            code -= 0x10000
            position = _put_modified_unit(output, position, 0xD800 + (code >> 10))
            code = 0xDC00 + (code & 0x3FF)
        position = _put_modified_unit(output, position, code)
    if position - begin - 2 > MAX_UTF_BYTES:
        return -2
    store_be_2(output, begin, position - begin - 2)
    return position


@subroutine
def put_char(output: int, position: int, data: int, start: int, end: int) -> int:
    """Write the only UTF-16 unit of a text; return 0, or -1 if the text is of another length or no UTF-8."""
    if start >= end:
        return -1
    code, start = code_point(data, start, end)
    if start != end or code > 0xFFFF:
        return -1
    store_be_2(output, position, code)
    return 0


_MAX_I4 = 2**31 - 1
# The decoding machine shows no longer numbers.
MAX_BIG_INTEGER_BYTES = 4096
_LIMBS = MAX_BIG_INTEGER_BYTES // 4
_LIMB_BITS = 32
_CHUNK_DIGITS = 9
_PLUS, _MINUS, _POINT, _ZERO, _NINE, _E, _LITTLE_E = b"+-.09Ee"
_limbs_memory = stack_memory((_LIMBS + 1) * 8)


@subroutine
def bytes_of_128(high: int, low: int) -> int:
    """Return how many bytes of two's complement a 128-bit number needs, at least 1."""
    word = low
    size = 8
    # Eight bytes do unless the high word holds more than the sign of the low one.
    if high != low >> 63:
        word = high
        size = 16
    least = size - 8
    sign = word >> 63
    while size - least > 1 and word >> ((size - least) * 8 - 9) == sign:
        size -= 1
    # A number of more than 64 bits may need its ninth byte for the sign only.
    return size


@subroutine
def put_128(output: int, position: int, high: int, low: int, count: int) -> None:
    """Write the `count` (1 to 16, or more with sign bytes in front) lowest bytes of a 128-bit number."""
    for index in range(count):
        shift = (count - 1 - index) * 8
        if shift >= 128:
            byte = high >> 63
        elif shift >= 64:
            byte = high >> (shift - 64)
        else:
            byte = low >> shift
        store_1(output, position + index, byte & 0xFF)


@subroutine
def put_decimal_text(output: int, position: int, data: int, start: int, end: int, with_scale: int) -> int:
    """Write a number of `BigIntSerializer`, or with its scale of `BigDecSerializer`; return the position behind it.

    Returns:
        -1 if the text is no number, -2 if the number is too long.
    """
    negative = False
    if start < end and (load_u1(data, start) == _MINUS or load_u1(data, start) == _PLUS):
        negative = load_u1(data, start) == _MINUS
        start += 1
    limbs = _limbs_memory()
    store_8(limbs, 0, 0)
    used = 1
    digits = np.int64(0)
    fraction = np.int64(0)
    behind_point = False
    chunk = np.int64(0)
    chunk_digits = 0
    chunk_power = np.int64(1)
    while start < end:
        byte = load_u1(data, start)
        if byte == _POINT and with_scale and not behind_point:
            behind_point = True
        elif byte >= _ZERO and byte <= _NINE:
            digits += 1
            if behind_point:
                fraction += 1
            chunk = chunk * 10 + (byte - _ZERO)
            chunk_power *= 10
            chunk_digits += 1
            if chunk_digits == _CHUNK_DIGITS:
                used = _multiply_add(limbs, used, chunk_power, chunk)
                if used > _LIMBS:
                    return -2
                chunk = np.int64(0)
                chunk_digits = 0
                chunk_power = np.int64(1)
        else:
            break
        start += 1
    if digits == 0:
        return -1
    used = _multiply_add(limbs, used, chunk_power, chunk)
    if used > _LIMBS:
        return -2
    exponent = np.int64(0)
    if start < end:
        if not with_scale or (load_u1(data, start) != _E and load_u1(data, start) != _LITTLE_E):
            return -1
        start += 1
        sign = np.int64(1)
        if start < end and (load_u1(data, start) == _MINUS or load_u1(data, start) == _PLUS):
            sign = np.int64(-1) if load_u1(data, start) == _MINUS else np.int64(1)
            start += 1
        if start >= end or end - start > 10:
            return -1
        while start < end:
            byte = load_u1(data, start)
            if byte < _ZERO or byte > _NINE:
                return -1
            exponent = exponent * 10 + (byte - _ZERO)
            start += 1
        exponent *= sign
    scale = fraction - exponent
    if scale > _MAX_I4 or scale < -_MAX_I4 - 1:
        return -2
    position = _put_limbs(output, position, limbs, used, negative)
    if with_scale:
        store_be_4(output, position, scale)
        position += 4
    return position


@subroutine
def _multiply_add(limbs: int, used: int, factor: int, addend: int) -> int:
    """Multiply a number of 32-bit limbs, and add to it; return the number of limbs in use."""
    carry = addend
    for limb in range(used):
        carry += load_le_i8(limbs, limb * 8) * factor
        store_8(limbs, limb * 8, carry & 0xFFFFFFFF)
        carry = carry >> _LIMB_BITS
    if carry:
        store_8(limbs, used * 8, carry)
        used += 1
    return used


@subroutine
def _put_limbs(output: int, position: int, limbs: int, used: int, negative: bool) -> int:
    """Write a number as `writeBigInteger`; return the position behind it."""
    while used > 1 and load_le_i8(limbs, (used - 1) * 8) == 0:
        used -= 1
    lowest = load_le_i8(limbs, 0)
    # The constants 0, 1 and 10 have a length of their own, and no bytes.
    if used == 1 and (lowest == 0 or (not negative and (lowest == 1 or lowest == 10))):
        store_be_4(output, position, 3 if lowest == 10 else lowest + 1)
        return position + 4
    if negative:
        # The two's complement is the inverted bits of the number less one.
        limb = 0
        while load_le_i8(limbs, limb * 8) == 0:
            store_8(limbs, limb * 8, 0xFFFFFFFF)
            limb += 1
        store_8(limbs, limb * 8, load_le_i8(limbs, limb * 8) - 1)
    flip = 0xFF if negative else 0
    size = used * 4
    while size > 1 and _limb_byte(limbs, size - 1) == 0:
        size -= 1
    # A sign bit in front: one more byte if the highest bit is taken.
    if _limb_byte(limbs, size - 1) >= 0x80:
        size += 1
    store_be_4(output, position, size + 4)
    for index in range(size):
        place = size - 1 - index
        byte = _limb_byte(limbs, place) if place < used * 4 else 0
        store_1(output, position + 4 + index, byte ^ flip)
    return position + 4 + size


@subroutine
def _limb_byte(limbs: int, place: int) -> int:
    """Return a byte of a number, the least significant first."""
    return load_le_i8(limbs, place // 4 * 8) >> (place % 4 * 8) & 0xFF


NANOS_A_SECOND = 1_000_000_000
NANOS_A_MILLISECOND = 1_000_000
NANOS_A_DAY = 86_400_000_000_000
_CYCLES = 14_700  # of 400 years, more than an int32 of days
_SHIFT_DAYS = 719_468 + 146_097 * _CYCLES
_SHIFT_YEARS = 400 * _CYCLES
_JANUARY = 306  # days from March to December


def _divide_words(ir: Any, builder: Any, dividend: Any, divisor: Any) -> Any:
    return builder.sdiv(dividend, divisor)


# Towards zero. By a constant LLVM makes a multiplication of it; numba's own division, with a branch, stays one.
_divide = Intrinsic(_divide_words, 2)


@subroutine
def floor_divide(dividend: int, divisor: int) -> int:
    """Return the quotient, rounded down, by a positive constant."""
    quotient = _divide(dividend, divisor)
    return quotient + (dividend - quotient * divisor >> 63)


@subroutine
def split_millis(value: int, nanos_a_unit: int) -> tuple[int, int]:
    """Return a time in units of 1 or 1000 nanoseconds as milliseconds and nanoseconds of the millisecond."""
    if nanos_a_unit == 1:
        millis = floor_divide(value, NANOS_A_MILLISECOND)
        return millis, value - millis * NANOS_A_MILLISECOND
    millis = floor_divide(value, 1000)
    return millis, (value - millis * 1000) * nanos_a_unit


@subroutine
def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return year, month and day in the proleptic Gregorian calendar (`LocalDate#ofEpochDay`)."""
    # The year begins in March here, as in `days_from_civil` of the decoding machine; the shift makes all numbers positive.
    # C. Neri and L. Schneider, "Euclidean affine functions and their application to calendar algorithms", 2022.
    scaled = 4 * (days + _SHIFT_DAYS) + 3
    century = _divide(scaled, 146_097)
    product = 2_939_745 * (scaled - century * 146_097 | 3)
    day_of_year = _divide(product & 0xFFFFFFFF, 2_939_745) >> 2
    year = 100 * century + (product >> 32) - _SHIFT_YEARS
    rest = 2141 * day_of_year + 197_913
    month = rest >> 16
    day = _divide(rest & 0xFFFF, 2141) + 1
    if day_of_year >= _JANUARY:
        return year + 1, month - 12, day
    return year, month, day
