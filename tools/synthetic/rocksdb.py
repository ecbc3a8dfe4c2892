"""Writes native RocksDB savepoints of any size: the rows of `tools.synthetic.savepoints`, as a job leaves them in RocksDB.

RocksDB itself writes the SST files, with Flink's options. It gets the writes as a write-ahead log, which it replays when it is
opened: no Python client of RocksDB can write merge operands, and none writes millions of entries a second. The writes of a job
come in three rounds, so that a reader which ignores overwrites, deletes or merges returns wrong rows:

| round | count, account | perDay | events |
|---|---|---|---|
| 1 | stale values | stale values, and one more entry for each key | a stale list |
| 2 | the values | the values; the additional entries are deleted | cleared; the first event is appended |
| 3 | | | the other events are appended |

A log is cut into blocks and records as a MANIFEST is (`readers/formats/rocksdb/sst/manifest.py`). A record is a WriteBatch:

| bytes | meaning |
|---|---|
| u8 | sequence number of its first write |
| u4 | number of writes |
| u1 05, varint family, varint, key, varint, value | put |
| u1 04 or 08, varint family, varint, key | delete, single delete |
| u1 06, varint family, varint, key, varint, value | merge |
| u1 0E, varint family, varint, first key, varint, key behind the last | delete a range |

Little endian. RocksDB: WriteBatch, log::Writer.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep
from typing import Any

import numba
import numpy as np
import rocksdict
from numpy.typing import NDArray

from readers.compiled.compiler import intrinsic_of
from readers.decode import loads
from readers.formats.full.layout import cut_key_group
from readers.formats.rocksdb.database import read_only_copy
from readers.formats.rocksdb.source import RocksSource
from readers.formats.rocksdb.sst.checksums import crc32c, masked
from readers.formats.rocksdb.sst.files import Directory
from readers.formats.rocksdb.sst.manifest import read_manifest
from readers.formats.streams import KeyGroupBody
from readers.keygroups import operator_id_of
from readers.metadata import IncrementalRemoteKeyedStateHandle
from readers.savepoint import Savepoint
from tools.synthetic.savepoints import (
    MAX_PARALLELISM,
    PARALLELISM,
    STATES,
    UID,
    key_group,
    key_groups,
    keyed_header,
    members_of,
)

FLINK = (
    Path(__file__).parents[2]
    / "tests"
    / "data"
    / "flink"
    / "1.20.3"
    / "wordcount-rocksdb-savepoints"
    / "native"
)
"""A savepoint that Flink wrote, for the options in it."""

PUT, DELETE, MERGE, SINGLE_DELETE, DELETE_RANGE = 5, 4, 6, 8, 14
ROUNDS = 3

_LOG_BLOCK_BYTES = 1 << 15
_LOG_HEADER_BYTES = 7
_ONE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4

_jit = numba.njit(nogil=True, cache=True, error_model="numpy")
load_u1, store_1 = intrinsic_of(loads.load_u1), intrinsic_of(loads.store_1)

Batch = tuple[int, bytes]
"""How many writes, and their bytes."""


class RocksWriter:
    """A RocksDB instance that gets its writes through its log.

    Args:
        directory: a new one.
        families: the column families, all with the options of `options_file`.
        options_file: an OPTIONS file of Flink.
        adjust: changes the options of the families.
    """

    def __init__(
        self,
        directory: Path,
        families: tuple[str, ...],
        options_file: Path,
        adjust: Callable[[rocksdict.Options], None] = lambda _: None,
    ) -> None:
        self.directory = directory
        self._numbers = {name: number for number, name in enumerate(families, start=1)}
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(options_file, folder)
            self.options, known = rocksdict.Options.load_latest(folder)
            self.family_options = next(options for name, options in known.items() if name != "default")
        self.options.create_if_missing(True)
        adjust(self.family_options)
        database = rocksdict.Rdict(str(directory), options=self.options)
        for name in families:
            database.create_column_family(name, self.family_options)
        database.close()
        self._sequence = 1

    def write(self, batches: Iterator[Batch]) -> None:
        """Put the writes into the log, and let RocksDB replay it into SST files."""
        log = max(self.directory.glob("*.log"))
        with log.open("wb") as file:
            for count, writes in batches:
                file.write(framed_record(struct.pack("<qi", self._sequence, count) + writes, file.tell()))
                self._sequence += count
        database = self.open()
        for name in self._numbers:
            database.get_column_family(name).flush()
        while int(database.property_value("rocksdb.num-running-compactions") or 0):
            sleep(0.01)
        database.close()

    def open(self) -> rocksdict.Rdict:
        """Open the instance for reading and writing."""
        families = {"default": self.family_options, **dict.fromkeys(self._numbers, self.family_options)}
        return rocksdict.Rdict(str(self.directory), options=self.options, column_families=families)

    def live_files(self) -> Iterator[Path]:
        """Yield the files that a checkpoint of the instance has."""
        return live_files(self.directory)


def live_files(directory: Path) -> Iterator[Path]:
    """Yield the files that a checkpoint of an instance in this directory has."""
    manifest = read_manifest(Directory(directory), str(directory))
    for files in manifest.families.values():
        yield from (directory / file.name for file in files)
    current = directory / "CURRENT"
    yield current
    yield directory / current.read_text().strip()
    yield max(directory.glob("OPTIONS-*"))


def framed_record(data: bytes, position: int) -> bytes:
    """Return a record as a log holds it from `position` on: in fragments that end with the blocks."""
    parts = []
    rest = memoryview(data)
    is_first = True
    while is_first or rest:
        left = _LOG_BLOCK_BYTES - position % _LOG_BLOCK_BYTES
        if left < _LOG_HEADER_BYTES:
            parts.append(bytes(left))
            position += left
            continue
        part, rest = rest[: left - _LOG_HEADER_BYTES], rest[left - _LOG_HEADER_BYTES :]
        kind = (_FIRST if rest else _ONE) if is_first else (_MIDDLE if rest else _LAST)
        checked = np.frombuffer(bytes([kind]) + part, dtype=np.uint8)
        checksum = masked(crc32c(0, checked.ctypes.data, len(checked)))
        parts.append(struct.pack("<IHB", checksum, len(part), kind) + part)
        position += _LOG_HEADER_BYTES + len(part)
        is_first = False
    return b"".join(parts)


def flink_options(savepoint: Path, directory: Path) -> Path:
    """Copy the OPTIONS file of a native savepoint that Flink wrote into a directory; return its path."""
    for operator in Savepoint(savepoint).operators:
        for part in (part for state in operator.states for part in state.parts):
            if isinstance(part.source, RocksSource):
                handle: IncrementalRemoteKeyedStateHandle = part.source.handle
                read_only_copy(part.source.location, handle, directory)
                return max(directory.glob("OPTIONS-*"))
    raise FileNotFoundError(f"no state of RocksDB in {savepoint}")


def write_native_savepoint(directory: Path, keys: int, states: tuple[str, ...] = STATES) -> int:
    """Write a native savepoint of `keys` keys into `directory` (made here); returns its size in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        return _write_native_savepoint(directory, keys, states, flink_options(FLINK, Path(folder)))


def write_next_checkpoint(savepoint: Path, directory: Path, keys: range) -> int:
    """Write a checkpoint that a job with such a savepoint would make after `keys` of `count` got other values.

    Its tables are those of the savepoint (links), and a new one for each subtask. Returns the bytes of the new ones.
    """
    directory.mkdir(parents=True)
    states = Savepoint(savepoint).operators[0].states
    sources: dict[int, RocksSource] = {
        part.source.subtask: part.source
        for state in states
        for part in state.parts
        if isinstance(part.source, RocksSource)
    }
    (directory / "meta").hardlink_to(savepoint / "meta")
    group_of = {key: _key_group_of(key) for key in keys}
    handles = []
    written = 0
    for subtask, source in sorted(sources.items()):
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            instance = Path(folder)
            for local, stream in source.handle.files():
                place = savepoint / Path(stream.path or "").name
                if local.endswith(".sst"):
                    (instance / local).hardlink_to(place)
                else:
                    shutil.copy(place, instance / local)
            owned = source.key_group_range
            _change(instance, {key: group for key, group in group_of.items() if group in owned})
            files = []
            for file in list(live_files(instance)):
                name = f"subtask-{subtask}-{file.name}"
                if file.stat().st_nlink == 1:
                    written += file.stat().st_size
                shutil.move(file, directory / name)
                files.append((file.name, name))
        handles.append((subtask, owned.start, owned.number_of_key_groups, files))
    (directory / "_metadata").write_bytes(metadata(directory, handles))
    return written


def _key_group_of(number: int) -> int:
    group = np.empty(1, dtype=np.int64)
    key_groups(group, MAX_PARALLELISM, number)
    return int(group[0])


def _change(instance: Path, group_of: dict[int, int]) -> None:
    """Put another `count` for each key."""
    options, families = rocksdict.Options.load_latest(str(instance))
    for family in families.values():
        family.set_disable_auto_compactions(True)
    database = rocksdict.Rdict(str(instance), options=options, column_families=families)
    count = database.get_column_family("count")
    for key, group in group_of.items():
        text = b"key_%d" % key
        count[bytes([group, len(text) + 1]) + text + b"\0"] = struct.pack(">q", -key)
    count.flush()
    database.close()


def _write_native_savepoint(directory: Path, keys: int, states: tuple[str, ...], options_file: Path) -> int:
    directory.mkdir(parents=True)
    (directory / "meta").write_bytes(keyed_header(states))
    each = MAX_PARALLELISM // PARALLELISM
    handles = []
    for subtask in range(PARALLELISM):
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            writer = RocksWriter(Path(folder) / "db", states, options_file)
            owned = range(subtask * each, (subtask + 1) * each)
            for number in range(1, ROUNDS + 1):
                writer.write(_round(number, members_of(owned, keys), states))
            files = [(file.name, f"subtask-{subtask}-{file.name}") for file in writer.live_files()]
            for local, name in files:
                shutil.move(writer.directory / local, directory / name)
        handles.append((subtask, subtask * each, each, files))
    (directory / "_metadata").write_bytes(metadata(directory, handles))
    return sum(file.stat().st_size for file in directory.iterdir())


def _round(
    number: int, members: Iterator[tuple[int, NDArray[np.int64]]], states: tuple[str, ...]
) -> Iterator[Batch]:
    """Yield the writes of a round, a batch for each key group and state."""
    for group, numbers in members:
        for family, state in enumerate(states, start=1):
            if not len(numbers) or (number == ROUNDS and state != "events"):
                continue
            data = np.frombuffer(key_group(group, numbers, (state,)), dtype=np.uint8).copy()
            parts = list(
                cut_key_group(
                    KeyGroupBody(key_group=group, data=data, first=0, last=len(data), path=state), 0
                )
            )
            starts = np.concatenate([part[0] for part in parts])
            ends = np.concatenate([part[1] for part in parts])
            data[starts[-1, 0]] = group
            memory = np.zeros(4 * len(data) + 64, dtype=np.uint8)
            used, count = _write_round(
                memory.ctypes.data,
                data.ctypes.data,
                starts,
                ends,
                number,
                family,
                _WITH_DELETED.get(state, 0),
                state == "events",
            )
            yield count, memory[:used].tobytes()


@_jit
def _write(
    memory: int, position: int, kind: int, family: int, key: int, key_bytes: int, value: int, value_bytes: int
) -> int:
    """Write a key and a value, each of less than 128 bytes; return the position after them. A `value` of 0 means zeros."""
    store_1(memory, position, kind)
    store_1(memory, position + 1, family)
    store_1(memory, position + 2, key_bytes)
    position += 3
    for index in range(key_bytes):
        store_1(memory, position + index, load_u1(key, index))
    position += key_bytes
    if kind == DELETE:
        return position
    store_1(memory, position, value_bytes)
    for index in range(value_bytes):
        store_1(memory, position + 1 + index, load_u1(value, index) if value else 0)
    return position + 1 + value_bytes


@_jit
def _write_round(
    memory: int, data: int, starts: Any, ends: Any, number: int, family: int, more: int, is_list: bool
) -> tuple[int, int]:
    """Return the bytes and the count of the writes of a round for some entries. `more` is a byte that makes another key."""
    at = 0
    count = 0
    for index in range(len(starts)):
        key = data + starts[index, 0]
        key_bytes = ends[index, 0] - starts[index, 0]
        value = data + starts[index, 1]
        value_bytes = ends[index, 1] - starts[index, 1]
        first = load_u1(value, 0)
        if number == 1:
            at = _write(memory, at, PUT, family, key, key_bytes, 0, value_bytes)
        elif not is_list:
            at = _write(memory, at, PUT, family, key, key_bytes, value, value_bytes)
        elif number == 2:
            at = _write(memory, at, DELETE, family, key, key_bytes, 0, 0)
            at = _write(memory, at, MERGE, family, key, key_bytes, value, first)
            count += 1
        else:
            second = value + first + 1
            length = load_u1(second, 0)
            at = _write(memory, at, MERGE, family, key, key_bytes, second, length)
            third = second + length + 1
            at = _write(memory, at, MERGE, family, key, key_bytes, third, value + value_bytes - third)
            count += 1
        count += 1
        if more:
            store_1(key, key_bytes, more)  # behind the key is the length of the value, which is known
            kind = PUT if number == 1 else DELETE
            at = _write(memory, at, kind, family, key, key_bytes + 1, 0, value_bytes)
            count += 1
    return at, count


def metadata(directory: Path, handles: list[tuple[int, int, int, list[tuple[str, str]]]]) -> bytes:
    """Return a `_metadata` of version 6 with one operator."""
    parts = [
        struct.pack(">iiqii", 0x4960672D, 6, 1, 0, 1),
        _utf("aggregate") + _utf(UID) + bytes.fromhex(operator_id_of(UID)),
        struct.pack(">iib", PARALLELISM, MAX_PARALLELISM, 0) + struct.pack(">i", len(handles)),
    ]
    for subtask, first, count, files in handles:
        shared = [file for file in files if file[0].endswith(".sst")]
        private = [file for file in files if file not in shared]
        parts.append(struct.pack(">iii", subtask, 0, 0))
        parts.append(struct.pack(">bq", 11, 1) + _utf(f"00000000-0000-0000-0000-{subtask:012d}"))
        parts.append(struct.pack(">iiq", first, count, 0) + _relative(directory, "meta"))
        for listed in (shared, private):
            parts.append(struct.pack(">i", len(listed)))
            parts += [_utf(local) + _relative(directory, name) for local, name in listed]
        parts.append(_utf(f"subtask-{subtask}"))
        parts.append(struct.pack(">bii", 0, 0, 0))
    return b"".join(parts) + _PROPERTIES


def _relative(directory: Path, name: str) -> bytes:
    return struct.pack(">b", 6) + _utf(name) + struct.pack(">q", (directory / name).stat().st_size)


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")


_WITH_DELETED = {"perDay": 0x78}
# The reader recognises the properties of a native savepoint by these names; see readers/metadata/reader.py.
_PROPERTIES = bytes.fromhex("aced0005") + b"".join(
    b"\x74" + _utf(text) for text in ("org.apache.flink.runtime.checkpoint.SavepointType", "NATIVE")
)
