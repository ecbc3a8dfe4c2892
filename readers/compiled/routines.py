"""Routines: what kernels call, as modules declare it. Nothing is compiled here, and nothing heavy is imported."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
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
