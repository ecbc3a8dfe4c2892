"""`savepointdb test`: rules over savepoints, what a person reads, what CI gets, exit codes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from service.cli import main
from tests.support.retained import JOB, WORDCOUNT, changed, retain

RULES = """
[[rule]]
name = "no negative counts"
sql = "SELECT key, value FROM aggregate WHERE value < $least ORDER BY key"
params = { least = 0 }
description = "Counts only grow."

[[rule]]
name = "counts grow"
sql = "SELECT key FROM previous.aggregate AS before JOIN aggregate AS after USING (key) WHERE after.value < before.value"
severity = "warning"

[[rule]]
name = "about a thousand keys"
sql = "SELECT count(*) FROM aggregate"
expect = { min = 1, max = 5000 }
"""
BAD = "UPDATE aggregate__count SET value = -3 WHERE key IN ('key_662', 'key_1')"


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint with negative values."""
    return changed(tmp_path_factory.mktemp("bad") / "bad", BAD)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    return path


@pytest.fixture
def root(tmp_path: Path, bad: Path) -> Path:
    """A job whose newest checkpoint has negative values."""
    retain(tmp_path / "root" / JOB, range(1, 3))
    retain(tmp_path / "root" / JOB, range(3, 4), bad)
    return tmp_path / "root"


class _Command:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object) -> tuple[int, str, str]:
        try:
            code = main(["test", *map(str, words)])
        except SystemExit as ended:
            code = int(ended.code or 0)
        output, errors = self._capsys.readouterr()
        return code, output, errors

    def json(self, *words: object) -> Any:
        code, output, errors = self(*words, "--json", "-")
        assert errors == "", errors
        report = json.loads(output)
        assert report["exit_code"] == code
        return report


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> _Command:
    return _Command(capsys)


def statuses(report: Any) -> dict[str, str]:
    """Rule → how it ended, of a report of one savepoint."""
    (savepoint,) = report["savepoints"]
    return {one["rule"]: one["status"] for one in savepoint["results"]}


@pytest.mark.slow
def test_rules_that_hold_exit_with_0(rules: Path, check: _Command) -> None:
    report = check.json(rules, WORDCOUNT)

    assert statuses(report) == {
        "no negative counts": "passed",
        "counts grow": "skipped",
        "about a thousand keys": "passed",
    }
    assert (report["exit_code"], report["counts"]["passed"]) == (0, 2)
    (skipped,) = [one for one in report["savepoints"][0]["results"] if one["status"] == "skipped"]
    assert skipped["message"] == "there is no checkpoint before canonical that can be read"


def test_a_violation_shows_its_rows_and_exits_with_1(rules: Path, root: Path, check: _Command) -> None:
    code, output, errors = check(rules, root)

    assert (code, errors) == (1, "")
    title, *lines = output.splitlines()
    assert title.startswith(f"root__{JOB}__chk-3  savepoint ")
    assert title.endswith(f"before it root__{JOB}__chk-2")
    assert lines == [
        "VIOLATED    no negative counts (error)",
        "            Counts only grow.",
        "            expected no row, found 2 rows",
        "            key      value",
        "            ───────  ─────",
        "            key_1       -3",
        "            key_662     -3",
        "warning     counts grow (warning)",
        "            expected no row, found 2 rows",
        "            key",
        "            ───────",
        *lines[11:13],
        "passed      1",
        "",
        "1 savepoint: 1 violation, 1 of less severity, 1 passed",
    ]
    assert sorted(lines[11:13]) == ["            key_1", "            key_662"]


def test_json_and_junit_say_the_same(rules: Path, root: Path, check: _Command, tmp_path: Path) -> None:
    code, _, _ = check(rules, root, "--json", tmp_path / "report.json", "--junit", tmp_path / "report.xml")

    report = json.loads((tmp_path / "report.json").read_text())
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()[0]
    assert code == report["exit_code"] == 1
    (savepoint,) = report["savepoints"]
    first = savepoint["results"][0]
    assert first["rows"]["rows"] == [["key_1", -3], ["key_662", -3]]
    assert (savepoint["previous"], savepoint["job"]) == (f"root__{JOB}__chk-2", f"root__{JOB}")
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "0",
    }
    failure, warning, passed = suite
    assert failure[0].tag == "failure"
    assert "key_662" in (failure[0].text or "")
    assert warning[0].tag == "system-out"
    assert len(passed) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "report.json",
        "report.xml",
        "root",
        "rules.toml",
    ]


@pytest.mark.slow
def test_the_severity_that_fails_is_chosen(rules: Path, root: Path, check: _Command) -> None:
    words = (rules, root, "--rule", "counts*")

    assert check(*words)[0] == 0
    assert check(*words, "--fail-on", "warning")[0] == 1


@pytest.mark.slow
def test_many_rows_are_counted_and_some_shown(check: _Command, tmp_path: Path) -> None:
    (tmp_path / "r.sql").write_text("-- rule: all\nSELECT key FROM aggregate")

    report = check.json(tmp_path / "r.sql", WORDCOUNT)
    text = check(tmp_path / "r.sql", WORDCOUNT)[1]

    (result,) = report["savepoints"][0]["results"]
    assert len(result["rows"]["rows"]) == 5
    count = result["rows"]["row_count"]
    assert f"            … and {count - 5:,} more" in text.splitlines()


def test_a_command_shows_all_rows_of_a_violation(
    check: _Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = """
[[rule]]
name = "grows"
params = { least = 0, word = "it's" }
sql = '''
SELECT key, a.value
FROM aggregate AS a JOIN previous.aggregate AS b USING (key)
WHERE a.value > $least AND key <> $word
ORDER BY key'''
"""
    (tmp_path / "r.toml").write_text(rules)
    (tmp_path / "commented.sql").write_text(
        "-- rule: commented\nSELECT key -- 'the key\nFROM current.aggregate"
    )

    words = (
        tmp_path / "r.toml",
        tmp_path / "commented.sql",
        WORDCOUNT,
        "--previous",
        WORDCOUNT.parent / "native",
    )
    report, text = check.json(*words), check(*words)[1]
    junit = tmp_path / "junit.xml"
    check(*words, "--junit", junit)

    grows, commented = report["savepoints"][0]["results"]
    assert grows["sql"].endswith("WHERE a.value >  (0)  AND key <>  ('it''s') \nORDER BY key")
    found = re.findall(r"all rows: (.*?)\n(?:VIOLATED|passed|\n)", text, re.DOTALL)
    assert [command.count("\n") for command in found] == [0, 1]
    for command, one in zip(found, (grows, commented), strict=True):
        program, *arguments = shlex.split(command)
        assert (program, main([*arguments, "--format", "csv"])) == ("savepointdb", 0)
        rows = capsys.readouterr().out.splitlines()
        assert len(rows) - 1 == one["rows"]["row_count"] == 1000
    assert "all rows: savepointdb query" in junit.read_text()


_VALUES = [
    ("SELECT 3", "{ min = 3, max = 3 }", "passed", None),
    ("SELECT 2.5::DECIMAL(5, 2)", "{ max = 2.5 }", "passed", None),
    ("SELECT 3", "{ min = 4 }", "violated", "expected at least 4, found 3"),
    ("SELECT NULL", "{ min = 4 }", "violated", "expected at least 4, found NULL"),
    ("SELECT 'nan'::DOUBLE", "{ max = 4 }", "violated", "expected at most 4, found nan"),
    ("SELECT DATE '2026-01-01'", "{ min = 2025-12-31T00:00:00Z }", "passed", None),
    (
        "SELECT TIMESTAMP '2025-01-01'",
        "{ min = 2025-12-31 }",
        "violated",
        "expected at least 2025-12-31, found 2025-01-01 00:00:00",
    ),
    (
        "SELECT 'x'",
        "{ min = 4 }",
        "error",
        "expected a value that can be compared with at least 4, found VARCHAR",
    ),
    (
        "SELECT TRUE",
        "{ min = 0 }",
        "error",
        "expected a value that can be compared with at least 0, found BOOLEAN",
    ),
    ("SELECT 1, 2", "{ min = 0 }", "error", "expected one value, found 1 row of 2 columns"),
    ("SELECT 1 WHERE FALSE", "{ min = 0 }", "error", "expected one value, found no row of 1 column"),
    ("SELECT unnest([1, 2])", "{ min = 0 }", "error", "expected one value, found 2 rows of 1 column"),
]


@pytest.mark.slow
def test_one_value_must_be_within_bounds(check: _Command, tmp_path: Path) -> None:
    texts = (
        f"-- rule: {number}\n-- expect: {expected}\n{sql}"
        for number, (sql, expected, *_) in enumerate(_VALUES)
    )
    (tmp_path / "r.sql").write_text("\n".join(texts))

    report = check.json(tmp_path / "r.sql", WORDCOUNT)

    (savepoint,) = report["savepoints"]
    assert [(one["status"], one["message"]) for one in savepoint["results"]] == [
        (status, message) for _, _, status, message in _VALUES
    ]
    assert report["exit_code"] == 2


_WRONG = [
    "SELECT * FROM nothing",
    "SELECT nothing FROM aggregate",
    "SELECT * FROM previous.nothing",
    "SELEC",
    "DELETE FROM aggregate",
    "SELECT $x",
    "SELECT CAST('x' AS INTEGER)",
    'SELECT * FROM "chk-2".aggregate',
    "SELECT * FROM 'file.parquet'",
]


@pytest.mark.slow
def test_a_rule_with_an_error_is_no_violation(root: Path, check: _Command, tmp_path: Path) -> None:
    texts = [f"-- rule: {number}\n{sql}" for number, sql in enumerate(_WRONG)]
    bad = "-- rule: bad\nSELECT key FROM aggregate WHERE value < 0"
    (tmp_path / "r.sql").write_text("\n".join([*texts, bad]))

    report = check.json(tmp_path / "r.sql", root)
    output = check(tmp_path / "r.sql", root)[1]

    assert statuses(report) == {**{str(number): "error" for number in range(len(_WRONG))}, "bad": "violated"}
    assert report["exit_code"] == 2
    assert "ERROR       0: the rule itself fails" in output.splitlines()


@pytest.mark.slow
def test_a_rule_compares_two_checkpoints_by_diff(root: Path, check: _Command, tmp_path: Path) -> None:
    sql = "SELECT change, count(*) FROM diff('previous', 'current', {table_name}) GROUP BY change"
    (tmp_path / "r.sql").write_text(f"-- rule: changes\n-- state: [cs]*\n{sql}")

    (savepoint,) = check.json(tmp_path / "r.sql", root)["savepoints"]
    (alone,) = check.json(tmp_path / "r.sql", WORDCOUNT)["savepoints"]

    assert [(one["table"], one["rows"] and one["rows"]["rows"]) for one in savepoint["results"]] == [
        ("aggregate__count", [["changed", 2]]),
        ("mod7-no-uid__seen", None),
    ]
    assert {one["status"] for one in alone["results"]} == {"skipped"}


@pytest.mark.slow
def test_a_rule_for_each_state_says_which_one(check: _Command, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text(
        """
[[rule]]
name = "few"
sql = "SELECT {operator} AS operator, {state} AS state, {table_name} AS name, count(*) FROM {table} HAVING count(*) > 0"
states = "state_name NOT LIKE '%timer%'"
operator = "agg*"

[[rule]]
name = "none"
sql = "SELECT 1 FROM {table}"
state = "no such state"

[[rule]]
name = "wrong"
sql = "SELECT 1 FROM {table}"
states = "no such column"
"""
    )

    report = check.json(tmp_path / "r.toml", WORDCOUNT)

    (savepoint,) = report["savepoints"]
    assert [(one["rule"], one["table"], one["status"]) for one in savepoint["results"]] == [
        ("few", "aggregate__count", "violated"),
        ("none", None, "skipped"),
        ("wrong", None, "error"),
    ]
    assert savepoint["results"][0]["rows"]["rows"][0][:3] == ["aggregate", "count", "aggregate__count"]


@pytest.mark.slow
def test_a_savepoint_that_cannot_be_read_exits_with_3(
    rules: Path, root: Path, check: _Command, tmp_path: Path
) -> None:
    (root / JOB / "chk-3" / "_metadata").write_bytes(b"none")

    code, output, _ = check(rules, root)
    report = check.json(rules, root)
    junit = tmp_path / "report.xml"
    check(rules, root, "--junit", junit)

    assert code == 3
    assert any(line.startswith("UNREADABLE  ") for line in output.splitlines())
    assert report["unreadable_savepoints"] == [f"root__{JOB}__chk-3"]
    assert ElementTree.parse(junit).getroot().get("errors") == "1"


@pytest.mark.slow
def test_a_broken_checkpoint_before_it_is_left_out_and_named(
    rules: Path, root: Path, check: _Command
) -> None:
    (root / JOB / "chk-2" / "_metadata").write_bytes(b"none")

    (savepoint,) = check.json(rules, root)["savepoints"]

    assert savepoint["previous"] == f"root__{JOB}__chk-1"
    assert savepoint["notes"][0].startswith(f"root__{JOB}__chk-2 is left out: ")
    assert savepoint["results"][1]["status"] == "violated"


@pytest.mark.slow
def test_a_rule_is_tested_for_the_jobs_that_it_names(check: _Command, tmp_path: Path) -> None:
    rules = [f"-- rule: {name}\n-- job: {name}\nSELECT 1 WHERE FALSE\n" for name in ("can*", "prod__*")]
    (tmp_path / "r.sql").write_text("".join(rules))

    assert statuses(check.json(tmp_path / "r.sql", WORDCOUNT)) == {"can*": "passed", "prod__*": "skipped"}


@pytest.mark.slow
def test_previous_is_never_the_savepoint_itself(rules: Path, check: _Command, tmp_path: Path) -> None:
    shutil.copytree(WORDCOUNT, tmp_path / "previous")

    assert statuses(check.json(rules, tmp_path / "previous"))["counts grow"] == "skipped"
    assert statuses(check.json(rules, f"previous={WORDCOUNT}"))["counts grow"] == "skipped"


@pytest.mark.slow
def test_the_one_before_may_be_named(rules: Path, bad: Path, root: Path, check: _Command) -> None:
    report = check.json(rules, bad, "--previous", WORDCOUNT)

    assert statuses(report)["counts grow"] == "violated"
    assert report["savepoints"][0]["previous"] == "canonical"
    assert check(rules, root, "--previous", WORDCOUNT)[0] == 2
    assert check(rules, bad, "--previous", root)[0] == 2


@pytest.mark.slow
def test_all_savepoints_of_a_folder(rules: Path, root: Path, check: _Command) -> None:
    report = check.json(rules, root, "--all")

    assert [one["name"].rpartition("__")[2] for one in report["savepoints"]] == ["chk-1", "chk-2", "chk-3"]
    assert [one["results"][1]["status"] for one in report["savepoints"]] == ["skipped", "passed", "violated"]


@pytest.mark.slow
def test_parameters_come_from_the_command_line(rules: Path, root: Path, check: _Command) -> None:
    report = check.json(rules, root, "--param", "least=-10")

    assert statuses(report)["no negative counts"] == "passed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ROOT"], "expected a file of rules, .toml or .sql, or --standard"),
        (["RULES"], "expected a savepoint, or a folder with some, behind the rules"),
        (["RULES", "ROOT", "--rule", "x"], "--rule: expected a name of no negative counts, counts grow"),
        (["RULES", "ROOT", "--param", "x=1"], "expected a parameter of a rule, least, found 'x'"),
        (["RULES", "ROOT", "--webhook", "ftp://x"], "--webhook: expected https://HOST/PATH"),
        (["RULES", "ROOT", "--webhook-header", "x"], "--webhook-header: expected --webhook, too"),
        (["RULES", "ROOT", "--interval", "0"], "--interval: expected seconds above 0, found 0.0"),
        (["RULES", "ROOT", "--interval", "nan"], "--interval: expected seconds above 0, found nan"),
        (
            ["RULES", "ROOT", "--junit", "/nowhere/x"],
            "--junit: cannot write /nowhere/x: No such file or directory",
        ),
        (["RULES", "ROOT", "--engine", "none"], "invalid choice"),
        (["none.toml", "ROOT"], "none.toml: expected a file of rules, found No such file or directory"),
    ],
)
def test_wrong_usage_exits_with_2(
    words: list[str], message: str, rules: Path, root: Path, check: _Command
) -> None:
    named = {"RULES": rules, "ROOT": root}

    code, _, errors = check(*(named.get(word, word) for word in words))

    assert code == 2
    assert message in errors


@pytest.mark.slow
def test_a_path_without_a_savepoint_exits_with_3(rules: Path, check: _Command, tmp_path: Path) -> None:
    assert check(rules, tmp_path / "none")[0] == 3


@pytest.mark.slow
def test_a_device_is_written_and_not_replaced(rules: Path, check: _Command) -> None:
    assert check(rules, WORDCOUNT, "--junit", "/dev/null", "--json", "/dev/null")[0] == 0
    assert not Path("/dev/null").is_file()


@pytest.mark.slow
def test_the_standard_rules_can_be_read_and_changed(check: _Command, tmp_path: Path) -> None:
    code, output, _ = check("--print-standard")
    (tmp_path / "own.toml").write_text(output)

    assert code == 0
    assert check(tmp_path / "own.toml", WORDCOUNT)[0] == 0
