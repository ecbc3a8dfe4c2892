"""Values that real Flink wrote, decoded and encoded again: the same bytes, or a loss that is listed."""

from __future__ import annotations

from typing import Any

import pytest

from readers.decode.decoder import Decoder
from tests.support.single_values import column_and_program, page_of, serializer_of, vectors
from writers import Encoder, UnencodableTypeError
from writers.encode.fitting import equal_values_loss

# Flink wrote other bytes for the same value: see `writers/encode/fitting.py`.
OTHER_BYTES = {"0000000501": "00000002", "00000005fffffffffb": "00000007fe796000000000"}

VALUES = [
    pytest.param(entry, value["hex"], id=f"{entry['type']} {entry['flink']} {number}")
    for entry in vectors()
    if "snapshot_hex" in entry
    for number, value in enumerate(entry["values"])
    if "hex" in value
]


def encoded(entry: dict[str, Any], raw: bytes, *, keeps_objects: bool, reserves_nulls: bool) -> bytes:
    tree, code = column_and_program(serializer_of(entry), enabled=True, ends=True)
    if keeps_objects:
        tree = tree.with_bytes(code.objects)
    (batch,) = Decoder(tree, code, keeps_objects=keeps_objects).decode(page_of([raw]))
    assert batch.outliers == []
    found, error = Encoder(tree, code, reserves_nulls=reserves_nulls).encode_arrays(batch.arrays, 1)
    if error is not None:
        raise error
    (only,) = found.entry(0)
    return only


@pytest.mark.parametrize(("entry", "value"), VALUES)
def test_what_flink_wrote_is_encoded_to_the_same_bytes(entry: dict[str, Any], value: str) -> None:
    raw = bytes.fromhex(value)
    both = {encoded(entry, raw, keeps_objects=True, reserves_nulls=reserves) for reserves in (True, False)}

    assert raw in both or {part.hex() for part in both} == {OTHER_BYTES[value]}


def test_bytes_that_differ_have_a_reason() -> None:
    types = {
        entry["type"]: entry
        for entry in vectors()
        if any(value.get("hex") in OTHER_BYTES for value in entry["values"])
    }

    reasons = {
        name: equal_values_loss(column_and_program(serializer_of(entry), enabled=True, ends=True)[1])
        for name, entry in types.items()
    }

    assert reasons == {
        "BigInteger": "a BigInteger 0, 1 or 10 written with its digits",
        "BigDecimal": "a BigDecimal with a negative scale, or 0, 1 or 10 written with its digits",
    }


@pytest.mark.parametrize("package", ["KryoSerializer", "JavaSerializer"])
def test_an_object_whose_bytes_are_not_kept_is_refused(package: str) -> None:
    entry = next(
        entry for entry in vectors() if package in entry.get("serializer_class", "") and entry["values"]
    )

    with pytest.raises(UnencodableTypeError, match=r"row 0, value: an object of Kryo, Java"):
        encoded(entry, bytes.fromhex(entry["values"][0]["hex"]), keeps_objects=False, reserves_nulls=True)
