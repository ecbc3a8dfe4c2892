"""Savepoints that are deleted while they are tested: named, and never a violation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import savepointdb
from service.tasks.time.test.rules import Rule, Severity, parse_rules
from service.tasks.time.test.running import Runner, SavepointResult, Status, newest_ones
from tests.support.paths import DATA
from tests.support.retained import JOB, retain

pytestmark = pytest.mark.slow

NATIVE = DATA / "flink/2.3.0/everything-rocksdb-savepoints/native"
RULES = parse_rules(
    '-- rule: keys\n-- expect: { min = 1 }\nSELECT count(*) FROM "kinds__value"\n'
    '-- rule: keys stay\nSELECT b.key FROM previous."kinds__value" b ANTI JOIN "kinds__value" USING (key)',
    ".sql",
    "rules",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    retain(tmp_path / JOB, range(1, 3), NATIVE)
    return tmp_path


def _ended(root: Path, rules: list[Rule], deleted: str) -> SavepointResult:
    """The result of the newest checkpoint, after one of the two was deleted."""
    with savepointdb.connect(root) as connection:
        (subject,) = newest_ones(connection.opened.catalog)
        shutil.rmtree(root / JOB / deleted)
        return Runner(start=connection.opened.queries.start, rules=rules).run(subject)


def test_nothing_is_deleted(root: Path) -> None:
    (root / "none").mkdir()

    result = _ended(root, RULES, "../none")

    assert [one.status for one in result.results] == [Status.PASSED, Status.PASSED]


def test_a_savepoint_that_is_deleted_cannot_be_read(root: Path) -> None:
    result = _ended(root, RULES, "chk-2")

    assert result.is_gone
    assert result.error
    assert result.results == ()
    assert result.exit_code(Severity.ERROR) == 3


def test_rules_about_one_before_that_is_deleted_are_skipped(root: Path) -> None:
    result = _ended(root, RULES, "chk-1")

    assert [(one.status, one.message) for one in result.results] == [
        (Status.PASSED, ""),
        (Status.SKIPPED, f"the checkpoint before it, {result.previous}, was deleted meanwhile"),
    ]
    assert result.exit_code(Severity.ERROR) == 0
