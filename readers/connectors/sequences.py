"""NumberSequenceSource and, built on it, DataGeneratorSource: connector `datagen`; and enumerators without state.

| value | version | bytes |
|---|---|---|
| NumberSequenceSplit | 1 | utf id, i8 from, i8 to (inclusive) |
| the coordinator's splits | 1 | i4 n, n × split |

Flink: NumberSequenceSource$SplitSerializer, $CheckpointSerializer.

Bounded test sources have enumerators without state, and sources that assign all splits at once: the source's coordinator writes
only its framing. The bytes do not name the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from readers.connectors.layout import (
    OffsetBounds,
    SourceOffset,
    check_version,
    coordinator_layout,
    versioned_layout,
)
from readers.cursor import Cursor
from readers.schemas import struct_of

_PACKAGE = "org.apache.flink.api.connector.source.lib."
_FIRST = -(1 << 63)
_LAST = (1 << 63) - 1  # `Long.MAX_VALUE`: the last number of a source without an end
SPLIT = struct_of("split_id, from bigint, to bigint")
_ENUMERATOR = struct_of("splits split[]", split=SPLIT)


def read_split(version: int, cursor: Cursor) -> dict[str, Any]:
    """Read a NumberSequenceSplit; after the last number `from` is `to` + 1."""
    check_version(cursor, "a NumberSequenceSplit", version, 1)
    start = cursor.position
    split: dict[str, Any] = {"split_id": cursor.utf("split id"), "from": cursor.i8(), "to": cursor.i8()}
    # Flink numbers these splits: another id shows that the bytes have another layout.
    if not split["split_id"].isdecimal() or split["from"] > split["to"] + 1:
        raise cursor.corrupt("expected a numbered split with its bounds", start)
    return split


def read_enumerator(version: int, cursor: Cursor) -> dict[str, Any]:
    """Read the splits that no reader has."""
    count = cursor.count("splits", 18)
    return {"splits": [read_split(version, cursor) for _ in range(count)]}


def _split_offsets(split: dict[str, Any]) -> Iterator[SourceOffset]:
    details = {"source": "NumberSequenceSource"} | split
    stopping_offset = None if split["to"] == _LAST else split["to"] + 1
    # A sequence may begin below 0: one that has numbers from 0 on does not.
    bounds = OffsetBounds(least=0 if split["from"] >= 0 else _FIRST, greatest=stopping_offset or _LAST)
    yield SourceOffset(
        starting_offset=split["from"], stopping_offset=stopping_offset, bounds=bounds, details=details
    )


SPLITS = versioned_layout(
    "datagen",
    _PACKAGE + "NumberSequenceSource$NumberSequenceSplit",
    SPLIT,
    read_split,
    _split_offsets,
    starting_offset_at=16,
)
ENUMERATOR = coordinator_layout(
    "datagen",
    _PACKAGE + "NumberSequenceSource$CheckpointSerializer",
    _ENUMERATOR,
    read_enumerator,
    _split_offsets,
)


def read_no_state(version: int, cursor: Cursor) -> dict[str, Any]:
    """Return only the version; the caller raises an error if bytes follow."""
    return {"enumerator_version": version}


STATELESS_ENUMERATOR = coordinator_layout(
    "source",
    "org.apache.flink.api.connector.source.SplitEnumerator",
    struct_of("enumerator_version int"),
    read_no_state,
)
