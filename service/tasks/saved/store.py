"""`SavedQueries`: the queries of a file, and those that clients save.

| path | holds |
|---|---|
| `queries.toml` | what people write; it is only read, so its comments and its order stay as they are |
| `queries.toml.d/NAME.toml` | one query that a client saved, in the same form: it may be moved into the file above |
| `queries.toml.d/NAME~2.toml` | another of that name, of a client who does not see the first one, and is not told of it |

Of several queries with one name a user has the first one that the user sees: that of the file, and then those of the folder in this
order. Several services may use one file and one folder: a file of the folder appears, changes and goes as a whole, and each service
sees it within a second.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from catalog.errors import near_names
from service.base.errors import ConflictError, LimitExceededError, near_names_hint
from service.base.machine import write_whole
from service.tasks.saved.files import MOST_QUERIES, parse_queries, toml_of
from service.tasks.saved.parameters import NoSuchSavedQueryError, SavedQueryFileError
from service.tasks.saved.query import SavedQuery, check_name

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
        may_be_missing: True if neither the file nor the folder need exist, because clients will save queries.

    Raises:
        SavedQueryFileError: a file is missing, cannot be read, or is not as documented.
    """

    def __init__(self, path: str | os.PathLike[str] = "", *, may_be_missing: bool = False) -> None:
        self._path = Path(path) if os.fspath(path) else None
        self._folder = None if self._path is None else self._path.with_name(self._path.name + ".d")
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._stamp: _Stamp | None = None
        # With the file that each is in: of two with one name the first one counts.
        self._queries: Sequence[tuple[Path, SavedQuery]] = ()
        self._current()
        if self._path is not None and not self._stamp and not may_be_missing:
            raise SavedQueryFileError(
                f"expected a file of saved queries, found none: {self._path.name}",
                detail=f"{self._path}: expected a file of saved queries, found none",
            )

    @property
    def is_open(self) -> bool:
        """True if there is a file, so that queries may be saved."""
        return self._path is not None

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
            raise self._unwritten(target, error) from error
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
            raise self._unwritten(target, error) from error
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

    def _unwritten(self, target: Path, error: OSError) -> SavedQueryFileError:
        return SavedQueryFileError(
            f"expected to write {target.name}, found {error.strerror}",
            detail=f"{target}: expected to write it, found {error.strerror}",
        )

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


def _no_such_query(name: str, others: list[str]) -> NoSuchSavedQueryError:
    """Return the error of a name that no query has."""
    hint = near_names_hint(near_names(name[:100], others))
    return NoSuchSavedQueryError(f"there is no saved query {name!r:.100}", hint=hint)


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
        raise SavedQueryFileError(
            f"{path.name}: expected a file of saved queries, found {error.strerror}",
            detail=f"{path}: expected a file of saved queries, found {error.strerror}",
        ) from error
    if len(data) > _MOST_BYTES:
        raise SavedQueryFileError(f"{path.name}: expected at most {_MOST_BYTES} bytes, found more")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SavedQueryFileError(
            f"{path.name}: expected UTF-8, found other bytes at {error.start}"
        ) from error
    return parse_queries(text, path.name, is_written_by_hand=is_written_by_hand)
