"""Open savepoints, shared: one a process for each savepoint, however many scans and splits refer to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from readers import (
    DEFAULT_OPTIONS,
    NotASavepointError,
    ReaderError,
    Savepoint,
    SavepointLocation,
    StorageOptions,
    absolute,
    load_state_info,
)

_OPEN_SAVEPOINTS = 64


@dataclass(frozen=True, slots=True)
class SavepointReference:
    """What it takes to open a savepoint again, in this process or another.

    Attributes:
        path: its directory or `_metadata`.
        roots: more directories that it may refer to.
        path_map: recorded path prefixes and what stands there now.
        version: changes when another savepoint is put in its place.
        state_info: a `stateInfo` file to use in place of that beside it; empty for none.
        options: how files are reached.
    """

    path: str
    roots: tuple[str, ...] = ()
    path_map: tuple[tuple[str, str], ...] = ()
    version: str = ""
    state_info: str = ""
    options: StorageOptions = DEFAULT_OPTIONS

    def elsewhere(self) -> SavepointReference:
        """The same in another folder or on another machine, with the credentials that its URLs name here."""
        path, *roots = map(absolute, (self.path, *self.roots))
        path_map = tuple((recorded, absolute(actual)) for recorded, actual in self.path_map)
        return replace(
            self,
            path=path,
            roots=tuple(roots),
            path_map=path_map,
            state_info=self.state_info and absolute(self.state_info),
            options=self.options.elsewhere([path, *roots, *dict(path_map).values()]),
        )


@lru_cache(maxsize=_OPEN_SAVEPOINTS)
def open_savepoint(reference: SavepointReference) -> Savepoint:
    """The savepoint; opened once.

    Raises:
        ReaderError: it cannot be opened, or its `state_info` cannot be read.
    """
    return Savepoint(
        reference.path,
        roots=reference.roots,
        path_map=dict(reference.path_map),
        options=reference.options,
        state_info=load_state_info(reference.state_info) if reference.state_info else None,
    )


def is_gone(reference: SavepointReference) -> bool:
    """Whether nothing is where a savepoint was; False where that cannot be told."""
    try:
        SavepointLocation(reference.path, options=reference.options)
    except NotASavepointError:
        return True
    except ReaderError:
        return False
    return False
