"""Jars that stand beside a savepoint, where its `stateInfo` names them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import catalog
from catalog.cache.states import StateCache
from readers.errors import CorruptDataError
from readers.jars.jobclasses import JobClasses
from readers.savepoint import Savepoint
from readers.stateinfo.file import load_state_info, read_state_info, state_info_text
from readers.states import State
from tests.support.classwriter import class_file, write_jar
from tests.support.paths import DATA

GENERIC = "corpus.T$Generic"
JOBS = DATA / "classes" / "jobs.jar"
TEXT, LIST = "Ljava/lang/String;", "Ljava/util/List;"


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    """A savepoint with its jar beside it."""
    path = Path(shutil.copytree(DATA / "corpus/1.20.3/alltypes-hashmap/canonical", tmp_path / "savepoint"))
    shutil.copy(JOBS, path / "job.jar")
    return path


def state_info(*jars: str) -> str:
    return json.dumps({"version": 1, "operators": [], "jars": jars})


def generic(path: Path, **options: Any) -> State:
    operators = Savepoint(path, **options).operators
    (found,) = (
        state for operator in operators for state in operator.states if state.name == "v_kryo_generic"
    )
    return found


def test_a_jar_beside_a_savepoint_is_used_where_its_state_info_names_it(savepoint):
    assert generic(savepoint).status == "raw"

    (savepoint / "stateInfo").write_text(state_info("job.jar"))

    assert generic(savepoint).status == "decoded"
    assert generic(savepoint).note == ""


def test_a_jar_beside_a_state_info_that_is_given_is_used(savepoint, tmp_path):
    shutil.move(savepoint / "job.jar", tmp_path / "other.jar")
    (tmp_path / "info").write_text(state_info("other.jar"))

    info = load_state_info(tmp_path / "info")

    assert generic(savepoint, state_info=info).status == "decoded"
    assert read_state_info(state_info_text(info).encode()).jars == ("other.jar",)


def test_a_jar_that_cannot_be_read_hides_nothing_else(savepoint):
    (savepoint / "broken.jar").write_bytes(b"PK")
    (savepoint / "stateInfo").write_text(state_info("missing.jar", "broken.jar", "job.jar"))

    state = generic(savepoint)

    assert state.status == "decoded"
    assert "stateInfo: the jar missing.jar is not used" in state.note
    assert "stateInfo: the jar broken.jar is not used" in state.note


@pytest.mark.parametrize("name", ["../job.jar", "/etc/passwd", "a/b.jar", "..", ".", "", "a\\b", "file:x", 7])
def test_only_files_beside_it_can_be_named(name):
    text = json.dumps({"version": 1, "operators": [], "jars": [name]})

    with pytest.raises(CorruptDataError, match="the name of a file beside this one"):
        read_state_info(text.encode())


def test_a_jar_that_is_given_comes_before_one_beside_the_savepoint(savepoint, tmp_path):
    fields = [("a", "I"), ("b2", TEXT), ("c", LIST)]
    given = write_jar(tmp_path / "given.jar", {GENERIC: class_file(GENERIC, fields=fields)})
    (savepoint / "stateInfo").write_text(state_info("job.jar"))

    state = generic(savepoint, jars=JobClasses.open([given]))

    (first, *_) = (row["value"] for batch in state.read() for row in batch.to_pylist() if row["key"] == "k0")
    assert json.loads(first) == {"@class": GENERIC, "a": 1, "b2": "one", "c": ["x", 2]}


def test_tables_that_depend_on_a_jar_beside_a_savepoint_are_not_remembered(savepoint, tmp_path):
    cache = StateCache(tmp_path / "cache", 1 << 20)
    (savepoint / "stateInfo").write_text(state_info("job.jar"))

    def value_type() -> str:
        database = catalog.connect(savepoint, cache=cache).default
        assert database is not None
        (table,) = (table for table in database.listed() if table.name.endswith("v_kryo_generic"))
        return str(table.schema.field("value").type)

    assert value_type() == "string"
    write_jar(savepoint / "job.jar", {})
    assert value_type() == "binary"
