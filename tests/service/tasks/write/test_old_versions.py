"""Savepoints of Flink 1.11 to 1.15, which write one version of `_metadata` with different handles in it."""

from __future__ import annotations

import io
import lzma
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import catalog
from readers.metadata import KeyGroupsSavepointStateHandle, KeyGroupsStateHandle
from readers.savepoint import Savepoint
from service.cli import main
from tests.support.oldversions import unpack_old
from tests.support.paths import DATA

_FIRST = "2001-09-09 01:46:40"
ROCKSDB = "1.12.7/kinds-rocks/sp-1"
TWICE = "1.13.6/kinds-rocksfull-heaptimers/checkpoint/chk-8"
HEAP = "stateful-udf/1.11-savepoint"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = unpack_old(tmp_path_factory.mktemp("old"))
    data = lzma.decompress((DATA / "versions" / "savepoints.tar.xz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = [member for member in tar.getmembers() if member.name.startswith(HEAP)]
        tar.extractall(root, members, filter="data")
    return root


def key_group_handles(savepoint: Path) -> set[type]:
    """Return the classes of the handles of keyed state."""
    opened = Savepoint(savepoint)
    handles = (one.managed_keyed_state for operator in opened.operators for one in operator.metadata.subtasks)
    found = {type(handle) for handle in handles if handle is not None}
    opened.close()
    return found


def timers(savepoint: Path) -> Iterator[str]:
    rows = catalog.connect(str(savepoint)).table("timers").scan().to_arrow().to_pylist()
    return (str(row["timestamp"]) for row in rows)


@pytest.mark.parametrize(
    ("options", "handle"),
    [
        ((), KeyGroupsStateHandle),
        (("--flink", "1.11"), KeyGroupsStateHandle),
        (("--flink", "1.12"), KeyGroupsStateHandle),
        (("--flink", "1.13"), KeyGroupsSavepointStateHandle),
        (("--flink", "1.20"), KeyGroupsSavepointStateHandle),
    ],
)
def test_key_groups_have_the_handle_that_flink_reads(
    options: tuple[str, ...], handle: type, folder: Path, tmp_path: Path
) -> None:
    script = 'DELETE FROM "28a5be47cc8efa8cf9a926f0356f7672__cnt" WHERE key.a = 9'

    code = main(["write", str(folder / ROCKSDB), script, "--to", str(tmp_path / "new"), *options])

    assert code == 0
    assert key_group_handles(tmp_path / "new") == {KeyGroupsStateHandle, handle}
    table = catalog.connect(str(tmp_path / "new")).table("28a5be47cc8efa8cf9a926f0356f7672__cnt")
    assert table.scan().to_arrow().num_rows == 9


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ((), "Flink 1.11 and 1.12 cannot read this savepoint"),
        (
            ("--flink", "1.12"),
            "Flink 1.11 and 1.12 restore the written key groups with the rocksdb backend only",
        ),
        (("--flink", "1.13"), ""),
    ],
)
def test_which_flink_restores_key_groups_of_a_heap_of_before_1_13_is_said(
    options: tuple[str, ...],
    warning: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = 'DELETE FROM "d5c8b168c6cbfe8c507a10f88b325243__state-name"'

    code = main(["write", str(folder / HEAP), script, "--to", str(tmp_path / "new"), *options])

    written = capsys.readouterr().out
    assert code == 0
    assert (warning in written) if warning else ("warning" not in written)


def test_timers_that_a_checkpoint_has_twice_are_read_once_and_removed_in_both_places(
    folder: Path, tmp_path: Path
) -> None:
    script = f"DELETE FROM timers WHERE timestamp = '{_FIRST}'"

    assert main(["write", str(folder / TWICE), script, "--to", str(tmp_path / "new")]) == 0

    before, after = list(timers(folder / TWICE)), list(timers(tmp_path / "new"))
    opened = Savepoint(tmp_path / "new")
    raw = [one.raw_keyed_state for operator in opened.operators for one in operator.metadata.subtasks]
    opened.close()
    assert len(before) == 378
    assert sorted(after) == sorted(time for time in before if time != _FIRST)
    assert len(after) == 317
    assert set(raw) == {None}
