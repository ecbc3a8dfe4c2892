"""The headers of state files: which states they hold, and in which types. `readers.headers` describes the layout.

Flink 1.8 to 2.3 restores keyed headers of version 6 and operator headers of version 5 and later. What a state is registered
with is kept as its bytes: a header that is read and written again is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from readers import BackendStateType, StateMetaInfo
from writers.errors import UnwritableError
from writers.output import DataOutput

KEYED_VERSION = 6
OPERATOR_VERSIONS = (5, 6)
_FIRST_WITH_COMPRESSION = 6  # of operator headers
_VERSION_BYTES = 4
_BLOCK_VERSION = 2
_MOST_STATES = 2**15 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredState:
    """One state, as a header registers it.

    Attributes:
        name: unique among the states of one kind.
        kind: the way the backend holds it.
        options: by `StateMetaInfoSnapshot.CommonOptionsKeys`, in their order.
        blocks: the snapshot of each serializer with the version before it, by `CommonSerializerKeys`, in their order.
    """

    name: str
    kind: BackendStateType
    options: Mapping[str, str]
    blocks: Mapping[str, bytes]


def registered_state(state: StateMetaInfo, header: bytes | memoryview) -> RegisteredState:
    """Return a state of a header that was read.

    Args:
        state: in a keyed header of version 6 or an operator header of version 5 or later.
        header: the bytes that it was read from, from their begin.
    """
    blocks = {key: bytes(header[start:end]) for key, (start, end) in state.blocks.items()}
    if blocks.keys() != state.serializers.keys():
        raise UnwritableError(
            f"expected state {state.name} in a header of Flink 1.7 or later, found an older one: "
            "let a later Flink take a new savepoint"
        )
    return RegisteredState(name=state.name, kind=state.kind, options=state.options, blocks=blocks)


def snapshot_block(snapshot: bytes) -> bytes:
    """Return a versioned snapshot as headers hold it."""
    return _BLOCK_VERSION.to_bytes(_VERSION_BYTES, "big") + snapshot


def snapshot_of(block: bytes) -> bytes:
    """Return the versioned snapshot that a header holds."""
    return block[_VERSION_BYTES:]


def write_keyed_header(
    key_block: bytes, states: Sequence[RegisteredState], *, compressed: bool = False
) -> bytes:
    """Return the header of a keyed state file; the index of a state is its id in the data.

    Raises:
        UnwritableError: there are more states than a header can hold.
    """
    output = DataOutput()
    output.i4(KEYED_VERSION)
    output.boolean(compressed)
    output.raw(key_block)
    _write_states(output, states)
    return bytes(output.data)


def write_operator_header(
    operator_states: Sequence[RegisteredState],
    broadcast_states: Sequence[RegisteredState],
    *,
    version: int = OPERATOR_VERSIONS[0],
    compressed: bool = False,
) -> bytes:
    """Return the header of an operator state file.

    Raises:
        UnwritableError: the version is not one that is written here or knows no compression, or there are too many states.
    """
    if version not in OPERATOR_VERSIONS or (compressed and version < _FIRST_WITH_COMPRESSION):
        raise UnwritableError(
            f"expected an operator state header of version 5, or 6 if it is compressed, found version {version}"
        )
    output = DataOutput()
    output.i4(version)
    if version >= _FIRST_WITH_COMPRESSION:
        output.boolean(compressed)
    _write_states(output, operator_states)
    _write_states(output, broadcast_states)
    return bytes(output.data)


def _write_states(output: DataOutput, states: Sequence[RegisteredState]) -> None:
    if len(states) > _MOST_STATES:
        raise UnwritableError(f"expected at most {_MOST_STATES} states of an operator, found {len(states)}")
    output.u2(len(states))
    for state in states:
        output.utf(state.name)
        output.i4(state.kind.value)
        output.i4(len(state.options))
        for option, value in state.options.items():
            output.utf(option)
            output.utf(value)
        output.i4(len(state.blocks))
        for key, block in state.blocks.items():
            output.utf(key)
            output.raw(block)
