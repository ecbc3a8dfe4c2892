"""Objects that Kryo wrote, read by the class files of their classes: every value that real Flink wrote, and other classes."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.errors import ClassMismatchError, ReaderError
from readers.jars.jobclasses import JobClasses
from readers.savepoint import Savepoint
from readers.serializers.kryo.serializer import KryoLeaf
from readers.serializers.kryo.settings import KryoRegistration, KryoSettings
from readers.states import State
from tests.support.classwriter import class_file, write_jar
from tests.support.compatpairs import unpack_pairs
from tests.support.paths import DATA

JOBS = DATA / "classes" / "jobs.jar"
VALUES = [
    json.loads(line)
    for line in gzip.decompress((DATA / "vectors" / "kryo-objects.jsonl.gz").read_bytes()).splitlines()
]
VERSIONS = {"1.20.3": 2, "2.3.0": 5}
POINT = next(value for value in VALUES if value["name"] == "point")


@pytest.fixture(scope="module")
def jobs() -> JobClasses:
    return JobClasses.open([JOBS])


def leaf(value: dict[str, Any], jobs: JobClasses) -> KryoLeaf:
    """The reader of a vector's value as the last of its entry."""
    registrations = (KryoRegistration(class_name=value["class"]),)
    version = VERSIONS[value["flink"]]
    settings = KryoSettings(version=version, registrations=registrations, class_files=jobs.kryo)
    return KryoLeaf(settings, value["class"], is_last=True)


def text_of(value: dict[str, Any], jobs: JobClasses, data: bytes) -> str:
    """The text that is shown of bytes, which must be read to their end."""
    text, end = leaf(value, jobs).read(memoryview(data), 0, len(data))
    assert text is not None
    assert end == len(data)
    return text.decode()


def shown(value: Any) -> Any:
    """A value that reflection found, as the reader shows it; the order of fields and of entries does not matter."""
    if isinstance(value, list):
        return [shown(element) for element in value]
    if not isinstance(value, dict):
        return value
    if "$bytes" in value:
        return base64.b64encode(bytes.fromhex(value["$bytes"])).decode()
    if "$map" in value:
        entries = [{"key": shown(key), "value": shown(item)} for key, item in value["$map"]]
        return sorted(entries, key=lambda entry: str(entry["key"]))
    # Kryo 5 leaves synthetic fields out.
    return {name: shown(field) for name, field in value.items()}


def sorted_maps(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: sorted_maps(field) for name, field in value.items()}
    if not isinstance(value, list):
        return value
    elements = [sorted_maps(element) for element in value]
    is_map = bool(elements) and all(
        isinstance(element, dict) and element.keys() == {"key", "value"} for element in elements
    )
    return sorted(elements, key=lambda entry: str(entry["key"])) if is_map else elements


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value['flink']} {value['name']}")
def test_an_object_that_flink_wrote_has_the_names_and_values_that_it_was_written_with(value, jobs):
    data = bytes.fromhex(value["bytes"])

    text = text_of(value, jobs, data)

    expected = shown(value["value"])
    if value["flink"] == "2.3.0" and value["name"] == "inner":
        del expected["this$0"]
    is_enum = isinstance(expected, str)
    assert (text if is_enum else sorted_maps(json.loads(text))) == expected


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value['flink']} {value['name']}")
@given(data=st.data())
def test_bytes_that_flink_did_not_write_are_a_value_or_an_error(value, jobs, data):
    written = bytes.fromhex(value["bytes"])
    place = data.draw(st.integers(0, len(written) - 1))
    other = bytes([data.draw(st.integers(0, 255))])
    changed = (written[:place] + other + written[place + 1 :])[: data.draw(st.integers(0, len(written)))]

    try:
        _, end = leaf(value, jobs).read(memoryview(changed), 0, len(changed))
    except ReaderError:
        return
    assert end <= len(changed)


@pytest.mark.parametrize(
    "fields",
    [
        [("x", "I")],
        [("x", "I"), ("y", "I"), ("z", "I")],
        [("x", "D"), ("y", "I")],
        [("x", "Ljava/lang/String;"), ("y", "I")],
    ],
    ids=["one field less", "one field more", "another number", "a text"],
)
@pytest.mark.parametrize("flink", VERSIONS)
def test_another_version_of_a_class_is_noticed(fields, flink, tmp_path):
    value = POINT | {"flink": flink}
    jar = write_jar(tmp_path / "other.jar", {value["class"]: class_file(value["class"], fields=fields)})
    data = bytes.fromhex(value["bytes"])

    with pytest.raises(ClassMismatchError, match=r"as the jars have its classes, found other bytes"):
        leaf(value, JobClasses.open([jar])).read(memoryview(data), 0, len(data))


@pytest.mark.parametrize(
    ("classes", "reason"),
    [
        ({}, "acme.Shapes$Point is in no jar"),
        ({"acme.Shapes$Point": ("com.other.Base", ())}, "com.other.Base is in no jar"),
        (
            {"acme.Shapes$Point": ("acme.A", ()), "acme.A": ("acme.B", ()), "acme.B": ("acme.A", ())},
            "acme.Shapes$Point has more than 256 superclasses",
        ),
        ({"acme.Shapes$Point": ("java.util.Date", ())}, "acme.Shapes$Point is written as a java.util.Date"),
    ],
    ids=["no class", "no superclass", "superclasses without end", "a serializer of Kryo's"],
)
def test_a_class_whose_layout_does_not_follow_from_the_jars_says_why(classes, reason, tmp_path):
    files = {name: class_file(name, above, fields) for name, (above, fields) in classes.items()}
    jobs = JobClasses.open([write_jar(tmp_path / "job.jar", files)])

    assert jobs.kryo.kryo_class("acme.Shapes$Point", 5) is None
    assert jobs.kryo.lacks("acme.Shapes$Point") == reason


def test_a_field_of_a_class_in_no_jar_is_not_guessed(tmp_path):
    fields = [("x", "Lcom/other/Money;"), ("y", "I")]
    jar = write_jar(tmp_path / "job.jar", {POINT["class"]: class_file(POINT["class"], fields=fields)})
    data = bytes.fromhex(POINT["bytes"])

    text = text_of(POINT, JobClasses.open([jar]), data)

    assert json.loads(text) == {"@class": "com.other.Money", "@kryo": base64.b64encode(data).decode()}


def test_a_class_of_thousands_of_fields_is_read(tmp_path):
    fields = [(f"f{number:04}", "I") for number in range(5_000)]
    jar = write_jar(tmp_path / "job.jar", {"acme.Wide": class_file("acme.Wide", fields=fields)})
    data = b"\x57\x01" + bytes(number % 64 * 2 for number in range(5_000))

    value = {"flink": "2.3.0", "class": "acme.Wide"}
    text = text_of(value, JobClasses.open([jar]), data)

    assert json.loads(text) == {"@class": "acme.Wide"} | {
        f"f{number:04}": number % 64 for number in range(5_000)
    }


@given(name=st.text(st.characters(codec="utf-8", exclude_characters=";[./\0"), min_size=1, max_size=20))
def test_names_of_classes_that_no_compiler_writes_do_no_harm(name, tmp_path_factory):
    owner = "acme.Odd"
    data = class_file(owner, fields=[("field", f"L{name};")])
    jar = write_jar(tmp_path_factory.mktemp("jar") / "job.jar", {owner: data})

    found = JobClasses.open([jar]).kryo.kryo_class(owner, 5)

    assert found is None or [field for field, _ in found.stored_fields] == ["field"]


def state_of(path: Path, jobs: JobClasses | None) -> State:
    operators = Savepoint(path, jars=jobs).operators
    (found,) = (state for operator in operators for state in operator.states if state.name == "s")
    return found


@pytest.mark.parametrize("savepoint", ["1.20.3-hashmap", "1.20.3-rocksdb", "2.3.0-hashmap", "2.3.0-rocksdb"])
def test_states_have_values_with_the_jar_of_their_job_and_bytes_with_another(savepoint, tmp_path):
    folder = unpack_pairs(tmp_path, ["kryo-add-field"]) / "kryo-add-field"
    jobs = JobClasses.open([folder / f"jars/B-{savepoint.split('-')[0]}.jar"])

    state = state_of(folder / f"savepoints/B-{savepoint}-canonical", jobs)

    rows = [row for batch in state.read(["key", "value", "_undecoded"]) for row in batch.to_pylist()]
    assert state.status == "decoded"
    assert sorted((row["key"], json.loads(row["value"]), row["_undecoded"]) for row in rows) == [
        (key, {"@class": "app.Acc", "age": 93000 + key, "id": 57000 + key, "name": f"name-{key}"}, None)
        for key in range(4)
    ]

    older = state_of(folder / f"savepoints/A-{savepoint}-canonical", jobs)

    assert older.status == "raw"
    assert "jars: the jars are not used for this state, because its bytes do not fit" in older.note
    plain = state_of(folder / f"savepoints/A-{savepoint}-canonical", None)
    assert [batch.to_pylist() for batch in older.read()] == [batch.to_pylist() for batch in plain.read()]
