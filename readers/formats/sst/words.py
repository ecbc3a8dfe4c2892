"""Machine words and byte strings at an address, for compiled code: what `readers.decode.loads` has not.

Addresses are int64, as there, and signed numbers stand for unsigned ones where checksums are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from readers.decode.loads import load_i8, load_le_i8, store_8

SLACK_BYTES = 64
"""Every buffer has so many bytes more than its capacity: words are loaded and stored beyond the last byte, and ignored."""

jit = numba.njit(nogil=True, cache=True, error_model="numpy", boundscheck=False)

_SIGN = -(2**63)
_WORD = ir.IntType(64)
_DOUBLE_WORD = ir.IntType(128)


def unary(build: Callable[[Any, Any], Any]) -> Callable[[int], int]:
    """An intrinsic of one word; `build` is given LLVM's builder and the operand."""

    @intrinsic
    def operation(typing_context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return build(builder, arguments[0])

        return types.int64(types.int64), generate

    return operation


def binary(build: Callable[[Any, Any, Any], Any]) -> Callable[[int, int], int]:
    """An intrinsic of two words, as `unary`."""

    @intrinsic
    def operation(typing_context: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return build(builder, arguments[0], arguments[1])

        return types.int64(types.int64, types.int64), generate

    return operation


def _rotated_left(builder: Any, value: Any, bits: Any) -> Any:
    others = builder.sub(ir.Constant(_WORD, 64), bits)
    return builder.or_(builder.shl(value, bits), builder.lshr(value, others))


def _multiplied_and_folded(builder: Any, left: Any, right: Any) -> Any:
    product = builder.mul(builder.zext(left, _DOUBLE_WORD), builder.zext(right, _DOUBLE_WORD))
    high = builder.trunc(builder.lshr(product, ir.Constant(_DOUBLE_WORD, 64)), _WORD)
    return builder.xor(builder.trunc(product, _WORD), high)


swap_bytes = unary(lambda builder, value: builder.bswap(value))
"""The bytes of a word in reverse."""

shift_right = binary(lambda builder, value, bits: builder.lshr(value, bits))
"""Of an unsigned word, by 0–63 bits."""

rotate_left = binary(_rotated_left)
"""By 1–63 bits."""

# Numba's own sums and products of int64 are undefined where they overflow, and LLVM makes use of it.
wrapping_sum = binary(lambda builder, left, right: builder.add(left, right))
wrapping_product = binary(lambda builder, left, right: builder.mul(left, right))

multiply_fold = binary(_multiplied_and_folded)
"""The two halves of the product of two unsigned words, XORed."""


@jit
def copy_words(target: int, source: int, count: int) -> None:
    """Copy `count` bytes, and up to 7 more; the target is not ahead of the source by less than 8 bytes."""
    index = 0
    while index < count:
        store_8(target, index, load_le_i8(source, index))
        index += 8


@jit
def compare_bytes(left: int, left_length: int, right: int, right_length: int) -> int:
    """Less than, equal to or greater than 0, as the left byte string sorts; loads up to 7 bytes behind both."""
    shared = min(left_length, right_length)
    index = 0
    while index < shared:
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
