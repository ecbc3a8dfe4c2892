"""Loads and stores at an address, as single machine instructions.

Compiled code is given arrays by address, an int64 (`array.ctypes.data`): passing the arrays themselves to
helper functions costs two atomic reference counts a call, which was 70 % of the interpreter's time (130 →
24 ns a row of two strings and a long). Nothing is checked here: callers compare with the limit first, and
whoever calls into compiled code keeps the arrays alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


def _load(bits: int, *, signed: bool, big_endian: bool) -> Callable[[int, int], int]:
    """An intrinsic `load(address, position) -> int64` for one width and byte order; `position` in bytes."""

    @intrinsic
    def load(typing_context: Any, address: Any, position: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            integer = ir.IntType(bits)
            value = builder.load(_pointer(builder, integer, arguments), align=1)
            if big_endian and bits > 8:
                value = builder.bswap(value)
            if bits < 64:
                extend = builder.sext if signed else builder.zext
                value = extend(value, ir.IntType(64))
            return value

        return types.int64(types.int64, types.int64), generate

    return load


def _store(bits: int) -> Callable[[int, int, int], None]:
    """An intrinsic `store(address, position, value)` in native byte order; `position` in bytes."""

    @intrinsic
    def store(typing_context: Any, address: Any, position: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            integer = ir.IntType(bits)
            narrow = builder.trunc(arguments[2], integer) if bits < 64 else arguments[2]
            builder.store(narrow, _pointer(builder, integer, arguments), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return store


def _pointer(builder: Any, integer: Any, arguments: Any) -> Any:
    """A pointer to `integer` at `position` bytes behind `address`."""
    base = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
    return builder.bitcast(builder.gep(base, [arguments[1]], inbounds=True), integer.as_pointer())


load_u1 = _load(8, signed=False, big_endian=True)
load_i1 = _load(8, signed=True, big_endian=True)
load_u2 = _load(16, signed=False, big_endian=True)
load_i2 = _load(16, signed=True, big_endian=True)
load_i4 = _load(32, signed=True, big_endian=True)
load_i8 = _load(64, signed=True, big_endian=True)
load_le_i2 = _load(16, signed=True, big_endian=False)
load_le_i4 = _load(32, signed=True, big_endian=False)
load_le_i8 = _load(64, signed=True, big_endian=False)
store_1 = _store(8)
store_2 = _store(16)
store_4 = _store(32)
store_8 = _store(64)
