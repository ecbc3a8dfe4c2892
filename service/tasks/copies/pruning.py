"""Values without what belongs to ids: the element of a list, or the entry of a map, that has an id goes, at any depth.

What goes is the innermost element or entry around the id. A value that has the id outside of all lists and maps stays whole here: it
belongs to the id, and its owner decides. A key has no parts that could go: an id anywhere in it is one of the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Path = tuple[str, ...]
_KEY, _VALUE = "key", "value"


@dataclass(frozen=True, slots=True)
class WantedIds:
    """Ids in the type of a column or field.

    Attributes:
        values: the ids.
        numbers: of the ids, int64 (ids,).
    """

    values: pa.Array
    numbers: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Values without what belongs to ids.

    Attributes:
        values: those that are left of each.
        hits: which values belong to an id as a whole, bool (values,).
        removed: how many elements and entries went from each, int64 (values,); of those inside an element that went, none counts.
        numbers: of the ids that were met.
    """

    values: pa.Array
    hits: NDArray[np.bool_]
    removed: NDArray[np.int64]
    numbers: frozenset[int] = frozenset()


def pruned(values: pa.Array, wanted: Mapping[Path, WantedIds], *, is_key: bool = False) -> Pruned:
    """Return values without what belongs to ids.

    Args:
        values: of any type.
        wanted: the ids, by the fields that lead to them; elements of lists have no part of their own, those of maps `key` and `value`.
        is_key: whether the values are keys, or parts of some.
    """
    kind = values.type
    if not wanted or not len(values):
        return _untouched(values)
    if pa.types.is_struct(kind):
        return _pruned_struct(values, wanted, is_key=is_key)
    if pa.types.is_map(kind):
        start, end = _bounds(values)
        keys = pruned(values.keys.slice(start, end - start), _inside(wanted, _KEY), is_key=True)
        items = pruned(values.items.slice(start, end - start), _inside(wanted, _VALUE), is_key=is_key)
        entries = pa.StructArray.from_arrays(
            [keys.values, items.values], fields=[kind.key_field, kind.item_field]
        )
        return _pruned_elements(values, _joined(entries, [keys, items]), is_key=is_key)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        start, end = _bounds(values)
        return _pruned_elements(
            values, pruned(values.values.slice(start, end - start), wanted, is_key=is_key), is_key=is_key
        )
    [ids] = wanted.values()
    plain = values.dictionary_decode() if pa.types.is_dictionary(kind) else values
    found = np.asarray(pc.fill_null(pc.index_in(plain, value_set=ids.values), -1))
    hits = found >= 0
    numbers = frozenset(ids.numbers[np.unique(found[hits])].tolist())
    return replace(_untouched(values), hits=hits, numbers=numbers)


def container_depth(kind: pa.DataType, path: Path) -> int | None:
    """Return how many parts of a path lead to the outermost list or map; None if none is on the way."""
    for count, name in enumerate((*path, "")):
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
            return count
        if name:
            kind = kind.field(name).type
    return None


def leaf_type(kind: pa.DataType, path: Path) -> pa.DataType:
    """Return the type of the values at a path."""
    for name in (*path, ""):
        while pa.types.is_list(kind) or pa.types.is_large_list(kind):
            kind = kind.value_type
        if pa.types.is_map(kind):
            kind = kind.key_type if name == _KEY else kind.item_type
        elif name:
            kind = kind.field(name).type
    return kind


def _inside(wanted: Mapping[Path, WantedIds], name: str) -> dict[Path, WantedIds]:
    return {path[1:]: ids for path, ids in wanted.items() if path[0] == name}


def _untouched(values: pa.Array) -> Pruned:
    count = len(values)
    return Pruned(values=values, hits=np.zeros(count, dtype=np.bool_), removed=np.zeros(count, np.int64))


def _joined(values: pa.Array, parts: list[Pruned]) -> Pruned:
    """Return values whose parts are these."""
    return Pruned(
        values=values,
        hits=np.logical_or.reduce([one.hits for one in parts]),
        removed=np.add.reduce([one.removed for one in parts]),
        numbers=frozenset[int]().union(*(one.numbers for one in parts)),
    )


def _pruned_struct(values: pa.Array, wanted: Mapping[Path, WantedIds], *, is_key: bool) -> Pruned:
    # `flatten` makes the fields of a struct null where it is null.
    fields = [
        pruned(array, _inside(wanted, field.name), is_key=is_key)
        for field, array in zip(values.type, values.flatten(), strict=True)
    ]
    found = _joined(values, fields)
    if not found.removed.any():
        return found
    rebuilt = pa.StructArray.from_arrays(
        [one.values for one in fields], fields=list(values.type), mask=values.is_null()
    )
    return replace(found, values=rebuilt)


def _bounds(values: pa.Array) -> tuple[int, int]:
    """Return where the elements of lists begin and end."""
    offsets = values.offsets
    return offsets[0].as_py(), offsets[-1].as_py()


def _pruned_elements(values: pa.Array, elements: Pruned, *, is_key: bool) -> Pruned:
    """Return lists or maps without the elements that belong to an id."""
    offsets = np.asarray(values.offsets)
    places = offsets - offsets[0]
    if is_key:
        return replace(_untouched(values), hits=_sums(elements.hits, places) > 0, numbers=elements.numbers)
    kept = ~elements.hits
    removed = _sums(np.where(kept, elements.removed, 1), places)
    found = replace(_untouched(values), removed=removed, numbers=elements.numbers)
    if not removed.any():
        return found
    counts = np.concatenate([[0], np.cumsum(kept)]).astype(offsets.dtype)
    buffers: list[Any] = [None, pa.py_buffer(np.ascontiguousarray(counts[places]))]
    if values.null_count:
        buffers[0] = pa.py_buffer(np.packbits(np.asarray(values.is_valid()), bitorder="little"))
    left = elements.values.filter(pa.array(kept))
    lists = pa.Array.from_buffers(values.type, len(values), buffers, values.null_count, 0, [left])
    return replace(found, values=lists)


def _sums(numbers: NDArray[Any], places: NDArray[Any]) -> NDArray[np.int64]:
    """Return the sum of the numbers of the elements of each list."""
    sums = np.concatenate([[0], np.cumsum(numbers, dtype=np.int64)])
    found: NDArray[np.int64] = sums[places[1:]] - sums[places[:-1]]
    return found
