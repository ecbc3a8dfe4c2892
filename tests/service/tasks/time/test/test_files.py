"""Files of rules: what they may say, and errors that name the rule."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tasks.time.test.rules import (
    Bounds,
    InvalidRulesError,
    Rule,
    Severity,
    given_params,
    parse_rules,
    read_rules,
    standard_rules,
    with_params,
)

TOML = """
[[rule]]
name = "no negative counts"
sql = "SELECT * FROM aggregate WHERE value < $least;"
severity = "warning"
description = "Counts\\n only grow."
expect = "no rows"
params = { least = 0 }

[[rule]]
name = "few keys"
sql = "SELECT count(*) FROM {table}"
expect = { min = 1, max = 2.5 }
operator = "agg*"
state = "count"
states = "has_ttl"
job = "prod__*"
"""
SQL = """-- Rules of the team.

-- rule: no negative counts
-- severity: warning
-- description: Counts only grow.
-- params: { least = 0 }
-- A comment that says nothing to the program.
SELECT *
FROM aggregate -- rule of thumb: none
WHERE value < $least;

-- RULE: few keys
-- expect: { min = 1, max = 2.5 }
-- operator: agg*
-- state: count
-- states: has_ttl
-- job: prod__*
SELECT count(*) FROM {table}
"""
MEANT = [
    (
        "no negative counts",
        Severity.WARNING,
        "Counts only grow.",
        None,
        {"least": 0},
        *("*", "*", "TRUE", "*"),
    ),
    ("few keys", Severity.ERROR, "", Bounds(least=1, most=2.5), {}, *("agg*", "count", "has_ttl", "prod__*")),
]


def _facts(rule: Rule) -> tuple[object, ...]:
    return (
        *(rule.name, rule.severity, rule.description, rule.bounds, rule.params),
        *(rule.operator, rule.state, rule.states, rule.job),
    )


@pytest.mark.parametrize(("text", "suffix"), [(TOML, ".toml"), (SQL, ".sql")])
def test_both_languages_say_the_same(text: str, suffix: str) -> None:
    rules = parse_rules(text, suffix, "rules")

    assert [_facts(rule) for rule in rules] == MEANT
    assert rules[0].sql.endswith("WHERE value < $least")
    assert [rule.is_for_each_state for rule in rules] == [False, True]


def test_a_comment_inside_a_query_is_no_rule() -> None:
    (rule,) = parse_rules("-- rule: a\nSELECT 1 -- rule: b\n-- severity: info\nWHERE FALSE", ".sql", "rules")

    assert (rule.name, rule.severity) == ("a", Severity.ERROR)
    assert rule.sql == "SELECT 1 -- rule: b\n-- severity: info\nWHERE FALSE"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rules: expected rules, found none"),
        ("rule = 3", "expected each rule as [[rule]]"),
        ("x = 3", "expected [[rule]], found 'x'"),
        ("[[rule]", "expected TOML: "),
        ("[[rule]]\nsql = 'SELECT 1'", "rules: rule 1: expected name, found none"),
        ("[[rule]]\nname = 'a'", "rules: rule 'a': expected sql, found none"),
        ("[[rule]]\nname = 'a'\nsql = ' ; '", "rules: rule 'a': expected sql, found none"),
        ("[[rule]]\nname = 'a'\nsql = 3", "expected sql as a text, found 3"),
        ("[[rule]]\nname = 'a'\nsql = 'x'\nsevrity = 'info'", "found 'sevrity'; is it severity?"),
        (
            "[[rule]]\nname = 'a'\nsql = 'x'\nseverity = 'bad'",
            "expected a severity of error, warning, info, found 'bad'",
        ),
        (
            "[[rule]]\nname = 'a'\nsql = 'x'\nexpect = 'rows'",
            "expected 'no rows' or { min = …, max = … } behind expect",
        ),
        ("[[rule]]\nname = 'a'\nsql = 'x'\nexpect = {}", "expected 'no rows' or { min"),
        (
            "[[rule]]\nname = 'a'\nsql = 'x'\nexpect = { min = '1' }",
            "expected a number or a time as a bound, found '1'",
        ),
        (
            "[[rule]]\nname = 'a'\nsql = 'x'\nexpect = { min = nan }",
            "expected a number or a time as a bound, found nan",
        ),
        ("[[rule]]\nname = 'a'\nsql = 'x'\nexpect = { min = true }", "as a bound, found True"),
        (
            "[[rule]]\nname = 'a'\nsql = 'x'\nexpect = { min = 2, max = 1 }",
            "expected min and max in this order, found 2 to 1",
        ),
        (
            "[[rule]]\nname = 'a'\nsql = 'x'\nexpect = { min = 2, max = 2026-01-01 }",
            "expected min and max in this order",
        ),
        ("[[rule]]\nname = 'a'\nsql = 'x'\nparams = [1]", "expected params as a table, found [1]"),
        (
            "[[rule]]\nname = 'a'\nsql = 'x'\noperator = 'b'",
            "expected {table} in the query of a rule with operator",
        ),
        ("a = " + "[" * 5000, "expected TOML: "),
    ],
)
def test_a_file_that_says_something_else_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidRulesError) as raised:
        parse_rules(text, ".toml", "rules")

    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1", "rules, line 1: expected '-- rule: name' before a query"),
        ("-- nothing", "rules: expected rules, found none"),
        ("-- rule: a\n", "rules, line 1: rule 'a': expected sql, found none"),
        ("-- rule:\nSELECT 1", "expected name, found none"),
        ("-- rule: a\n-- sevrity: info\nSELECT 1", "found 'sevrity'; is it severity?"),
        (
            "-- rule: a\n-- severity: info\n-- severity: info\nSELECT 1",
            "expected severity once, found it twice",
        ),
        ("-- rule: a\n-- params: 3\nSELECT 1", "expected params as a table, found 3"),
    ],
)
def test_a_sql_file_that_says_something_else_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidRulesError) as raised:
        parse_rules(text, ".sql", "rules")

    assert message in str(raised.value)


@given(text=st.text(max_size=200), suffix=st.sampled_from([".toml", ".sql"]))
def test_any_text_is_rules_or_an_error(text: str, suffix: str) -> None:
    try:
        rules = parse_rules(text, suffix, "rules")
    except InvalidRulesError:
        return
    assert rules


def test_names_are_unique_over_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("-- rule: one\nSELECT 1")
    (tmp_path / "b.toml").write_text("[[rule]]\nname = 'one'\nsql = 'SELECT 2'")

    with pytest.raises(
        InvalidRulesError, match=r"b\.toml: expected different names of rules, found 'one' twice"
    ):
        read_rules([tmp_path / "a.sql", tmp_path / "b.toml"])


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("none.toml", None, "expected a file of rules, found No such file or directory"),
        ("a.toml", b"\xff", "expected UTF-8, found other bytes at 0"),
        ("a.sql", b"-- " + b"x" * (4 << 20), "expected at most 4194304 bytes, found more"),
        ("a.yaml", b"rules: []", "expected a file of rules, .toml or .sql, found '.yaml'"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    name: str, data: bytes | None, message: str, tmp_path: Path
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)

    with pytest.raises(InvalidRulesError) as raised:
        read_rules([tmp_path / name])

    assert message in str(raised.value)


def test_parameters_are_values_of_toml_or_texts() -> None:
    assert given_params(["a=3", "b=x y", "c='3'", "d=2026-01-01T00:00:00Z", "e=", "f=1\ng = 2"]) == {
        "a": 3,
        "b": "x y",
        "c": "3",
        "d": datetime(2026, 1, 1, tzinfo=UTC),
        "e": "",
        "f": "1\ng = 2",
    }
    with pytest.raises(InvalidRulesError, match="expected NAME=VALUE"):
        given_params(["3"])


def test_a_parameter_must_be_one_of_a_rule() -> None:
    rules = parse_rules(TOML, ".toml", "rules")

    assert [rule.params for rule in with_params(rules, {"least": -5})] == [{"least": -5}, {}]
    with pytest.raises(InvalidRulesError, match="expected a parameter of a rule, least, found 'most'"):
        with_params(rules, {"most": 1})


def test_the_standard_rules_are_rules() -> None:
    assert [rule.severity for rule in standard_rules()].count(Severity.WARNING) == 3


def test_a_name_of_a_savepoint_never_becomes_a_place_of_a_query() -> None:
    from service.tasks.time.test.rules import ChosenState

    rule = Rule(name="a", sql="SELECT {operator}, {state} FROM {table}")
    chosen = ChosenState(operator="{state}", state="' OR {table} --", table='a"b')

    assert (
        rule.query(created_at=None, chosen=chosen) == "SELECT '{state}', ''' OR {table} --' FROM \"a\"\"b\""
    )
