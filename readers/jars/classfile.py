"""One class file.

    u4 CAFEBABE, u2 minor, u2 major, constants, u2 access, u2 class, u2 superclass, u2 interfaces…, fields, methods, attributes

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

Source: Java Virtual Machine Specification, §4.1 to §4.7, major versions 45 (JDK 1.1) to 69 (JDK 25). Text of constants is decoded
when it is asked for: most of it never is. Attributes that nobody asks for are skipped by their lengths.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from readers.cursor import Cursor
from readers.errors import CorruptDataError, UnsupportedVersionError
from readers.jars import signatures
from readers.jars.signatures import JavaType

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


MAGIC = 0xCAFEBABE
OLDEST_VERSION, NEWEST_VERSION = 45, 69

PUBLIC, PRIVATE, PROTECTED, STATIC, FINAL = 0x0001, 0x0002, 0x0004, 0x0008, 0x0010
BRIDGE, TRANSIENT, INTERFACE, ABSTRACT, SYNTHETIC, ENUM = 0x0040, 0x0080, 0x0200, 0x0400, 0x1000, 0x4000

_MAX_INSTRUCTION_BYTES = 65_535  # of a method: Java Virtual Machine Specification, §4.7.3
_MAX_NESTED_VALUES = 16  # of annotations in one another

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassMember:
    """What fields and methods have in common; `signature` is that of the generic type, None where it has none."""

    name: str
    descriptor: str
    signature: str | None
    access: int
    annotations: Mapping[str, Mapping[str, object]]

    @property
    def is_static(self) -> bool:
        return bool(self.access & STATIC)

    @property
    def is_public(self) -> bool:
        return bool(self.access & PUBLIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassField(ClassMember):
    """A field."""

    @property
    def type(self) -> signatures.JavaType:
        """Its generic type."""
        return signatures.type_of(self.signature or self.descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The instructions of a method.

    Attributes:
        max_stack: words on the operand stack at most.
        max_locals: words of local variables.
        instructions: the bytes.
        handlers: positions at which handlers of exceptions begin.
    """

    max_stack: int
    max_locals: int
    instructions: bytes
    handlers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassMethod(ClassMember):
    """A method; `code` is None for abstract and native ones."""

    code: Code | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerClass:
    """A nested class that a class file mentions; `outer` is None for local and anonymous ones."""

    name: str
    outer: str | None
    simple_name: str | None
    access: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordComponent:
    """A component of a record."""

    name: str
    descriptor: str
    signature: str | None

    @property
    def type(self) -> signatures.JavaType:
        """Its generic type."""
        return signatures.type_of(self.signature or self.descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapMethod:
    """What binds an `invokedynamic`: a method, and indexes of constants."""

    method: Member
    arguments: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ClassFile:
    """One class, interface, enum or record.

    Attributes:
        name: binary name, with dots and `$`.
        super_name: None of `Object` and of modules.
        version: major version of the format; JDK n writes n + 44.
        record_components: None if it is no record.
        annotations: descriptor of the annotation's class → element → value.
        encloser: the class around it, for local and anonymous classes.
    """

    name: str
    super_name: str | None
    interfaces: tuple[str, ...]
    access: int
    version: int
    signature: str | None
    fields: tuple[ClassField, ...]
    methods: tuple[ClassMethod, ...]
    inner_classes: tuple[InnerClass, ...]
    record_components: tuple[RecordComponent, ...] | None
    annotations: Mapping[str, Mapping[str, object]]
    encloser: str | None
    bootstrap_methods: tuple[BootstrapMethod, ...]
    constants: ConstantPool = field(repr=False, compare=False)

    @property
    def is_enum(self) -> bool:
        return bool(self.access & ENUM)

    @property
    def is_record(self) -> bool:
        return self.record_components is not None

    @property
    def is_final(self) -> bool:
        return bool(self.access & FINAL)

    @cached_property
    def own_entry(self) -> InnerClass | None:
        """The record of the class as a nested one; None if it stands on its own."""
        return next((inner for inner in self.inner_classes if inner.name == self.name), None)

    @property
    def is_public(self) -> bool:
        """True if it is declared public; the access of the file itself does not tell for a nested class."""
        access = self.own_entry.access if self.own_entry is not None else self.access
        return bool(access & PUBLIC)

    @property
    def is_inner(self) -> bool:
        """True if its objects belong to an object of a class around it."""
        return self.own_entry is not None and not self.own_entry.access & STATIC

    @property
    def enum_constants(self) -> tuple[str, ...]:
        """Names of the constants of an enum, in their order."""
        # javac writes the fields of constants in the order of their declaration.
        return tuple(each.name for each in self.fields if each.access & ENUM)

    @cached_property
    def generics(self) -> signatures.ClassSignature:
        """Its type parameters and generic supertypes."""
        if self.signature is not None:
            return signatures.class_signature(self.signature)
        interfaces = tuple(signatures.class_type(name) for name in self.interfaces)
        return signatures.ClassSignature(
            (), signatures.class_type(self.super_name or signatures.OBJECT), interfaces
        )

    def method(self, name: str, descriptor: str | None = None) -> ClassMethod | None:
        """Return the first method of a name, and of a descriptor if one is given; None if there is none."""
        if descriptor is None:
            return next((each for each in self.methods if each.name == name), None)
        return self._methods.get((name, descriptor))

    @cached_property
    def _methods(self) -> Mapping[tuple[str, str], ClassMethod]:
        return {(each.name, each.descriptor): each for each in reversed(self.methods)}


def read_class(data: bytes | memoryview, path: str | None = None) -> ClassFile:
    """Read a class file.

    Raises:
        CorruptDataError: the bytes contradict the format.
        UnsupportedVersionError: a version of the format that is not known.
    """
    cursor = Cursor(data, path=path)
    magic = int.from_bytes(cursor.read(4, "the magic number"), "big")
    if magic != MAGIC:
        raise cursor.corrupt(f"expected a class file, which begins with {MAGIC:X}, found {magic:08X}", 0)
    cursor.u2()
    version = cursor.u2()
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        raise UnsupportedVersionError(
            f"expected a class file of version {OLDEST_VERSION} to {NEWEST_VERSION}, found {version}",
            path=path,
            position=6,
        )
    pool = ConstantPool(cursor)
    access = cursor.u2()
    name = pool.name(cursor.u2())
    super_name = pool.optional_name(cursor.u2())
    interfaces = tuple(pool.name(cursor.u2()) for _ in range(cursor.u2()))
    fields = tuple(_field(cursor, pool) for _ in range(cursor.u2()))
    methods = tuple(_method(cursor, pool) for _ in range(cursor.u2()))
    attributes = _attributes(cursor, pool)
    enclosing = attributes.get("EnclosingMethod")
    return ClassFile(
        name=name,
        super_name=super_name,
        interfaces=interfaces,
        access=access,
        version=version,
        signature=_signature(attributes, pool),
        fields=fields,
        methods=methods,
        inner_classes=tuple(_list(attributes.get("InnerClasses"), lambda each: _inner_class(each, pool))),
        record_components=(
            tuple(_list(attributes["Record"], lambda each: _component(each, pool)))
            if "Record" in attributes
            else None
        ),
        annotations=_annotations(attributes, pool),
        encloser=pool.name(enclosing.u2()) if enclosing is not None else None,
        bootstrap_methods=tuple(
            _list(attributes.get("BootstrapMethods"), lambda each: _bootstrap_method(each, pool))
        ),
        constants=pool,
    )


def _attributes(cursor: Cursor, pool: ConstantPool) -> dict[str, Cursor]:
    """Read the attributes of a class, field, method or component: name → its bytes."""
    found = {}
    for _ in range(cursor.u2()):
        name = pool.text(cursor.u2())
        length = int.from_bytes(cursor.read(4), "big")
        found[name] = cursor.sub(length, f"the attribute {name}")
    return found


def _signature(attributes: Mapping[str, Cursor], pool: ConstantPool) -> str | None:
    cursor = attributes.get("Signature")
    return None if cursor is None else pool.text(cursor.u2())


def _list(cursor: Cursor | None, read: Callable[[Cursor], T]) -> Iterator[T]:
    """Read a u2 count and that many elements; nothing if the attribute is missing."""
    if cursor is not None:
        for _ in range(cursor.u2()):
            yield read(cursor)


def _member(cursor: Cursor, pool: ConstantPool) -> tuple[dict[str, Any], Mapping[str, Cursor]]:
    """Read what fields and methods have in common, and all attributes."""
    facts: dict[str, Any] = {"access": cursor.u2()}
    facts |= {"name": pool.text(cursor.u2()), "descriptor": pool.text(cursor.u2())}
    attributes = _attributes(cursor, pool)
    facts |= {"signature": _signature(attributes, pool), "annotations": _annotations(attributes, pool)}
    return facts, attributes


def _field(cursor: Cursor, pool: ConstantPool) -> ClassField:
    facts, _ = _member(cursor, pool)
    return ClassField(**facts)


def _method(cursor: Cursor, pool: ConstantPool) -> ClassMethod:
    facts, attributes = _member(cursor, pool)
    code = attributes.get("Code")
    return ClassMethod(**facts, code=None if code is None else _code(code))


def _code(cursor: Cursor) -> Code:
    max_stack, max_locals = cursor.u2(), cursor.u2()
    length = int.from_bytes(cursor.read(4), "big")
    if length > _MAX_INSTRUCTION_BYTES:
        raise cursor.corrupt(
            f"expected at most {_MAX_INSTRUCTION_BYTES} bytes of instructions, found {length}"
        )
    instructions = bytes(cursor.read(length, "instructions"))
    handlers = []
    for _ in range(cursor.u2()):
        cursor.read(4)
        handlers.append(cursor.u2())
        cursor.u2()
    return Code(
        max_stack=max_stack, max_locals=max_locals, instructions=instructions, handlers=tuple(handlers)
    )


def _inner_class(cursor: Cursor, pool: ConstantPool) -> InnerClass:
    return InnerClass(
        name=pool.name(cursor.u2()),
        outer=pool.optional_name(cursor.u2()),
        simple_name=pool.optional_text(cursor.u2()),
        access=cursor.u2(),
    )


def _component(cursor: Cursor, pool: ConstantPool) -> RecordComponent:
    name, descriptor = pool.text(cursor.u2()), pool.text(cursor.u2())
    return RecordComponent(
        name=name, descriptor=descriptor, signature=_signature(_attributes(cursor, pool), pool)
    )


def _bootstrap_method(cursor: Cursor, pool: ConstantPool) -> BootstrapMethod:
    method = pool.handle(cursor.u2())
    return BootstrapMethod(method=method, arguments=tuple(_list(cursor, Cursor.u2)))


def _annotations(attributes: Mapping[str, Cursor], pool: ConstantPool) -> Mapping[str, Mapping[str, object]]:
    return dict(_list(attributes.get("RuntimeVisibleAnnotations"), lambda each: _annotation(each, pool, 0)))


def _annotation(cursor: Cursor, pool: ConstantPool, depth: int) -> tuple[str, Mapping[str, object]]:
    descriptor = pool.text(cursor.u2())
    elements = {}
    for _ in range(cursor.u2()):
        name = pool.text(cursor.u2())
        elements[name] = _element(cursor, pool, depth)
    return descriptor, elements


def _class_type(pool: ConstantPool, index: int) -> signatures.JavaType:
    """Return the type of a class; one that thousands of values refer to is read once."""
    if index not in pool.types:
        pool.types[index] = signatures.type_of(pool.text(index))
    return pool.types[index]


def _element(cursor: Cursor, pool: ConstantPool, depth: int) -> object:
    """Read a value: a constant, the name of an enum's constant, the type of a class, an annotation, or several."""
    if depth > _MAX_NESTED_VALUES:
        raise cursor.corrupt(
            f"expected at most {_MAX_NESTED_VALUES} values of annotations in one another, found more"
        )
    tag = chr(cursor.u1())
    if tag == "[":
        return tuple(_list(cursor, lambda each: _element(each, pool, depth + 1)))
    if tag == "@":
        return _annotation(cursor, pool, depth + 1)
    if tag == "e":
        cursor.u2()
        return pool.text(cursor.u2())
    if tag == "s":
        return pool.text(cursor.u2())
    if tag == "c":
        return _class_type(pool, cursor.u2())
    index = cursor.u2()
    value = pool.value(index)
    return bool(value) if tag == "Z" and pool.tag(index) == INTEGER else value
