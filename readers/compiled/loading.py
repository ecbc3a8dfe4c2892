"""Object code → functions that Python calls.

LLVM's loader places the sections and resolves their references, which are to `memcpy` and the like only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import binding

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
        image: an object file.
    """

    signatures: dict[str, Signature]
    image: bytes


SYMBOL_PREFIX = "savepointdb_"


def load(code: ObjectCode) -> dict[str, Callable[..., Any]]:
    """Load object code and return its functions by name; it stays loaded as long as they live."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code.image))
    engine.finalize_object()
    return {
        name: _function(engine, engine.get_function_address(SYMBOL_PREFIX + name), signature)
        for name, signature in code.signatures.items()
    }


def _function(engine: Any, address: int, signature: Signature) -> Callable[..., Any]:
    """Return the function at an address. It keeps `engine` alive, which owns the memory of the code."""
    words = [ctypes.c_int64] * signature.parameters
    if signature.returns <= WORD:
        returned = None if signature.returns == NOTHING else ctypes.c_int64
        call: Any = ctypes.CFUNCTYPE(returned, *words)(address)
        if signature.returns == TRUTH:
            return _BoolFunction(engine, call)
        # The function of ctypes itself is returned: no Python function stands between it and its caller.
        call.engine = engine
        return call  # type: ignore[no-any-return]
    return _TupleFunction(engine, ctypes.CFUNCTYPE(None, *words, ctypes.c_void_p)(address), signature.returns)


class _BoolFunction:
    """A kernel that returns a bool."""

    def __init__(self, engine: Any, call: Callable[..., int]) -> None:
        self._engine = engine
        self._call = call

    def __call__(self, *arguments: int) -> bool:
        return self._call(*arguments) != 0


class _TupleFunction:
    """A kernel that returns several words, which it writes to memory of the caller."""

    def __init__(self, engine: Any, call: Callable[..., None], returns: int) -> None:
        self._engine = engine
        self._call = call
        self._words = ctypes.c_int64 * returns

    def __call__(self, *arguments: int) -> tuple[int, ...]:
        # Room of its own for each call: threads run kernels at once.
        words = self._words()
        self._call(*arguments, ctypes.addressof(words))
        return tuple(words)
