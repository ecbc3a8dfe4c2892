"""Generic types, from descriptors and signatures: `Ljava/util/List<Ljava/lang/String;>;`.

| text | type |
|---|---|
| `B C D F I J S Z V` | primitive |
| `[` type | array |
| `T` name `;` | type variable |
| `L` class `<` arguments `>` (`.` inner class `<` arguments `>`)* `;` | class |
| `*`, `+` type, `-` type, as arguments | wildcard |

Source: Java Virtual Machine Specification, §4.3 and §4.7.9.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from readers.errors import CorruptDataError

PRIMITIVES = {
    "B": "byte", "C": "char", "D": "double", "F": "float", "I": "int", "J": "long", "S": "short",
    "Z": "boolean", "V": "void",
}  # fmt: skip
_CODES = {name: code for code, name in PRIMITIVES.items()}
_MAX_DEPTH = 48  # a signature comes from a user: a hostile one must not exhaust the stack
_MAX_BOUND_DEPTH = 100  # of a type whose variables are replaced
_MAX_NODES = 10_000  # of a type: what is given twice to each superclass would double at each of them
_MAX_PARAMETERS = 255  # Java Virtual Machine Specification, §4.3.3
_SHOWN = 80
_USUAL_LENGTH = 256  # longer ones are not kept: a type of a hostile one is a letter long
OBJECT = "java.lang.Object"


@dataclass(frozen=True, slots=True)
class JavaType:
    """A Java type.

    Attributes:
        name: binary name of the class, or of the primitive; the name of a type variable; `?` of a wildcard without bound.
        arguments: of a class, in order; those of outer classes come first. The component of an array.
        kind: one of `class`, `primitive`, `array`, `variable`, `wildcard`.
        nodes, depth: how many types it consists of, and how many are in one another.

    Raises:
        CorruptDataError: it consists of more types than any code has.
    """

    name: str
    arguments: tuple[JavaType, ...] = ()
    kind: str = "class"
    nodes: int = field(init=False, repr=False, compare=False, default=1)
    depth: int = field(init=False, repr=False, compare=False, default=1)

    def __post_init__(self) -> None:
        if not self.arguments:
            return
        nodes, depth = 1, 1
        for each in self.arguments:
            nodes += each.nodes
            depth = max(depth, each.depth + 1)
        if nodes > _MAX_NODES or depth > _MAX_BOUND_DEPTH:
            raise CorruptDataError(
                f"expected a type of at most {_MAX_NODES} types, {_MAX_BOUND_DEPTH} in one another, found more in {self.name[:_SHOWN]}"
            )
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "depth", depth)

    @property
    def component(self) -> JavaType:
        """The type of the elements of an array, or the bound of a wildcard."""
        return self.arguments[0]

    @property
    def class_name(self) -> str:
        """The name that `Class#getName` returns; for variables and wildcards that of `Object`."""
        if self.kind == "array":
            inner = self.component
            if inner.kind == "array":
                return f"[{inner.class_name}"
            return f"[{_CODES[inner.name]}" if inner.kind == "primitive" else f"[L{inner.class_name};"
        return self.name if self.kind in ("class", "primitive") else OBJECT

    @property
    def is_generic(self) -> bool:
        """True if type variables are left in it."""
        return self.kind == "variable" or any(argument.is_generic for argument in self.arguments)

    def __str__(self) -> str:
        if self.kind == "array":
            return f"{self.component}[]"
        if self.kind == "wildcard":
            return f"? extends {self.component}" if self.arguments else "?"
        inner = ", ".join(map(str, self.arguments))
        return f"{self.name}<{inner}>" if inner else self.name

    def bound(self, variables: Mapping[str, JavaType]) -> JavaType:
        """Return the type with its type variables replaced."""
        if self.kind == "variable":
            return variables.get(self.name, self)
        if not self.arguments or not variables:
            return self
        return replace(self, arguments=tuple(argument.bound(variables) for argument in self.arguments))


@dataclass(frozen=True, slots=True)
class ClassSignature:
    """The signature of a class: its type parameters with their first bounds, and its supertypes."""

    parameters: tuple[tuple[str, JavaType | None], ...]
    superclass: JavaType
    interfaces: tuple[JavaType, ...]


@dataclass(frozen=True, slots=True)
class MethodSignature:
    """The types of the parameters of a method, and of what it returns."""

    parameters: tuple[JavaType, ...]
    returns: JavaType


def class_type(name: str) -> JavaType:
    """Return the type of a class by the name that `Class#getName` returns; arrays among them."""
    if name.startswith("["):
        return type_of(name.replace(".", "/"))
    return JavaType(name)


def type_of(text: str) -> JavaType:
    """Return the type of a field, from its descriptor or its signature.

    Raises:
        CorruptDataError: it is none.
    """
    reader = _Reader(text)
    found = reader.type(0)
    reader.expect_end()
    return found


def method_signature(text: str) -> MethodSignature:
    """Return the types of a method, from its descriptor or its signature.

    Raises:
        CorruptDataError: it is none.
    """
    return _usual_signature(text) if len(text) <= _USUAL_LENGTH else _read_signature(text)


@lru_cache(maxsize=2048)
def _usual_signature(text: str) -> MethodSignature:
    """Return `_read_signature`. A class file refers to the same few methods again and again."""
    return _read_signature(text)


def _read_signature(text: str) -> MethodSignature:
    reader = _Reader(text)
    reader.formal_parameters()
    return reader.method()


def class_signature(text: str) -> ClassSignature:
    """Return the type parameters and supertypes of a class, from its signature.

    Raises:
        CorruptDataError: it is none.
    """
    reader = _Reader(text)
    parameters = reader.formal_parameters()
    superclass = reader.type(0)
    interfaces = []
    while not reader.is_at_end():
        interfaces.append(reader.type(0))
    return ClassSignature(parameters, superclass, tuple(interfaces))


class _Reader:
    """Reads types from a text, in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def is_at_end(self) -> bool:
        return self._position >= len(self._text)

    def expect_end(self) -> None:
        if not self.is_at_end():
            raise self._unexpected("the end of the type")

    def type(self, depth: int) -> JavaType:
        """Read a type."""
        if depth > _MAX_DEPTH:
            raise self._unexpected(f"at most {_MAX_DEPTH} types in one another")
        code = self._next("a type")
        if code in PRIMITIVES:
            return JavaType(PRIMITIVES[code], kind="primitive")
        if code == "[":
            return JavaType("[]", (self.type(depth + 1),), "array")
        if code == "T":
            return JavaType(self._until(";"), kind="variable")
        if code == "L":
            return self._class(depth)
        self._position -= 1
        raise self._unexpected("a type")

    def method(self) -> MethodSignature:
        """Read `(parameters) result`; what the method throws is not needed."""
        self._expect("(")
        parameters: list[JavaType] = []
        while self._peek() != ")":
            if len(parameters) == _MAX_PARAMETERS:
                raise self._unexpected(f"at most {_MAX_PARAMETERS} parameters")
            parameters.append(self.type(0))
        self._position += 1
        return MethodSignature(tuple(parameters), self.type(0))

    def formal_parameters(self) -> tuple[tuple[str, JavaType | None], ...]:
        """Read `<T:bound:bound…>`, if it comes."""
        if self._peek() != "<":
            return ()
        self._position += 1
        parameters: list[tuple[str, JavaType | None]] = []
        while self._peek() != ">":
            name = self._until(":")
            bound = None if self._peek() in (":", ">") else self.type(0)
            while self._peek() == ":":
                self._position += 1
                other = self.type(0)
                bound = bound or other
            parameters.append((name, bound))
        self._position += 1
        return tuple(parameters)

    def _class(self, depth: int) -> JavaType:
        name = ""
        arguments: list[JavaType] = []
        start = self._position
        while True:
            code = self._next("; behind a class")
            if code in "<;.":
                name += self._text[start : self._position - 1].replace("/", ".")
            if code == ";":
                return JavaType(name, tuple(arguments))
            if code == "<":
                while self._peek() != ">":
                    arguments.append(self._argument(depth + 1))
                self._position += 1
                start = self._position
            elif code == ".":
                name += "$"
                start = self._position

    def _argument(self, depth: int) -> JavaType:
        code = self._peek()
        if code == "*":
            self._position += 1
            return JavaType("?", kind="wildcard")
        if code in "+-":
            self._position += 1
            bound = self.type(depth)
            # `? super X` may hold any object.
            return JavaType("?", (bound,) if code == "+" else (), "wildcard")
        return self.type(depth)

    def _peek(self) -> str:
        if self.is_at_end():
            raise self._unexpected("more of a type")
        return self._text[self._position]

    def _next(self, expected: str) -> str:
        if self.is_at_end():
            raise self._unexpected(expected)
        self._position += 1
        return self._text[self._position - 1]

    def _expect(self, sign: str) -> None:
        if self._next(sign) != sign:
            self._position -= 1
            raise self._unexpected(sign)

    def _until(self, sign: str) -> str:
        end = self._text.find(sign, self._position)
        if end < 0:
            raise self._unexpected(sign)
        name = self._text[self._position : end]
        self._position = end + 1
        return name

    def _unexpected(self, expected: str) -> CorruptDataError:
        found = self._text[self._position : self._position + _SHOWN] or "the end"
        return CorruptDataError(
            f"expected {expected}, found {found!r} at character {self._position + 1} of the type {self._text[:_SHOWN]!r}"
        )
