"""A use case that is one module and one line of the table: every door has it, with the same options, defaults and errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.tasks.registry import TASKS, RegisteredTask
from tests.conformance.conftest import NATIVE
from tests.support.doors import Door, doors_over
from tools.reference import reference


@pytest.fixture(scope="module")
def toy_doors() -> Iterator[dict[str, Door]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, "toy", RegisteredTask("tests.support.toytask", "Count the operators."))
        with doors_over(NATIVE) as opened:
            yield opened


def test_every_door_has_it(toy_doors: dict[str, Door]) -> None:
    told = {name: door.run("toy", NATIVE) for name, door in toy_doors.items()}

    assert list(told) == ["cli", "http", "mcp", "python"]
    assert [one.outcome for one in told.values()] == [{"number": 3, "word": "operators"}] * 4


def test_every_door_takes_its_options(toy_doors: dict[str, Door]) -> None:
    told = {name: door.run("toy", NATIVE, word="vertices", least=4) for name, door in toy_doors.items()}

    assert {one.outcome["word"] for one in told.values()} == {"vertices"}
    assert told["cli"].exit_code == 1


@pytest.mark.parametrize("wrong", [{"word": "nodes"}, {"least": -1}], ids=str)
def test_every_door_refuses_what_its_request_refuses(
    toy_doors: dict[str, Door], wrong: dict[str, object]
) -> None:
    told = {name: door.run("toy", NATIVE, **wrong) for name, door in toy_doors.items()}

    assert {name: one.code for name, one in told.items() if name != "cli"} == dict.fromkeys(
        ("http", "mcp", "python"), "INVALID_REQUEST"
    )
    assert told["cli"].exit_code == 2
    assert next(iter(wrong)) in told["cli"].message


def test_the_reference_has_it(toy_doors: dict[str, Door]) -> None:
    text = reference()

    assert "savepointdb toy" in text
    assert "Least number that is fine" in text
