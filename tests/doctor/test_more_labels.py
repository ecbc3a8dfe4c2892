"""Labelled restores in real Flink of kinds about which a rule was wrong: savepoint, jar, and both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.compatpairs import MORE, unpack_pairs
from tools.compat import Result, results

# Two savepoints do not tell these: what a jar still has, whether a class is a record, and how a field is declared.
ONLY_JARS = {
    "kryo-implementation-gone",
    "pojo-field-to-interface",
    "pojo-generic-superclass",
    "pojo-nested-class-renamed-kept",
    "pojo-remove-nested-class-gone",
    "pojo-retype-int-boxed-long",
    "pojo-superclass-renamed-kept",
    "record-remove-component",
}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), path=MORE)


def wrong(found: list[Result]) -> set[str]:
    return {result.pair for result in found if not result.is_right}


def called_fine(found: list[Result]) -> list[str]:
    return [str(result) for result in found if result.is_bad and result.is_called_fine]


@pytest.mark.parametrize("mode", ["jar", "both"])
def test_the_outcomes_are_those_of_flink_where_a_jar_is_given(pairs: Path, mode: str) -> None:
    found = list(results(pairs, mode))

    assert found
    assert wrong(found) == set()
    assert called_fine(found) == []


def test_two_savepoints_tell_the_outcome_but_for_what_is_in_none(pairs: Path) -> None:
    found = list(results(pairs, "savepoint"))

    assert wrong(found) == ONLY_JARS
    assert called_fine(found) == []


@pytest.mark.parametrize("mode", ["savepoint", "jar", "both"])
def test_what_is_lost_is_said(pairs: Path, mode: str) -> None:
    found = [result for result in results(pairs, mode) if result.loses]
    rules = {result.pair: result.rules for result in found}

    assert rules.keys() == {
        "avro-generic-swap",
        "kryo-remove-last-field",
        "kryo-type-month-day",
        "kryo-type-offset-time",
        "kryo-type-period",
        "kryo-type-year",
        "pojo-field-to-lower-superclass",
        "pojo-remove-nested-class-kept",
        "pojo-superclass-renamed",
    }
    assert "pojo-superclass-renamed" in rules["pojo-superclass-renamed"]
    assert "pojo-field-removed" in rules["pojo-remove-nested-class-kept"]
    assert "avro-generic-field-shifted" in rules["avro-generic-swap"]
    if mode != "savepoint":
        assert "jar-values-left-over" in rules["kryo-remove-last-field"]
        assert "pojo-superclass-renamed" in rules["pojo-field-to-lower-superclass"]
