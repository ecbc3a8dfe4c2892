"""What `tests/support/secondchance.py` makes of tests that fail once, always, in numbers, or with their process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import PROJECT
from tests.support.secondchance import HEADING, MOST_FAILURES

pytestmark = pytest.mark.slow

_TESTS = f"""
import os, pathlib, pytest

def first_time(name):
    made = pathlib.Path(__file__).with_name(name)
    is_first = not made.exists()
    made.touch()
    return is_first

def test_passes():
    pass

def test_fails_once():
    assert not first_time("once"), "too late"

@pytest.fixture
def slow_to_start():
    assert not first_time("fixture"), "not yet there"

@pytest.mark.parametrize("sql", ["SELECT 'a::b' [1]"])
def test_fixture_fails_once(slow_to_start, sql):
    pass

def test_fails_always():
    raise AssertionError("wrong")

@pytest.mark.parametrize("number", range({MOST_FAILURES + 1}))
def test_many(number):
    assert not first_time(str(number))

def test_process_dies_once():
    if first_time("died"):
        os._exit(1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text("[tool.pytest]\naddopts = ['-ra']\n")
    (project / "test_few.py").write_text(_TESTS)
    return project


def run(folder: Path, *arguments: str) -> tuple[int, str, list[str]]:
    """Run pytest in a folder; return its exit code, what it prints, and the lines for the end of the log."""
    file = folder.parent / "passed-then.txt"
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.support.secondchance"),
            *(f"--second-chance={file}", *arguments),
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PROJECT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ran.returncode, ran.stdout, file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize("processes", [(), ("-p", "xdist", "-n", "2")])
def test_what_fails_and_then_passes_is_named_and_fails_no_run(
    folder: Path, processes: tuple[str, ...]
) -> None:
    code, printed, named = run(folder, "-k", "passes or once and not dies", *processes)

    assert code == 0
    assert "too late" in printed
    assert "not yet there" in printed
    assert named[0] == HEADING
    assert sorted(named[1:]) == [
        "  test_few.py::test_fails_once",
        "  test_few.py::test_fixture_fails_once[SELECT 'a::b' [1]]",
    ]
    assert printed.endswith("\n".join([*named, ""]))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-k", "passes"], 0),
        (["-k", "fails_once or fails_always"], 1),
        (["-k", "many"], 1),
        (["-k", "nothing_of_this_name"], 5),
        (["-k", "process_dies_once"], 1),
        (["-k", "process_dies_once", "-p", "xdist", "-n", "1"], 1),
        (["--no-such-option"], 4),
    ],
)
def test_what_no_busy_machine_explains_ends_as_without_it(
    folder: Path, arguments: list[str], expected: int
) -> None:
    code, printed, named = run(folder, *arguments)

    assert (code, named) == (expected, [])
    assert HEADING not in printed


@pytest.mark.parametrize("processes", [(), ("-p", "xdist", "-n", "1")])
def test_a_file_that_cannot_be_collected_fails_the_run(folder: Path, processes: tuple[str, ...]) -> None:
    (folder / "test_broken.py").write_text(
        "import pathlib\nmade = pathlib.Path(__file__).with_name('read')\n"
        "if not made.exists():\n    made.touch()\n    raise ImportError('first time')\n"
    )

    code, _, named = run(folder, *processes)

    assert code != 0
    assert named == []


def test_a_run_without_the_settings_of_the_project_is_refused(folder: Path) -> None:
    (folder / "pyproject.toml").unlink()

    code, printed, passed_then = run(folder, "-k", "test_passes")

    assert code == pytest.ExitCode.USAGE_ERROR
    assert passed_then == []
    assert "1 passed" not in printed
