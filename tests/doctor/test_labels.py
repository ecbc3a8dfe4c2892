"""The doctor on labelled restores in real Flink: outcome and stage, and nothing called fine that failed or lost something."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import doctor
from doctor import Outcome, Severity
from readers import Savepoint
from tests.support.compatpairs import labels_in, unpack_pairs
from tools.compat import Result, against_of, results

# One pair a family and outcome: those of two savepoints, without what only a jar or values tell.
SAMPLE = (
    "avro-add-nodefault",
    "enum-remove",
    "key-tuple-arity",
    "kind-value-to-list",
    "kryo-type-arraylist",
    "kryo-type-uuid",
    "nested-add-field-map-key",
    "op-merged-removed-nokeyed",
    "opstate-removed-kryo",
    "pojo-field-from-superclass",
    "pojo-list-field",
    "pojo-rename-field",
    "pojo-retype-long-string",
    "scala-case-not-declared",
    "sql-add-agg",
    "state-renamed",
    "ttl-on-value",
    "window-global",
)
# Facts that no two savepoints tell: code, configuration, class files (docs/reference/rules.md).
UNDECIDED = {
    "changelog-on",
    "config-backend-jobmanager",
    "config-backend-rocksdb-new-factory",
    "kryo-class-renamed-kept",
    "kryo-reg-remove-class",
    "maxpar-unset",
    "pojo-class-renamed-kept",
    "pojo-duration-field",
    "pojo-field-transient",
    "uid-hash-set",
}


def called_fine(found: list[Result]) -> list[str]:
    return [
        str(result) for result in found if result.is_bad and result.is_called_fine and not result.cautious
    ]


def test_the_outcomes_of_a_sample_are_those_of_flink(tmp_path: Path) -> None:
    found = list(results(unpack_pairs(tmp_path, SAMPLE), "savepoint"))

    assert {result.pair for result in found} == set(SAMPLE)
    assert [str(result) for result in found if not result.is_right] == []
    assert [str(result) for result in found if result.loses and result.severity is not Severity.LOSES] == []


@pytest.mark.slow
def test_the_outcomes_of_all_labels_are_those_of_flink(tmp_path: Path) -> None:
    found = list(results(unpack_pairs(tmp_path), "savepoint"))

    wrong = [result for result in found if not result.is_right]
    assert len(found) == 1545
    assert {result.pair for result in wrong} == UNDECIDED
    assert len(wrong) <= 0.03 * len(found)
    assert called_fine(found) == []


# What no savepoint and no jar tells: the report of each such label names it.
NAMED = {
    "changelog-on": "changelog-unseen",
    "config-backend-jobmanager": "backend-name-unseen",
    "config-backend-rocksdb-new-factory": "backend-name-unseen",
    "key-values-change": "key-selector-unseen",
}


@pytest.mark.slow
def test_what_no_comparison_sees_is_named_in_the_reports_that_it_concerns(tmp_path: Path) -> None:
    bad = Counter[str]()
    for label in labels_in(unpack_pairs(tmp_path, [*NAMED, "basic-string-to-long"])):
        facts = label.facts
        report = doctor.check(
            label.savepoint_a,
            against=against_of(label.folder, facts, "savepoint"),
            flink=facts["reader"],
            backend=label.backend,
        )
        named = {risk.rule for risk in report.all_risks() if facts["pair"] in risk.evidence}
        if facts["outcome"] == "fails" or facts.get("silent_change"):
            bad[facts["pair"]] += 1
            assert facts["pair"] not in NAMED or named == {NAMED[facts["pair"]]}, str(label)
        rules = {risk.rule for risk in report.all_risks()}
        assert ("backend-name-unseen" in rules) == (
            label.backend == ("rocksdb" if facts["reader"].startswith("1.") else "hashmap")
        )
        assert ("changelog-unseen" in rules) == facts["reader"].startswith("2.")

    assert sum(bad[pair] for pair in NAMED) == 13


@pytest.mark.slow
def test_without_a_new_job_an_upgrade_that_fails_or_loses_is_never_fine(tmp_path: Path) -> None:
    found = list(results(unpack_pairs(tmp_path), "none"))

    assert called_fine(found) == []


# What a label calls a state → what a report may call it.
SAME_STATE = {
    "as-is": {"as-is"},
    "migrated": {"migrated"},
    "reconfigured": {"reconfigured"},
    "dropped": {"dropped"},
    "new": {"new"},
    "not-declared, kept": {"not-declared"},
}
# Flink names states of one name, list and broadcast, keyed and not, by the name alone.
TWO_OF_A_NAME = {"kind-oplist-to-broadcast", "kind-value-to-oplist"}


@pytest.mark.slow
def test_the_outcomes_of_all_states_are_those_of_flink(tmp_path: Path) -> None:
    compared, wrong = 0, []
    for label in labels_in(unpack_pairs(tmp_path)):
        facts = label.facts
        if facts["outcome"] != "restores" or not facts.get("savepoint_b") or facts["pair"] in TWO_OF_A_NAME:
            continue
        report = doctor.check(
            label.savepoint_a,
            against=[doctor.SavepointAgainst(Savepoint(label.savepoint_b))],
            flink=facts["reader"],
            backend=label.backend,
            allow_non_restored=facts["allow_non_restored"],
        )
        if report.outcome is not Outcome.RESTORES:
            continue
        said = {
            (operator.operator_id, state.state_name): state.outcome.value
            for operator in report.operators
            for state in operator.states
        }
        for state in facts["states"]:
            found = said.get((state["operator_id"], state["name"]))
            compared += found is not None
            if found is not None and found not in SAME_STATE[state["outcome"]]:
                wrong.append(f"{label} {state['name']}: {state['outcome']}, said {found}")

    assert compared > 2000
    assert wrong == []
