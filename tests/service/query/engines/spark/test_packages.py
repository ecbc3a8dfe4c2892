"""The zip for executors, in a process without our packages; no Spark is started."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from pathlib import Path

import pytest

from service.query.engines.spark.packages import package_folders, write_packages
from service.query.engines.spark.unpack import unpacked
from tests.support.paths import DATA, PROJECT
from tests.support.thorough import thorough

SAVEPOINT = DATA / "corpus" / "1.20.3" / "alltypes-hashmap" / "native"
OURS = {"service", "doctor", "catalog", "writers", "readers"}

_SCRIPT = """
import sys
sys.path.insert(1, sys.argv[1])
import {first}
import service.spark.source, catalog, readers.savepoint
{then}
print(catalog.__file__, service.__file__, readers.savepoint.__file__, sep="\\n")
"""
_FACTS = f"""
database = catalog.connect({str(SAVEPOINT)!r}).default
for name in ("restore_check", "required_classes", "StateMeta"):
    [split] = database.table(name).scan().splits
    assert split.batch.num_rows, name
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_packages(tmp_path / "packages.zip")


def imported(archive: Path, cache: Path, first: str = "service", then: str = "") -> list[Path]:
    """The paths at which a process without our packages finds our modules."""
    ran = subprocess.run(
        [sys.executable, "-S", "-c", _SCRIPT.format(first=first, then=then), str(archive)],
        cwd=cache.parent,
        env={
            "PYTHONPATH": sysconfig.get_path("purelib"),
            "SAVEPOINTDB_CACHE_DIR": str(cache),
            "TMPDIR": str(cache),
            "PATH": os.environ["PATH"],
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [Path(line) for line in ran.stdout.splitlines()]


def test_the_zip_has_what_executors_need_and_nothing_else(archive: Path) -> None:
    names = set(zipfile.ZipFile(archive).namelist())

    assert {
        "service/__init__.py",
        "catalog/__init__.py",
        "readers/__init__.py",
        "packages/service/spark/source.py",
        "packages/catalog/scan.py",
        "packages/doctor/check.py",
        "packages/readers/savepoint.py",
    } <= names
    others = [
        name for name in names if name.startswith("packages/service/") and not name.endswith("/__init__.py")
    ]
    assert {name.split("/")[2:-1][0] for name in others} == {"base", "spark", "tasks"}


def test_what_our_modules_in_the_zip_import_of_ours_is_in_it(archive: Path) -> None:
    packed = zipfile.ZipFile(archive)
    modules = {
        name.removeprefix("packages/").removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
        for name in packed.namelist()
        if name.startswith("packages/")
    }
    imported = {
        node.module
        for name in modules.values()
        for node in ast.parse(packed.read(name)).body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in OURS
    }

    assert "service.base.catalogtables" in imported
    assert imported <= set(modules)


@pytest.mark.slow
def test_a_process_with_the_zip_alone_makes_the_tables_of_facts(archive: Path, tmp_path: Path) -> None:
    [folder] = {path.parents[1] for path in imported(archive, tmp_path / "cache", then=_FACTS)}

    assert folder.parent == tmp_path / "cache" / "packages"


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", thorough(["service", "catalog", "readers.savepoint", "service.spark"], ["catalog"])
)
def test_whatever_is_imported_first_unpacks_the_packages(archive: Path, tmp_path: Path, first: str) -> None:
    found = imported(archive, tmp_path / "cache", first)

    [folder] = (tmp_path / "cache" / "packages").iterdir()
    assert found == [
        folder / "catalog/__init__.py",
        folder / "service/__init__.py",
        folder / "readers/savepoint.py",
    ]


@pytest.mark.slow
def test_the_same_code_has_the_same_place(archive: Path, tmp_path: Path) -> None:
    first = imported(archive, tmp_path / "cache")
    (tmp_path / "elsewhere").mkdir()
    again = write_packages(tmp_path / "elsewhere" / "again.zip")

    assert imported(again, tmp_path / "cache") == first


@pytest.mark.slow
def test_other_code_has_another_place(archive: Path, tmp_path: Path) -> None:
    imported(archive, tmp_path / "cache")
    with zipfile.ZipFile(archive, "a") as changed:
        changed.comment = b"another"

    imported(archive, tmp_path / "cache")

    assert len(list((tmp_path / "cache" / "packages").iterdir())) == 2


@pytest.mark.slow
def test_workers_that_start_together_share_one_folder(archive: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", _SCRIPT.format(first="service", then=""), str(archive)]
    environment = {
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "SAVEPOINTDB_CACHE_DIR": str(tmp_path / "cache"),
    }
    running = [
        subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE) for _ in range(4)
    ]

    answers = {process.communicate()[0] for process in running}

    assert len(answers) == 1
    assert [process.returncode for process in running] == [0] * 4
    assert len(list((tmp_path / "cache" / "packages").iterdir())) == 1


@pytest.mark.slow
def test_without_a_place_to_write_it_is_imported_from_the_zip(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_folder = tmp_path / "file"
    no_folder.touch()
    monkeypatch.setenv("SAVEPOINTDB_CACHE_DIR", str(no_folder))
    monkeypatch.setattr(tempfile, "tempdir", str(no_folder))

    folder = Path(unpacked(str(archive)))

    assert folder == archive / "packages"
    assert imported(folder, tmp_path / "cache")[0] == folder / "catalog/__init__.py"


@pytest.mark.parametrize("what", ["a folder of a group", "a link"])
def test_code_is_not_imported_from_where_others_can_have_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("packages/service/__init__.py", "")
        packed.comment = b"digest"
    shared = tmp_path / "cache" / "packages"
    shared.parent.mkdir()
    if what == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        shared.symlink_to(tmp_path / "elsewhere")
    else:
        shared.mkdir()
        shared.chmod(0o770)
    (shared / "digest").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("SAVEPOINTDB_CACHE_DIR", str(shared.parent))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))

    folder = Path(unpacked(str(archive)))

    assert folder == tmp_path / "tmp" / f"savepointdb-packages-{os.getuid()}" / "digest"
    assert (folder / "service" / "__init__.py").exists()


@pytest.mark.slow
def test_what_nothing_has_used_for_long_is_taken_away(archive: Path, tmp_path: Path) -> None:
    old = tmp_path / "cache" / "packages" / "old"
    new = tmp_path / "cache" / "packages" / "new"
    for folder in (old, new):
        folder.mkdir(parents=True)
    month_ago = time.time() - 32 * 24 * 3600
    os.utime(old, (month_ago, month_ago))

    imported(archive, tmp_path / "cache")

    assert (new.exists(), old.exists()) == (True, False)


def test_this_process_has_the_packages_from_the_project() -> None:
    assert package_folders() == [PROJECT]
