"""Kryo's collections and maps, read into JSON arrays.

| collection | bytes |
|---|---|
| 2.24 | [comparator,] varint n, n × element |
| 5 | varint n + 1 with a flag, [comparator,] [class, bool has nulls if the flag is set,] n × element |
| map | 2.24: [comparator,] varint n; 5: varint n + 1, [comparator]; n × (key, value) |

Elements of a declared final class are written without their class. In Kryo 5 the flag then says that there are nulls,
else that all elements are of one class, which stands once before them.

Source: `com.esotericsoftware.kryo.serializers.CollectionSerializer`, `MapSerializer`; `com.twitter.chill.java`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from readers.serializers.jsontree import json_map
from readers.serializers.kryo.classes import (
    COLLECTIONS,
    IMMUTABLE_COLLECTIONS,
    MAPS,
    SCALA_COLLECTIONS,
    java_util,
)
from readers.serializers.kryo.reader import Body, KryoReader, of_reader
from readers.serializers.kryo.settings import KryoType

_ANY = KryoType("java.lang.Object")  # of a map without declared type arguments


def _plain_collection(reader: KryoReader) -> Any:
    """Read varint n, n × element with its class: chill's and Flink's own collection serializers."""
    return [reader.any() for _ in range(reader.input.size())]


plain_collection = of_reader(_plain_collection)


def _elements(
    reader: KryoReader,
    _class_name: str,
    arguments: tuple[KryoType, ...],
    *,
    has_comparator: bool = False,
    can_be_null: bool = True,
) -> list[Any]:
    declared = arguments[0] if arguments else None
    element = reader.resolved(declared) if declared is not None else None
    known = element.name if element is not None and reader.is_final(element) else None
    if not reader.is_kryo5:
        if has_comparator:
            reader.any()
        count = reader.input.size()
        return [reader.any() if known is None else reader.object_or_null(known) for _ in range(count)]
    flag, count = reader.input.flagged_size()
    if has_comparator:
        reader.any()
    inner = declared.arguments if declared is not None else ()
    if count == 0:
        return []
    if known is not None:
        has_null = flag
    elif not flag:
        return [reader.any(inner) for _ in range(count)]
    else:
        known = reader.class_name()
        # Null as the class of all elements: there are no further bytes, so the nulls are counted here.
        if known is None:
            reader.count(count)
            return [None] * count
        has_null = can_be_null and reader.input.boolean()
    read = reader.object_or_null if has_null else reader.object
    return [read(known, inner) for _ in range(count)]


def _as_list(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    """Read `Arrays.asList`: chill writes the component class before the elements."""
    if reader.is_kryo5:
        return _elements(reader, class_name, arguments)
    count = reader.input.size()
    reader.class_name()
    return [reader.any() for _ in range(count)]


def _enum_set(reader: KryoReader) -> Any:
    element = reader.class_name() or ""
    return [reader.constant(element) for _ in range(reader.input.size())]


def _entries(
    reader: KryoReader, _class_name: str, arguments: tuple[KryoType, ...], *, has_comparator: bool = False
) -> list[Any]:
    # The comparator stands before the count in Kryo 2.24, behind it in Kryo 5; no column shows it.
    if has_comparator and not reader.is_kryo5:
        reader.any()
    count = reader.input.size(1 if reader.is_kryo5 else 0)
    if has_comparator and reader.is_kryo5:
        reader.any()
    key, value = arguments if len(arguments) == 2 else (_ANY, _ANY)
    return json_map((_key_or_value(reader, key), _key_or_value(reader, value)) for _ in range(count))


def _key_or_value(reader: KryoReader, declared: KryoType) -> Any:
    inner = declared.arguments if reader.is_kryo5 else ()
    known = reader.resolved(declared)
    if known is not None and reader.is_final(known):
        return reader.object_or_null(known.name, inner)
    return reader.any(inner)


def _singleton_map(reader: KryoReader) -> Any:
    key = reader.any()
    return json_map([(key, reader.any())])


COLLECTION_BODIES: dict[str, Body] = {
    **dict.fromkeys(COLLECTIONS, _elements),
    **dict.fromkeys(IMMUTABLE_COLLECTIONS, partial(_elements, can_be_null=False)),
    **dict.fromkeys(
        ("java.util.TreeSet", "java.util.PriorityQueue"), partial(_elements, has_comparator=True)
    ),
    "java.util.Arrays$ArrayList": _as_list,
    **dict.fromkeys(MAPS, _entries),
    "java.util.TreeMap": partial(_entries, has_comparator=True),
    **dict.fromkeys(
        java_util("Collections$EmptyList Collections$EmptyMap Collections$EmptySet"), of_reader(lambda _: [])
    ),
    **dict.fromkeys(
        java_util("Collections$SingletonList Collections$SingletonSet"),
        of_reader(lambda reader: [reader.any()]),
    ),
    "java.util.Collections$SingletonMap": of_reader(_singleton_map),
    **dict.fromkeys(java_util("RegularEnumSet JumboEnumSet"), of_reader(_enum_set)),
    **dict.fromkeys(SCALA_COLLECTIONS, plain_collection),
    "org.apache.avro.generic.GenericData$Array": plain_collection,
}
"""Class → the function that reads its body."""
