"""Objects of Kryo 2, written as Kryo 5 writes them: byte for byte what real Flink 2 wrote of the same objects."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers import KRYO_2_24, KRYO_5, KryoSerializer, KryoSettings, ListSerializer
from readers.serializers.containers import SetSerializer
from readers.serializers.primitives import IntSerializer, LongSerializer, StringSerializer
from tests.readers.serializers.test_kryo import CLASSES
from tests.support.single_values import decode_one, serializer_of, vector
from writers import RefusedEditError, UnencodableValueError, WriterError, needed_type
from writers.kryo.upgrade import KryoValues, typed_reader

NAMES = ["Kryo Gk", "Kryo Gk2", "Kryo Object holding assorted", "Kryo Object assorted 2"]
SETTINGS = KryoSettings(version=KRYO_2_24)
# What the vectors hold, but no restore has shown.
REFUSED = ("Class", "InetSocketAddress", "EnumSet", "Exception")
LIST = b"\x01\x00java.util.ArrayLis\xf4"


def both() -> list[Any]:
    found = []
    for name in NAMES:
        old, new = vector(name, "1"), vector(name, "2")
        settings = serializer_of(old).settings  # type: ignore[attr-defined]  # the vectors are of Kryo
        settings = replace(settings, version=KRYO_2_24, classes=dict(settings.classes) | CLASSES)
        found += [
            pytest.param(settings, before, after, id=f"{name} {json.dumps(before['value'])[:40]}")
            for before, after in zip(old["values"], new["values"], strict=True)
            if "hex" in before and not str(before["value"]).startswith(tuple(f"{{'{one}'" for one in REFUSED))
        ]
    return found


@pytest.mark.parametrize(("settings", "before", "after"), both())
def test_an_object_is_written_as_flink_2_writes_it(settings: KryoSettings, before: Any, after: Any) -> None:
    expected = after["hex"]
    if "Pattern" in str(before["value"]):
        # chill does not write the flags of a pattern, so Flink 1 has none any more.
        expected = expected.removesuffix("02") + "00"

    assert KryoValues(settings).upgraded(bytes.fromhex(before["hex"])).hex() == expected


@pytest.mark.parametrize("name", REFUSED)
def test_a_class_that_no_restore_has_shown_is_refused(name: str) -> None:
    values = [value for kind in NAMES for value in vector(kind, "1")["values"]]
    (data,) = (one["hex"] for one in values if isinstance(one["value"], dict) and name in one["value"])

    with pytest.raises(UnencodableValueError, match="expected an object of Kryo 2 whose classes are known"):
        KryoValues(SETTINGS).upgraded(bytes.fromhex(data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x01\x00com.acme.Orde\xf2\x01\x02", "found com.acme.Order, whose fields are not known"),
        (LIST + b"\x01\x01\x01\x00\x02", "found a java.util.ArrayList in itself"),
        (b"\x02\x02\x00", "expected the end of an object of Kryo 2, found 1 bytes more"),
        (b"\x03\x01\x82\xed\xa0\x80", "found half a surrogate pair"),
        (
            b"\x01\x00java.util.TreeMa\xf0\x01\x01\x01java.util.Collections$ReverseComparato\xf2\x01\x00",
            "found the comparator java.util.Collections.ReverseComparator",
        ),
    ],
)
def test_what_would_be_lost_is_refused_by_name(data: bytes, message: str) -> None:
    with pytest.raises(UnencodableValueError, match=message):
        KryoValues(SETTINGS).upgraded(data)


def test_an_object_that_stands_twice_is_one_object_again() -> None:
    # [list, list], where both are the same.
    data = LIST + b"\x01\x02\x01\x00\x01\x01\x02\x02\x01\x00\x03"

    assert KryoValues(SETTINGS).upgraded(data) == LIST + b"\x01\x83\x01\x00\x00\x01\x82\x02\x00\x02\x03"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


def old_list(texts: list[str]) -> bytes:
    """A list of texts, as Kryo 2 writes it."""
    return LIST + b"\x01" + bytes([len(texts)]) + b"".join(b"\x03\x01" + old_text(text) for text in texts)


def old_text(text: str) -> bytes:
    """A text with its units behind their count, as Kryo 2 may write any."""
    units = text.encode("utf-16-be")
    count = len(units) // 2 + 1
    head = bytes([0x80 | count & 0x3F]) if count < 0x40 else bytes([0xC0 | count & 0x3F, *varint(count >> 6)])
    body = b"".join(
        chr(int.from_bytes(units[at : at + 2], "big")).encode("utf-8", "surrogatepass")
        for at in range(0, len(units), 2)
    )
    return head + body


def varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


@given(st.lists(TEXTS, max_size=20))
def test_a_list_of_any_texts_is_read_by_kryo_5_as_it_was(texts: list[str]) -> None:
    new = KryoSerializer("java.util.ArrayList", replace(SETTINGS, version=KRYO_5))

    found = decode_one(new, KryoValues(SETTINGS).upgraded(old_list(texts)))

    assert json.loads(found) == texts


@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_a_typed_error(data: bytes) -> None:
    with contextlib.suppress(WriterError):
        KryoValues(SETTINGS).upgraded(data)


def test_elements_of_another_class_than_the_type_expects_are_refused() -> None:
    read = typed_reader(ListSerializer(LongSerializer()))

    with pytest.raises(UnencodableValueError, match=r"expected a value of type Long, found a int"):
        read(*KryoValues(SETTINGS).read(LIST + b"\x01\x01\x02\x02"))


def test_a_set_becomes_a_set() -> None:
    read = typed_reader(SetSerializer(IntSerializer()))

    assert read(*KryoValues(SETTINGS).read(b"\x01\x00java.util.HashSe\xf4\x01\x02\x02\x02\x02\x04")) == [1, 2]


def test_a_list_without_a_known_type_of_its_elements_is_refused() -> None:
    old = KryoSerializer("java.util.List", SETTINGS)

    with pytest.raises(RefusedEditError, match="give the jar of the new job"):
        needed_type(old)
    assert needed_type(old, ListSerializer(StringSerializer())) == ListSerializer(StringSerializer())
