"""Numbers: 128 bits and decimal text → two's complement of as few bytes as hold it, big endian.

Flink: BigIntSerializer#writeBigInteger, BigInteger#toByteArray.
"""

from __future__ import annotations

import numpy as np

from readers import load_le_i8, load_u1, stack_memory, store_1, store_8, store_be_4, subroutine

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
