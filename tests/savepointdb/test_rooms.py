"""Another package with the name of one of ours: one line says which hides which."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from savepointdb import rooms
from tests.support.paths import DATA, PROJECT

NATIVE = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
# What an installation writes for the console script: Python puts the folder of the script on its path, not that of the caller.
SCRIPT = "import sys; from savepointdb.__main__ import run; sys.argv[1:] = {arguments!r}; run()"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of its own, with a package `service`, a module `catalog`, and a folder `readers` without code."""
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "__init__.py").write_text("raise RuntimeError('this must not run')")
    (tmp_path / "catalog.py").write_text("")
    (tmp_path / "readers").mkdir()
    return tmp_path


def run(*command: str, cwd: Path, path: str) -> tuple[int, str, str]:
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


def hides(hidden: Path, room: str) -> str:
    return (
        f"{hidden} hides the package {room!r} of savepointdb, which is in {PROJECT / room}: run it from another folder "
        "and without PYTHONPATH, or install savepointdb in an environment of its own (pipx install savepointdb, or "
        "uv tool install savepointdb)"
    )


def test_the_program_names_the_folder_that_hides_a_package_of_its_own(project: Path) -> None:
    script = ("-c", SCRIPT.format(arguments=["--version"]))
    before = run(*script, cwd=project, path=f"{project}{os.pathsep}{PROJECT}")
    from_here = run("-m", "savepointdb", "--version", cwd=project, path=str(PROJECT))
    (project / "service" / "__init__.py").unlink()
    module = run(*script, cwd=project, path=f"{project}{os.pathsep}{PROJECT}")

    assert before == from_here == (2, "", f"savepointdb: {hides(project / 'service', 'service')}\n")
    assert module == (2, "", f"savepointdb: {hides(project / 'catalog.py', 'catalog')}\n")


@pytest.mark.slow
def test_folders_behind_ours_and_folders_without_code_hide_nothing(project: Path) -> None:
    sql = ["query", "SELECT count(*) AS n FROM aggregate", "--savepoint", str(NATIVE), "--format", "csv"]
    (project / "service" / "__init__.py").unlink()
    (project / "catalog.py").unlink()
    behind = run("-P", "-m", "savepointdb", *sql, cwd=project, path=f"{PROJECT}{os.pathsep}{project}")
    without_code = run("-m", "savepointdb", *sql, cwd=project, path=str(PROJECT))

    assert behind == without_code == (0, '"n"\n1000\n', "")


def test_every_package_of_the_wheel_is_looked_for() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    packages = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])

    assert packages == {"savepointdb", *rooms._ROOMS}


def test_python_says_the_same(project: Path) -> None:
    program = "import savepointdb\ntry: savepointdb.connect\nexcept ImportError as error: print(error)"

    assert run("-c", program, cwd=project, path=f"{project}{os.pathsep}{PROJECT}") == (
        0,
        hides(project / "service", "service") + "\n",
        "",
    )
