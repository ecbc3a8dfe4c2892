"""Checks that read values: on labelled upgrades from Flink 1.20.3 to 2.3.0, and on damaged values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import doctor
from doctor import CheckReport, StateVerdict, ValuesCheck
from readers import Savepoint
from service.cli import main
from tests.support.compatpairs import unpack_pairs

BACKENDS = ("hashmap", "rocksdb")
ALL = ValuesCheck(most_entries=None)
RULES = {
    "kryo-type-arraylist": "values-lost",
    "kryo-type-treemap": "values-lost",
    "kryo-type-hashmap": "values-lost",
    "kryo-type-bitset": "values-garbage",
    "kryo-type-uuid": "values-unreadable",
    "kryo-type-zoned": "values-unreadable",
    "kryo-type-optional": "values-same",
    "pojo-uuid-field": "values-unreadable",
    "pojo-instant-field": "values-unreadable",
}
MORE = (
    "kryo-type-object",
    "key-kryo-same",
    "kryo-map-key",
    "pojo-remove-kryo-field",
    "opstate-removed-kryo",
    "pojo-list-field",
)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), [*RULES, *MORE, "pojo-subclass-add-field"])


def checked(
    pairs: Path, name: str, backend: str, values: ValuesCheck | None
) -> tuple[CheckReport, dict[str, object]]:
    label = json.loads((pairs / name / f"labels/1.20.3-to-2.3.0-{backend}.json").read_text())
    against = doctor.against_of([pairs / name / label["savepoint_b"]])
    report = doctor.check(
        pairs / name / label["savepoint_a"], against=against, flink="2.3.0", backend=backend, values=values
    )
    return report, label


def state_of(report: CheckReport, name: str = "s") -> StateVerdict:
    return next(
        state for operator in report.operators for state in operator.states if state.state_name == name
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*RULES, *MORE])
def test_values_say_what_flink_did(name: str, backend: str, pairs: Path) -> None:
    report, label = checked(pairs, name, backend, ALL)

    stage = report.stage.value if report.stage is not None else None
    assert (report.outcome.value, stage) == (
        label["outcome"],
        label["stage"] if label["outcome"] == "fails" else None,
    )
    assert report.loses_data is bool(label.get("silent_change"))
    if name in RULES:
        assert state_of(report).rule == RULES[name]


def test_the_first_object_that_changes_is_shown_with_its_key(pairs: Path) -> None:
    report, _ = checked(pairs, "kryo-type-arraylist", "rocksdb", ALL)

    verdict = state_of(report)
    assert verdict.changes_values
    assert (
        "4 of 4 objects, the first at key 1: ['s1', 's2'] becomes ['s1']: elements are lost"
        in verdict.message
    )
    assert "savepointdb convert" in verdict.remedy


def test_a_field_is_named(pairs: Path) -> None:
    report, _ = checked(pairs, "pojo-uuid-field", "hashmap", ALL)

    assert state_of(report).field_path == "u"


def test_a_sample_decides_nothing_that_is_fine(pairs: Path) -> None:
    headers, _ = checked(pairs, "kryo-type-optional", "rocksdb", None)
    sample, _ = checked(pairs, "kryo-type-optional", "rocksdb", ValuesCheck(most_entries=1))

    before, after = state_of(headers), state_of(sample)
    assert after.rule == before.rule
    assert after.message.endswith(before.message)
    assert after.message.startswith("the first ")


def test_values_are_counted_while_they_are_read(pairs: Path) -> None:
    heard: list[tuple[str, int]] = []

    checked(
        pairs,
        "kryo-type-uuid",
        "rocksdb",
        ValuesCheck(progress=lambda name, entries: heard.append((name, entries))),
    )

    assert dict(heard) == {"s": 4, "ctrl": 4}


def test_a_check_of_another_backend_reads_no_value_again(pairs: Path) -> None:
    heard: list[tuple[str, int]] = []
    opened = Savepoint(pairs / "kryo-type-uuid/savepoints/A-1.20.3-hashmap-canonical")
    values = ValuesCheck(progress=lambda name, entries: heard.append((name, entries)))

    reports = [doctor.check(opened, backend=backend, values=values) for backend in BACKENDS]

    assert dict(heard) == {"s": 4, "ctrl": 4}
    assert len(set(heard)) == len(heard)
    assert [report.backend for report in reports] == list(BACKENDS)


@pytest.mark.parametrize(("backend", "stage"), [("hashmap", "restore"), ("rocksdb", "access")])
def test_a_damaged_value_fails_the_restore(backend: str, stage: str, pairs: Path, tmp_path: Path) -> None:
    source = pairs / "kryo-type-uuid/savepoints/A-1.20.3-hashmap-canonical"
    data = (source / "_metadata").read_bytes()
    # Class 82, a UUID, becomes one that is not registered.
    assert data.count(b"T\x01") >= 4
    target = tmp_path / "damaged"
    target.mkdir()
    (target / "_metadata").write_bytes(data.replace(b"T\x01", b"\x7f\x01"))

    whole = doctor.check(source, flink="1.20.3", backend=backend, values=ALL)
    headers = doctor.check(target, flink="1.20.3", backend=backend)
    report = doctor.check(target, flink="1.20.3", backend=backend, values=ALL)

    assert whole.outcome is doctor.Outcome.RESTORES
    assert headers.outcome is doctor.Outcome.RESTORES
    assert (report.outcome, report.stage) == (doctor.Outcome.FAILS, doctor.Stage(stage))
    assert "expected a registered class, found id 125" in state_of(report).message


def test_the_command_line_reads_values(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = pairs / "kryo-type-arraylist/savepoints/A-1.20.3-rocksdb-canonical"

    code = main(["check", str(source), "--values", "all", "--format", "json"])

    report = json.loads(capsys.readouterr().out)
    states = {state["state_name"]: state for operator in report["operators"] for state in operator["states"]}
    assert code == 1
    assert states["s"]["rule"] == "values-lost"


def test_subclasses_that_no_snapshot_lists_are_looked_for(pairs: Path) -> None:
    headers, _ = checked(pairs, "pojo-list-field", "hashmap", None)
    none_stored, _ = checked(pairs, "pojo-list-field", "hashmap", ALL)
    stored, _ = checked(pairs, "pojo-subclass-add-field", "hashmap", ALL)

    rules = [[risk.rule for risk in state_of(report).risks] for report in (headers, none_stored, stored)]
    assert [("pojo-subclasses-unseen" in found, "values-unread" in found) for found in rules] == [
        (True, False),
        (False, False),
        # The first values of both savepoints show already that one has changed.
        (False, True),
    ]
