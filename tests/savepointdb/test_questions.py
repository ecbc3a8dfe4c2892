"""`savepointdb.bisect` and `savepointdb.test`: the same question to several savepoints, in Python."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import savepointdb
from tests.support.retained import JOB, WORDCOUNT, changed, retain

NEGATIVE = "SELECT key, value FROM aggregate WHERE value < ?"
RULES = "[[rule]]\nname = 'none'\nsql = 'SELECT key, value FROM aggregate WHERE value < $least'\nparams = { least = 0 }\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six checkpoints of a job; from the fourth on a value is negative."""
    folder = tmp_path_factory.mktemp("jobs")
    bad = changed(folder / "bad", "UPDATE aggregate__count SET value = -3 WHERE key = 'key_662'")
    retain(folder / "root" / JOB, range(1, 4))
    retain(folder / "root" / JOB, range(4, 7), bad)
    return folder / "root"


def test_a_bisection_says_where_it_begins(root: Path) -> None:
    result = savepointdb.bisect(root, NEGATIVE, parameters=[0])

    assert (result.outcome, result.first, result.last) == (
        "found",
        f"root__{JOB}__chk-4",
        f"root__{JOB}__chk-3",
    )
    assert result.rows == [{"key": "key_662", "value": -3}]
    assert result.unreadable == ()
    assert len(result.questions) <= 4
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert repr(result).startswith(f"savepointdb: {len(result.questions)} questions to 6 checkpoints of ")
    assert "chk-4" in result._repr_html_()


@pytest.mark.slow
def test_a_bisection_is_kept_to_some_checkpoints(root: Path) -> None:
    assert savepointdb.bisect(root, NEGATIVE, end=3, parameters=[0]).outcome == "none"
    assert savepointdb.bisect(root, NEGATIVE, start=5, parameters=[0]).outcome == "oldest"
    assert len(savepointdb.bisect(root, NEGATIVE, check_all=True, parameters=[0]).questions) == 6
    with pytest.raises(savepointdb.InvalidRequestError, match="expected a checkpoint as its number"):
        savepointdb.bisect(root, NEGATIVE, start="soon")
    with pytest.raises(TypeError, match="expected a query as str"):
        savepointdb.bisect(root, 3)  # type: ignore[arg-type]


def test_rules_are_tested(root: Path) -> None:
    result = savepointdb.test(RULES, root)

    assert not result.passed
    assert result.exit_code == 1
    (one,) = result.violations
    assert one.rows is not None
    assert (one.rule.name, one.rows.row_count) == ("none", 1)
    assert ElementTree.fromstring(result.to_junit()).get("failures") == "1"
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert repr(result).startswith("savepointdb: 1 savepoint: 1 violation")
    assert "VIOLATED" in result._repr_html_()


@pytest.mark.slow
def test_rules_come_from_files_and_have_parameters(root: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(RULES)

    assert savepointdb.test(tmp_path / "rules.toml", root, params={"least": -10}).passed
    assert len(savepointdb.test([tmp_path / "rules.toml"], root, all_savepoints=True).savepoints) == 6
    assert savepointdb.test(None, WORDCOUNT, previous=WORDCOUNT).passed
    assert not savepointdb.test(str(tmp_path / "rules.toml"), root, standard=True).passed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "how", "message"),
    [
        ("none.toml", {}, "none.toml: expected a file of rules"),
        ("[[rule]]\n", {}, "rules: rule 1: expected name, found none"),
        (RULES, {"fail_on": "bad"}, "fail_on: expected one of error, warning, info, found 'bad'"),
        (RULES, {"params": {"most": 1}}, "expected a parameter of a rule, least, found 'most'"),
        (RULES, {"previous": WORDCOUNT}, "expected one savepoint with previous, found 6"),
    ],
)
def test_what_cannot_be_tested_is_an_error(
    rules: str, how: dict[str, object], message: str, root: Path
) -> None:
    with pytest.raises(savepointdb.InvalidRequestError) as raised:
        savepointdb.test(rules, root, **how)  # type: ignore[arg-type]

    assert message in str(raised.value)
