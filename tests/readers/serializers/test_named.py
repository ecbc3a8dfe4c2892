"""Types in words → serializers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.serializers.named import BASIC_TYPES, serializer_named

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
    ],
)
def test_other_words_name_none(name):
    assert serializer_named(name) is None


@given(st.text(alphabet="<>, LongTuple2Map[]x", max_size=40))
def test_any_text_names_one_or_none(text):
    serializer_named(text)
