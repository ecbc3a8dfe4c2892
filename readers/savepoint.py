"""One savepoint or checkpoint.

    Savepoint          reads `_metadata`; all else is read when it is asked for
    └ Operator         reads the headers of its state files, which list the states (operators.py)
      └ State          one state of all subtasks: schema and parts (states.py)
        └ StatePart    one source's part of a state: `read()` yields rows

A state that cannot be decoded is listed with the reason in `note`, and shows bytes where the format frames them. A state file
that cannot be opened hides no others: the states that it may have a part of carry the error, and raise it when they are read.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from readers.errors import MissingFileError, ReaderError
from readers.formats.entry import StateKind
from readers.formats.inflight import InFlightRecords
from readers.formats.opener import OpeningContext, framed, opener_of
from readers.metadata import OperatorState, SavepointMetadata, StateRole, read_metadata
from readers.operators import Operator
from readers.recognition import STATE_INFO_FILE_NAME
from readers.serializers.base import Serializer
from readers.serializers.named import serializer_named
from readers.stateinfo.file import (
    MAX_STATE_INFO_BYTES,
    NOTHING,
    SavepointInfo,
    read_state_info,
    state_info_text,
)
from readers.stateinfo.refinement import Contradiction, Knowledge, has_row_kinds, kryo_of
from readers.states import State, StatePart
from readers.storage.filesystems import ReadCounter
from readers.storage.location import DEFAULT_OPTIONS, SavepointLocation, StorageOptions

if TYPE_CHECKING:
    from readers.jars.classpath import Jar
    from readers.jars.jobclasses import JobClasses

# Less than what a person needs to ask again, more than a query needs from its first file to the last.
_MOMENT_S = 1.0
_OUTLINE_BYTES = 32
# Of a jar beside a savepoint, which is read whole; one that is given on the command line is mapped.
_MAX_JAR_BYTES = 256 << 20
_STREAM_ELEMENT = re.compile(r"StreamElement<(.*)>")


class Savepoint:
    """A savepoint or checkpoint.

    Args:
        path: its directory or its `_metadata`; see `SavepointLocation`.
        roots: further directories whose files it may refer to.
        path_map: prefix of recorded paths → the directory that has these files now.
        counter: counts the bytes that are read.
        state_info: names and types that the savepoint does not record. By default the file beside `_metadata` is read, if
            there is one. If that file cannot be used, the savepoint is read without it, and the note of every state says why.
        jars: the classes of the job; those of the jars that `state_info` names follow them.
        options: credentials and endpoints of remote storage.

    Attributes:
        location: opens the files that it refers to.
        metadata: the content of `_metadata`, with the uids and names of `state_info`.
        operators: all operators.

    Raises:
        NotASavepointError: there is no savepoint at the path.
        UnsupportedVersionError: `_metadata` has a version that is not known here.
        CorruptDataError: `_metadata` contradicts its format.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        roots: Iterable[str] = (),
        path_map: Mapping[str, str] | None = None,
        counter: ReadCounter | None = None,
        state_info: SavepointInfo | None = None,
        jars: JobClasses | None = None,
        options: StorageOptions = DEFAULT_OPTIONS,
    ) -> None:
        self._roots, self._path_map = tuple(roots), path_map
        self.location = SavepointLocation(
            path, roots=self._roots, path_map=path_map, counter=counter, options=options
        )
        if state_info is None:
            # Of a remote savepoint both files are requested at the same time.
            self.location.look_beside(STATE_INFO_FILE_NAME)
        with self.location.open_metadata() as stream:
            metadata = read_metadata(stream.view(0, stream.size_bytes).data, stream.path)
        problems: tuple[Contradiction, ...] = ()
        if state_info is None:
            state_info, problems = _state_info_beside(self.location)
        self.state_info = state_info
        if state_info.jars:
            jars, unused = self._with_jars_beside(state_info, jars)
            problems += unused
        self.jars = jars
        self.metadata: SavepointMetadata = _named(metadata, state_info)
        # Of the whole savepoint: a record in flight may begin in one operator's state and end in another's.
        in_flight = InFlightRecords(self.metadata.operators, self.location, _stated_records(state_info))
        known = Knowledge(
            kryo=kryo_of(metadata.version),
            has_row_kinds=has_row_kinds(metadata.version),
            classes=state_info.classes,
            subclasses=state_info.subclasses,
            descriptors=state_info.descriptors,
            jars=jars,
            problems=problems,
        )
        self.operators = tuple(
            Operator(
                operator, self.location, in_flight, known if info is None else replace(known, operator=info)
            )
            for operator in self.metadata.operators
            for info in [state_info.operators.get(operator.operator_id)]
        )

    def _with_jars_beside(
        self, info: SavepointInfo, given: JobClasses | None
    ) -> tuple[JobClasses | None, tuple[Contradiction, ...]]:
        """Return the classes of the jars that `stateInfo` names, behind those that are given, and why some are not used."""
        # Heavy, and most savepoints are read without jars.
        from readers.jars.jobclasses import JobClasses

        jars, problems = [], []
        for name in info.jars:
            try:
                jars.append(self._jar_beside(info, name))
            except ReaderError as error:
                problems.append(Contradiction(f"the jar {name} is not used: {error.told}"))
        if not jars:
            return given, tuple(problems)
        try:
            return JobClasses([*(given.jars if given is not None else ()), *jars]), tuple(problems)
        except ReaderError as error:
            return given, (*problems, Contradiction(f"its jars are not used: {error.told}"))

    def _jar_beside(self, info: SavepointInfo, name: str) -> Jar:
        from readers.jars.classpath import Jar  # as above

        if info.folder:
            return Jar.open(os.path.join(info.folder, name))
        with self.location.open_beside(name, _MAX_JAR_BYTES) as stream:
            return Jar(bytes(stream.view(0, stream.size_bytes)), stream.path or name)

    @cached_property
    def without_jars(self) -> Savepoint:
        """The same savepoint as its own bytes and `stateInfo` describe it."""
        if self.jars is None:
            return self
        return Savepoint(
            self.path,
            roots=self._roots,
            path_map=self._path_map,
            state_info=replace(self.state_info, jars=()),
            options=self.location.options,
        )

    @property
    def path(self) -> str:
        """The directory of the savepoint."""
        return str(self.location.exclusive_directory)

    @property
    def has_failed(self) -> bool:
        """True if something of it could not be read for a reason that may pass: it keeps the error until it is opened anew."""
        return self.location.failed_at is not None

    @property
    def is_stale(self) -> bool:
        """True if it has failed, and not in this moment: the requests of a query need not all fail one after the other."""
        failed_at = self.location.failed_at
        return failed_at is not None and time.monotonic() - failed_at >= _MOMENT_S

    def outline(self) -> bytes | None:
        """Return a digest of what decides on the states and their columns; None if only reading the states shows these.

        Savepoints with the same outline have the same operators, in the same order, with the same states, columns and names,
        though not the same entries or files. A savepoint of which a part cannot be read has none.
        """
        # What jars hold is known by their paths alone.
        if self.jars is not None or self.state_info.jars:
            return None
        self.read_ahead()
        stated = "" if self.state_info is NOTHING else state_info_text(self.state_info)
        parts = [str(self.metadata.version).encode(), stated.encode("utf-8", "surrogatepass")]
        try:
            for operator in self.operators:
                found = operator.outline()
                if found is None:
                    return None
                parts.append(found)
        except ReaderError:
            # Whoever reads the states gets the error, with its place.
            return None
        return hashlib.blake2b(framed(parts), digest_size=_OUTLINE_BYTES).digest()

    def read_ahead(self) -> None:
        """Fetch the headers of all operators' remote state files at the same time."""
        for operator in self.operators:
            operator.read_ahead()

    @cached_property
    def master_states(self) -> tuple[State, ...]:
        """The states of the job manager's hooks."""
        context = OpeningContext(location=self.location)
        return tuple(
            State(
                operator_id="",
                name=master.name,
                kind=StateKind.MASTER,
                max_parallelism=1,
                parts=tuple(
                    StatePart(source=source, name=name, entry=entry)
                    for source in [opener_of(StateRole.MASTER, master).open(master, context)]
                    for name, entry in source.entries.items()
                ),
            )
            for master in self.metadata.master_states
        )

    def close(self) -> None:
        """Release the files that its states hold open."""
        for operator in self.operators:
            operator.close()


def _state_info_beside(location: SavepointLocation) -> tuple[SavepointInfo, tuple[Contradiction, ...]]:
    """Return the `stateInfo` beside `_metadata`, and the reason if the file cannot be used."""
    try:
        with location.open_beside(STATE_INFO_FILE_NAME, MAX_STATE_INFO_BYTES) as stream:
            return read_state_info(bytes(stream.view(0, stream.size_bytes)), stream.path), ()
    except MissingFileError:
        return NOTHING, ()
    except ReaderError as error:
        return NOTHING, (Contradiction(f"the file is not used: {error.told}"),)


def _named(metadata: SavepointMetadata, info: SavepointInfo) -> SavepointMetadata:
    """Return the metadata with the uids and names of `stateInfo` where it records none."""
    if not info.operators:
        return metadata

    def named(operator: OperatorState) -> OperatorState:
        known = info.operators.get(operator.operator_id)
        if known is None:
            return operator
        return replace(operator, uid=operator.uid or known.uid, name=operator.name or known.name)

    return replace(metadata, operators=tuple(map(named, metadata.operators)))


def _stated_records(info: SavepointInfo) -> dict[tuple[str, str], Serializer]:
    """Return the types of records in flight that `stateInfo` names, as `StreamElement<Long>`: by operator id and state."""
    found = {}
    for operator in info.operators.values():
        for state in operator.states:
            stated = state.value.type if state.kind is StateKind.CHANNEL and state.value else None
            element = _STREAM_ELEMENT.fullmatch(stated or "")
            serializer = serializer_named(element[1]) if element else None
            if serializer is not None:
                found[operator.operator_id, state.name] = serializer
    return found
