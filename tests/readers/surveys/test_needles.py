"""Many byte strings in many bytes: what a plain search finds."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from readers.leftovers import forms_of
from readers.surveys.needles import Hit, Needles

_BYTES = st.binary(min_size=4, max_size=12) | st.text("ab", min_size=4, max_size=9).map(str.encode)


@given(
    st.lists(_BYTES, min_size=1, max_size=8, unique=True),
    st.lists(_BYTES | st.integers(0, 7), max_size=20),
    st.integers(1, 40),
)
def test_all_strings_are_found_wherever_pieces_end(
    strings: list[bytes], parts: list[bytes | int], size: int
) -> None:
    data = b"".join(strings[one % len(strings)] if isinstance(one, int) else one for one in parts)
    pieces = [
        np.frombuffer(data[start : start + size], dtype=np.uint8) for start in range(0, len(data), size)
    ]

    found = Needles(strings).hits(pieces)

    places = {one: [at.start() for at in re.finditer(b"(?=%s)" % re.escape(one), data)] for one in strings}
    assert found == [
        Hit(number, len(places[one]), places[one][0]) for number, one in enumerate(strings) if places[one]
    ]


def test_a_text_that_goes_on_is_another_one() -> None:
    data = b"\x0bcustomer-4\x0ccustomer-42 customer-4,xcustomer-4\x14customer-4"

    [hit] = Needles([b"customer-4"], [1]).hits([np.frombuffer(data, dtype=np.uint8)])

    assert (hit.count, hit.first) == (3, 1)


def test_a_text_has_the_forms_of_flink_java_and_kryo() -> None:
    assert dict(forms_of("1234567")) == {
        "UTF-8": b"1234567",
        "UTF-16 (big endian)": b"\x001\x002\x003\x004\x005\x006\x007",
        "UTF-16 (little endian)": b"1\x002\x003\x004\x005\x006\x007\x00",
        "Kryo": b"123456\xb7",
        "Long": (1234567).to_bytes(8, "big"),
        "Int": (1234567).to_bytes(4, "big"),
    }
    assert dict(forms_of("Zoë")) == {
        "UTF-8": b"Zo\xc3\xab",
        "UTF-16 (big endian)": b"\x00Z\x00o\x00\xeb",
        "UTF-16 (little endian)": b"Z\x00o\x00\xeb\x00",
        "StringValue": b"Zo\xeb\x01",
    }


def test_a_number_with_leading_zeros_is_a_text() -> None:
    assert dict(forms_of("01234567")) == {
        "UTF-8": b"01234567",
        "UTF-16 (big endian)": b"\x000\x001\x002\x003\x004\x005\x006\x007",
        "UTF-16 (little endian)": b"0\x001\x002\x003\x004\x005\x006\x007\x00",
        "Kryo": b"0123456\xb7",
    }
