"""Abstract values: what is known of an operand when code is interpreted without running it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value of which only the type is known; `descriptor` is empty where not even that is."""

    descriptor: str = ""


@dataclass(frozen=True, slots=True)
class Constant:
    """A text, a number, or null."""

    value: str | int | float | None
    descriptor: str = ""


@dataclass(frozen=True, slots=True)
class ClassValue:
    """`X.class`; the name is that of `Class#getName`."""

    name: str


@dataclass(frozen=True, slots=True)
class StaticField:
    """A static field of a class whose code is not there: `Types.LONG`."""

    owner: str
    name: str


@dataclass(slots=True, eq=False)
class Instance:
    """An object that was made by a constructor.

    Attributes:
        class_name: its class.
        descriptor: of the constructor; empty until that is called.
        arguments: of the constructor.
    """

    class_name: str
    descriptor: str = ""
    arguments: tuple[Value, ...] = ()


@dataclass(slots=True, eq=False)
class ArrayValue:
    """An array with the elements that were stored at constant indexes; `length` is None where it is not known."""

    length: int | None
    elements: dict[int, Value] = field(default_factory=dict)

    def items(self) -> tuple[Value, ...] | None:
        """Return all elements; None if some are not known."""
        if self.length is None or len(self.elements) != self.length:
            return None
        return tuple(self.elements[index] for index in range(self.length))


@dataclass(slots=True, eq=False)
class Call:
    """A call, and the value that it returned.

    Attributes:
        owner, name, descriptor: the method.
        receiver: None of a static method.
        arguments: in order.
        caller: class and method that the call is in.
        is_conditional: the code goes round it, in some cases, after its receiver was made.
    """

    owner: str
    name: str
    descriptor: str
    receiver: Value | None
    arguments: tuple[Value, ...]
    caller: str
    is_conditional: bool = False


@dataclass(frozen=True, slots=True)
class Lambda:
    """A lambda, or a reference to a method: the method that it runs, and the types that it runs it with."""

    owner: str
    name: str
    descriptor: str
    bound: str


Value: TypeAlias = Unknown | Constant | ClassValue | StaticField | Instance | ArrayValue | Call | Lambda

NULL = Constant(None)
ANYTHING = Unknown()
# The descriptor of an argument of a method that is read by itself: its calls give it other values.
PARAMETER = "P"
_MAX_BOXES = 8


def is_wide(value: Value) -> bool:
    """Return whether a value takes two words: of a long or double."""
    if isinstance(value, Unknown | Constant):
        return value.descriptor in ("J", "D")
    return isinstance(value, Call) and value.descriptor.endswith((")J", ")D"))


def constant_of(value: Value | None) -> str | int | float | None:
    """Return the text or number that a value is, in its box too; None if it is none."""
    # Damaged code boxes what is in a box.
    for _ in range(_MAX_BOXES):
        if isinstance(value, Constant):
            return value.value
        is_box = isinstance(value, Call) and value.name == "valueOf" and value.owner.startswith("java.lang.")
        if not isinstance(value, Call) or not is_box or len(value.arguments) != 1:
            return None
        value = value.arguments[0]
    return None


def text_of(value: Value | None) -> str | None:
    """Return the text that a value is; None if it is none."""
    found = constant_of(value)
    return found if isinstance(found, str) else None


def number_of(value: Value | None) -> int | None:
    """Return the integer that a value is; None if it is none."""
    found = constant_of(value)
    return found if isinstance(found, int) else None


def merged(first: Value, second: Value) -> Value:
    """Return what is known where two ways meet."""
    if first is second or first == second:
        return first
    if isinstance(first, Unknown | Constant) and isinstance(second, Unknown | Constant):
        return Unknown(first.descriptor if first.descriptor == second.descriptor else "")
    return Unknown("J" if is_wide(first) and is_wide(second) else "")
