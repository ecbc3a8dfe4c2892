"""The type that the values of a savepoint need in a new job: what Flink neither migrates nor reads becomes what the job declares.

Objects of Kryo 2 become objects of Kryo 5, or lists, sets and maps; numbers become other numbers, which Flink never does.

Since 2.0 the fields of POJOs that are a `List`, `Set` or `Map`, and type hints of these, have serializers of their own. Which
elements they have stands in the class or in the job, not in the savepoint: the type of the new job must be known for them.
"""

from __future__ import annotations

from collections.abc import Callable
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

_BASE = "org.apache.flink.api.common.typeutils.base."
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
