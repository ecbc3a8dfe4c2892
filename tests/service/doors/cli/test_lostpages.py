"""Files that become shorter while they are read: a command ends with one line, and a write leaves nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from readers import FileChangedError, SavepointLocation
from readers.metadata import FileStateHandle
from tests.support.paths import DATA, PROJECT

SOURCE = DATA / "flink/2.3.0/everything-hashmap-savepoints/native"
WORDCOUNT = DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical"
TOLD = "the file became shorter while it was read"
# Cuts each state file when its length was checked for the last time, as a copy that starts anew may.
CUT = """
import os
from readers.storage.filesystems import BufferStream

known, bytes_left = BufferStream._check_length, 4096

def checked(stream, end):
    known(stream, end)
    if stream._mapped is not None and not stream.path.endswith("_metadata") and end > bytes_left:
        os.truncate(stream.path, bytes_left)

BufferStream._check_length = checked
"""
PAGE, TAIL = 4096, 35_000


def run(program: str, folder: Path, *words: str, bytes_left: int = PAGE) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder with a copy of the savepoint, of which the state file is cut."""
    shutil.copytree(SOURCE, folder / "source")
    return subprocess.run(
        [sys.executable, "-c", CUT + program, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["query", "--savepoint", "source", "SELECT sum(value) FROM types__v_long"], 3),
        (["write", "source", "--to", "new", "UPDATE types__v_long SET value = value + 1"], 3),
        (["write", "source", "--dry-run", "UPDATE types__v_long SET value = value + 1"], 3),
        (["inspect", "source"], 3),
        (["check", "source", "--flink", "2.3"], 4),
    ],
    ids=["query", "write", "dry-run", "inspect", "check"],
)
def test_a_command_ends_with_one_line(words: list[str], code: int, tmp_path: Path) -> None:
    ended = run("from service import cli; cli.run()", tmp_path, *words)

    [line] = ended.stderr.splitlines()
    assert ended.returncode == code
    assert line.startswith(f"savepointdb: {TOLD}")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_process_that_does_not_survive_it_ends_by_a_signal(tmp_path: Path) -> None:
    """So the program above has met it, and workers of a service still do: another process tells the client."""
    ended = run(
        "import catalog; catalog.connect('source').table('types__v_long').scan(['value']).to_arrow()",
        tmp_path,
    )

    assert ended.returncode == -signal.SIGBUS


def test_zeros_in_the_rest_of_a_page_are_noticed(tmp_path: Path) -> None:
    """No page is lost: the file is cut in its last page, the rest of which reads as zeros from then on."""
    file = tmp_path / "file"
    file.write_bytes(b"x" * 50000)
    location = SavepointLocation(WORDCOUNT, roots=[tmp_path])
    with location.open_stream(FileStateHandle(file_path=str(file), state_size=50000)) as stream:
        windows = stream.windows(0, 50000)
        windows.reach(0, 50000)
        os.truncate(file, 49990)

        assert windows.data[49999] == 0
        with pytest.raises(FileChangedError, match="expected 50000 bytes"):
            windows.close(50000)


def test_a_signal_from_elsewhere_still_ends_the_process(tmp_path: Path) -> None:
    program = """
import mmap, sys
import readers
readers.survive_lost_pages()
with open("other", "w+b") as file:
    file.truncate(8192)
    mapped = mmap.mmap(file.fileno(), 0)
    file.truncate(0)
    mapped[5000]
"""
    assert run(program, tmp_path).returncode == -signal.SIGBUS


@pytest.mark.parametrize(
    ("name", "error"),
    [("CFUNCTYPE", "MemoryError"), ("CDLL", "OSError")],
    ids=["no-made-functions", "no-library"],
)
def test_a_system_that_allows_no_handler_leaves_the_command_working(
    name: str, error: str, tmp_path: Path
) -> None:
    program = f"""
import ctypes, types
import readers.storage.filesystems

def refused(*_):
    raise {error}("not allowed here")

readers.storage.filesystems.ctypes = types.SimpleNamespace(**vars(ctypes) | {{"{name}": refused}})
from service import cli
cli.run()
"""
    words = ["query", "--savepoint", str(SOURCE), "SELECT count(*) FROM types__v_long", "--format", "jsonl"]

    ended = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(json.loads(ended.stdout).values()) == [3]
