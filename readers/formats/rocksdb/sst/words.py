"""Machine words and byte strings at an address, for compiled code: an addition to `readers.decode.loads`.

Addresses are int64, as there. Checksums compute with unsigned words, which are held as signed ones of the same bits.
"""

from __future__ import annotations

from typing import Any

from readers.compiled.routines import Intrinsic, subroutine
from readers.decode.loads import load_i8, load_le_i8, load_u1, store_8

SLACK_BYTES = 64
"""Bytes behind the capacity of every buffer: whole words are loaded and stored, also where only some of their bytes count."""

_SIGN = -(2**63)


def _rotated_left(ir: Any, builder: Any, value: Any, bits: Any) -> Any:
    others = builder.sub(ir.Constant(ir.IntType(64), 64), bits)
    return builder.or_(builder.shl(value, bits), builder.lshr(value, others))


def _multiplied_and_folded(ir: Any, builder: Any, left: Any, right: Any) -> Any:
    word, double_word = ir.IntType(64), ir.IntType(128)
    product = builder.mul(builder.zext(left, double_word), builder.zext(right, double_word))
    high = builder.trunc(builder.lshr(product, ir.Constant(double_word, 64)), word)
    return builder.xor(builder.trunc(product, word), high)


swap_bytes = Intrinsic(lambda ir, builder, value: builder.bswap(value), 1)
"""Reverses the bytes of a word."""

shift_right = Intrinsic(lambda ir, builder, value, bits: builder.lshr(value, bits), 2)
"""Shifts an unsigned word by 0–63 bits."""

rotate_left = Intrinsic(_rotated_left, 2)
"""Rotates a word by 1–63 bits."""

# Numba marks its own sums and products of int64 as never overflowing, and LLVM optimises on that; checksums overflow all the time.
wrapping_sum = Intrinsic(lambda ir, builder, left, right: builder.add(left, right), 2)
wrapping_product = Intrinsic(lambda ir, builder, left, right: builder.mul(left, right), 2)

multiply_fold = Intrinsic(_multiplied_and_folded, 2)
"""Multiplies two unsigned words and XORs the two halves of the product."""


# The primes of XXH3, as signed words.
_PRIME_1 = -7046029288634856825
_PRIME_2 = -4417276706812531889


@subroutine
def hash_bytes(address: int, length: int, seed: int) -> int:
    """Return a hash of bytes that is never 0; another one under each seed."""
    code = multiply_fold(wrapping_sum(length, seed), _PRIME_1)
    index = 0
    while index + 8 <= length:
        code = multiply_fold(code ^ load_i8(address, index), wrapping_sum(_PRIME_2, code))
        index += 8
    word = 0
    while index < length:
        word = word << 8 | load_u1(address, index)
        index += 1
    code = wrapping_product(multiply_fold(code ^ word, _PRIME_2), _PRIME_1)
    code ^= shift_right(code, 32)
    return code if code != 0 else 1


@subroutine
def copy_words(target: int, source: int, count: int) -> None:
    """Copy `count` bytes, and up to 7 more; the target is never less than 8 bytes ahead of the source."""
    index = 0
    while index < count:
        store_8(target, index, load_le_i8(source, index))
        index += 8


@subroutine
def compare_bytes(left: int, left_length: int, right: int, right_length: int) -> int:
    """Compare two byte strings: return a number less than, equal to or greater than 0; load up to 7 bytes behind both."""
    shared = min(left_length, right_length)
    index = 0
    while index < shared:
        # Big-endian words sort as their bytes do, once unsigned: flipping the sign bit makes a signed comparison do that.
        one = load_i8(left, index)
        other = load_i8(right, index)
        if one != other:
            beyond = 8 - (shared - index)
            if beyond > 0:
                one = shift_right(one, 8 * beyond)
                other = shift_right(other, 8 * beyond)
            if one != other:
                return -1 if one ^ _SIGN < other ^ _SIGN else 1
        index += 8
    return left_length - right_length
