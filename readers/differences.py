"""Two states, mostly the same state of two savepoints, compared: the rows that differ.

In: two `ComparedState`s. Out: `DifferingRows`, some key groups at a time: rows of either side of which all that have one identity
are together, so that whoever joins them sees all of them. What is equal on both sides is left out by its bytes where a format
can tell, before anything is decoded; else it is decoded, and the join finds it equal. The result is the same.

The seam for a format is one method, `Source.differing(state, other, other_state, selection)`. It yields `DifferingPages`: entries
of both sides that may differ, never one of two entries that share key, namespace and map key. It may leave out entries with the
same bytes on both sides, whole blocks and files among them. It returns None if it knows no way for this other source. It is called
only where `bytes_decide(…)`: both sides lay entries out alike, by equal serializers, so that equal bytes are equal rows, and every
selected key group is in this source and in the other one.

Equal rows are found by hashes of 128 bits: rows with equal values have the same one, others do not. A hash has two lanes of 64
bits; a shape (rows, 2) of int64. Each lane mixes in the words of a value by the two halves of a product, with secrets that this
process draws at random: nobody can write a savepoint whose rows collide, and of 2^40 rows no two do by chance, but for one time in
2^48. Values are equal as Java has them: floats by their bits, lists with their order, maps without one.

| value | words |
|---|---|
| fixed width | its bits, narrower ones with zeros; an integer in 8 bytes |
| text, bytes | the length, then 8 bytes at a time |
| struct | the hashes of its fields |
| list | the number of elements, then their hashes |
| map | the number of entries, then the sum of their hashes |
| null | a constant |

Of several rows with one hash, the first of one side belongs to the first of the other, and so on: rows are a multiset.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import load_le_i4, load_le_i8, load_u1, store_8
from readers.formats.rocksdb.sst.words import multiply_fold, wrapping_sum
from readers.formats.source import DifferingPages, Selection
from readers.jsontext import json_text
from readers.keygroups import key_group_chunks
from readers.rows import is_row
from readers.states import State, StatePart

Hashes = NDArray[np.int64]

_SECRETS = np.frombuffer(secrets.token_bytes(32), dtype=np.int64)
_NULL = np.frombuffer(secrets.token_bytes(16), dtype=np.int64)
_LANES = 2


@subroutine
def _mix(state: int, word: int, secret: int, other: int) -> int:
    return multiply_fold(state ^ secret, wrapping_sum(word, other))


@subroutine
def _mix_into(hashes: int, row: int, word: int, key: int) -> None:
    """Mix a word into both lanes of the hash of a row."""
    at = row * 16
    store_8(hashes, at, _mix(load_le_i8(hashes, at), word, load_le_i8(key, 0), load_le_i8(key, 8)))
    store_8(hashes, at + 8, _mix(load_le_i8(hashes, at + 8), word, load_le_i8(key, 16), load_le_i8(key, 24)))


@kernel
def _mix_words(hashes: int, rows: int, words: int, width: int, key: int) -> None:
    """Mix `width` words of each row into its hash."""
    for row in range(rows):
        for index in range(width):
            _mix_into(hashes, row, load_le_i8(words, (row * width + index) * 8), key)


@kernel
def _mix_bytes(hashes: int, rows: int, offsets: int, data: int, key: int) -> None:
    """Mix a byte string of each row into its hash; `offsets` are int64."""
    for row in range(rows):
        position = load_le_i8(offsets, row * 8)
        end = load_le_i8(offsets, row * 8 + 8)
        _mix_into(hashes, row, end - position, key)
        while end - position >= 8:
            _mix_into(hashes, row, load_le_i8(data, position), key)
            position += 8
        if end - position >= 4:
            _mix_into(hashes, row, load_le_i4(data, position), key)
            position += 4
        if position < end:
            word = 0
            while position < end:
                word = word << 8 | load_u1(data, position)
                position += 1
            _mix_into(hashes, row, word, key)


@kernel
def _mix_elements(hashes: int, rows: int, offsets: int, elements: int, is_ordered: int, key: int) -> None:
    """Mix the hashes of the elements of each row into its hash; `offsets` are int64."""
    for row in range(rows):
        first = load_le_i8(offsets, row * 8)
        end = load_le_i8(offsets, row * 8 + 8)
        _mix_into(hashes, row, end - first, key)
        low = 0
        high = 0
        for element in range(first, end):
            if is_ordered:
                _mix_into(hashes, row, load_le_i8(elements, element * 16), key)
                _mix_into(hashes, row, load_le_i8(elements, element * 16 + 8), key)
            else:
                low = wrapping_sum(low, load_le_i8(elements, element * 16))
                high = wrapping_sum(high, load_le_i8(elements, element * 16 + 8))
        if not is_ordered:
            _mix_into(hashes, row, low, key)
            _mix_into(hashes, row, high, key)


def row_hashes(columns: Iterable[pa.Array], rows: int) -> Hashes:
    """Return the hashes of rows, an array of shape (rows, 2).

    Args:
        columns: of the rows, in an order that all rows to be compared share.
        rows: their number.
    """
    hashes = _empty(rows)
    for column in columns:
        _mix_words(hashes, rows, _hashes_of(column), _LANES, _SECRETS)
    return hashes


def combined_hashes(first: Hashes, second: Hashes) -> Hashes:
    """Return the hashes of rows of which some columns have these hashes, and the others those."""
    hashes = first.copy()
    _mix_words(hashes, len(hashes), second, _LANES, _SECRETS)
    return hashes


def _empty(rows: int) -> Hashes:
    return np.zeros((rows, _LANES), dtype=np.int64)


def _hashes_of(array: pa.Array) -> Hashes:
    """Return the hashes of the values of a column."""
    kind, rows = array.type, len(array)
    if rows == 0 or array.null_count == rows:
        return np.tile(_NULL, (rows, 1))
    hashes = _empty(rows)
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            _mix_words(hashes, rows, _hashes_of(array.field(index)), _LANES, _SECRETS)
    elif pa.types.is_map(kind):
        entries = row_hashes([array.keys, array.items], len(array.keys))
        _mix_elements(hashes, rows, _offsets(array.offsets), entries, 0, _SECRETS)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        _mix_elements(hashes, rows, _offsets(array.offsets), _hashes_of(array.values), 1, _SECRETS)
    elif (words := _words(array)) is not None:
        _mix_words(hashes, rows, words, words.shape[1], _SECRETS)
    else:
        _mix_texts(hashes, array)
    if array.null_count:
        hashes[np.asarray(array.is_null())] = _NULL
    return hashes


def _mix_texts(hashes: Hashes, array: pa.Array) -> None:
    """Mix texts or byte strings into hashes; values of other types as JSON text."""
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
        array = array.cast(pa.binary()) if _is_bytes(array.type) else json_text(array)
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    plain = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    _mix_bytes(hashes, len(array), bounds.astype(np.int64), plain, _SECRETS)


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (pa.types.is_fixed_size_binary, pa.types.is_large_binary, pa.types.is_large_string)
    )


def _offsets(offsets: pa.Array) -> NDArray[np.int64]:
    return np.asarray(offsets).astype(np.int64)


def _words(array: pa.Array) -> NDArray[np.int64] | None:
    """Return the bits of fixed-width values, shape (rows, words); None for other types."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array, kind = array.cast(pa.uint8()), pa.uint8()
    if not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind)):
        return None
    bits = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    width = kind.bit_width // 8
    plain = bits[array.offset * width : (array.offset + len(array)) * width]
    if width >= _WORD_BYTES:
        return np.ascontiguousarray(plain).view(np.int64).reshape(len(array), width // _WORD_BYTES)
    return plain.view(f"u{width}").astype(np.int64).reshape(len(array), 1)


_WORD_BYTES = 8


Numbers = NDArray[np.int64]


def matching_rows(before: Hashes, after: Hashes) -> tuple[Numbers, Numbers]:
    """Return the numbers of the rows that belong together, those of one side and those of the other: two arrays of one length."""
    if not len(before) or not len(after):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    both = np.concatenate([before, after])
    # A stable order: among equal hashes all rows of `before` stand first, each side in its own order.
    order = np.lexsort((both[:, 1], both[:, 0]))
    ordered = both[order]
    begins = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    family = np.cumsum(begins) - 1
    is_before = order < len(before)
    ofs_before = np.bincount(family, weights=is_before).astype(np.int64)
    sizes = np.bincount(family)
    place = np.arange(len(both)) - np.flatnonzero(begins)[family]
    pairs = np.minimum(ofs_before, sizes - ofs_before)[family]
    rank = np.where(is_before, place, place - ofs_before[family])
    chosen = rank < pairs
    return order[chosen & is_before], order[chosen & ~is_before] - len(before)


def other_rows(numbers: Numbers, rows: int) -> Numbers:
    """Return the numbers of the rows that are not among some."""
    left = np.ones(rows, dtype=np.bool_)
    left[numbers] = False
    return np.flatnonzero(left)


# So many bytes of both sides are compared at once: enough that each batch costs little, few enough for memory.
_COMPARED_BYTES = 16 << 20

Batches = Callable[[], Iterator[pa.RecordBatch]]
"""Returns rows, each time from their beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedState:
    """One of two states that are compared.

    Attributes:
        state: the state.
        selection: the entries to compare; without key groups or keys all.
        columns: names of its columns that the rows have.
    """

    state: State
    selection: Selection
    columns: tuple[str, ...]

    def rows(self, part: StatePart, groups: frozenset[int] | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part in some key groups."""
        return part.read(self.columns, self.state.schema, replace(self.selection, key_groups=groups))

    def rows_of(self, part: StatePart, pages: DifferingPages, *, is_before: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some entries of a part."""
        return part.rows_of(pages.before if is_before else pages.after, self.columns, self.state.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingRows:
    """Rows that may differ; all rows of both sides that have one identity are in the same ones.

    Attributes:
        before, after: the rows of either side.
        equal_rows: how many rows of both sides were left out, because they are equal; None where that was not counted.
    """

    before: Batches
    after: Batches
    equal_rows: int | None = 0


def differing_rows(before: ComparedState, after: ComparedState) -> Iterator[DifferingRows]:
    """Yield the rows of two states that may differ, some key groups at a time.

    Raises:
        ReaderError: a file is missing or contradicts its format; iterating the rows raises it, too.
    """
    before.state.check(before.selection)
    after.state.check(after.selection)
    if before.state.max_parallelism != after.state.max_parallelism:
        # A key has another key group then.
        yield _whole(before, after)
        return
    old, new = _parts_of_groups(before), _parts_of_groups(after)
    if old is None or new is None:
        yield _whole(before, after)
        return
    pairs = _pairs(old, new)
    left = sorted((old.keys() | new.keys()).difference(*pairs.values()))
    for pair, groups in pairs.items():
        pages = _differing(before, after, pair, groups)
        if pages is None:
            left += groups
        else:
            yield from _decoded(before, after, pair, pages)
    sizes = (
        (group, sum(side[group].size_bytes for side in (old, new) if group in side)) for group in sorted(left)
    )
    for groups, _ in key_group_chunks(sizes, _COMPARED_BYTES):
        yield _of_groups(before, after, groups, old, new)


@dataclass(frozen=True, slots=True)
class _Holders:
    """The parts of a state that hold a key group, and about how many bytes it has."""

    parts: tuple[int, ...]
    size_bytes: int


def bytes_decide(before: StatePart, after: StatePart) -> bool:
    """Return whether entries with equal bytes are equal rows, so that `Source.differing` may leave them out."""
    entry = before.entry
    if entry.is_assumed or (before.source.keeps_old_bytes and entry.older is not None):
        # How such an entry is read depends on its neighbours.
        return False
    return before.entry == after.entry


def _parts_of_groups(compared: ComparedState) -> dict[int, _Holders] | None:
    """Return the key groups of a state that are compared; None where a part does not tell which it has."""
    found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, part in enumerate(compared.state.parts):
        sizes = part.source.key_group_bytes(part.name)
        if sizes is None:
            return None
        for group, size_bytes in sizes:
            if compared.selection.wants(group):
                found[group].append((number, size_bytes))
    return {
        group: _Holders(tuple(number for number, _ in parts), sum(size for _, size in parts))
        for group, parts in found.items()
    }


def _pairs(old: Mapping[int, _Holders], new: Mapping[int, _Holders]) -> dict[tuple[int, int], frozenset[int]]:
    """Return the key groups that one part of either side holds alone, by these two parts."""
    found: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    for group in old.keys() & new.keys():
        if len(old[group].parts) == len(new[group].parts) == 1:
            found[old[group].parts[0], new[group].parts[0]].add(group)
    return {pair: frozenset(found[pair]) for pair in sorted(found)}


def _differing(
    before: ComparedState, after: ComparedState, pair: tuple[int, int], groups: frozenset[int]
) -> Iterator[DifferingPages] | None:
    """Return the entries of two parts that may differ; None if only their rows tell."""
    old, new = before.state.parts[pair[0]], after.state.parts[pair[1]]
    # A few keys are looked up, which reads less than a comparison.
    if before.selection.keys is not None or not bytes_decide(old, new):
        return None
    if old.source.has_bytes_of(new.source):
        return iter((DifferingPages(before=(), after=(), equal_entries=None),))

    def account(size_bytes: int) -> None:
        before.selection.account(size_bytes)

    selection = Selection(key_groups=groups, account=account)
    return old.source.differing(old.name, new.source, new.name, selection)


def _decoded(
    before: ComparedState, after: ComparedState, pair: tuple[int, int], found: Iterable[DifferingPages]
) -> Iterator[DifferingRows]:
    """Yield the rows of entries that may differ."""
    old, new = before.state.parts[pair[0]], after.state.parts[pair[1]]

    def rows(pages: DifferingPages, *, is_before: bool) -> Batches:
        compared, part = (before, old) if is_before else (after, new)
        return lambda: compared.rows_of(part, pages, is_before=is_before)

    is_counted = is_row(old.entry, old.source.columns(old.entry))
    for pages in found:
        yield DifferingRows(
            before=rows(pages, is_before=True),
            after=rows(pages, is_before=False),
            equal_rows=pages.equal_entries if is_counted or not pages.equal_entries else None,
        )


def _of_groups(
    before: ComparedState,
    after: ComparedState,
    groups: frozenset[int],
    old: Mapping[int, _Holders],
    new: Mapping[int, _Holders],
) -> DifferingRows:
    """Return all rows of some key groups."""

    def rows(compared: ComparedState, holders: Mapping[int, _Holders]) -> Batches:
        numbers = sorted({number for group in groups if group in holders for number in holders[group].parts})
        parts = [compared.state.parts[number] for number in numbers]
        return lambda: chain.from_iterable(compared.rows(part, groups) for part in parts)

    return DifferingRows(before=rows(before, old), after=rows(after, new))


def _whole(before: ComparedState, after: ComparedState) -> DifferingRows:
    """Return all rows of both states."""

    def rows(compared: ComparedState) -> Batches:
        groups = compared.selection.key_groups
        return lambda: chain.from_iterable(compared.rows(part, groups) for part in compared.state.parts)

    return DifferingRows(before=rows(before), after=rows(after))
