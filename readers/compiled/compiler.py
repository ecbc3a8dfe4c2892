"""A unit → object code. The only module that loads numba.

Numba compiles each kernel with what it calls into LLVM's intermediate code; a C function of 64-bit words is put before it, and
all of them are optimised and emitted together. The object file must need nothing but the C library's functions on memory: there
is no numba where it is loaded.
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

from readers.compiled.loading import NOTHING, SYMBOL_PREFIX, TRUTH, WORD, ObjectCode, Signature
from readers.compiled.routines import Alternative, Intrinsic, Subroutine

_PROVIDED = frozenset({"memcpy", "memmove", "memset"})
_WORD = ir.IntType(64)
# No checks and no errors: kernels compare lengths themselves. No reference counts: there is nothing to count.
_OPTIONS = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}


@global_compiler_lock  # type: ignore[untyped-decorator]  # numba has no types
def compiled(unit: str, kernels: Mapping[str, Subroutine]) -> ObjectCode:
    """The object code of kernels; takes seconds.

    Raises:
        numba.core.errors.NumbaError: a kernel is not of the language that numba compiles.
        ValueError: a kernel needs something at run time that is not there.
    """
    context = cpu_target.target_context
    library = context.codegen().create_library(unit)
    module = library.create_ir_module(unit)
    translated = _Translated()
    signatures = {}
    for name, kernel in kernels.items():
        (result,) = translated.of(kernel).overloads.values()
        library.add_linking_library(result.library)
        returns = _add_function(context, module, SYMBOL_PREFIX + name, result.fndesc)
        signatures[name] = Signature(parameters=len(result.signature.args), returns=returns)
    library.add_ir_module(module)
    library.enable_object_caching()
    library.finalize()
    _check_needs(unit, library._final_module)
    return ObjectCode(signatures=signatures, image=bytes(library._get_compiled_object()))


class _Translated:
    """Parts as numba knows them; each once."""

    def __init__(self) -> None:
        self._features = binding.get_host_cpu_features()
        self._known: dict[int, Any] = {}

    def of(self, part: Any) -> Any:
        """The function to be compiled; anything but a part as it is."""
        if isinstance(part, Alternative):
            return self.of(part.chosen(self._features))
        if not isinstance(part, Subroutine | Intrinsic):
            return part
        if id(part) not in self._known:
            made = intrinsic_of(part) if isinstance(part, Intrinsic) else self._function(part)
            self._known[id(part)] = made
        return self._known[id(part)]

    def _function(self, part: Subroutine) -> Any:
        function = part.function
        known = {**function.__globals__, **{name: self.of(value) for name, value in part.references()}}
        copy = python_types.FunctionType(function.__code__, known, function.__name__)
        copy.__module__ = function.__module__
        dispatcher = numba.njit(**_OPTIONS)(copy)  # type: ignore[call-overload]  # not all options are described
        dispatcher.compile((types.int64,) * function.__code__.co_argcount)
        # Once: it would be compiled for each constant that it is given.
        dispatcher.disable_compile()
        return dispatcher


def intrinsic_of(part: Intrinsic) -> Any:
    """An intrinsic as numba has them, for functions that numba compiles by itself."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = part.build(ir, builder, *arguments)
        return found if part.returns else context.get_dummy_value()

    signature = (types.int64 if part.returns else types.void)(*[types.int64] * part.operands)
    # Numba asks for as many parameters as operands.
    if part.operands == 0:

        @intrinsic
        def none(typing_context: Any) -> Any:
            return signature, generate

        return none
    if part.operands == 1:

        @intrinsic
        def one(typing_context: Any, first: Any) -> Any:
            return signature, generate

        return one
    if part.operands == 2:

        @intrinsic
        def two(typing_context: Any, first: Any, second: Any) -> Any:
            return signature, generate

        return two

    @intrinsic
    def three(typing_context: Any, first: Any, second: Any, third: Any) -> Any:
        return signature, generate

    return three


def _add_function(context: Any, module: Any, symbol: str, described: Any) -> int:
    """Put a C function of words before a kernel; what it returns, as `Signature` has it."""
    returns = _returned(described.restype)
    words = [_WORD] * len(described.argtypes)
    convention = context.call_conv
    inner_type = convention.get_function_type(described.restype, described.argtypes)
    inner = ir.Function(module, inner_type, described.llvm_func_name)
    several = [_WORD.as_pointer()] if returns > WORD else []
    result_type = ir.VoidType() if returns == NOTHING or several else _WORD
    outer = ir.Function(module, ir.FunctionType(result_type, [*words, *several]), symbol)
    builder = ir.IRBuilder(outer.append_basic_block())
    _, found = convention.call_function(
        builder, inner, described.restype, described.argtypes, outer.args[: len(words)]
    )
    if several:
        for index in range(returns):
            word = builder.extract_value(found, index)
            builder.store(word, builder.gep(outer.args[-1], [ir.Constant(_WORD, index)]))
    if result_type is not _WORD:
        builder.ret_void()
    else:
        builder.ret(builder.zext(found, _WORD) if returns == TRUTH else found)
    return returns


def _returned(kind: Any) -> int:
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
    needed = {
        function.name
        for function in module.functions
        if function.is_declaration and not function.name.startswith("llvm.")
    }
    if not needed <= _PROVIDED:
        raise ValueError(f"expected {unit} to need nothing at run time, found {sorted(needed - _PROVIDED)}")
