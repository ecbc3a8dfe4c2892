"""Columns of any type → the types of a program, where every value fits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from readers import json_text
from writers.errors import UnencodableTypeError, UnencodableValueError

_SHOWN = 100


def fitted(array: pa.Array, target: pa.DataType, path: tuple[str, ...]) -> pa.Array:
    """Return an array as the type `target`; fields that a struct does not have are null.

    Raises:
        UnencodableValueError: a value does not fit: it is beyond the type's range, or finer.
        UnencodableTypeError: the types have nothing in common.
    """
    if array.type.equals(target):
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if pa.types.is_dictionary(array.type):
        return fitted(array.dictionary_decode(), target, path)
    if pa.types.is_struct(target) and pa.types.is_struct(array.type):
        return _fitted_struct(array, target, path)
    if pa.types.is_list(target) and _is_list(array.type):
        return _fitted_list(array, target, path)
    if pa.types.is_map(target) and pa.types.is_map(array.type):
        with _rows_of(array):
            keys = fitted(array.keys, target.key_type, (*path, "key"))
            items = fitted(array.items, target.item_type, (*path, "value"))
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=target, mask=array.is_null())
    if pa.types.is_nested(target) or pa.types.is_nested(array.type):
        raise UnencodableTypeError(
            f"expected a column of type {target}, found {array.type}", breadcrumbs=path
        )
    return _cast(array, target, path)


def _fitted_struct(array: pa.Array, target: pa.DataType, path: tuple[str, ...]) -> pa.Array:
    have = {field.name: index for index, field in enumerate(array.type)}
    names = [field.name for field in target]
    unknown = [name for name in have if name not in names]
    if unknown:
        raise UnencodableTypeError(
            f"expected the fields {', '.join(names)}, found {', '.join(unknown)}", breadcrumbs=path
        )
    children = [
        fitted(array.field(have[field.name]), field.type, (*path, field.name))
        if field.name in have
        else pa.nulls(len(array), field.type)
        for field in target
    ]
    if not children:
        return pa.array([None if null else {} for null in array.is_null().to_pylist()], target)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())


def _is_list(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(data_type)
        or pa.types.is_large_list(data_type)
        or pa.types.is_fixed_size_list(data_type)
        or pa.types.is_list_view(data_type)
    )


def _fitted_list(array: pa.Array, target: pa.DataType, path: tuple[str, ...]) -> pa.Array:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    with _rows_of(array):
        values = fitted(array.values, target.value_type, (*path, "[]"))
    return pa.ListArray.from_arrays(array.offsets, values, type=target, mask=array.is_null())


def shown(value: pa.Scalar) -> str:
    """Return a value as text, for an error; Python has no date for some times."""
    if pa.types.is_nested(value.type) or pa.types.is_temporal(value.type):
        text = str(json_text(pa.repeat(value, 1))[0].as_py())
    else:
        text = repr(value.as_py())
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


@contextmanager
def _rows_of(lists: pa.Array) -> Iterator[None]:
    """Let an error of an element name the row that its list is in."""
    try:
        yield
    except UnencodableValueError as error:
        offsets = np.asarray(lists.offsets)
        error.row = int(np.searchsorted(offsets, error.row, side="right")) - 1
        raise


def _cast(array: pa.Array, target: pa.DataType, path: tuple[str, ...]) -> pa.Array:
    if pa.types.is_binary(target) and (
        pa.types.is_string(array.type)
        or pa.types.is_large_string(array.type)
        or pa.types.is_string_view(array.type)
    ):
        # An object of Kryo or Java is shown as text, and kept as bytes: its text is not its bytes.
        raise UnencodableTypeError(
            "expected bytes, found text, as objects of Kryo and Java are shown: they cannot be written",
            breadcrumbs=path,
        )
    try:
        made = array.cast(target)
        if not _stays_finite(array, made):
            raise pa.ArrowInvalid("infinite")  # noqa: TRY301  # found below, like a value that Arrow refuses
    except pa.ArrowNotImplementedError as error:
        raise UnencodableTypeError(
            f"expected a column of type {target}, found {array.type}", breadcrumbs=path
        ) from error
    except pa.ArrowInvalid as error:
        row = _first_misfit(array, target)
        text = shown(array[row])
        raise UnencodableValueError(
            f"expected a value of type {target}, found {text} ({array.type})", breadcrumbs=path, row=row
        ) from error
    return made


def _first_misfit(array: pa.Array, target: pa.DataType) -> int:
    """Return the number of the first item that does not fit."""
    first, end = 0, len(array)
    while end - first > 1:
        middle = (first + end) // 2
        if _fits(array.slice(first, middle - first), target):
            first = middle
        else:
            end = middle
    return first


def _fits(array: pa.Array, target: pa.DataType) -> bool:
    try:
        made = array.cast(target)
    except pa.ArrowInvalid:
        return False
    return _stays_finite(array, made)


def _stays_finite(array: pa.Array, made: pa.Array) -> bool:
    """Return whether no number became infinite: a float of 64 bits becomes the nearest of 32."""
    if not (pa.types.is_floating(made.type) and pa.types.is_floating(array.type)):
        return True
    return not pc.any(pc.and_(pc.is_inf(made), pc.is_finite(array))).as_py()
