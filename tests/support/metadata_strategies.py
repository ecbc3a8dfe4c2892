"""Hypothesis strategies for `SavepointMetadata`: what `write_metadata` can express, which is what Flink can.

Names and paths are any text, offsets any int64: the reader must not care.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

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
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
    InputChannelStateHandle,
    KeyGroupRange,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
    MasterState,
    MergedInputChannelStateHandle,
    MergedResultSubpartitionStateHandle,
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
)

text = st.text(max_size=8)
some_text = st.text(min_size=1, max_size=8)
data = st.binary(max_size=12)
i4 = st.integers(-(2**31), 2**31 - 1)
i8 = st.integers(-(2**63), 2**63 - 1)
size = st.integers(0, 2**63 - 1)
key_group_ranges = st.builds(
    lambda start, count: KeyGroupRange(start, start + count - 1), st.integers(0, 32760), st.integers(0, 8)
)


def offsets(count: int | None = None) -> st.SearchStrategy[np.ndarray]:
    lists = st.lists(i8, max_size=3) if count is None else st.lists(i8, min_size=count, max_size=count)
    return lists.map(lambda values: np.array(values, dtype=np.int64))


def tuples(elements: st.SearchStrategy, max_size: int = 2) -> st.SearchStrategy:
    return st.lists(elements, max_size=max_size).map(tuple)


streams = st.one_of(
    st.builds(ByteStreamStateHandle, handle_name=text, data=data),
    st.builds(FileStateHandle, file_path=text, state_size=i8),
    st.builds(RelativeFileStateHandle, relative_path=text, state_size=i8),
    st.builds(
        SegmentFileStateHandle,
        file_path=text,
        start_pos=size,
        state_size=size,
        state_scope=st.sampled_from([CheckpointedStateScope.EXCLUSIVE, CheckpointedStateScope.SHARED]),
        logical_file_id=text,
    ),
    st.builds(EmptySegmentFileStateHandle),
)


@st.composite
def key_groups(draw, /, kind, **more):
    groups = draw(key_group_ranges)
    fields = {name: draw(strategy) for name, strategy in more.items()}
    count = groups.end - groups.start + 1
    return kind(key_group_range=groups, offsets=draw(offsets(count)), delegate=draw(streams), **fields)


local_files = tuples(st.builds(HandleAndLocalPath, text, streams))
incremental_fields = {
    "checkpoint_id": i8,
    "backend_identifier": text,
    "key_group_range": key_group_ranges,
    "meta_state_handle": streams,
    "shared_state": local_files,
    "private_state": local_files,
}
plain_keyed = st.one_of(
    key_groups(KeyGroupsStateHandle, state_handle_id=st.none() | text),
    key_groups(KeyGroupsSavepointStateHandle),
    st.builds(IncrementalRemoteKeyedStateHandle, **incremental_fields),
    st.builds(
        IncrementalRemoteKeyedStateHandle, **incremental_fields, checkpointed_size=i8, state_handle_id=text
    ),
)
changes = st.one_of(
    st.builds(
        InMemoryChangelogStateHandle,
        key_group_range=key_group_ranges,
        from_sequence_number=i8,
        to_sequence_number=i8,
        changes=tuples(st.builds(StateChange, i4, data)),
        state_handle_id=text,
    ),
    st.builds(
        ChangelogStateHandleStreamImpl,
        key_group_range=key_group_ranges,
        handles_and_offsets=tuples(st.builds(StreamAndOffset, streams, i8)),
        state_size=i8,
        checkpointed_size=i8,
        state_handle_id=text,
        storage_identifier=st.none() | text,
    ),
)
changelogs = st.builds(
    ChangelogStateBackendHandle,
    key_group_range=key_group_ranges,
    checkpointed_size=i8,
    materialized=tuples(plain_keyed),
    non_materialized=tuples(changes),
    materialization_id=i8,
    checkpoint_id=st.none() | i8,
    state_handle_id=text,
)
keyed = st.one_of(plain_keyed, changes, changelogs)

meta_infos = tuples(
    st.builds(StateMetaInfo, name=text, distribution_mode=st.sampled_from(Mode), offsets=offsets())
)
operator_states = st.one_of(
    st.builds(OperatorStreamStateHandle, state_meta_infos=meta_infos, delegate=streams),
    st.builds(
        FileMergingOperatorStreamStateHandle,
        state_meta_infos=meta_infos,
        delegate=streams,
        task_owned_directory=text,
        shared_directory=text,
        empty=st.booleans(),
    ),
)

channel_parts = st.builds(ChannelOffsets, first=i4, second=i4, state_size=i8, offsets=offsets())


def single_channels(kind):
    return st.builds(
        lambda index, part, delegate: kind(
            subtask_index=index, channels=(part,), state_size=part.state_size, delegate=delegate
        ),
        i4,
        channel_parts,
        streams,
    )


def merged_channels(kind):
    return st.builds(kind, subtask_index=i4, channels=tuples(channel_parts), state_size=i8, delegate=streams)


def channels(version: int, single: type, merged: type) -> st.SearchStrategy:
    if version < 3:
        return st.just(())
    return tuples(
        single_channels(single) | merged_channels(merged) if version >= 6 else single_channels(single)
    )


@st.composite
def subtasks(draw, version: int, index: int) -> SubtaskState:
    if version >= 3 and draw(st.integers(0, 4)) == 0:
        return SubtaskState(index=index, finished=True)
    return SubtaskState(
        index=index,
        managed_operator_state=draw(st.none() | operator_states),
        raw_operator_state=draw(st.none() | operator_states),
        managed_keyed_state=draw(st.none() | keyed),
        raw_keyed_state=draw(st.none() | keyed),
        input_channels=draw(channels(version, InputChannelStateHandle, MergedInputChannelStateHandle)),
        result_subpartitions=draw(
            channels(version, ResultSubpartitionStateHandle, MergedResultSubpartitionStateHandle)
        ),
        legacy_state=draw(tuples(streams)) if version == 2 else (),
    )


subtask_indexes = st.lists(st.integers(0, 2), unique=True, max_size=2)
operator_ids = st.binary(min_size=16, max_size=16).map(bytes.hex)


@st.composite
def operators(draw, version: int) -> OperatorState:
    fully_finished = version >= 3 and draw(st.integers(0, 4)) == 0
    indexes = [] if fully_finished else draw(subtask_indexes)
    return OperatorState(
        operator_id=draw(operator_ids),
        uid=draw(st.none() | some_text) if version >= 5 else None,
        name=draw(st.none() | some_text) if version >= 5 else None,
        parallelism=draw(st.integers(3, 2**31 - 1)),
        max_parallelism=draw(i4),
        subtasks=tuple(draw(subtasks(version, index)) for index in indexes),
        coordinator_state=draw(st.none() | streams) if version >= 3 else None,
        fully_finished=fully_finished,
    )


@st.composite
def chained_operators(draw, operator_id: str) -> list[OperatorState]:
    """A job vertex of version 1: keyed state at its head only, the others present where they have state."""
    indexes = draw(subtask_indexes)
    length = draw(st.integers(1, 3))
    parallelism, max_parallelism = draw(st.integers(3, 100)), draw(i4)
    chain = []
    for position in range(length):
        states = [
            SubtaskState(
                index=index,
                managed_operator_state=draw(st.none() | operator_states),
                raw_operator_state=draw(st.none() | operator_states),
                managed_keyed_state=draw(st.none() | keyed) if position == length - 1 else None,
                raw_keyed_state=draw(st.none() | keyed) if position == length - 1 else None,
                legacy_state=draw(tuples(streams, max_size=1)),
            )
            for index in indexes
        ]
        if position < length - 1:
            states = [state for state in states if list(state.parts())]
        if states or position == length - 1:
            chain.append(
                OperatorState(
                    operator_id=operator_id if position == length - 1 else f"{operator_id}-{position}",
                    parallelism=parallelism,
                    max_parallelism=max_parallelism,
                    subtasks=tuple(states),
                    chain_index=position,
                )
            )
    return chain


properties = st.builds(CheckpointProperties, kind=st.just(SavepointKind.CHECKPOINT)) | st.builds(
    CheckpointProperties,
    kind=st.just(SavepointKind.SAVEPOINT),
    format=st.none() | st.sampled_from(SavepointFormatType),
)
master_states = st.builds(MasterState, version=i4, name=text, data=data)


@st.composite
def metadata(draw, version: int) -> SavepointMetadata:
    if version == 1:
        vertices = draw(st.lists(operator_ids, max_size=2, unique=True))
        chains = [draw(chained_operators(vertex)) for vertex in vertices]
        return SavepointMetadata(
            version=1, checkpoint_id=draw(size), operators=tuple(one for chain in chains for one in chain)
        )
    return SavepointMetadata(
        version=version,
        checkpoint_id=draw(size),
        master_states=draw(tuples(master_states)),
        operators=draw(tuples(operators(version))),
        properties=draw(properties) if version >= 4 else None,
    )
