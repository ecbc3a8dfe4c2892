"""References to savepoints and states: small, picklable, and opened once in each process.

`open_savepoint` keeps the savepoints of a process open, however many scans and splits refer to them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import readers
from readers import (
    DEFAULT_OPTIONS,
    MissingFileError,
    NotASavepointError,
    ReaderError,
    SavepointLocation,
    StorageOptions,
    absolute,
)

if TYPE_CHECKING:
    from readers import JobClasses, Savepoint, State

# Each keeps the headers that were read, and the state files mapped.
_OPEN_SAVEPOINTS = 64
# All savepoints of a catalog have the same.
_OPEN_JARS = 4


@dataclass(frozen=True, slots=True)
class SavepointReference:
    """All that is needed to open a savepoint again, in this process or another.

    Attributes:
        path: its directory or `_metadata`.
        roots: more directories that it may refer to.
        path_map: recorded path prefixes and the present ones.
        version: changes when another savepoint is put in its place.
        state_info: a `stateInfo` file in place of that beside it; empty for none.
        jars: jars of the job.
        options: how files are reached.
    """

    path: str
    roots: tuple[str, ...] = ()
    path_map: tuple[tuple[str, str], ...] = ()
    version: str = ""
    state_info: str = ""
    jars: tuple[str, ...] = ()
    options: StorageOptions = DEFAULT_OPTIONS

    def elsewhere(self) -> SavepointReference:
        """Return the reference for another folder or machine: absolute paths, and the credentials that its URLs name here."""
        path, *roots = map(absolute, (self.path, *self.roots))
        path_map = tuple((recorded, absolute(actual)) for recorded, actual in self.path_map)
        return replace(
            self,
            path=path,
            roots=tuple(roots),
            path_map=path_map,
            state_info=self.state_info and absolute(self.state_info),
            jars=tuple(map(absolute, self.jars)),
            options=self.options.elsewhere([path, *roots, *dict(path_map).values()]),
        )


class OpenSavepoints:
    """The savepoints that this process keeps open, the last ones asked for.

    An open savepoint keeps the errors of its files. One that failed for a reason that may pass, such as the network, is opened
    anew when it is asked for again.
    """

    def __init__(self, most: int) -> None:
        self._place = lru_cache(maxsize=most)(_Place)

    def __call__(self, reference: SavepointReference) -> Savepoint:
        """Return the open savepoint of a reference; opens it once.

        Raises:
            ReaderError: it cannot be opened, or its `state_info` or a jar cannot be read.
        """
        place = self._place(reference)
        # One thread opens it, the others wait: each would read the same headers.
        with place.lock:
            known = place.savepoint
            if known is None or known.is_stale:
                try:
                    known = place.savepoint = _opened(reference)
                except ReaderError as error:
                    if known is None:
                        raise
                    # What is open answers better than nothing; the next time for a try comes as after any failure.
                    known.location.note_failure(error)
            return known

    def cache_clear(self) -> None:
        """Forget all, as another process would know nothing."""
        self._place.cache_clear()


class _Place:
    """The place of one open savepoint; empty if it could not be opened."""

    def __init__(self, reference: SavepointReference) -> None:
        self.lock = threading.Lock()
        self.savepoint: Savepoint | None = None


open_savepoint = OpenSavepoints(_OPEN_SAVEPOINTS)


def _opened(reference: SavepointReference) -> Savepoint:
    return readers.Savepoint(
        reference.path,
        roots=reference.roots,
        path_map=dict(reference.path_map),
        options=reference.options,
        state_info=readers.load_state_info(reference.state_info) if reference.state_info else None,
        jars=_job_classes(reference.jars, reference.version) if reference.jars else None,
    )


def outline_of(reference: SavepointReference) -> bytes | None:
    """Return the outline of a savepoint; None if it has none. See `Savepoint.outline`.

    Raises:
        ReaderError: it cannot be opened.
    """
    # Not kept open: a list of thousands would close what queries read.
    return _opened(reference).outline()


@lru_cache(maxsize=_OPEN_JARS)
def _job_classes(jars: tuple[str, ...], _version: str) -> JobClasses:
    return readers.JobClasses.open(jars)


def is_gone(reference: SavepointReference) -> bool:
    """Return whether a savepoint was removed; False where its storage does not say."""
    try:
        SavepointLocation(reference.path, options=reference.options)
    except NotASavepointError:
        return True
    except ReaderError:
        # No network, no permission: that says nothing about the savepoint.
        return False
    return False


@dataclass(frozen=True, slots=True)
class StateReference:
    """All that is needed to find a state again, and to notice that it is another one.

    Attributes:
        savepoint: that it is in.
        operator_id: of its operator.
        number: of the state among those of the operator.
        name: of the state.
        parts: how many it has.
    """

    savepoint: SavepointReference
    operator_id: str
    number: int
    name: str
    parts: int

    def elsewhere(self) -> StateReference:
        """Return the reference for another folder or machine."""
        return replace(self, savepoint=self.savepoint.elsewhere())

    def state(self) -> State:
        """Return the state; reads the headers of its operator the first time.

        Raises:
            ReaderError: the savepoint cannot be opened, or less of the state than before: on another machine, or later.
        """
        states = _states_of(open_savepoint(self.savepoint), self.operator_id)
        found = states[self.number] if self.number < len(states) else None
        if found is not None and (found.name, len(found.parts)) == (self.name, self.parts):
            return found
        # A file that cannot be opened explains a missing part better than the number of parts does.
        for state in states:
            state.check(readers.Selection())
        raise MissingFileError(
            f"expected the state {self.name!r} in {self.parts} parts, found another", path=self.savepoint.path
        )


def _states_of(savepoint: Savepoint, operator_id: str) -> tuple[State, ...]:
    return next(operator.states for operator in savepoint.operators if operator.operator_id == operator_id)
