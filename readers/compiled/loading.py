"""Compiled kernels → functions that Python calls: LLVM loads the object file.

LLVM also names the processor if the system does not describe it. Its loader places the sections and
resolves their references, which are to `memcpy` and the like only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from llvmlite import binding


def placed(code: bytes, symbols: Iterable[str]) -> tuple[Any, dict[str, int]]:
    """Load an object file; return what owns its memory, and the addresses of symbols."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine, {symbol: engine.get_function_address(symbol) for symbol in symbols}


def processor() -> tuple[str, str]:
    """Return the name of the processor and its features."""
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


NOTHING, TRUTH, WORD = -1, 0, 1
"""The results of a kernel; greater numbers are a tuple of so many words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The number of words that a kernel takes, and its result: NOTHING, TRUTH, WORD or the number of words."""

    parameters: int
    returns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectCode:
    """The compiled kernels of a unit.

    Attributes:
        signatures: by the name of the kernel. Its symbol is the name behind `SYMBOL_PREFIX`.
        code: an object file.
    """

    signatures: dict[str, Signature]
    code: bytes


SYMBOL_PREFIX = "savepointdb_"


def load(code: ObjectCode) -> dict[str, Callable[..., Any]]:
    """Load object code and return its functions by name; it stays loaded as long as they live."""
    memory, addresses = placed(code.code, [SYMBOL_PREFIX + name for name in code.signatures])
    return {
        name: _function(memory, addresses[SYMBOL_PREFIX + name], signature)
        for name, signature in code.signatures.items()
    }


def _function(memory: Any, address: int, signature: Signature) -> Callable[..., Any]:
    """Return the function at an address. It keeps `memory` alive, where its code is."""
    words = [ctypes.c_int64] * signature.parameters
    if signature.returns <= WORD:
        returned = None if signature.returns == NOTHING else ctypes.c_int64
        call: Any = ctypes.CFUNCTYPE(returned, *words)(address)
        if signature.returns == TRUTH:
            return _BoolFunction(memory, call)
        # The function of ctypes itself is returned: no Python function stands between it and its caller.
        call.memory = memory
        return call  # type: ignore[no-any-return]
    return _TupleFunction(memory, ctypes.CFUNCTYPE(None, *words, ctypes.c_void_p)(address), signature.returns)


class _BoolFunction:
    """A kernel that returns a bool."""

    def __init__(self, memory: Any, call: Callable[..., int]) -> None:
        self._memory = memory
        self._call = call

    def __call__(self, *arguments: int) -> bool:
        return self._call(*arguments) != 0


class _TupleFunction:
    """A kernel that returns several words, which it writes to memory of the caller."""

    def __init__(self, memory: Any, call: Callable[..., None], returns: int) -> None:
        self._memory = memory
        self._call = call
        self._words = ctypes.c_int64 * returns

    def __call__(self, *arguments: int) -> tuple[int, ...]:
        # Room of its own for each call: threads run kernels at once.
        words = self._words()
        self._call(*arguments, ctypes.addressof(words))
        return tuple(words)
