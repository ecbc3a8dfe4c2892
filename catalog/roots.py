"""The databases under the roots of a catalog, and the part of them that one user may see.

A `Catalog` gets its databases from a `DatabaseSource`:

    RootDatabases     looks at roots, and keeps the databases that it found until the next look
    VisibleDatabases  the databases of another source that pass a test of their names
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from catalog.cache.states import StateCache
from catalog.database import Database
from catalog.discovery import DiscoveredSavepoint, find_savepoints
from catalog.errors import DuplicateDatabaseError, NoSuchDatabaseError
from catalog.freshness import RootDatabase
from catalog.naming import database_names
from catalog.references import SavepointReference
from readers import (
    METADATA_FILE_NAME,
    STATE_INFO_FILE_NAME,
    ReaderError,
    StorageOptions,
    is_url,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A folder in which a catalog looks for savepoints.

    Attributes:
        path: a savepoint, or a folder that holds some.
        label: the first part of its databases' names, as `label/…`; empty for none.
    """

    path: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningOptions:
    """How the databases of a catalog are opened.

    Attributes:
        allowed_roots: more directories that savepoints may refer to.
        path_map: recorded path prefixes and the present ones.
        uids: uids of operators of which savepoints store only the ids.
        state_info: a `stateInfo` file in place of those beside the savepoints; empty for none.
        cache: of decoded states; None for none.
        storage: how files are reached.
    """

    allowed_roots: tuple[str, ...]
    path_map: tuple[tuple[str, str], ...]
    uids: tuple[str, ...]
    state_info: str
    cache: StateCache | None
    storage: StorageOptions

    def reference(self, path: str) -> SavepointReference:
        """Return what opens the savepoint at a path."""
        return SavepointReference(
            path=path,
            roots=self.allowed_roots,
            path_map=self.path_map,
            version=savepoint_version(path, self.state_info),
            state_info=self.state_info,
            options=self.storage,
        )

    def database(self, name: str, reference: SavepointReference) -> Database:
        """Return a database of this name; opens nothing."""
        return Database(name, reference, self.uids, self.cache)


class DatabaseSource(ABC):
    """The databases of a catalog, by their own names. Safe to share between threads."""

    @abstractmethod
    def refresh(self) -> None:
        """Look at the roots again.

        Raises:
            ReaderError: a root is missing or cannot be listed; the databases stay as they were.
        """

    @abstractmethod
    def look_again(self) -> None:
        """Look at the roots again, unless that only happens on request."""

    @abstractmethod
    def all(self) -> list[Database]:
        """Return the databases under the roots, then the added ones."""

    @abstractmethod
    def under_roots(self) -> list[RootDatabase]:
        """Return the databases under the roots."""

    @abstractmethod
    def find(self, folded: str) -> Database | None:
        """Return the database of a casefolded name; None if there is none."""

    @abstractmethod
    def add(self, name: str, path: str) -> Database:
        """Register one savepoint, whether or not it is under a root.

        Raises:
            ReaderError: it cannot be opened.
            DuplicateDatabaseError: the name is taken by another path.
        """


class RootDatabases(DatabaseSource):
    """The databases under some roots, and those that were added.

    Args:
        roots: where to look.
        options: how savepoints are opened.
        rescan_after_s: seconds after which a request looks at the roots again; None for never.

    Raises:
        NotASavepointError: a root does not exist.
    """

    def __init__(self, roots: Iterable[Root], options: OpeningOptions, rescan_after_s: float | None) -> None:
        self._roots = tuple(roots)
        self._options = options
        self._rescan_after_s = rescan_after_s
        self._scanning = threading.Lock()
        self._scanned_at = 0.0
        self._lock = threading.Lock()
        self._added: dict[str, Database] = {}
        self._under_roots: dict[str, RootDatabase] = {}
        self.refresh()

    def refresh(self) -> None:
        with self._scanning:
            self._scan()

    def look_again(self) -> None:
        if self._rescan_after_s is None:
            return
        asked_at = time.monotonic()
        with self._scanning, contextlib.suppress(ReaderError, OSError):
            # Another thread may have looked while this one waited for the lock.
            if self._scanned_at <= asked_at:
                self._scan()

    def all(self) -> list[Database]:
        self._scan_if_due()
        with self._lock:
            return [*(one.database for one in self._under_roots.values()), *self._added.values()]

    def under_roots(self) -> list[RootDatabase]:
        self._scan_if_due()
        with self._lock:
            return list(self._under_roots.values())

    def find(self, folded: str) -> Database | None:
        self._scan_if_due()
        with self._lock:
            return self._known(folded)

    def add(self, name: str, path: str) -> Database:
        database = self._options.database(name, self._options.reference(path))
        database.savepoint  # noqa: B018  # opens it: an error belongs here, not to the first query
        with self._lock:
            known = self._known(name.casefold())
            if known is not None and known.reference != database.reference:
                raise DuplicateDatabaseError(f"expected a free database name, found {name!r} taken")
            if known is None:
                self._added[name.casefold()] = database
            return known or database

    def _known(self, folded: str) -> Database | None:
        # A scan may find a savepoint under a name that was added before: then the one under the root counts.
        found = self._under_roots.get(folded)
        return found.database if found is not None else self._added.get(folded)

    def _scan(self) -> None:
        self._scanned_at = time.monotonic()
        found: list[tuple[Root, DiscoveredSavepoint]] = [
            (root, one) for root in self._roots for one in find_savepoints(root.path, self._options.storage)
        ]
        # The names of all are made together: a second `chk-7` also changes the name of the first.
        names = database_names([_folders(root, one) for root, one in found])
        with self._lock:
            before = self._under_roots
            self._under_roots = {
                name.casefold(): RootDatabase(
                    self._kept_or_made(name, self._options.reference(one.path), before),
                    root.label,
                    one.modified_ns,
                )
                for name, (root, one) in zip(names, found, strict=True)
            }

    def _kept_or_made(
        self, name: str, reference: SavepointReference, before: dict[str, RootDatabase]
    ) -> Database:
        """Return the same object for a savepoint that has not changed: it knows what was read already."""
        known = before.get(name.casefold())
        if known is not None and known.database.reference == reference:
            return known.database
        return self._options.database(name, reference)

    def _scan_if_due(self) -> None:
        """Look at the roots again if it is time. A caller does not wait for another thread that looks."""
        is_due = (
            self._rescan_after_s is not None and time.monotonic() - self._scanned_at >= self._rescan_after_s
        )
        if is_due and self._scanning.acquire(blocking=False):
            try:
                # A root that cannot be listed for a moment must not fail a query of a database that is known.
                with contextlib.suppress(ReaderError, OSError):
                    self._scan()
            finally:
                self._scanning.release()


class VisibleDatabases(DatabaseSource):
    """The databases of another source whose names pass a test.

    Args:
        whole: the other source.
        sees: True for the names of visible databases.
    """

    def __init__(self, whole: DatabaseSource, sees: Callable[[str], bool]) -> None:
        self._whole = whole
        self._sees = sees

    def refresh(self) -> None:
        self._whole.refresh()

    def look_again(self) -> None:
        self._whole.look_again()

    def all(self) -> list[Database]:
        return [database for database in self._whole.all() if self._sees(database.name)]

    def under_roots(self) -> list[RootDatabase]:
        return [one for one in self._whole.under_roots() if self._sees(one.database.name)]

    def find(self, folded: str) -> Database | None:
        database = self._whole.find(folded)
        return database if database is not None and self._sees(database.name) else None

    def add(self, name: str, path: str) -> Database:
        if not self._sees(name):
            raise NoSuchDatabaseError(name, [database.name for database in self.all()])
        return self._whole.add(name, path)


def savepoint_version(path: str, state_info: str) -> str:
    """Return a text that changes when a local `_metadata` or `stateInfo` is replaced; the same for all remote files."""
    metadata = path if os.path.isfile(path) else os.path.join(path, METADATA_FILE_NAME)
    beside = os.path.join(os.path.dirname(metadata), STATE_INFO_FILE_NAME)
    return "/".join(map(_file_version, (metadata, state_info or beside)))


def _file_version(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"


def _folders(root: Root, found: DiscoveredSavepoint) -> tuple[str, ...]:
    """Return the folders that a database may be named after, outermost first."""
    if found.relative:
        return (root.label, *found.relative) if root.label else found.relative
    if root.label:
        return (root.label,)
    # The root is the savepoint itself: the folders of the path it was given as.
    bare = found.path.partition("?")[0] if is_url(found.path) else os.path.abspath(found.path)
    parts = [part for part in bare.split("/") if part]
    if parts and parts[-1] == METADATA_FILE_NAME:
        parts = parts[:-1]
    return tuple(parts[-2:]) or ("savepoint",)
