"""The databases under the roots of a catalog, how they are found, and the part of them that one user may see.

A `Catalog` gets its databases from a `DatabaseSource`:

    RootDatabases     looks at roots, and keeps the databases that it found until the next look
    VisibleDatabases  the databases of another source that pass a test of their names, with masks if need be
    KnownDatabases    databases that are known already

A root is a savepoint itself, or a folder that holds some at any depth. A savepoint is a folder with a `_metadata` file, or a
single file `savepoint-<random>` of Flink 1.2, which begins as `_metadata` does. The search enters neither savepoints nor the
data folders of checkpoints (`shared`, `taskowned`, `dstl`), and passes over hidden files: Flink's `_metadata` is one while it is written.

In each folder the search opens at most `_MAX_PROBES` files, first those with "savepoint" in their names; of remote files only
these, for each is a request.

Remote folders of one depth are listed at the same time. A folder with many savepoints and no data folder is listed with all
files below it: a request lists a thousand files, which is fewer requests than one for each savepoint.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from catalog import references
from catalog.aliases import RootDatabase
from catalog.cache.states import StateCache
from catalog.database import Database
from catalog.errors import DuplicateDatabaseError, InvalidDatabaseNameError, NoSuchDatabaseError
from readers import (
    DEFAULT_OPTIONS,
    MAGIC,
    METADATA_FILE_NAME,
    STATE_INFO_FILE_NAME,
    FileSystem,
    Listing,
    Location,
    MissingFileError,
    NotASavepointError,
    ReadCounter,
    ReaderError,
    RemoteEntry,
    RemoteFileSystem,
    StorageError,
    StorageOptions,
    file_system_of,
    given_location,
)

if TYPE_CHECKING:
    from catalog.masks.masks import Masks

_DATA_FOLDERS = frozenset({"shared", "taskowned", "dstl"})
_MAX_DEPTH = 6
_MAX_PROBES = 64
_MAGIC = MAGIC.to_bytes(4, "big")
# From so many savepoints in a folder on, one listing of all files below it takes fewer requests than one for each.
_MANY = 8
_SAVEPOINT_NAME = re.compile("chk-|savepoint-")
_NOTHING = "expected a savepoint or a folder of savepoints, found nothing"
logger = logging.getLogger("savepointdb")
_PATIENCE_S = 5.0  # for a root, while others have answered


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredSavepoint:
    """A directory with a `_metadata` file, or a file that is a savepoint.

    Attributes:
        path: begins with the root as it was given.
        relative: the folders from the root to it, and the name of a file; empty if it is the root.
        modified_ns: when `_metadata` was modified, since 1970; 0 where the file system does not say.
    """

    path: str
    relative: tuple[str, ...]
    modified_ns: int


def find_savepoints(root: str, options: StorageOptions = DEFAULT_OPTIONS) -> Iterator[DiscoveredSavepoint]:
    """Yield all savepoints under `root`, in the order of their paths.

    Raises:
        NotASavepointError: the root does not exist.
        AccessDeniedError: a remote folder may not be listed; the folder of a savepoint is not listed.
        StorageError: the file system fails.
    """
    location, query = given_location(root)
    system = file_system_of(location, query, options)
    bare = root.partition("?")[0] if query else root
    if isinstance(system, RemoteFileSystem):
        metadata = location if location.name == METADATA_FILE_NAME else location / METADATA_FILE_NAME
        if metadata == location or system.identity(metadata):
            yield DiscoveredSavepoint(path=root, relative=(), modified_ns=system.modified_ns(metadata))
            return
        found = dict(_below(system, location))
        # An object store knows a folder only by the files in it, but a bucket may be empty.
        if not found and location.path != "/" and not system.is_directory(location):
            raise NotASavepointError(_NOTHING, path=str(location))
    else:
        bare = location.path if root.startswith("file:") else root
        if os.path.isfile(location.path):
            yield DiscoveredSavepoint(path=bare, relative=(), modified_ns=_modified_ns(location))
            return
        if not system.is_directory(location):
            raise NotASavepointError(_NOTHING, path=location.path)
        found = {names: _modified_ns(_folder(location, names)) for names in _walk(system, location, ())}
    # Listings come in any order, and names of databases must not depend on it.
    for relative in sorted(found, key=lambda names: [_natural(name) for name in names]):
        path = "/".join((bare.rstrip("/"), *relative)) if relative else bare
        yield DiscoveredSavepoint(
            path=f"{path}?{query}" if query else path, relative=relative, modified_ns=found[relative]
        )


def modified_at(path: str, options: StorageOptions = DEFAULT_OPTIONS) -> int:
    """Return when a savepoint was modified, since 1970; needs no request if it is open; 0 if that is not known."""
    location, query = given_location(path)
    system = file_system_of(location, query, options)
    if not isinstance(system, RemoteFileSystem):
        return _modified_ns(location)
    metadata = location if location.name == METADATA_FILE_NAME else location / METADATA_FILE_NAME
    return system.modified_ns(metadata)


def _walk(system: FileSystem, folder: Location, relative: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    listing = system.folder(folder)
    if METADATA_FILE_NAME in listing.files:
        yield relative
        return
    yield from ((*relative, name) for name in _single_files(system, folder, listing))
    if len(relative) < _MAX_DEPTH:
        for name in listing.folders:
            if name not in _DATA_FOLDERS:
                yield from _walk(system, folder / name, (*relative, name))


def _below(system: RemoteFileSystem, root: Location) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield (folders to a savepoint, when it was modified), depth by depth; lists the folders of a depth at the same time."""
    level: list[tuple[str, ...]] = [()]
    for _ in range(_MAX_DEPTH + 1):
        listings = system.threads.map(lambda names: _look(system, _folder(root, names)), level)
        following: list[tuple[str, ...]] = []
        for relative, (folders, found) in zip(level, listings, strict=True):
            yield from ((relative + names, modified_ns) for names, modified_ns in found)
            following += ((*relative, name) for name in folders)
        level = following


def _single_files(system: FileSystem, folder: Location, listing: Listing) -> Iterator[str]:
    """Yield the names of the files that are savepoints."""
    # Flink writes `._metadata.inprogress.<random>`, and gives it its name at the end: until then there is no checkpoint.
    names = [name for name in sorted(listing.files) if not name.startswith(".")]
    files = {name: "savepoint" in name.casefold() for name in names}
    named = [name for name, is_named in files.items() if is_named]
    others = [name for name, is_named in files.items() if not is_named] if system.is_local else []
    # A root may be a folder of anything, with a million files: to open them all would take minutes.
    for name in (*named, *others)[:_MAX_PROBES]:
        if _begins_as_metadata(system, folder / name):
            yield name


def _begins_as_metadata(system: FileSystem, file: Location) -> bool:
    """Return whether a file can be read and has the magic number; does not open links, which may lead out of the root."""
    try:
        with system.open(file, 0, len(_MAGIC), ReadCounter()) as stream:
            return bytes(stream.view(0, len(_MAGIC)).data) == _MAGIC
    except ReaderError:
        return False


def _folder(root: Location, names: tuple[str, ...]) -> Location:
    return root / "/".join(names) if names else root


def _look(system: RemoteFileSystem, folder: Location) -> tuple[list[str], list[tuple[tuple[str, ...], int]]]:
    """Return the folders to enter, and (relative folders, time) of the savepoints that the listing of `folder` shows."""
    try:
        entries = system.below(folder, recursive=False)
    except MissingFileError:
        return [], []
    own = _savepoints(entries)
    if own:
        return [], own
    folders = [entry.names[0] for entry in entries if entry.is_folder]
    files = {entry.names[0]: entry.modified_ns for entry in entries if not entry.is_folder}
    listing = Listing(folders=tuple(folders), files=tuple(files))
    single: list[tuple[tuple[str, ...], int]] = [
        ((name,), files[name]) for name in _single_files(system, folder, listing)
    ]
    if len(folders) >= _MANY and all(map(_SAVEPOINT_NAME.match, folders)):
        below = _savepoints(system.below(folder, recursive=True))
        if below:
            return [], single + below
    return [name for name in folders if name not in _DATA_FOLDERS], single


def _savepoints(entries: list[RemoteEntry]) -> list[tuple[tuple[str, ...], int]]:
    """Return (folders to it, when it was modified) of each `_metadata` file."""
    return [
        (entry.names[:-1], entry.modified_ns)
        for entry in entries
        if entry.names[-1] == METADATA_FILE_NAME and not entry.is_folder
    ]


def _modified_ns(savepoint: Location) -> int:
    """Return when a savepoint was modified: the file if it is one, else its `_metadata`."""
    metadata = savepoint if os.path.isfile(savepoint.path) else savepoint / METADATA_FILE_NAME
    try:
        return os.stat(metadata.path).st_mtime_ns
    except OSError:
        return 0


def _natural(name: str) -> tuple[str, int]:
    """Return a key that sorts `chk-9` before `chk-10`."""
    if name.startswith("chk-") and name[4:].isdigit():
        return "chk-", int(name[4:])
    return name, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningOptions:
    """How the databases of a catalog are opened.

    Attributes:
        allowed_roots: more directories that savepoints may refer to.
        path_map: recorded path prefixes and the present ones.
        uids: uids of operators of which savepoints store only the ids.
        state_info: a `stateInfo` file in place of those beside the savepoints; empty for none.
        jars: jars of the job.
        cache: of decoded states; None for none.
        storage: how files are reached.
        facts: what clusters of Flink say of savepoints.
    """

    allowed_roots: tuple[str, ...]
    path_map: tuple[tuple[str, str], ...]
    uids: tuple[str, ...]
    state_info: str
    jars: tuple[str, ...]
    cache: StateCache | None
    storage: StorageOptions
    facts: references.KnownFacts

    def reference(self, path: str) -> references.SavepointReference:
        """Return what opens the savepoint at a path."""
        return references.SavepointReference(
            path=path,
            roots=self.allowed_roots,
            path_map=self.path_map,
            version=savepoint_version(path, self.state_info, self.jars),
            state_info=self.state_info,
            jars=self.jars,
            options=self.storage,
        )

    def database(
        self, name: str, reference: references.SavepointReference, modified_ns: int, job: references.JobPlace
    ) -> Database:
        """Return a database of this name; opens nothing."""
        return Database(name, reference, self.uids, self.cache, modified_ns, job, self.facts)


class _Look:
    """One look at a root, in a thread of its own: a mount that hangs holds up nobody else."""

    def __init__(self, root: references.Root, options: StorageOptions) -> None:
        self.until = time.monotonic() + _PATIENCE_S
        self.found: Future[list[DiscoveredSavepoint]] = Future()
        self._root, self._options = root, options
        threading.Thread(target=self._run, name=f"root {root.label}", daemon=True).start()

    def result(self) -> list[DiscoveredSavepoint]:
        """Return what was found.

        Raises:
            ReaderError: the root cannot be listed, or has not answered so far.
            OSError: it cannot be listed.
        """
        if not self.found.done():
            raise StorageError(
                f"expected an answer within {_PATIENCE_S:g} s, found none so far", path=self._root.path
            )
        return self.found.result()

    def _run(self) -> None:
        try:
            self.found.set_result(list(find_savepoints(self._root.path, self._options)))
        except (ReaderError, OSError) as error:
            self.found.set_exception(error)
        except BaseException as error:  # who waits for the root must not wait for ever
            self.found.set_exception(StorageError(f"expected a root that can be listed, found {error!r}"))


class RootDatabases:
    """The databases under some roots, and those that were added.

    Args:
        roots: where to look.
        options: how savepoints are opened.
        rescan_after_s: seconds after which a request looks at the roots again; None for never.
        allow_missing: whether roots may be missing as long as one is there; the log names them.

    Raises:
        NotASavepointError: a root does not exist.
        ConflictingRootsError: two roots have one label, or one is inside another.
    """

    def __init__(
        self,
        roots: Iterable[references.Root],
        options: OpeningOptions,
        rescan_after_s: float | None,
        *,
        allow_missing: bool = False,
    ) -> None:
        given = tuple(roots)
        self._allow_missing = allow_missing
        self._missing: dict[str, str] = {}
        # Label → a look that has not ended.
        self._looks: dict[str, _Look] = {}
        self._roots = references.labelled(given)
        self._has_latest = len(given) > 1 or any(root.label for root in given)
        self._options = options
        self._rescan_after_s = rescan_after_s
        self._scanning = threading.Lock()
        self._scanned_at = 0.0
        self._lock = threading.Lock()
        self._added: dict[str, Database] = {}
        self._under_roots: dict[str, RootDatabase] = {}
        self._folded: dict[str, list[str]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look at the roots again.

        Raises:
            ReaderError: a root is missing or cannot be listed, or all of them where some may be; the databases stay as they were.
        """
        with self._scanning:
            self._scan()

    def look_again(self) -> None:
        """Look at the roots again, unless that only happens on request."""
        if self._rescan_after_s is None:
            return
        asked_at = time.monotonic()
        with self._scanning, contextlib.suppress(ReaderError, OSError):
            # Another thread may have looked while this one waited for the lock.
            if self._scanned_at <= asked_at:
                self._scan()

    def all(self) -> list[Database]:
        """Return the databases under the roots, then the added ones."""
        self._scan_if_due()
        with self._lock:
            return [*(one.database for one in self._under_roots.values()), *self._added.values()]

    def under_roots(self) -> list[RootDatabase]:
        """Return the databases under the roots."""
        self._scan_if_due()
        with self._lock:
            return list(self._under_roots.values())

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the roots."""
        return tuple(root.label for root in self._roots)

    def find(self, name: str) -> list[Database]:
        """Return the database of a name; if there is none, all whose names differ from it only in case."""
        self._scan_if_due()
        with self._lock:
            return self._known(name)

    def add(self, name: str, path: str) -> Database:
        """Register one savepoint, whether or not it is under a root.

        Raises:
            ReaderError: it cannot be opened.
            InvalidDatabaseNameError: a URL would have to escape the name.
            DuplicateDatabaseError: the name is taken by another path, or a savepoint under a root may get it.
        """
        reference = self._options.reference(path)
        references.open_savepoint(reference)  # an error belongs here, not to the first query
        with self._lock:
            known = self._known(name)
            if known and known[0].reference == reference:
                return known[0]
            if known:
                raise DuplicateDatabaseError(f"expected a free database name, found {name!r} taken")
            self._check_free(name)
            modified_ns = modified_at(path, self._options.storage)
            self._added[name] = self._options.database(
                name, reference, modified_ns, references.job_place(name, (), path)
            )
            return self._added[name]

    def _check_free(self, name: str) -> None:
        if not references.is_free_name(name):
            raise InvalidDatabaseNameError(
                "expected a database name of at most 200 ASCII letters, digits, '-', '.' and '_', "
                f"found {name!r:.210}"
            )
        for label in map(references.database_name, self.labels):
            own = name.casefold()
            if own == label.casefold() or own.startswith(label.casefold() + references.SEPARATOR):
                raise DuplicateDatabaseError(
                    f"expected a database name that does not begin with the label {label!r} of a root, found {name!r}"
                )

    def _known(self, name: str) -> list[Database]:
        found = self._under_roots.get(name)
        if found is not None:
            return [found.database]
        if name in self._added:
            return [self._added[name]]
        folded = name.casefold()
        alike = [self._under_roots[one].database for one in self._folded.get(folded, ())]
        return alike + [one for one in self._added.values() if one.name.casefold() == folded]

    def _scan(self) -> None:
        self._scanned_at = time.monotonic()
        before = self._under_roots
        databases: list[RootDatabase] = []
        failures: dict[str, ReaderError | OSError] = {}
        self._look()
        for root in self._roots:
            try:
                found = self._found_under(root)
            except (ReaderError, OSError) as error:
                failures[root.label] = error
                if not self._allow_missing or len(failures) == len(self._roots):
                    raise
                # Its files may be back with the next query: a database that is known stays known.
                databases += [one for one in before.values() if one.label == root.label]
            else:
                databases += [self._root_database(root, one, before) for one in found]
        self._log_missing({label: str(error) for label, error in failures.items()})
        folded: dict[str, list[str]] = {}
        for one in databases:
            folded.setdefault(one.database.name.casefold(), []).append(one.database.name)
        with self._lock:
            self._under_roots = {one.database.name: one for one in databases}
            self._folded = folded

    def _look(self) -> None:
        """Look at the roots at the same time if some may be missing, and wait for them as long as that helps."""
        if not self._allow_missing or len(self._roots) == 1:
            return
        for root in self._roots:
            # One that hangs is not looked at twice.
            if root.label not in self._looks:
                self._looks[root.label] = _Look(root, self._options.storage)
        looks = self._looks.values()
        while left := [look for look in looks if not look.found.done()]:
            wait_s = max(look.until for look in left) - time.monotonic()
            # While no root has answered there is nothing to serve.
            if wait_s <= 0 and any(look.found.done() and not look.found.exception() for look in looks):
                break
            wait([look.found for look in left], wait_s if wait_s > 0 else None, FIRST_COMPLETED)

    def _found_under(self, root: references.Root) -> list[DiscoveredSavepoint]:
        look = self._looks.get(root.label)
        if look is None:
            return list(find_savepoints(root.path, self._options.storage))
        if look.found.done():
            del self._looks[root.label]
        return look.result()

    def _log_missing(self, missing: dict[str, str]) -> None:
        """Log the roots that are missing since this look, and those that are back."""
        for label in missing.keys() - self._missing.keys():
            logger.warning("root %s cannot be read; the others are served: %s", label, missing[label])
        for label in self._missing.keys() - missing.keys():
            logger.warning("root %s can be read again", label)
        self._missing = missing

    def _root_database(
        self, root: references.Root, found: DiscoveredSavepoint, before: dict[str, RootDatabase]
    ) -> RootDatabase:
        """Return a database, the same object for a savepoint that has not changed: it knows what was read already."""
        name = references.database_name(root.label, found.relative)
        reference = self._options.reference(found.path)
        known = before[name].database if name in before else None
        if (
            known is None
            or known.reference != reference
            # A remote file says only by its time that it was replaced.
            or known.modified_ns != found.modified_ns
        ):
            place = references.job_place(root.label, found.relative, found.path)
            known = self._options.database(name, reference, found.modified_ns, place)
        return RootDatabase(
            database=known,
            label=root.label,
            modified_ns=found.modified_ns,
            folders=found.relative,
            tail=found.relative or references.folders_above(found.path),
            has_latest=self._has_latest and bool(found.relative),
        )

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


class VisibleDatabases:
    """The databases of another source whose names pass a test.

    Args:
        whole: the other source.
        sees: True for the names of visible databases.
        masks: what stands in place of values in all tables; None for the values themselves.
    """

    def __init__(
        self, whole: DatabaseSource, sees: Callable[[str], bool], masks: Masks | None = None
    ) -> None:
        self._whole = whole
        self._sees = sees
        self._masks = masks

    def refresh(self) -> None:
        self._whole.refresh()

    def look_again(self) -> None:
        self._whole.look_again()

    def all(self) -> list[Database]:
        return [self._shown(one) for one in self._whole.all() if self._sees(one.name)]

    def under_roots(self) -> list[RootDatabase]:
        found = [one for one in self._whole.under_roots() if self._sees(one.database.name)]
        if self._masks is None:
            return found
        return [one._replace(database=self._shown(one.database)) for one in found]

    @property
    def labels(self) -> tuple[str, ...]:
        return self._whole.labels

    def find(self, name: str) -> list[Database]:
        return [self._shown(one) for one in self._whole.find(name) if self._sees(one.name)]

    def add(self, name: str, path: str) -> Database:
        if not self._sees(name):
            raise NoSuchDatabaseError(name, [database.name for database in self.all()])
        return self._shown(self._whole.add(name, path))

    def _shown(self, database: Database) -> Database:
        return database if self._masks is None else database.masked(self._masks)


class KnownDatabases:
    """Databases that are known already: nothing is looked for.

    Args:
        databases: the databases, in the order in which they are listed.
        names: more databases by names in lower case, None for a name that must have none; they are not listed.
    """

    def __init__(self, databases: Iterable[Database], names: Mapping[str, Database | None]) -> None:
        self._databases = tuple(databases)
        self._names = names

    def refresh(self) -> None:
        pass

    def look_again(self) -> None:
        pass

    def all(self) -> list[Database]:
        return list(self._databases)

    def under_roots(self) -> list[RootDatabase]:
        return [
            RootDatabase(
                database=database,
                label=database.name,
                modified_ns=database.modified_ns,
                folders=(),
                tail=references.folders_above(database.path),
                has_latest=False,
            )
            for database in self._databases
        ]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(database.name for database in self._databases)

    def find(self, name: str) -> list[Database]:
        folded = name.casefold()
        if folded in self._names:
            named = self._names[folded]
            if named is None:
                # Not even an alias may have this name.
                raise NoSuchDatabaseError(name, [])
            return [named]
        own = [database for database in self._databases if database.name == name]
        return own or [one for one in self._databases if one.name.casefold() == folded]

    def add(self, name: str, path: str) -> Database:
        raise DuplicateDatabaseError(f"expected only databases that are known, found {name!r} to add")


DatabaseSource: TypeAlias = RootDatabases | VisibleDatabases | KnownDatabases
"""The databases of a catalog, by their own names. Safe to share between threads."""


def savepoint_version(path: str, state_info: str, jars: Sequence[str] = ()) -> str:
    """Return a text that changes when a local `_metadata`, `stateInfo` or jar is replaced; the same for all remote files."""
    metadata = path if os.path.isfile(path) else os.path.join(path, METADATA_FILE_NAME)
    beside = os.path.join(os.path.dirname(metadata), STATE_INFO_FILE_NAME)
    named = state_info or beside
    # Few savepoints have a stateInfo, which may name jars in its folder.
    beside_it = Path(named).parent.glob("*.jar") if os.path.isfile(named) else ()
    return "/".join(map(_file_version, (metadata, named, *jars, *sorted(map(str, beside_it)))))


def _file_version(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"
