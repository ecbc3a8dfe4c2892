"""Whether Java can assign a value that the old serializer decodes to a field of the new type.

The hashmap backend decodes values into objects of the *new* class with the *old* serializers, by `Field#set`: it unboxes and widens
primitives, and takes references of the declared class and its subclasses.
"""

from __future__ import annotations

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

_WIDER = ("Byte", "Short", "Integer", "Long", "Float", "Double")
_NUMBERS = {name: _WIDER[index:] for index, name in enumerate(_WIDER)} | {
    "Character": ("Character", *_WIDER[2:])
}
_ANY = "java.lang.Object"
# What a value of a class, as collections are usually made, may be assigned to.
_SUPERTYPES = {
    "java.util.ArrayList": {"java.util.List", "java.util.Collection", "java.lang.Iterable"},
    "java.util.HashSet": {"java.util.Set", "java.util.Collection", "java.lang.Iterable"},
    "java.util.HashMap": {"java.util.Map"},
    "java.util.List": {"java.util.ArrayList", "java.util.Collection", "java.lang.Iterable"},
    "java.util.Set": {"java.util.HashSet", "java.util.Collection", "java.lang.Iterable"},
    "java.util.Map": {"java.util.HashMap"},
}


def is_assignable(old: Serializer, new: Serializer) -> bool:
    """Return whether values that `old` decodes can be assigned to a field whose type `new` serializes."""
    value, declared = _class_of(old), _class_of(new)
    # A field of a number may be primitive, which takes narrower numbers.
    if value in _NUMBERS and declared in _NUMBERS:
        return declared in _NUMBERS[value]
    return (
        value == declared
        or declared == _ANY
        or declared in _SUPERTYPES.get(value, ())
        or (
            bool(_SUPERTYPES.get(value, set()) & _SUPERTYPES.get(declared, set()))
            and _family(value) == _family(declared)
        )
    )


def _family(name: str) -> str:
    return next((family for family in ("List", "Set", "Map") if name.endswith(family)), name)


def _class_of(serializer: Serializer) -> str:
    """Return the class of the values of a serializer; numbers by their short names."""
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


_BASIC = {
    f"{short}Serializer": name
    for short, name in zip(
        ("Byte", "Short", "Int", "Long", "Float", "Double", "Char"), (*_WIDER, "Character"), strict=True
    )
}
