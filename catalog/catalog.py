"""`Catalog`: the databases of all roots."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from catalog.cache.states import StateCache
from catalog.database import Database
from catalog.discovery import Found, find_savepoints
from catalog.errors import DuplicateDatabaseError, NoSuchDatabaseError
from catalog.freshness import Dated, Schema, aliases_of, newest_of
from catalog.naming import database_names
from catalog.references import SavepointReference
from catalog.statetables import Table
from readers import (
    DEFAULT_OPTIONS,
    METADATA_FILE_NAME,
    STATE_INFO_FILE_NAME,
    ReaderError,
    StorageOptions,
    is_url,
)

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
        self._found: dict[str, Dated] = {}
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
            for name, (root, one) in zip(names, found, strict=True):
                reference = self._reference(one.path)
                known = before.get(name.casefold())
                database = (
                    known.database
                    if known is not None and known.database.reference == reference
                    else Database(name, reference, self._uids, self.cache)
                )
                self._found[name.casefold()] = Dated(database, root.label, one.modified_ns)

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
            return [*(one.database for one in self._found.values()), *self._added.values()]

    def _dated(self) -> list[Dated]:
        """The databases under the roots."""
        self._look_if_late()
        with self._lock:
            return list(self._found.values())

    def _find(self, folded: str) -> Database | None:
        """A database by its own name."""
        self._look_if_late()
        with self._lock:
            found = self._found.get(folded)
            return found.database if found is not None else self._added.get(folded)

    def _look_at_once(self) -> None:
        """Look at the roots again if that may happen by itself; who waited for another that looked does not look again."""
        if self._rescan_after_s is None:
            return
        asked = time.monotonic()
        with self._looking, contextlib.suppress(ReaderError, OSError):
            if self._looked <= asked:
                self._look()

    @property
    def databases(self) -> list[str]:
        """Their names; see `schemas` for aliases."""
        return [database.name for database in self._all()]

    def schemas(self) -> list[Schema]:
        """All databases; and, if there are several under the roots, behind them `latest` and the like (`catalog.freshness`)."""
        databases = self._all()
        aliases = (self._alias(name.casefold()) for name in self._aliases(databases))
        return [*(Schema(one.name, one) for one in databases), *(one for one in aliases if one is not None)]

    @property
    def schema_names(self) -> list[str]:
        """Of `schemas`."""
        databases = self._all()
        return [*(database.name for database in databases), *self._aliases(databases)]

    def _aliases(self, databases: Iterable[Database]) -> list[str]:
        dated = self._dated()
        if len(dated) < 2:
            return []
        taken = {database.name.casefold() for database in databases}
        return [name for name in aliases_of(dated) if name.casefold() not in taken]

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
        """A database by name or alias, in any case; it has its own name in both cases.

        Raises:
            NoSuchDatabaseError: near names in the error.
        """
        return self.schema(name).database

    def schema(self, name: str) -> Schema:
        """What has this name, in any case: a database, or else an alias, also if `schemas` does not list it yet.

        Raises:
            NoSuchDatabaseError: near names in the error.
        """
        folded = name.casefold()
        database = self._find(folded)
        schema = self._alias(folded) if database is None else Schema(database.name, database)
        if schema is None:
            raise NoSuchDatabaseError(name, self.schema_names)
        return schema

    def _alias(self, folded: str) -> Schema | None:
        """What an alias stands for now. Where that was removed since the last look, the next look does not wait."""
        schema = self._resolved(folded)
        if schema is None or self._is_as_found(schema.database):
            return schema
        self._look_at_once()
        return self._resolved(folded)

    def _resolved(self, folded: str) -> Schema | None:
        for name, dated in aliases_of(self._dated()).items():
            if name.casefold() == folded:
                return Schema(name, newest_of(dated))
        return None

    def _is_as_found(self, database: Database) -> bool:
        """Whether a local savepoint is still what it was at the last look; remote ones are not asked."""
        return database.reference.version == _version(database.path, database.reference.state_info)

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
            found = self._found.get(folded)
            known = found.database if found is not None else self._added.get(folded)
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
    """A part of another catalog. An alias keeps what it stood for when it was first asked: one query reads one checkpoint."""

    def __init__(self, whole: Catalog, sees: Callable[[str], bool]) -> None:
        self._whole = whole
        self.cache = whole.cache
        self._sees = sees
        self._kept: dict[str, Schema | None] = {}

    def refresh(self) -> None:
        self._whole.refresh()

    def _all(self) -> list[Database]:
        return [database for database in self._whole._all() if self._sees(database.name)]

    def _dated(self) -> list[Dated]:
        return [one for one in self._whole._dated() if self._sees(one.database.name)]

    def _find(self, folded: str) -> Database | None:
        database = self._whole._find(folded)
        return database if database is not None and self._sees(database.name) else None

    def _look_at_once(self) -> None:
        self._whole._look_at_once()

    def _alias(self, folded: str) -> Schema | None:
        if folded not in self._kept:
            self._kept.setdefault(folded, super()._alias(folded))
        return self._kept[folded]

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
    bare = found.path.partition("?")[0] if is_url(found.path) else os.path.abspath(found.path)
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
