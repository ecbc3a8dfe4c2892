"""Kernels run by Python: the same source, slow, to compare compiled code with."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any, Literal

import numpy as np

from readers.compiled.routines import Alternative, Intrinsic, Subroutine
from readers.decode import loads
from readers.formats.rocksdb.sst import words

_WORD = 2**64


def interpreted(part: Subroutine) -> Callable[..., Any]:
    """Return a kernel as a Python function with the same parameters."""
    function = _Interpreted().of(part)

    def run(*arguments: Any) -> Any:
        return function(
            *(_Word(value.ctypes.data if isinstance(value, np.ndarray) else value) for value in arguments)
        )

    return run


class _Interpreted:
    def __init__(self) -> None:
        self._known: dict[int, Any] = {}

    def of(self, part: Any) -> Any:
        if isinstance(part, Alternative):
            return self.of(part.lacking)
        if isinstance(part, Intrinsic):
            return _INTRINSICS.get(id(part), _memory)
        if isinstance(part, np.ndarray):
            return _Table(part)
        if not isinstance(part, Subroutine):
            return part
        if id(part) not in self._known:
            function = part.function
            names = {**function.__globals__, **{name: self.of(value) for name, value in part.references()}}
            names["np"] = _Numpy
            self._known[id(part)] = FunctionType(function.__code__, names)
        return self._known[id(part)]


class _Word(int):
    """An int64 with the arithmetic of compiled code, which cuts off what does not fit."""


def _wrapping(operation: Callable[..., int]) -> Callable[..., Any]:
    return lambda *operands: _signed(operation(*map(int, operands)))


for _name in ("add", "sub", "mul", "and", "or", "xor", "lshift", "rshift", "floordiv", "mod"):
    _operation = getattr(operator, f"__{_name}__")
    setattr(_Word, f"__{_name}__", _wrapping(_operation))
    setattr(_Word, f"__r{_name}__", _wrapping(lambda right, left, run=_operation: run(left, right)))
for _name in ("neg", "invert", "abs"):
    setattr(_Word, f"__{_name}__", _wrapping(getattr(operator, f"__{_name}__")))


class _Table:
    """A constant array."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> _Word:
        return _Word(self._array[index])


class _Numpy:
    """The names of numpy that kernels use."""

    int64 = _Word


_kept: list[Any] = []


def _memory() -> int:
    """Return memory for `stack_memory`, of any size, and keep it."""
    _kept.append(ctypes.create_string_buffer(1 << 16))
    return ctypes.addressof(_kept[-1])


def _load(width: int, order: Literal["big", "little"], *, signed: bool) -> Callable[[int, int], int]:
    def load(address: int, position: int) -> int:
        return _Word(int.from_bytes(ctypes.string_at(address + position, width), order, signed=signed))

    return load


def _store(width: int, order: Literal["big", "little"] = "little") -> Callable[[int, int, int], None]:
    def store(address: int, position: int, value: int) -> None:
        raw = (int(value) % (1 << 8 * width)).to_bytes(width, order)
        ctypes.memmove(address + position, raw, width)

    return store


def _signed(value: int) -> int:
    value = int(value) % _WORD
    return _Word(value - (value >> 63 << 64))


def _folded(left: int, right: int) -> int:
    product = (int(left) % _WORD) * (int(right) % _WORD)
    return _signed(product ^ product >> 64)


_INTRINSICS: dict[int, Callable[..., Any]] = {
    id(loads.load_u1): _load(1, "big", signed=False),
    id(loads.load_i1): _load(1, "big", signed=True),
    id(loads.load_u2): _load(2, "big", signed=False),
    id(loads.load_i2): _load(2, "big", signed=True),
    id(loads.load_i4): _load(4, "big", signed=True),
    id(loads.load_i8): _load(8, "big", signed=True),
    id(loads.load_le_i2): _load(2, "little", signed=True),
    id(loads.load_le_i4): _load(4, "little", signed=True),
    id(loads.load_le_i8): _load(8, "little", signed=True),
    id(loads.store_1): _store(1),
    id(loads.store_2): _store(2),
    id(loads.store_4): _store(4),
    id(loads.store_8): _store(8),
    id(loads.store_be_2): _store(2, "big"),
    id(loads.store_be_4): _store(4, "big"),
    id(loads.store_be_8): _store(8, "big"),
    id(loads.opaque): lambda value: value,
    id(words.swap_bytes): lambda value: _signed(
        int.from_bytes((int(value) % _WORD).to_bytes(8, "little"), "big")
    ),
    id(words.shift_right): lambda value, bits: _signed((int(value) % _WORD) >> bits),
    id(words.rotate_left): lambda value, bits: _signed(
        (int(value) << bits) | (int(value) % _WORD) >> (64 - bits)
    ),
    id(words.wrapping_sum): lambda left, right: _signed(int(left) + int(right)),
    id(words.wrapping_product): lambda left, right: _signed(int(left) * int(right)),
    id(words.multiply_fold): _folded,
}
