"""The doctor with a jar: on labelled restores in real Flink, and on jars that tell too little."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

import doctor
from doctor import CheckReport, JarAgainst, Outcome, Stage, StateOutcome, against_of
from readers import CorruptDataError
from tests.support.compatpairs import Label, labels_in, unpack_pairs
from tests.support.paths import DATA
from tools.compat import Result, results

# Pairs that a jar alone decides: one a family.
SAMPLE = (
    "avro-add-nodefault",
    "enum-remove",
    "key-tuple-arity",
    "kind-list-to-map",
    "kryo-add-field",
    "kryo-class-renamed-kept",
    "kryo-reg-remove-class",
    "maxpar-down",
    "own-serializer-renamed",
    "pojo-field-from-superclass",
    "pojo-field-transient",
    "pojo-list-field",
    "pojo-list-of-pojo-add-field",
    "pojo-subclass-add-field",
    "pojo-to-kryo-ctor",
    "scala-case-add-field",
    "scala-case-rename-field",
    "sql-add-agg",
    "sql-alias",
    "state-renamed",
    "ttl-off-map",
    "tuple-field-type",
    "uid-hash-set",
)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), SAMPLE)


def label(pairs: Path, pair: str, name: str) -> Label:
    return next(each for each in labels_in(pairs) if each.folder.name == pair and each.name == name)


def checked(each: Label) -> CheckReport:
    return doctor.check(
        each.savepoint_a,
        against=[JarAgainst(each.jar_b)],
        flink=str(each.facts["reader"]),
        backend=each.backend,
    )


@pytest.mark.parametrize("mode", ["jar", "both"])
def test_the_outcomes_of_a_sample_are_those_of_flink(pairs, mode):
    found = list(results(pairs, mode))

    assert {result.pair for result in found} == set(SAMPLE)
    assert [str(result) for result in found if not result.is_right] == []


def called_fine(found: list[Result]) -> list[str]:
    return [
        str(result) for result in found if result.is_bad and result.is_called_fine and not result.cautious
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "least"), [("jar", 0.91), ("both", 0.98)])
def test_the_outcomes_of_all_labels_are_those_of_flink(tmp_path, mode, least):
    found = list(results(unpack_pairs(tmp_path), mode))

    assert len(found) == 1545
    assert sum(result.is_right for result in found) >= least * len(found)
    assert called_fine(found) == []


def test_a_field_that_became_transient_is_told_apart_from_one_that_is_gone(pairs):
    report = checked(label(pairs, "pojo-field-transient", "2.3.0-to-2.3.0-rocksdb"))

    assert (report.outcome, report.stage) == (Outcome.FAILS, Stage.REGISTER)
    (state,) = [state for state in report.operators[0].states if state.outcome is not StateOutcome.AS_IS]
    assert state.rule == "pojo-field-transient"


def test_a_jar_alone_names_what_it_does_not_tell(pairs):
    report = checked(label(pairs, "pojo-field-from-superclass", "2.3.0-to-2.3.0-rocksdb"))

    assert {"jar-graph-unseen", "jar-uid-unseen"} <= {risk.rule for risk in report.risks}
    assert all(risk.remedy and risk.evidence for risk in report.risks)


def test_a_state_that_no_code_names_is_not_declared(pairs):
    report = checked(label(pairs, "state-renamed", "2.3.0-to-2.3.0-hashmap"))

    assert {
        state.state_name: state.outcome for state in report.operators[0].states if state.kind == "VALUE"
    } == {
        "ctrl": StateOutcome.AS_IS,
        "s": StateOutcome.NOT_DECLARED,
    }
    assert "jar-name-gone" in {risk.rule for risk in report.risks}


def test_a_jar_without_the_classes_of_the_job_calls_nothing_fine(pairs, tmp_path):
    empty = tmp_path / "other.jar"
    with zipfile.ZipFile(empty, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    each = label(pairs, "pojo-list-field", "2.3.0-to-2.3.0-hashmap")

    report = doctor.check(each.savepoint_a, against=[JarAgainst(empty)], flink="2.3.0")

    assert report.outcome is Outcome.UNKNOWN
    assert "jar-class-unseen" in {state.rule for state in report.operators[0].states}
    assert {required.exists for required in report.required_classes if required.class_name == "app.Acc"} == {
        None
    }


def test_keys_that_are_no_longer_those_of_the_savepoint_are_a_doubt(pairs):
    each = label(pairs, "pojo-list-field", "2.3.0-to-2.3.0-hashmap")
    loose = DATA / "classfiles" / "loose.jar"

    report = doctor.check(each.savepoint_a, against=[JarAgainst(each.jar_b, loose)], flink="2.3.0")

    (risk,) = [risk for risk in report.risks if risk.rule == "jar-key-untold"]
    assert risk.severity is doctor.Severity.DOUBT


def test_jars_are_told_from_other_files_by_their_content(pairs, tmp_path):
    jar = label(pairs, "pojo-list-field", "2.3.0-to-2.3.0-hashmap").jar_b
    renamed = tmp_path / "job.plan"
    renamed.write_bytes(jar.read_bytes())

    (found,) = against_of([renamed, jar])

    assert found.description == f"{renamed}, {jar}"


def test_a_folder_of_jars_is_one_class_path(pairs, tmp_path):
    each = label(pairs, "pojo-list-field", "2.3.0-to-2.3.0-hashmap")
    (tmp_path / "b.jar").write_bytes(each.jar_b.read_bytes())
    (tmp_path / "a.JAR").write_bytes(each.jar_b.read_bytes())
    (tmp_path / "notes.txt").write_text("no jar")

    (found,) = against_of([tmp_path])
    (several,) = against_of([tmp_path, each.jar_b])

    assert found.description == f"{tmp_path}/a.JAR, {tmp_path}/b.jar"
    assert several.description == f"{found.description}, {each.jar_b}"
    report = doctor.check(each.savepoint_a, against=[found], flink="2.3.0")
    assert (
        report.outcome
        == doctor.check(each.savepoint_a, against=[JarAgainst(each.jar_b)], flink="2.3.0").outcome
    )


def test_a_savepoint_with_jars_beside_its_files_is_a_savepoint(pairs, tmp_path):
    each = label(pairs, "pojo-list-field", "2.3.0-to-2.3.0-hashmap")
    shutil.copytree(each.savepoint_a, tmp_path / "savepoint")
    (tmp_path / "savepoint" / "job.jar").write_bytes(each.jar_b.read_bytes())

    (found,) = against_of([tmp_path / "savepoint"])

    assert not isinstance(found, JarAgainst)


def test_a_damaged_jar_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "job.jar"
    path.write_bytes(b"PK\x03\x04" + bytes(100))

    with pytest.raises(CorruptDataError, match=r"expected a jar.*job\.jar"):
        against_of([path])
