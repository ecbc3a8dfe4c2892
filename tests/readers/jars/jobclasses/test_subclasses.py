"""Subclasses of POJOs that a savepoint does not describe, by the class files of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.errors import CorruptDataError
from readers.jars.classpath import ClassPath
from readers.jars.jobclasses import MAX_SUBCLASSES, Hierarchy, JobClasses, superclass_of
from readers.savepoint import Savepoint
from readers.states import State
from tests.support.classwriter import PUBLIC, class_file, write_jar
from tests.support.paths import DATA

ALL_TYPES = DATA / "corpus/1.20.3/alltypes-hashmap"
BASE = "corpus.T$Inner"
TEXT = "Ljava/lang/String;"


def state_of(path: Path, name: str, *jars: Path) -> State:
    operators = Savepoint(path, jars=JobClasses.open(jars)).operators
    (found,) = (state for operator in operators for state in operator.states if state.name == name)
    return found


def rows_of(state: State) -> dict[str, Any]:
    return {row["key"]: row for batch in state.read() for row in batch.to_pylist()}


def inner_jar(path: Path, *fields: tuple[str, str]) -> Path:
    base = class_file(BASE, fields=[("id", "J"), ("label", TEXT)])
    return write_jar(path, {BASE: base, "corpus.T$InnerSub": class_file("corpus.T$InnerSub", BASE, fields)})


@pytest.mark.parametrize("snapshot", ["canonical", "native"])
def test_a_subclass_that_only_a_value_names_has_its_fields(snapshot, tmp_path):
    jar = inner_jar(tmp_path / "job.jar", ("extra", "I"))

    state = state_of(ALL_TYPES / snapshot, "v_pojo_inner", jar)

    rows = rows_of(state)
    assert state.status == "decoded"
    assert rows["k2"]["value"] == {
        "id": 3, "label": "sub", "reg": None, "extra": 33, "__class": "corpus.T$InnerSub",
    }  # fmt: skip
    assert rows["k3"]["value"]["reg"] == "rr"
    assert rows["k2"]["_undecoded"] is None


@pytest.mark.slow
@pytest.mark.parametrize("fields", [(), (("extra", "J"),), (("extra", "I"), ("more", "I"))])
@pytest.mark.parametrize("snapshot", ["canonical", "native"])
def test_another_version_of_a_subclass_is_left_aside(snapshot, fields, tmp_path):
    jar = inner_jar(tmp_path / "job.jar", *fields)

    state = state_of(ALL_TYPES / snapshot, "v_pojo_inner", jar)
    plain = state_of(ALL_TYPES / snapshot, "v_pojo_inner", write_jar(tmp_path / "empty.jar", {}))

    assert rows_of(state) == rows_of(plain)
    assert "found an object of corpus.T$InnerSub" in state.note
    assert "jars: the jars are not used for this state" in state.note


def test_a_subclass_that_is_no_pojo_is_read_as_kryo_writes_it(tmp_path):
    private = class_file("corpus.T$InnerSub", BASE, [("extra", "I")], access=0)
    base = class_file(BASE, fields=[("id", "J"), ("label", TEXT)])
    jar = write_jar(tmp_path / "job.jar", {BASE: base, "corpus.T$InnerSub": private})

    state = state_of(ALL_TYPES / "canonical", "v_pojo_inner", jar)

    # These objects are POJOs to Flink: their bytes are not Kryo's.
    assert "jars: the jars are not used for this state" in state.note


def test_a_class_with_too_many_subclasses_is_not_shown_with_all_of_them(tmp_path):
    names = [f"corpus.Sub{number}" for number in range(MAX_SUBCLASSES + 1)]
    jar = write_jar(tmp_path / "job.jar", {name: class_file(name, BASE, [("x", "I")]) for name in names})

    state = state_of(ALL_TYPES / "canonical", "v_pojo_inner", jar)

    assert f"jars: {BASE} has {MAX_SUBCLASSES + 1} subclasses, more than {MAX_SUBCLASSES}" in state.note
    assert rows_of(state)["k2"]["_undecoded"] is not None


def test_subclasses_are_found_through_abstract_ones_and_circles_end(tmp_path):
    classes = {
        "a.Middle": class_file("a.Middle", "a.Base", access=PUBLIC | 0x0400),
        "a.Below": class_file("a.Below", "a.Middle"),
        "a.Ring": class_file("a.Ring", "a.Circle"),
        "a.Circle": class_file("a.Circle", "a.Ring"),
        "a.Damaged": b"\xca\xfe\xba\xbe",
    }
    hierarchy = Hierarchy(ClassPath.open([write_jar(tmp_path / "job.jar", classes)]))

    assert hierarchy.subclasses_of("a.Base") == ["a.Below"]
    assert hierarchy.subclasses_of("a.Ring") == ["a.Circle", "a.Ring"]
    assert hierarchy.subclasses_of("java.lang.Object") == []


def test_the_superclass_is_the_one_that_the_class_file_names():
    jobs = ClassPath.open([DATA / "classes" / "jobs.jar"])
    names = list(jobs)

    found = {name: superclass_of(jobs.resource(f"{name.replace('.', '/')}.class") or b"") for name in names}

    assert found == {name: jobs.find(name).super_name for name in names}  # type: ignore[union-attr]


@given(st.binary(max_size=200), st.integers(0, 500), st.integers(0, 255))
def test_a_damaged_class_file_has_a_superclass_or_is_corrupt(data, place, byte):
    written = bytearray(class_file("a.A", "a.B", [("x", "I")]))
    written[place % len(written)] = byte

    for damaged in (data, bytes(written), bytes(written[:place])):
        try:
            found = superclass_of(damaged)
        except CorruptDataError:
            continue
        assert found is None or isinstance(found, str)
