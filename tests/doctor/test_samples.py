"""The doctor looks at the first values of states that no snapshot describes, and at no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import doctor
from doctor import CheckReport, SavepointAgainst, Severity
from readers import ReadCounter, Savepoint
from tests.support.compatpairs import unpack_pairs

RULES = {
    "kryo-add-field": ("sample-kryo-fields", {"kryo-fields-unseen", "kryo-upgrade-unlisted"}),
    "pojo-list-of-pojo-add-field": ("sample-kryo-fields", {"kryo-fields-unseen"}),
    "pojo-subclass-add-field": ("sample-subclass-fields", {"pojo-subclasses-unseen"}),
    "pojo-subclass-class-gone": ("sample-subclass-gone", {"pojo-subclasses-unseen"}),
    "cep-pattern-changed": ("sample-cep-stage", {"cep-pattern"}),
}
MOST_BYTES = 16 << 10


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), [*RULES, "pojo-rename-field"])


def checked(folder: Path, label: dict[str, str], counter: ReadCounter | None = None) -> CheckReport:
    return doctor.check(
        Savepoint(folder / label["savepoint_a"], counter=counter),
        against=[SavepointAgainst(Savepoint(folder / label["savepoint_b"], counter=counter))],
        flink=label["reader"],
        backend=label["backend"],
    )


@pytest.mark.parametrize("name", RULES)
def test_values_show_what_no_snapshot_describes(name: str, pairs: Path) -> None:
    said = set()
    rule, answered = RULES[name]
    for path in sorted((pairs / name / "labels").iterdir()):
        label = json.loads(path.read_text())
        report = checked(pairs / name, label)

        stage = report.stage.value if report.stage is not None else None
        assert (report.outcome.value, stage) == (label["outcome"], label.get("stage")), path.name
        rules = {state.rule for operator in report.operators for state in operator.states}
        if rule in rules:
            said.add(path.stem)
            # What is decided is no risk any more.
            assert not answered & {risk.rule for risk in report.all_risks()}

    assert "1.20.3-to-1.20.3-hashmap" in said


@pytest.mark.parametrize("name", RULES)
def test_an_unchanged_job_stays_what_its_headers_say(name: str, pairs: Path) -> None:
    for path in sorted((pairs / name / "savepoints").glob("*-canonical")):
        version, backend = path.name.split("-")[1:3]
        label = {"savepoint_a": str(path), "savepoint_b": str(path), "reader": version, "backend": backend}

        report = checked(pairs / name, label)

        assert report.severity in (Severity.FINE, Severity.RISK), path


def test_few_bytes_are_read_of_states_that_the_headers_leave_open_and_none_of_others(pairs: Path) -> None:
    read = {}
    for name in ("kryo-add-field", "pojo-rename-field"):
        folder = pairs / name
        label = json.loads((folder / "labels/2.3.0-to-2.3.0-rocksdb.json").read_text())
        headers, both = ReadCounter(), ReadCounter()
        for side in ("savepoint_a", "savepoint_b"):
            doctor.check(Savepoint(folder / label[side], counter=headers), flink="2.3.0", backend="rocksdb")
        checked(folder, label, both)
        read[name] = both.bytes_read - headers.bytes_read

    assert read["pojo-rename-field"] == 0
    assert 0 < read["kryo-add-field"] <= 2 * MOST_BYTES


def test_a_class_that_is_in_the_jar_is_not_gone(pairs: Path) -> None:
    folder = pairs / "pojo-subclass-class-gone"
    old = Savepoint(folder / "savepoints/A-2.3.0-hashmap-canonical")
    new = SavepointAgainst(Savepoint(folder / "savepoints/B-2.3.0-hashmap-canonical"))
    jars = {
        "pojo-subclass-add-field": "pojo-subclasses-unseen",
        "pojo-subclass-class-gone": "sample-subclass-gone",
    }

    found = {}
    for name in jars:
        jar = doctor.JarAgainst(pairs / name / "jars/B-2.3.0.jar")
        report = doctor.check(old, against=[new, jar], flink="2.3.0", backend="hashmap")
        found[name] = {state.rule for one in report.operators for state in one.states} | {
            risk.rule for risk in report.all_risks()
        }

    assert "sample-subclass-gone" not in found["pojo-subclass-add-field"]
    assert "sample-subclass-gone" in found["pojo-subclass-class-gone"]
