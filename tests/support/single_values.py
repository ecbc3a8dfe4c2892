"""Runs one serializer over single values: what the tests of value types share."""

from __future__ import annotations

import datetime
import gzip
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from readers.cursor import Cursor
from readers.decode.columns import ColumnTree, Outlier
from readers.decode.decoder import Decoder, Page
from readers.decode.program import Code, Program
from readers.serializers.base import Serializer
from readers.serializers.structs import ROW_KIND
from readers.snapshots.reading import read_versioned
from tests.support.paths import DATA

EPOCH = datetime.datetime(1970, 1, 1)
VECTORS = DATA / "vectors"


def vectors() -> list[dict[str, Any]]:
    """What real Flink wrote: types with their snapshots and values."""
    with gzip.open(VECTORS / "type-vectors.json.gz") as file:
        loaded: list[dict[str, Any]] = json.load(file)["vectors"]
    return loaded


def vector(name: str, flink: str) -> dict[str, Any]:
    """The vector of one type and one Flink version."""
    return next(entry for entry in vectors() if entry["type"] == name and entry["flink"].startswith(flink))


def vectors_of(*names: str) -> list[dict[str, Any]]:
    """The vectors whose serializer class has one of `names` in its name, snapshots included."""
    return [entry for entry in vectors() if any(name in entry.get("serializer_class", "") for name in names)]


def serializer_of(entry: dict[str, Any]) -> Serializer:
    """The serializer of a vector; its snapshot must be used up."""
    cursor = Cursor(bytes.fromhex(entry["snapshot_hex"]))
    serializer = read_versioned(cursor)

    assert cursor.remaining == 0
    return serializer


def decode(serializer: Serializer, *values: bytes, ends: bool = True) -> list[Any]:
    """The values of one column; see `decode_columns`."""
    return [row for column in decode_columns(serializer, *values, ends=ends) for row in column.to_pylist()]


def decode_one(serializer: Serializer, value: bytes) -> Any:
    """One value."""
    (row,) = decode(serializer, value)
    return row


def outliers(serializer: Serializer, *values: bytes) -> list[Outlier]:
    """What the column cannot hold of values, each an entry of its own."""
    page = page_of(values)
    return [
        outlier
        for batch in Decoder(*column_and_program(serializer, enabled=True, ends=True)).decode(page)
        for outlier in batch.outliers
    ]


def decode_columns(serializer: Serializer, *values: bytes, ends: bool = True) -> list[pa.Array]:
    """The values as valid Arrow arrays, each an entry of its own that must be used up (unless `ends` is false).

    The entries stand between other bytes, and are walked without columns too: both ways must find the same ends.
    """
    page = page_of(values)
    columns = []
    for batch in Decoder(*column_and_program(serializer, enabled=True, ends=ends)).decode(page):
        (column,) = batch.arrays
        column.validate(full=True)
        columns.append(column)
    walker = Decoder(*column_and_program(serializer, enabled=False, ends=ends))
    for start, end in zip(page.starts[:, 0], page.ends[:, 0], strict=True):
        _, found = walker.measure(page.data, int(start), int(end), 1, "test")

        assert not ends or found[0, 0] == end
    return columns


def walker_of(serializer: Serializer) -> Decoder:
    """Finds where values end that follow each other."""
    return Decoder(*column_and_program(serializer, enabled=False, ends=False))


def same(expected: Any, actual: Any) -> bool:
    """Whether a value is what the hand-written notation of the vectors says."""
    if isinstance(actual, dict):
        return _same_struct(expected, actual)
    if isinstance(actual, list) and isinstance(expected, dict):
        return len(actual) == len(expected) and all(
            same(expected["<null>" if key is None else str(key)], value) for key, value in map(_entry, actual)
        )
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(map(same, expected, actual))
    if isinstance(actual, datetime.datetime):
        return _same_timestamp(expected, actual)
    if isinstance(actual, datetime.date):
        return bool(expected == actual.toordinal() - EPOCH.toordinal())
    if isinstance(actual, datetime.time):
        return bool(
            expected
            == ((actual.hour * 60 + actual.minute) * 60 + actual.second) * 1000 + actual.microsecond // 1000
        )
    if isinstance(actual, Decimal):
        return bool(expected == str(actual))
    if isinstance(actual, bytes):
        return bool(expected == actual.hex())
    return bool(expected == actual)


def _same_struct(expected: Any, actual: dict[str, Any]) -> bool:
    if isinstance(expected, dict) and set(expected) == {"kind", "f"}:
        return bool(expected["kind"] == actual[ROW_KIND]) and same(expected["f"], actual)
    values = {name: value for name, value in actual.items() if name != ROW_KIND}
    if isinstance(expected, list):
        return same(expected, list(values.values()))
    return set(expected) == set(values) and all(same(expected[name], value) for name, value in values.items())


def _same_timestamp(expected: Any, actual: datetime.datetime) -> bool:
    """`[ms, nanos of the ms]`, `{"ms", "nano"}`, or milliseconds; pandas shows nanoseconds."""
    whole = datetime.datetime.combine(actual.date(), actual.time())
    total = (whole - EPOCH) // datetime.timedelta(microseconds=1) * 1000 + getattr(actual, "nanosecond", 0)
    if isinstance(expected, dict):
        expected = [expected["ms"], expected["nano"]]
    return bool(
        divmod(total, 1_000_000) == (tuple(expected) if isinstance(expected, list) else (expected, 0))
    )


def _entry(entry: Any) -> Any:
    return entry if isinstance(entry, tuple) else (entry["key"], entry["value"])


def page_of(values: Sequence[bytes]) -> Page:
    """A page whose entries stand between other bytes."""
    data = np.frombuffer(b"\xff" + b"\xff".join(values) + b"\xff", dtype=np.uint8)
    lengths = np.array([len(value) for value in values], dtype=np.int64)
    starts = 1 + np.concatenate([[0], np.cumsum(lengths[:-1] + 1)]).astype(np.int64).reshape(-1, 1)
    return Page(
        data=data,
        starts=starts,
        ends=starts + lengths.reshape(-1, 1),
        key_groups=np.full(len(values), -1, dtype=np.int32),
        subtask=0,
        path="test",
    )


def column_and_program(serializer: Serializer, *, enabled: bool, ends: bool) -> tuple[ColumnTree, Code]:
    """The column `value` of a serializer and its program; `ends` if a value must fill its segment."""
    tree = ColumnTree(pa.struct([pa.field("value", serializer.arrow())]))
    program = Program(tree, enabled=enabled)
    program.struct()
    with program.field(0, "value"):
        serializer.emit(program)
    if ends:
        program.expect_end()
    return tree, program.finish()
