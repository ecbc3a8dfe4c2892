"""Rows of several states of an operator → one row for each key and namespace.

Two rows belong together if they have the same key group, key and namespace, which is decided by hashes of 128 bits. A key that its
column cannot hold is NULL there, and its text is compared instead. A key of which nothing is known belongs to no other row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from catalog.wide.columns import KEY, LIST_INDEX, MAP_KEY, NAMESPACE, VALUE, Shape, StateColumn
from readers import KEY_GROUP, OUT_OF_RANGE, UNDECODED, Hashes, json_text, row_hashes

Numbers = NDArray[np.int64]
_IDENTITY = (KEY, NAMESPACE, KEY_GROUP)
_NAMES = pa.list_(pa.string())


@dataclass(frozen=True, kw_only=True)
class StateRows:
    """The rows of one state in some key groups.

    Attributes:
        column: of the state in the wide table.
        batch: the rows, with the columns of the identity in the types of the wide table.
        is_shown: whether the column is wanted; if not, only the identities count.
    """

    column: StateColumn
    batch: pa.RecordBatch
    is_shown: bool

    def get(self, name: str) -> pa.Array | None:
        """Return a column of the rows; None if they do not have it."""
        return _column_called(name, self.batch)


@dataclass(slots=True)
class _Remarks:
    """What is known of rows beside their columns: of few rows, if of any.

    Attributes:
        undecoded: number of a row → the states of which only bytes are known.
        outliers: number of a row → path of a value that its column cannot hold → the value, for JSON.
    """

    undecoded: defaultdict[int, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    outliers: defaultdict[int, dict[str, object]] = field(default_factory=lambda: defaultdict(dict))


@dataclass(frozen=True, kw_only=True)
class _Matches:
    """Which rows belong together.

    Attributes:
        numbers: of the wide row of each row, state by state.
        first: of each wide row a row that belongs to it, counted through `sources`.
        sources: numbers of the states that have all identities.
    """

    numbers: list[Numbers]
    first: Numbers
    sources: list[int]


def _column_called(name: str, batch: pa.RecordBatch) -> pa.Array | None:
    index = batch.schema.get_field_index(name)
    return None if index < 0 else batch.column(index)


def joined(states: Sequence[StateRows], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of the wide table.

    Args:
        states: the rows of each state in the same key groups.
        schema: the columns to return.
    """
    matches = _matched(states)
    total = len(matches.first)
    remarks, columns = _Remarks(), {}
    for rows, numbers in zip(states, matches.numbers, strict=True):
        _note_outliers_of_keys(rows, numbers, remarks)
        if rows.is_shown:
            columns[rows.column.name] = _column(rows, numbers, total, remarks)
    for name in _IDENTITY:
        if name in schema.names:
            together = pa.concat_arrays([states[number].batch.column(name) for number in matches.sources])
            columns[name] = together.take(pa.array(matches.first))
    columns |= _remarked(remarks, total)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


# ---- which rows belong together ----


def _matched(states: Sequence[StateRows]) -> _Matches:
    ties = [_ties(number, rows) for number, rows in enumerate(states)]
    has_ties = any(tie is not None for tie in ties)
    hashes = [_hashes(rows, tie, has_ties=has_ties) for rows, tie in zip(states, ties, strict=True)]
    # Most states of an operator have the same keys in the same order: these are matched once.
    sources: list[int] = []
    equal: list[int] = []
    for number, own in enumerate(hashes):
        known = (place for place, one in enumerate(sources) if np.array_equal(hashes[one], own))
        equal.append(next(known, len(sources)))
        if equal[-1] == len(sources):
            sources.append(number)
    numbers, first = _numbered_hashes(np.concatenate([hashes[number] for number in sources]))
    of_sources = _split(numbers, [len(hashes[number]) for number in sources])
    found = [of_sources[place] for place in equal]
    repeats = [
        _repeats(own) if rows.column.shape is Shape.VALUE else np.zeros(len(own), np.int64)
        for rows, own in zip(states, found, strict=True)
    ]
    most = max(int(own.max(initial=0)) for own in repeats)
    if not most:
        return _Matches(numbers=found, first=first, sources=sources)
    # Keys may look alike and be different, as those of which Kryo wrote more than is shown: each value has a row of its own.
    apart = np.concatenate(found) * (most + 1) + np.concatenate(repeats)
    numbers, first = _numbered(apart)
    return _Matches(
        numbers=_split(numbers, list(map(len, found))), first=first, sources=list(range(len(states)))
    )


def _split(numbers: Numbers, lengths: Sequence[int]) -> list[Numbers]:
    return np.split(numbers, np.cumsum(lengths)[:-1])


def _hashes(rows: StateRows, ties: pa.Array | None, *, has_ties: bool) -> Hashes:
    length = rows.batch.num_rows
    columns = [rows.batch.column(name) for name in _IDENTITY if name in rows.batch.schema.names]
    if has_ties:
        columns.append(pa.nulls(length, pa.string()) if ties is None else ties)
    return row_hashes(columns, length)


def _ties(number: int, rows: StateRows) -> pa.Array | None:
    """Return texts that tell rows apart whose keys are NULL; None if no row needs one."""
    keys, texts = rows.batch.column(KEY), rows.get(OUT_OF_RANGE)
    found: dict[int, str] = {}
    for row, outliers in _outliers(texts):
        own = {path: value for path, value in outliers.items() if _root(path) in (KEY, NAMESPACE)}
        if own:
            found[row] = orjson.dumps(own, option=orjson.OPT_SORT_KEYS).decode()
    if keys.null_count:
        for row in np.flatnonzero(np.asarray(keys.is_null())).tolist():
            found.setdefault(row, f"{number}.{row}")
    if not found:
        return None
    ties = np.full(rows.batch.num_rows, None, dtype=object)
    ties[list(found)] = list(found.values())
    return pa.array(ties, pa.string())


def _numbered_hashes(hashes: Hashes) -> tuple[Numbers, Numbers]:
    numbers, first = _numbered(hashes[:, 0])
    # Different keys with one half of their hashes in common are as good as impossible.
    if np.array_equal(hashes[first[numbers], 1], hashes[:, 1]):
        return numbers, first
    others, _ = _numbered(hashes[:, 1])
    return _numbered(numbers * (int(others.max()) + 1) + others)


def _numbered(values: Numbers) -> tuple[Numbers, Numbers]:
    """Return the number of each value, in the order in which different ones come first, and where these are."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places[inverse], first[order]


def _repeats(numbers: Numbers) -> Numbers:
    """Return how many earlier rows have the same number as each row."""
    order = np.argsort(numbers, kind="stable")
    repeats = np.empty(len(order), dtype=np.int64)
    repeats[order] = _places_in_runs(numbers[order])
    return repeats


def _places_in_runs(ordered: Numbers) -> Numbers:
    """Return the place of each number among those equal to it, which stand together."""
    places = np.arange(len(ordered))
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else places
    lengths = np.diff(np.append(begins, len(ordered)))
    return places - np.repeat(begins, lengths)


# ---- the columns ----


def _column(rows: StateRows, numbers: Numbers, total: int, remarks: _Remarks) -> pa.Array:
    """Return the column of a state.

    Args:
        rows: of the state.
        numbers: of the wide row of each.
        total: how many wide rows there are.
        remarks: on wide rows; more are added.
    """
    undecoded = rows.get(UNDECODED)
    is_decoded = np.ones(len(numbers), dtype=np.bool_)
    if undecoded is not None and undecoded.null_count < len(undecoded):
        is_decoded = np.asarray(undecoded.is_null())
        for row in numbers[~is_decoded].tolist():
            remarks.undecoded[row][rows.column.name] = None
    return _COLUMNS[rows.column.shape](rows, numbers, total, is_decoded, remarks)


def _values(
    rows: StateRows, numbers: Numbers, total: int, _is_decoded: NDArray[np.bool_], remarks: _Remarks
) -> pa.Array:
    for row, outliers in _outliers(rows.get(OUT_OF_RANGE)):
        _note(remarks, int(numbers[row]), outliers, rows.column.name)
    places = np.full(total, -1, dtype=np.int64)
    places[numbers] = np.arange(len(numbers))
    return rows.batch.column(VALUE).take(pa.array(places, mask=places < 0))


def _lists(
    rows: StateRows, numbers: Numbers, total: int, is_decoded: NDArray[np.bool_], remarks: _Remarks
) -> pa.Array:
    indexes = np.asarray(rows.batch.column(LIST_INDEX).fill_null(-1))
    order = np.lexsort((indexes, numbers))
    # Where an element is not decoded, the end of it and all elements behind it are bytes: they are no elements here.
    order = order[is_decoded[order]]
    for row, outliers in _outliers(rows.get(OUT_OF_RANGE)):
        _note(remarks, int(numbers[row]), outliers, f"{rows.column.name}[{indexes[row]}]")
    values = rows.batch.column(VALUE).take(pa.array(order))
    offsets, is_none = _offsets(numbers[order], total)
    return pa.ListArray.from_arrays(offsets, values, type=rows.column.type, mask=is_none)


def _maps(
    rows: StateRows, numbers: Numbers, total: int, is_decoded: NDArray[np.bool_], remarks: _Remarks
) -> pa.Array:
    order = np.argsort(numbers, kind="stable")
    # Where an entry is not decoded, neither are those behind it in a native heap snapshot: then it has no key.
    order = order[(is_decoded | np.asarray(rows.batch.column(MAP_KEY).is_valid()))[order]]
    ordered, batch = numbers[order], rows.batch.take(pa.array(order))
    keys, values = batch.column(MAP_KEY), batch.column(VALUE)
    texts = _column_called(OUT_OF_RANGE, batch)
    no_map = _no_maps(keys, ordered)
    if len(no_map):
        _note_entries(rows.column.name, batch, np.flatnonzero(np.isin(ordered, no_map)), ordered, remarks)
    places = _places_in_runs(ordered)
    told = frozenset(no_map.tolist())
    for row, outliers in _outliers(texts):
        if int(ordered[row]) not in told:
            _note(remarks, int(ordered[row]), outliers, f"{rows.column.name}[{places[row]}]")
    if len(no_map):
        left = np.flatnonzero(~np.isin(ordered, no_map))
        ordered, keys, values = ordered[left], keys.take(pa.array(left)), values.take(pa.array(left))
    offsets, is_none = _offsets(ordered, total)
    return pa.MapArray.from_arrays(offsets, keys, values, type=rows.column.type, mask=is_none)


def _offsets(ordered: Numbers, total: int) -> tuple[pa.Array, pa.Array]:
    """Return the offsets of lists whose elements belong to these rows, in order, and which rows have none."""
    counts = np.bincount(ordered, minlength=total)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return pa.array(offsets, pa.int32()), pa.array(counts == 0)


def _no_maps(keys: pa.Array, numbers: Numbers) -> Numbers:
    """Return the wide rows whose entries are no map: with a key that is NULL, or two keys that look alike."""
    hashes = row_hashes([keys, pa.array(numbers)], len(keys))
    found, first = _numbered_hashes(hashes)
    is_twice = np.bincount(found, minlength=len(first))[found] > 1 if len(first) < len(found) else None
    is_bad = np.asarray(keys.is_null()) if is_twice is None else np.asarray(keys.is_null()) | is_twice
    return np.unique(numbers[is_bad])


_COLUMNS = {Shape.VALUE: _values, Shape.LIST: _lists, Shape.MAP: _maps}


# ---- what columns cannot hold ----


def _outliers(texts: pa.Array | None) -> list[tuple[int, Mapping[str, object]]]:
    """Return the rows that have values out of range, with these by their paths."""
    if texts is None or texts.null_count == len(texts):
        return []
    rows = np.flatnonzero(np.asarray(texts.is_valid()))
    return [(row, orjson.loads(texts[row].as_py())) for row in rows.tolist()]


def _root(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def _note(remarks: _Remarks, row: int, outliers: Mapping[str, object], name: str) -> None:
    """Note the values of a state that are out of range, by paths that begin with the column of the state."""
    for path, value in outliers.items():
        if _root(path) == VALUE:
            remarks.outliers[row][name + path[len(VALUE) :]] = value


def _note_outliers_of_keys(rows: StateRows, numbers: Numbers, remarks: _Remarks) -> None:
    for row, outliers in _outliers(rows.get(OUT_OF_RANGE)):
        for path, value in outliers.items():
            if _root(path) in (KEY, NAMESPACE):
                remarks.outliers[int(numbers[row])][path] = value


def _note_entries(
    name: str, batch: pa.RecordBatch, rows: Numbers, numbers: Numbers, remarks: _Remarks
) -> None:
    """Note all entries of what is no map as JSON, each with the text of its key if that is out of range."""
    chosen = batch.take(pa.array(rows))
    known = dict(_outliers(_column_called(OUT_OF_RANGE, chosen)))
    keys, values = (json_text(chosen.column(one)).to_pylist() for one in (MAP_KEY, VALUE))
    for place, (row, key, value) in enumerate(zip(numbers[rows].tolist(), keys, values, strict=True)):
        entry = {
            "key": known.get(place, {}).get(MAP_KEY, None if key is None else _json(key)),
            "value": known.get(place, {}).get(VALUE, None if value is None else _json(value)),
        }
        entries = remarks.outliers[row].setdefault(name, [])
        assert isinstance(entries, list)
        entries.append(entry)


def _json(text: str) -> object:
    return orjson.Fragment(text)


def _remarked(remarks: _Remarks, total: int) -> dict[str, pa.Array]:
    """Return the two columns of remarks."""
    names = pa.nulls(total, _NAMES)
    if remarks.undecoded:
        found = np.full(total, None, dtype=object)
        for row, states in remarks.undecoded.items():
            found[row] = list(states)
        names = pa.array(found, _NAMES)
    texts = pa.nulls(total, pa.string())
    if remarks.outliers:
        found = np.full(total, None, dtype=object)
        for row, outliers in remarks.outliers.items():
            found[row] = orjson.dumps(outliers).decode()
        texts = pa.array(found, pa.string())
    return {UNDECODED: names, OUT_OF_RANGE: texts}
