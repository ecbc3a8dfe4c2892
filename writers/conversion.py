"""Columns of one type → columns of another, where both are types of a state's values.

Numbers, texts and records must fit: see `encode.fitting`. Objects of Kryo 2.24 are bytes in the columns, see
`StatePart.entries`; they become

| new type | values |
|---|---|
| the same class of Kryo 5 | written anew, as Flink 2.x would write them |
| lists, sets and maps, as Flink 2.x has for fields that are a List, Set or Map | the elements, each of the class that its type expects |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from readers import (
    KRYO_2_24,
    ROW_KIND,
    KryoSerializer,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
    PojoSerializer,
    RowSerializer,
    Serializer,
    TupleSerializer,
)
from writers.encode.fitting import fitted, value_program
from writers.errors import RefusedEditError, UnencodableValueError
from writers.kryo.upgrade import KryoValues, typed_reader

Conversion = Callable[[pa.Array], pa.Array]
"""Old values → new values, as many."""

_INSERT = "+I"


def kept_type(serializer: Serializer) -> pa.DataType:
    """Return the type of a column whose objects are bytes, as `StatePart.entries` yields it."""
    tree, code = value_program(serializer)
    return tree.with_bytes(code.objects).root.field("value").type


def holds_objects(serializer: Serializer) -> bool:
    """Return whether values are, or may hold, objects of Kryo."""
    return isinstance(serializer, KryoSerializer) or any(
        holds_objects(child) for _, child in serializer.children
    )


def conversion(old: Serializer, new: Serializer, path: tuple[str, ...]) -> Conversion:
    """Return what makes new values of old ones.

    Args:
        old, new: their serializers.
        path: where they are, for errors.

    Raises:
        RefusedEditError: no value of the one is a value of the other.
    """
    if not holds_objects(old):
        target = kept_type(new)
        return lambda values: _with_row_kinds(fitted(_without_row_kinds(old, new, values), target, path), new)
    if isinstance(old, KryoSerializer):
        return _of_objects(old, new)
    if isinstance(old, NullableSerializer):
        inner = new.inner if isinstance(new, NullableSerializer) else new
        return conversion(old.inner, inner, path)
    if isinstance(old, PojoSerializer | RowSerializer | TupleSerializer):
        return _of_records(old, new, path)
    if isinstance(old, ListSerializer) and type(new) is type(old):
        return _of_lists(conversion(old.element, new.element, (*path, "[]")), kept_type(new))
    if isinstance(old, MapSerializer) and isinstance(new, MapSerializer):
        keys = conversion(old.key, new.key, (*path, "key"))
        return _of_maps(keys, conversion(old.value, new.value, (*path, "value")), kept_type(new))
    raise RefusedEditError(
        f"expected {old.type_name} to keep its type, found {new.type_name}: it holds objects of Kryo, which are changed in "
        "fields, lists and maps only"
    )


def _of_objects(old: KryoSerializer, new: Serializer) -> Conversion:
    if isinstance(new, KryoSerializer):
        if new.type_class != old.type_class:
            raise RefusedEditError(
                f"expected objects of {old.type_class}, found {new.type_class}: objects keep their classes"
            )
        if new.settings.version == old.settings.version:
            return lambda values: values
    if old.settings.version != KRYO_2_24:
        raise RefusedEditError(
            f"expected objects of Kryo 2, of Flink 1.x, to be written in another type, found {old.type_name} of another Kryo"
        )
    objects = KryoValues(old.settings)
    target = kept_type(new)
    if isinstance(new, KryoSerializer):
        return lambda values: _each(values, objects.upgraded, target)
    read = typed_reader(new)
    return lambda values: _each(values, lambda data: read(*objects.read(data)), target)


def _each(values: pa.Array, convert: Callable[[bytes], Any], target: pa.DataType) -> pa.Array:
    """Convert each distinct value once."""
    coded = values.dictionary_encode()
    converted = []
    for number, data in enumerate(coded.dictionary.to_pylist()):
        try:
            converted.append(convert(data))
        except UnencodableValueError as error:
            error.row = int(np.flatnonzero(coded.indices.to_numpy(zero_copy_only=False) == number)[0])
            raise
    return pa.array(converted, target).take(coded.indices)


def _of_records(old: Serializer, new: Serializer, path: tuple[str, ...]) -> Conversion:
    if not isinstance(new, PojoSerializer | RowSerializer | TupleSerializer):
        raise RefusedEditError(f"expected a record to make of {old.type_name}, found {new.type_name}")
    places = {name: index for index, (name, _) in enumerate(old.children)}
    serializers = dict(old.children)
    parts = [
        (places[name], conversion(serializers[name], serializer, (*path, name)))
        for name, serializer in new.children
    ]
    has_kinds = isinstance(new, RowSerializer) and new.has_row_kind
    target = kept_type(new)

    def convert(values: pa.Array) -> pa.Array:
        # What stands under a null record is no value.
        fields = values.flatten()
        children = [change(fields[place]) for place, change in parts]
        if has_kinds:
            children.append(
                fields[-1]
                if isinstance(old, RowSerializer) and old.has_row_kind
                else pa.repeat(_INSERT, len(values))
            )
        return pa.StructArray.from_arrays(children, fields=list(target), mask=values.is_null())

    return convert


def _of_lists(change: Conversion, target: pa.DataType) -> Conversion:
    def convert(values: pa.Array) -> pa.Array:
        return pa.ListArray.from_arrays(
            _offsets(values), change(values.flatten()), type=target, mask=values.is_null()
        )

    return convert


def _of_maps(keys: Conversion, items: Conversion, target: pa.DataType) -> Conversion:
    def convert(values: pa.Array) -> pa.Array:
        offsets = np.asarray(values.offsets)
        start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
        return pa.MapArray.from_arrays(
            _offsets(values),
            keys(values.keys.slice(start, length)),
            items(values.items.slice(start, length)),
            type=target,
            mask=values.is_null(),
        )

    return convert


def _offsets(values: pa.Array) -> pa.Array:
    """Return the offsets of lists, counted from the first element of these; null ones must be empty."""
    offsets = np.asarray(values.offsets)
    return pa.array(offsets - offsets[0], pa.int32())


def _without_row_kinds(old: Serializer, new: Serializer, values: pa.Array) -> pa.Array:
    """Return rows without their kinds where the new type has none."""
    if isinstance(old, RowSerializer) and old.has_row_kind and not isinstance(new, RowSerializer):
        children = [values.field(index) for index in range(old.width)]
        fields = list(values.type)[: old.width]
        return pa.StructArray.from_arrays(children, fields=fields, mask=values.is_null())
    return values


def _with_row_kinds(values: pa.Array, new: Serializer) -> pa.Array:
    """Return new rows with the kind of an insertion where they had none."""
    if not (isinstance(new, RowSerializer) and new.has_row_kind):
        return values
    kinds = values.field(new.width).fill_null(_INSERT)
    children: list[Any] = [*(values.field(index) for index in range(new.width)), kinds]
    assert values.type.field(new.width).name == ROW_KIND
    return pa.StructArray.from_arrays(children, fields=list(values.type), mask=values.is_null())
