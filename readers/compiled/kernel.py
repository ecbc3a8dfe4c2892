"""`kernel`: a Python function that runs as machine code, compiled ahead of time or at its first call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

from readers.compiled.routines import Subroutine


class Kernel(Subroutine):
    """A function that Python calls with numbers and arrays, and that takes the address of each array."""

    _loading = threading.Lock()

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function)
        self._call: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Run it, without the interpreter's lock.

        Raises:
            ValueError: an array is not in one piece.
        """
        call = self._call or self.load()
        return call(*[value if type(value) is int else _word(value) for value in arguments])

    def load(self) -> Callable[..., Any]:
        """Load it with the other kernels of its unit, compile them if need be, and return the function."""
        with Kernel._loading:
            if self._call is None:
                kernels = self.siblings()
                # Not at the top of this file: many commands run without a kernel. What it imports does not import this file.
                functions = import_module("readers.compiled.store").functions_of(self.unit, kernels)
                for name, kernel in kernels.items():
                    kernel._call = functions[name]
            call = self._call
        assert call is not None
        return call

    def siblings(self) -> dict[str, Kernel]:
        """Return the kernels of its unit, by name."""
        return {
            value.function.__name__: value
            for value in self.function.__globals__.values()
            if isinstance(value, Kernel) and value.unit == self.unit
        }


def kernel(function: Callable[..., Any]) -> Any:
    """Declare a function to be a kernel (decorator): it takes int64, and returns one or several int64, a bool or None."""
    assert isinstance(function, FunctionType)
    return Kernel(function)


def _word(value: Any) -> int:
    """Return the address of an array, or a number unchanged."""
    if not isinstance(value, np.ndarray):
        return int(value)
    # The kernel computes positions from the shape alone: it knows no strides.
    if not value.flags.c_contiguous:
        raise ValueError(
            f"expected an array in one piece, found one of shape {value.shape} and strides {value.strides}"
        )
    return int(value.__array_interface__["data"][0])
