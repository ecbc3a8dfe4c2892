"""`_metadata`: real files to the last value, all versions by round trip, and every kind of broken file."""

from __future__ import annotations

import pickle
import random
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readers.errors import CorruptDataError, NotASavepointError, ReaderError, UnsupportedVersionError
from readers.metadata import (
    ByteStreamStateHandle,
    ChangelogStateBackendHandle,
    ChangelogStateHandleStreamImpl,
    ChannelOffsets,
    CheckpointedStateScope,
    CheckpointProperties,
    EmptySegmentFileStateHandle,
    FileMergingOperatorStreamStateHandle,
    FileStateHandle,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
    InputChannelStateHandle,
    KeyedStateHandle,
    KeyGroupRange,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
    Mode,
    OperatorState,
    OperatorStreamStateHandle,
    RelativeFileStateHandle,
    ResultSubpartitionStateHandle,
    SavepointFormatType,
    SavepointKind,
    SavepointMetadata,
    SegmentFileStateHandle,
    StateChange,
    StateMetaInfo,
    StreamAndOffset,
    SubtaskState,
    read_metadata,
)
from tests.support import metadata_strategies
from tests.support.examples import examples
from tests.support.metadata_writer import MAGIC, handle, i1, i4, i8, utf, write_metadata
from tests.support.paths import DATA

METADATA = DATA / "metadata"
REAL_FILES = sorted(path.relative_to(METADATA).parent.as_posix() for path in METADATA.rglob("_metadata"))
JAVA_STREAM = bytes.fromhex("aced0005")


def real_bytes(case: str) -> bytes:
    return (METADATA / case / "_metadata").read_bytes()


def real(case: str) -> SavepointMetadata:
    return read_metadata(real_bytes(case), f"{case}/_metadata")


def operator(metadata: SavepointMetadata, operator_id: str) -> OperatorState:
    (found,) = (one for one in metadata.operators if one.operator_id == operator_id)
    return found


def savepoint_of(version: int, **subtask) -> SavepointMetadata:
    one = OperatorState(
        operator_id="0f" * 16,
        parallelism=1,
        max_parallelism=128,
        subtasks=(SubtaskState(index=0, **subtask),),
    )
    return SavepointMetadata(version=version, checkpoint_id=1, operators=(one,))


# --- real files ---


def test_canonical_savepoint_of_version_4():
    metadata = real("1.20.3/alltypes-hashmap/canonical")
    (types,) = (one for one in metadata.operators if one.size_bytes)
    first, second = (subtask.managed_keyed_state for subtask in types.subtasks)

    assert (metadata.version, metadata.checkpoint_id) == (4, 1)
    assert metadata.properties == CheckpointProperties(
        kind=SavepointKind.SAVEPOINT, format=SavepointFormatType.CANONICAL
    )
    assert types.operator_id == "2db22d27d82fbf10fa0696f892366d9a"
    assert (types.uid, types.name, types.parallelism, types.max_parallelism) == (None, None, 2, 128)
    assert isinstance(first, KeyGroupsSavepointStateHandle)
    assert isinstance(second, KeyGroupsSavepointStateHandle)
    assert (first.key_group_range, second.key_group_range) == (KeyGroupRange(0, 63), KeyGroupRange(64, 127))
    assert {group: int(at) for group, at in enumerate(first.offsets) if at} == {
        10: 33585,
        18: 34179,
        19: 34224,
    }
    assert first.delegate == RelativeFileStateHandle(
        relative_path="8d132d4c-ca0f-4164-9e19-463017cc0d10", state_size=35171
    )
    assert metadata.size_bytes == 71186


def test_native_savepoint_says_so():
    metadata = real("1.20.3/alltypes-hashmap/native")
    handles = [subtask.managed_keyed_state for one in metadata.operators for subtask in one.subtasks]

    assert metadata.properties == CheckpointProperties(
        kind=SavepointKind.SAVEPOINT, format=SavepointFormatType.NATIVE
    )
    assert {type(one) for one in handles if one} == {KeyGroupsStateHandle}


def test_coordinator_and_inline_state():
    metadata = real("1.20.3/source-datagen/canonical")
    source = operator(metadata, "5eadbd25f5e5ea36e1d79110004cc6d7")
    state = source.subtasks[0].managed_operator_state

    assert source.coordinator_state == ByteStreamStateHandle(
        handle_name="5eadbd25f5e5ea36e1d79110004cc6d7", data=bytes.fromhex("00000001000000010000000400000000")
    )
    assert state is not None
    assert [
        (info.name, info.distribution_mode, info.offsets.tolist()) for info in state.state_meta_infos
    ] == [("SourceReaderState", Mode.SPLIT_DISTRIBUTE, [234])]
    assert state.delegate.scope is CheckpointedStateScope.INLINE
    assert source.size_bytes == 546


def test_names_and_uids_of_version_6():
    metadata = real("2.3.0/forst/checkpoint/chk-1")

    assert metadata.version == 6
    assert metadata.properties == CheckpointProperties(kind=SavepointKind.CHECKPOINT)
    assert [(one.operator_id, one.uid, one.name) for one in metadata.operators] == [
        ("f7c20420360e0172e54933e6abdd481a", "aggregate", "aggregate"),
        ("e5a72f353fc1e6bbf3bd96a41384998c", "source", "Source: word-source"),
        ("17e5add435a3bdf0ec481b49324253eb", None, "mod7-no-uid"),
    ]


def test_union_and_split_operator_state():
    state = real("2.3.0/forst/checkpoint/chk-1").operators[1].subtasks[0].managed_operator_state

    assert state == OperatorStreamStateHandle(
        state_meta_infos=(
            StateMetaInfo(
                name="union-offset-states", distribution_mode=Mode.UNION, offsets=np.array([1008, 1026])
            ),
            StateMetaInfo(
                name="topic-partition-offset-states",
                distribution_mode=Mode.SPLIT_DISTRIBUTE,
                offsets=np.array([1044, 1062]),
            ),
        ),
        delegate=RelativeFileStateHandle(
            relative_path="82c3a46f-0df6-4434-91ef-1b661e29956b", state_size=1080
        ),
    )


def test_incremental_checkpoint_lists_the_files_of_a_rocksdb():
    state = real("1.20.3/wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2").operators[0].subtasks[0]
    keyed = state.managed_keyed_state

    assert isinstance(keyed, IncrementalRemoteKeyedStateHandle)
    assert (keyed.checkpoint_id, keyed.key_group_range) == (2, KeyGroupRange(0, 63))
    assert keyed.backend_identifier == "b6989cea-3bce-484e-a863-797bfcdf8eb8"
    assert keyed.meta_state_handle == RelativeFileStateHandle(
        relative_path="fd19f01a-93fb-44d0-b96a-cff510f3b24f", state_size=1052
    )
    assert all(name.endswith(".sst") for name, _ in keyed.shared_state)
    assert {name.split("-")[0] for name, _ in keyed.private_state} == {"CURRENT", "MANIFEST", "OPTIONS"}
    assert {file.handle.scope for file in keyed.shared_state} == {CheckpointedStateScope.SHARED}
    assert len(list(keyed.streams())) == 1 + len(list(keyed.files()))


def test_changelog_without_a_base():
    keyed = real("1.20.3/changelog-hashmap/checkpoint/chk-1").operators[0].subtasks[0].managed_keyed_state

    assert keyed == ChangelogStateBackendHandle(
        key_group_range=KeyGroupRange(0, 63),
        materialized=(),
        non_materialized=(
            ChangelogStateHandleStreamImpl(
                key_group_range=KeyGroupRange(0, 63),
                handles_and_offsets=(
                    StreamAndOffset(
                        FileStateHandle(
                            file_path="file:/data/flink/snapshot/1.20.3-changelog-hashmap/dstl/"
                            "3999539312645ade420b3e452fe2ff6a/dstl/19c1d415-def5-4d63-94e8-88f6f20532c1",
                            state_size=2044200,
                        ),
                        717360,
                    ),
                ),
                state_size=729469,
                checkpointed_size=729469,
                state_handle_id="810d6f3d-aec4-4e71-bb5b-c124538d1e11",
                storage_identifier="filesystem",
            ),
        ),
        checkpointed_size=729469,
        materialization_id=0,
        checkpoint_id=1,
        state_handle_id="8ebfae6d-59b7-4d8e-b9e5-dd764969cf46",
    )
    assert [stream.scope for stream in keyed.streams()] == [CheckpointedStateScope.CHANGELOG]


def test_changelog_over_a_materialized_rocksdb():
    metadata = real("1.20.3/changelog-rocksdb-materialized/checkpoint/chk-3")
    keyed = metadata.operators[0].subtasks[0].managed_keyed_state

    assert isinstance(keyed, ChangelogStateBackendHandle)
    (base,) = keyed.materialized
    assert isinstance(base, IncrementalRemoteKeyedStateHandle)
    assert base.checkpoint_id == 2
    assert base.meta_state_handle.scope is CheckpointedStateScope.TASK_OWNED


def test_channel_state_of_an_unaligned_checkpoint():
    metadata = real("1.20.3/unaligned-hashmap/checkpoint/chk-1")
    slow = operator(metadata, "59fa767824610e31f4a11d6125e09bf4")
    delegate = RelativeFileStateHandle(relative_path="d1b9a28d-4cd0-4ed3-a49c-7182c61342d5", state_size=84378)

    assert slow.subtasks[0].input_channels == (
        InputChannelStateHandle(
            subtask_index=0,
            channels=(ChannelOffsets(first=0, second=0, state_size=2150, offsets=np.array([48200])),),
            state_size=2150,
            delegate=delegate,
        ),
        InputChannelStateHandle(
            subtask_index=0,
            channels=(ChannelOffsets(first=0, second=1, state_size=38, offsets=np.array([50350])),),
            state_size=38,
            delegate=delegate,
        ),
    )


def test_file_merging_writes_segments_and_placeholders():
    state = real("1.20.3/filemerging-hashmap/checkpoint/chk-1").operators[0].subtasks[0]
    placeholder, keyed = state.managed_operator_state, state.managed_keyed_state

    assert isinstance(placeholder, FileMergingOperatorStreamStateHandle)
    assert placeholder.empty
    assert placeholder.delegate == EmptySegmentFileStateHandle()
    assert list(placeholder.streams()) == []
    assert isinstance(keyed, KeyGroupsStateHandle)
    assert isinstance(keyed.delegate, SegmentFileStateHandle)
    assert keyed.delegate.scope is CheckpointedStateScope.EXCLUSIVE
    assert keyed.offsets[:3].tolist() == [1052, 1176, 1418]


# --- round trips ---


@pytest.mark.parametrize("version", range(1, 7))
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_what_is_written_is_read_back(version, data):
    metadata = data.draw(metadata_strategies.metadata(version))

    assert read_metadata(write_metadata(metadata)) == metadata


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(metadata=metadata_strategies.metadata(6))
def test_metadata_pickles_for_splits(metadata):
    assert pickle.loads(pickle.dumps(metadata)) == metadata


@pytest.mark.parametrize("case", REAL_FILES)
def test_writer_of_these_tests_agrees_with_flink(case):
    """A round trip through our own writer proves little unless the writer writes what Flink does."""
    body = real_bytes(case)
    end = body.rindex(JAVA_STREAM)
    written = write_metadata(real(case))

    # Flink 1.20 writes tag 13 for the storage "filesystem", which the writer leaves to tag 10.
    if "changelog" in case:
        assert read_metadata(written) == real(case)
    else:
        assert written[: written.rindex(JAVA_STREAM)] == body[:end]


def test_version_1_gives_keyed_state_to_the_head_which_is_last_in_the_chain():
    """Flink: SavepointV2#convertToOperatorStateSavepointV2."""
    keyed = KeyGroupsStateHandle(
        key_group_range=KeyGroupRange(0, 0),
        offsets=np.array([7]),
        delegate=FileStateHandle(file_path="file:/a", state_size=9),
    )
    tail_state = OperatorStreamStateHandle(
        state_meta_infos=(), delegate=FileStateHandle(file_path="file:/b", state_size=1)
    )
    vertex = bytes(16) + i4(1, 128, 3) + i4(1)
    chains = i4(0) + i4(3) + handle(tail_state) + i1(0) + i1(0) + i4(0)
    subtask = i4(0) + i8(-1) + chains + handle(keyed) + i1(0)

    metadata = read_metadata(MAGIC + i4(1) + i8(5) + i4(1) + vertex + subtask)

    tail, head = metadata.operators
    assert (tail.chain_index, head.chain_index) == (0, 2)
    assert (tail.operator_id, head.operator_id) == ("00" * 16 + "-0", "00" * 16)
    assert tail.subtasks == (SubtaskState(index=0, managed_operator_state=tail_state),)
    assert head.subtasks == (SubtaskState(index=0, managed_keyed_state=keyed),)


def test_changelog_of_flink_1_14_has_no_sizes_and_ids():
    changes = InMemoryChangelogStateHandle(
        key_group_range=KeyGroupRange(0, 1),
        from_sequence_number=1,
        to_sequence_number=2,
        changes=(StateChange(-1, b"meta"), StateChange(0, b"")),
    )
    files = ChangelogStateHandleStreamImpl(
        key_group_range=KeyGroupRange(0, 1),
        handles_and_offsets=(StreamAndOffset(FileStateHandle(file_path="file:/c", state_size=3), 1),),
        state_size=3,
    )
    metadata = savepoint_of(
        3,
        managed_keyed_state=ChangelogStateBackendHandle(
            key_group_range=KeyGroupRange(0, 1), materialized=(), non_materialized=(changes, files)
        ),
    )

    assert read_metadata(write_metadata(metadata)) == metadata


def test_channel_state_of_flink_1_11_has_no_subtask_index():
    part = ChannelOffsets(first=0, second=3, state_size=40, offsets=np.array([4, 24]))
    stream = FileStateHandle(file_path="file:/c", state_size=44)
    metadata = savepoint_of(
        3,
        input_channels=(
            InputChannelStateHandle(subtask_index=None, channels=(part,), state_size=40, delegate=stream),
        ),
        result_subpartitions=(
            ResultSubpartitionStateHandle(
                subtask_index=None, channels=(part,), state_size=40, delegate=stream
            ),
        ),
    )

    assert read_metadata(write_metadata(metadata)) == metadata


def test_key_groups_where_a_stream_is_expected_stand_for_their_delegate():
    stream = FileStateHandle(file_path="file:/c", state_size=44)
    inner = KeyGroupsStateHandle(key_group_range=KeyGroupRange(0, 0), offsets=np.array([0]), delegate=stream)
    metadata = savepoint_of(2, legacy_state=(inner,))

    assert read_metadata(write_metadata(metadata)).operators[0].subtasks[0].legacy_state == (stream,)


# --- values ---


@pytest.mark.parametrize(
    ("path", "scope"),
    [
        ("file:/cp/job/shared/uuid", CheckpointedStateScope.SHARED),
        ("file:/cp/job/shared/job_1_op_2_0_1/uuid", CheckpointedStateScope.SHARED),
        ("s3://bucket/job/taskowned/uuid", CheckpointedStateScope.TASK_OWNED),
        ("s3://bucket/dstl/job/dstl/uuid", CheckpointedStateScope.CHANGELOG),
        ("file:/shared/flink/savepoint-1/0/uuid", CheckpointedStateScope.EXCLUSIVE),
        ("uuid", CheckpointedStateScope.EXCLUSIVE),
    ],
)
def test_scope_follows_from_the_folder(path, scope):
    assert FileStateHandle(file_path=path, state_size=1).scope is scope


def test_key_group_range_ends_are_inclusive():
    groups = KeyGroupRange(64, 127)

    assert groups.number_of_key_groups == 64
    assert 64 in groups
    assert 127 in groups
    assert 128 not in groups


def test_unknown_size_counts_as_none():
    assert FileStateHandle(file_path="file:/a", state_size=-1).size_bytes == 0


def test_offsets_cannot_be_changed():
    keyed = real("1.20.3/alltypes-hashmap/canonical").operators[0].subtasks[0].managed_keyed_state

    assert isinstance(keyed, KeyGroupsStateHandle)
    with pytest.raises(ValueError, match="read-only"):
        keyed.offsets[0] = 1


def test_handles_with_equal_offsets_are_equal_and_hash_alike():
    one, other = (real("1.20.3/alltypes-hashmap/canonical") for _ in range(2))
    changed = real("1.20.3/alltypes-hashmap/native")

    assert one == other
    assert hash(one) == hash(other)
    assert one != changed


# --- broken files ---


@pytest.mark.parametrize("data", [b"", b"\x49\x60", b"PAR1aaaaaaaa", b"\xac\xed\x00\x05aaaaaaaa", MAGIC])
def test_other_files_are_not_savepoints(data):
    with pytest.raises(NotASavepointError, match="4960672d"):
        read_metadata(data, "somewhere/_metadata")


@pytest.mark.parametrize("version", [0, 7, -1, 2**31 - 1])
def test_unknown_versions_are_named(version):
    with pytest.raises(UnsupportedVersionError, match=f"found version {version}") as error:
        read_metadata(MAGIC + i4(version) + bytes(100), "somewhere/_metadata")

    assert error.value.path == "somewhere/_metadata"
    assert error.value.position == 4


@pytest.mark.parametrize(
    "case", ["1.20.3/changelog-hashmap/checkpoint/chk-1", "1.20.3/source-datagen/canonical"]
)
def test_every_prefix_is_refused(case):
    data = real_bytes(case)
    for length in range(data.rindex(JAVA_STREAM) + len(JAVA_STREAM)):
        with pytest.raises(ReaderError):
            read_metadata(data[:length])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_bytes_behind_the_end_are_refused(version):
    data = write_metadata(SavepointMetadata(version=version, checkpoint_id=1))

    with pytest.raises(CorruptDataError, match="expected the end"):
        read_metadata(data + b"\x00")


def test_random_corruption_ends_in_a_value_or_a_reader_error():
    draw = random.Random(20)
    originals = [real_bytes(case) for case in REAL_FILES if len(real_bytes(case)) < 6000]
    originals.append(write_metadata(savepoint_of(3)))
    start = time.monotonic()
    for number in range(10_000):
        data = bytearray(originals[number % len(originals)])
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(8, len(data))
            match draw.randrange(4):
                case 0:
                    data[place] = draw.randrange(256)
                case 1:
                    data[place : place + 4] = draw.choice(
                        [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", bytes(4)]
                    )
                case 2:
                    del data[place : place + draw.randrange(1, 9)]
                case 3:
                    data[place:place] = draw.randbytes(draw.randrange(1, 9))
        try:
            read_metadata(bytes(data))
        except ReaderError:
            continue

    assert time.monotonic() - start < 60


HUGE = 2**31 - 1
HEADER = MAGIC + i4(4) + i8(1)
OPERATOR = bytes(16) + i4(1, 128) + i1(0)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(HEADER + i4(HUGE), id="master states"),
        pytest.param(HEADER + i4(0, HUGE), id="operators"),
        pytest.param(HEADER + i4(0, 1) + OPERATOR + i4(HUGE), id="subtasks"),
        pytest.param(MAGIC + i4(1) + i8(1) + i4(1) + bytes(16) + i4(1, 1, HUGE, HUGE), id="chain length"),
        pytest.param(
            MAGIC
            + i4(1)
            + i8(1)
            + i4(1)
            + bytes(16)
            + i4(1, 1, HUGE, 1)
            + i4(0)
            + i8(-1)
            + i4(0, 0, 0)
            + bytes(2),
            id="chain without states",
        ),
    ],
)
def test_claimed_counts_cost_no_memory(data):
    tracemalloc.start()
    try:
        read_metadata(data)
    except CorruptDataError:
        pass
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert peak_bytes < 1 << 20


@pytest.mark.slow
def test_many_subtasks_of_a_long_chain_of_version_1_take_linear_time():
    length, count = 20_000, 20_000
    empty = i4(0) + i8(-1) + i4(0, 0, 0) + bytes(2)
    full = i4(0) + i8(-1) + i4(length) + i1(16) * length + i4(0, 0) + bytes(2)
    vertex = bytes(16) + i4(1, 1, length, count + 1)
    start = time.monotonic()

    metadata = read_metadata(MAGIC + i4(1) + i8(1) + i4(1) + vertex + full + empty * count)

    assert len(metadata.operators) == length
    assert time.monotonic() - start < 60


def test_endless_nesting_is_refused():
    nested = (i1(8) + i4(0, 1) + i8(0) + i4(1)) * 10_000
    data = HEADER + i4(0, 1) + OPERATOR + i4(1, 0, 0, 0) + nested

    with pytest.raises(CorruptDataError, match="nested at most 8 deep"):
        read_metadata(data)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (i1(99), "expected a keyed state handle .* found tag 99"),
        (i1(3) + i4(0, 32769), "expected a range in 32768 key groups, found 32769 from 0 on"),
        (i1(3) + i4(-1, 2), "found 2 from -1 on"),
        (i1(3) + i4(0, 0) + i1(0), "expected a state handle, found null"),
        (i1(3) + i4(0, 0) + i1(15) + i8(-1, 1) + i4(0), "found start -1 and size 1"),
        (i1(3) + i4(0, 0) + i1(15) + i8(0, 1) + i4(2), "found 2"),
        (i1(3) + i4(0, 0) + i1(2) + i8(0) + b"\x00\x01\xff", "expected modified UTF-8 as file path"),
    ],
)
def test_messages_say_what_was_expected_and_found(body, message):
    data = HEADER + i4(0, 1) + OPERATOR + i4(1, 0, 0, 0) + body + bytes(64)

    with pytest.raises(CorruptDataError, match=message):
        read_metadata(data)


def test_subtask_beyond_the_parallelism_is_refused():
    with pytest.raises(CorruptDataError, match="expected a subtask index below 1, found 4"):
        read_metadata(HEADER + i4(0, 1) + OPERATOR + i4(1, 4))


def test_unknown_distribution_mode_is_refused():
    state = i4(1) + i1(4) + i4(1) + utf("s") + i1(3) + i4(0)

    with pytest.raises(CorruptDataError, match="distribution mode 0–2, found 3"):
        read_metadata(HEADER + i4(0, 1) + OPERATOR + i4(1, 0) + state + bytes(64))


def test_every_metadata_of_the_corpus_parses(corpus):
    paths = sorted(corpus.rglob("_metadata"))

    assert paths
    for path in paths:
        metadata = read_metadata(path.read_bytes(), str(path))
        handles = [
            handle for one in metadata.operators for subtask in one.subtasks for handle in subtask.parts()
        ]
        assert metadata.operators
        assert metadata.properties is not None
        assert all(
            handle.key_group_range.end < 32768 for handle in handles if isinstance(handle, KeyedStateHandle)
        )


def test_savepoints_of_flink_1_0_and_1_1_are_named():
    with pytest.raises(NotASavepointError, match=r"a Java object, as Flink 1\.0 wrote a savepoint"):
        read_metadata(b"\xac\xed\x00\x05sr\x00\x30")
    with pytest.raises(
        UnsupportedVersionError, match=r"found version 0: written by Flink 1\.1, in Java objects"
    ):
        read_metadata(MAGIC + i4(0) + i8(1))
