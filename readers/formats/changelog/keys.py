"""Deduces the type of the keys of a changelog.

A log does not describe its keys: their serializer is recorded in the header of the base, or with the timers. Without both, the
key groups give evidence: a key belongs to the key group that its hash selects. If there are too few keys to be certain,
the changes that set values still show how long keys are, because such a change ends where its value ends.

Flink: KeyGroupRangeAssignment
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from readers.decode.decoder import walker
from readers.decode.page import Page
from readers.decode.program import Program
from readers.errors import ReaderError
from readers.formats.changelog.log import SCOPE, Bounds, Changelog, ChangeSet
from readers.formats.entry import Entry, EntryLayout, StateKind, keyed_entry
from readers.keygroups import key_group_of
from readers.serializers.base import Problem, Serializer
from readers.serializers.primitives import (
    ByteSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
    StringSerializer,
    VoidNamespaceSerializer,
)

_CERTAIN_BITS = 40  # a wrong type passes by chance once in 2^40 times
_MAX_KEY_BYTES = 64  # each length is tried
_SET_AT_ONCE = (StateKind.VALUE, StateKind.REDUCING, StateKind.AGGREGATING)


def deduced_key(
    samples: list[tuple[ChangeSet, Bounds]], max_parallelism: int, stated: Serializer | None = None
) -> Serializer | None:
    """Return the type of the keys: `stated` if no key contradicts it, else the basic type that certainly fits, else None.

    A key that is read as a wrong type is in the right key group once in `max_parallelism` times, and most wrong keys are
    equal. So a type that fits enough different keys is right.
    """
    if stated is not None and _evidence_bits(stated, samples, max_parallelism) is not None:
        return stated
    for serializer in KEY_TYPES:
        evidence = _evidence_bits(serializer, samples, max_parallelism)
        if evidence is not None and evidence >= _CERTAIN_BITS:
            return serializer
    return None


def sized_key(logs: Iterable[Changelog]) -> Serializer | None:
    """Return a serializer of keys as bytes, if exactly one length of key fits all changes that set a value; else None.

    Args:
        logs: the logs of all subtasks, which must agree.
    """
    lengths = set(range(1, _MAX_KEY_BYTES + 1))
    checked = False
    for announcement, changes, indexes in (setting for log in logs for setting in log.settings()):
        entry = keyed_entry(announcement.state, VoidNamespaceSerializer())
        is_raw = entry.is_raw("namespace") or entry.is_raw("value")
        if entry.kind in _SET_AT_ONCE and not announcement.problem and not is_raw:
            # Behind a key of the right length, namespace and value end exactly where the change ends.
            lengths = {length for length in lengths if _fits(length, entry, changes, indexes)}
            checked = True
    return SizedKeySerializer(lengths.pop()) if checked and len(lengths) == 1 else None


def _fits(length: int, entry: Entry, changes: ChangeSet, indexes: Bounds) -> bool:
    starts, ends = changes.starts[indexes] + SCOPE + length, changes.ends[indexes]
    if (starts >= ends).any():
        return False

    def emit(program: Program) -> None:
        entry.part("namespace").emit(program)
        entry.part("value").emit(program)

    try:
        found = walker(emit).measure_each(changes.data, starts, ends, changes.path)
    except ReaderError:
        return False
    return bool((found == ends).all())


def _evidence_bits(
    serializer: Serializer, samples: list[tuple[ChangeSet, Bounds]], max_parallelism: int
) -> float | None:
    """Return how improbable it is that all keys are in their key groups by chance, as -log2; None if one is not."""
    layout = EntryLayout({"key": serializer.arrow()})

    def emit(program: Program, columns: EntryLayout) -> None:
        program.skip(SCOPE)
        with columns.column(program, "key"):
            serializer.emit(program)

    decoder = layout.decoder(emit)
    seen = set()
    for changes, indexes in samples:
        starts, ends = (bounds[indexes].reshape(-1, 1) for bounds in (changes.starts, changes.ends))
        page = Page.of(changes.data, (starts, ends), changes.key_groups[indexes], 0, changes.path)
        try:
            for batch in decoder.decode(page):
                (keys,) = batch.arrays
                for key, key_group in zip(keys.to_pylist(), batch.page.key_groups.tolist(), strict=True):
                    # Equal keys prove as little as one: only different hashes count as evidence.
                    code = None if key is None else serializer.hash_code(key)
                    if code is None:
                        continue
                    if key_group_of(code, max_parallelism) != key_group:
                        return None
                    seen.add(code)
        except ReaderError:
            return None
    return len(seen) * math.log2(max_parallelism)


class DeducedLongSerializer(LongSerializer):
    """A key that fits a Long; a Double or a Date with the same bytes has the same hash."""

    def problems(self) -> Iterator[Problem]:
        yield _deduced("8 bytes that hash as a Long, which a Double or a Date does too")


class DeducedIntSerializer(IntSerializer):
    """A key that fits an Integer; a Float with the same bytes has the same hash."""

    def problems(self) -> Iterator[Problem]:
        yield _deduced("4 bytes that hash as an Integer, which a Float does too")


class DeducedShortSerializer(ShortSerializer):
    """A key that fits a Short; a Character with the same bytes has the same hash."""

    def problems(self) -> Iterator[Problem]:
        yield _deduced("2 bytes that hash as a Short, which a Character does too")


@dataclass(frozen=True)
class SizedKeySerializer(Serializer):
    """A key whose length is all that is known: shows its bytes."""

    length: int

    java_class = "?"

    @property
    def fixed_length(self) -> int:  # type: ignore[override]  # derived here
        return self.length

    @property
    def type_name(self) -> str:
        return f"{self.length} bytes"

    def arrow(self) -> pa.DataType:
        return pa.binary()

    def emit(self, program: Program) -> None:
        program.raw_bytes(self.length)

    def problems(self) -> Iterator[Problem]:
        reason = (
            "a changelog without a base does not record how keys are serialized, the operator has no timers, and the "
            f"keys are too few to be certain: {self.length} bytes each"
        )
        yield Problem(path=(), reason=reason, sized=True)


def _deduced(found: str) -> Problem:
    reason = f"a changelog without a base does not record how keys are serialized; these have {found}"
    return Problem(path=(), reason=reason, sized=True)


KEY_TYPES: tuple[Serializer, ...] = (
    StringSerializer(),
    DeducedLongSerializer(),
    DeducedIntSerializer(),
    DeducedShortSerializer(),
    ByteSerializer(),
)
