"""Avro's schema resolution: which schemas read data of others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.rules.avro import resolve

NUMBERS = ("int", "long", "float", "double")
ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}


def record(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "app.Order", "fields": list(fields), **more}


def member(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def problems(writer: Any, reader: Any) -> list[str]:
    return resolve(json.dumps(writer), json.dumps(reader)).problems


@pytest.mark.parametrize("writer", [*NUMBERS, "string", "bytes", "boolean", "null"])
@pytest.mark.parametrize("reader", [*NUMBERS, "string", "bytes", "boolean", "null"])
def test_numbers_widen_and_texts_are_bytes(writer: str, reader: str) -> None:
    widens = writer in NUMBERS and reader in NUMBERS and NUMBERS.index(writer) <= NUMBERS.index(reader)
    alike = writer == reader or {writer, reader} == {"string", "bytes"}

    assert (problems(writer, reader) == []) == (widens or alike)


@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [
        (record(), record(member("id", "long")), ["id: a new field without a default"]),
        (record(), record(member("id", "long", default=0)), []),
        (record(member("a", "int")), record(member("b", "int", aliases=["a"])), []),
        (record(member("a", "int")), record(member("b", "int")), ["b: a new field without a default"]),
        (record(member("a", "string")), record(member("a", ["null", "string"])), []),
        (record(member("a", ["null", "string"])), record(member("a", "string")), ["a: null → string"]),
        (record(member("a", ["null", "int"])), record(member("a", ["null", "long"])), []),
        (record(member("a", ADDRESS)), record(member("a", {**ADDRESS, "name": "Place"})), None),
        (
            record(member("a", ADDRESS)),
            record(member("a", {**ADDRESS, "name": "Place", "aliases": ["Address"]})),
            [],
        ),
        (record(), {**record(), "name": "other.Order"}, []),
        (record(), {**record(), "name": "app.Other"}, None),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, []),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, ["[]: long → int"]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, ["{}: int → string"]),
        ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, None),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
            [],
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            {"type": "enum", "name": "E", "symbols": ["A"]},
            None,
        ),
        ({"type": "long", "logicalType": "timestamp-millis"}, "long", []),
    ],
)
def test_records_unions_and_named_types(writer: Any, reader: Any, expected: list[str] | None) -> None:
    found = problems(writer, reader)

    assert found if expected is None else found == expected


def test_what_comes_goes_moves_and_is_renamed_is_told() -> None:
    writer = record(member("a", "int"), member("b", "int"), member("c", "int"))
    reader = record(
        member("b", "int"),
        member("a", "int"),
        member("d", "int", aliases=["c"]),
        member("e", "int", default=1),
    )

    resolution = resolve(json.dumps(writer), json.dumps(reader))

    assert resolution.problems == []
    assert (resolution.added, resolution.removed) == (["e"], [])
    assert resolution.renamed == ["c → d"]
    # b stands where a was, and the other way round; nothing stood where e is.
    assert (resolution.shifted, resolution.displaced) == (["b", "a"], ["e"])


@pytest.mark.parametrize(
    ("kinds", "shifted", "displaced"),
    [
        (("int", "long"), ["b"], []),
        (("int", "string"), [], ["b"]),
        (("string", ["null", "string"]), ["b"], []),
        ((["null", "string"], "string"), [], ["b"]),
        (("bytes", "string"), [], ["b"]),
    ],
)
def test_a_field_at_the_place_of_another_is_written_with_its_value_or_not_at_all(
    kinds: tuple[Any, Any], shifted: list[str], displaced: list[str]
) -> None:
    writer = record(member("a", kinds[0]), member("b", kinds[1]))

    resolution = resolve(json.dumps(writer), json.dumps(record(member("b", kinds[1]))))

    assert (resolution.problems, resolution.removed) == ([], ["a"])
    assert (resolution.shifted, resolution.displaced) == (shifted, displaced)


def test_a_field_that_goes_behind_the_others_moves_none() -> None:
    resolution = resolve(
        json.dumps(record(member("a", "int"), member("b", "int"))), json.dumps(record(member("a", "long")))
    )

    assert (resolution.removed, resolution.shifted, resolution.displaced) == (["b"], [], [])


def test_types_that_contain_themselves_are_compared_once() -> None:
    tree = record(member("left", ["null", "app.Order"]), member("id", "int"))
    wider = record(member("left", ["null", "app.Order"]), member("id", "long"))

    assert problems(tree, tree) == []
    assert problems(tree, wider) == []
    assert problems(wider, tree) != []


names = st.sampled_from(["a", "b", "c", "d"])
schemas = st.recursive(
    st.sampled_from([*NUMBERS, "string", "bytes", "boolean", "null"]),
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda values: {"type": "map", "values": values}, inner),
        st.builds(
            lambda fields: record(*(member(name, kind) for name, kind in fields.items())),
            st.dictionaries(names, inner, max_size=3),
        ),
    ),
    max_leaves=6,
)


def renumbered(schema: Any, count: list[int]) -> Any:
    """Return a schema whose records have names of their own, as Avro demands."""
    if isinstance(schema, dict):
        changed = {key: renumbered(value, count) for key, value in schema.items()}
        if changed["type"] == "record":
            count[0] += 1
            changed["name"] = f"R{count[0]}"
        return changed
    return [renumbered(item, count) for item in schema] if isinstance(schema, list) else schema


@given(schemas)
def test_every_schema_reads_its_own_data(schema: Any) -> None:
    named = renumbered(schema, [0])

    resolution = resolve(json.dumps(named), json.dumps(named))

    assert resolution.problems == []
    assert resolution.added == resolution.removed == resolution.shifted == resolution.displaced == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "name", "fields", "items", "symbols"]), inner, max_size=4
            )
        ),
        max_leaves=8,
    )
)
def test_what_is_no_schema_is_refused_or_resolved(schema: Any) -> None:
    try:
        resolve(json.dumps(schema), json.dumps(schema))
    except ValueError as error:
        assert "expected an Avro schema" in str(error)  # noqa: PT017  # most schemas raise nothing
