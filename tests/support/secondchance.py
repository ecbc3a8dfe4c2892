"""A second chance for the few tests that fail in CI: once more, alone. `pytest -p tests.support.secondchance --second-chance=FILE`.

A test that waits for processes on a busy machine may fail for no fault of what it tests, and would cost the whole run. So where no
more than `MOST_FAILURES` tests have failed, these run once more at the end, in one process of their own, one after the other. If all
pass then, so does the run; it names them at its end and in FILE, for each is a defect to mend. What no busy machine explains gets no
second chance: many failures, a file that cannot be collected, a process that dies, and every other end of pytest.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

MOST_FAILURES = 5
HEADING = "FAILED AND THEN PASSED, which is a defect to mend:"

# When a process of pytest-xdist dies, its test has a report of no phase.
_PHASES = ("setup", "call", "teardown")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--second-chance", metavar="FILE", help="run failed tests once more, and append to FILE")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--second-chance")
    if file is not None and config.inipath is None:
        raise pytest.UsageError(
            "expected the settings of a project, found none: write --second-chance=FILE, "
            "for a file that stands alone is taken for a place of tests"
        )
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondChance(Path(file).absolute()))


class SecondChance:
    """What one run needs to know about its failures.

    Args:
        file: gets the names of the tests that failed and then passed.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._failed: dict[str, None] = {}
        self._is_broken = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._is_broken |= report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = None
            self._is_broken |= report.when not in _PHASES

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Run the failed tests again once all of the session is over: its report is written, its processes are gone."""
        result = yield
        is_eligible = session.exitstatus == pytest.ExitCode.TESTS_FAILED and not self._is_broken
        if is_eligible and 0 < len(self._failed) <= MOST_FAILURES and self._pass_alone(session.config):
            block = "\n".join([HEADING, *(f"  {test}" for test in self._failed), ""])
            print(f"\n{block}", end="", flush=True)
            with self._file.open("a") as file:
                file.write(block)
            session.exitstatus = pytest.ExitCode.OK
        return result

    def _pass_alone(self, config: pytest.Config) -> bool:
        print(f"\nOnce more, alone: {len(self._failed)} failed", flush=True)
        command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-m", "", *self._failed]
        return subprocess.run(command, cwd=config.rootpath, check=False).returncode == pytest.ExitCode.OK
