"""One savepoint or checkpoint: its operators, their states, and the rows of these.

    Savepoint        opens `_metadata`; nothing else is read until it is asked for
      Operator       the headers of its state files tell the states
        State        one state, from all subtasks: schema and parts
          StatePart  what one source has of it; `read()` gives rows

Of a broadcast state every subtask holds the same copy; it is read once, from the lowest subtask that has it. A state that
cannot be decoded is still listed, with the reason in `note`, and shows bytes where the format frames them. A state file
that cannot be opened does not hide the others: the states it may hold part of carry the error, and raise it when read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property

from readers.errors import MissingFileError, ReaderError
from readers.formats.channelstate.layout import InFlightRecords
from readers.formats.entry import StateKind
from readers.formats.opener import OpeningContext
from readers.formats.opening import opener_of
from readers.formats.source import Source
from readers.metadata import MasterState, OperatorState, SavepointMetadata, StateRole, read_metadata
from readers.operators import Operator
from readers.serializers.base import Serializer
from readers.serializers.named import serializer_named
from readers.stateinfo.file import (
    MAX_STATE_INFO_BYTES,
    NOTHING,
    STATE_INFO_FILE_NAME,
    SavepointInfo,
    read_state_info,
)
from readers.stateinfo.refinement import Contradiction, Knowledge, kryo_of
from readers.states import State, StatePart
from readers.storage.location import DEFAULT_OPTIONS, ReadCounter, SavepointLocation, StorageOptions

_STREAM_ELEMENT = re.compile(r"StreamElement<(.*)>")


class Savepoint:
    """A savepoint or checkpoint.

    Args:
        path: its directory or its `_metadata`; see `SavepointLocation`.
        roots: more directories that it may refer to.
        path_map: recorded path prefixes → where that is now.
        state_info: what is known beside the bytes; else the file beside `_metadata` says it, if there is one. A file
            that cannot be used does not hide the savepoint: the note of every state tells.
        options: how files are reached.

    Raises:
        NotASavepointError: there is none.
        UnsupportedVersionError: a version that is not known here.
        CorruptDataError: `_metadata` contradicts the format.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        roots: Iterable[str] = (),
        path_map: Mapping[str, str] | None = None,
        counter: ReadCounter | None = None,
        state_info: SavepointInfo | None = None,
        options: StorageOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.location = SavepointLocation(
            path, roots=roots, path_map=path_map, counter=counter, options=options
        )
        if state_info is None:
            self.location.look_beside(STATE_INFO_FILE_NAME)
        with self.location.open_metadata() as stream:
            metadata = read_metadata(stream.view(0, stream.size_bytes).data, stream.path)
        problems: tuple[Contradiction, ...] = ()
        if state_info is None:
            state_info, problems = _state_info_beside(self.location)
        self.state_info = state_info
        self.metadata: SavepointMetadata = _named(metadata, state_info)
        in_flight = InFlightRecords(self.metadata.operators, self.location, _stated_records(state_info))
        known = Knowledge(
            kryo=kryo_of(metadata.version),
            classes=state_info.classes,
            subclasses=state_info.subclasses,
            descriptors=state_info.descriptors,
            problems=problems,
        )
        self.operators = tuple(
            Operator(operator, self.location, in_flight, replace(known, operator=info))
            for operator in self.metadata.operators
            for info in [state_info.operators.get(operator.operator_id)]
        )

    @property
    def path(self) -> str:
        """Its directory."""
        return str(self.location.exclusive_directory)

    def read_ahead(self) -> None:
        """As `Operator.read_ahead`, of all operators."""
        for operator in self.operators:
            operator.read_ahead()

    @cached_property
    def master_states(self) -> tuple[State, ...]:
        """The states of the job manager's hooks."""
        return tuple(
            State(
                operator_id="",
                name=master.name,
                kind=StateKind.MASTER,
                max_parallelism=1,
                parts=tuple(
                    StatePart(source=source, name=name, entry=entry)
                    for source in [self._opened_master(master)]
                    for name, entry in source.entries.items()
                ),
            )
            for master in self.metadata.master_states
        )

    def _opened_master(self, master: MasterState) -> Source:
        return opener_of(StateRole.MASTER, master).open(master, OpeningContext(location=self.location))

    def close(self) -> None:
        """Release the files that its states hold open."""
        for operator in self.operators:
            operator.close()


def _state_info_beside(location: SavepointLocation) -> tuple[SavepointInfo, tuple[Contradiction, ...]]:
    """What the `stateInfo` beside `_metadata` says, and why it is not used."""
    try:
        with location.open_beside(STATE_INFO_FILE_NAME, MAX_STATE_INFO_BYTES) as stream:
            return read_state_info(bytes(stream.view(0, stream.size_bytes)), stream.path), ()
    except MissingFileError:
        return NOTHING, ()
    except ReaderError as error:
        return NOTHING, (Contradiction(f"the file is not used: {error}"),)


def _named(metadata: SavepointMetadata, info: SavepointInfo) -> SavepointMetadata:
    """The metadata with the uids and names that only `stateInfo` says."""

    def named(operator: OperatorState) -> OperatorState:
        known = info.operators.get(operator.operator_id)
        if known is None:
            return operator
        return replace(operator, uid=operator.uid or known.uid, name=operator.name or known.name)

    return replace(metadata, operators=tuple(map(named, metadata.operators)))


def _stated_records(info: SavepointInfo) -> dict[tuple[str, str], Serializer]:
    """The types of records in flight that `stateInfo` names, as `StreamElement<Long>`."""
    found = {}
    for operator in info.operators.values():
        for state in operator.states:
            stated = state.value.type if state.kind is StateKind.CHANNEL and state.value else None
            element = _STREAM_ELEMENT.fullmatch(stated or "")
            serializer = serializer_named(element[1]) if element else None
            if serializer is not None:
                found[operator.operator_id, state.name] = serializer
    return found
