"""New states in the metadata: of new operators, and operator states of those that the savepoint has.

New keyed states of those are `writers.keyed`'s: `RewriteKeyedState.added`.

`CollectedElements` are the elements of one new operator state, by subtask. Flink gives each subtask the elements of its own handle as
long as the parallelism stays, and deals them out anew when it changes. A union state is the sum of all handles, in every subtask. Every
subtask has a whole copy of a broadcast state, and all copies must be equal.

A savepoint that is created is made from one without operators. Its `_metadata` has version 3, the one version that holds no object of
Java, and that Flink 1.11 to 2.3 reads. That version stores no uids and no names: for Flink 2 it has the newest version that the release
reads, with the properties of a canonical savepoint, which Flink 1.16 to 2.3 writes with the same bytes.

A new savepoint is checked: the entries that were made are read back, decoded, counted, and their bytes are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers import (
    METADATA_FILE_NAME,
    SUBTASK,
    Savepoint,
    SavepointLocation,
    Selection,
    State,
    StateKind,
    key_groups_of_subtask,
    operator_header_of,
    operator_id_of,
    operator_program,
)
from readers.metadata import (
    CheckpointProperties,
    KeyGroupRange,
    Mode,
    OperatorState,
    OperatorStreamStateHandle,
    SavepointFormatType,
    SavepointKind,
    SavepointMetadata,
    StateMetaInfo,
    SubtaskState,
)
from writers.creation.grouping import mixed
from writers.creation.spool import SpooledEntries
from writers.creation.states import NewState
from writers.edits import DeferredKeyedState, Edit, find_operator, newest_version, with_operator
from writers.encode.encoder import Encoder
from writers.errors import RefusedEditError, UnencodableValueError, UnwritableError
from writers.headers import (
    OPERATOR_VERSIONS,
    DataOutput,
    RegisteredState,
    registered_state,
    write_operator_header,
)
from writers.keyed.assembly import AddedStatesMaker
from writers.keyed.resharding import check_new_subtasks
from writers.metadata import NAMES_SINCE, OLDEST_VERSION, write_metadata
from writers.operatorstate.elements import bytes_of, new_handle

# Flink holds operator state in the memory of its tasks, so whole states are small.
_MOST_BYTES = 1 << 30
_SHOWN_BYTES = 64


class CollectedElements:
    """The elements of a new operator state, or the entries of a broadcast state.

    Args:
        state: its types.
        parallelism: the number of subtasks.

    Attributes:
        rows: how many were added.
    """

    def __init__(self, state: NewState, parallelism: int) -> None:
        self.state = state
        self.parallelism = parallelism
        self.rows = 0
        self._encoder = Encoder(*operator_program(state.entry))
        self._batches: list[tuple[pa.LargeBinaryArray, NDArray[np.int64]]] = []
        self._keys: list[pa.LargeBinaryArray] = []
        self._size = 0

    @property
    def is_broadcast(self) -> bool:
        """True if every subtask has all of it."""
        return self.state.kind is StateKind.BROADCAST

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows; each makes an element.

        Raises:
            UnencodableValueError: a value does not fit, a key of a broadcast state comes twice, or there are too many.
        """
        arrays = self.state.entry_columns(rows, self._encoder.schema)
        encoded, error = self._encoder.encode_arrays(arrays, rows.num_rows)
        if error is not None:
            error.row += self.rows
            raise error
        self._size += len(encoded.data)
        if self._size > _MOST_BYTES:
            raise UnencodableValueError(
                f"expected at most {_MOST_BYTES >> 20} MiB of operator state in {self.state.name}, which Flink holds in memory"
            )
        self._batches.append((encoded.array(), self._subtasks(rows)))
        if self.is_broadcast:
            self._check_keys(rows.column("map_key"))
        self.rows += rows.num_rows

    def _subtasks(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        """Return the subtask of each row: the given one, or one after the other in turn."""
        if self.is_broadcast:
            return np.zeros(rows.num_rows, dtype=np.int64)
        if SUBTASK not in rows.schema.names:
            return (np.arange(rows.num_rows, dtype=np.int64) + self.rows) % self.parallelism
        given = rows.column(SUBTASK)
        wrong = pc.fill_null(pc.or_(pc.less(given, 0), pc.greater_equal(given, self.parallelism)), True)
        if pc.any(wrong).as_py():
            row = pc.index(wrong, True).as_py()
            raise UnencodableValueError(
                f"expected a subtask from 0 to {self.parallelism - 1}, found {given[row].as_py()}",
                breadcrumbs=(SUBTASK,),
                row=self.rows + row,
            )
        return np.asarray(given.cast(pa.int64()))

    def _check_keys(self, keys: pa.Array) -> None:
        """Check that no key of a broadcast state comes twice."""
        encoder = Encoder.of(self.state.types["map_key"])
        self._keys.append(encoder.encode(pa.record_batch([keys], ["value"])).array())
        found = pa.chunked_array(self._keys)
        if pc.count_distinct(found).as_py() < len(found):
            twice = pc.value_counts(found)
            number = pc.index(twice.field(1), pc.max(twice.field(1))).as_py()
            shown = twice.field(0)[number].as_py()[:_SHOWN_BYTES].hex(" ")
            raise UnencodableValueError(
                f"expected each map key once in {self.state.name}, found one twice; its bytes are {shown}"
            )

    def elements(self, subtask: int) -> pa.ChunkedArray:
        """Return the elements of a subtask; of a broadcast state one: its number of entries, and all entries."""
        if not self.is_broadcast:
            chosen = [array.filter(pa.array(subtasks == subtask)) for array, subtasks in self._batches]
            return pa.chunked_array(chosen, pa.large_binary())
        entries = b"".join(bytes_of(array) for array, _ in self._batches)
        return pa.chunked_array([pa.array([self.rows.to_bytes(4, "big") + entries], pa.large_binary())])


_MODES = {
    StateKind.OPERATOR_LIST: Mode.SPLIT_DISTRIBUTE,
    StateKind.UNION_LIST: Mode.UNION,
    StateKind.BROADCAST: Mode.BROADCAST,
}


def new_operator_state(states: Sequence[CollectedElements], subtask: int) -> OperatorStreamStateHandle:
    """Return the operator state of a subtask that had none."""
    output = DataOutput()
    output.raw(write_operator_header(*_registered(states)))
    return _handle(output, (), states, subtask)


def extended_operator_state(
    handle: OperatorStreamStateHandle,
    states: Sequence[CollectedElements],
    subtask: int,
    source: SavepointLocation,
) -> OperatorStreamStateHandle:
    """Return the operator state of a subtask with new states behind those that it has, whose elements keep their bytes.

    Raises:
        RefusedEditError: it is compressed or of an old Flink, or has a state of this name.
        ReaderError: its file cannot be read.
    """
    with source.open_stream(handle.delegate) as stream:
        header = operator_header_of(stream, handle)
        data = bytes(stream.view(0, stream.size_bytes))
    if header.compressed or header.version not in OPERATOR_VERSIONS:
        raise RefusedEditError(
            "expected operator state of Flink 1.8 or later without compression to add states to, found "
            + ("compressed state" if header.compressed else f"its header in version {header.version}")
        )
    known = {info.name for info in handle.state_meta_infos}
    twice = next((one.state.name for one in states if one.state.name in known), None)
    if twice is not None:
        raise RefusedEditError(f"expected a new state, found {twice}, which the operator has")
    lists, broadcasts = _registered(states)
    output = DataOutput()
    output.raw(
        write_operator_header(
            [*(registered_state(one, data) for one in header.operator_states), *lists],
            [*(registered_state(one, data) for one in header.broadcast_states), *broadcasts],
            version=header.version,
        )
    )
    shift = len(output.data) - header.end
    output.raw(memoryview(data)[header.end :])
    kept = tuple(replace(info, offsets=info.offsets + shift) for info in handle.state_meta_infos)
    return _handle(output, kept, states, subtask)


def _registered(states: Sequence[CollectedElements]) -> tuple[list[RegisteredState], list[RegisteredState]]:
    """Return the registrations of list states, and those of broadcast states."""
    return (
        [one.state.registered() for one in states if not one.is_broadcast],
        [one.state.registered() for one in states if one.is_broadcast],
    )


def _handle(
    output: DataOutput, infos: tuple[StateMetaInfo, ...], states: Sequence[CollectedElements], subtask: int
) -> OperatorStreamStateHandle:
    """Append the elements of new states, and return the handle of all."""
    added = []
    for one in states:
        elements = one.elements(subtask)
        lengths = np.asarray(pc.binary_length(elements), dtype=np.int64)
        offsets = len(output.data) + np.cumsum(lengths) - lengths
        for chunk in elements.chunks:
            output.raw(bytes_of(chunk))
        mode = _MODES[one.state.kind]
        added.append(StateMetaInfo(name=one.state.name, distribution_mode=mode, offsets=offsets))
    return new_handle((*infos, *added), bytes(output.data))


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOperator(Edit):
    """A new operator and its states.

    Attributes:
        uid: of the operator in the job.
        parallelism: the number of its subtasks.
        max_parallelism: the number of its key groups.
        keyed: its keyed states, all with keys of one type.
        elements: its operator states.
    """

    uid: str
    parallelism: int
    max_parallelism: int
    keyed: tuple[SpooledEntries, ...] = ()
    elements: tuple[CollectedElements, ...] = ()

    def applied(self, metadata: SavepointMetadata, source: SavepointLocation) -> SavepointMetadata:
        check_new_subtasks(self.uid, self.parallelism)
        operator_id = operator_id_of(self.uid)
        if any(one.operator_id == operator_id for one in metadata.operators):
            raise RefusedEditError(f"expected a new operator, found one with the uid {self.uid!r}")
        has_names = metadata.version >= NAMES_SINCE
        operator = OperatorState(
            operator_id=operator_id,
            uid=self.uid if has_names else None,
            name=self.uid if has_names else None,
            parallelism=self.parallelism,
            max_parallelism=self.max_parallelism,
            subtasks=tuple(map(self._subtask, range(self.parallelism))),
        )
        return replace(metadata, operators=(*metadata.operators, operator))

    def _subtask(self, index: int) -> SubtaskState:
        return SubtaskState(
            index=index,
            managed_operator_state=new_operator_state(self.elements, index) if self.elements else None,
            managed_keyed_state=self._keyed_state(index) if self.keyed else None,
        )

    def _keyed_state(self, subtask: int) -> DeferredKeyedState:
        groups = KeyGroupRange(*key_groups_of_subtask(subtask, self.parallelism, self.max_parallelism))
        return DeferredKeyedState(key_group_range=groups, maker=AddedStatesMaker(self.keyed, groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendOperatorState(Edit):
    """New list, union and broadcast states of an operator that the savepoint has.

    Attributes:
        operator_id: whose.
        elements: the states, for its parallelism.
    """

    operator_id: str
    elements: tuple[CollectedElements, ...]

    def applied(self, metadata: SavepointMetadata, source: SavepointLocation) -> SavepointMetadata:
        operator = find_operator(metadata, self.operator_id)
        for one in self.elements:
            # Elements of subtasks that are no more would be lost.
            if one.parallelism != operator.parallelism:
                raise RefusedEditError(
                    f"expected the new state {one.state.name} to be dealt out to {operator.parallelism} subtasks, found "
                    f"{one.parallelism}: create it in a script of its own"
                )
        known = {one.index: one for one in operator.subtasks}
        subtasks = tuple(
            self._extended(known.get(index, SubtaskState(index=index)), source)
            for index in range(operator.parallelism)
        )
        return with_operator(metadata, operator, replace(operator, subtasks=subtasks))

    def _extended(self, subtask: SubtaskState, source: SavepointLocation) -> SubtaskState:
        handle = subtask.managed_operator_state
        if handle is None or not any(True for _ in handle.streams()):
            state = new_operator_state(self.elements, subtask.index)
        else:
            state = extended_operator_state(handle, self.elements, subtask.index, source)
        return replace(subtask, managed_operator_state=state)


_CHECKPOINT_ID = 1  # the job's first checkpoint gets the next number


def write_empty_savepoint(folder: Path, release: tuple[int, int] | None = None) -> None:
    """Write `_metadata` of a savepoint without operators into a folder.

    Args:
        folder: an empty one.
        release: major and minor number of the Flink that will read it; None for any.

    Raises:
        RefusedEditError: no version of `_metadata` is written for this Flink.
    """
    version = OLDEST_VERSION if release is None else newest_version(release)
    has_names = version >= NAMES_SINCE
    metadata = SavepointMetadata(
        version=version if has_names else OLDEST_VERSION,
        checkpoint_id=_CHECKPOINT_ID,
        properties=_PROPERTIES if has_names else None,
    )
    (folder / METADATA_FILE_NAME).write_bytes(write_metadata(metadata))


def _text(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def _class(name: str, serial: int, flags: int, *fields: bytes) -> bytes:
    """Return the description of a class, up to that of its superclass."""
    head = b"r" + _text(name) + serial.to_bytes(8, "big") + bytes([flags])
    return head + len(fields).to_bytes(2, "big") + b"".join(fields) + b"x"


def _object_field(name: str, declared: str) -> bytes:
    return b"L" + _text(name) + b"t" + _text(f"L{declared};")


def _constant(name: str, superclass: bytes, constant: str) -> bytes:
    """Return a constant of an enum."""
    return b"~" + _class(name, 0, _ENUM) + superclass + b"t" + _text(constant)


_SERIALIZABLE, _ENUM = 2, 18
_NONE = b"p"  # no superclass
_ENUM_CLASS = _class("java.lang.Enum", 0, _ENUM) + _NONE
_ENUM_CLASS_AGAIN = b"q\x00\x7e\x00\x09"  # the tenth that the stream describes
_CHECKPOINT, _EXECUTION = "org.apache.flink.runtime.checkpoint", "org.apache.flink.core.execution"
_FLAGS = ("Cancelled", "Failed", "Finished", "Subsumed", "Suspended")
_PROPERTIES = CheckpointProperties(
    kind=SavepointKind.SAVEPOINT,
    format=SavepointFormatType.CANONICAL,
    stream=b"\xac\xed\x00\x05s"
    + _class(
        f"{_CHECKPOINT}.CheckpointProperties",
        2,
        _SERIALIZABLE,
        *(b"Z" + _text(name) for name in (*(f"discard{flag}" for flag in _FLAGS), "forced", "unclaimed")),
        _object_field("checkpointType", f"{_CHECKPOINT}.SnapshotType".replace(".", "/")),
    )
    + _NONE
    + b"\x00\x00\x00\x00\x00\x01\x00"  # forced
    + b"s"
    + _class(
        f"{_CHECKPOINT}.SavepointType",
        0xA087D308A45814B8,
        _SERIALIZABLE,
        _object_field("formatType", f"{_EXECUTION}.SavepointFormatType".replace(".", "/")),
        _object_field("name", "java/lang/String"),
        _object_field(
            "postCheckpointAction", f"{_CHECKPOINT}.SavepointType$PostCheckpointAction".replace(".", "/")
        ),
    )
    + _NONE
    + _constant(f"{_EXECUTION}.SavepointFormatType", _ENUM_CLASS, "CANONICAL")
    + b"t"
    + _text("Savepoint")
    + _constant(f"{_CHECKPOINT}.SavepointType$PostCheckpointAction", _ENUM_CLASS_AGAIN, "NONE"),
)


_WORD = (1 << 64) - 1


def check_created(
    savepoint: Savepoint,
    operator_id: str,
    keyed: Sequence[SpooledEntries],
    elements: Sequence[CollectedElements],
) -> None:
    """Check that an operator of a new savepoint has these states.

    Raises:
        UnwritableError: it has others.
        ReaderError: it cannot be read.
    """
    states = {
        state.name: state
        for operator in savepoint.operators
        if operator.operator_id == operator_id
        for state in operator.states
    }
    for entries in keyed:
        _compare(entries.state.name, _made(entries), _found(states.get(entries.state.name)))
    for one in elements:
        state = states.get(one.state.name)
        found = -1 if state is None else sum(batch.num_rows for batch in state.read())
        _compare(one.state.name, (one.rows, 0), (found, 0))


def _compare(name: str, made: tuple[int, int], found: tuple[int, int]) -> None:
    if made != found:
        raise UnwritableError(
            f"expected {made[0]} entries of the new state {name}, read {found[0]} back, or others; nothing was written"
        )


def _made(entries: SpooledEntries) -> tuple[int, int]:
    """Return the number of entries and a hash of them all."""
    count = total = 0
    for run in entries.runs():
        total += mixed(run.data, *run.bounds())
        count += len(run.starts)
    return count, total & _WORD


def _found(state: State | None) -> tuple[int, int]:
    """Return the same of a state that is read back; -1 if there is none."""
    if state is None:
        return -1, 0
    count = total = 0
    for part in state.parts:
        for batch in part.entries(Selection()):
            page = batch.page
            data = np.ascontiguousarray(page.data)
            total += mixed(data, page.starts, page.ends)
            count += len(page)
    return count, total & _WORD
