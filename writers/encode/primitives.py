"""NULL in fields of POJOs that may be primitive in Java: Flink cannot set them, and refuses the whole restore.

`int` and `Integer` have one serializer, so a savepoint does not say which of them a field is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from readers import CLASS, PojoField, PojoSerializer, Serializer, TtlSerializer

_PRIMITIVES = frozenset(
    f"org.apache.flink.api.common.typeutils.base.{name}Serializer"
    for name in ("Boolean", "Byte", "Short", "Int", "Long", "Float", "Double", "Char")
)


@dataclass(frozen=True, slots=True)
class NullField:
    """A field of a POJO that has NULL, and may be primitive.

    Attributes:
        java_class: the class that declares it, as far as that is known.
        name: of the field.
    """

    java_class: str
    name: str

    def __str__(self) -> str:
        return f"{self.java_class}.{self.name}"


def null_fields(serializer: Serializer, path: tuple[str, ...], array: pa.Array) -> Iterator[NullField]:
    """Yield the fields that have NULL in values, some of them several times.

    Args:
        serializer: of a column.
        path: the fields that lead from the column to the values.
        array: the values.
    """
    if isinstance(serializer, TtlSerializer):
        serializer = serializer.value
    if not path:
        yield from _of(serializer, array)
        return
    name, *rest = path
    if isinstance(serializer, PojoSerializer):
        owned = [(actual, field) for actual, _ in _classes(serializer) for field in actual.fields]
        owned = [(actual, field) for actual, field in owned if name in (field.name, _apart(actual, field))]
        for actual, field in owned[:1]:
            if not rest:
                yield from _of_field(actual, field, array)
            else:
                yield from null_fields(field.serializer, tuple(rest), array)
    else:
        child = dict(serializer.children).get(name)
        if child is not None:
            yield from null_fields(child, tuple(rest), array)


def _of(serializer: Serializer, array: pa.Array) -> Iterator[NullField]:
    array = array.drop_null()
    children = [child for _, child in serializer.children]
    if not len(array) or not children:
        return
    kind = array.type
    if isinstance(serializer, PojoSerializer):
        yield from _of_pojo(serializer, array)
    elif pa.types.is_map(kind) and len(children) == 2:
        yield from _of(children[0], array.keys)
        yield from _of(children[1], array.items)
    elif pa.types.is_list(kind) and len(children) == 1:
        yield from _of(children[0], array.flatten())
    elif pa.types.is_struct(kind) and len(children) == kind.num_fields:
        for number, child in enumerate(children):
            yield from _of(child, array.field(number))
    elif len(children) == 1:
        yield from _of(children[0], array)


def _of_pojo(serializer: PojoSerializer, array: pa.StructArray) -> Iterator[NullField]:
    names = [field.name for field in array.type]
    for actual, name in _classes(serializer):
        rows = array
        if CLASS in names:
            classes = array.field(CLASS)
            rows = array.filter(
                classes.is_null() if name is None else pc.fill_null(pc.equal(classes, name), False)
            )
        for field in actual.fields:
            column = _apart(actual, field) if _apart(actual, field) in names else field.name
            if not field.hidden and column in names:
                yield from _of_field(actual, field, rows.field(column))


def _of_field(actual: PojoSerializer, field: PojoField, array: pa.Array) -> Iterator[NullField]:
    if field.serializer.java_class not in _PRIMITIVES:
        yield from _of(field.serializer, array)
    elif array.null_count:
        yield NullField(field.declared_in or actual.pojo_class, field.name)


def _classes(serializer: PojoSerializer) -> Iterator[tuple[PojoSerializer, str | None]]:
    """Yield a class, and each known subclass with its name."""
    yield serializer, None
    for name, subclass in serializer.registered + serializer.non_registered:
        if isinstance(subclass, PojoSerializer):
            yield subclass, name


def _apart(actual: PojoSerializer, field: PojoField) -> str:
    """Return the column of a field that another class has with another type."""
    return f"{field.name}({actual.pojo_class})"
