"""Targets beside, above and inside of each other: no writer removes, blocks or gives advice against the work of another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from readers import Savepoint, SavepointLocation
from tests.support.paths import DATA, PROJECT
from writers import SavepointWriter, TargetError, TargetExistsError, remove_unfinished

SOURCE = DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical"
UNFINISHED = "_metadata.unfinished"


def write(target: Path) -> None:
    SavepointWriter(SavepointLocation(SOURCE), []).write(target)


@contextmanager
def at_work(target: Path) -> Iterator[subprocess.Popen[str]]:
    """A writer in a process of its own that has begun, and waits."""
    program = (
        "import sys; from writers.target import TargetDirectory\n"
        "with TargetDirectory(sys.argv[1]) as target, target.create('data'): print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(target)],
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_a_target_inside_another_savepoint_is_refused(tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    (tmp_path / "link").symlink_to(outer)

    def check(_: Savepoint) -> None:
        for inner in (outer / "inner", tmp_path / "link/inner"):
            with pytest.raises(
                TargetError, match=r"outside of other savepoints, found one in .*, which is being"
            ):
                write(inner)

    SavepointWriter(SavepointLocation(SOURCE), []).write(outer, check)
    for inner in (outer / "inner", tmp_path / "link/inner"):
        with pytest.raises(
            TargetError, match=r"outside of other savepoints, found one in .*, which is a savepoint"
        ):
            write(inner)

    assert [path.name for path in outer.iterdir()] == ["_metadata"]


def test_what_a_failed_writer_did_not_make_stays(tmp_path: Path) -> None:
    """A writer of an older version, or another program, may have put a savepoint there."""

    def check(_: Savepoint) -> None:
        write(tmp_path / "inner")
        (tmp_path / "inner").rename(tmp_path / "outer/inner")
        raise ValueError("stopped")

    with pytest.raises(ValueError, match="stopped"):
        SavepointWriter(SavepointLocation(SOURCE), []).write(tmp_path / "outer", check)

    assert [path.name for path in (tmp_path / "outer").iterdir()] == ["inner"]
    assert Savepoint(tmp_path / "outer/inner").operators


@pytest.mark.parametrize("name", ["_metadata", UNFINISHED])
def test_a_target_has_no_name_of_a_file_of_savepoints(name: str, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="expected another name for the new savepoint"):
        write(tmp_path / name)

    assert list(tmp_path.iterdir()) == []


def test_a_second_writer_is_not_advised_to_remove_what_the_first_one_writes(tmp_path: Path) -> None:
    with at_work(tmp_path / "new") as first:
        with pytest.raises(TargetExistsError, match="another write is at work there") as found:
            write(tmp_path / "new")
        remove_unfinished(str(tmp_path / "new"))
        assert "remove" not in str(found.value)
        assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [UNFINISHED, "data"]

        first.send_signal(signal.SIGKILL)
        first.wait()
        with pytest.raises(TargetExistsError, match="if an earlier write was killed, remove it"):
            write(tmp_path / "new")
    remove_unfinished(str(tmp_path / "new"))

    assert list(tmp_path.iterdir()) == []
