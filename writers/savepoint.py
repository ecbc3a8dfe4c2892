"""Writing a savepoint: the metadata of a source, edits, files → a new directory that Flink restores from.

    read `_metadata` of the source, and prove that it can be written: the same bytes
    apply the edits
    find every file that is left, and decide how it comes along
    make the state that changes; in a preview its bytes are only counted, and nothing is written
    make the directory, bring the files and that state, write `_metadata`, read it back, rename it

The source is only read. The place of the new savepoint is a path of this machine or a URL: see `writers.stores`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl

from readers import Location, Savepoint, SavepointLocation, StorageOptions, check_lost_pages, given_location
from readers import metadata as model
from writers import edits
from writers.copies import TakeOperator, check_backends
from writers.edits import (
    FIRST_WITH_SAVEPOINT_HANDLES,
    Edit,
    FilesMode,
    ForFlink,
    Gathering,
    check_no_records_in_flight,
    with_plain_key_groups,
)
from writers.elsewhere import Run, made_elsewhere
from writers.errors import RestoreWarning, TargetError, UnwritableError
from writers.keyed.rewrite import RewriteKeyedState
from writers.metadata import provable_metadata, write_metadata
from writers.stores.clients import store_of
from writers.stores.prefix import JoinedPrefix, TargetPrefix
from writers.stores.store import StoreRequests
from writers.target import JoinedTarget, Target, TargetDirectory, TargetReference

_BEFORE_AND_SINCE_1_13 = 3  # version of `_metadata`: Flink 1.11 to 1.15
_ROCKSDB_ALONE = (
    "Flink 1.11 and 1.12 restore the written key groups with the rocksdb backend only; with hashmap, restore with 1.13 or later: "
    "write for --flink 1.13"
)
_SINCE_1_13 = (
    "Flink 1.11 and 1.12 cannot read this savepoint, Flink 1.13 or later can; for 1.11 or 1.12 with the rocksdb backend, write for "
    "--flink 1.12"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a write does, or did.

    Attributes:
        operators: number of operators in the new savepoint.
        files: number of its data files.
        file_bytes: their sizes together; linked ones take no space.
        metadata_bytes: the size of `_metadata`.
        refers: True if it needs files of the source, which are not counted here.
        warnings: what Flink restores without a word, and may not be meant.
    """

    operators: int
    files: int
    file_bytes: int
    metadata_bytes: int
    refers: bool = False
    warnings: tuple[str, ...] = ()


class SavepointWriter:
    """A source savepoint and what is to change.

    Args:
        source: where it is.
        edits: the changes, in order.
        mode: how files come along.
        opened: the source, for what it knows of classes beside its files; None if the new savepoint is read back without.
        threads: how many may make state at the same time in this process.

    Raises:
        UnwritableError: `_metadata` of the source cannot be written again byte for byte.
        RefusedEditError: Flink would not restore the result, or lose state.
        ReaderError: the source is damaged, or a file of it is missing.
    """

    def __init__(
        self,
        source: SavepointLocation,
        edits: Sequence[Edit],
        mode: FilesMode = FilesMode.LINK,
        *,
        opened: Savepoint | None = None,
        threads: int = edits.MOST_THREADS,
    ) -> None:
        self._source = source
        self._threads = threads
        self._opened = opened
        metadata = provable_metadata(source)
        check_no_records_in_flight(metadata.operators)
        for edit in edits:
            metadata = edit.applied(metadata, source)
        self._warnings = [warning for edit in edits for warning in edit.warnings]
        taken = [edit for edit in edits if isinstance(edit, TakeOperator)]
        if taken:
            self._warnings += check_backends(metadata, taken)
        self._others = [edit.other.location for edit in taken]
        self._operators = [edit.operator for edit in edits if isinstance(edit, RewriteKeyedState)]
        self._has_plain_key_groups = self._decide_handles(metadata, edits)
        self._gathering = Gathering(source, mode)
        self._planned = self._gathering.gathered(metadata)
        self._summary: Summary | None = None

    def _decide_handles(self, metadata: model.SavepointMetadata, edits: Sequence[Edit]) -> bool:
        """Decide whether canonical key groups have the handle of before Flink 1.13; note which Flinks restore the result.

        Versions 1.11 to 1.15 write one version of `_metadata`. Without a stated release the handle stays that of the source: RocksDB
        of all versions reads it.
        """
        if metadata.version != _BEFORE_AND_SINCE_1_13:
            return False
        backends = {
            source.backend
            for operator in self._operators
            for source in operator.sources
            if _may_be_of_1_12(source.recorded)
        }
        release = next((edit.release for edit in edits if isinstance(edit, ForFlink)), None)
        is_plain = "canonical" in backends if release is None else release < FIRST_WITH_SAVEPOINT_HANDLES
        if is_plain and "hashmap" in backends:
            self._warnings.append(RestoreWarning(state="keyed state", text=_ROCKSDB_ALONE))
        elif release is None and not is_plain and backends:
            self._warnings.append(RestoreWarning(state="keyed state", text=_SINCE_1_13))
        return is_plain

    def _with_made_state(
        self, make: edits.Make
    ) -> tuple[model.SavepointMetadata, tuple[RestoreWarning, ...]]:
        metadata, noticed = edits.with_made_state(self._planned, make)
        return with_plain_key_groups(metadata) if self._has_plain_key_groups else metadata, noticed

    @property
    def summary(self) -> Summary:
        """The new savepoint in numbers; before it is written, all state that changes is made, and only counted.

        Raises:
            WriterError: the state cannot be changed so.
            ReaderError: a file of the source is damaged.
        """
        if self._summary is None:
            counter = edits.FileCounter()
            metadata, noticed = self._with_made_state(
                lambda makers: edits.made_here(makers, counter.counted(), self._threads)
            )
            self._summary = self._summed(metadata, write_metadata(metadata), counter, noticed)
        return self._summary

    @property
    def made_bytes(self) -> int:
        """About how many bytes are read to make the state that changes."""
        return sum(handle.maker.size_bytes for handle in edits.deferred_states(self._planned))

    def _summed(
        self,
        metadata: model.SavepointMetadata,
        data: bytes,
        counter: edits.FileCounter,
        noticed: Iterable[RestoreWarning],
    ) -> Summary:
        files = self._gathering.files.values()
        return Summary(
            operators=len(metadata.operators),
            files=len(files) + len(self._gathering.new_files) + counter.files,
            file_bytes=sum(taken.file.size_bytes for taken in files)
            + sum(map(len, self._gathering.new_files.values()))
            + counter.size_bytes,
            metadata_bytes=len(data),
            refers=bool(self._gathering.folders),
            warnings=_merged((*self._warnings, *noticed)),
        )

    def write(
        self,
        target: str | os.PathLike[str],
        verify: Callable[[Savepoint], None] | None = None,
        run: Run | None = None,
    ) -> Summary:
        """Write the new savepoint.

        Args:
            target: a directory that does not exist, or a URL below which nothing is: S3, OSS, Google or Azure.
            verify: looks at the new savepoint before Flink can find it; what it raises stops the writing.
            run: has other processes make the state that changes; None to make it in this process.

        Raises:
            TargetExistsError: something is at the target.
            TargetError: it cannot be written.
            WriterError: the state cannot be changed so.
            ReaderError: a file of the source vanished, or is damaged.
        """
        counter = edits.FileCounter()
        with target_of(os.fspath(target), self._source, self._others) as place:
            self._gathering.bring(place)
            planned, noticed = self._with_made_state(lambda makers: self._made(makers, place, counter, run))
            data = write_metadata(planned)
            if run is not None:
                # The files of a new savepoint that stand in its own place.
                leaves = (one for one in planned.streams() if isinstance(one, model.RelativeFileStateHandle))
                place.keep({one.relative_path for one in leaves})
            place.publish(data, lambda metadata: self._check(metadata, planned, verify))
        self._summary = self._summed(planned, data, counter, noticed)
        return self._summary

    def _made(
        self,
        makers: Sequence[edits.KeyedStateMaker],
        place: Target,
        counter: edits.FileCounter,
        run: Run | None,
    ) -> Sequence[edits.MadeState]:
        if run is None:
            threads = self._threads if place.takes_several else 1
            return edits.made_here(makers, counter.counted(place.create), threads)
        states = made_elsewhere(makers, place, self._operators, run)
        for state in states:
            if state.handle is not None:
                counter.add(1, state.handle.size_bytes)
        return states

    def _check(
        self, metadata: str, planned: model.SavepointMetadata, verify: Callable[[Savepoint], None] | None
    ) -> None:
        """Read the new savepoint back: its metadata is as planned, each file is there in its size, and `verify` is content.

        Raises:
            FileChangedError: a file of the source became shorter meanwhile.
        """
        # With REFERENCE, the source's own rules have allowed these folders.
        roots, options = sorted(self._gathering.folders), self._source.options
        location = SavepointLocation(metadata, roots=roots, options=options)
        with location.open_metadata() as stream:
            found = model.read_metadata(bytes(stream.view(0, stream.size_bytes).data), stream.path)
        if found != planned:
            raise UnwritableError("expected the metadata that was written, read something else back")
        for handle in found.streams():
            if handle.path is not None:
                location.resolve(handle)
        if verify is not None:
            info, jars = (
                (self._opened.state_info, self._opened.jars) if self._opened is not None else (None, None)
            )
            with closing(
                Savepoint(metadata, roots=roots, state_info=info, jars=jars, options=options)
            ) as savepoint:
                verify(savepoint)
        check_lost_pages()


def _may_be_of_1_12(handle: model.KeyedStateHandle | None) -> bool:
    """Return whether Flink 1.12 may have written a handle: it has one class less than 1.13, and no ids, as 1.15 has."""
    if not isinstance(handle, model.KeyGroupsStateHandle | model.IncrementalRemoteKeyedStateHandle):
        return False
    return not isinstance(handle, model.KeyGroupsSavepointStateHandle) and handle.state_handle_id is None


def _merged(warnings: Iterable[RestoreWarning]) -> tuple[str, ...]:
    """Return warnings as text, those of one state and reason as one."""
    found: dict[tuple[str, str], RestoreWarning] = {}
    for warning in warnings:
        place = (warning.state, warning.text)
        first = found.get(place)
        found[place] = warning if first is None else replace(first, rows=first.rows + warning.rows)
    return tuple(map(str, found.values()))


def target_of(text: str, source: SavepointLocation, others: Iterable[SavepointLocation] = ()) -> Target:
    """Make the place of a new savepoint.

    Args:
        text: a path of this machine, or a URL; options of a bucket that the source is in need not be repeated.
        source: the source savepoint, from which files may be copied where they are.
        others: other savepoints that are read.

    Raises:
        TargetExistsError: something is there.
        TargetError: it cannot be written to, or is in the source.
        ReaderError: the options of the URL are wrong.
    """
    location, query = given_location(text)
    for one in (source, *others):
        _check_apart(location, one)
    if location.scheme == "file":
        return TargetDirectory(location.path)
    query = query or source.query_of(location) or ""
    store = store_of(location, query, source.options)
    serves = partial(_is_in_store, source, location, query)
    referred = partial(
        _PrefixReference,
        location=location,
        query=query,
        options=source.options.elsewhere([f"{location}?{query}"]),
        machine=socket.gethostname(),
    )
    return TargetPrefix(store, location, query, serves, referred)


@dataclass(frozen=True, slots=True)
class _PrefixReference(TargetReference):
    """A prefix of an object store that is reserved.

    Attributes:
        token: what its reservation has.
        location: the prefix.
        query: the options of its URL.
        options: with the credentials that these name.
        machine: the name of the one that has reserved it, for people.
    """

    token: bytes
    location: Location
    query: str
    options: StorageOptions
    machine: str

    def joined(self, source: Callable[[], SavepointLocation]) -> JoinedTarget:
        store = store_of(self.location, self.query, self.options)
        requests = StoreRequests(
            store, lambda location: _is_in_store(source(), self.location, self.query, location)
        )
        prefix = self.location.path.strip("/") + "/"
        return JoinedPrefix(requests, prefix, self.token, str(self.location), self.machine)


def _check_apart(location: Location, source: SavepointLocation) -> None:
    """Refuse a target in the source: the source is only read.

    Raises:
        TargetError: the target is in it.
    """
    if location.scheme == "file":
        with suppress(OSError, RuntimeError):
            location = location._replace(path=str(Path(location.path).resolve()))
    if location.is_inside(source.exclusive_directory) and location != source.exclusive_directory:
        raise TargetError(
            f"expected a place outside of the source, found one in {source.exclusive_directory}",
            path=str(location),
        )


def _is_in_store(source: SavepointLocation, target: Location, query: str, location: Location) -> bool:
    """Return whether the target's store has a file of the source, by the same address and with the same credentials."""
    theirs = source.query_of(location)
    if theirs is None or location.scheme != target.scheme:
        return False
    if location.scheme == "abfs" and location.authority != target.authority:
        return False
    return dict(parse_qsl(theirs)) == dict(parse_qsl(query))
