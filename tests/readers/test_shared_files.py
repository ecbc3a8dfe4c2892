"""Two savepoints that share the files of a state: nothing of it is read, and nothing differs."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from readers import ComparedState, Savepoint, Selection, State, differing_rows
from readers.metadata.model import KeyGroupsStateHandle
from tests.support.paths import DATA
from tools.synthetic.savepoints import write_savepoint

FLINK = DATA / "flink" / "1.20.3"


def linked(source: Path, target: Path) -> Path:
    """A copy of a savepoint whose files are links to those of the first."""
    shutil.copytree(source, target, copy_function=lambda file, link: Path(link).hardlink_to(file))
    return target


def keyed_states(directory: Path) -> dict[tuple[str, str], State]:
    return {
        (state.operator_id, state.name): state
        for operator in Savepoint(directory).operators
        for state in operator.states
        if state.backend
    }


def compared(before: Path, after: Path) -> tuple[int, int]:
    """How many rows of both sides may differ, and how many bytes were read for that."""
    read: list[int] = []
    rows = 0
    news = keyed_states(after)
    for name, old in keyed_states(before).items():
        sides = [
            ComparedState(
                state=state, selection=Selection(account=read.append), columns=tuple(state.schema.names)
            )
            for state in (old, news[name])
        ]
        for found in differing_rows(*sides):
            rows += sum(batch.num_rows for side in (found.before, found.after) for batch in side())
    return rows, sum(read)


@pytest.fixture
def canonical(tmp_path: Path) -> Path:
    """A canonical savepoint with a file for each subtask."""
    write_savepoint(tmp_path / "canonical", 300)
    return tmp_path / "canonical"


def test_files_that_both_have_are_not_read(canonical: Path, tmp_path: Path) -> None:
    assert compared(canonical, linked(canonical, tmp_path / "after")) == (0, 0)


def test_bytes_in_metadata_that_are_the_same_are_not_compared_again(tmp_path: Path) -> None:
    native = FLINK / "everything-hashmap-savepoints" / "native"

    assert compared(native, linked(native, tmp_path / "after")) == (0, 0)


def test_a_file_of_its_own_is_read(canonical: Path, tmp_path: Path) -> None:
    after = linked(canonical, tmp_path / "after")
    data = (after / "subtask-1").read_bytes()
    (after / "subtask-1").unlink()
    (after / "subtask-1").write_bytes(data.replace(b"holder 16", b"holder 26"))

    rows, read = compared(canonical, after)

    assert rows >= 2
    assert len(data) <= read < 20 * len(data)


def test_the_same_file_with_key_groups_elsewhere_is_read(canonical: Path, tmp_path: Path) -> None:
    """Where key groups begin stands in `_metadata`, which says something else here."""
    after = linked(canonical, tmp_path / "after")
    metadata = (after / "_metadata").read_bytes()
    state = next(iter(keyed_states(canonical).values()))
    handle = next(part.source.recorded for part in state.parts)
    assert isinstance(handle, KeyGroupsStateHandle)
    first = next(int(offset) for offset in handle.offsets if offset)
    (after / "_metadata").unlink()
    (after / "_metadata").write_bytes(metadata.replace(struct.pack(">q", first), bytes(8), 1))

    rows, read = compared(canonical, after)

    assert rows > 0
    assert read > 0
