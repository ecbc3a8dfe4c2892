"""Decimals: two's complement of any length, appended as a 128-bit number or as text."""

from __future__ import annotations

import numpy as np

from readers.compiled.routines import subroutine
from readers.decode.columns import CAPACITY, DATA, DATA_CAPACITY, DATA_LENGTH, LENGTH, VALUES
from readers.decode.loads import load_i1, load_le_i8, load_u1, stack_memory, store_1, store_8
from readers.decode.machine.columns import close_variable, get_field, set_field
from readers.decode.machine.statuses import DONE, FULL, OUT_OF_RANGE

MAX_DECIMAL_BYTES = 16  # of a decimal128
# Text of a number takes time with the square of its length: longer numbers are hostile.
MAX_BIG_INTEGER_BYTES = 4096
_MIN_I8 = -(2**63)
# Nine decimal digits a limb: room for the 9,865 digits of MAX_BIG_INTEGER_BYTES.
_LIMBS = 1200
_LIMB = 1_000_000_000
# A scale is any int32: 1E-2000000000 must not become two billion characters.
_MAX_PLAIN_ZEROS = 5000
_PLUS, _MINUS, _POINT, _ZERO, _EXPONENT = b"+-.0E"
_limbs_memory = stack_memory(_LIMBS * 8)
_digits_memory = stack_memory(_LIMBS * 9)


@subroutine
def is_within(high: int, low: int, bound_high: int, bound_low: int) -> bool:
    """Return whether the magnitude of a 128-bit number is less than a bound."""
    magnitude_high = high
    magnitude_low = low
    if high < 0:
        magnitude_low = -low
        magnitude_high = ~high + (1 if low == 0 else 0)
    if magnitude_high < 0 or magnitude_high > bound_high:
        return False
    # With the sign bits inverted, signed order is the order of unsigned words.
    return magnitude_high != bound_high or magnitude_low ^ _MIN_I8 < bound_low ^ _MIN_I8


@subroutine
def put_decimal128(
    table: int, memory: int, column: int, high: int, low: int, bound_high: int, bound_low: int
) -> int:
    """Append a 128-bit number if its magnitude is less than the bound, also 128 bits; return the status."""
    if not is_within(high, low, bound_high, bound_low):
        return OUT_OF_RANGE
    if column < 0:
        return DONE
    length = get_field(table, column, LENGTH)
    if length >= get_field(table, column, CAPACITY):
        return FULL
    store_8(memory, get_field(table, column, VALUES) + length * 16, low)
    store_8(memory, get_field(table, column, VALUES) + length * 16 + 8, high)
    set_field(table, column, LENGTH, length + 1)
    return DONE


@subroutine
def read_two_complement(data: int, position: int, count: int) -> tuple[int, int]:
    """Return the high and low 64 bits of a signed number of `count` (1 to 16) big-endian bytes."""
    high = np.int64(-1) if load_i1(data, position) < 0 else np.int64(0)
    low = high
    for index in range(count):
        high = high << 8 | low >> 56 & 0xFF
        low = low << 8 | load_u1(data, position + index)
    return high, low


@subroutine
def sign_bytes(data: int, position: int, count: int) -> int:
    """Return the number of leading bytes that only repeat the sign, of those beyond the 16 that fit."""
    sign = load_i1(data, position) >> 7
    padding = 0
    while count - padding > MAX_DECIMAL_BYTES and load_i1(data, position + padding) == sign:
        if load_i1(data, position + padding + 1) >> 7 != sign:
            break
        padding += 1
    return padding


@subroutine
def put_decimal_text(
    table: int, memory: int, column: int, data: int, position: int, count: int, small: int, scale: int
) -> bool:
    """Append unscaled · 10^-scale as text. The unscaled number is `count` bytes, or `small` if count is 0."""
    limbs = _limbs_memory()
    for limb in range(_LIMBS):
        store_8(limbs, limb * 8, 0)
    used_limbs = 1
    negative = False
    if count == 0:
        store_8(limbs, 0, small)
    else:
        negative = load_i1(data, position) < 0
        # The magnitude of a negative number is its inverted bits, and one more.
        flip = 0xFF if negative else 0
        for index in range(count):
            carry = load_u1(data, position + index) ^ flip
            for limb in range(used_limbs):
                carry += load_le_i8(limbs, limb * 8) * 256
                store_8(limbs, limb * 8, carry % _LIMB)
                carry //= _LIMB
            if carry:
                store_8(limbs, used_limbs * 8, carry)
                used_limbs += 1
        if negative:
            limb = 0
            store_8(limbs, 0, load_le_i8(limbs, 0) + 1)
            while load_le_i8(limbs, limb * 8) == _LIMB:
                store_8(limbs, limb * 8, 0)
                limb += 1
                store_8(limbs, limb * 8, load_le_i8(limbs, limb * 8) + 1)
            used_limbs = max(used_limbs, limb + 1)
    digits = _digits_memory()
    total = used_limbs * 9
    for limb in range(used_limbs):
        value = load_le_i8(limbs, limb * 8)
        for place in range(9):
            store_1(digits, total - 1 - limb * 9 - place, value % 10)
            value //= 10
    first = 0
    while first < total - 1 and load_u1(digits, first) == 0:
        first += 1
    length = total - first
    zero = length == 1 and load_u1(digits, first) == 0
    used = get_field(table, column, DATA_LENGTH)
    base = get_field(table, column, DATA)
    # 32: a sign, a point and an exponent.
    if used + length + _MAX_PLAIN_ZEROS + 32 > get_field(table, column, DATA_CAPACITY):
        return True
    at = base + used
    if negative:
        store_1(memory, at, _MINUS)
        at += 1
    leading = scale - length + 1 if scale >= length else 0
    trailing = -scale if scale < 0 and not zero else 0
    if leading > _MAX_PLAIN_ZEROS or trailing > _MAX_PLAIN_ZEROS:
        store_1(memory, at, _ZERO + load_u1(digits, first))
        at += 1
        if length > 1:
            store_1(memory, at, _POINT)
            at += 1
            for index in range(1, length):
                store_1(memory, at, _ZERO + load_u1(digits, first + index))
                at += 1
        exponent = length - 1 - scale
        store_1(memory, at, _EXPONENT)
        store_1(memory, at + 1, _MINUS if exponent < 0 else _PLUS)
        at += 2
        exponent = abs(exponent)
        power = 1
        while power * 10 <= exponent:
            power *= 10
        while power > 0:
            store_1(memory, at, _ZERO + exponent // power % 10)
            at += 1
            power //= 10
        return close_variable(table, memory, column, at - base)
    point = length + leading - scale if scale > 0 else -1
    for index in range(leading + length):
        if index == point:
            store_1(memory, at, _POINT)
            at += 1
        digit = 0 if index < leading else load_u1(digits, first + index - leading)
        store_1(memory, at, _ZERO + digit)
        at += 1
    for _ in range(trailing):
        store_1(memory, at, _ZERO)
        at += 1
    return close_variable(table, memory, column, at - base)
