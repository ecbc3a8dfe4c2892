"""The errors of the catalog room.

    CatalogError
      NoSuchDatabaseError    carries: name, near
      NoSuchTableError       carries: name, near
      NoSuchColumnError      carries: name, near
      DuplicateDatabaseError a name that is taken
      CorruptCacheError      a cache file that is not what was written

`near` are the names that are most like the one asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_NEAR = 3


class CatalogError(Exception):
    """Root of all errors of the catalog room."""


class CorruptCacheError(CatalogError):
    """A cache file that is not what was written."""


class UnknownNameError(CatalogError):
    """A name that nothing has.

    Args:
        name: as it was asked for.
        known: the names there are.
        where: what it was looked for in.
    """

    what = "name"

    def __init__(self, name: str, known: Iterable[str] = (), where: str = "") -> None:
        self.name = name
        self.near = near_names(name, known)
        hint = f"; near: {', '.join(self.near)}" if self.near else ""
        place = f" in {where}" if where else ""
        super().__init__(f"expected a {self.what}, found no {self.what} {name!r}{place}{hint}")


class NoSuchDatabaseError(UnknownNameError):
    """A database that is not in the catalog."""

    what = "database"


class NoSuchTableError(UnknownNameError):
    """A table that the database does not have."""

    what = "table"


class NoSuchColumnError(UnknownNameError):
    """A column that the table does not have."""

    what = "column"


class DuplicateDatabaseError(CatalogError):
    """A database name that is taken by another path."""


def near_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known names most like `name`, best first."""
    folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=_NEAR, cutoff=0.5)
    return tuple(folded[match] for match in close)
