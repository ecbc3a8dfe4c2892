"""Loads and stores at an address, as single machine instructions.

Compiled code is given arrays by address, an int64. Nothing is checked here: callers compare with the limit first, and whoever
calls into compiled code keeps the arrays alive.
"""

from __future__ import annotations

from typing import Any

from readers.compiled.routines import Intrinsic


def _load(bits: int, *, signed: bool, big_endian: bool) -> Intrinsic:
    """An intrinsic `load(address, position) -> int64` for one width and byte order; `position` in bytes."""

    def build(ir: Any, builder: Any, address: Any, position: Any) -> Any:
        integer = ir.IntType(bits)
        value = builder.load(_pointer(ir, builder, integer, address, position), align=1)
        if big_endian and bits > 8:
            value = builder.bswap(value)
        if bits < 64:
            extend = builder.sext if signed else builder.zext
            value = extend(value, ir.IntType(64))
        return value

    return Intrinsic(build, 2)


def _store(bits: int) -> Intrinsic:
    """An intrinsic `store(address, position, value)` in native byte order; `position` in bytes."""

    def build(ir: Any, builder: Any, address: Any, position: Any, value: Any) -> None:
        integer = ir.IntType(bits)
        narrow = builder.trunc(value, integer) if bits < 64 else value
        builder.store(narrow, _pointer(ir, builder, integer, address, position), align=1)

    return Intrinsic(build, 3, returns=False)


def _pointer(ir: Any, builder: Any, integer: Any, address: Any, position: Any) -> Any:
    """A pointer to `integer` at `position` bytes behind `address`."""
    base = builder.inttoptr(address, ir.IntType(8).as_pointer())
    return builder.bitcast(builder.gep(base, [position], inbounds=True), integer.as_pointer())


def stack_memory(size_bytes: int) -> Intrinsic:
    """An intrinsic of no operands: the address of so many bytes, until the function returns."""

    def build(ir: Any, builder: Any) -> Any:
        with builder.goto_entry_block():
            memory = builder.alloca(ir.IntType(8), size_bytes)
        return builder.ptrtoint(memory, ir.IntType(64))

    return Intrinsic(build, 0)


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
