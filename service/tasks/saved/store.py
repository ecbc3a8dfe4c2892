"""`SavedQueries`: the queries of a file, and those that clients save; `UserQueries`: those of one user.

| path | holds |
|---|---|
| `queries.toml` | what people write; it is only read, so its comments and its order stay as they are |
| `queries.toml.d/NAME.toml` | one query that a client saved, in the same form: it may be moved into the file above |
| `queries.toml.d/NAME~2.toml` | another of that name, of a client who does not see the first one, and is not told of it |

Of several queries with one name a user has the first one that the user sees: that of the file, and then those of the folder in this
order. Several services may use one file and one folder: a file of the folder appears, changes and goes as a whole, and each service
sees it within a second.

| what | who may |
|---|---|
| see and run a query | users who see the database of the query, where it names one; it reads what its caller may read |
| save, replace and delete one | users with a grant such as `saved:prod/*` for the database, where the service saves queries of clients |

A query that its caller may not see is not there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from catalog import Catalog, NoSuchDatabaseError
from catalog.errors import AmbiguousDatabaseError, near_names
from service.base.errors import ConflictError, ForbiddenError, LimitExceededError, near_names_hint
from service.base.machine import write_whole
from service.base.principal import Principal
from service.query.running.request import sendable
from service.tasks.saved.query import (
    MOST_QUERIES,
    NoSuchSavedQueryError,
    SavedQuery,
    SavedQueryFileError,
    check_name,
    parse_queries,
    saved_query,
    toml_of,
)

_SUFFIX = ".toml"
# No name has it.
_ANOTHER = "~"
_LOOK_EVERY_S = 1.0
# The service reads the files while it runs: a wrong path must not fill its memory.
_MOST_BYTES = 4 << 20

_Stamp = tuple[tuple[str, int, int, int], ...]
_Sees = Callable[[SavedQuery], bool]


def _everything(_query: SavedQuery) -> bool:
    return True


class SavedQueries:
    """All saved queries. Safe to share between threads.

    Args:
        path: path of the file that people write; empty for no queries.
        is_writable: True if clients save queries; neither the file nor the folder need exist then.

    Raises:
        SavedQueryFileError: a file is missing, cannot be read, or is not as documented.
    """

    def __init__(self, path: str | os.PathLike[str] = "", *, is_writable: bool = False) -> None:
        self._path = Path(path) if os.fspath(path) else None
        self._folder = None if self._path is None else self._path.with_name(self._path.name + ".d")
        self._is_writable = is_writable
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._stamp: _Stamp | None = None
        # With the file that each is in: of two with one name the first one counts.
        self._queries: Sequence[tuple[Path, SavedQuery]] = ()
        self._current()
        if self._path is not None and not self._stamp and not is_writable:
            raise _file_error(self._path, "expected a file of saved queries, found none")

    @property
    def is_open(self) -> bool:
        """True if there may be queries."""
        return self._path is not None

    @property
    def is_writable(self) -> bool:
        """True if clients may save queries."""
        return self.is_open and self._is_writable

    def names(self) -> list[str]:
        """Return the names of all queries, in their order."""
        return list(self.all())

    def all(self, sees: _Sees = _everything) -> Mapping[str, SavedQuery]:
        """Return the queries that a user sees by name, in the order of the names, as they are at one moment."""
        found = {query.name: query for _, query in reversed(self._current()) if sees(query)}
        return dict(sorted(found.items()))

    def get(self, name: str, sees: _Sees = _everything) -> SavedQuery:
        """Return the query of a name.

        Raises:
            NoSuchSavedQueryError: there is none; near names are in the hint.
        """
        found = self.all(sees)
        if name not in found:
            raise _no_such_query(name, list(found))
        return found[name]

    def put(self, query: SavedQuery, *, is_new: bool = False, sees: _Sees = _everything) -> None:
        """Save a query in the folder.

        Args:
            query: the query.
            is_new: True if no query may have its name; else it replaces one that a client saved.
            sees: which queries the user sees who saves it. The others keep their names, and stay as they are.

        Raises:
            ConflictError: its name is taken, or is one of the file, which no client changes.
            LimitExceededError: there are too many queries.
            SavedQueryFileError: it cannot be written.
        """
        target = self._target(query.name, sees)
        known = self._current(is_urgent=True)
        if target is None and len(known) >= MOST_QUERIES:
            raise LimitExceededError(f"expected at most {MOST_QUERIES} saved queries, found as many already")
        if is_new and target is not None:
            raise _taken(query.name)
        is_new = target is None
        target = target or self._free(query.name, {path for path, _ in known})
        try:
            # Of two services that save a new query under one name, one is refused.
            write_whole(target, toml_of(query), is_new=is_new)
        except FileExistsError as error:
            raise _taken(query.name) from error
        except OSError as error:
            raise _file_error(target, f"expected to write it, found {error.strerror}") from error
        self._current(is_urgent=True)

    def delete(self, name: str, sees: _Sees = _everything) -> None:
        """Remove a query that a client saved, and that the user sees who removes it.

        Raises:
            NoSuchSavedQueryError: there is none.
            ConflictError: it is one of the file, which no client changes.
            SavedQueryFileError: it cannot be removed.
        """
        target = self._target(name, sees)
        if target is None:
            raise _no_such_query(name, list(self.all(sees)))
        try:
            target.unlink()
        except FileNotFoundError as error:
            raise _no_such_query(name, list(self.all(sees))) from error
        except OSError as error:
            raise _file_error(target, f"expected to write it, found {error.strerror}") from error
        self._current(is_urgent=True)

    def _target(self, name: str, sees: _Sees) -> Path | None:
        """Return the file of the query of a name that a client changes; None if the client sees none."""
        # Before it becomes a part of a path.
        check_name(name)
        if self._folder is None:
            raise SavedQueryFileError(
                "expected a file of saved queries, found none", hint="the setting saved_queries names it"
            )
        current = self._current(is_urgent=True)
        path, known = next((one for one in current if one[1].name == name and sees(one[1])), (None, None))
        if known is not None and known.is_written_by_hand:
            raise ConflictError(
                f"expected a query that a client saved, found {name!r} in the file of the service",
                hint="the owner of the service changes it there",
            )
        return path

    def _free(self, name: str, taken: set[Path]) -> Path:
        assert self._folder is not None
        stems = (name if number == 1 else f"{name}{_ANOTHER}{number}" for number in count(1))
        paths = (self._folder / f"{stem}{_SUFFIX}" for stem in stems)
        return next(path for path in paths if path not in taken)

    def _current(self, *, is_urgent: bool = False) -> Sequence[tuple[Path, SavedQuery]]:
        """Return all queries; looks at the files at most once a second unless it is urgent."""
        with self._lock:
            if self._path is not None and (is_urgent or time.monotonic() - self._looked > _LOOK_EVERY_S):
                stamp = tuple(self._stamps())
                if stamp != self._stamp:
                    self._queries = self._read()
                    self._stamp = stamp
                self._looked = time.monotonic()
            return self._queries

    def _stamps(self) -> Iterator[tuple[str, int, int, int]]:
        for path in self._paths():
            try:
                status = path.stat()
            except OSError:
                continue
            yield str(path), status.st_size, status.st_mtime_ns, status.st_ino

    def _paths(self) -> list[Path]:
        assert self._path is not None
        assert self._folder is not None
        try:
            names = sorted(os.listdir(self._folder))
        except OSError:
            names = []
        # Names with a dot in front are files on their way.
        saved = [self._folder / name for name in names if name.endswith(_SUFFIX) and name[0] != "."]
        return [self._path, *saved[: MOST_QUERIES + 1]]

    def _read(self) -> list[tuple[Path, SavedQuery]]:
        file, *saved = self._paths()
        found = [(file, query) for query in _queries_of(file, is_written_by_hand=True).values()]
        for path in saved:
            queries = _queries_of(path, is_written_by_hand=False)
            name = path.name.removesuffix(_SUFFIX).partition(_ANOTHER)[0]
            # None if another service removed it meanwhile.
            if queries and queries.keys() != {name}:
                raise SavedQueryFileError(
                    f"{path.name}: expected [queries.{name:.100}] alone, found {', '.join(queries)[:100]}"
                )
            found += [(path, query) for query in queries.values()]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQueries:
    """The saved queries of a user. What it returns says whether the user may change it.

    Attributes:
        store: all saved queries.
        caller: the user.
        catalog: the databases that the user sees.
    """

    store: SavedQueries
    caller: Principal
    catalog: Catalog

    @property
    def may_save(self) -> bool:
        """True if the user may save queries at all."""
        return self.store.is_writable and self.caller.saves

    @property
    def queries(self) -> list[SavedQuery]:
        """Those that the user sees, by name."""
        return [self._shown(query) for query in self.store.all(self._sees).values()]

    def get(self, name: str) -> SavedQuery:
        """Return a query.

        Raises:
            NoSuchSavedQueryError: there is none of this name.
        """
        return self._shown(self.store.get(name, self._sees))

    def put(self, name: str, *, database: str | None, is_new: bool, **facts: Any) -> SavedQuery:
        """Save a query, or replace one.

        Args:
            name: its name.
            database: of tables without one.
            is_new: True if no query may have the name.
            **facts: as for `saved_query`.

        Raises:
            CatalogError: there is no such database.
            QueryError: the user may not save it, it is not as documented, or the name is taken.
        """
        self._check_writable()
        # One that the caller does not see is not there, and so is one that is misspelt.
        meant = None if database is None else self.catalog.schema(database).database.name
        self._check_may_save(meant)
        query = saved_query(
            name,
            database=database,
            saved_by=sendable(self.caller.name),
            saved_at=datetime.now(UTC).isoformat(timespec="seconds"),
            saved_for="" if meant is None or meant == database else meant,
            **facts,
        )
        before = self.store.all(self._sees).get(name)
        if before is not None and not self.caller.may_save(before.owner):
            raise ForbiddenError(f"expected a name that is free, found {name!r} taken by another query")
        self.store.put(query, is_new=is_new, sees=self._sees)
        return self._shown(query)

    def delete(self, name: str) -> SavedQuery:
        """Delete a query that a client saved, and return it.

        Raises:
            QueryError: there is none of this name, or the user may not delete it.
        """
        self._check_writable()
        query = self.get(name)
        self._check_may_save(query.owner)
        self.store.delete(name, self._sees)
        return query

    def _sees(self, query: SavedQuery) -> bool:
        owner = query.owner
        # A checkpoint that is gone had a name, too.
        if owner is None or self.caller.sees_everything or self.caller.sees(owner):
            return True
        try:
            found = self.catalog.schema(owner).database.name
        except NoSuchDatabaseError:
            return False
        except AmbiguousDatabaseError:
            return query.is_written_by_hand
        # What an alias stands for differs by user. Who writes the file means each user's own.
        return query.is_written_by_hand or found.casefold() == owner.casefold()

    def _shown(self, query: SavedQuery) -> SavedQuery:
        is_open = self.store.is_writable and not query.is_written_by_hand
        return replace(query, may_change=is_open and self.caller.may_save(query.owner))

    def _check_writable(self) -> None:
        if not self.store.is_writable:
            raise ForbiddenError(
                "this service saves no queries of clients",
                hint="its owner can allow it with the settings saved_queries and save_queries",
            )

    def _check_may_save(self, database: str | None) -> None:
        if not self.caller.may_save(database):
            wanted = "for any database" if database is None else f"for {database!r}"
            raise ForbiddenError(
                f"expected a user who may save queries {wanted}",
                hint="a grant such as saved:prod/* allows it",
            )


def _no_such_query(name: str, others: list[str]) -> NoSuchSavedQueryError:
    """Return the error of a name that no query has."""
    hint = near_names_hint(near_names(name[:100], others))
    return NoSuchSavedQueryError(f"there is no saved query {name!r:.100}", hint=hint)


def _file_error(path: Path, reason: str) -> SavedQueryFileError:
    """Return an error of a file, of which clients see the name alone."""
    return SavedQueryFileError(f"{path.name}: {reason}", detail=f"{path}: {reason}")


def _taken(name: str) -> ConflictError:
    return ConflictError(
        f"expected a new name, found {name!r} taken",
        hint="save it again to replace it",
        code="SAVED_QUERY_EXISTS",
    )


def _queries_of(path: Path, *, is_written_by_hand: bool) -> dict[str, SavedQuery]:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _file_error(path, f"expected a file of saved queries, found {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise SavedQueryFileError(f"{path.name}: expected at most {_MOST_BYTES} bytes, found more")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SavedQueryFileError(
            f"{path.name}: expected UTF-8, found other bytes at {error.start}"
        ) from error
    return parse_queries(text, path.name, is_written_by_hand=is_written_by_hand)
