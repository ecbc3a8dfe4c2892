"""Java object streams, parsed and never instantiated.

Flink writes them into the snapshots of SQL types and of Kryo, into the serializers beside the snapshots of 1.2–1.16, and
into operator state of `JavaSerializer`. One stream is the header AC ED 00 05 and, in Flink, one content:

| tag | content | behind it |
|---|---|---|
| 70 71 | null, reference | – / i4 handle |
| 72 | class description | utf name, i8 UID, u1 flags, u2 n, n fields, annotation, superclass (72, 71 or 70) |
| | one of its fields | u1 type, utf name; L and [: a string |
| 73 | object | class description; from the topmost class down: its fields, its annotation if flagged |
| 74 7C | string, long string | utf / i8 length and modified UTF-8 |
| 75 | array | class description, i4 n, n values |
| 76 7E | class, enum constant | class description / class description, string |
| 77 7A | block data | u1 / i4 length, bytes: in annotations only |
| 78 | end of an annotation | |

An annotation holds what a class's own `writeObject` wrote: contents and block data up to 78. Handles number class
descriptions, strings, objects, arrays, classes and enum constants from 0x7E0000 on, in the order of their tags.

Source: Java Object Serialization Specification, section 6.4, protocol version 2.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from readers.errors import CorruptDataError, UnsupportedSerializerError

if TYPE_CHECKING:
    from readers.cursor import Cursor

STREAM_HEADER = b"\xac\xed\x00\x05"

_NULL, _REFERENCE, _CLASS_DESCRIPTION, _OBJECT, _STRING, _ARRAY, _CLASS = range(0x70, 0x77)
_BLOCK, _END_BLOCK, _RESET, _LONG_BLOCK, _EXCEPTION, _LONG_STRING, _PROXY, _ENUM = range(0x77, 0x7F)
_FIRST_HANDLE = 0x7E0000

_WRITE_METHOD, _SERIALIZABLE, _EXTERNALIZABLE, _BLOCK_DATA = 1, 2, 4, 8

# Limits against hostile streams: a content nests three Python calls deep, and a class takes as few as five bytes.
_MAX_DEPTH = 100
_MAX_SUPERCLASSES = 64
_MAX_HANDLES = 1_000_000

_PRIMITIVES = {"B": "b", "C": "H", "D": "d", "F": "f", "I": "i", "J": "q", "S": "h", "Z": "?"}

JavaValue: TypeAlias = (
    "bool | int | float | str | bytes | JavaObject | JavaArray | JavaEnum | JavaClass | None"
)
"""A value in a stream: a char is a `str` of one, block data (in annotations) is `bytes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaField:
    """A field that a class description declares; `type_code` is one of B C D F I J S Z L [."""

    name: str
    type_code: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JavaClass:
    """A class description, and the value of a `java.lang.Class` field.

    Attributes:
        name: the binary name, `[Ljava.lang.String;` for arrays.
        serial_version_uid: its version.
        flags: the `SC_…` bits, which determine how its objects are written.
        fields: those that it declares itself.
        superclasses: the serializable ones, the topmost first.
    """

    name: str
    serial_version_uid: int = field(repr=False)
    flags: int = field(repr=False)
    fields: tuple[JavaField, ...] = field(repr=False)
    superclasses: tuple[JavaClass, ...] = field(repr=False)

    @property
    def hierarchy(self) -> tuple[JavaClass, ...]:
        """The superclasses and the class itself."""
        return (*self.superclasses, self)

    @property
    def is_annotated(self) -> bool:
        """True if an annotation follows the fields."""
        return bool(self.flags & (_WRITE_METHOD | _EXTERNALIZABLE))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JavaLevel:
    """The values that one class of the hierarchy adds to an object: its fields in stream order, its annotation."""

    java_class: JavaClass
    values: tuple[JavaValue, ...] = field(repr=False)
    annotation: tuple[JavaValue, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JavaObject:
    """An object. Objects may refer to each other in circles: equality is identity, the text shows the class.

    Attributes:
        java_class: the object's class.
        levels: one for each class that adds values, the topmost first. Filled while the object is read, because
            its fields may refer back to it.
        position: its offset in the file, for errors.
    """

    java_class: JavaClass
    position: int = field(repr=False)
    levels: list[JavaLevel] = field(default_factory=list, repr=False)

    @property
    def class_name(self) -> str:
        """The binary name of the object's class."""
        return self.java_class.name

    @property
    def fields(self) -> dict[str, JavaValue]:
        """All fields by name; of several with one name that of the lowest subclass."""
        return {
            declared.name: value
            for level in self.levels
            for declared, value in zip(level.java_class.fields, level.values, strict=True)
        }

    def field(self, name: str) -> JavaValue:
        """Return the field `name` of the object's class or of the nearest superclass that has one.

        Raises:
            CorruptDataError: there is none.
        """
        fields = self.fields
        if name not in fields:
            raise CorruptDataError(
                f"expected a field {name} in {self.class_name}, found {', '.join(fields) or 'none'}",
                position=self.position,
            )
        return fields[name]

    @property
    def annotation(self) -> tuple[JavaValue, ...]:
        """Contents and block data that the `writeObject` methods of the hierarchy wrote, in order."""
        return tuple(value for level in self.levels for value in level.annotation)

    def elements(self) -> tuple[JavaValue, ...]:
        """Return the elements of a `java.util` collection; of a map the keys and values in turn.

        Raises:
            UnsupportedSerializerError: not a collection that is known here.
        """
        collection: JavaValue = self
        # A wrapper may hold a wrapper, and a hostile one itself.
        for _ in range(_MAX_DEPTH):
            if isinstance(collection, JavaArray):
                return tuple(collection.values)
            if not isinstance(collection, JavaObject) or collection.class_name not in _COLLECTIONS:
                break
            holder = _COLLECTIONS[collection.class_name]
            if holder is None:
                # The block data of a collection are its sizes and load factors.
                return tuple(value for value in collection.annotation if not isinstance(value, bytes))
            collection = collection.field(holder)
        raise UnsupportedSerializerError(
            f"expected a java.util collection, found {self.class_name}", position=self.position
        )

    def entries(self) -> Iterator[tuple[JavaValue, JavaValue]]:
        """Return the keys and values of a `java.util` map.

        Raises:
            UnsupportedSerializerError: not a map that is known here.
            CorruptDataError: a key without a value.
        """
        flat = self.elements()
        if len(flat) % 2:
            raise CorruptDataError(
                f"expected pairs in {self.class_name}, found {len(flat)} keys and values",
                position=self.position,
            )
        return zip(flat[::2], flat[1::2], strict=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JavaArray:
    """An array: `values` is `bytes` for `byte[]`, a list (filled while the array is read) for every other."""

    java_class: JavaClass
    values: Sequence[JavaValue] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JavaEnum:
    """An enum constant."""

    java_class: JavaClass
    constant: str


def read_object(cursor: Cursor) -> JavaValue:
    """Read the one content of a stream; the cursor then stands behind it.

    Raises:
        CorruptDataError: not a Java object stream, or a broken one.
        UnsupportedSerializerError: proxies, resets, old externalizables, which no stream of Flink holds.
    """
    start = cursor.position
    header = bytes(cursor.read(len(STREAM_HEADER), "Java stream header"))
    if header != STREAM_HEADER:
        raise cursor.corrupt(f"expected a Java object stream, found {header.hex()}", start)
    return _Stream(cursor).content(0)


class _Stream:
    """One stream with its handles; the `depth` of its methods counts the contents around the one that is read."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.handles: list[JavaValue] = []  # None until a class, enum or array can be referred to
        self._levels: dict[JavaClass, list[JavaClass]] = {}

    def content(self, depth: int) -> JavaValue:
        start = self.cursor.position
        tag = self.cursor.u1()
        if depth > _MAX_DEPTH:
            raise self.cursor.corrupt(f"Java objects nest deeper than {_MAX_DEPTH} levels", start)
        read = _CONTENTS.get(tag)
        if read is None:
            raise self._unexpected(tag, start)
        return read(self, depth + 1)

    def null(self, _depth: int) -> None:
        return None

    def reference(self, _depth: int) -> JavaValue:
        start = self.cursor.position
        index = self.cursor.i4() - _FIRST_HANDLE
        if not 0 <= index < len(self.handles):
            raise self.cursor.corrupt(f"expected one of {len(self.handles)} handles, found {index}", start)
        value = self.handles[index]
        if value is None:
            raise self.cursor.corrupt(
                f"expected a value that is complete, found handle {index} inside itself", start
            )
        return value

    def string(self, _depth: int) -> str:
        text = self.cursor.utf("Java string")
        self._handle(text)
        return text

    def long_string(self, _depth: int) -> str:
        text = self.cursor.modified_utf8(self.cursor.i8(), "Java string")
        self._handle(text)
        return text

    def class_object(self, depth: int) -> JavaClass:
        java_class = self._class(depth)
        self._handle(java_class)
        return java_class

    def enum(self, depth: int) -> JavaEnum:
        java_class = self._class(depth)
        handle = self._handle(None)
        constant = self._text(depth)
        value = JavaEnum(java_class=java_class, constant=constant)
        self.handles[handle] = value
        return value

    def array(self, depth: int) -> JavaArray:
        start = self.cursor.position
        java_class = self._class(depth)
        if len(java_class.name) < 2 or java_class.name[0] != "[":
            raise self.cursor.corrupt(f"expected an array class, found {java_class.name}", start)
        handle = self._handle(None)
        count = self.cursor.count("array elements")
        element = java_class.name[1]
        if element in _PRIMITIVES:
            self.handles[handle] = array = JavaArray(
                java_class=java_class,
                values=bytes(self.cursor.read(count)) if element == "B" else self._primitives(element, count),
            )
            return array
        values: list[JavaValue] = []
        self.handles[handle] = array = JavaArray(java_class=java_class, values=values)
        for _ in range(count):
            values.append(self.content(depth))
        return array

    def object(self, depth: int) -> JavaObject:
        start = self.cursor.position - 1
        value = JavaObject(java_class=self._class(depth), position=start)
        # It has its handle before its fields are read: they may refer back to it.
        self._handle(value)
        for java_class in self._levels[value.java_class]:
            value.levels.append(self._level(java_class, depth))
        return value

    def class_description(self, depth: int) -> JavaClass:
        name = self.cursor.utf("Java class")
        uid = self.cursor.i8()
        handle = self._handle(None)
        flags = self.cursor.u1()
        fields = tuple(self._declared_field(depth) for _ in range(self.cursor.u2()))
        self._annotation(depth)
        superclass = self._optional_class(depth)
        superclasses = () if superclass is None else superclass.hierarchy
        if len(superclasses) > _MAX_SUPERCLASSES:
            raise self.cursor.corrupt(f"expected at most {_MAX_SUPERCLASSES} superclasses of {name}")
        java_class = JavaClass(
            name=name, serial_version_uid=uid, flags=flags, fields=fields, superclasses=superclasses
        )
        # An object visits only the classes that add bytes: the work stays in proportion to the bytes.
        self._levels[java_class] = [c for c in java_class.hierarchy if c.fields or c.is_annotated]
        self.handles[handle] = java_class
        return java_class

    def _class(self, depth: int) -> JavaClass:
        start = self.cursor.position
        java_class = self._optional_class(depth)
        if java_class is None:
            raise self.cursor.corrupt("expected a Java class, found null", start)
        return java_class

    def _optional_class(self, depth: int) -> JavaClass | None:
        start = self.cursor.position
        value = self.content(depth)
        if value is not None and not isinstance(value, JavaClass):
            raise self.cursor.corrupt(f"expected a Java class, found {type(value).__name__}", start)
        return value

    def _text(self, depth: int) -> str:
        start = self.cursor.position
        value = self.content(depth)
        if not isinstance(value, str):
            raise self.cursor.corrupt(f"expected a Java string, found {type(value).__name__}", start)
        return value

    def _declared_field(self, depth: int) -> JavaField:
        start = self.cursor.position
        type_code = chr(self.cursor.u1())
        name = self.cursor.utf("Java field")
        # The class of the field follows. It is not needed: each value names its own class.
        if type_code in "L[":
            self._text(depth)
        elif type_code not in _PRIMITIVES:
            raise self.cursor.corrupt(f"expected a Java type code, found {type_code!r}", start)
        return JavaField(name=name, type_code=type_code)

    def _level(self, java_class: JavaClass, depth: int) -> JavaLevel:
        flags = java_class.flags
        if flags & _EXTERNALIZABLE and not flags & _BLOCK_DATA:
            raise UnsupportedSerializerError(
                f"expected Java stream protocol 2, found the externalizable {java_class.name} of protocol 1",
                path=self.cursor.path,
                position=self.cursor.position,
            )
        if java_class.fields and not flags & _SERIALIZABLE:
            raise self.cursor.corrupt(f"expected no fields of {java_class.name}, which is not serializable")
        values: list[JavaValue] = []
        for declared in java_class.fields:
            if declared.type_code in _PRIMITIVES:
                values.extend(self._primitives(declared.type_code, 1))
            else:
                values.append(self.content(depth))
        annotation = self._annotation(depth) if java_class.is_annotated else ()
        return JavaLevel(java_class=java_class, values=tuple(values), annotation=annotation)

    def _primitives(self, type_code: str, count: int) -> list[JavaValue]:
        layout = struct.Struct(f">{count}{_PRIMITIVES[type_code]}")
        values = layout.unpack(self.cursor.read(layout.size, "Java primitives"))
        return [chr(value) for value in values] if type_code == "C" else list(values)

    def _annotation(self, depth: int) -> tuple[JavaValue, ...]:
        """Read contents and block data up to the end mark; adjacent blocks become one, as in Java's reader."""
        values: list[JavaValue] = []
        block = bytearray()
        while True:
            tag = self._peek()
            if tag == _BLOCK:
                self.cursor.u1()
                block += self.cursor.read(self.cursor.u1(), "block data")
            elif tag == _LONG_BLOCK:
                self.cursor.u1()
                block += self.cursor.read(self.cursor.i4(), "block data")
            else:
                if block:
                    values.append(bytes(block))
                    block.clear()
                if tag == _END_BLOCK:
                    self.cursor.u1()
                    return tuple(values)
                values.append(self.content(depth))

    def _peek(self) -> int:
        tag = self.cursor.u1()
        self.cursor.position -= 1
        return tag

    def _handle(self, value: JavaValue) -> int:
        if len(self.handles) >= _MAX_HANDLES:
            raise self.cursor.corrupt(f"expected at most {_MAX_HANDLES} Java handles")
        self.handles.append(value)
        return len(self.handles) - 1

    def _unexpected(self, tag: int, start: int) -> CorruptDataError | UnsupportedSerializerError:
        message = f"expected a content of a Java stream, found tag {tag:#x}"
        if tag in (_RESET, _EXCEPTION, _PROXY):
            return UnsupportedSerializerError(message, path=self.cursor.path, position=start)
        return self.cursor.corrupt(message, start)


_CONTENTS: dict[int, Callable[[_Stream, int], JavaValue]] = {
    _NULL: _Stream.null,
    _REFERENCE: _Stream.reference,
    _CLASS_DESCRIPTION: _Stream.class_description,
    _OBJECT: _Stream.object,
    _STRING: _Stream.string,
    _ARRAY: _Stream.array,
    _CLASS: _Stream.class_object,
    _LONG_STRING: _Stream.long_string,
    _ENUM: _Stream.enum,
}

# Class → the field that holds the elements as another collection; None if they are in the annotation.
_IN_ANNOTATION = (
    "ArrayList LinkedList HashSet LinkedHashSet HashMap LinkedHashMap TreeMap CollSer Collections$EmptyList "
    "Collections$EmptyMap"
)
_COLLECTIONS: dict[str, str | None] = {
    **{f"java.util.{name}": None for name in _IN_ANNOTATION.split()},
    "java.util.Arrays$ArrayList": "a",
    **{
        f"java.util.Collections$Unmodifiable{name}": "c"
        for name in ("Collection", "List", "RandomAccessList", "Set")
    },
    "java.util.Collections$UnmodifiableMap": "m",
}
