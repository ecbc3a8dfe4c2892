"""Classes of the JDK and of Flink that Kryo writes field by field: their fields are known without class files.

Source: `com.esotericsoftware.kryo.serializers.FieldSerializer`, which no other serializer of Kryo or chill replaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from readers.serializers.kryo.reader import Body, KryoReader
from readers.serializers.kryo.settings import KryoClass, KryoType, array_of

_FLINK_TUPLE = "org.apache.flink.api.java.tuple.Tuple"
_ATOMIC = "java.util.concurrent.atomic.Atomic"

_VALUE_OF_2 = KryoClass(fields=(("value", "#T"),), parameters=1, variables=(("#T",),))


def _class_of(
    class_name: str, parameters: tuple[str, ...], fields: Mapping[str, str]
) -> tuple[KryoClass, KryoClass]:
    """Return a class for Kryo 2.24 and for Kryo 5, which name type variables in different ways."""
    found = []
    for declaring in ("", class_name):
        variables = {parameter: f"{declaring}#{parameter}" for parameter in parameters}
        found.append(
            KryoClass(
                fields=tuple((name, variables.get(declared, declared)) for name, declared in fields.items()),
                parameters=len(parameters),
                variables=tuple((variable,) for variable in variables.values()),
            )
        )
    return found[0], found[1]


def _tuple_of(arity: int) -> tuple[KryoClass, KryoClass]:
    parameters = tuple(f"T{index}" for index in range(arity))
    return _class_of(
        f"{_FLINK_TUPLE}{arity}", parameters, {f"f{index}": name for index, name in enumerate(parameters)}
    )


_CLASSES: Mapping[str, tuple[KryoClass, KryoClass]] = {
    **{f"{_FLINK_TUPLE}{arity}": _tuple_of(arity) for arity in range(26)},
    **{
        f"{_ATOMIC}{name}": _class_of(f"{_ATOMIC}{name}", (), {"value": declared})
        for name, declared in (("Integer", "int"), ("Long", "long"), ("Boolean", "int"))
    },
    f"{_ATOMIC}Reference": _class_of(f"{_ATOMIC}Reference", ("V",), {"value": "V"}),
}

_ROW = "org.apache.flink.types.Row"
_ROW_KIND = "org.apache.flink.types.RowKind"
_OBJECTS = "java.lang.Object[]"
_ROWS: tuple[Mapping[str, str], ...] = (
    {"fields": _OBJECTS},
    {"fields": _OBJECTS, "kind": _ROW_KIND},
    {
        "fieldByName": "java.util.Map<java.lang.String, java.lang.Object>",
        "fieldByPosition": _OBJECTS,
        "kind": _ROW_KIND,
        "positionByName": "java.util.LinkedHashMap<java.lang.String, java.lang.Integer>",
    },
)
"""The fields of a Row: up to Flink 1.10, in 1.11 and 1.12, since 1.13."""
_ROW_CLASSES = tuple(_class_of(_ROW, (), fields) for fields in _ROWS)


def _fields(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    return _object(reader, class_name, _CLASSES[class_name], arguments)


def _object(
    reader: KryoReader, class_name: str, classes: tuple[KryoClass, KryoClass], arguments: tuple[KryoType, ...]
) -> Any:
    known = classes[reader.is_kryo5]
    values = reader.fields(class_name, known, arguments)
    # Kryo sorts names as text, so f10 stands before f2; here they come as they are declared.
    return {"@class": class_name} | {name: values[name] for name, _ in known.fields}


def _row(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    """Read a Row: an older one begins with its array of fields, one of today with a map or null."""
    up_to_1_10, up_to_1_12, since_1_13 = _ROW_CLASSES
    known = since_1_13
    if reader.next_class() == array_of("java.lang.Object"):
        known = up_to_1_12 if reader.settings.has_row_kinds else up_to_1_10
    return _object(reader, class_name, known, arguments)


def _optional(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    """Read the value of an Optional: with its class in Kryo 5, as its field in 2.24."""
    return reader.any() if reader.is_kryo5 else reader.fields(class_name, _VALUE_OF_2, arguments)["value"]


LIBRARY_BODIES: dict[str, Body] = {
    **dict.fromkeys(_CLASSES, _fields),
    _ROW: _row,
    "java.util.Optional": _optional,
}
"""Class → the function that reads its body."""
