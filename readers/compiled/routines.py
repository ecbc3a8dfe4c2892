"""Routines: what kernels call, as modules declare it; and object code → functions that Python calls.

Nothing is compiled here. LLVM loads the object file: it places the sections and resolves their references, which are to `memcpy` and
the like only.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

logger = logging.getLogger("readers.compiled")
"""Logs what is compiled, and why compiled code cannot be kept."""


class Intrinsic:
    """An operation of LLVM that Python does not have; for compiled code only.

    Args:
        build: takes the module `llvmlite.ir`, LLVM's builder and the operands; returns the result, or None.
        operands: the number of operands, all int64.
        returns: True if there is a result, int64.
    """

    def __init__(self, build: Callable[..., Any], operands: int, *, returns: bool = True) -> None:
        self.build = build
        self.operands = operands
        self.returns = returns

    def __call__(self, *operands: int) -> int:
        """Raise TypeError: only compiled code can call this."""
        raise TypeError("expected a call from compiled code, found one from Python")


class Alternative:
    """Two routines that return the same: one for processors with a feature, one for all others.

    Args:
        feature: LLVM's name of it.
        having: the routine if the processor has it.
        lacking: the routine if not.
    """

    def __init__(self, feature: str, having: Routine, lacking: Routine) -> None:
        self.feature = feature
        self.having = having
        self.lacking = lacking

    def __call__(self, *operands: int) -> int:
        """Raise TypeError: only compiled code can call this."""
        raise TypeError("expected a call from compiled code, found one from Python")

    def choose(self, features: Mapping[str, bool]) -> Routine:
        """Return the routine for a processor with these features."""
        return self.having if features.get(self.feature, False) else self.lacking


class Subroutine:
    """A function that kernels call, and Python does not.

    Attributes:
        function: the Python function; its parameters are int64.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        """Raise TypeError: only compiled code can call this."""
        raise TypeError(
            f"expected a call of {self.function.__name__} from compiled code, found one from Python"
        )

    @property
    def unit(self) -> str:
        """Name of its module; the kernels of a module are compiled together."""
        return self.function.__module__

    def references(self) -> Iterator[tuple[str, Any]]:
        """Yield the names of its module that it uses, and their values."""
        known = self.function.__globals__
        # `co_names` has names of attributes as well; one that is also a name of the module only adds a dependency.
        return ((name, known[name]) for name in self.function.__code__.co_names if name in known)


Routine = Intrinsic | Alternative | Subroutine


def subroutine(function: Callable[..., Any]) -> Any:
    """Declare a function of a module to be a subroutine (decorator)."""
    assert isinstance(function, FunctionType)
    return Subroutine(function)


def processor() -> tuple[str, str]:
    """Return the name of the processor and its features."""
    from llvmlite import binding  # only where the system does not describe it

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
    from llvmlite import binding  # takes as long as a lookup, and many commands run no kernel

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code.code))
    engine.finalize_object()
    return {
        name: _function(engine, engine.get_function_address(SYMBOL_PREFIX + name), signature)
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
