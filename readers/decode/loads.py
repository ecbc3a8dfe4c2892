"""Loads and stores at an address, as single machine instructions, and what else compiled code needs of LLVM.

Compiled code gets arrays as addresses, int64. Nothing is checked here: a caller compares positions with the limit
first, and the Python caller of a kernel keeps its arrays alive. In the names, `u` is unsigned, `i` is signed and `le` is
little endian, `be` big endian; the digit is the width in bytes. Savepoints are big endian, but for Flink's binary rows and RocksDB.
"""

from __future__ import annotations

from typing import Any

from readers.compiled.routines import Intrinsic, subroutine


def _load(bits: int, *, signed: bool, big_endian: bool) -> Intrinsic:
    """Return an intrinsic `load(address, position) -> int64` for one width and byte order; `position` is in bytes."""

    def build(ir: Any, builder: Any, address: Any, position: Any) -> Any:
        integer = ir.IntType(bits)
        # Values stand at any address: align 1 makes LLVM load them so, at no cost on our processors.
        value = builder.load(_pointer(ir, builder, integer, address, position), align=1)
        if big_endian and bits > 8:
            value = builder.bswap(value)
        if bits < 64:
            extend = builder.sext if signed else builder.zext
            value = extend(value, ir.IntType(64))
        return value

    return Intrinsic(build, 2)


def _store(bits: int, *, big_endian: bool = False) -> Intrinsic:
    """Return an intrinsic `store(address, position, value)`, in native byte order by default; `position` is in bytes."""

    def build(ir: Any, builder: Any, address: Any, position: Any, value: Any) -> None:
        integer = ir.IntType(bits)
        narrow = builder.trunc(value, integer) if bits < 64 else value
        if big_endian:
            narrow = builder.bswap(narrow)
        builder.store(narrow, _pointer(ir, builder, integer, address, position), align=1)

    return Intrinsic(build, 3, returns=False)


def _pointer(ir: Any, builder: Any, integer: Any, address: Any, position: Any) -> Any:
    """Return a pointer to `integer` at `position` bytes behind `address`."""
    base = builder.inttoptr(address, ir.IntType(8).as_pointer())
    return builder.bitcast(builder.gep(base, [position], inbounds=True), integer.as_pointer())


def stack_memory(size_bytes: int) -> Intrinsic:
    """Return an intrinsic without operands: the address of `size_bytes` bytes, valid until the function returns."""

    def build(ir: Any, builder: Any) -> Any:
        # In the entry block the memory is taken once, not in every round of a loop.
        with builder.goto_entry_block():
            memory = builder.alloca(ir.IntType(8), size_bytes)
        return builder.ptrtoint(memory, ir.IntType(64))

    return Intrinsic(build, 0)


def _opaque() -> Intrinsic:
    """Return an intrinsic `opaque(value) -> value`.

    LLVM does not know that the result is the value, and computes it nowhere but in the branch that asks for it: so
    `if value != guess: guess = opaque(value)` stays a branch, which processors foresee, and does not become `guess = value`.
    """

    def build(ir: Any, builder: Any, value: Any) -> Any:
        # No instruction, from one register to the same one.
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        return builder.asm(kind, "", "=r,0", [value], True)

    return Intrinsic(build, 1)


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
store_be_2 = _store(16, big_endian=True)
store_be_4 = _store(32, big_endian=True)
store_be_8 = _store(64, big_endian=True)
opaque = _opaque()


@subroutine
def same_bytes(left: int, right: int, size: int) -> bool:
    """Return whether two byte strings, given by their addresses, have the same bytes."""
    position = 0
    while size - position >= 8:
        if load_le_i8(left, position) != load_le_i8(right, position):
            return False
        position += 8
    while position < size:
        if load_u1(left, position) != load_u1(right, position):
            return False
        position += 1
    return True


@subroutine
def copy_bytes(source: int, target: int, size: int) -> None:
    """Copy bytes from one address to another by words; nothing behind them is read or written."""
    position = 0
    while size - position >= 8:
        store_8(target, position, load_le_i8(source, position))
        position += 8
    while position < size:
        store_1(target, position, load_u1(source, position))
        position += 1
