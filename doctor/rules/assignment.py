"""Whether Java can assign a value that the old serializer decodes to a field of the new type.

The hashmap backend decodes values into objects of the *new* class with the *old* serializers, by `Field#set`: it unboxes and widens
primitives, and takes references of the declared class and its subclasses.
"""

from __future__ import annotations

from collections.abc import Callable

from readers import (
    EnumSerializer,
    KryoSerializer,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
    PojoSerializer,
    RowSerializer,
    Serializer,
    TupleSerializer,
)

_WIDER = tuple(f"java.lang.{name}" for name in ("Byte", "Short", "Integer", "Long", "Float", "Double"))
_CHAR = "java.lang.Character"
_NUMBERS = {name: _WIDER[index:] for index, name in enumerate(_WIDER)} | {_CHAR: (_CHAR, *_WIDER[2:])}
_PRIMITIVES = dict(
    zip(("byte", "short", "int", "long", "float", "double", "char"), (*_WIDER, _CHAR), strict=True)
) | {"boolean": "java.lang.Boolean"}
_ANY = "java.lang.Object"
_COMPARED = {"java.io.Serializable", "java.lang.Comparable"}


def _util(*names: str) -> set[str]:
    return {f"java.util.{name}" for name in names} | {"java.lang.Iterable"}


_LIST = _util("List", "Collection")
_SET = _util("Set", "Collection")
_QUEUE = _util("Queue", "Collection")
# What a value of a class may be assigned to; that of an interface is of the class that is usually made for it.
_SUPERTYPES: dict[str, set[str]] = {
    **{f"java.util.{name}": _LIST for name in ("ArrayList", "Vector", "Stack", "concurrent.CopyOnWriteArrayList")},
    **{f"java.util.{name}": _LIST | _util("ArrayList") for name in ("List", "Collection")},
    "java.util.LinkedList": _LIST | _QUEUE | _util("Deque"),
    "java.util.ArrayDeque": _QUEUE | _util("Deque"),
    "java.util.PriorityQueue": _QUEUE,
    "java.util.HashSet": _SET,
    "java.util.Set": _SET | _util("HashSet"),
    "java.util.LinkedHashSet": _SET | _util("HashSet"),
    "java.util.TreeSet": _SET | _util("SortedSet", "NavigableSet"),
    "java.util.HashMap": {"java.util.Map"},
    "java.util.Map": {"java.util.HashMap"},
    "java.util.LinkedHashMap": {"java.util.Map", "java.util.HashMap"},
    "java.util.TreeMap": {"java.util.Map", "java.util.SortedMap", "java.util.NavigableMap"},
    "java.util.concurrent.ConcurrentHashMap": {"java.util.Map", "java.util.concurrent.ConcurrentMap"},
    **{name: {"java.lang.Number", *_COMPARED} for name in (*_WIDER, "java.math.BigDecimal", "java.math.BigInteger")},
    **dict.fromkeys((_CHAR, "java.lang.Boolean", "java.util.Date", "java.util.UUID"), _COMPARED),
    "java.lang.String": {"java.lang.CharSequence", *_COMPARED},
    **{f"java.sql.{name}": {"java.util.Date", *_COMPARED} for name in ("Date", "Time", "Timestamp")},
    **{
        f"java.time.{name}": {"java.time.temporal.Temporal", *_COMPARED}
        for name in ("Instant", "LocalDate", "LocalTime", "LocalDateTime")
    },
}  # fmt: skip


def is_assignable(
    old: Serializer, new: Serializer, declared: str | None, extends: Callable[[str, str], bool | None]
) -> bool:
    """Return whether values that `old` decodes can be assigned to a field whose type `new` serializes.

    Args:
        old, new: the serializers.
        declared: the class of the field, or its primitive; None where no jar tells, then its serializer does.
        extends: whether a class extends or implements another one.
    """
    value, told = _class_of(old), _class_of(new)
    # What a number is declared as is not known without a jar: most likely a primitive.
    target = _PRIMITIVES.get(declared, declared) if declared is not None else _declared_as(new, told)
    if value in _NUMBERS and target in _NUMBERS:
        # A primitive takes narrower numbers too, an object of its class takes none.
        is_primitive = declared is None or declared in _PRIMITIVES
        return target in _NUMBERS[value] if is_primitive else value == target
    return (
        value in (target, told)
        or target == _ANY
        or target in _SUPERTYPES.get(value, ())
        or target in _superclasses(old)
        or extends(value, target) is True
    )


def _declared_as(serializer: Serializer, value: str) -> str:
    # Kryo writes a field that is declared as the class itself.
    return value if isinstance(serializer, KryoSerializer) else _INTERFACES.get(value, value)


def _superclasses(serializer: Serializer) -> frozenset[str]:
    """Return the superclasses of a POJO that declare fields of it: no snapshot names the others."""
    if not isinstance(serializer, PojoSerializer):
        return frozenset()
    return frozenset(field.declared_in for field in serializer.fields if field.declared_in)


def _class_of(serializer: Serializer) -> str:
    """Return the class of the values of a serializer."""
    if isinstance(serializer, NullableSerializer):
        return _class_of(serializer.inner)
    if isinstance(serializer, KryoSerializer):
        return serializer.type_class
    if isinstance(serializer, PojoSerializer):
        return serializer.pojo_class
    if isinstance(serializer, EnumSerializer):
        return serializer.enum_class
    if isinstance(serializer, TupleSerializer):
        return serializer.tuple_class
    if isinstance(serializer, RowSerializer):
        return "org.apache.flink.types.Row"
    if type(serializer) is ListSerializer:
        return "java.util.ArrayList"
    if type(serializer) is MapSerializer:
        return "java.util.HashMap"
    if serializer.java_class.endswith(".SetSerializer"):
        return "java.util.HashSet"
    return _BASIC.get(serializer.java_class.rsplit(".", 1)[-1], serializer.type_name)


# Flink gives serializers to fields of these types, and decodes these classes.
_INTERFACES = {
    "java.util.ArrayList": "java.util.List",
    "java.util.HashMap": "java.util.Map",
    "java.util.HashSet": "java.util.Set",
}
_BASIC = {
    f"{short}Serializer": name
    for short, name in zip(
        ("Byte", "Short", "Int", "Long", "Float", "Double", "Char"), (*_WIDER, _CHAR), strict=True
    )
} | {
    "BooleanSerializer": "java.lang.Boolean",
    "StringSerializer": "java.lang.String",
    "BigDecSerializer": "java.math.BigDecimal",
    "BigIntSerializer": "java.math.BigInteger",
    "DateSerializer": "java.util.Date",
    "SqlDateSerializer": "java.sql.Date",
    "SqlTimeSerializer": "java.sql.Time",
    "SqlTimestampSerializer": "java.sql.Timestamp",
    "InstantSerializer": "java.time.Instant",
    "LocalDateSerializer": "java.time.LocalDate",
    "LocalTimeSerializer": "java.time.LocalTime",
    "LocalDateTimeSerializer": "java.time.LocalDateTime",
}
