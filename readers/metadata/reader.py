"""The reader of `_metadata`, versions 1 to 6.

| bytes | meaning |
|---|---|
| i4 | magic 4960672d |
| i4 | version |
| i8 | checkpoint id |
| i4, n × | master states (since 2) |
| i4, n × | operator states (version 1: task states, one per job vertex) |
| rest | CheckpointProperties as a Java stream (since 4) |

| version | written by | serializer |
|---|---|---|
| 1 | 1.2 | SavepointV1Serializer |
| 2 | 1.3 – 1.10 | MetadataV2Serializer (SavepointV2Serializer) |
| 3 | 1.11 – 1.15 | MetadataV3Serializer: coordinator and channel state; finished tasks (1.14) |
| 4 | 1.16 – 1.20 | MetadataV4Serializer: CheckpointProperties |
| 5 | 2.0 | MetadataV5Serializer: operator name and uid |
| 6 | since 2.1 | MetadataV6Serializer: merged channel state |

Version 3 has three layouts, and nothing in the file distinguishes them. So they are tried in turn (`DIALECTS`): the right
one ends with the last byte of the file. Flink: Checkpoints#loadCheckpointMetadata, MetadataV2V3SerializerBase.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from readers.errors import CorruptDataError, NotASavepointError, UnsupportedVersionError
from readers.metadata.handles import (
    Dialect,
    HandleCursor,
    read_input_channel_handle,
    read_keyed_state_handle,
    read_operator_state_handle,
    read_result_subpartition_handle,
    read_stream_state_handle,
)
from readers.metadata.model import (
    CheckpointProperties,
    MasterState,
    OperatorState,
    OperatorStreamStateHandle,
    SavepointFormatType,
    SavepointKind,
    SavepointMetadata,
    StreamStateHandle,
    SubtaskState,
)
from readers.recognition import MAGIC

if TYPE_CHECKING:
    from readers.cursor import Cursor

HEADER_BYTES = 8
OLDEST_VERSION = 1
NEWEST_VERSION = 6
FULLY_FINISHED = -1

MASTER_STATE_MAGIC = 0xC96B1696
_OPERATOR_ID_BYTES = 16
_JAVA_STREAM_HEADER = b"\xac\xed\x00\x05"

T = TypeVar("T")


def read_metadata(data: bytes | memoryview, path: str | None = None) -> SavepointMetadata:
    """Read a `_metadata` file.

    Args:
        data: its bytes.
        path: its path, for errors.

    Raises:
        NotASavepointError: it does not begin with Flink's magic number, or Flink 1.0 wrote it (a Java object).
        UnsupportedVersionError: Flink 1.1 wrote it (version 0), or a Flink newer than this reader.
        CorruptDataError: it contradicts the format.
    """
    version = _read_version(data, path)
    failures = []
    for dialect in DIALECTS[version]:
        try:
            return _read_body(data, path, version, dialect)
        except CorruptDataError as error:
            failures.append(error)
    # Most files have the first dialect, so its error is the most helpful one.
    raise failures[0]


def _read_version(data: bytes | memoryview, path: str | None) -> int:
    if len(data) < HEADER_BYTES or int.from_bytes(data[:4], "big") != MAGIC:
        found = bytes(data[:4]).hex() or "an empty file"
        if bytes(data[:4]) == _JAVA_STREAM_HEADER:
            found += ": a Java object, as Flink 1.0 wrote a savepoint; restored by Flink 1.2, a new one can be read"
        raise NotASavepointError(
            f"expected a _metadata file that begins with {MAGIC:08x} and a version, found {found}",
            path=path,
            position=0,
        )
    version = int.from_bytes(data[4:HEADER_BYTES], "big", signed=True)
    if version not in DIALECTS:
        hint = (
            ": written by Flink 1.1, in Java objects; restored by Flink 1.2, a new savepoint can be read"
            if version == 0
            else ""
        )
        raise UnsupportedVersionError(
            f"expected _metadata version {OLDEST_VERSION}–{NEWEST_VERSION}, found version {version}{hint}",
            path=path,
            position=4,
        )
    return version


def _read_body(
    data: bytes | memoryview, path: str | None, version: int, dialect: Dialect
) -> SavepointMetadata:
    cursor = HandleCursor(data, path=path, position=HEADER_BYTES, dialect=dialect)
    checkpoint_id = cursor.i8()
    if checkpoint_id < 0:
        raise cursor.corrupt(f"expected a checkpoint id, found {checkpoint_id}", HEADER_BYTES)
    master_states: tuple[MasterState, ...] = ()
    if version >= 2:
        count = cursor.count("master states", minimum_bytes=8)
        master_states = tuple(_read_master_state(cursor) for _ in range(count))
        count = cursor.count("operators", minimum_bytes=28)
        operators = tuple(_read_operator_state(cursor, version) for _ in range(count))
    else:
        count = cursor.count("tasks", minimum_bytes=32)
        operators = tuple(operator for _ in range(count) for operator in _read_task_state(cursor))
    properties = _read_checkpoint_properties(cursor) if version >= 4 else None
    if cursor.remaining:
        raise cursor.corrupt(f"expected the end of _metadata, found {cursor.remaining} bytes left")
    return SavepointMetadata(
        version=version,
        checkpoint_id=checkpoint_id,
        master_states=master_states,
        operators=operators,
        properties=properties,
    )


def _read_master_state(cursor: HandleCursor) -> MasterState:
    """u4 magic c96b1696; i4 length of what follows: i4 version; utf name; blob.

    Flink: MetadataV2V3SerializerBase#deserializeMasterState.
    """
    start = cursor.position
    if cursor.i4() & 0xFFFFFFFF != MASTER_STATE_MAGIC:
        raise cursor.corrupt(f"expected a master state ({MASTER_STATE_MAGIC:08x})", start)
    frame = cursor.sub(cursor.i4(), "master state")
    state = MasterState(version=frame.i4(), name=frame.utf("master hook"), data=frame.blob("master state"))
    if frame.remaining:
        raise frame.corrupt(f"expected the end of the master state, found {frame.remaining} bytes left")
    return state


def _read_operator_state(cursor: HandleCursor, version: int) -> OperatorState:
    """[utf name; utf uid]; id; i4 parallelism; i4 max parallelism; [coordinator]; i4 n; n × subtask."""
    name = uid = None
    if version >= 5:
        name = cursor.utf("operator name") or None
        uid = cursor.utf("operator uid") or None
    operator_id = _read_operator_id(cursor)
    parallelism, max_parallelism = _read_parallelism(cursor)
    if version == 2:
        cursor.i4()  # chain length, always 1
    coordinator_state = read_stream_state_handle(cursor) if version >= 3 else None
    # -1 in place of the number of subtasks.
    fully_finished = version >= 3 and _peek_i4(cursor) == FULLY_FINISHED
    if fully_finished:
        cursor.i4()
        subtasks: tuple[SubtaskState, ...] = ()
    else:
        count = cursor.count("subtasks", minimum_bytes=4)
        subtasks = tuple(_read_subtask_state(cursor, version, parallelism) for _ in range(count))
    return OperatorState(
        operator_id=operator_id,
        uid=uid,
        name=name,
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        subtasks=subtasks,
        coordinator_state=coordinator_state,
        fully_finished=fully_finished,
    )


def _read_operator_id(cursor: Cursor) -> str:
    """Read an id as hex digits in file order, as Flink prints it, although Flink calls the first half the lower part."""
    return cursor.read(_OPERATOR_ID_BYTES, "operator id").hex()


def _read_parallelism(cursor: Cursor) -> tuple[int, int]:
    start = cursor.position
    parallelism, max_parallelism = cursor.i4(), cursor.i4()
    if parallelism <= 0:
        raise cursor.corrupt(f"expected a parallelism, found {parallelism}", start)
    return parallelism, max_parallelism


def _peek_i4(cursor: Cursor) -> int:
    value = cursor.i4()
    cursor.position -= 4
    return value


def _read_subtask_index(cursor: Cursor, parallelism: int) -> tuple[int, bool]:
    """i4; -(index + 1) for a finished subtask. Flink: MetadataV3Serializer#deserializeSubtaskState."""
    start = cursor.position
    value = cursor.i4()
    index = value if value >= 0 else -(value + 1)
    if index >= parallelism:
        raise cursor.corrupt(f"expected a subtask index below {parallelism}, found {index}", start)
    return index, value < 0


def _read_subtask_state(cursor: HandleCursor, version: int, parallelism: int) -> SubtaskState:
    """i4 index; operator states, each behind an i4 flag; keyed states; since 3 the channels."""
    start = cursor.position
    index, finished = _read_subtask_index(cursor, parallelism)
    if finished:
        if version < 3:
            raise cursor.corrupt("expected a subtask index, found a negative number", start)
        return SubtaskState(index=index, finished=True)
    legacy_state: tuple[StreamStateHandle, ...] = ()
    if version == 2:
        cursor.i8()  # duration, always -1
        # State of the `Checkpointed` interface of Flink 1.2 and 1.3.
        count = cursor.count("legacy states")
        states = [read_stream_state_handle(cursor) for _ in range(count)]
        legacy_state = tuple(state for state in states if state is not None)
    return SubtaskState(
        index=index,
        managed_operator_state=_read_flagged_operator_state(cursor),
        raw_operator_state=_read_flagged_operator_state(cursor),
        managed_keyed_state=read_keyed_state_handle(cursor),
        raw_keyed_state=read_keyed_state_handle(cursor),
        input_channels=tuple(
            read_input_channel_handle(cursor) for _ in range(_channel_count(cursor, version))
        ),
        result_subpartitions=tuple(
            read_result_subpartition_handle(cursor) for _ in range(_channel_count(cursor, version))
        ),
        legacy_state=legacy_state,
    )


def _read_flagged_operator_state(cursor: HandleCursor) -> OperatorStreamStateHandle | None:
    """i4 0 for no handle; i4 1, then the handle with its own tag."""
    start = cursor.position
    flag = cursor.i4()
    if flag not in {0, 1}:
        raise cursor.corrupt(f"expected 0 or 1 operator state handles, found {flag}", start)
    return read_operator_state_handle(cursor) if flag else None


def _channel_count(cursor: HandleCursor, version: int) -> int:
    return cursor.count("channel state handles", minimum_bytes=21) if version >= 3 else 0


# --- version 1: chains of operators ---


def _read_task_state(cursor: HandleCursor) -> list[OperatorState]:
    """Read the operators of one job vertex.

    16 bytes job vertex id; i4 parallelism; i4 max parallelism; i4 chain length; i4 n; n × subtask. The head of the chain is
    the *last* position: only the head has keyed state, and its operator id is the id of the vertex. The ids of the other
    operators are only in the job graph: here they are the vertex id and the position. Flink: SavepointV1Serializer,
    SavepointV2#convertToOperatorStateSavepointV2.
    """
    vertex_id = _read_operator_id(cursor)
    parallelism, max_parallelism = _read_parallelism(cursor)
    chain_length = cursor.i4()
    if chain_length <= 0:
        raise cursor.corrupt(f"expected a chain length, found {chain_length}", cursor.position - 4)
    chain: dict[int, list[SubtaskState]] = {chain_length - 1: []}
    for _ in range(cursor.count("subtasks", minimum_bytes=26)):
        for chain_index, subtask in _read_chained_subtask(cursor, parallelism, chain_length).items():
            chain.setdefault(chain_index, []).append(subtask)
    return [
        OperatorState(
            operator_id=vertex_id if chain_index == chain_length - 1 else f"{vertex_id}-{chain_index}",
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            subtasks=tuple(subtasks),
            chain_index=chain_index,
        )
        for chain_index, subtasks in sorted(chain.items())
    ]


def _read_chained_subtask(
    cursor: HandleCursor, parallelism: int, chain_length: int
) -> dict[int, SubtaskState]:
    """i4 index; i8 duration; three chains of handles; managed and raw keyed state.

    Returns:
        The state at the head and at each chain position that has state. The chain length is not trusted: a large one
        must cost no memory.
    """
    start = cursor.position
    index, finished = _read_subtask_index(cursor, parallelism)
    if finished:
        raise cursor.corrupt("expected a subtask index, found a negative number", start)
    cursor.i8()  # duration, always -1
    legacy = _read_chain(cursor, read_stream_state_handle, chain_length)
    managed = _read_chain(cursor, read_operator_state_handle, chain_length)
    raw = _read_chain(cursor, read_operator_state_handle, chain_length)
    managed_keyed, raw_keyed = read_keyed_state_handle(cursor), read_keyed_state_handle(cursor)
    head = chain_length - 1
    return {
        position: SubtaskState(
            index=index,
            managed_operator_state=managed.get(position),
            raw_operator_state=raw.get(position),
            managed_keyed_state=managed_keyed if position == head else None,
            raw_keyed_state=raw_keyed if position == head else None,
            legacy_state=(legacy[position],) if position in legacy else (),
        )
        for position in {*legacy, *managed, *raw, head}
    }


def _read_chain(
    cursor: HandleCursor, read_handle: Callable[[HandleCursor], T | None], chain_length: int
) -> dict[int, T]:
    """i4 n; n × handle. Returns handles by chain position, without nulls. A chain without state may have length 0."""
    start = cursor.position
    count = cursor.count("states of a chain")
    if count not in {0, chain_length}:
        raise cursor.corrupt(
            f"expected {chain_length} states, one for each operator of a chain, found {count}", start
        )
    handles = [read_handle(cursor) for _ in range(count)]
    return {position: handle for position, handle in enumerate(handles) if handle is not None}


# --- the end ---


def _read_checkpoint_properties(cursor: Cursor) -> CheckpointProperties:
    """Find kind and format by the names in a Java stream; the objects are never deserialized.

    Only savepoints have the class SavepointType in the stream; its format is an enum constant, written as a string (74,
    u2 length, text). Flink: MetadataV4Serializer#serializeProperties.
    """
    start = cursor.position
    tail = bytes(cursor.read(cursor.remaining))
    if not tail.startswith(_JAVA_STREAM_HEADER):
        raise cursor.corrupt("expected CheckpointProperties as a Java stream (aced0005)", start)
    if _java_text("org.apache.flink.runtime.checkpoint.SavepointType") not in tail:
        return CheckpointProperties(kind=SavepointKind.CHECKPOINT, stream=tail)
    formats = (name for name in SavepointFormatType if b"t" + _java_text(name) in tail)
    return CheckpointProperties(kind=SavepointKind.SAVEPOINT, format=next(formats, None), stream=tail)


def _java_text(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


DIALECTS: dict[int, tuple[Dialect, ...]] = {
    1: (Dialect(),),
    2: (Dialect(),),
    3: (
        Dialect(),  # 1.12, 1.13, 1.15, and all files without changelog or channel state
        Dialect(changelog_sizes=False),  # 1.14
        Dialect(channel_subtask_index=False),  # 1.11
    ),
    4: (Dialect(),),
    5: (Dialect(),),
    6: (Dialect(channel_tags=True),),
}
