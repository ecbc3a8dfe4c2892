"""Which keys of an operator stay: a key is in or out everywhere, with its windows, timers and the entries of its maps.

What decides is the value of a key as text, and not its bytes: a `Long` 42 and a `String` "42" are one key.

| key | text |
|---|---|
| texts | themselves |
| integers | decimal digits |
| booleans, floats, dates and times, decimals, bytes | as JSON text has them, without quotation marks |
| structs, lists, maps | JSON |

Keys of a fraction are those whose hash, under a seed, is below a bound. Short texts of ASCII and integers are hashed where they stand; all
others are decoded first. No value is decoded, and what stays keeps its bytes.

Timers in raw keyed state have no lengths around them: each key group is put together anew, with the numbers of timers that are left.
"""

from __future__ import annotations

import hashlib
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers import (
    CompositeSource,
    Page,
    RawTimerSource,
    Selection,
    Source,
    StateName,
    hash_bytes,
    json_text,
    kernel,
    load_i2,
    load_i4,
    load_i8,
    load_le_i4,
    load_le_i8,
    load_u1,
    shift_right,
    sql_type,
    stack_memory,
    store_1,
    subroutine,
)
from readers.metadata import KeyGroupRange, KeyGroupsStateHandle, Offsets
from writers.edits import NewBytes
from writers.errors import RefusedEditError

_OUT, _IN, _UNKNOWN = range(3)
_TEXT, _LONG, _INT, _SHORT = 1, 8, 4, 2  # integers: their bytes
_LONGEST = 126  # of a text whose length has one byte
_LEAST = -(2**63)
_ASCII = 0x80
_DIGITS = 24
_HASH_BITS = 63
_NUMBER_BYTES = 4
_ABSENT = -1  # the offset of a key group without raw state

_digits_memory = stack_memory(_DIGITS)


@subroutine
def _write_digits(memory: int, number: int) -> int:
    """Write the decimal digits of a number before `memory + 24`; return where they begin."""
    position = _DIGITS
    left = -number if number < 0 else number
    while True:
        position -= 1
        store_1(memory, position, 48 + left % 10)
        left //= 10
        if left == 0:
            break
    if number < 0:
        position -= 1
        store_1(memory, position, 45)
    return position


@subroutine
def _is_ascii(data: int, position: int, length: int) -> bool:
    found = 0
    for at in range(position, position + length):
        found |= load_u1(data, at)
    return found < _ASCII


@subroutine
def _mark_of(address: int, length: int, seed: int, bound: int) -> int:
    return _IN if shift_right(hash_bytes(address, length, seed), 1) < bound else _OUT


@kernel
def _mark_keys(
    data: int, starts: int, ends: int, count: int, kind: int, seed: int, bound: int, marks: int
) -> int:
    """Mark each key as out, in or unknown; return how many are unknown."""
    memory = _digits_memory()
    unknown = 0
    for row in range(count):
        start = load_le_i8(starts, row * 8)
        size = load_le_i8(ends, row * 8) - start
        mark = _UNKNOWN
        if kind == _TEXT:
            length = load_u1(data, start) - 1 if size > 0 else -1
            if 0 <= length <= _LONGEST and length < size and _is_ascii(data, start + 1, length):
                mark = _mark_of(data + start + 1, length, seed, bound)
        elif size >= kind:
            number = _LEAST
            if kind == _LONG:
                number = load_i8(data, start)
            elif kind == _INT:
                number = load_i4(data, start)
            else:
                number = load_i2(data, start)
            if number != _LEAST:
                first = _write_digits(memory, number)
                mark = _mark_of(memory + first, _DIGITS - first, seed, bound)
        if mark == _UNKNOWN:
            unknown += 1
        store_1(marks, row, mark)
    return unknown


@kernel
def _mark_texts(data: int, offsets: int, count: int, seed: int, bound: int, marks: int) -> None:
    """Mark each text, of Arrow's layout, as out or in."""
    for row in range(count):
        start = load_le_i4(offsets, row * 4)
        length = load_le_i4(offsets, row * 4 + 4) - start
        store_1(marks, row, _mark_of(data + start, length, seed, bound))


def texts_of(keys: pa.Array, part: tuple[str, ...] = ()) -> pa.Array:
    """Return what decides on each key, as text.

    Args:
        keys: of any type.
        part: the names of the fields that lead to the part of a key that decides; none for the whole key, which also decides where
            the part is NULL.

    Raises:
        RefusedEditError: there is no such field.
    """
    inner = keys
    for name in part:
        kind = inner.type
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            raise RefusedEditError(f"expected a key with a field {name}, found one of type {sql_type(kind)}")
        inner = pc.struct_field(inner, name)
    texts = _texts(inner)
    return pc.coalesce(texts, _texts(keys)) if part and texts.null_count else texts


def _texts(keys: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(keys.type):
        keys = keys.cast(keys.type.value_type)
    if pa.types.is_string(keys.type):
        return keys
    if pa.types.is_large_string(keys.type) or pa.types.is_integer(keys.type):
        return keys.cast(pa.string())
    texts = json_text(keys)
    return texts if pa.types.is_nested(keys.type) else pc.utf8_trim(texts, '"')


@dataclass(frozen=True, kw_only=True)
class KeyChoice(ABC):
    """Which keys stay.

    Attributes:
        part: see `texts_of`.
    """

    part: tuple[str, ...] = ()

    @abstractmethod
    def chosen(self, texts: pa.Array) -> NDArray[np.bool_]:
        """Return which keys stay, bool (texts,); of a text that is null, none."""

    def mark(self, kind: int, page: Page, starts: Any, ends: Any, marks: NDArray[np.uint8]) -> None:  # noqa: B027
        """Mark the keys of a page that can be decided on by their bytes, as in or out; all others stay unknown.

        Args:
            kind: how the bytes of the keys are read.
            page: the entries.
            starts, ends: where each key begins, and where it ends at the latest, int64 (entries,).
            marks: uint8 (entries,).
        """


@dataclass(frozen=True, kw_only=True)
class FractionOfKeys(KeyChoice):
    """A share of the keys.

    Attributes:
        fraction: of all keys, above 0 and up to 1.
        seed: another one chooses others.
    """

    fraction: float
    seed: str

    @cached_property
    def _facts(self) -> tuple[int, int]:
        """The seed as a number, and the bound of hashes."""
        digest = hashlib.blake2b(self.seed.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        # The greatest hash is below the greatest bound: a fraction of 1 takes every key.
        bound = min(int(self.fraction * (1 << _HASH_BITS)), (1 << _HASH_BITS) - 1)
        return int.from_bytes(digest, "big", signed=True), bound

    def chosen(self, texts: pa.Array) -> NDArray[np.bool_]:
        if self.fraction == 1:
            return np.asarray(texts.is_valid())
        whole = pa.concat_arrays([texts.fill_null("")])
        marks: NDArray[np.uint8] = np.empty(len(whole), dtype=np.uint8)
        _, offsets, data = whole.buffers()
        first = (
            np.frombuffer(offsets, dtype=np.int32)[whole.offset :] if len(whole) else np.zeros(1, np.int32)
        )
        plain = (
            np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
        )
        _mark_texts(plain, first, len(whole), *self._facts, marks)
        found: NDArray[np.bool_] = (marks == _IN) & np.asarray(texts.is_valid())
        return found

    def mark(self, kind: int, page: Page, starts: Any, ends: Any, marks: NDArray[np.uint8]) -> None:
        if self.fraction == 1:
            marks[:] = _IN
        elif kind and not self.part:
            _mark_keys(page.data, starts, ends, len(page), kind, *self._facts, marks)


@dataclass(frozen=True, kw_only=True)
class ListedKeys(KeyChoice):
    """Some keys.

    Attributes:
        texts: of the keys.
    """

    texts: pa.Array = field(repr=False, compare=False)

    def chosen(self, texts: pa.Array) -> NDArray[np.bool_]:
        return np.asarray(pc.is_in(texts, value_set=self.texts, skip_nulls=True))


class KeyFilter:
    """Takes the entries of one state whose keys stay; belongs to one thread.

    Args:
        source: has the state.
        name: of the state.
        choice: which keys stay.

    Raises:
        RefusedEditError: the ends of its keys are not known.
    """

    def __init__(self, source: Source, name: StateName, choice: KeyChoice) -> None:
        entry = source.entries[name]
        bounds, read = source.key_bounds(name), source.key_reader(name)
        if entry.key is None or bounds is None or read is None:
            named = "" if entry.key is None else f" of type {entry.key.type_name}"
            raise RefusedEditError(
                f"{name.name}, in {source.path}: expected keys whose ends are known, found some{named}: drop the operator"
            )
        self._name, self._path = name.name, source.path
        self._choice, self._read, self._bounds = choice, read, bounds
        self._kind = _KINDS.get(entry.key.java_class, 0)
        # The length of such a key stands in it: nothing is walked to find where it ends.
        self._offset = source.key_offset(name) if self._kind and isinstance(source, CompositeSource) else None

    def kept(self, pages: Iterator[Page]) -> Iterator[Page]:
        """Yield the entries of pages whose keys stay.

        Raises:
            RefusedEditError: entries cannot be told apart, or a key cannot be decided on.
            ReaderError: the bytes contradict the format.
        """
        for page in pages:
            rows = np.flatnonzero(self.chosen(page))
            if len(rows):
                yield page if len(rows) == len(page) else page.only(rows)

    def chosen(self, page: Page) -> NDArray[np.bool_]:
        """Return which entries stay, bool (entries,); for the errors see `kept`."""
        if page.undivided:
            raise RefusedEditError(
                f"{self._name}, in {self._path}: expected entries whose ends are known, found some that are not decoded: take a "
                "canonical savepoint, or drop the state"
            )
        marks: NDArray[np.uint8] = np.full(len(page), _UNKNOWN, dtype=np.uint8)
        if self._kind:
            self._choice.mark(self._kind, page, *self._places(page), marks)
        unknown = np.flatnonzero(marks == _UNKNOWN)
        if len(unknown):
            some = page if len(unknown) == len(page) else page.only(unknown)
            marks[unknown] = np.concatenate([self._decided(keys) for _, keys in self._read(some)])
        found: NDArray[np.bool_] = marks == _IN
        return found

    def _decided(self, keys: pa.Array) -> NDArray[np.bool_]:
        texts = texts_of(keys, self._choice.part)
        if texts.null_count:
            raise RefusedEditError(f"{self._name}, in {self._path}: expected keys that decide, found NULL")
        return self._choice.chosen(texts)

    def _places(self, page: Page) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where keys begin, and where they end at the latest."""
        if self._offset is None:
            starts, ends = self._bounds(page)
            return np.ascontiguousarray(starts), np.ascontiguousarray(ends)
        return page.starts[:, 0] + self._offset, np.ascontiguousarray(page.ends[:, 0])


def kept_raw_timers(source: RawTimerSource, choice: KeyChoice) -> Iterator[tuple[int, bytes]]:
    """Yield each key group that has raw timers, with its bytes for the keys that stay.

    Raises:
        RefusedEditError: a key cannot be decided on.
        ReaderError: the bytes contradict the format.
    """
    filters = {name: KeyFilter(source, name, choice) for name in source.entries}
    for body in source.bodies(Selection()):
        data, position, kept = memoryview(body.data), body.start, bytearray()
        for timers in body.timers:
            rows = np.flatnonzero(filters[timers.state].chosen(source.page(body, timers)))
            kept += data[position : timers.position]
            kept += len(rows).to_bytes(_NUMBER_BYTES, "big")
            for start, end in zip(
                timers.starts[rows, 0].tolist(), timers.ends[rows, 0].tolist(), strict=True
            ):
                kept += data[start:end]
            position = int(timers.ends[-1, 0]) if len(timers.ends) else timers.position + _NUMBER_BYTES
        kept += data[position : body.end]
        yield body.key_group, bytes(kept)


def raw_key_groups(kept: Mapping[int, bytes], groups: KeyGroupRange) -> KeyGroupsStateHandle:
    """Return the handle of raw keyed state that no file has yet, with those of some key groups that are in a range."""
    offsets: Offsets = np.full(groups.number_of_key_groups, _ABSENT, dtype=np.int64)
    data = bytearray()
    for number in range(len(offsets)):
        if (own := kept.get(groups.start + number)) is not None:
            offsets[number] = len(data)
            data += own
    offsets.flags.writeable = False
    delegate = NewBytes(handle_name=str(uuid.uuid4()), data=bytes(data))
    return KeyGroupsStateHandle(key_group_range=groups, offsets=offsets, delegate=delegate)


def raw_key_groups_of(handle: KeyGroupsStateHandle) -> dict[int, bytes]:
    """Return what `raw_key_groups` has made a handle of."""
    assert isinstance(handle.delegate, NewBytes)
    data = handle.delegate.data
    present = np.flatnonzero(handle.offsets != _ABSENT)
    bounds = [*handle.offsets[present].tolist(), len(data)]
    first = handle.key_group_range.start
    return {
        first + int(number): data[start:end]
        for number, (start, end) in zip(present, pairwise(bounds), strict=True)
    }


_BASE = "org.apache.flink.api.common.typeutils.base."

_KINDS = {
    f"{_BASE}StringSerializer": _TEXT,
    f"{_BASE}LongSerializer": _LONG,
    f"{_BASE}IntSerializer": _INT,
    f"{_BASE}ShortSerializer": _SHORT,
}
