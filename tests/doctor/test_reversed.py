"""Restores that no label has: those of labelled pairs in the other direction, and the savepoint of one pair's job in another's.

Most of these jobs have one operator with one state, so that a savepoint of any of them is one of another job to the others. What real
Flink does to each of them was tried with pairs of other names.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import doctor
from doctor import CheckReport, JarAgainst, Outcome, SavepointAgainst, Severity, Stage, StateOutcome
from readers import Savepoint
from tests.support.classwriter import PRIVATE, PUBLIC, class_file, write_jar
from tests.support.compatpairs import unpack_pairs

STEPS = (("1.20.3", "1.20.3"), ("2.3.0", "2.3.0"), ("1.20.3", "2.3.0"))
BACKENDS = ("hashmap", "rocksdb")

# The savepoint, that of the new job; the stage that fails with hashmap and with rocksdb, "" if it restores; outcomes of its states.
CASES: tuple[tuple[str, str, str, str, set[str]], ...] = (
    ("kind-oplist-to-broadcast/B", "kind-oplist-to-broadcast/A", "", "", {"not-declared", "new"}),
    ("kind-opunion-to-oplist/B", "kind-opunion-to-oplist/A", "register", "register", {"incompatible"}),
    ("window-reduce-to-list/B", "window-reduce-to-list/A", "register", "register", {"incompatible"}),
    ("pojo-subclass-register-add/B", "pojo-subclass-register-add/A", "", "", {"reconfigured"}),
    ("pojo-field-from-superclass/B", "pojo-field-from-superclass/A", "", "", set()),
    ("pojo-remove-kryo-field/B", "pojo-remove-kryo-field/A", "", "", {"migrated"}),
    ("pojo-to-kryo-ctor/B", "pojo-to-kryo-ctor/A", "register", "register", {"incompatible"}),
    ("pojo-add-field/A", "tuple-arity/A", "register", "register", {"incompatible"}),
    ("tuple-arity/A", "pojo-add-field/A", "register", "register", {"incompatible"}),
    ("avro-same/A", "pojo-add-field/A", "register", "register", {"incompatible"}),
    ("avro-reflect-remove-field/B", "avro-reflect-remove-field/A", "restore", "register", {"incompatible"}),
    ("enum-add-middle/B", "enum-add-middle/A", "restore", "restore", {"incompatible"}),
    ("uid-none-to-uid/B", "uid-none-to-uid/A", "graph", "graph", {"not-declared", "new"}),
    ("maxpar-down/B", "maxpar-down/A", "graph", "graph", set()),
    ("sql-groupagg-same/A", "sql-distinct/A", "register", "register", {"incompatible", "new"}),
    ("cep-pattern-changed/B", "cep-pattern-changed/B", "", "", set()),
)
PAIRS = {side.partition("/")[0] for case in CASES for side in case[:2]} | {"pojo-to-kryo-ctor"}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), PAIRS)


def savepoint(pairs: Path, side: str, flink: str, backend: str) -> Savepoint:
    pair, _, job = side.partition("/")
    return Savepoint(pairs / pair / "savepoints" / f"{job}-{flink}-{backend}-canonical")


def checked(pairs: Path, old: str, new: str, step: tuple[str, str], backend: str) -> CheckReport:
    writer, reader = step
    return doctor.check(
        savepoint(pairs, old, writer, backend),
        against=[SavepointAgainst(savepoint(pairs, new, reader, backend))],
        flink=reader,
        backend=backend,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_a_pair_in_another_direction_has_the_outcome_that_flink_gives_it(pairs, case):
    old, new, heap, rocksdb, states = case

    for step in STEPS:
        for backend, stage in zip(BACKENDS, (heap, rocksdb), strict=True):
            report = checked(pairs, old, new, step, backend)
            found = {
                str(state.outcome.value)
                for operator in report.operators
                for state in operator.states
                if state.outcome is not StateOutcome.AS_IS and not state.state_name.startswith("_timer")
            }
            assert (report.stage.value if report.stage else "") == stage, (step, backend)
            assert (report.outcome is Outcome.FAILS) == bool(stage)
            assert found == states or (step[0] != step[1] and found <= states), (step, backend)


def test_a_job_without_registrations_may_have_lost_the_classes_too(pairs):
    report = checked(
        pairs, "pojo-subclass-register-add/B", "pojo-subclass-register-add/A", STEPS[0], "hashmap"
    )

    assert report.severity is Severity.RISK
    assert {risk.rule for risk in report.all_risks()} >= {"class-needed"}


@pytest.mark.parametrize(("access", "stage"), [(PUBLIC, Stage.REGISTER), (PRIVATE, Stage.RESTORE)])
def test_a_jar_tells_whether_hashmap_can_make_objects_of_a_class_that_is_no_pojo_any_more(
    pairs, tmp_path, access, stage
):
    old = savepoint(pairs, "pojo-to-kryo-ctor/A", "1.20.3", "hashmap")
    fields = [("id", "J"), ("name", "Ljava/lang/String;")]
    changed = class_file("app.Acc", fields=fields, field_access=PRIVATE, constructor_access=access)
    jar = write_jar(tmp_path / "job.jar", {"app.Acc": changed})

    report = doctor.check(old, against=[JarAgainst(jar)], flink="1.20.3", backend="hashmap")

    assert (report.outcome, report.stage) == (Outcome.FAILS, stage)
