"""Decoding and encoding of entries, a type a row, side by side: `python -m benchmarks.encode`.

Each type is encoded from columns of a million rows that a generator with a fixed seed makes, and decoded from the bytes
that this gives, on one thread, in batches as a scan has them. Rates are of the best of several runs: other work on the
machine makes runs slower, and never faster. The bytes and the values of both ways are compared.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.decode.columns import ColumnTree
from readers.decode.decoder import BATCH_ENTRIES, Decoder, Page
from readers.decode.program import Program
from readers.serializers.avro import AvroSerializer, read_schema
from readers.serializers.base import Serializer
from readers.serializers.containers import EnumSerializer, ListSerializer, MapSerializer
from readers.serializers.pojo import PojoField, PojoSerializer
from readers.serializers.primitives import (
    BigDecSerializer,
    BooleanSerializer,
    BytePrimitiveArraySerializer,
    DoubleSerializer,
    InstantSerializer,
    IntSerializer,
    LocalDateTimeSerializer,
    LongPrimitiveArraySerializer,
    LongSerializer,
    StringSerializer,
)
from readers.serializers.structs import RowSerializer, TupleSerializer
from readers.serializers.table.logicaltypes import (
    BIGINT,
    DOUBLE,
    INT,
    ArrayType,
    MapType,
    RowType,
    TextType,
    decimal_type,
    timestamp_type,
)
from readers.serializers.table.rowdata import RowDataSerializer
from writers import Encoder

_ELEMENTS = 8
_COLORS = ("RED", "GREEN", "BLUE", "ULTRAVIOLET")
_SCHEMA = """{"type": "record", "name": "R", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]},
    {"name": "tags", "type": {"type": "array", "items": "string"}}, {"name": "price", "type": "double"}]}"""


def main() -> int:
    """Print a table of rates."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encode", description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each type (default: 1000000)")
    parser.add_argument("--runs", type=int, default=9, help="runs, of which the best counts (default: 9)")
    options = parser.parse_args()
    print(f"\n{options.rows:,} rows a type; {os.cpu_count()} cores, {platform.machine()}, one thread\n")
    print(
        "| type | bytes a row | decode, M rows/s | encode, M rows/s | decode, MB/s | encode, MB/s | ratio |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, (serializer, make) in TYPES.items():
        _report(name, serializer, make(np.random.default_rng(7), options.rows), options.runs)
    return 0


def _report(name: str, serializer: Serializer, array: pa.Array, runs: int) -> None:
    batches = [array.slice(start, BATCH_ENTRIES) for start in range(0, len(array), BATCH_ENTRIES)]
    encoder = Encoder.of(serializer)
    encoded = [encoder.encode_arrays([batch], len(batch))[0] for batch in batches]
    pages = [_page(part.data, part.starts, part.ends) for part in encoded]
    decoder = _decoder(serializer)
    for page, batch in zip(pages, batches, strict=True):
        found = pa.concat_arrays([part.arrays[0] for part in decoder.decode(page)])
        assert found.equals(batch), name
    size = sum(len(part.data) for part in encoded)
    decode = encode = float("inf")
    # In turns, so that other work on the machine meets both.
    for _ in range(runs):
        decode = min(decode, _seconds(lambda: sum(1 for page in pages for _ in decoder.decode(page))))
        encode = min(
            encode,
            _seconds(lambda: sum(len(encoder.encode_arrays([batch], len(batch))[0]) for batch in batches)),
        )
    rows = len(array)
    print(
        f"| {name} | {size / rows:.0f} | {rows / decode / 1e6:.1f} | {rows / encode / 1e6:.1f} "
        f"| {size / decode / 1e6:,.0f} | {size / encode / 1e6:,.0f} | {decode / encode:.2f} |",
        flush=True,
    )


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _decoder(serializer: Serializer) -> Decoder:
    tree = ColumnTree(pa.struct([pa.field("value", serializer.arrow())]))
    program = Program(tree)
    with program.field(0, "value"):
        serializer.emit(program)
    program.expect_end()
    return Decoder(tree, program.finish())


def _page(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Page:
    return Page(
        data=data,
        starts=np.ascontiguousarray(starts),
        ends=np.ascontiguousarray(ends),
        key_groups=np.full(len(starts), -1, dtype=np.int32),
        subtask=0,
        path="",
    )


# ---- values --------------------------------------------------------------------------------------------------------


def _longs(random: Any, rows: int) -> pa.Array:
    return pa.array(random.integers(-(2**62), 2**62, rows))


def _ints(random: Any, rows: int) -> pa.Array:
    return pa.array(random.integers(-(2**31), 2**31, rows, dtype=np.int32))


def _doubles(random: Any, rows: int) -> pa.Array:
    return pa.array(random.random(rows))


def _texts(random: Any, rows: int) -> pa.Array:
    return pa.array([f"key_{number}" for number in random.integers(0, 10**9, rows).tolist()])


def _wide_texts(random: Any, rows: int) -> pa.Array:
    return pa.array([f"Schlüssel {number} – 数" for number in random.integers(0, 10**6, rows).tolist()])


def _bytes(random: Any, rows: int) -> pa.Array:
    return pa.array([bytes(40)] * rows)


def _listed(
    make: Callable[[Any, int], pa.Array], elements: int = _ELEMENTS
) -> Callable[[Any, int], pa.Array]:
    def lists(random: Any, rows: int) -> pa.Array:
        offsets = np.arange(0, (rows + 1) * elements, elements, dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), make(random, rows * elements))

    return lists


def _mapped(random: Any, rows: int) -> pa.Array:
    offsets = np.arange(0, (rows + 1) * 4, 4, dtype=np.int32)
    return pa.MapArray.from_arrays(pa.array(offsets), _texts(random, rows * 4), _longs(random, rows * 4))


def _struct(**fields: Callable[[Any, int], pa.Array]) -> Callable[[Any, int], pa.Array]:
    def structs(random: Any, rows: int) -> pa.Array:
        arrays = [make(random, rows) for make in fields.values()]
        return pa.StructArray.from_arrays(arrays, list(fields))

    return structs


def _sparse(make: Callable[[Any, int], pa.Array]) -> Callable[[Any, int], pa.Array]:
    def nulls(random: Any, rows: int) -> pa.Array:
        array = make(random, rows)
        return pa.array(array.to_pylist(), array.type, mask=random.random(rows) < 0.1)

    return nulls


def _decimals(precision: int, scale: int) -> Callable[[Any, int], pa.Array]:
    return lambda random, rows: (
        pa.array(random.integers(0, 10**9, rows))
        .cast(pa.decimal128(19, 0))
        .cast(pa.decimal128(precision, scale))
    )


def _times(unit: str) -> Callable[[Any, int], pa.Array]:
    return lambda random, rows: pa.array(random.integers(0, 1 << 60, rows)).cast(pa.timestamp(unit))


def _colors(random: Any, rows: int) -> pa.Array:
    return pa.array(_COLORS).take(pa.array(random.integers(0, len(_COLORS), rows)))


def _prices(random: Any, rows: int) -> pa.Array:
    return pa.array([f"{number}.25" for number in random.integers(0, 10**7, rows).tolist()])


def _kinds(random: Any, rows: int) -> pa.Array:
    return pa.array(["+I"] * rows)


LONG, STRING = LongSerializer(), StringSerializer()
_FIELDS = (("name", STRING), ("count", IntSerializer()), ("total", LONG), ("price", DoubleSerializer()))
_RECORD = _struct(name=_texts, count=_ints, total=_longs, price=_doubles)

TYPES: dict[str, tuple[Serializer, Callable[[Any, int], pa.Array]]] = {
    "Long": (LONG, _longs),
    "Boolean": (BooleanSerializer(), lambda random, rows: pa.array(random.random(rows) < 0.5)),
    "String (ASCII)": (STRING, _texts),
    "String (other)": (STRING, _wide_texts),
    "byte[40]": (BytePrimitiveArraySerializer(), _bytes),
    "enum": (EnumSerializer("Color", _COLORS), _colors),
    "Instant": (InstantSerializer(), _times("ns")),
    "LocalDateTime": (LocalDateTimeSerializer(), _times("ns")),
    "BigDecimal": (BigDecSerializer(), _prices),
    "long[8]": (LongPrimitiveArraySerializer(), _listed(_longs)),
    "List<Long>, 8 elements": (ListSerializer(LONG), _listed(_longs)),
    "Map<String, Long>, 4 entries": (MapSerializer(STRING, LONG), _mapped),
    "Tuple2<String, Long>": (TupleSerializer("Tuple2", (STRING, LONG)), _struct(f0=_texts, f1=_longs)),
    "POJO, 4 fields": (
        PojoSerializer("P", tuple(PojoField(name, kind) for name, kind in _FIELDS)),
        _sparse(_RECORD),
    ),
    "POJO with subclasses": (
        PojoSerializer(
            "P",
            tuple(PojoField(name, kind) for name, kind in _FIELDS),
            (("Q", PojoSerializer("Q", (PojoField("name", STRING),))),),
        ),
        _struct(
            name=_texts,
            count=_ints,
            total=_longs,
            price=_doubles,
            __class=lambda _, rows: pa.nulls(rows, pa.string()),
        ),
    ),
    "Row, 4 fields": (
        RowSerializer(tuple(kind for _, kind in _FIELDS)),
        _struct(f0=_sparse(_texts), f1=_ints, f2=_sparse(_longs), f3=_doubles, __row_kind=_kinds),
    ),
    "Avro record": (
        AvroSerializer(_SCHEMA, "R", read_schema(_SCHEMA)),
        _struct(id=_longs, name=_sparse(_texts), tags=_listed(_texts, 2), price=_doubles),
    ),
    "RowData, numbers": (
        RowDataSerializer(RowType((("f0", BIGINT), ("f1", INT), ("f2", DOUBLE)))),
        _struct(f0=_sparse(_longs), f1=_ints, f2=_doubles, __row_kind=_kinds),
    ),
    "RowData, text and decimals": (
        RowDataSerializer(
            RowType(
                (
                    ("f0", TextType()),
                    ("f1", decimal_type(12, 2)),
                    ("f2", decimal_type(38, 2)),
                    ("f3", timestamp_type("TIMESTAMP", 6)),
                )
            )
        ),
        _struct(f0=_texts, f1=_decimals(12, 2), f2=_decimals(38, 2), f3=_times("us"), __row_kind=_kinds),
    ),
    "RowData, array and map": (
        RowDataSerializer(RowType((("f0", ArrayType(TextType())), ("f1", MapType(TextType(), BIGINT))))),
        _struct(f0=_listed(_texts, 4), f1=_mapped, __row_kind=_kinds),
    ),
}


if __name__ == "__main__":
    raise SystemExit(main())
