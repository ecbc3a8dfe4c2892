"""The table of use cases and doors says what there is."""

from __future__ import annotations

import pytest

import savepointdb
from catalog import Catalog
from service.base.settings import Settings
from service.cli import parser_of
from service.doors.app import create_app
from service.doors.mcp.tools import TOOLS
from service.tasks.registry import CLI, DOORS, HTTP, MCP, OTHERS, PYTHON, TASKS, tasks_at
from tools.reference import parsers, reference


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """Door → what it has."""
    paths = create_app(Settings(), Catalog()).openapi()["paths"]
    python = {*savepointdb.__all__, *(f"Connection.{name}" for name in dir(savepointdb.Connection))}
    return {
        CLI: {name.removeprefix("savepointdb ") for name, _ in parsers(parser_of(), "savepointdb")},
        HTTP: {f"{method.upper()} {path}" for path, calls in paths.items() for method in calls},
        MCP: {*TOOLS, *(task.tool or name for name, task in tasks_at(MCP))},
        PYTHON: python,
    }


@pytest.mark.parametrize("name", OTHERS)
def test_each_door_has_a_use_case_or_a_reason(name: str, known: dict[str, set[str]]) -> None:
    one = OTHERS[name]

    assert name not in TASKS, "a use case of TASKS needs no line in OTHERS"
    assert {*one.own, *one.lacking} == set(DOORS)
    assert {door: called in known[door] for door, called in one.own.items()} == dict.fromkeys(one.own, True)


def test_python_has_no_function_of_a_use_case_that_it_lacks() -> None:
    lacking = [name for name, task in TASKS.items() if PYTHON in task.lacking]

    assert lacking == ["savepoint"]
    with pytest.raises(AttributeError, match="savepoint"):
        savepointdb.savepoint  # type: ignore[attr-defined]  # noqa: B018


def test_each_use_case_of_the_table_is_in_the_reference(known: dict[str, set[str]]) -> None:
    text = reference().partition("## Use cases and doors")[2].partition("\n## ")[0]

    assert "| `test` | `test` | `POST /api/tests` | `test` | `test` |" in text
    assert "| `lookup` | `lookup` | `POST /api/lookup` | `lookup_key` | `lookup` |" in text
    assert {name for name in {**TASKS, **OTHERS} if f"\n| `{name}` | " not in text} == set()
    assert "| `write` | `write` | `POST /api/savepoints` | `preview_write`: " in text
    assert {f"POST /api/{task.address or name}" for name, task in tasks_at(HTTP)} <= known[HTTP]
    own = {(door, called) for task in TASKS.values() for door, called in task.own.items()}
    assert {(door, called) for door, called in own if called not in known[door]} == set()
