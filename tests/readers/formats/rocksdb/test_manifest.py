"""A MANIFEST of any length: the files that are there behind all of its edits, and signals for what is not known."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.errors import CorruptDataError
from readers.formats.rocksdb.sst import manifest
from readers.formats.rocksdb.sst.checksums import crc32c, masked
from readers.formats.rocksdb.sst.files import Files
from readers.formats.rocksdb.sst.manifest import COMPARATOR, Manifest, NotReadHereError, read_manifest

_BLOCK_BYTES = 1 << 15


def varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def text(content: bytes) -> bytes:
    return varint(len(content)) + content


def log_of(records: list[bytes]) -> bytes:
    """A log as RocksDB writes it, with fragments where a block ends."""
    log = bytearray()
    for record in records:
        rest, is_first = record, True
        while is_first or rest:
            left = _BLOCK_BYTES - len(log) % _BLOCK_BYTES
            if left < 7:
                log += bytes(left)
                left = _BLOCK_BYTES
            part, rest = rest[: left - 7], rest[left - 7 :]
            kind = (1 if not rest else 2) if is_first else (4 if not rest else 3)
            checked = np.frombuffer(bytes([kind]) + part, dtype=np.uint8)
            log += struct.pack(
                "<IHB", int(masked(crc32c(0, checked.ctypes.data, len(checked)))), len(part), kind
            )
            log += part
            is_first = False
    return bytes(log)


class Kept(Files):
    """An instance that is a MANIFEST alone."""

    def __init__(self, log: bytes) -> None:
        self._files = {"CURRENT": b"MANIFEST-000004\n", "MANIFEST-000004": log}

    @property
    def is_local(self) -> bool:
        return True

    def read(self, name: str) -> bytes:
        return self._files[name]

    def open(self, name: str) -> Any:
        raise NotImplementedError

    def directory(self) -> Any:
        raise NotImplementedError


def read(*records: bytes) -> Manifest:
    return read_manifest(Kept(log_of(list(records))), "db")


BEGIN = b"\x01" + text(COMPARATOR) + b"\x04" + varint(300)


def added(
    number: int, *, level: int = 0, family: int = 0, key: bytes = b"key", more: bytes = b"\x01"
) -> bytes:
    file = varint(103) + varint(level) + varint(number) + varint(number * 1000)
    file += text(key + bytes(8)) + text(key + b"z" + bytes(8)) + varint(1) + varint(number)
    return file + more + varint(200) + varint(family)


def deleted(number: int, *, level: int = 0, family: int = 0) -> bytes:
    return b"\x06" + varint(level) + varint(number) + varint(200) + varint(family)


def family_added(number: int, name: bytes) -> bytes:
    return varint(200) + varint(number) + varint(201) + text(name)


@dataclass
class Job:
    """Edits, and the files that they leave."""

    records: list[bytes] = field(default_factory=lambda: [BEGIN, family_added(1, b"count")])
    files: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: {0: [], 1: []})


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    job = Job()
    for number in range(1, draw(st.integers(1, 60))):
        family, level, deletes = draw(st.tuples(st.integers(0, 1), st.integers(0, 6), st.booleans()))
        there = job.files[family]
        edit = b""
        if there and deletes:
            gone = there.pop(number % len(there))
            edit = deleted(gone[1], level=gone[0], family=family)
        length, comes_first = draw(st.tuples(st.sampled_from([1, 30, 40_000]), st.booleans()))
        # What a compaction adds stands behind what it deletes, or before.
        new = added(number, level=level, family=family, key=b"k" * length)
        job.records.append(new + edit if comes_first else edit + new)
        there.append((level, number))
    return job


@given(job=jobs(), at_once=st.sampled_from([1, 200, 1 << 18]))
def test_the_files_are_those_that_edits_leave(job: Job, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "_BYTES_AT_ONCE", at_once)
        found = read(*job.records)

    names = {0: "default", 1: "count"}
    assert {name: [(one.level, one.number) for one in files] for name, files in found.families.items()} == {
        names[family]: files for family, files in job.files.items()
    }
    for files in found.families.values():
        for one in files:
            assert one.size_bytes == one.number * 1000
            assert one.largest_sequence == one.number
            assert one.largest == one.first_key + b"z" + bytes(8)
    assert found.last_sequence == 300


def test_a_family_that_is_dropped_is_gone_with_its_files() -> None:
    records = [BEGIN, family_added(1, b"old"), added(5, family=1), varint(200) + varint(1) + varint(202)]

    assert read(*records, family_added(2, b"new"), added(6, family=2)).families.keys() == {"default", "new"}
    with pytest.raises(NotReadHereError, match="unknown column family"):
        read(*records, added(6, family=1))


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([deleted(4)], "deleted file that was not there"),
        ([added(4), deleted(4), deleted(4)], "deleted file that was not there"),
        ([added(4), deleted(4, level=1)], "deleted file that was not there"),
        ([added(4, family=3)], "unknown column family"),
        ([family_added(1, b"a"), family_added(1, b"b")], "added twice"),
        ([family_added(1, b"a"), family_added(2, b"a")], "two column families"),
        ([b"\x01" + text(b"other")], "comparator b'other'"),
        ([varint(11) + varint(1)], "unknown field"),
        ([added(4, more=varint(64) + text(b"") + b"\x01")], "unknown field"),
        ([added(4, more=varint(4) + text(b"1") + b"\x01")], "unknown field"),
        ([added(4, level=64)], "a file elsewhere"),
        ([varint(300) + varint(1)], "not complete"),
    ],
)
@pytest.mark.parametrize("at_once", [1, 1 << 18])
def test_what_is_not_known_is_left_to_rocksdb(
    records: list[bytes], reason: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "_BYTES_AT_ONCE", at_once)

    with pytest.raises(NotReadHereError, match=reason):
        read(BEGIN, *records)


@pytest.mark.parametrize(
    "record", [b"\x06\x01", b"\x07\x00\x05\x01\x7f", b"\x04" + b"\xff" * 10, added(4)[:-1]]
)
def test_a_field_that_does_not_fit_is_an_error(record: bytes) -> None:
    with pytest.raises(CorruptDataError, match="a field that does not fit"):
        read(BEGIN, record)


def test_fields_of_later_versions_are_skipped() -> None:
    known = read(BEGIN + varint(8193) + text(b"new"), added(4, more=varint(6) + text(b"time") + b"\x01"))

    assert [one.number for one in known.families["default"]] == [4]
