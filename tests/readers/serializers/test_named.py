"""Types in words → serializers."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers import UnsupportedSerializerError
from readers.serializers.containers import EnumSerializer
from readers.serializers.named import BASIC_TYPES, serializer_named, type_named
from readers.serializers.pojo import PojoField, PojoSerializer
from readers.serializers.primitives import IntSerializer, LongSerializer, StringSerializer
from readers.serializers.structs import RowSerializer

NAMES = st.recursive(
    st.sampled_from(sorted(BASIC_TYPES)),
    lambda inner: st.one_of(
        inner.map("List<{}>".format),
        st.tuples(inner, inner).map(lambda pair: f"Map<{pair[0]}, {pair[1]}>"),
        st.lists(inner, min_size=1, max_size=4).map(lambda types: f"Tuple{len(types)}<{', '.join(types)}>"),
    ),
    max_leaves=8,
)


@given(NAMES)
def test_a_serializer_is_found_by_the_name_it_has_for_its_type(name):
    serializer = serializer_named(name)

    assert serializer is not None
    assert serializer.type_name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Lon",
        "Long>",
        "List<",
        "List<Long",
        "List<Long>>",
        "List<>",
        "Map<Long>",
        "Tuple3<Long>",
        "Long<Long>",
        "a b",
        "Row",
        "Row()",
        "Row(a)",
        "Row(a Long, a Long)",
        "Pojo",
        "Pojo(A)",
        "Pojo(A: )",
        "Pojo(A: x Long",
        "Enum(A: X, X)",
        "Long ;",
        "List<" * 100,
    ],
)
def test_other_words_name_none(name):
    assert serializer_named(name) is None


@given(st.text(alphabet="<>,(): LongTuple2Map[]xPojEnumRw", max_size=40))
def test_any_text_names_one_or_none(text):
    serializer_named(text)


def test_rows_pojos_and_enums_have_their_names() -> None:
    text = "Pojo(com.acme.Order: id Long, buyer Pojo(com.acme.Buyer$Data: name String), color Enum(com.acme.Color: RED, BLUE))"

    assert type_named(text) == PojoSerializer(
        "com.acme.Order",
        (
            # Flink sorts the fields of a POJO.
            PojoField(
                "buyer", PojoSerializer("com.acme.Buyer$Data", (PojoField("name", StringSerializer()),))
            ),
            PojoField("color", EnumSerializer("com.acme.Color", ("RED", "BLUE"))),
            PojoField("id", LongSerializer()),
        ),
    )
    assert type_named("Row(a String, b Int)") == RowSerializer(
        (StringSerializer(), IntSerializer()), names=("a", "b")
    )
    assert type_named("Row<String, Int>") == RowSerializer((StringSerializer(), IntSerializer()))


def test_a_wrong_type_says_what_was_expected_and_where() -> None:
    with pytest.raises(UnsupportedSerializerError, match=r"found 'Strin' at character 21 of the type"):
        type_named("Map<String, Row<Int, Strin>>"[0:20] + "Strin>>")


def test_all_constants_that_a_class_file_may_have_are_compared_at_once() -> None:
    constants = tuple(f"C{number}" for number in range(65_535))
    began = time.process_time()

    found = type_named(f"Enum(acme.E: {', '.join(constants)})")

    assert found == EnumSerializer("acme.E", constants)
    assert time.process_time() - began < 10
