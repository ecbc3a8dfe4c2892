"""A unit → object code. The only module that imports numba.

Numba compiles each kernel, with the routines it calls, into LLVM's intermediate code. A C function of 64-bit words is put
in front of each, and all are optimised and emitted together. The object file may need the C library's functions on memory
and nothing else: there is no numba where it is loaded.
"""

from __future__ import annotations

import types as python_types
from collections.abc import Mapping
from typing import Any

import numba
from llvmlite import binding, ir
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from readers.compiled.routines import (
    NOTHING,
    SYMBOL_PREFIX,
    TRUTH,
    WORD,
    Alternative,
    Intrinsic,
    ObjectCode,
    Signature,
    Subroutine,
)

_PROVIDED = frozenset({"memcpy", "memmove", "memset"})
_WORD = ir.IntType(64)
# No checks and no errors: kernels compare lengths themselves. No reference counts: kernels know no objects.
_OPTIONS = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}


@global_compiler_lock  # type: ignore[untyped-decorator]  # numba has no types
def compile_unit(unit: str, kernels: Mapping[str, Subroutine]) -> ObjectCode:
    """Return the object code of kernels; takes seconds.

    Raises:
        numba.core.errors.NumbaError: a kernel uses what numba cannot compile.
        ValueError: a kernel needs a function at run time that is not there.
    """
    context = cpu_target.target_context
    library = context.codegen().create_library(unit)
    module = library.create_ir_module(unit)
    translation = _Translation()
    signatures = {}
    for name, kernel in kernels.items():
        (result,) = translation.of(kernel).overloads.values()
        library.add_linking_library(result.library)
        returns = _add_function(context, module, SYMBOL_PREFIX + name, result.fndesc)
        signatures[name] = Signature(parameters=len(result.signature.args), returns=returns)
    library.add_ir_module(module)
    library.enable_object_caching()
    library.finalize()
    _check_needs(unit, library._final_module)
    return ObjectCode(signatures=signatures, code=bytes(library._get_compiled_object()))


class _Translation:
    """The routines as functions of numba; each is translated once."""

    def __init__(self) -> None:
        self._features = binding.get_host_cpu_features()
        self._known: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        """Return numba's function for a routine, and any other value unchanged."""
        if isinstance(value, Alternative):
            return self.of(value.choose(self._features))
        if not isinstance(value, Subroutine | Intrinsic):
            return value
        if id(value) not in self._known:
            made = intrinsic_of(value) if isinstance(value, Intrinsic) else self._function(value)
            self._known[id(value)] = made
        return self._known[id(value)]

    def _function(self, routine: Subroutine) -> Any:
        function = routine.function
        known = {**function.__globals__, **{name: self.of(value) for name, value in routine.references()}}
        copy = python_types.FunctionType(function.__code__, known, function.__name__)
        copy.__module__ = function.__module__
        dispatcher = numba.njit(**_OPTIONS)(copy)  # type: ignore[call-overload]  # not all options are described
        dispatcher.compile((types.int64,) * function.__code__.co_argcount)
        # For int64 only: numba would compile it again for each constant that a caller passes.
        dispatcher.disable_compile()
        return dispatcher


def intrinsic_of(routine: Intrinsic) -> Any:
    """Return numba's intrinsic for one of ours; benchmarks use it in functions that numba compiles by itself."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        result = routine.build(ir, builder, *arguments)
        return result if routine.returns else context.get_dummy_value()

    signature = (types.int64 if routine.returns else types.void)(*[types.int64] * routine.operands)
    # Numba counts the parameters of the Python function: there is one function for each number of operands.
    if routine.operands == 0:

        @intrinsic
        def none(typing_context: Any) -> Any:
            return signature, generate

        return none
    if routine.operands == 1:

        @intrinsic
        def one(typing_context: Any, first: Any) -> Any:
            return signature, generate

        return one
    if routine.operands == 2:

        @intrinsic
        def two(typing_context: Any, first: Any, second: Any) -> Any:
            return signature, generate

        return two

    @intrinsic
    def three(typing_context: Any, first: Any, second: Any, third: Any) -> Any:
        return signature, generate

    return three


def _add_function(context: Any, module: Any, symbol: str, described: Any) -> int:
    """Put a C function of words in front of a kernel; return its result as in `Signature`."""
    returns = _returned(described.restype)
    words = [_WORD] * len(described.argtypes)
    convention = context.call_conv
    inner_type = convention.get_function_type(described.restype, described.argtypes)
    inner = ir.Function(module, inner_type, described.llvm_func_name)
    several = [_WORD.as_pointer()] if returns > WORD else []
    result_type = ir.VoidType() if returns == NOTHING or several else _WORD
    outer = ir.Function(module, ir.FunctionType(result_type, [*words, *several]), symbol)
    builder = ir.IRBuilder(outer.append_basic_block())
    _, result = convention.call_function(
        builder, inner, described.restype, described.argtypes, outer.args[: len(words)]
    )
    if several:
        for index in range(returns):
            word = builder.extract_value(result, index)
            builder.store(word, builder.gep(outer.args[-1], [ir.Constant(_WORD, index)]))
    if result_type is not _WORD:
        builder.ret_void()
    else:
        builder.ret(builder.zext(result, _WORD) if returns == TRUTH else result)
    return returns


def _returned(kind: Any) -> int:
    """Return numba's type of a result as `Signature` has it."""
    if kind == types.none:
        return NOTHING
    if kind == types.boolean:
        return TRUTH
    if kind == types.int64:
        return WORD
    if isinstance(kind, types.UniTuple) and kind.dtype == types.int64:
        return int(kind.count)
    raise ValueError(f"expected a kernel that returns int64, several, a bool or nothing, found {kind}")


def _check_needs(unit: str, module: Any) -> None:
    # What LLVM itself provides begins with `llvm.`; all else must be found where the code is loaded.
    needed = {
        function.name
        for function in module.functions
        if function.is_declaration and not function.name.startswith("llvm.")
    }
    if not needed <= _PROVIDED:
        raise ValueError(f"expected {unit} to need nothing at run time, found {sorted(needed - _PROVIDED)}")
