"""Folders for what engines spill: those of dead processes are removed, and no others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from readers.storage.temporary import TemporaryFolder, remove_left_behind
from tests.support.paths import DATA
from tests.support.waiting import wait_until
from tools.servers import served

NATIVE = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
OWNER = """
import sys
from pathlib import Path
from readers import TemporaryFolder

folder = TemporaryFolder(sys.argv[1])
Path(folder.path, "spilled").write_bytes(bytes(1000))
print(folder.path, flush=True)
sys.stdin.read()
"""


def owner_of_one(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that owns a folder, and the folder."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert owner.stdout is not None
    return owner, Path(owner.stdout.readline().strip())


def test_the_folder_of_a_killed_process_is_removed_by_the_next_one_and_that_of_a_living_one_is_not(
    tmp_path: Path,
) -> None:
    (dead, left), (living, kept) = owner_of_one(tmp_path), owner_of_one(tmp_path)
    with dead, living:
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert (left / "spilled").exists()
        with closing(TemporaryFolder(str(tmp_path))) as own:
            found = {path for path in tmp_path.iterdir() if path.is_dir()}

            assert found == {kept, Path(own.path)}
            assert (kept / "spilled").exists()
        living.kill()

    assert remove_left_behind(str(tmp_path)) == [kept]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_closed_is_gone(tmp_path: Path) -> None:
    folder = TemporaryFolder(str(tmp_path))
    Path(folder.path, "spilled").write_bytes(b"x")
    folder.close()
    folder.close()

    assert list(tmp_path.iterdir()) == []


def test_nothing_is_removed_by_way_of_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    spills = tmp_path / "spills"
    spills.mkdir()
    (spills / "savepointdb-spill-link").symlink_to(precious)
    dead = spills / "savepointdb-spill-dead"
    dead.mkdir()
    (dead / "link").symlink_to(precious)
    (dead / "other").symlink_to(precious / "file")

    assert remove_left_behind(str(spills)) == [dead]
    assert (precious / "file").read_text() == "kept"
    assert [path.name for path in spills.iterdir()] == ["savepointdb-spill-link"]


@pytest.mark.parametrize("name", ["savepointdb-new-x", "savepointdb-x", "other-savepointdb-spill-x"])
def test_folders_of_other_names_are_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()

    assert remove_left_behind(str(tmp_path)) == []
    assert (tmp_path / name).is_dir()


def test_a_file_of_such_a_name_and_a_folder_that_is_not_there_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "savepointdb-spill-file").write_text("kept")

    assert remove_left_behind(str(tmp_path)) == []
    assert remove_left_behind(str(tmp_path / "nothing")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_folders_of_other_users_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "savepointdb-spill-other"
    folder.mkdir()
    os.chown(folder, 12345, 12345)

    assert remove_left_behind(str(tmp_path)) == []
    assert folder.is_dir()


@pytest.mark.slow
def test_what_a_killed_server_left_is_removed_by_the_next_but_not_what_a_living_one_has(
    tmp_path: Path,
) -> None:
    options = ("--temp-directory", str(tmp_path))
    with served(NATIVE, *options) as (killed, _):
        left = set(tmp_path.iterdir())
        with served(NATIVE, *options):
            living = set(tmp_path.iterdir()) - left
            killed.kill()
            killed.wait()
            wait_until(lambda: all(path.exists() for path in (*left, *living)))
            with served(NATIVE, *options):
                found = set(tmp_path.iterdir())

                assert left
                assert living
                assert not left & found
                assert living <= found
