"""Objects of Kryo 2.24 → values of columns: the elements of collections and maps, and the fields of objects, by their types.

| type | classes |
|---|---|
| number, Boolean, String | the class itself, or its primitive type |
| List, Set | collections |
| Map | maps |
| enum, POJO | the class of that name, if its constants or fields are known |
| Kryo | any object: written anew |

A class that a type does not expect is refused: Flink would fail with it, or take it for something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from readers import (
    KryoReader,
    KryoSerializer,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
    PojoSerializer,
    Serializer,
)
from writers.errors import RefusedEditError, UnencodableValueError
from writers.kryo.objects import KryoObject
from writers.kryo.upgrade import written

TypedReader = Callable[[KryoReader, KryoObject | None], Any]
"""Makes the value of a column of an object that a reader has read."""

_Reader = Callable[[KryoReader, KryoObject], Any]

_BASE = "org.apache.flink.api.common.typeutils.base."
_ENUM = _BASE + "EnumSerializer"
_LISTS = frozenset({_BASE + "ListSerializer", _BASE + "SetSerializer"})
_SIMPLE = {
    f"{_BASE}{name}Serializer": frozenset((f"java.lang.{box}", primitive))
    for name, box, primitive in [
        ("Boolean", "Boolean", "boolean"),
        ("Byte", "Byte", "byte"),
        ("Short", "Short", "short"),
        ("Int", "Integer", "int"),
        ("Long", "Long", "long"),
        ("Float", "Float", "float"),
        ("Double", "Double", "double"),
        ("String", "String", "java.lang.String"),
    ]
}


def typed_reader(serializer: Serializer) -> TypedReader:
    """Return what makes values of a type.

    Raises:
        RefusedEditError: objects of Kryo cannot become values of the type.
    """
    if isinstance(serializer, KryoSerializer):
        return written
    if isinstance(serializer, NullableSerializer):
        return typed_reader(serializer.inner)
    read = _reader_of(serializer)
    return lambda reader, value: None if value is None else read(reader, value)


def _reader_of(serializer: Serializer) -> _Reader:
    """Return what makes values of a type that are not null."""
    if serializer.java_class in _LISTS and isinstance(serializer, ListSerializer):
        return _elements(serializer)
    if isinstance(serializer, MapSerializer):
        return _entries(serializer)
    if isinstance(serializer, PojoSerializer):
        return _fields(serializer)
    if serializer.java_class == _ENUM:
        return _constant(serializer)
    if serializer.java_class in _SIMPLE:
        return _simple(serializer)
    raise RefusedEditError(
        f"expected a List, Set or Map of numbers, texts and records to make of objects of Kryo, found {serializer.type_name}"
    )


def _simple(serializer: Serializer) -> _Reader:
    classes = _SIMPLE[serializer.java_class]

    def read(_reader: KryoReader, value: KryoObject) -> Any:
        if value.class_name not in classes:
            raise _unexpected(serializer, value)
        return value.body

    return read


def _elements(serializer: ListSerializer) -> _Reader:
    element = typed_reader(serializer.element)

    def read(reader: KryoReader, value: KryoObject) -> Any:
        if not (isinstance(value.body, tuple) and len(value.body) == 2 and isinstance(value.body[1], list)):
            raise _unexpected(serializer, value)
        return [element(reader, one) for one in value.body[1]]

    return read


def _entries(serializer: MapSerializer) -> _Reader:
    key, item = typed_reader(serializer.key), typed_reader(serializer.value)

    def read(reader: KryoReader, value: KryoObject) -> Any:
        if not (isinstance(value.body, list) and all(isinstance(pair, tuple) for pair in value.body)):
            raise _unexpected(serializer, value)
        return [(key(reader, one), item(reader, other)) for one, other in value.body]

    return read


def _fields(serializer: PojoSerializer) -> _Reader:
    if serializer.registered or serializer.non_registered:
        raise RefusedEditError(f"expected a class without subclasses, found {serializer.pojo_class}")
    readers = {field.name: typed_reader(field.serializer) for field in serializer.fields}

    def read(reader: KryoReader, value: KryoObject) -> Any:
        if value.class_name != serializer.pojo_class or not isinstance(value.body, dict):
            raise _unexpected(serializer, value)
        if value.body.keys() != readers.keys():
            raise UnencodableValueError(
                f"expected the fields {', '.join(readers)} of {value.class_name}, found {', '.join(value.body)}"
            )
        return {name: readers[name](reader, field) for name, field in value.body.items()}

    return read


def _constant(serializer: Serializer) -> _Reader:
    def read(reader: KryoReader, value: KryoObject) -> Any:
        constants = reader.constants(value.class_name)
        if value.class_name != serializer.type_name or not constants:
            raise _unexpected(serializer, value)
        return constants[value.body - 1]

    return read


def _unexpected(serializer: Serializer, value: KryoObject) -> UnencodableValueError:
    return UnencodableValueError(
        f"expected a value of type {serializer.type_name}, found a {value.class_name}"
    )
