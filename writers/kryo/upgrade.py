"""Values of Kryo 2.24 (Flink 1.x): read as objects, and written as Kryo 5 (Flink 2.x) writes them, or as values of columns.

Flink takes both versions for the same serializer and converts nothing: what Kryo 5 makes of older bytes is luck.

The elements of collections and maps, and the fields of objects, become values of columns by their types:

| type | classes |
|---|---|
| number, Boolean, String | the class itself, or its primitive type |
| List, Set | collections |
| Map | maps |
| enum, POJO | the class of that name, if its constants or fields are known |
| Kryo | any object: written anew |

A class that a type does not expect is refused: Flink would fail with it, or take it for something else.

`needed_type` is the type that the values of a savepoint need in a new job: what Flink neither migrates nor reads becomes what the job
declares. Objects of Kryo 2 become objects of Kryo 5, or lists, sets and maps; numbers become other numbers, which Flink never does.

Since 2.0 the fields of POJOs that are a `List`, `Set` or `Map`, and type hints of these, have serializers of their own. Which
elements they have stands in the class or in the job, not in the savepoint: the type of the new job must be known for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from readers import (
    KRYO_2_24,
    KRYO_5,
    KryoInput,
    KryoReader,
    KryoSerializer,
    KryoSettings,
    KryoType,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
    PojoSerializer,
    ReaderError,
    RowSerializer,
    Serializer,
    TtlSerializer,
    TupleSerializer,
)
from writers.errors import RefusedEditError, UnencodableValueError
from writers.kryo.bodies import body_of
from writers.kryo.objects import BodyWriter, KryoObject, ObjectWriter

ReaderBody = Callable[[KryoReader, str, tuple[KryoType, ...]], KryoObject]


class KryoValues:
    """The values of one serializer.

    Args:
        settings: its registrations, and facts about classes; of Kryo 2.24.
    """

    def __init__(self, settings: KryoSettings) -> None:
        self._settings = replace(settings, version=KRYO_2_24)

    def upgraded(self, data: bytes) -> bytes:
        """Return a value as Kryo 5 writes it.

        Raises:
            UnencodableValueError: it holds an object of a class that is not known, or of two that refer to each other.
        """
        return written(*self.read(data))

    def read(self, data: bytes) -> tuple[KryoReader, KryoObject | None]:
        """Return a value, None for null, and what has read it.

        Raises:
            UnencodableValueError: see `upgraded`.
        """
        input_ = KryoInput(memoryview(data), KRYO_2_24, position=0, end=len(data))
        reader = _ObjectReader(self._settings, input_, _reading)
        try:
            value = reader.any()
        except ReaderError as error:
            raise UnencodableValueError(
                f"expected an object of Kryo 2 whose classes are known: {error.message}"
            ) from error
        if input_.remaining:
            raise UnencodableValueError(
                f"expected the end of an object of Kryo 2, found {input_.remaining} bytes more"
            )
        return reader, value


def written(reader: KryoReader, value: KryoObject | None) -> bytes:
    """Return a value as Kryo 5 writes it.

    Args:
        reader: what has read it.
        value: the value; None for null.

    Raises:
        UnencodableValueError: what Kryo 5 writes of a class is not known.
    """

    def writing(found: KryoObject) -> BodyWriter:
        body = body_of(reader, found.class_name)
        assert body is not None
        return body.write

    writer = ObjectWriter(reader, writing)
    try:
        writer.any(value)
    except ReaderError as error:
        raise UnencodableValueError(f"expected classes that are known: {error.message}") from error
    return bytes(writer.output.data)


class _ObjectReader(KryoReader):
    """Reads objects that do not refer to themselves."""

    def object(self, class_name: str, arguments: tuple[KryoType, ...] = ()) -> Any:
        found = super().object(class_name, arguments)
        if found is not None and not isinstance(found, KryoObject):
            raise UnencodableValueError(f"expected objects one in another, found a {class_name} in itself")
        return found


def _reading(_reader: KryoReader, class_name: str) -> ReaderBody:
    """Return the function that reads the objects of a class."""

    def read(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> KryoObject:
        body = body_of(reader, class_name)
        if body is None:
            raise reader.unsupported(class_name)
        return KryoObject(class_name, body.read(reader, class_name, arguments))

    return read


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


_NUMBERS = frozenset(
    f"{_BASE}{name}Serializer" for name in ("Byte", "Short", "Int", "Long", "Float", "Double")
)
_INTERFACES = frozenset(("java.util.List", "java.util.Set", "java.util.Map"))


def needed_type(old: Serializer, new: Serializer | None = None, *, is_upgrade: bool = True) -> Serializer:
    """Return the type that values need; the same one if they can stay.

    Args:
        old: the type in the savepoint.
        new: the type that the new job declares; None if that is not known. It decides what becomes of objects of Kryo and of
            numbers; other differences are left to Flink, which migrates them or refuses.
        is_upgrade: from Flink 1.x to 2.x, which reads no objects of Kryo 2.

    Raises:
        RefusedEditError: the new type is not known, or the values cannot become it.
    """

    def needed(inner: Serializer, known: Serializer | None) -> Serializer:
        return needed_type(inner, known, is_upgrade=is_upgrade)

    if isinstance(old, KryoSerializer):
        return _of_objects(old, new) if is_upgrade else old
    if isinstance(old, TtlSerializer):
        return _changed(old, "value", needed(old.value, new.value if isinstance(new, TtlSerializer) else new))
    if isinstance(old, NullableSerializer):
        return _changed(old, "inner", needed(old.inner, _without_nulls(new)))
    if not isinstance(new, NullableSerializer | TtlSerializer):
        known = new
    else:
        known = new.inner if isinstance(new, NullableSerializer) else new.value
    if isinstance(old, PojoSerializer):
        return _of_pojo(old, known, needed)
    if isinstance(old, TupleSerializer | RowSerializer):
        declared = known.fields if isinstance(known, TupleSerializer | RowSerializer) else ()
        fields = tuple(
            needed(field, declared[index] if index < len(declared) else None)
            for index, field in enumerate(old.fields)
        )
        return replace(old, fields=fields) if _differs(fields, old.fields) else old
    if isinstance(old, ListSerializer):
        element = known.element if isinstance(known, ListSerializer) else None
        return _changed(old, "element", needed(old.element, element))
    if isinstance(old, MapSerializer):
        parts = (known.key, known.value) if isinstance(known, MapSerializer) else (None, None)
        key, value = needed(old.key, parts[0]), needed(old.value, parts[1])
        return replace(old, key=key, value=value) if _differs((key, value), (old.key, old.value)) else old
    if known is not None and {old.java_class, known.java_class} <= _NUMBERS:
        return old if old.java_class == known.java_class else known
    if is_upgrade:
        _check_plain(old)
    return old


def holds_older_objects(serializer: Serializer) -> bool:
    """Return whether values are, or may hold, objects of Kryo 2."""
    if isinstance(serializer, KryoSerializer):
        return serializer.settings.version == KRYO_2_24
    return any(holds_older_objects(child) for _, child in serializer.children)


def _of_objects(old: KryoSerializer, new: Serializer | None) -> Serializer:
    if old.settings.version != KRYO_2_24:
        return old
    if new is None and old.type_class in _INTERFACES:
        raise RefusedEditError(
            f"expected the type of the new job, as Flink 2.x has one of its own for a {old.type_class}: its elements stand in "
            "no savepoint of Flink 1.x; give the jar of the new job, or a savepoint of it, with --against"
        )
    if new is None or isinstance(new, KryoSerializer):
        if new is not None and new.type_class != old.type_class:
            raise RefusedEditError(
                f"expected objects of {old.type_class} in the new job, found {new.type_class}: objects keep their classes"
            )
        return replace(old, settings=replace(old.settings, version=KRYO_5))
    typed_reader(new)
    return new


def _of_pojo(
    old: PojoSerializer, new: Serializer | None, needed: Callable[[Serializer, Serializer | None], Serializer]
) -> Serializer:
    known = {}
    if isinstance(new, PojoSerializer) and new.pojo_class == old.pojo_class:
        known = {field.name: field.serializer for field in new.fields}
    fields = tuple(
        replace(field, serializer=needed(field.serializer, known.get(field.name))) for field in old.fields
    )
    subclasses = (*old.registered, *old.non_registered)
    changes = any(
        one.serializer is not other.serializer for one, other in zip(fields, old.fields, strict=True)
    )
    if not changes and all(needed(subclass, None) is subclass for _, subclass in subclasses):
        return old
    if subclasses:
        raise RefusedEditError(
            f"expected a class without subclasses in the savepoint, found {old.pojo_class}: their values have fields of "
            "their own"
        )
    return replace(old, fields=fields)


def _without_nulls(serializer: Serializer | None) -> Serializer | None:
    return serializer.inner if isinstance(serializer, NullableSerializer) else serializer


def _changed(old: Serializer, attribute: str, inner: Serializer) -> Serializer:
    if inner is getattr(old, attribute):
        return old
    return replace(old, **{attribute: inner})  # type: ignore[type-var]  # the callers have dataclasses


def _differs(new: tuple[Serializer, ...], old: tuple[Serializer, ...]) -> bool:
    return any(one is not other for one, other in zip(new, old, strict=True))


def _check_plain(serializer: Serializer) -> None:
    """Refuse objects of Kryo in a place where they cannot be written anew."""
    if holds_older_objects(serializer):
        raise RefusedEditError(
            f"expected objects of Kryo in fields, lists and maps, found them in {serializer.type_name}"
        )
