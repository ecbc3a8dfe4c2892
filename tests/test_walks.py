"""How many files of the product a command walks through: what somebody opens who follows it with a debugger."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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


def walked(*arguments: str) -> list[str]:
    """Run a command; return the files whose functions it entered."""
    command = [sys.executable, "-c", SCRIPT, *arguments]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    code, files = json.loads(process.stdout.splitlines()[-1])
    assert code == 0
    return [str(name) for name in files]
