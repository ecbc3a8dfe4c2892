"""Where clients may write: below a write root, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.catalog import Root
from service.base.errors import QueryError
from service.base.settings import InvalidSettingError
from service.tasks.write.serving.targets import WriteRoot, served_roots, target_of, write_roots_of
from tests.support.examples import examples


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A write root with a folder, a savepoint, a link out of it and one inside; beside it another folder."""
    for folder in ("out/jobs", "out/there", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "out/there/_metadata").write_bytes(b"")
    (tmp_path / "out/begun").mkdir()
    (tmp_path / "out/begun/_metadata.unfinished").write_bytes(b"")
    (tmp_path / "out/leads-out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "out/stays-in").symlink_to(tmp_path / "out/jobs")
    (tmp_path / "out/nothing").symlink_to(tmp_path / "out/none")
    return tmp_path / "out"


def roots_of(out: Path) -> tuple[WriteRoot, ...]:
    return (WriteRoot(path=str(out.resolve()), label="out"),)


@pytest.mark.parametrize(
    ("text", "path", "database"),
    [
        ("new", "new", "out__new"),
        ("{out}/new", "new", "out__new"),
        ("{out}/new/", "new", "out__new"),
        ("file:{out}/new", "new", "out__new"),
        ("jobs/my job", "jobs/my job", "out__jobs__my~20job"),
        ("stays-in/new", "jobs/new", "out__jobs__new"),
        ("jobs/../new", "new", "out__new"),
        ("{out}/../out/new", "new", "out__new"),
    ],
)
def test_a_target_is_a_new_directory_below_a_write_root(
    text: str, path: str, database: str, out: Path
) -> None:
    found = target_of(text.format(out=out), roots_of(out))

    assert (found.path, found.database) == (str(out.resolve() / path), database)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{out}/../elsewhere/new", "FORBIDDEN"),
        ("../elsewhere/new", "FORBIDDEN"),
        ("leads-out/new", "FORBIDDEN"),
        ("/new", "FORBIDDEN"),
        ("/etc/new", "FORBIDDEN"),
        ("{out}", "FORBIDDEN"),
        ("{out}x/new", "FORBIDDEN"),
        ("there/new", "FORBIDDEN"),
        ("begun/new", "FORBIDDEN"),
        ("none/new", "INVALID_REQUEST"),
        ("_metadata", "INVALID_REQUEST"),
        ("jobs/_metadata", "INVALID_REQUEST"),
        ("_metadata.unfinished", "INVALID_REQUEST"),
        ("..", "INVALID_REQUEST"),
        ("jobs/..", "INVALID_REQUEST"),
        (".", "INVALID_REQUEST"),
        ("/", "INVALID_REQUEST"),
        ("s3://bucket/new", "INVALID_REQUEST"),
        ("hdfs://host/new", "INVALID_REQUEST"),
        ("http://host/new", "INVALID_REQUEST"),
        ("new\0", "INVALID_REQUEST"),
        ("new\nline", "INVALID_REQUEST"),
        ("\udc80", "INVALID_REQUEST"),
        ("there", "TARGET_EXISTS"),
        ("jobs", "TARGET_EXISTS"),
        ("nothing", "TARGET_EXISTS"),
    ],
)
def test_no_other_path_is_a_target(text: str, code: str, out: Path) -> None:
    with pytest.raises(QueryError) as found:
        target_of(text.format(out=out), roots_of(out))

    assert found.value.code == code
    assert str(out) not in found.value.message


def test_a_directory_with_the_name_of_metadata_blocks_no_target(out: Path) -> None:
    (out / "_metadata").mkdir()

    assert target_of("new", roots_of(out)).path == str(out.resolve() / "new")


def test_a_write_root_is_served_unless_it_is_inside_of_a_root(out: Path) -> None:
    jobs, inside, beside = (Root(path=str(path)) for path in (out, out / "jobs", out.parent / "elsewhere"))

    served = served_roots([jobs], [inside, beside])

    assert served == (jobs, beside)
    assert write_roots_of(served, [inside, beside]) == (
        WriteRoot(path=str((out / "jobs").resolve()), label="out", folders=("jobs",)),
        WriteRoot(path=str((out.parent / "elsewhere").resolve()), label="elsewhere"),
    )


@pytest.mark.parametrize("path", ["none", "there/_metadata", "s3://bucket/folder"])
def test_a_write_root_is_a_directory_of_this_machine(path: str, out: Path) -> None:
    root = Root(path=path if "://" in path else str(out / path))

    with pytest.raises(InvalidSettingError, match="expected a directory of this machine"):
        served_roots([], [root])


def test_no_path_at_all_leads_out(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.mktemp("any")
    for folder in ("out/jobs", "elsewhere"):
        (base / folder).mkdir(parents=True)
    (base / "out/leads-out").symlink_to(base / "elsewhere")
    (base / "out/up").symlink_to("..")
    (base / "out/jobs/down").symlink_to("../../elsewhere")
    out = (base / "out").resolve()
    steps = st.sampled_from(
        ["..", ".", "", "out", "jobs", "leads-out", "up", "down", "elsewhere", "new", "file:"]
    )

    @given(st.lists(steps, max_size=8), st.sampled_from(["", "/", f"{out}/", f"file:{out}/", "file://"]))
    @settings(max_examples=examples(300), deadline=None)
    def check(parts: list[str], start: str) -> None:
        try:
            found = target_of(start + "/".join(parts), roots_of(out))
        except QueryError as error:
            assert error.status in (400, 403, 409)  # noqa: PT017  # one of many outcomes
        else:
            assert Path(found.path).resolve().is_relative_to(out)
            assert found.path == str(Path(found.path).resolve())
            assert not Path(found.path).exists()
            assert found.database.startswith("out__")

    check()
