"""Object code → functions that Python calls.

LLVM's loader places the sections and resolves what they refer to: nothing but `memcpy` and the like.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import binding

NOTHING, TRUTH, WORD = -1, 0, 1
"""What a kernel returns; from 2 on, so many words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A kernel as object code has it: how many words it takes, and what it returns."""

    parameters: int
    returns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectCode:
    """The kernels of a unit, compiled.

    Attributes:
        signatures: by the name of the kernel, which is its symbol, too, behind `SYMBOL_PREFIX`.
        image: an object file.
    """

    signatures: dict[str, Signature]
    image: bytes


SYMBOL_PREFIX = "savepointdb_"


def loaded(code: ObjectCode) -> dict[str, Callable[..., Any]]:
    """Load object code, for as long as its functions live: these, by name."""
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
    """The function at an address of `engine`, which must not end before it."""
    words = [ctypes.c_int64] * signature.parameters
    if signature.returns <= WORD:
        returned = None if signature.returns == NOTHING else ctypes.c_int64
        call: Any = ctypes.CFUNCTYPE(returned, *words)(address)
        if signature.returns == TRUTH:
            return _Truth(engine, call)
        call.engine = engine
        return call  # type: ignore[no-any-return]
    return _Several(engine, ctypes.CFUNCTYPE(None, *words, ctypes.c_void_p)(address), signature.returns)


class _Truth:
    def __init__(self, engine: Any, call: Callable[..., int]) -> None:
        self._engine = engine
        self._call = call

    def __call__(self, *arguments: int) -> bool:
        return self._call(*arguments) != 0


class _Several:
    def __init__(self, engine: Any, call: Callable[..., None], returns: int) -> None:
        self._engine = engine
        self._call = call
        self._room = ctypes.c_int64 * returns

    def __call__(self, *arguments: int) -> tuple[int, ...]:
        found = self._room()
        self._call(*arguments, ctypes.addressof(found))
        return tuple(found)
