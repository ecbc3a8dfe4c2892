"""Pseudonyms and hashes of integers: each is two numbers, which a Feistel network permutes.

See `permutation` for the forms within which integers are permuted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.masks.lanes import (
    BLOCK,
    FEWEST_ROUNDS,
    GREATEST,
    LANES,
    LEFT,
    LEFT_SIZE,
    MOST_ROUNDS,
    NUMBER_ROUNDS,
    NUMBERS_BYTES,
    RIGHT,
    RIGHT_SIZE,
    TWEAK,
    end_numbers,
    permute_numbers,
)
from catalog.masks.siphash import LOW_32, hash_of_number
from readers import kernel, load_le_i8, stack_memory, store_8, subroutine

Words = NDArray[np.int64]

_GREATEST = (1 << 63) - 1
# Columns of the forms of integers, a row each.
_FORM_FIRST, _FORM_LAST, _FORM_LEFT, _FORM_RIGHT, _FORM_TWEAK, _FORM_ROUNDS, _FORM_BYTES = range(0, 56, 8)


def _forms(sign: int) -> list[list[int]]:
    """Return the forms of the integers that are not negative, or of the others by their sizes, in order."""
    # The greatest byte, short, int: what is beyond it fits no such column.
    lasts = [(1 << bits) - 1 + sign for bits in (7, 15, 31)]
    forms = []
    first = sign
    for last in sorted([*(10**digits - 1 for digits in range(1, 19)), *lasts, _GREATEST]):
        digits = len(str(last))
        right = math.isqrt(last - first) + 1
        left = (last - first) // right + 1
        rounds = FEWEST_ROUNDS if last - first >= LOW_32 * 1024 else MOST_ROUNDS
        tweak = (digits * 2 + sign) << 8
        forms.append([first, last, left, right, tweak, rounds])
        first = last + 1
    return forms


FORMS = np.array([*_forms(0), *_forms(1)], dtype=np.int64)
_NEGATIVE_FORMS = len(FORMS) // 2 * _FORM_BYTES
_LEAST = -_GREATEST - 1
# Behind the columns of integers: their forms.
FORM, ALL_NUMBERS = NUMBERS_BYTES, NUMBERS_BYTES + BLOCK * 8
_numbers_memory = stack_memory(ALL_NUMBERS)


@subroutine
def begin_integer(block: int, index: int, value: int, forms: int, form: int) -> int:
    """Note an integer in a block, any but the least of 64 bits; return its form.

    Args:
        form: of another integer: those of a column are of few forms.
    """
    size = -value if value < 0 else value
    start = _NEGATIVE_FORMS if value < 0 else 0
    if (
        not start <= form < start + _NEGATIVE_FORMS
        or size < load_le_i8(forms, form)
        or size > load_le_i8(forms, form + _FORM_LAST)
    ):
        form = start
        while size > load_le_i8(forms, form + _FORM_LAST):
            form += _FORM_BYTES
    size -= load_le_i8(forms, form)
    right_size = load_le_i8(forms, form + _FORM_RIGHT)
    left = size // right_size
    store_8(block, LEFT + index * 8, left)
    store_8(block, RIGHT + index * 8, size - left * right_size)
    store_8(block, LEFT_SIZE + index * 8, load_le_i8(forms, form + _FORM_LEFT))
    store_8(block, RIGHT_SIZE + index * 8, right_size)
    store_8(block, TWEAK + index * 8, load_le_i8(forms, form + _FORM_TWEAK))
    store_8(block, GREATEST + index * 8, load_le_i8(forms, form + _FORM_LAST) - load_le_i8(forms, form))
    store_8(block, NUMBER_ROUNDS + index * 8, load_le_i8(forms, form + _FORM_ROUNDS))
    store_8(block, FORM + index * 8, form)
    return form


@subroutine
def permuted(block: int, index: int) -> int:
    """Return the two numbers of a value as one."""
    left = load_le_i8(block, LEFT + index * 8)
    return left * load_le_i8(block, RIGHT_SIZE + index * 8) + load_le_i8(block, RIGHT + index * 8)


@subroutine
def permute_integers_of_block(block: int, count: int, secret: int) -> None:
    """Permute the integers of a block."""
    for lane in range(count, (count + LANES - 1) // LANES * LANES):
        store_8(block, NUMBER_ROUNDS + lane * 8, 0)
    for first in range(0, count, LANES):
        place = block + first * 8
        rounds = most(place, NUMBER_ROUNDS)
        while rounds > 0:
            for number in range(0, rounds, 2):
                permute_numbers(place, secret, number)
            end_numbers(place)
            rounds = most(place, NUMBER_ROUNDS)


@subroutine
def most(place: int, column: int) -> int:
    """Return the greatest of the values of a vector."""
    found = 0
    for lane in range(0, LANES * 8, 8):
        found = max(found, load_le_i8(place, column + lane))
    return found


@kernel
def _permute_integers(values: int, count: int, output: int, secret: int, forms: int) -> None:
    """Write the pseudonyms of integers of 64 bits; the least one stays."""
    block = _numbers_memory()
    form = 0
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        for index in range(size):
            value = load_le_i8(values, (start + index) * 8)
            form = begin_integer(block, index, 0 if value == _LEAST else value, forms, form)
        permute_integers_of_block(block, size, secret)
        for index in range(size):
            value = load_le_i8(values, (start + index) * 8)
            if value != _LEAST:
                own = load_le_i8(block, FORM + index * 8)
                value = load_le_i8(forms, own) + permuted(block, index)
                value = -value if own >= _NEGATIVE_FORMS else value
            store_8(output, (start + index) * 8, value)


@kernel
def _permute_words(values: int, count: int, output: int, secret: int, bits: int) -> None:
    """Write for words of 8, 16, 32 or 64 bits others of the same bits: by a permutation of all of them."""
    k0, k1 = load_le_i8(secret, 0), load_le_i8(secret, 8)
    half = bits // 2
    mask = (1 << half) - 1
    for index in range(count):
        value = load_le_i8(values, index * 8)
        left = (value >> half) & mask
        right = value & mask
        for number in range(0, MOST_ROUNDS, 2):
            left ^= hash_of_number(k0, k1, number, right) & mask
            right ^= hash_of_number(k0, k1, number + 1, left) & mask
        store_8(output, index * 8, (left << half) | right)


@kernel
def _lower_integers(values: int, count: int, output: int, step: int, least: int) -> None:
    """Write the multiple of a step that is next below each integer, or the least that fits."""
    for index in range(count):
        value = load_le_i8(values, index * 8)
        over = value % step
        store_8(output, index * 8, least if value < least + over else value - over)


def pseudonyms_of_integers(values: Words, secret: bytes) -> Words:
    """Return the pseudonyms of integers: of the same sign and number of digits.

    Args:
        values: contiguous.
        secret: 16 bytes.
    """
    output: Words = new_array(len(values), np.int64)
    _permute_integers(values, len(values), output, words_of(secret), FORMS)
    return output


def permuted_words(values: Words, bits: int, secret: bytes) -> Words:
    """Return a permutation of all words of so many bits; of each result the low bits count."""
    output: Words = new_array(len(values), np.int64)
    _permute_words(values, len(values), output, words_of(secret), bits)
    return output


def lowered_integers(values: Words, step: int, least: int) -> Words:
    """Return the multiple of a step that is next below each integer, or the least that fits if that is above it."""
    output: Words = new_array(len(values), np.int64)
    _lower_integers(values, len(values), output, step, least)
    return output


def new_array(count: int, kind: Any) -> Any:
    """Return an array of Arrow's memory: it is taken again, and needs not be cleared by the system each time as numpy's."""
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(kind).itemsize), kind)


def words_of(secret: bytes) -> Words:
    """Return a secret of 16 bytes as two words."""
    return np.frombuffer(secret[:16], dtype="<i8")
