"""Java object streams: those that Flink wrote, built ones, broken ones."""

from __future__ import annotations

import contextlib
import gzip
import json
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.cursor import Cursor
from readers.errors import CorruptDataError, ReaderError, UnsupportedSerializerError
from readers.javaio import (
    STREAM_HEADER,
    JavaArray,
    JavaClass,
    JavaEnum,
    JavaObject,
    read_object,
)
from tests.support.paths import DATA
from tests.support.refused import not_refused

VECTORS = DATA / "vectors"

SERIALIZABLE, WRITE_METHOD = 2, 1
NULL, END = b"\x70", b"\x78"


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def class_description(
    name: str, fields: bytes = b"\0\0", flags: int = SERIALIZABLE, superclass: bytes = NULL
) -> bytes:
    return b"\x72" + utf(name) + bytes(8) + bytes([flags]) + fields + END + superclass


def string(text: str) -> bytes:
    return b"\x74" + utf(text)


def reference(index: int) -> bytes:
    return b"\x71" + struct.pack(">I", 0x7E0000 + index)


def read(content: bytes) -> object:
    cursor = Cursor(STREAM_HEADER + content)
    value = read_object(cursor)
    assert cursor.remaining == 0
    return value


def flink_streams() -> list[bytes]:
    """Yield every Java stream in the vectors, each cut where the reader stops."""
    streams = []
    for name in ("type-vectors.json.gz", "legacy-type-vectors.json.gz"):
        for vector in json.loads(gzip.decompress((VECTORS / name).read_bytes()))["vectors"]:
            snapshot = vector.get("snapshot_hex") or vector.get("proxied_snapshot_hex") or ""
            for text in [snapshot, *(value.get("hex", "") for value in vector["values"])]:
                data = bytes.fromhex(text)
                at = data.find(STREAM_HEADER)
                while at >= 0:
                    cursor = Cursor(data, position=at)
                    read_object(cursor)
                    streams.append(data[at : cursor.position])
                    at = data.find(STREAM_HEADER, cursor.position)
    return streams


STREAMS = flink_streams()


def test_all_streams_that_flink_wrote_are_found() -> None:
    assert len(STREAMS) == 140


def test_a_stream_of_flink_does_not_end_before_its_last_byte() -> None:
    assert not_refused(set(STREAMS), lambda stream: read_object(Cursor(stream[:-1])), ReaderError) == []


def test_a_row_type_has_its_fields_behind_an_unmodifiable_list() -> None:
    rows = [value for value in map(read_object, map(Cursor, STREAMS)) if isinstance(value, JavaObject)]
    row = next(value for value in rows if value.class_name.endswith(".RowType"))

    fields = row.field("fields")
    assert isinstance(fields, JavaObject)
    names = [element.field("name") for element in fields.elements() if isinstance(element, JavaObject)]

    assert names == ["n1", "n2"]
    assert isinstance(row.field("typeRoot"), JavaEnum)
    assert row.field("isNullable") is True


def test_a_hash_map_has_its_entries() -> None:
    value = next(
        value
        for value in map(read_object, map(Cursor, STREAMS))
        if isinstance(value, JavaObject) and value.class_name == "java.util.HashMap"
    )

    entries = dict(value.entries())

    assert all(isinstance(key, str) for key in entries)
    assert entries


def test_fields_of_superclasses_come_first_and_subclasses_hide_them() -> None:
    one_int = b"\0\1I" + utf("x")
    content = b"\x73" + class_description("Sub", one_int, superclass=class_description("Base", one_int))

    value = read(content + struct.pack(">ii", 1, 2))

    assert isinstance(value, JavaObject)
    assert [level.values for level in value.levels] == [(1,), (2,)]
    assert value.field("x") == 2


def test_primitives_have_their_types() -> None:
    fields = b"".join(
        code + utf("f" + code.decode()) for code in (b"B", b"C", b"D", b"F", b"I", b"J", b"S", b"Z")
    )
    content = b"\x73" + class_description("All", b"\0\x08" + fields)

    value = read(content + struct.pack(">bHdfiqh?", -1, 65, 0.5, 0.25, -2, -3, -4, True))

    assert isinstance(value, JavaObject)
    assert value.levels[0].values == (-1, "A", 0.5, 0.25, -2, -3, -4, True)


def test_arrays_of_bytes_are_bytes() -> None:
    value = read(b"\x75" + class_description("[B") + struct.pack(">i", 3) + b"abc")

    assert isinstance(value, JavaArray)
    assert value.values == b"abc"


def test_adjacent_blocks_of_an_annotation_are_one() -> None:
    annotation = b"\x77\2ab" + b"\x7a\0\0\0\1c" + string("x") + b"\x77\1d" + END

    value = read(b"\x73" + class_description("A", flags=SERIALIZABLE | WRITE_METHOD) + annotation)

    assert isinstance(value, JavaObject)
    assert value.annotation == (b"abc", "x", b"d")


def test_an_object_may_refer_to_itself() -> None:
    fields = b"\0\1L" + utf("me") + string("LNode;")

    # Handles: 0 the class, 1 the type of the field, 2 the object.
    value = read(b"\x73" + class_description("Node", fields) + reference(2))

    assert isinstance(value, JavaObject)
    assert value.field("me") is value
    assert "Node" in repr(value)
    assert value == value.field("me")


def test_a_class_is_a_value() -> None:
    value = read(b"\x76" + class_description("a.B", flags=0))

    assert isinstance(value, JavaClass)
    assert value.name == "a.B"


def test_a_long_string_is_a_string() -> None:
    assert read(b"\x7c" + struct.pack(">q", 3) + b"abc") == "abc"


@pytest.mark.parametrize(
    "content",
    [
        b"\x75" + class_description("[I") + b"\x7f\xff\xff\xff",
        b"\x7c" + struct.pack(">q", 1 << 40),
        b"\x7c" + struct.pack(">q", -1),
        reference(0),
        reference(-1),
        b"\x72" + utf("A") + bytes(8) + b"\2\xff\xff",
        b"\x73" + NULL,
        b"\x73" + string("A"),
        b"\x75" + class_description("I") + b"\0\0\0\0",
        b"\x00",
        b"\x77\1a",
        b"\x73" + class_description("A", b"\0\1Q" + utf("x")),
        # A class that is its own superclass.
        b"\x72" + utf("A") + bytes(8) + b"\2\0\0" + END + reference(0),
    ],
)
def test_what_contradicts_the_format_is_corrupt(content: bytes) -> None:
    with pytest.raises((CorruptDataError, UnsupportedSerializerError)):
        read(content)


@pytest.mark.parametrize("tag", [0x79, 0x7B, 0x7D])
def test_what_flink_never_writes_is_unsupported(tag: int) -> None:
    with pytest.raises(UnsupportedSerializerError) as raised:
        read(bytes([tag]))

    assert raised.value.position == len(STREAM_HEADER)


def test_another_header_is_corrupt() -> None:
    with pytest.raises(CorruptDataError, match="aced0004"):
        read_object(Cursor(b"\xac\xed\0\4p"))


def test_deep_nesting_is_corrupt() -> None:
    array = b"\x75" + class_description("[Ljava.lang.Object;") + struct.pack(">i", 1)
    nested = b"\x75" + reference(0) + struct.pack(">i", 1)

    with pytest.raises(CorruptDataError, match="deeper"):
        read(array + nested * 5000 + NULL)


def test_long_hierarchies_are_corrupt() -> None:
    classes = b"".join(b"\x72" + utf("A") + bytes(8) + b"\2\0\0" + END for _ in range(90))

    with pytest.raises(CorruptDataError, match="superclasses"):
        read(b"\x73" + classes + NULL)


@pytest.mark.slow
def test_many_small_objects_of_a_deep_class_stay_cheap() -> None:
    chain = b"".join(b"\x72" + utf("A") + bytes(8) + b"\2\0\0" + END for _ in range(50)) + NULL
    count = 100_000
    array = b"\x75" + class_description("[Ljava.lang.Object;") + struct.pack(">i", count)
    start = time.perf_counter()

    # Handles: 0 the array's class, 1 the array, 2 the deep class.
    value = read(array + b"\x73" + chain + (b"\x73" + reference(2)) * (count - 1))

    assert isinstance(value, JavaArray)
    assert time.perf_counter() - start < 60


def test_missing_fields_are_corrupt() -> None:
    value = read(b"\x73" + class_description("A"))

    assert isinstance(value, JavaObject)
    with pytest.raises(CorruptDataError, match="field x"):
        value.field("x")


def test_other_collections_are_unsupported() -> None:
    value = read(b"\x73" + class_description("my.List"))

    assert isinstance(value, JavaObject)
    with pytest.raises(UnsupportedSerializerError, match=r"my\.List"):
        value.elements()


@given(data=st.data())
def test_damaged_streams_give_a_value_or_a_reader_error(data: st.DataObject) -> None:
    stream = bytearray(data.draw(st.sampled_from(STREAMS)))
    for _ in range(data.draw(st.integers(1, 4))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    del stream[data.draw(st.integers(0, len(stream))) :]

    with contextlib.suppress(ReaderError):
        read_object(Cursor(bytes(stream)))


@given(st.binary(max_size=200))
def test_random_bytes_give_a_value_or_a_reader_error(content: bytes) -> None:
    with contextlib.suppress(ReaderError):
        read_object(Cursor(STREAM_HEADER + content))
