"""Writes canonical savepoints of any size, in Flink's own format and without Flink.

The job: one keyed operator, uid `aggregate`, keys `key_0…`, maximum parallelism 128, parallelism 2, four states:

| state | type |
|---|---|
| count | VALUE Long |
| account | VALUE POJO {balance double, id long, name String, updatedAt long} |
| perDay | MAP String → Long, 4 entries for each key |
| events | LIST String, 3 elements for each key |

`tests/test_benchmarks.py` compares these files with those that Flink wrote for the same rows, byte for byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from readers.compiled.compiler import intrinsic_of
from readers.decode import loads
from readers.keygroups import key_group_bytes, operator_id_of

UID = "aggregate"
MAX_PARALLELISM = 128
PARALLELISM = 2
STATES = ("account", "count", "events", "perDay")
_BASE = "org.apache.flink.api.common.typeutils.base."
_STATE = "org.apache.flink.runtime.state."
_MAX_ENTRY_BYTES = 96
_KEYS_AT_A_TIME = 1 << 23
_ENTRIES_A_KEY = {"account": 1, "count": 1, "events": 1, "perDay": 4}

_jit = numba.njit(nogil=True, cache=True, error_model="numpy")
store_1 = intrinsic_of(loads.store_1)


def write_savepoint(
    directory: Path,
    keys: int,
    states: tuple[str, ...] = STATES,
    max_parallelism: int = MAX_PARALLELISM,
    *,
    is_sorted: bool = True,
) -> int:
    """Write a savepoint of `keys` keys into `directory` (made here); returns its size in bytes.

    Key i has count 10000 + i % 13, the account {i / 4, i, name i, 1.7e12 + i}, four days and three events. The entries of a
    key group are sorted by their bytes, as RocksDB writes them, or in any other order, as the hashmap backend does.
    """
    directory.mkdir(parents=True)
    header = keyed_header(states)
    each = max_parallelism // PARALLELISM
    handles = []
    for subtask in range(PARALLELISM):
        name = f"subtask-{subtask}"
        offsets = []
        with (directory / name).open("wb") as file:
            file.write(header)
            owned = range(subtask * each, (subtask + 1) * each)
            for group, members in members_of(owned, keys, max_parallelism):
                if not is_sorted:
                    members = np.random.default_rng(group).permutation(members)
                offsets.append(file.tell() if len(members) else 0)
                if len(members):
                    file.write(key_group(group, members, states, key_group_bytes(max_parallelism)))
            handles.append((subtask * each, offsets, name, file.tell()))
    (directory / "_metadata").write_bytes(metadata(handles, max_parallelism=max_parallelism))
    return sum(size for *_, size in handles)


def members_of(
    owned: range, keys: int, max_parallelism: int = MAX_PARALLELISM
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each of some key groups with the numbers of its keys, ascending.

    Of many keys, all are hashed again for some key groups at a time: memory stays the same.
    """
    passes = max(1, keys * len(owned) // max_parallelism // _KEYS_AT_A_TIME)
    for groups in np.array_split(np.arange(owned.start, owned.stop), min(passes, len(owned))):
        found = [
            _members_in(range(start, min(start + _KEYS_AT_A_TIME, keys)), groups, max_parallelism)
            for start in range(0, keys, _KEYS_AT_A_TIME)
        ]
        for place, group in enumerate(groups.tolist()):
            yield group, np.concatenate([np.empty(0, dtype=np.int64), *(members[place] for members in found)])


def _members_in(numbers: range, groups: NDArray[np.int64], max_parallelism: int) -> list[NDArray[np.int64]]:
    """Return for each of neighbouring key groups the keys of a range that it has."""
    hashed = np.empty(len(numbers), dtype=np.int64)
    key_groups(hashed, max_parallelism, numbers.start)
    inside = np.flatnonzero((hashed >= groups[0]) & (hashed <= groups[-1]))
    order = np.argsort(hashed[inside], kind="stable")
    bounds = np.searchsorted(hashed[inside][order], groups[1:])
    return np.split(inside[order] + numbers.start, bounds)


def write_one_key(directory: Path, entries: int) -> int:
    """Write a savepoint whose only key, `key_0`, has a map of `entries` entries: i as eight digits → i; return its size in bytes."""
    directory.mkdir(parents=True)
    groups = np.empty(1, dtype=np.int64)
    key_groups(groups, MAX_PARALLELISM)
    group = int(groups[0])
    beginning = bytes([group]) + b"\x06key_0" + b"\x00" + b"\x09"
    entry = np.dtype(
        [
            ("a", ">i4"),
            ("b", f"V{len(beginning)}"),
            ("digits", "u1", 8),
            ("c", ">i4"),
            ("d", "u1"),
            ("value", ">i8"),
        ]
    )
    numbers = np.arange(entries, dtype=np.int64)
    rows = np.zeros(entries, dtype=entry)
    rows["a"], rows["b"], rows["c"] = len(beginning) + 8, np.void(beginning), 9
    for place in range(8):
        rows["digits"][:, place] = 48 + numbers // 10 ** (7 - place) % 10
    rows["value"] = numbers
    # The flag of the last entry means that the end of the key group follows.
    rows["b"][-1] = np.void(bytes([group | 0x80]) + beginning[1:])
    path = directory / "subtask-0"
    header = keyed_header(("perDay",))
    with path.open("wb") as file:
        file.write(header + b"\x00\x00")
        rows.tofile(file)
        file.write(b"\xff\xff")
    offsets = [len(header) if number == group else 0 for number in range(MAX_PARALLELISM)]
    size = path.stat().st_size
    (directory / "_metadata").write_bytes(metadata([(0, offsets, path.name, size)]))
    return size


def keyed_header(states: tuple[str, ...]) -> bytes:
    """Return a KeyedBackendSerializationProxy, version 6, of String keys."""
    infos = b"".join(_meta_info(name) for name in states)
    return (
        struct.pack(">ib", 6, 0)
        + _block(_simple("StringSerializer"))
        + struct.pack(">h", len(states))
        + infos
    )


def entry_bytes(key: bytes, value: bytes) -> bytes:
    """Return a framed entry without the flag that meta data follow."""
    return struct.pack(">i", len(key)) + key + struct.pack(">i", len(value)) + value


def key_group(group: int, members: NDArray[np.int64], states: tuple[str, ...], width: int = 1) -> memoryview:
    total = sum(_ENTRIES_A_KEY[state] for state in states)
    memory = np.empty(len(members) * total * _MAX_ENTRY_BYTES + 64, dtype=np.uint8)
    position = 0
    for number, state in enumerate(states):
        following = number + 1 if number + 1 < len(states) else 0xFFFF
        writer = _WRITERS[state]
        if number == 0:
            memory[0:2] = (0, 0)
            position = 2
        position = writer(memory.ctypes.data, position, group, width, members, following)
    return memory[:position].data


@_jit
def _digits(memory: int, position: int, number: int) -> int:
    """Write decimal digits as ASCII; return the position after them."""
    power = 1
    while power * 10 <= number:
        power *= 10
    while power > 0:
        store_1(memory, position, 48 + number // power % 10)
        position += 1
        power //= 10
    return position


@_jit
def _big_endian_4(memory: int, position: int, value: int) -> None:
    for index in range(4):
        store_1(memory, position + index, value >> (24 - 8 * index) & 0xFF)


@_jit
def _big_endian_8(memory: int, position: int, value: int) -> None:
    for index in range(8):
        store_1(memory, position + index, value >> (56 - 8 * index) & 0xFF)


@_jit
def _numbered(memory: int, position: int, prefix: Any, number: int) -> int:
    """Write a Flink string, `prefix` and the digits of `number`; return the position after it."""
    start = position + 1
    for index in range(len(prefix)):
        store_1(memory, start + index, prefix[index])
    end = _digits(memory, start + len(prefix), number)
    store_1(memory, position, end - start + 1)
    return end


@_jit
def _begin(memory: int, position: int, group: int, width: int, number: int) -> int:
    """Write the composite key of `key_<number>` without its length, from `position + 4` on; return the position after it."""
    for index in range(width):
        store_1(memory, position + 4 + index, group >> 8 * (width - 1 - index) & 0xFF)
    end = _numbered(memory, position + 4 + width, _KEY, number)
    store_1(memory, end, 0)
    return end + 1


@_jit
def _end_key(memory: int, position: int, end: int, group: int, width: int, last: bool) -> None:
    """Write the length of the composite key that ends at `end`; in the last entry of a state, the flag that meta data follow, too."""
    _big_endian_4(memory, position, end - position - 4)
    if last:
        store_1(memory, position + 4, group >> 8 * (width - 1) | 0x80)


@_jit
def _close(memory: int, position: int, last: bool, following: int) -> int:
    """Write the id of the next state after the last entry of a state; return the position after it."""
    if last:
        store_1(memory, position, following >> 8)
        store_1(memory, position + 1, following & 0xFF)
        return position + 2
    return position


@_jit
def _write_count(memory: int, position: int, group: int, width: int, members: Any, following: int) -> int:
    for index in range(len(members)):
        number = members[index]
        last = index == len(members) - 1
        end = _begin(memory, position, group, width, number)
        _end_key(memory, position, end, group, width, last)
        _big_endian_4(memory, end, 8)
        _big_endian_8(memory, end + 4, 10_000 + number % 13)
        position = _close(memory, end + 12, last, following)
    return position


@_jit
def _write_account(memory: int, position: int, group: int, width: int, members: Any, following: int) -> int:
    scratch = np.empty(1, np.float64)
    bits = scratch.view(np.int64)
    for index in range(len(members)):
        number = members[index]
        last = index == len(members) - 1
        end = _begin(memory, position, group, width, number)
        _end_key(memory, position, end, group, width, last)
        value = end + 4
        at = value
        store_1(memory, at, 2)
        store_1(memory, at + 1, 0)
        scratch[0] = number / 4
        _big_endian_8(memory, at + 2, bits[0])
        store_1(memory, at + 10, 0)
        _big_endian_8(memory, at + 11, number)
        store_1(memory, at + 19, 0)
        at = _numbered(memory, at + 20, _NAME, number)
        store_1(memory, at, 0)
        _big_endian_8(memory, at + 1, 1_700_000_000_000 + number)
        at += 9
        _big_endian_4(memory, end, at - value)
        position = _close(memory, at, last, following)
    return position


@_jit
def _write_events(memory: int, position: int, group: int, width: int, members: Any, following: int) -> int:
    for index in range(len(members)):
        number = members[index]
        last = index == len(members) - 1
        end = _begin(memory, position, group, width, number)
        _end_key(memory, position, end, group, width, last)
        value = end + 4
        at = value
        for event in range(3):
            if event:
                store_1(memory, at, 0x2C)
                at += 1
            at = _numbered(memory, at, _EVENT, number * 3 + event)
        _big_endian_4(memory, end, at - value)
        position = _close(memory, at, last, following)
    return position


@_jit
def _write_per_day(memory: int, position: int, group: int, width: int, members: Any, following: int) -> int:
    for index in range(len(members)):
        number = members[index]
        for day in range(4):
            last = index == len(members) - 1 and day == 3
            end = _begin(memory, position, group, width, number)
            end = _numbered(memory, end, _DAY, 20_240_101 + day)
            _end_key(memory, position, end, group, width, last)
            _big_endian_4(memory, end, 9)
            store_1(memory, end + 4, 0)
            _big_endian_8(memory, end + 5, number + day)
            position = _close(memory, end + 13, last, following)
    return position


@_jit
def _times(word: int, factor: int) -> int:
    """Return the low 32 bits of a product, without an overflow of 64."""
    low = (word & 0xFFFF) * factor
    high = ((word >> 16) * factor & 0xFFFF) << 16
    return (low + high) & 0xFFFFFFFF


@_jit
def key_groups(groups: Any, max_parallelism: int, first: int = 0) -> None:
    """Return the key group of `key_<i>` for each i from `first` on: String#hashCode, MathUtils#murmurHash."""
    text = np.empty(32, np.uint8)
    text_at = text.ctypes.data
    mask = np.int64(0xFFFFFFFF)
    for number in range(len(groups)):
        end = _digits(text_at, 0, first + number)
        code = np.int64(0)
        for index in range(len(_KEY)):
            code = (31 * code + _KEY[index]) & mask
        for index in range(end):
            code = (31 * code + text[index]) & mask
        word = _times(code, 0xCC9E2D51)
        word = ((word << 15) | (word >> 17)) & mask
        word = _times(word, 0x1B873593)
        word = ((word << 13) | (word >> 19)) & mask
        word = (word * 5 + np.int64(0xE6546B64)) & mask
        word ^= 4
        word ^= word >> 16
        word = _times(word, 0x85EBCA6B)
        word ^= word >> 13
        word = _times(word, 0xC2B2AE35)
        word ^= word >> 16
        if word >= 0x80000000:
            word = 0x100000000 - word
        groups[number] = word % max_parallelism


def metadata(
    handles: list[tuple[int, list[int], str, int]], tag: int = 7, max_parallelism: int = MAX_PARALLELISM
) -> bytes:
    """Return a `_metadata` of version 6 with one operator; `tag` of the handles: 7 means canonical, 3 leaves it open."""
    parts = [
        struct.pack(">iiqii", 0x4960672D, 6, 1, 0, 1),
        _utf("aggregate") + _utf(UID) + bytes.fromhex(operator_id_of(UID)),
        struct.pack(">iib", PARALLELISM, max_parallelism, 0) + struct.pack(">i", len(handles)),
    ]
    for subtask, (first, offsets, name, size) in enumerate(handles):
        parts.append(struct.pack(">iii", subtask, 0, 0))
        parts.append(
            struct.pack(">bii", tag, first, len(offsets)) + struct.pack(f">{len(offsets)}q", *offsets)
        )
        parts.append(struct.pack(">b", 6) + _utf(name) + struct.pack(">q", size))
        parts.append(struct.pack(">bii", 0, 0, 0))
    return b"".join(parts) + _PROPERTIES


def _meta_info(name: str) -> bytes:
    kind, snapshot = _TYPES[name]
    void = _snapshot(_STATE + "VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot", 3)
    return b"".join(
        (
            _utf(name)
            + struct.pack(">ii", 0, 1)
            + _utf("KEYED_STATE_TYPE")
            + _utf(kind)
            + struct.pack(">i", 2),
            _utf("VALUE_SERIALIZER") + _block(snapshot),
            _utf("NAMESPACE_SERIALIZER") + _block(void),
        )
    )


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")


def _block(snapshot: bytes) -> bytes:
    return struct.pack(">i", 2) + snapshot


def _snapshot(name: str, version: int, body: bytes = b"") -> bytes:
    return _utf(name) + struct.pack(">i", version) + body


def _simple(name: str) -> bytes:
    return _snapshot(f"{_BASE}{name}${name}Snapshot", 3)


def _composite(name: str, nested: list[bytes]) -> bytes:
    head = struct.pack(">iiiii", 911108, 1, 1333245, 1, len(nested))
    return _snapshot(_BASE + name, 3, head + b"".join(nested))


def _frame(data: bytes) -> bytes:
    return struct.pack(">bi", 1, len(data)) + data


def _pojo(name: str, fields: dict[str, bytes]) -> bytes:
    magic = struct.pack(">q", 0x4F2C69A3D70)
    entries = b"".join(
        _utf(field) + _frame(_utf(name) + _utf(field)) + _frame(snapshot)
        for field, snapshot in fields.items()
    )
    body = _utf(name) + magic + struct.pack(">i", len(fields)) + entries + (magic + struct.pack(">i", 0)) * 2
    return _snapshot("org.apache.flink.api.java.typeutils.runtime.PojoSerializerSnapshot", 2, body)


_KEY = np.frombuffer(b"key_", dtype=np.uint8)
_NAME = np.frombuffer(b"account holder ", dtype=np.uint8)
_EVENT = np.frombuffer(b"event_", dtype=np.uint8)
_DAY = np.frombuffer(b"", dtype=np.uint8)

_WRITERS: dict[str, Callable[[int, int, int, int, Any, int], int]] = {
    "account": _write_account,
    "count": _write_count,
    "events": _write_events,
    "perDay": _write_per_day,
}
_TYPES = {
    "account": (
        "VALUE",
        _pojo(
            "benchmarks.Account",
            {
                "balance": _simple("DoubleSerializer"),
                "id": _simple("LongSerializer"),
                "name": _simple("StringSerializer"),
                "updatedAt": _simple("LongSerializer"),
            },
        ),
    ),
    "count": ("VALUE", _simple("LongSerializer")),
    "events": ("LIST", _composite("ListSerializerSnapshot", [_simple("StringSerializer")])),
    "perDay": (
        "MAP",
        _composite("MapSerializerSnapshot", [_simple("StringSerializer"), _simple("LongSerializer")]),
    ),
}
# The reader recognises the properties of a canonical savepoint by these names; see readers/metadata/reader.py.
_PROPERTIES = bytes.fromhex("aced0005") + b"".join(
    b"\x74" + _utf(text) for text in ("org.apache.flink.runtime.checkpoint.SavepointType", "CANONICAL")
)
