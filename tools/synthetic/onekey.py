"""Writes native savepoints of the hashmap backend and of RocksDB with one key whose map has millions of entries.

The canonical one is `tools.synthetic.savepoints.write_one_key`. All three hold for `key_0` the same map `perDay`, i as eight digits → i.
In the heap the state `events` (`event_0`) precedes it, and `count` (0) follows.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
from numpy.typing import NDArray

from tools.synthetic import rocksdb, savepoints
from tools.synthetic.rocksdb import FLINK, PUT, Batch, RocksWriter, flink_options
from tools.synthetic.savepoints import MAX_PARALLELISM, key_groups, keyed_header

_ENTRIES_AT_A_TIME = 1 << 16
_CHUNK_BYTES = 1 << 20
_KEY = b"\x06key_0"
_VOID_NAMESPACE = b"\x00"
_TEXT_LENGTH = b"\x09"
_KEY_GROUP_HANDLE = 3
_STATES = ("events", "perDay", "count")


def write_one_key_heap(directory: Path, entries: int) -> int:
    """Write a snapshot of the hashmap backend into `directory` (made here); return its size in bytes."""
    directory.mkdir(parents=True)
    own, name, offsets = _key_group(), "subtask-0", []
    entry = np.dtype([("length", "V1"), ("digits", "u1", 8), ("is_null", "u1"), ("value", ">i8")])
    with (directory / name).open("wb") as file:
        file.write(keyed_header(_STATES))
        for group in range(MAX_PARALLELISM):
            offsets.append(file.tell())
            count = int(group == own)
            file.write(struct.pack(">iHi", group, 0, count))
            if count:
                file.write(_VOID_NAMESPACE + _KEY + struct.pack(">i", 1) + b"\x08event_0")
            file.write(struct.pack(">Hi", 1, count))
            if count:
                file.write(_VOID_NAMESPACE + _KEY + struct.pack(">i", entries))
                for rows in _rows(entries, entry):
                    rows["length"] = np.void(_TEXT_LENGTH)
                    rows.tofile(file)
            file.write(struct.pack(">Hi", 2, count))
            if count:
                file.write(_VOID_NAMESPACE + _KEY + struct.pack(">q", 0))
        size = file.tell()
    metadata = savepoints.metadata([(0, offsets, name, size)], tag=_KEY_GROUP_HANDLE)
    (directory / "_metadata").write_bytes(metadata)
    return size


def write_one_key_packed(directory: Path, entries: int) -> int:
    """Write the savepoint of `write_one_key` with snapshot compression; return its size in bytes without compression."""
    directory.mkdir(parents=True)
    header, group, name = keyed_header(("perDay",)), _key_group(), "subtask-0"
    with tempfile.TemporaryDirectory() as folder:
        size = savepoints.write_one_key(Path(folder) / "plain", entries)
        with (Path(folder) / "plain" / name).open("rb") as plain, (directory / name).open("wb") as file:
            file.write(_with_compression(plain.read(len(header))))
            while chunk := plain.read(_CHUNK_BYTES):
                file.write(cramjam.snappy.compress(chunk))
            packed_bytes = file.tell()
    offsets = [len(header) if number == group else 0 for number in range(MAX_PARALLELISM)]
    (directory / "_metadata").write_bytes(savepoints.metadata([(0, offsets, name, packed_bytes)]))
    return size


def write_one_key_heap_packed(directory: Path, entries: int) -> int:
    """Write the savepoint of `write_one_key_heap` with snapshot compression; return its size in bytes without compression."""
    directory.mkdir(parents=True)
    name, offsets = "subtask-0", []
    header, empty = keyed_header(_STATES), struct.pack(">HiHiHi", 0, 0, 1, 0, 2, 0)
    with tempfile.TemporaryDirectory() as folder:
        size = write_one_key_heap(Path(folder) / "plain", entries)
        with (Path(folder) / "plain" / name).open("rb") as plain, (directory / name).open("wb") as file:
            file.write(_with_compression(plain.read(len(header))))
            for group in range(MAX_PARALLELISM):
                offsets.append(file.tell())
                file.write(plain.read(4))
                left = size - len(header) - MAX_PARALLELISM * 4 - (MAX_PARALLELISM - 1) * len(empty)
                left = left if group == _key_group() else len(empty)
                while left:
                    chunk = plain.read(min(left, _CHUNK_BYTES))
                    file.write(cramjam.snappy.compress(chunk))
                    left -= len(chunk)
            packed_bytes = file.tell()
    metadata = savepoints.metadata([(0, offsets, name, packed_bytes)], tag=_KEY_GROUP_HANDLE)
    (directory / "_metadata").write_bytes(metadata)
    return size


def _with_compression(header: bytes) -> bytes:
    """Return a header with the compression flag set: the byte after its version."""
    return header[:4] + b"\1" + header[5:]


def write_one_key_native(directory: Path, entries: int) -> int:
    """Write a native savepoint of RocksDB into `directory` (made here); return its size in bytes."""
    _write_native(directory, "perDay", _puts(entries))
    return sum(file.stat().st_size for file in directory.iterdir())


def _write_native(directory: Path, state: str, puts: Iterator[Batch]) -> None:
    """Write a native savepoint of one subtask and one state into `directory` (made here)."""
    directory.mkdir(parents=True)
    (directory / "meta").write_bytes(keyed_header((state,)))
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        options = flink_options(FLINK, Path(folder))
        writer = RocksWriter(Path(folder) / "db", (state,), options)
        writer.write(puts)
        files = [(file.name, f"subtask-0-{file.name}") for file in writer.live_files()]
        for local, name in files:
            shutil.move(writer.directory / local, directory / name)
    handles = [(0, 0, MAX_PARALLELISM, files)]
    (directory / "_metadata").write_bytes(rocksdb.metadata(directory, handles))


def _puts(entries: int) -> Iterator[Batch]:
    beginning = bytes([_key_group()]) + _KEY + _VOID_NAMESPACE + _TEXT_LENGTH
    head = bytes([PUT, 1, len(beginning) + 8]) + beginning
    entry = np.dtype(
        [
            ("head", f"V{len(head)}"),
            ("digits", "u1", 8),
            ("value_bytes", "u1"),
            ("is_null", "u1"),
            ("value", ">i8"),
        ]
    )
    for rows in _rows(entries, entry):
        rows["head"], rows["value_bytes"] = np.void(head), 9
        yield len(rows), rows.tobytes()


def _rows(entries: int, entry: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    """Yield the entries, some at a time, with `digits` and `value` filled in."""
    for start in range(0, entries, _ENTRIES_AT_A_TIME):
        numbers = np.arange(start, min(start + _ENTRIES_AT_A_TIME, entries), dtype=np.int64)
        rows = np.zeros(len(numbers), dtype=entry)
        for place in range(8):
            rows["digits"][:, place] = 48 + numbers // 10 ** (7 - place) % 10
        rows["value"] = numbers
        yield rows


def _key_group() -> int:
    groups = np.empty(1, dtype=np.int64)
    key_groups(groups, MAX_PARALLELISM)
    return int(groups[0])


def write_large_values_heap(directory: Path, keys: int, value_bytes: int) -> int:
    """Write the savepoint of `write_large_values` as a snapshot of the hashmap backend."""
    directory.mkdir(parents=True)
    groups, name, offsets = _own_groups(keys), "subtask-0", []
    event = _varint(value_bytes + 1) + b"x" * value_bytes
    with (directory / name).open("wb") as file:
        file.write(keyed_header(("events",)))
        for group in range(MAX_PARALLELISM):
            offsets.append(file.tell())
            file.write(struct.pack(">iHi", group, 0, int(group in groups)))
            if group in groups:
                text = f"key_{groups.index(group)}".encode()
                file.write(_VOID_NAMESPACE + bytes([len(text) + 1]) + text + struct.pack(">i", 1) + event)
        size = file.tell()
    metadata = savepoints.metadata([(0, offsets, name, size)], tag=_KEY_GROUP_HANDLE)
    (directory / "_metadata").write_bytes(metadata)
    return size


def write_large_values_native(directory: Path, keys: int, value_bytes: int) -> int:
    """Write the savepoint of `write_large_values` as a native one of RocksDB; return its plain size in bytes."""
    event = _varint(value_bytes + 1) + b"x" * value_bytes

    def puts() -> Iterator[Batch]:
        for number, group in enumerate(_own_groups(keys)):
            text = f"key_{number}".encode()
            key = bytes([group, len(text) + 1]) + text + _VOID_NAMESPACE
            yield 1, bytes([PUT, 1, len(key)]) + key + _varint(len(event)) + event

    _write_native(directory, "events", puts())
    return keys * len(event)


def _own_groups(keys: int) -> list[int]:
    """Return the key groups of the first keys, each of which has one of its own."""
    groups = np.empty(keys, dtype=np.int64)
    key_groups(groups, MAX_PARALLELISM)
    found: list[int] = groups.tolist()
    if len(set(found)) < keys:
        raise ValueError(f"expected keys of as many key groups, found {found}")
    return found


def write_large_values(directory: Path, keys: int, value_bytes: int) -> int:
    """Write a canonical savepoint into `directory`, with one event of `value_bytes` letters a key; return its size in bytes."""
    directory.mkdir(parents=True)
    groups = _own_groups(keys)
    name, offsets = "subtask-0", [0] * MAX_PARALLELISM
    event = _varint(value_bytes + 1) + b"x" * value_bytes
    with (directory / name).open("wb") as file:
        file.write(keyed_header(("events",)))
        for number, group in enumerate(groups):
            offsets[group] = file.tell()
            text = f"key_{number}".encode()
            key = bytes([group | 0x80, len(text) + 1]) + text + _VOID_NAMESPACE
            file.write(b"\x00\x00" + savepoints.entry_bytes(key, event) + b"\xff\xff")
        size = file.tell()
    (directory / "_metadata").write_bytes(savepoints.metadata([(0, offsets, name, size)]))
    return size


def _varint(number: int) -> bytes:
    """Return the encoded length of a Flink string."""
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
