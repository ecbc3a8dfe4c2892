"""Keyed state that other processes make: each gets a parcel, and writes one file of the target.

    target ─ reference ─┐
    maker ─ pickled ────┴─▶ parcel ─▶ another process: opens the source, joins the target, makes the state ─▶ its handle

A parcel is small: it names the source's handles, which the other process opens itself, and the parts of a file of the target that have
the rows and entries which only the writer has. These are Arrow and entries, never code.

| in the work | in the parcel |
|---|---|
| a `Source` | the id of its operator, its number among the operator's sources, and their number |
| the `SavepointLocation` | only that it is there |
| a layer of rows | a part of the file beside it: the rows of the work's key groups, as an Arrow stream |
| the entries of a new state | parts of that file: those of the work's key groups |
| all else | itself |

Pickle asks `persistent_id` and `reducer_override` for what stands for a value, and `persistent_load` for the value that it stands for.

What several makers need is made first, then the file of each subtask.
"""

from __future__ import annotations

import io
import pickle
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers import MissingFileError, Operator, ReaderError, Savepoint, SavepointLocation, Source
from readers.metadata import KeyGroupRange
from writers.changes import PlacedRows
from writers.creation.spool import SpooledEntries, StoredEntries
from writers.edits import KeyedStateMaker, MadeState, Work
from writers.errors import WriterError
from writers.target import JoinedTarget, NewFile, Target, TargetPart

# Arrow's columns are used where they are mapped.
_ALIGNMENT = 64
_SOURCE, _LOCATION, _PART = "source", "location", "part"


class PartsFile(io.RawIOBase):
    """The file of the target that has what parcels refer to.

    Args:
        name: its name.
        file: the file, still empty.
    """

    def __init__(self, name: str, file: NewFile) -> None:
        super().__init__()
        self._name = name
        self._file = file
        self._position = 0

    def writable(self) -> bool:
        """Return True: Arrow asks."""
        return True

    def write(self, chunk: Any) -> int:
        """Append bytes; return their number."""
        size = memoryview(chunk).nbytes
        self._file.write(chunk)
        self._position += size
        return size

    def part(self, write: Callable[[PartsFile], object]) -> TargetPart:
        """Return the part that a function writes."""
        self.write(bytes(-self._position % _ALIGNMENT))
        start = self._position
        write(self)
        return TargetPart(name=self._name, start=start, size_bytes=self._position - start)


class _Pickler(pickle.Pickler):
    """Pickles the work of some key groups."""

    def __init__(
        self,
        output: io.BytesIO,
        sources: dict[int, tuple[str, int, int]],
        parts: PartsFile,
        groups: KeyGroupRange | None,
    ) -> None:
        super().__init__(output, protocol=pickle.HIGHEST_PROTOCOL)
        self._sources = sources
        self._parts = parts
        self._groups = groups

    def persistent_id(self, value: object) -> tuple[Any, ...] | None:
        if isinstance(value, TargetPart):
            return _PART, value.name, value.start, value.size_bytes
        if isinstance(value, SavepointLocation):
            return (_LOCATION,)
        known = self._sources.get(id(value))
        return None if known is None else (_SOURCE, *known)

    def reducer_override(self, value: Any) -> Any:
        if self._groups is not None and isinstance(value, PlacedRows):
            kept = value.within(self._groups.start, self._groups.end)
            part = self._parts.part(lambda file: _write_rows(file, value.rows.schema, kept))
            return _layer, (type(value), value.facts, part)
        if self._groups is not None and isinstance(value, SpooledEntries):
            stored = value.stored(self._groups.start, self._groups.end, self._stored)
            return _itself, (stored,)
        return NotImplemented

    def _stored(self, data: NDArray[np.uint8]) -> TargetPart:
        return self._parts.part(lambda file: file.write(data))


class _Unpickler(pickle.Unpickler):
    """Unpickles work in a process that has joined the target."""

    def __init__(self, data: bytes, source: Callable[[], Savepoint], target: JoinedTarget | None) -> None:
        super().__init__(io.BytesIO(data))
        self._open = source
        self._target = target

    def persistent_load(self, name: tuple[Any, ...]) -> object:
        kind, *rest = name
        if kind == _PART:
            file, start, size = rest
            return TargetPart(name=file, start=start, size_bytes=size, target=self._target)
        if kind == _LOCATION:
            return self._open().location
        return self._source(*rest)

    def _source(self, operator_id: str, number: int, count: int) -> Source:
        operator = next(one for one in self._open().operators if one.operator_id == operator_id)
        if len(operator.sources) == count:
            return operator.sources[number]
        # A file that cannot be opened is none of the sources, and others have their numbers.
        for unread in operator.unread:
            if unread.error.may_pass or isinstance(unread.error, MissingFileError):
                raise unread.error
        raise MissingFileError(
            f"expected {count} state files of operator {operator_id}, found {len(operator.sources)}",
            path=self._open().path,
        )


def _write_rows(file: PartsFile, schema: pa.Schema, rows: Iterable[pa.RecordBatch]) -> None:
    with pa.ipc.new_stream(file, schema) as writer:
        for batch in rows:
            writer.write_batch(batch)


def _layer(kind: type[PlacedRows], facts: tuple[Any, ...], part: TargetPart) -> PlacedRows:
    """Return a layer with the rows of a part."""
    return kind(pa.ipc.open_stream(part.read()).read_all(), *facts)


def _itself(stored: StoredEntries) -> StoredEntries:
    return stored


class Packer:
    """Makes parcels.

    Args:
        target: the target that other processes join.
        operators: of the source; sources of others do not come into works.
    """

    def __init__(self, target: Target, operators: Iterable[Operator]) -> None:
        self._target = target
        self._reference = target.reference()
        self._sources = {
            id(source): (operator.operator_id, number, len(operator.sources))
            for operator in operators
            for number, source in enumerate(operator.sources)
        }

    def parcels(self, works: Sequence[Work]) -> list[bytes]:
        """Return a parcel for each work, and write the file beside them.

        Raises:
            TargetError: the file cannot be written.
        """
        name = f"parts-{uuid.uuid4()}"
        with self._target.create(name) as file:
            parts = PartsFile(name, file)
            return [self._parcel(work, parts) for work in works]

    def _parcel(self, work: Work, parts: PartsFile) -> bytes:
        output = io.BytesIO()
        _Pickler(output, self._sources, parts, work.groups).dump(work)
        return pickle.dumps((self._reference, output.getvalue()), protocol=pickle.HIGHEST_PROTOCOL)


def parcel_of(work: object) -> bytes:
    """Return the parcel of a work that has no target and refers to nothing that is open: its `do` takes any argument."""
    data = pickle.dumps(work, protocol=pickle.HIGHEST_PROTOCOL)
    return pickle.dumps((None, data), protocol=pickle.HIGHEST_PROTOCOL)


def done(parcel: bytes, open_source: Callable[[], Savepoint]) -> bytes:
    """Do the work of a parcel in this process; return its result, or its error, for `result_of`.

    Args:
        parcel: made by a `Packer`.
        open_source: returns the source savepoint. Work that needs none of its files does not call it.
    """
    try:
        # Unpickled without a check: the writer has pickled it.
        reference, data = pickle.loads(parcel)
        joined: Any = nullcontext()
        if reference is not None:
            joined = closing(reference.joined(lambda: open_source().location))
        with joined as target:
            work: Work = _Unpickler(data, open_source, target).load()
            return pickle.dumps((work.do(target), None), protocol=pickle.HIGHEST_PROTOCOL)
    except (ReaderError, WriterError) as error:
        return pickle.dumps((None, error), protocol=pickle.HIGHEST_PROTOCOL)


def result_of(answer: bytes) -> Any:
    """Return the result of a work.

    Raises:
        WriterError, ReaderError: of the work.
    """
    result, error = pickle.loads(answer)
    if error is not None:
        raise error
    return result


Run = Callable[[Sequence[bytes]], Sequence[bytes]]
"""Has `writers.done` called for each of some parcels in other processes; returns what it returned, in their order."""


@dataclass(frozen=True, slots=True, eq=False)
class Making(Work):
    """Makes the state of one subtask.

    Attributes:
        maker: makes it.
    """

    maker: KeyedStateMaker

    @property
    def groups(self) -> KeyGroupRange:
        return self.maker.groups

    def do(self, target: JoinedTarget) -> MadeState:
        return MadeState(handle=self.maker.make(target.create), warnings=self.maker.warnings)


def made_elsewhere(
    makers: Sequence[KeyedStateMaker], target: Target, operators: Iterable[Operator], run: Run
) -> Sequence[MadeState]:
    """Make states in other processes.

    Args:
        makers: make them.
        target: where their files go.
        operators: those of the source that makers have handles of.
        run: runs the parcels.

    Raises:
        WriterError, ReaderError: see `KeyedStateMaker.make`.
    """
    packer = Packer(target, operators)

    def results(works: Sequence[Work]) -> list[Any]:
        return [result_of(answer) for answer in run(packer.parcels(works))] if works else []

    # Makers may share what they need: it is done once.
    shared = {id(work): work for maker in makers for work in maker.preparations}
    done = dict(zip(shared, results(list(shared.values())), strict=True))
    prepared = [maker.prepared([done[id(work)] for work in maker.preparations]) for maker in makers]
    return results([Making(maker) for maker in prepared])
