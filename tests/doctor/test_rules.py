"""The tables of rules: each rule is shown by a restore in real Flink, or by a class of Flink."""

from __future__ import annotations

import re

import pytest

from doctor import RULES, Rule, Severity
from tests.support.compatpairs import pair_names

ALL = [rule for family in RULES.values() for rule in family]


def test_rules_have_names_of_their_own() -> None:
    assert len({rule.id for rule in ALL}) == len(ALL)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.id)
def test_a_rule_has_evidence(rule: Rule) -> None:
    classes = [
        name for name in rule.evidence if re.fullmatch(r"(o\.a\.f|org\.apache|com|java)\.[\w.$#]+", name)
    ]

    assert classes or pair_names().intersection(rule.evidence)
    assert all(re.fullmatch(r"[\w.$#-]+", name) for name in rule.evidence)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.id)
def test_a_rule_fails_at_a_stage_or_not_at_all(rule: Rule) -> None:
    for effect in (rule.backends.heap, rule.effect_in(heap=False)):
        assert (effect.severity is Severity.FAILS) == (effect.stage is not None)
        assert rule.remedy or effect.severity is Severity.FINE
