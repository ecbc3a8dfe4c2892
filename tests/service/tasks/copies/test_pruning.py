"""`pruned`: what is left of nested values, against a model in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tasks.copies.pruning import Path, WantedIds, container_depth, leaf_type, pruned

_IDS = ("a", "b")
_TEXTS = st.sampled_from([*_IDS, "c", "d", None])
_ITEM = pa.struct([("who", pa.string()), ("tags", pa.large_list(pa.string())), ("n", pa.int64())])
_KIND = pa.struct(
    [
        ("own", pa.string()),
        ("items", pa.list_(_ITEM)),
        ("shares", pa.map_(pa.struct([("k", pa.string())]), pa.list_(pa.list_(pa.string())))),
        ("rest", pa.list_(pa.string())),
    ]
)
_PATHS: tuple[Path, ...] = (
    ("own",),
    ("items", "who"),
    ("items", "tags"),
    ("shares", "key", "k"),
    ("shares", "value"),
)


def _optional(strategy: Any) -> Any:
    return st.one_of(st.none(), strategy)


def _lists(strategy: Any) -> Any:
    return st.lists(strategy, max_size=4)


_ITEMS = st.fixed_dictionaries({"who": _TEXTS, "tags": _optional(_lists(_TEXTS)), "n": st.integers(0, 9)})
_SHARES = st.tuples(st.fixed_dictionaries({"k": _TEXTS}), _optional(_lists(_optional(_lists(_TEXTS)))))
_VALUES = _optional(
    st.fixed_dictionaries(
        {
            "own": _TEXTS,
            "items": _optional(_lists(_optional(_ITEMS))),
            "shares": _optional(_lists(_SHARES)),
            "rest": _lists(_TEXTS),
        }
    )
)


class _Model:
    """What is left of a value, by loops. Counts what goes, and notes the ids."""

    def __init__(self, paths: set[Path]) -> None:
        self.paths = paths
        self.met: set[str] = set()

    def left(self, kind: pa.DataType, value: Any, path: Path) -> tuple[Any, bool, int]:
        """Return a value, whether it belongs to an id as a whole, and how many elements went from it."""
        if value is None:
            return None, False, 0
        if pa.types.is_struct(kind):
            fields, hit, count = {}, False, 0
            for field in kind:
                fields[field.name], own, gone = self.left(field.type, value[field.name], (*path, field.name))
                hit, count = hit or own, count + gone
            return fields, hit, count
        if pa.types.is_map(kind):
            entries, count = [], 0
            for key, item in value:
                _, by_key, _ = self.left(kind.key_type, key, (*path, "key"))
                new, by_item, gone = self.left(kind.item_type, item, (*path, "value"))
                if by_key or by_item:
                    count += 1
                else:
                    entries.append((key, new))
                    count += gone
            return entries, False, count
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            elements, count = [], 0
            for element in value:
                new, hit, gone = self.left(kind.value_type, element, path)
                if hit:
                    count += 1
                else:
                    elements.append(new)
                    count += gone
            return elements, False, count
        is_met = path in self.paths and value in _IDS
        if is_met:
            self.met.add(value)
        return value, is_met, 0


@given(
    values=st.lists(_VALUES, max_size=12),
    paths=st.sets(st.sampled_from(_PATHS)),
    cut=st.integers(0, 3),
)
def test_what_is_left_is_what_loops_leave(values: list[Any], paths: set[Path], cut: int) -> None:
    ids = WantedIds(pa.array(_IDS), np.array([7, 5]))

    found = pruned(pa.array(values, _KIND)[cut:], dict.fromkeys(sorted(paths), ids))

    model = _Model(paths)
    expected = [model.left(_KIND, value, ()) for value in values[cut:]]
    found.values.validate(full=True)
    assert found.values.type == _KIND
    assert found.values.to_pylist() == [value for value, _, _ in expected]
    assert found.hits.tolist() == [hit for _, hit, _ in expected]
    assert found.removed.tolist() == [count for _, _, count in expected]
    assert found.numbers == {(7, 5)[_IDS.index(one)] for one in model.met}


def test_an_id_anywhere_in_a_key_is_one_of_the_key() -> None:
    keys = pa.array([["x", "a"], ["x"], None, []], pa.list_(pa.string()))

    found = pruned(keys, {(): WantedIds(pa.array(["a"]), np.array([0]))}, is_key=True)

    assert found.hits.tolist() == [True, False, False, False]
    assert found.values.equals(keys)
    assert found.removed.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("path", "depth", "kind"),
    [
        (("own",), None, pa.string()),
        (("items", "who"), 1, pa.string()),
        (("items", "n"), 1, pa.int64()),
        (("items", "tags"), 1, pa.string()),
        (("shares", "key", "k"), 1, pa.string()),
        (("shares", "value"), 1, pa.string()),
    ],
)
def test_paths_lead_through_lists_and_maps(path: Path, depth: int | None, kind: pa.DataType) -> None:
    assert container_depth(_KIND, path) == depth
    assert leaf_type(_KIND, path) == kind
