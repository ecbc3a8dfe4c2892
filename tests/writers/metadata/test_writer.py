"""`write_metadata`: the same bytes as Flink for all real files, and the reader's opposite for all that Flink can express."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.metadata import (
    CheckpointProperties,
    OperatorState,
    SavepointKind,
    SavepointMetadata,
    SubtaskState,
    read_metadata,
)
from tests.support import metadata_strategies
from tests.support.metadata_writer import write_metadata as written_by_the_oracle
from tests.support.paths import DATA
from writers.errors import UnwritableError
from writers.metadata import write_metadata

REAL_FILES = sorted(path.relative_to(DATA).as_posix() for path in DATA.rglob("_metadata"))
# Versions 1 and 2 can be read, and not written.
WRITABLE = [
    name for name in REAL_FILES if int.from_bytes((DATA / name).read_bytes()[4:8], "big") in range(3, 7)
]


@pytest.mark.parametrize("name", WRITABLE)
def test_real_files_are_written_again_byte_for_byte(name: str) -> None:
    data = (DATA / name).read_bytes()

    assert write_metadata(read_metadata(data)) == data


@given(st.sampled_from([3, 4, 5, 6]).flatmap(metadata_strategies.metadata))
def test_it_writes_what_the_reader_reads(metadata: SavepointMetadata) -> None:
    data = written_by_the_oracle(metadata)

    assert write_metadata(read_metadata(data)) == data


@pytest.mark.parametrize("version", [1, 2, 7])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(UnwritableError, match=f"found version {version}"):
        write_metadata(SavepointMetadata(version=version, checkpoint_id=1))


def test_a_version_with_properties_needs_them() -> None:
    with pytest.raises(UnwritableError, match="expected CheckpointProperties for version 4, found none"):
        write_metadata(SavepointMetadata(version=4, checkpoint_id=1))


@pytest.mark.parametrize("operator_id", ["", "00", "zz" * 16, "00" * 16 + "-0"])
def test_an_operator_id_has_sixteen_bytes(operator_id: str) -> None:
    operator = OperatorState(operator_id=operator_id, parallelism=1, max_parallelism=128)

    with pytest.raises(UnwritableError, match="expected an operator id of 32 hex digits"):
        write_metadata(SavepointMetadata(version=3, checkpoint_id=1, operators=(operator,)))


def test_a_text_too_long_for_its_two_bytes_is_refused() -> None:
    operator = OperatorState(operator_id="0f" * 16, uid="ä" * 40_000, parallelism=1, max_parallelism=128)
    properties = CheckpointProperties(kind=SavepointKind.SAVEPOINT)

    with pytest.raises(UnwritableError, match="expected a text of at most 65535 bytes, found 80000"):
        write_metadata(
            SavepointMetadata(version=5, checkpoint_id=1, operators=(operator,), properties=properties)
        )


def test_a_lower_version_leaves_names_out() -> None:
    name = next(name for name in WRITABLE if "2.3.0/wordcount" in name)
    metadata = read_metadata((DATA / name).read_bytes())
    assert any(operator.uid for operator in metadata.operators)

    lowered = read_metadata(write_metadata(replace(metadata, version=4)))

    assert lowered.version == 4
    assert [(operator.uid, operator.name) for operator in lowered.operators] == [(None, None)] * len(
        metadata.operators
    )
    assert [operator.operator_id for operator in lowered.operators] == [
        operator.operator_id for operator in metadata.operators
    ]


def test_a_finished_subtask_keeps_its_index() -> None:
    operator = OperatorState(
        operator_id="0f" * 16,
        parallelism=3,
        max_parallelism=128,
        subtasks=(SubtaskState(index=2, finished=True),),
    )
    metadata = SavepointMetadata(version=3, checkpoint_id=9, operators=(operator,))

    assert read_metadata(write_metadata(metadata)) == metadata
