"""`kernel`: a function of Python that runs as machine code, compiled when it is first called or long before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

from readers.compiled.routines import Subroutine


class Kernel(Subroutine):
    """A function that Python calls; takes numbers, and arrays by their address."""

    _loading = threading.Lock()

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function)
        self._call: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Run it, without the interpreter's lock.

        Raises:
            ValueError: an array that is not in one piece.
        """
        call = self._call or self.load()
        return call(*[value if type(value) is int else _word(value) for value in arguments])

    def load(self) -> Callable[..., Any]:
        """Have it compiled and loaded, with the other kernels of its unit; the function itself."""
        with Kernel._loading:
            if self._call is None:
                kernels = self.siblings()
                # Here, not at the top: LLVM takes longer to load than much that runs without a kernel.
                functions = import_module("readers.compiled.store").functions_of(self.unit, kernels)
                for name, kernel in kernels.items():
                    kernel._call = functions[name]
            call = self._call
        assert call is not None
        return call

    def siblings(self) -> dict[str, Kernel]:
        """The kernels of its unit, by name."""
        return {
            value.function.__name__: value
            for value in self.function.__globals__.values()
            if isinstance(value, Kernel) and value.unit == self.unit
        }


def kernel(function: Callable[..., Any]) -> Any:
    """A kernel of this function: parameters are int64, and it returns an int64, several, a bool or nothing."""
    assert isinstance(function, FunctionType)
    return Kernel(function)


def _word(value: Any) -> int:
    """The address of an array; a number as it is."""
    if not isinstance(value, np.ndarray):
        return int(value)
    if not value.flags.c_contiguous:
        raise ValueError(
            f"expected an array in one piece, found one of shape {value.shape} and strides {value.strides}"
        )
    return int(value.__array_interface__["data"][0])
