"""The temporary files of a write: they are counted, what a killed writer left goes, and a full disk is one clear error."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import savepointdb
from service.base.errors import LimitExceededError
from service.cli import main
from service.tasks.write.serving.process import temporary_bytes
from tests.support.paths import DATA, PROJECT
from tests.support.waiting import wait_until

WORDCOUNT = DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical"
# More than memory keeps.
CREATION = "CREATE TABLE a__b WITH (kind = 'value') AS SELECT range AS key, repeat('x', 20000) AS value FROM range(2000)"
INSERTION = "INSERT INTO aggregate__count SELECT 'k' || range || repeat('x', 20000), 1 FROM range(500)"


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file grows beyond 100 kB, as on a full disk; what is compiled already is read alone."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize(
    "command",
    [["create", "{new}", CREATION], ["write", str(WORDCOUNT), "--to", "{new}", INSERTION]],
    ids=["entries", "layers"],
)
def test_a_full_disk_is_one_line_and_nothing_is_left(
    command: list[str],
    tmp_path: Path,
    temporary: Path,
    small_files: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main([word.format(new=tmp_path / "new") if "{new}" in word else word for word in command])

    [line] = capsys.readouterr().err.splitlines()
    assert code == 1
    assert line.startswith("savepointdb: expected free disk for temporary files, found none: ")
    assert "TMPDIR" in line
    assert list(tmp_path.rglob("*")) == [temporary]


def test_a_full_disk_is_a_typed_error_in_python(tmp_path: Path, temporary: Path, small_files: None) -> None:
    with pytest.raises(LimitExceededError, match="expected free disk for temporary files"):
        savepointdb.create(tmp_path / "new", CREATION)

    assert list(tmp_path.rglob("*")) == [temporary]


def test_an_error_that_no_command_expects_is_one_line(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", UNEXPECTED, "inspect", str(WORDCOUNT)],
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 1
    assert ended.stderr == (
        "savepointdb: unexpected ZeroDivisionError: of a library (--verbose shows where; please report it)\n"
    )


UNEXPECTED = """
from service import cli
from service.doors.cli import task

def fails(options):
    raise ZeroDivisionError("of a library")

task.main = fails
cli.run()
"""


def test_the_folder_of_a_killed_writer_goes_with_the_next_write(tmp_path: Path, temporary: Path) -> None:
    endless = "UPDATE source_offsets SET starting_offset = (SELECT count(*) FROM range(1000000000000) t(a) WHERE a % 7 = 9)"
    with subprocess.Popen(
        [sys.executable, "-m", "savepointdb", "write", str(WORDCOUNT), "--dry-run", endless],
        env=os.environ | {"PYTHONPATH": str(PROJECT), "TMPDIR": str(temporary)},
    ) as process:
        wait_until(lambda: len(list(temporary.iterdir())) > 1)  # DuckDB's, and that of the script
        process.send_signal(signal.SIGKILL)
    assert list(temporary.iterdir())

    code = main(["write", str(WORDCOUNT), "--dry-run", "DROP TABLE aggregate"])

    assert code == 0
    assert list(temporary.iterdir()) == []


def test_files_with_and_without_a_name_are_counted(tmp_path: Path) -> None:
    before = temporary_bytes(str(tmp_path))
    (tmp_path / "removed").write_bytes(bytes(1 << 20))
    with tempfile.TemporaryFile(dir=tmp_path) as unnamed, (tmp_path / "removed").open("rb"):
        (tmp_path / "removed").unlink()
        (tmp_path / "named").write_bytes(bytes(1000))
        unnamed.write(bytes(10_000))
        unnamed.flush()

        assert temporary_bytes(str(tmp_path)) - before == 11_000
    assert temporary_bytes(str(tmp_path)) - before == 1000
