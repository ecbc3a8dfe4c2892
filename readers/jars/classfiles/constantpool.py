"""The constant pool of a class file.

| tag | constant | bytes |
|---|---|---|
| 1 | Utf8 | u2 length, modified UTF-8 |
| 3 4 | Integer, Float | 4 |
| 5 6 | Long, Double | 8; takes two indexes |
| 7 8 16 19 20 | Class, String, MethodType, Module, Package | u2 index of a Utf8 |
| 9 10 11 | Fieldref, Methodref, InterfaceMethodref | u2 class, u2 name and type |
| 12 | NameAndType | u2 name, u2 descriptor |
| 15 | MethodHandle | u1 kind, u2 reference |
| 17 18 | Dynamic, InvokeDynamic | u2 bootstrap method, u2 name and type |

Source: Java Virtual Machine Specification, §4.4. Text is decoded when it is asked for: most of it never is.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass

from readers.cursor import Cursor
from readers.errors import CorruptDataError
from readers.jars.classfiles.signatures import JavaType

UTF8, INTEGER, FLOAT, LONG, DOUBLE, CLASS, STRING = 1, 3, 4, 5, 6, 7, 8
FIELD, METHOD, INTERFACE_METHOD, NAME_AND_TYPE = 9, 10, 11, 12
METHOD_HANDLE, METHOD_TYPE, DYNAMIC, INVOKE_DYNAMIC, MODULE, PACKAGE = 15, 16, 17, 18, 19, 20

TWO_INDEXES = (LONG, DOUBLE)
_MEMBERS = (FIELD, METHOD, INTERFACE_METHOD)
SIZES = {
    **dict.fromkeys(
        (INTEGER, FLOAT, FIELD, METHOD, INTERFACE_METHOD, NAME_AND_TYPE, DYNAMIC, INVOKE_DYNAMIC), 4
    ),
    **dict.fromkeys((LONG, DOUBLE), 8),
    **dict.fromkeys((CLASS, STRING, METHOD_TYPE, MODULE, PACKAGE), 2),
    METHOD_HANDLE: 3,
}
"""Bytes of a constant behind its tag; those of a text follow its length."""

_NUMBERS = {INTEGER: ">i", FLOAT: ">f", LONG: ">q", DOUBLE: ">d"}


@dataclass(frozen=True, slots=True)
class Member:
    """A field or method that code refers to; `owner` is empty in a call that is bound when it runs."""

    owner: str
    name: str
    descriptor: str


@dataclass(frozen=True, slots=True)
class ClassConstant:
    """`X.class` in code: the binary name of a class, or the descriptor of an array."""

    name: str


class ConstantPool:
    """The constants of one class, by their indexes.

    Args:
        cursor: at the count of constants; it moves behind the last one.

    Attributes:
        types: the descriptors that were read, by their indexes.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._data = cursor.data
        self._path = cursor.path
        count = cursor.u2()
        self._tags = bytearray(max(count, 1))
        self._positions = array("I", bytes(4 * max(count, 1)))
        # A long text that thousands of members refer to is one text.
        self._texts: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self.types: dict[int, JavaType] = {}
        # A large jar has millions of constants: the loop reads bytes itself, and checks the end behind each constant.
        data, end, position, index = self._data, cursor.end, cursor.position, 1
        while index < count and position + 2 < end:
            tag = data[position]
            self._tags[index] = tag
            self._positions[index] = position + 1
            if tag == UTF8:
                position += 3 + (data[position + 1] << 8 | data[position + 2])
            elif tag in SIZES:
                position += 1 + SIZES[tag]
            else:
                raise cursor.corrupt(f"expected the tag of a constant, found {tag}", position)
            index += 2 if tag in TWO_INDEXES else 1
        if index < count or position > end:
            raise cursor.corrupt(
                f"expected {count - 1} constants, found the end of the file", min(position, end)
            )
        cursor.position = position

    def text(self, index: int) -> str:
        """Return a Utf8 constant."""
        found = self._texts.get(index)
        if found is None:
            found = self._texts[index] = self._cursor(index, UTF8).utf()
        return found

    def name(self, index: int) -> str:
        """Return the class of a Class constant by its binary name, with dots."""
        found = self._names.get(index)
        if found is None:
            found = self._names[index] = self._named(index, (CLASS,)).replace("/", ".")
        return found

    def optional_name(self, index: int) -> str | None:
        """Return the class of a Class constant; None at index 0."""
        return self.name(index) if index else None

    def optional_text(self, index: int) -> str | None:
        """Return a Utf8 constant; None at index 0."""
        return self.text(index) if index else None

    def tag(self, index: int) -> int:
        """Return the tag of a constant; 0 where there is none."""
        return self._tags[index] if 0 < index < len(self._tags) else 0

    def value(self, index: int) -> str | int | float | ClassConstant | None:
        """Return what `ldc` loads: text, a number, or a class; None for other constants."""
        tag = self.tag(index)
        if tag == STRING:
            return self._named(index, (STRING,))
        if tag == CLASS:
            return ClassConstant(self.name(index))
        if tag in _NUMBERS:
            at = self._positions[index]
            number: int | float = struct.unpack_from(_NUMBERS[tag], self._data, at)[0]
            return number
        return None

    def member(self, index: int) -> Member:
        """Return a field or method that code refers to."""
        cursor = self._cursor(index, *_MEMBERS)
        owner = self.name(cursor.u2())
        return Member(owner, *self._name_and_type(cursor.u2()))

    def dynamic(self, index: int) -> tuple[int, Member]:
        """Return the bootstrap method of an `invokedynamic`, and the name and type of the call."""
        cursor = self._cursor(index, INVOKE_DYNAMIC, DYNAMIC)
        bootstrap = cursor.u2()
        return bootstrap, Member("", *self._name_and_type(cursor.u2()))

    def method_type(self, index: int) -> str:
        """Return the descriptor of a MethodType constant."""
        return self._named(index, (METHOD_TYPE,))

    def handle(self, index: int) -> Member:
        """Return the method that a MethodHandle refers to."""
        cursor = self._cursor(index, METHOD_HANDLE)
        cursor.u1()
        return self.member(cursor.u2())

    def texts(self) -> list[str]:
        """Return the text of all String constants, in their order."""
        return [self._named(index, (STRING,)) for index, tag in enumerate(self._tags) if tag == STRING]

    def classes(self) -> list[str]:
        """Return the binary names of all Class constants, in their order."""
        return [self.name(index) for index, tag in enumerate(self._tags) if tag == CLASS]

    def _named(self, index: int, tags: tuple[int, ...]) -> str:
        return self.text(self._cursor(index, *tags).u2())

    def _name_and_type(self, index: int) -> tuple[str, str]:
        cursor = self._cursor(index, NAME_AND_TYPE)
        name = cursor.u2()
        return self.text(name), self.text(cursor.u2())

    def _cursor(self, index: int, *tags: int) -> Cursor:
        """Return a cursor at the bytes of a constant of one of some tags."""
        if self.tag(index) not in tags:
            raise CorruptDataError(
                f"expected a constant of tag {' or '.join(map(str, tags))} at index {index}, found {self.tag(index)}",
                path=self._path,
            )
        return Cursor(self._data, path=self._path, position=self._positions[index])
