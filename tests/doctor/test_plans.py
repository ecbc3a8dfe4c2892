"""The doctor with a job plan or a stateInfo file: they tell some facts, and the rest is a named doubt, never fine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doctor import CheckReport, Outcome, Severity, Stage, against_of, check
from readers import CorruptDataError, NotASavepointError, Savepoint, write_state_info
from tests.support.compatpairs import labels_in, unpack_pairs

PAIRS = (
    "uid-changed",
    "pojo-rename-field",
    "pojo-retype-int-long",
    "basic-long-int",
    "state-renamed",
    "par-up",
)
A, B = "A-2.3.0-hashmap-canonical", "B-2.3.0-hashmap-canonical"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), PAIRS)


def with_plan(pair: Path, *more: Path) -> CheckReport:
    return check(pair / "savepoints" / A, against=against_of([pair / "plans" / "B-2.3.0.json", *more]))


def described(pair: Path, tmp_path: Path, old: str = "", new: str = "") -> Path:
    """The stateInfo of the new job, with one text in place of another."""
    text = write_state_info(Savepoint(pair / "savepoints" / B))
    path = tmp_path / "stateInfo"
    path.write_text(text.replace(old, new) if old else text)
    assert old == "" or path.read_text() != text
    return path


def test_no_label_is_called_fine_with_a_plan_alone(pairs: Path) -> None:
    for label in labels_in(pairs):
        plan = label.folder / str(label.facts["job_plan_b"])
        report = check(
            label.savepoint_a,
            against=against_of([plan]),
            flink=str(label.facts["reader"]),
            backend=label.backend,
            allow_non_restored=bool(label.facts["allow_non_restored"]),
        )

        assert report.severity not in (Severity.FINE, Severity.RISK), label
        assert report.outcome is not Outcome.FAILS or label.facts["outcome"] == "fails", label


def test_a_plan_without_chains_has_all_operators(pairs: Path) -> None:
    report = with_plan(pairs / "uid-changed")

    assert (report.outcome, report.stage) == (Outcome.FAILS, Stage.GRAPH)
    assert [one.uid for one in report.operators if one.rule == "operator-missing"] == ["a"]


def test_an_operator_may_be_in_a_chain(pairs: Path, tmp_path: Path) -> None:
    plan = json.loads((pairs / "uid-changed/plans/B-2.3.0.json").read_text())
    plan["nodes"][1]["description"] = "Source: src<br/>+- map<br/>"
    (tmp_path / "plan.json").write_text(json.dumps(plan))

    report = check(pairs / "uid-changed/savepoints" / A, against=against_of([tmp_path / "plan.json"]))

    assert report.outcome is Outcome.RESTORES
    assert {risk.rule for risk in report.risks if risk.severity is Severity.DOUBT} == {
        "plan-operator-unlisted",
        "plan-states-unseen",
    }


def test_the_parallelism_of_a_plan_counts(pairs: Path, tmp_path: Path) -> None:
    pair = pairs / "par-up"
    plan = json.loads((pair / "plans/B-2.3.0.json").read_text())
    for node in plan["nodes"]:
        node["parallelism"] = 200
    (tmp_path / "plan.json").write_text(json.dumps(plan))

    for more in ((), (pair / "savepoints" / B,)):
        report = check(pair / "savepoints" / A, against=against_of([tmp_path / "plan.json", *more]))
        assert (report.outcome, report.stage) == (Outcome.FAILS, Stage.GRAPH)
        assert "parallelism-above-max" in {one.rule for one in report.operators}


def test_a_savepoint_of_the_new_job_tells_what_a_plan_does_not(pairs: Path) -> None:
    pair = pairs / "pojo-rename-field"

    alone, both = with_plan(pair), with_plan(pair, pair / "savepoints" / B)

    assert (alone.severity, both.severity) == (Severity.DOUBT, Severity.LOSES)


def test_a_compiled_plan_lists_uids(pairs: Path, tmp_path: Path) -> None:
    plan = {"flinkVersion": "2.3", "nodes": [], "edges": []}
    (tmp_path / "compiled.json").write_text(json.dumps(plan))

    report = check(pairs / "par-up/savepoints" / A, against=against_of([tmp_path / "compiled.json"]))

    assert report.severity is Severity.DOUBT
    assert "plan-operator-unlisted" in {risk.rule for risk in report.risks}


def test_types_of_a_description_are_compared_where_their_names_tell_them(pairs: Path, tmp_path: Path) -> None:
    savepoint = pairs / "state-renamed/savepoints" / A
    kept = described(pairs / "state-renamed", tmp_path)
    renamed = check(savepoint, against=against_of([kept]))
    lost = [state for one in renamed.operators for state in one.states if state.outcome == "not-declared"]
    assert lost
    assert renamed.loses_data

    retyped = described(pairs / "par-up", tmp_path, '"Long"', '"Integer"')
    report = check(pairs / "par-up/savepoints" / A, against=against_of([retyped]))
    assert report.outcome is Outcome.FAILS


def test_classes_of_a_description_are_a_doubt(pairs: Path, tmp_path: Path) -> None:
    pair = pairs / "pojo-rename-field"

    report = check(pair / "savepoints" / A, against=against_of([described(pair, tmp_path)]))

    assert report.severity is Severity.DOUBT
    assert {risk.rule for risk in report.risks if risk.severity is Severity.DOUBT} == {"state-info-names"}


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", NotASavepointError, "a savepoint, a jar, a job plan or a stateInfo file"),
        ("just a text", NotASavepointError, "a savepoint, a jar, a job plan or a stateInfo file"),
        ("[1, 2]", NotASavepointError, "a savepoint, a jar, a job plan or a stateInfo file"),
        ("{", CorruptDataError, "expected JSON"),
        ("{}", CorruptDataError, "a job plan of Flink's REST API or a compiled SQL plan"),
        ('{"nodes": [{"id": 7}]}', CorruptDataError, "a job plan"),
        ('{"version": 1, "operators": [{"id": "x"}]}', CorruptDataError, "32 hex"),
        ("[" * 100_000, NotASavepointError, "a savepoint, a jar"),
    ],
)
def test_what_is_neither_is_said(text: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)

    with pytest.raises(error, match=message):
        against_of([tmp_path / "file"])
