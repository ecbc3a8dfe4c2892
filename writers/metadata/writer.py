"""The writer of `_metadata`, versions 3 to 6; `readers.metadata.reader` describes the layout.

Version 3 is the one version without a Java object; versions 4 and later end with the bytes of the source's
CheckpointProperties, which are copied as they are. A version without names and uids (3, 4) leaves them out: Flink finds
operators by their ids. Flink: MetadataV3Serializer to MetadataV6Serializer.
"""

from __future__ import annotations

from readers import metadata as model
from writers.errors import UnwritableError
from writers.metadata.handles import write_channel, write_keyed_state, write_operator_state, write_stream
from writers.output import DataOutput

OLDEST_VERSION = 3
NEWEST_VERSION = 6

NAMES_SINCE = 5
PROPERTIES_SINCE = 4
_CHANNEL_TAGS_SINCE = 6
_OPERATOR_ID_BYTES = 16


def write_metadata(metadata: model.SavepointMetadata) -> bytes:
    """Return the bytes of `_metadata`, in the version that it names.

    Raises:
        UnwritableError: the version is not one that is written here, or cannot hold what the metadata has.
    """
    version = metadata.version
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        raise UnwritableError(
            f"expected _metadata version {OLDEST_VERSION}–{NEWEST_VERSION}, found version {version}: "
            "let a Flink of 1.11 or later take a new savepoint"
        )
    output = DataOutput()
    output.raw(model.MAGIC.to_bytes(4, "big"))
    output.i4(version)
    output.i8(metadata.checkpoint_id)
    output.i4(len(metadata.master_states))
    for master in metadata.master_states:
        _write_master_state(output, master)
    output.i4(len(metadata.operators))
    for operator in metadata.operators:
        _write_operator(output, operator, version)
    if version >= PROPERTIES_SINCE:
        if metadata.properties is None:
            raise UnwritableError(f"expected CheckpointProperties for version {version}, found none")
        output.raw(metadata.properties.stream)
    return bytes(output.data)


def _write_master_state(output: DataOutput, master: model.MasterState) -> None:
    output.raw(model.MASTER_STATE_MAGIC.to_bytes(4, "big"))
    frame = DataOutput()
    frame.i4(master.version)
    frame.utf(master.name)
    frame.blob(master.data)
    output.blob(frame.data)


def _write_operator(output: DataOutput, operator: model.OperatorState, version: int) -> None:
    if version >= NAMES_SINCE:
        output.utf(operator.name or "")
        output.utf(operator.uid or "")
    output.raw(operator_id_bytes(operator.operator_id))
    output.i4(operator.parallelism)
    output.i4(operator.max_parallelism)
    write_stream(output, operator.coordinator_state)
    if operator.fully_finished:
        output.i4(model.FULLY_FINISHED)
        return
    output.i4(len(operator.subtasks))
    for subtask in operator.subtasks:
        _write_subtask(output, subtask, version)


def operator_id_bytes(operator_id: str) -> bytes:
    """Return the 16 bytes of an operator's id.

    Raises:
        UnwritableError: it is not 32 hex digits.
    """
    try:
        found = bytes.fromhex(operator_id)
    except ValueError:
        found = b""
    if len(found) != _OPERATOR_ID_BYTES:
        raise UnwritableError(f"expected an operator id of 32 hex digits, found {operator_id!r}")
    return found


def _write_subtask(output: DataOutput, subtask: model.SubtaskState, version: int) -> None:
    if subtask.finished:
        output.i4(-(subtask.index + 1))
        return
    if subtask.legacy_state:
        raise UnwritableError("expected no state of the Checkpointed interface of Flink 1.2, found some")
    output.i4(subtask.index)
    _write_flagged(output, subtask.managed_operator_state)
    _write_flagged(output, subtask.raw_operator_state)
    write_keyed_state(output, subtask.managed_keyed_state)
    write_keyed_state(output, subtask.raw_keyed_state)
    for channels in (subtask.input_channels, subtask.result_subpartitions):
        output.i4(len(channels))
        for channel in channels:
            write_channel(output, channel, tagged=version >= _CHANNEL_TAGS_SINCE)


def _write_flagged(output: DataOutput, handle: model.OperatorStreamStateHandle | None) -> None:
    output.i4(0 if handle is None else 1)
    if handle is not None:
        write_operator_state(output, handle)
