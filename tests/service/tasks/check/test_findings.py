"""Reports of a check as people and CI systems read them: the worst first, hostile names harmless."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from doctor import CheckReport, OperatorVerdict, Outcome, Risk, Severity, Stage, StateOutcome, StateVerdict
from service.tasks.check.findings import Findings, text_lines
from service.tasks.check.markup import html_page, junit_text

HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\x00"
FAILING = StateVerdict(
    state_name="totals",
    kind="VALUE",
    outcome=StateOutcome.INCOMPATIBLE,
    stage=Stage.REGISTER,
    field_path="value.total",
    message="The new state serializer must not be incompatible",
    remedy="keep the type of the field",
    evidence=("pojo-retype-int-long",),
    rule="pojo-retyped",
    severity=Severity.FAILS,
)
LOSING = StateVerdict(
    state_name="open",
    kind="LIST",
    outcome=StateOutcome.MIGRATED,
    changes_values=True,
    message="the values of field name are dropped",
    remedy="rename the field in the savepoint",
    rule="pojo-field-removed",
    severity=Severity.LOSES,
)
RISKY = StateVerdict(
    state_name="cache",
    kind="MAP",
    outcome=StateOutcome.AS_IS,
    severity=Severity.RISK,
    risks=(Risk(rule="kryo-fields", message="Kryo's snapshot has no fields", remedy="give the jar"),),
)
FINE = StateVerdict(state_name="seen", kind="VALUE", outcome=StateOutcome.AS_IS)


def report(
    *states: StateVerdict, backend: str = "hashmap", outcome: Outcome = Outcome.RESTORES
) -> CheckReport:
    stages = [state.stage for state in states if state.stage]
    loses = any(state.changes_values for state in states)
    return CheckReport(
        savepoint="/savepoints/42",
        against=("/jobs/new.jar",),
        flink="2.3.0",
        backend=backend,
        outcome=outcome,
        stage=stages[0] if stages else None,
        loses_data=loses,
        operators=(
            OperatorVerdict(
                operator_id="0" * 31 + "1",
                uid="orders",
                outcome=outcome,
                stage=stages[0] if stages else None,
                loses_data=loses,
                states=states,
            ),
            OperatorVerdict(operator_id="0" * 31 + "2", name="map", states=(FINE,)),
        ),
    )


def test_the_worst_comes_first_and_the_last_line_says_what_to_do() -> None:
    found = Findings.of([report(FINE, RISKY, LOSING, FAILING, outcome=Outcome.FAILS)])

    assert list(text_lines(found)) == [
        "savepoint  /savepoints/42",
        "against    /jobs/new.jar",
        "",
        "FAILS    Flink 2.3.0 with hashmap fails at register, when an operator declares a state",
        "",
        "FAILS    orders › totals  (incompatible, at register, value.total)",
        "         The new state serializer must not be incompatible",
        "         → keep the type of the field",
        "",
        "LOSES    orders › open  (migrated)",
        "         the values of field name are dropped",
        "         → rename the field in the savepoint",
        "",
        "RISK     orders › cache",
        "         Kryo's snapshot has no fields",
        "         → give the jar",
        "",
        "fine     1 operator, 2 states",
        "",
        "What to do: do not stop the old job for this restore yet (1 finding); first: keep the type of the field.",
    ]


def test_doubts_of_one_cause_are_one_line_with_a_count() -> None:
    doubts = [
        replace(
            FINE,
            state_name=f"state-{number}",
            severity=Severity.DOUBT,
            risks=(
                Risk(
                    rule="jar-declaration-unseen",
                    severity=Severity.DOUBT,
                    message=f"state-{number} of orders: no call of the jar declares the state",
                    remedy="compare with a savepoint",
                ),
            ),
        )
        for number in range(17)
    ]
    found = Findings.of([report(*doubts)])
    lines = list(text_lines(found))

    start = lines.index("") + 3
    assert lines[start : start + 4] == [
        "DOUBT    17 doubts: orders › state-0, orders › state-1, orders › state-2 and 14 more",
        "         no call of the jar declares the state",
        "         → compare with a savepoint",
        "",
    ]
    states = found.to_dict()["operators"][0]["states"]
    assert [state["risks"][0]["message"] for state in states] == [doubt.risks[0].message for doubt in doubts]


def test_states_with_one_verdict_are_told_together() -> None:
    states = [replace(FAILING, state_name=f"state-{number}") for number in range(25)]
    lines = list(text_lines(Findings.of([report(*states, outcome=Outcome.FAILS)])))

    assert sum(FAILING.message in line for line in lines) == 1
    assert sum(line.startswith("FAILS    orders › state-") for line in lines) == 20
    assert "         and 5 more like this" in lines


@pytest.mark.parametrize(
    ("states", "outcome", "code", "told"),
    [
        ([FINE], Outcome.RESTORES, 0, "restores it with the same values"),
        ([RISKY], Outcome.RESTORES, 0, "restores it with the same values, unless a risk comes true"),
        ([LOSING], Outcome.RESTORES, 1, "restores it, and loses, ignores or changes values"),
        ([FAILING], Outcome.FAILS, 2, "fails at register"),
        ([LOSING], Outcome.UNKNOWN, 3, "may fail: the inputs do not contain the deciding fact"),
    ],
    ids=["fine", "risk", "loses", "fails", "unknown"],
)
def test_each_outcome_has_an_exit_code(
    states: list[StateVerdict], outcome: Outcome, code: int, told: str
) -> None:
    found = Findings.of([report(*states, outcome=outcome)])

    assert found.exit_code == code
    assert told in "\n".join(text_lines(found))


def test_the_worse_backend_decides_and_equal_ones_are_told_once() -> None:
    fine, failing = report(FINE), report(FAILING, backend="rocksdb", outcome=Outcome.FAILS)

    different = Findings.of([fine, failing])
    assert different.exit_code == 2
    assert [one.backend for one in different.reports] == ["rocksdb", "hashmap"]
    lines = list(text_lines(different))
    assert sum(line.startswith(("FAILS    Flink", "fine     Flink")) for line in lines) == 2
    assert different.to_dict()["backends"]["hashmap"]["outcome"] == "restores"

    alike = list(text_lines(Findings.of([fine, report(FINE, backend="rocksdb")])))
    assert "fine     Flink 2.3.0 with hashmap restores it with the same values; rocksdb alike" in alike


def test_junit_counts_what_breaks_a_build() -> None:
    states = [FINE, RISKY, LOSING, FAILING]
    root = ElementTree.fromstring(junit_text(Findings.of([report(*states, outcome=Outcome.FAILS)])))

    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("6", "2", "0")
    failed = {
        case.get("name"): case[0].get("type")
        for case in root.iter("testcase")
        if case.find("failure") is not None
    }
    assert failed == {"orders › open": "pojo-field-removed", "orders › totals": "pojo-retyped"}
    [risk] = [case for case in root.iter("testcase") if case.get("name") == "orders › cache"]
    assert "give the jar" in (risk.findtext("system-out") or "")


def test_what_cannot_be_told_is_an_error_of_junit() -> None:
    unknown = replace(
        FAILING, stage=None, outcome=StateOutcome.UNKNOWN, severity=Severity.UNKNOWN, message="own serializer"
    )
    root = ElementTree.fromstring(junit_text(Findings.of([report(unknown, outcome=Outcome.UNKNOWN)])))

    assert (root.get("failures"), root.get("errors")) == ("0", "1")


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {tag, *(name for name, _ in attrs)}


def test_hostile_names_do_nothing() -> None:
    state = replace(FAILING, state_name=HOSTILE, message=HOSTILE, remedy=HOSTILE, evidence=(HOSTILE,))
    found = Findings.of(
        [replace(report(state, outcome=Outcome.FAILS), savepoint=HOSTILE, against=(HOSTILE,))]
    )

    page = html_page(found)
    assert Tags(page).found.isdisjoint({"img", "script", "onerror", "src", "href"})
    assert "\x1b" not in page + "".join(text_lines(found))
    ElementTree.fromstring(junit_text(found))


def test_the_page_is_one_file_that_loads_nothing() -> None:
    page = html_page(Findings.of([report(FAILING, outcome=Outcome.FAILS), report(FINE, backend="rocksdb")]))

    assert "default-src 'none'" in page
    for text in (FAILING.message, FAILING.remedy, "orders", "seen", "value.total", "pojo-retype-int-long"):
        assert text in page
