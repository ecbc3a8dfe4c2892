"""One state with bytes of Kryo 2.24 and of Kryo 5, as RocksDB has it after an upgrade."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from readers.decode.decoder import Page
from readers.formats.composite import CompositeSource
from readers.formats.entry import Entry, StateKind
from readers.formats.source import Selection, StateName
from readers.rows import state_schema
from readers.serializers.base import Serializer
from readers.serializers.kryo.serializer import KryoSerializer
from readers.serializers.kryo.settings import KRYO_5, KryoSettings
from readers.serializers.primitives import StringSerializer, VoidNamespaceSerializer
from readers.states import StatePart
from tests.support.single_values import vector

KEY = b"\x00" + b"\x02k" + b"\x00"  # key group, key, VoidNamespace


def written(flink: str, word: str) -> bytes:
    """What Flink wrote of an object in a field of type Object."""
    values = vector("Kryo Object holding assorted", flink)["values"]
    return next(bytes.fromhex(one["hex"]) for one in values if list(one["value"] or ()) == [word])


@dataclass(frozen=True, kw_only=True, eq=False)
class OnePage(CompositeSource):
    """Entries of one key, with these values."""

    values: tuple[bytes, ...]

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        data = b"".join(KEY + value for value in self.values)
        ends = np.cumsum([len(part) for value in self.values for part in (KEY, value)]).reshape(-1, 2)
        starts = np.concatenate([[0], ends.ravel()[:-1]]).reshape(-1, 2)
        groups = np.zeros(len(self.values), dtype=np.int32)
        yield Page(
            data=np.frombuffer(data, dtype=np.uint8),
            starts=starts,
            ends=ends,
            key_groups=groups,
            subtask=0,
            path="x",
        )


def rows_of(type_class: str, *values: bytes) -> list[tuple[Any, bytes | None]]:
    """Return (value, undecoded bytes) of a state of Flink 2 that holds these values."""
    serializer: Serializer = KryoSerializer(type_class, KryoSettings(version=KRYO_5))
    entry = Entry(
        kind=StateKind.VALUE, key=StringSerializer(), namespace=VoidNamespaceSerializer(), value=serializer
    )
    name = StateName(name="state")
    source = OnePage(
        subtask=0, path="x", size_bytes=0, entries={name: entry}, max_parallelism=128, values=values
    )
    part = StatePart(source=source, name=name, entry=entry)
    schema = state_schema(entry)
    batches = part.read(schema.names, schema, Selection())
    found = [row for batch in batches for row in batch.to_pylist()]
    assert {row["key"] for row in found} == {"k"}
    return [(row["value"], row["_undecoded"]) for row in found]


UUID = "00000000-0000-0001-0000-000000000002"


def test_entries_of_both_versions_are_read_in_their_own() -> None:
    older, newer = written("1.", "UUID"), written("2.", "UUID")
    assert len(older) < len(newer)

    assert rows_of("java.util.UUID", newer, older, older, newer) == [(UUID, None)] * 4
    assert rows_of("java.util.UUID", older) == [(UUID, None)]


def test_what_is_of_neither_version_is_bytes_between_the_others() -> None:
    older, newer = written("1.", "LocalDate"), written("2.", "LocalDate")
    broken = newer[:-1]

    assert rows_of("java.time.LocalDate", newer, broken, older) == [
        ("2024-02-29", None),
        (None, broken),
        ("2024-02-29", None),
    ]


def test_what_both_versions_read_differently_is_certain_only_without_the_older_one() -> None:
    """The eight bytes of a double are in reverse order in the two versions; a UUID shows which one it is."""
    double = bytes.fromhex("0a000000000000f83f")
    older, newer = written("1.", "UUID"), written("2.", "UUID")

    assert rows_of("java.lang.Object", double, newer) == [("1.5", None), (f'"{UUID}"', None)]
    assert rows_of("java.lang.Object", double, older) == [(None, double), (f'"{UUID}"', None)]
