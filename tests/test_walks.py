"""How many files of the product a command walks through: what somebody opens who follows it with a debugger."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import DATA

SAVEPOINT = DATA / "flink/1.20.3/wordcount-hashmap-savepoints/canonical"
SCRIPT = """
import inspect, json, sys, threading
from pathlib import Path
from service import cli

top = str(Path(cli.__file__).parents[1]) + "/"
rooms = tuple(top + room + "/" for room in ("readers", "writers", "doctor", "catalog", "service", "savepointdb"))
entered = set()

def note(frame, event, _):
    code = frame.f_code
    # The body of a class or a module is no function, and what an import calls is no step of the walk.
    if event != "call" or not code.co_filename.startswith(rooms) or not code.co_flags & inspect.CO_NEWLOCALS:
        return
    if not code.co_flags & inspect.CO_OPTIMIZED or code.co_filename in entered:
        return
    above = frame.f_back
    while above is not None and above.f_code.co_name != "<module>":
        above = above.f_back
    if above is None or above.f_code.co_filename == "<string>":
        entered.add(code.co_filename)

threading.setprofile(note)
sys.setprofile(note)
code = cli.main(sys.argv[1:])
sys.setprofile(None)
print(json.dumps([code, sorted(name.removeprefix(top) for name in entered)]))
"""

PASSES = """
import json, sys, threading
from service import cli

passes, opened = {}, []

def note(frame, event, _):
    if event != "call" or frame in passes:
        return
    name, known = frame.f_code.co_qualname, frame.f_locals
    if name in ("FullSource.pages", "HeapSource.pages"):
        groups = known["selection"].key_groups
        passes[frame] = [known["self"].path, known["state"].name, sorted(groups) if groups is not None else None]
    elif name == "Savepoint.__init__":
        passes[frame] = None
        opened.append(known["path"])

threading.setprofile(note)
sys.setprofile(note)
code = cli.main(sys.argv[1:])
sys.setprofile(None)
print(json.dumps([code, opened, [one for one in passes.values() if one]]))
"""


@pytest.mark.slow
def test_a_lookup_walks_through_few_files() -> None:
    files = walked("lookup", str(SAVEPOINT), "key_202")

    assert len(files) <= 60
    assert [
        name for name in files if name.startswith(("service/query/running", "service/query/serving"))
    ] == []


@pytest.mark.slow
def test_an_update_walks_through_no_service(tmp_path: Path) -> None:
    script = "UPDATE f7c20420360e0172e54933e6abdd481a__count SET value = value + 1"
    files = walked("write", str(SAVEPOINT), script, "--to", str(tmp_path / "new"))

    assert len(files) <= 110
    assert [name for name in files if name.startswith("service/query/serving")] == []


@pytest.mark.slow
def test_a_diff_walks_each_savepoint_once() -> None:
    other = SAVEPOINT.with_name("native")
    code, opened, passes = said_by(PASSES, "diff", str(SAVEPOINT), str(other))

    assert code == 0
    assert opened == [str(SAVEPOINT), str(other)]
    # The two keyed states in the files of two subtasks of each savepoint, all of their key groups in one pass.
    assert sorted(state for _, state, _ in passes) == ["count"] * 4 + ["seen"] * 4
    assert len({(path, state) for path, state, _ in passes}) == 8


def walked(*arguments: str) -> list[str]:
    """Run a command; return the files whose functions it entered."""
    code, files = said_by(SCRIPT, *arguments)
    assert code == 0
    return [str(name) for name in files]


def said_by(script: str, *arguments: str) -> Any:
    """Run a script with the arguments of a command; return the JSON of its last line."""
    command = [sys.executable, "-c", script, *arguments]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(process.stdout.splitlines()[-1])
