"""What `savepointdb --version` says of a release, and where the commit comes from."""

from __future__ import annotations

import subprocess
from pathlib import Path

from doctor import NEWEST_FLINK
from service.base.version import checkout_commit
from tests.support.paths import DATA


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    command = ["git", *identity, "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_newest_flink_is_that_of_the_fixtures() -> None:
    newest = max(tuple(map(int, folder.name.split("."))) for folder in (DATA / "flink").iterdir())

    assert "{}.{}.{}".format(*newest) == NEWEST_FLINK


def test_a_checkout_knows_its_commit_and_that_files_were_changed(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "one")
    git(tmp_path, "tag", "v1.0.0")
    commit = git(tmp_path, "rev-parse", "--short=12", "HEAD")
    clean = checkout_commit(tmp_path)
    (tmp_path / "file").write_text("two")

    assert (clean, checkout_commit(tmp_path)) == (commit, f"{commit}+changes")


def test_a_folder_inside_the_repository_of_others_has_no_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "site-packages").mkdir()

    assert checkout_commit(tmp_path / "site-packages") is None
    assert checkout_commit(tmp_path) is None
