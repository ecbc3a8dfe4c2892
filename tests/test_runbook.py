"""The runbook: short entries from a symptom to a job that runs, each restored by real Flink."""

from __future__ import annotations

import re
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.consoles import Session, consoles_of
from tests.support.paths import PROJECT
from tests.support.servedflink import served_flink

RUNBOOK = (PROJECT / "docs" / "runbook.md").read_text(encoding="utf-8")
ENTRIES = {entry.partition("\n")[0]: entry for entry in re.split(r"^## ", RUNBOOK, flags=re.MULTILINE)[1:]}
# The demo's job as it is has the operator `customers`, and an `int` where the new one has a `long`.
OTHER_JOBS = {"renamed": "accounts", "restorable": "accounts", "retyped": None}


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_is_short_and_ends_with_a_job(entry: str) -> None:
    lines = [line for line in ENTRIES[entry].splitlines() if line.strip()]
    commands = [command for console in consoles_of(ENTRIES[entry]) for command in console.commands]

    assert len(lines) <= 15
    assert commands[-1].startswith("flink run -s ")


@pytest.mark.flink
def test_each_job_of_the_runbook_starts(tmp_path: Path) -> None:
    with ExitStack() as stack:
        session = Session(tmp_path, stack)
        for console in consoles_of(RUNBOOK):
            for command in console.commands:
                session.run(command)
    assert len(session.restored) > 12

    for number, path in enumerate(session.restored):
        savepoint = tmp_path / f"restored-{number}"
        shutil.copytree(path, savepoint)
        name = Path(path).name
        if name == "retyped":
            with pytest.raises(AssertionError, match="Can not set int field"):
                _customers(savepoint)
        elif name in OTHER_JOBS:
            assert _customers(savepoint, "--allow-non-restored") == set()
        else:
            # A sample has the same keys each time.
            expected = {"without-key": 199, "forgotten": 199, "sample": 19}
            assert len(_customers(savepoint)) == expected.get(name, 200), name


def _customers(savepoint: Path, *options: str) -> set[Any]:
    """The keys of accounts that a job of Flink finds in a savepoint."""
    lines = served_flink("2.3.0").run("hashmap", "orders", "--from", str(savepoint), *options)
    return {line["key"] for line in lines if line.get("state") == "account"}
