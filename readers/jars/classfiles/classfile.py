"""One class file.

    u4 CAFEBABE, u2 minor, u2 major, constants, u2 access, u2 class, u2 superclass, u2 interfaces…, fields, methods, attributes

Source: Java Virtual Machine Specification, §4.1 to §4.7, major versions 45 (JDK 1.1) to 69 (JDK 25). Attributes that
nobody asks for are skipped by their lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from readers.cursor import Cursor
from readers.errors import UnsupportedVersionError
from readers.jars.classfiles import signatures
from readers.jars.classfiles.constantpool import INTEGER, ConstantPool, Member

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


def _field(cursor: Cursor, pool: ConstantPool) -> ClassField:
    access, name, descriptor = cursor.u2(), pool.text(cursor.u2()), pool.text(cursor.u2())
    attributes = _attributes(cursor, pool)
    return ClassField(
        name=name,
        descriptor=descriptor,
        signature=_signature(attributes, pool),
        access=access,
        annotations=_annotations(attributes, pool),
    )


def _method(cursor: Cursor, pool: ConstantPool) -> ClassMethod:
    access, name, descriptor = cursor.u2(), pool.text(cursor.u2()), pool.text(cursor.u2())
    attributes = _attributes(cursor, pool)
    code = attributes.get("Code")
    return ClassMethod(
        name=name,
        descriptor=descriptor,
        signature=_signature(attributes, pool),
        access=access,
        annotations=_annotations(attributes, pool),
        code=None if code is None else _code(code),
    )


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
