"""Compiled kernels → functions that Python calls.

An image is copied to memory of its own, and the few words in it that are addresses are set. Where there is none, because the
processor or the system is another one, LLVM loads the object file: to import it takes as long as a lookup.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from readers.compiled.linking import Image

NOTHING, TRUTH, WORD = -1, 0, 1
"""The results of a kernel; greater numbers are a tuple of so many words."""

# Of Linux and the BSDs, where object files are ELF; Python's `mmap` has no `mprotect`.
_READ_AND_EXECUTE = 1 | 4
_ADDRESS = struct.Struct("<Q")


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
        code: an image, or an object file where there is no image of it.
    """

    signatures: dict[str, Signature]
    code: Image | bytes


SYMBOL_PREFIX = "savepointdb_"


def load(code: ObjectCode) -> dict[str, Callable[..., Any]]:
    """Load object code and return its functions by name; it stays loaded as long as they live.

    Raises:
        OSError: the system has no memory for it, or allows no code there.
    """
    if isinstance(code.code, Image):
        memory, start = _placed(code.code)
        addresses = {symbol: start + offset for symbol, offset in code.code.entries.items()}
    else:
        names = [SYMBOL_PREFIX + name for name in code.signatures]
        memory, addresses = import_module("readers.compiled.llvm").placed(code.code, names)
    return {
        name: _function(memory, addresses[SYMBOL_PREFIX + name], signature)
        for name, signature in code.signatures.items()
    }


def _placed(image: Image) -> tuple[mmap.mmap, int]:
    """Copy an image to memory that can run, and no longer be written; return it and its address."""
    library = ctypes.CDLL(None, use_errno=True)
    memory = mmap.mmap(-1, len(image.content), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    memory.write(image.content)
    for place in image.inner:
        _ADDRESS.pack_into(memory, place, start + _ADDRESS.unpack_from(memory, place)[0])
    for name, places in image.outer.items():
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        for place in places:
            _ADDRESS.pack_into(memory, place, address)
    if library.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(len(memory)), _READ_AND_EXECUTE):
        error = ctypes.get_errno()
        raise OSError(error, f"compiled code cannot be loaded: {os.strerror(error)}")
    return memory, start


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
