"""`Catalog`: the databases of all roots."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from catalog.database import Database
from catalog.discovery import Found, find_savepoints
from catalog.errors import DuplicateDatabaseError, NoSuchDatabaseError
from catalog.naming import database_names
from catalog.savepoints import SavepointReference
from catalog.statecache import StateCache
from catalog.tables import Table
from readers.errors import ReaderError
from readers.stateinfo.file import STATE_INFO_FILE_NAME
from readers.storage import DEFAULT_OPTIONS, METADATA_FILE_NAME, StorageOptions

# So many `_metadata` files are read at a time: where each is a request, that is what takes long.
_READERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A place to look for savepoints.

    Attributes:
        path: a savepoint, or a folder that holds some.
        label: stands before the names of its databases, as `label/…`; empty for none.
    """

    path: str
    label: str = ""


class Catalog:
    """All databases under some roots. Safe to share between threads.

    Args:
        roots: where to look.
        allowed_roots: more directories that savepoints may refer to.
        path_map: recorded path prefixes and what stands there now.
        uids: uids whose operators are to be known by them where a savepoint stores only ids.
        state_info: a `stateInfo` file for all of them, in place of those beside them.
        rescan_after_s: look at the roots again when databases are asked for so long after the last look; never by itself
            if None.
        cache: of decoded states; None for none.
        options: how files are reached.

    Raises:
        NotASavepointError: a root that is not there.
    """

    def __init__(
        self,
        roots: Iterable[Root] = (),
        *,
        allowed_roots: Sequence[str] = (),
        path_map: Mapping[str, str] | None = None,
        uids: Sequence[str] = (),
        state_info: str | os.PathLike[str] | None = None,
        rescan_after_s: float | None = None,
        cache: StateCache | None = None,
        options: StorageOptions = DEFAULT_OPTIONS,
    ) -> None:
        self._roots = tuple(roots)
        self._allowed_roots = tuple(allowed_roots)
        self._path_map = tuple(sorted((path_map or {}).items()))
        self._uids = tuple(uids)
        self._state_info = "" if state_info is None else os.fspath(state_info)
        self._rescan_after_s = rescan_after_s
        self._looking = threading.Lock()
        self._looked = 0.0
        self.cache = cache
        self._options = options
        self._lock = threading.Lock()
        self._added: dict[str, Database] = {}
        self._found: dict[str, Database] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look at the roots again: new savepoints appear, those that are gone disappear; of the others no file is opened.

        Raises:
            ReaderError: a root that is not there, or cannot be looked at; the databases stay as they were.
        """
        with self._looking:
            self._look()

    def _look(self) -> None:
        self._looked = time.monotonic()
        found: list[tuple[Root, Found]] = [
            (root, one) for root in self._roots for one in find_savepoints(root.path, self._options)
        ]
        names = database_names([_folders(root, one) for root, one in found])
        with self._lock:
            before = self._found
            self._found = {}
            for name, (_, one) in zip(names, found, strict=True):
                reference = self._reference(one.path)
                known = before.get(name.casefold())
                kept = known is not None and known.reference == reference
                self._found[name.casefold()] = (
                    known if known and kept else Database(name, reference, self._uids, self.cache)
                )

    def _look_if_late(self) -> None:
        """Look at the roots again if it is time; who comes while another looks takes what is known."""
        late = self._rescan_after_s is not None and time.monotonic() - self._looked >= self._rescan_after_s
        if late and self._looking.acquire(blocking=False):
            try:
                with contextlib.suppress(ReaderError, OSError):
                    self._look()
            finally:
                self._looking.release()

    def _all(self) -> list[Database]:
        self._look_if_late()
        with self._lock:
            return [*self._found.values(), *self._added.values()]

    @property
    def databases(self) -> list[str]:
        """Their names."""
        return [database.name for database in self._all()]

    def described(self) -> list[Database]:
        """All databases. Of each the `_metadata` has been read once, if it can be: several at a time, and not again."""
        databases = self._all()
        unread = [database for database in databases if not database.is_described]
        if len(unread) > 1:
            with ThreadPoolExecutor(min(_READERS, len(unread)), thread_name_prefix="catalog") as readers:
                list(readers.map(_describe, unread))
        return databases

    @property
    def default(self) -> Database | None:
        """The only database, if there is just one."""
        names = self.databases
        return self.database(names[0]) if len(names) == 1 else None

    def database(self, name: str) -> Database:
        """A database by name, in any case.

        Raises:
            NoSuchDatabaseError: near names in the error.
        """
        folded = name.casefold()
        self._look_if_late()
        with self._lock:
            database = self._found.get(folded) or self._added.get(folded)
        if database is None:
            raise NoSuchDatabaseError(name, self.databases)
        return database

    def table(self, name: str) -> Table:
        """A table of the default database.

        Raises:
            NoSuchDatabaseError: there are several databases, or none.
            NoSuchTableError: near names in the error.
        """
        default = self.default
        if default is None:
            raise NoSuchDatabaseError("(default)", self.databases)
        return default.table(name)

    def add(self, name: str, path: str) -> Database:
        """Register one savepoint, whether or not it is under a root.

        Raises:
            ReaderError: it cannot be opened.
            DuplicateDatabaseError: the name is taken by another path.
        """
        database = Database(name, self._reference(path), self._uids, self.cache)
        database.savepoint  # noqa: B018  # opens it: an error belongs here, not to the first query
        with self._lock:
            folded = name.casefold()
            known = self._found.get(folded) or self._added.get(folded)
            if known is not None and known.reference != database.reference:
                raise DuplicateDatabaseError(f"expected a free database name, found {name!r} taken")
            if known is None:
                self._added[folded] = database
            return known or database

    def visible(self, sees: Callable[[str], bool]) -> Catalog:
        """This catalog with those databases only whose names `sees` says yes to: the others are not there."""
        return _VisibleCatalog(self, sees)

    def _reference(self, path: str) -> SavepointReference:
        return SavepointReference(
            path=path,
            roots=self._allowed_roots,
            path_map=self._path_map,
            version=_version(path, self._state_info),
            state_info=self._state_info,
            options=self._options,
        )


class _VisibleCatalog(Catalog):
    """A part of another catalog."""

    def __init__(self, whole: Catalog, sees: Callable[[str], bool]) -> None:
        self._whole = whole
        self.cache = whole.cache
        self._sees = sees

    def refresh(self) -> None:
        self._whole.refresh()

    @property
    def databases(self) -> list[str]:
        return [name for name in self._whole.databases if self._sees(name)]

    def described(self) -> list[Database]:
        return [database for database in self._whole.described() if self._sees(database.name)]

    def database(self, name: str) -> Database:
        if self._sees(name):
            try:
                return self._whole.database(name)
            except NoSuchDatabaseError:
                pass
        raise NoSuchDatabaseError(name, self.databases)

    def add(self, name: str, path: str) -> Database:
        if not self._sees(name):
            raise NoSuchDatabaseError(name, self.databases)
        return self._whole.add(name, path)


def connect(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    roots: Sequence[str] = (),
    path_map: Mapping[str, str] | None = None,
    uids: Sequence[str] = (),
    state_info: str | os.PathLike[str] | None = None,
    cache: StateCache | None = None,
    options: StorageOptions = DEFAULT_OPTIONS,
) -> Catalog:
    """The catalog of one path: a savepoint, a checkpoint, a `_metadata` file, or a folder that holds several.

    Args:
        path: local or remote.
        name: of the database, if the path is a savepoint; else a label before their names.
        roots: more directories that savepoints may refer to.
        path_map: recorded path prefixes and what stands there now.
        uids: uids whose operators are to be known by them.
        state_info: a `stateInfo` file, in place of that beside the savepoint.
        cache: of decoded states; None for none.
        options: how files are reached.

    Raises:
        NotASavepointError: nothing is there, or no savepoint.
    """
    return Catalog(
        [Root(path=os.fspath(path), label=name or "")],
        allowed_roots=roots,
        path_map=path_map,
        uids=uids,
        state_info=state_info,
        cache=cache,
        options=options,
    )


def _describe(database: Database) -> None:
    with contextlib.suppress(ReaderError):
        database.describe()


def _folders(root: Root, found: Found) -> tuple[str, ...]:
    """The folders that a database may be named after, outermost first."""
    if found.relative:
        return (root.label, *found.relative) if root.label else found.relative
    if root.label:
        return (root.label,)
    bare = found.path.partition("?")[0] if "://" in found.path else os.path.abspath(found.path)
    parts = [part for part in bare.split("/") if part]
    if parts and parts[-1] == METADATA_FILE_NAME:
        parts = parts[:-1]
    return tuple(parts[-2:]) or ("savepoint",)


def _version(path: str, state_info: str) -> str:
    """Changes when another `_metadata` or `stateInfo` is put in the place of this one; of remote files it says nothing."""
    metadata = path if os.path.isfile(path) else os.path.join(path, METADATA_FILE_NAME)
    beside = os.path.join(os.path.dirname(metadata), STATE_INFO_FILE_NAME)
    return "/".join(map(_file_version, (metadata, state_info or beside)))


def _file_version(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"
