"""What the first values of two savepoints show of classes that no snapshot describes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers import ReadCounter, Savepoint, Source, StateName, ValueSample, sample_of
from tests.support.compatpairs import unpack_pairs

ENOUGH = 16 << 10


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = (
        "kryo-add-field",
        "pojo-subclass-add-field",
        "pojo-list-of-pojo-add-field",
        "cep-pattern-changed",
    )
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), names)


def places(savepoint: Savepoint, name: str) -> list[tuple[Source, StateName]]:
    return [
        (source, own)
        for operator in savepoint.operators
        for source in operator.sources
        for own in source.entries
        if own.name == name and not own.timers
    ]


def sample(pairs: Path, pair: str, side: str = "A", name: str = "s") -> ValueSample:
    path = pairs / pair / "savepoints" / f"{side}-2.3.0-hashmap-canonical"
    found = sample_of(places(Savepoint(path), name), ENOUGH)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def samples(pairs: Path) -> list[ValueSample]:
    return [
        sample(pairs, "kryo-add-field"),
        sample(pairs, "pojo-subclass-add-field"),
        sample(pairs, "cep-pattern-changed", name="nfaStateName"),
    ]


def test_the_first_values_are_those_of_the_state(pairs: Path) -> None:
    found = sample(pairs, "kryo-add-field")

    assert found.is_whole
    assert sorted(found.values) == [
        b"W\x01" + bytes([0xD0 + 2 * i, 0xFA, 6]) + b"\x01name-" + bytes([0xB0 + i]) for i in range(4)
    ]


def test_no_more_bytes_are_read_than_allowed(pairs: Path) -> None:
    path = pairs / "kryo-add-field/savepoints/A-2.3.0-rocksdb-canonical"
    counter = ReadCounter()
    own = places(Savepoint(path, counter=counter), "s")
    headers = counter.bytes_read

    found = sample_of(own, 100)

    assert found is not None
    assert (len(found.values), found.is_whole, found.bytes_read) == (2, False, 100)
    assert counter.bytes_read - headers == 100


def test_subclasses_and_their_objects_are_found_by_name(pairs: Path) -> None:
    found = sample(pairs, "pojo-subclass-add-field")

    subclasses = found.subclasses()
    assert sorted(subclasses) == ["app.SubA", "app.SubB"]
    assert subclasses["app.SubA"][0] == b"\x02\x00\x04a-0\x00" + (57000).to_bytes(8, "big")


def test_a_class_with_another_field_cannot_read_the_old_objects(pairs: Path) -> None:
    old, new = (sample(pairs, "kryo-add-field", side) for side in "AB")
    before, after = (sample(pairs, "pojo-subclass-add-field", side) for side in "AB")

    assert old.unreadable_class(new) == "app.Acc"
    assert before.unreadable_subclass(after, ()) == "app.SubA"
    assert before.unreadable_subclass(after, ["app.SubA"]) is None
    assert (old.unreadable_class(old), new.unreadable_class(new)) == (None, None)
    # The field is gone again: what was an id is read as the marker of the name.
    assert new.unreadable_class(old) == "app.Acc"


def test_the_stages_of_a_pattern_are_named_by_partial_matches(pairs: Path) -> None:
    stages = [sample(pairs, "cep-pattern-changed", side, "nfaStateName").stages() for side in "AB"]
    named = [(set(each.first), set(each.later)) for each in stages if each is not None]

    assert named == [({"a"}, {"b"}), ({"z"}, {"b"})]
    assert sample(pairs, "kryo-add-field").stages() is None


def varint(number: int) -> bytes:
    head = b""
    while number >= 0x80:
        head, number = head + bytes([number & 0x7F | 0x80]), number >> 7
    return head + bytes([number])


def kryo_text(text: str) -> bytes:
    coded = text.encode()
    plain = coded[:-1] + bytes([coded[-1] | 0x80]) if len(coded) > 1 else bytes([0x81 + len(coded)]) + coded
    return b"\x01" + plain


def kryo_list(texts: list[str]) -> bytes:
    elements = b"".join(b"\x03" + kryo_text(text) for text in texts)
    return b"\x01\x00java.util.ArrayLis\xf4\x01" + varint(len(texts)) + elements


texts = st.text("abcdefXYZ-0123 ", max_size=12)
numbers = st.integers(0, 1 << 40) | st.integers(0, 300)
nulls = st.just(b"\x00")
KRYO_FIELDS = (
    numbers.map(varint),
    st.binary(min_size=1, max_size=1),
    st.binary(min_size=8, max_size=8),
    texts.map(kryo_text),
    texts.map(kryo_text) | nulls,
    numbers.map(lambda number: b"\x01" + varint(number)) | nulls,
    st.lists(texts, max_size=3).map(kryo_list) | nulls,
    st.lists(numbers, max_size=4).map(
        lambda each: b"\x01" + varint(len(each) + 1) + b"".join(map(varint, each))
    ),
    st.tuples(numbers.map(varint), texts.map(kryo_text)).map(lambda own: b"\x01" + b"".join(own)) | nulls,
)


def pojo_text(text: str) -> bytes:
    return varint(len(text) + 1) + text.encode()


def counted(elements: list[bytes]) -> bytes:
    return len(elements).to_bytes(4, "big") + b"".join(elements)


POJO_VALUES = (
    st.binary(min_size=1, max_size=1),
    st.integers(0, 1 << 30).map(lambda number: number.to_bytes(4, "big")),
    numbers.map(lambda number: number.to_bytes(8, "big")),
    texts.map(pojo_text),
    st.lists(texts.map(pojo_text), max_size=3).map(counted),
    st.tuples(numbers, texts).map(
        lambda own: b"\x02\x00" + own[0].to_bytes(8, "big") + b"\x00" + pojo_text(own[1])
    ),
)
POJO_FIELDS = tuple(value.map(lambda own: b"\x00" + own) for value in POJO_VALUES) + tuple(
    value.map(lambda own: b"\x00" + own) | st.just(b"\x01") for value in POJO_VALUES
)


def in_pojo(content: bytes) -> bytes:
    return b"\x02\x00" + (57000).to_bytes(8, "big") + b"\x00" + content


def test_elements_of_lists_are_compared_if_their_class_is_one_of_the_job(pairs: Path) -> None:
    path = pairs / "pojo-list-of-pojo-add-field/savepoints"
    own = [
        sample_of(places(Savepoint(path / f"{side}-1.20.3-hashmap-canonical"), "s"), ENOUGH) for side in "AB"
    ]
    old, new = (each for each in own if each is not None)
    short, long = (
        replace(old, values=tuple(in_pojo(kryo_list([text + str(index)] * 2)) for index in range(3)))
        for text in ("short", "some longer text")
    )

    assert old.unreadable_class(new) == "app.Item"
    assert short.unreadable_class(long) is None
    assert long.unreadable_class(short) is None


def test_elements_that_can_be_cut_in_very_many_ways_are_not_cut(pairs: Path) -> None:
    path = pairs / "pojo-list-of-pojo-add-field/savepoints/A-1.20.3-hashmap-canonical"
    old = sample_of(places(Savepoint(path), "s"), ENOUGH)
    assert old is not None
    head = b"\x01\x00java.util.ArrayLis\xf4\x01"
    for count in (2, 40, 64, 65, 127):
        values = (in_pojo(head + bytes([count]) + b"\x01\x01app.Ite\xed\x01" + b"\x01" * 200),) * 3
        assert replace(old, values=values).unreadable_class(replace(old, values=values)) is None


def objects(data: st.DataObject, fields: list[st.SearchStrategy[bytes]], start: bytes) -> tuple[bytes, ...]:
    count = data.draw(st.integers(2, 5))
    return tuple(start + b"".join(data.draw(field) for field in fields) for _ in range(count))


def check_one_class(data: st.DataObject, of_kryo: ValueSample, of_pojo: ValueSample) -> None:
    """Draw a class and objects of it in two savepoints: whatever these are, the class reads them."""
    own = data.draw(st.lists(st.sampled_from(KRYO_FIELDS), min_size=1, max_size=5))
    old, new = (replace(of_kryo, values=objects(data, own, b"W\x01")) for _ in range(2))
    assert old.unreadable_class(new) is None
    own = data.draw(st.lists(st.sampled_from(POJO_FIELDS), min_size=1, max_size=5))
    start = b"\x04\x00\x05app.S\x02"
    old, new = (replace(of_pojo, values=objects(data, own, start)) for _ in range(2))
    assert old.unreadable_subclass(new, ()) is None


@given(data=st.data())
@settings(max_examples=4)
def test_a_class_reads_its_own_objects_whatever_they_are(
    samples: list[ValueSample], data: st.DataObject
) -> None:
    check_one_class(data, *samples[:2])


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=400)
def test_many_classes_read_their_own_objects(samples: list[ValueSample], data: st.DataObject) -> None:
    check_one_class(data, *samples[:2])


@given(
    values=st.lists(
        st.binary(max_size=40).map(lambda each: b"W\x01" + each) | st.binary(max_size=60),
        min_size=2,
        max_size=4,
    )
)
@settings(max_examples=6)
def test_any_bytes_are_taken_for_what_they_show(samples: list[ValueSample], values: list[bytes]) -> None:
    for known in samples:
        found = replace(known, values=(*known.values, *values))

        assert found.unreadable_class(found) is None
        assert found.unreadable_subclass(found, ()) is None
        assert (found.stages() is None) == (known.stages() is None)
