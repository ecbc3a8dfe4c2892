"""The errors of the catalog room.

    CatalogError
      UnknownNameError         carries: name, near
        NoSuchDatabaseError
        NoSuchTableError
        NoSuchColumnError
      DuplicateDatabaseError   the name is taken
      CorruptCacheError        the bytes of a cache file have changed

`near` are the known names that are most like `name`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_NEAR = 3


class CatalogError(Exception):
    """Root of all errors of the catalog room."""


class CorruptCacheError(CatalogError):
    """The bytes of a cache file are not those that were written."""


class UnknownNameError(CatalogError):
    """Nothing has this name.

    Args:
        name: as it was given.
        known: the existing names.
        where: the database or table that was searched.
    """

    what = "name"

    def __init__(self, name: str, known: Iterable[str] = (), where: str = "") -> None:
        self.name = name
        self.near = near_names(name, known)
        hint = f"; near: {', '.join(self.near)}" if self.near else ""
        place = f" in {where}" if where else ""
        super().__init__(f"expected a {self.what}, found no {self.what} {name!r}{place}{hint}")


class NoSuchDatabaseError(UnknownNameError):
    """The catalog has no such database."""

    what = "database"


class NoSuchTableError(UnknownNameError):
    """The database has no such table."""

    what = "table"


class NoSuchColumnError(UnknownNameError):
    """The table has no such column."""

    what = "column"


class DuplicateDatabaseError(CatalogError):
    """Another path has this database name."""


def near_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the known names most like `name`, best first."""
    # Names are compared without case, as SQL does, and shown as they are written.
    folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=_NEAR, cutoff=0.5)
    return tuple(folded[match] for match in close)
