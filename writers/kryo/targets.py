"""The type that values of a Flink 1.x savepoint need in Flink 2.x: objects of Kryo 2 become objects of Kryo 5, or lists, sets and maps.

Since 2.0 the fields of POJOs that are a `List`, `Set` or `Map`, and type hints of these, have serializers of their own. Which
elements they have stands in the class or in the job, not in the savepoint: the type of the new job must be known for them.
"""

from __future__ import annotations

from dataclasses import replace

from readers import (
    KRYO_2_24,
    KRYO_5,
    KryoSerializer,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
    PojoSerializer,
    RowSerializer,
    Serializer,
    TtlSerializer,
    TupleSerializer,
)
from writers.errors import RefusedEditError
from writers.kryo.typed import typed_reader

_INTERFACES = frozenset(("java.util.List", "java.util.Set", "java.util.Map"))


def upgraded_type(old: Serializer, new: Serializer | None = None) -> Serializer:
    """Return the type of values for Flink 2.x; the same one if it holds no objects of Kryo 2.

    Args:
        old: the type in the savepoint.
        new: the type that the new job declares; None if that is not known. It decides what becomes of objects of Kryo; other
            differences are left to Flink, which migrates them or refuses.

    Raises:
        RefusedEditError: the new type is not known, or the objects cannot become it.
    """
    if isinstance(old, KryoSerializer):
        return _of_objects(old, new)
    if isinstance(old, TtlSerializer):
        inner = new.value if isinstance(new, TtlSerializer) else new
        return _changed(old, "value", upgraded_type(old.value, inner))
    if isinstance(old, NullableSerializer):
        inner = new.inner if isinstance(new, NullableSerializer) else new
        return _changed(old, "inner", upgraded_type(old.inner, inner))
    if isinstance(old, PojoSerializer):
        return _of_pojo(old, new)
    if isinstance(old, TupleSerializer | RowSerializer):
        known = new.fields if isinstance(new, TupleSerializer | RowSerializer) else ()
        fields = tuple(
            upgraded_type(field, known[index] if index < len(known) else None)
            for index, field in enumerate(old.fields)
        )
        return replace(old, fields=fields) if _differs(fields, old.fields) else old
    if isinstance(old, ListSerializer):
        element = new.element if isinstance(new, ListSerializer) else None
        return _changed(old, "element", upgraded_type(old.element, element))
    if isinstance(old, MapSerializer):
        known_key, known_value = (new.key, new.value) if isinstance(new, MapSerializer) else (None, None)
        key, value = upgraded_type(old.key, known_key), upgraded_type(old.value, known_value)
        return replace(old, key=key, value=value) if _differs((key, value), (old.key, old.value)) else old
    _check_plain(old)
    return old


def _of_objects(old: KryoSerializer, new: Serializer | None) -> Serializer:
    if old.settings.version != KRYO_2_24:
        return old
    if new is None and old.type_class in _INTERFACES:
        raise RefusedEditError(
            f"expected the type of the new job, as Flink 2.x has one of its own for a {old.type_class}: its elements stand in "
            "no savepoint of Flink 1.x; give a savepoint of the new job with --against"
        )
    if new is None or isinstance(new, KryoSerializer):
        if new is not None and new.type_class != old.type_class:
            raise RefusedEditError(
                f"expected objects of {old.type_class} in the new job, found {new.type_class}: objects keep their classes"
            )
        return replace(old, settings=replace(old.settings, version=KRYO_5))
    typed_reader(new)
    return new


def _of_pojo(old: PojoSerializer, new: Serializer | None) -> Serializer:
    known = {}
    if isinstance(new, PojoSerializer) and new.pojo_class == old.pojo_class:
        known = {field.name: field.serializer for field in new.fields}
    fields = tuple(
        replace(field, serializer=upgraded_type(field.serializer, known.get(field.name)))
        for field in old.fields
    )
    for _, subclass in (*old.registered, *old.non_registered):
        _check_plain(subclass)
    is_same = all(one.serializer is other.serializer for one, other in zip(fields, old.fields, strict=True))
    if is_same:
        return old
    if old.registered or old.non_registered:
        raise RefusedEditError(
            f"expected a class without subclasses in the savepoint, found {old.pojo_class}: their values have fields of "
            "their own"
        )
    return replace(old, fields=fields)


def _changed(old: Serializer, attribute: str, inner: Serializer) -> Serializer:
    if inner is getattr(old, attribute):
        return old
    return replace(old, **{attribute: inner})  # type: ignore[type-var]  # the callers have dataclasses


def _differs(new: tuple[Serializer, ...], old: tuple[Serializer, ...]) -> bool:
    return any(one is not other for one, other in zip(new, old, strict=True))


def _check_plain(serializer: Serializer) -> None:
    """Refuse objects of Kryo in a place where they cannot be written anew."""
    if any(
        isinstance(child, KryoSerializer) and child.settings.version == KRYO_2_24
        for child in _tree(serializer)
    ):
        raise RefusedEditError(
            f"expected objects of Kryo in fields, lists and maps, found them in {serializer.type_name}"
        )


def _tree(serializer: Serializer) -> list[Serializer]:
    return [serializer, *(one for _, child in serializer.children for one in _tree(child))]
