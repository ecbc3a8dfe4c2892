"""What compiled code is made of, as a module declares it; nothing is compiled here, and nothing heavy imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any


class Intrinsic:
    """An operation that LLVM has and Python has not; for compiled code only.

    Args:
        build: given the module `llvmlite.ir`, LLVM's builder and the operands; returns the result, or None.
        operands: how many, all int64.
        returns: whether there is a result, int64.
    """

    def __init__(self, build: Callable[..., Any], operands: int, *, returns: bool = True) -> None:
        self.build = build
        self.operands = operands
        self.returns = returns

    def __call__(self, *operands: int) -> int:
        """What compiled code calls; Python cannot."""
        raise TypeError("expected a call from compiled code, found one from Python")


class Alternative:
    """One part where the processor has a feature, another where not.

    Args:
        feature: as LLVM calls it.
    """

    def __init__(self, feature: str, having: Part, lacking: Part) -> None:
        self.feature = feature
        self.having = having
        self.lacking = lacking

    def __call__(self, *operands: int) -> int:
        """What compiled code calls; Python cannot."""
        raise TypeError("expected a call from compiled code, found one from Python")

    def chosen(self, features: Mapping[str, bool]) -> Part:
        """The part for a processor."""
        return self.having if features.get(self.feature, False) else self.lacking


class Subroutine:
    """A function that kernels call, and Python does not.

    Attributes:
        function: as written; parameters are int64.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        """What compiled code calls; Python cannot."""
        raise TypeError(
            f"expected a call of {self.function.__name__} from compiled code, found one from Python"
        )

    @property
    def unit(self) -> str:
        """The module whose kernels are compiled together."""
        return self.function.__module__

    def references(self) -> Iterator[tuple[str, Any]]:
        """The names that it takes from its module, and what they stand for there."""
        known = self.function.__globals__
        return ((name, known[name]) for name in self.function.__code__.co_names if name in known)


Part = Intrinsic | Alternative | Subroutine


def subroutine(function: Callable[..., Any]) -> Any:
    """A subroutine of this function."""
    assert isinstance(function, FunctionType)
    return Subroutine(function)
