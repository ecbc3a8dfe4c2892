"""The errors of the catalog room.

    CatalogError
      UnknownNameError         carries: name, near
        NoSuchDatabaseError
        NoSuchJobError
        NoSuchTableError
        NoSuchColumnError
      AmbiguousDatabaseError   carries: name, candidates
        AmbiguousJobError
      DuplicateDatabaseError   the name is taken, or may be taken by a savepoint under a root
      ConflictingRootsError    carries: suggestions; two roots have one label, or a root is inside another
      InvalidDatabaseNameError a name that a URL would have to escape
      NoSuchCheckpointError    a text names no checkpoint to go on from, or a job goes on in several others
      NotAKeyError             a text stands for no key of a type; carries: is_close
      CorruptCacheError        the bytes of a cache file have changed
      MaskError
        InvalidMaskFileError   masks.toml says what no mask can do
        MissingSecretError     the file with the secret of masks is missing, or too short
        UnknownMaskColumnError a mask names a column that does not exist
        UnmaskableValueError   a rule cannot be applied to the values of a column
        NoSuchMaskError        no masks have a name
        UncoveredColumnsError  columns have no rule, and the file refuses those; carries: columns

`near` are the known names that are most like `name`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_NEAR = 3
_LISTED = 10


class CatalogError(Exception):
    """Root of all errors of the catalog room."""


class CorruptCacheError(CatalogError):
    """The bytes of a cache file are not those that were written."""


class NoSuchCheckpointError(CatalogError):
    """No checkpoint to go on from, or more than one."""


class NotAKeyError(CatalogError):
    """A text stands for no key of a type.

    Args:
        message: the reason.
        is_close: True if the text is a struct as the keys are, so that the reason is worth showing.
    """

    def __init__(self, message: str, *, is_close: bool = False) -> None:
        self.is_close = is_close
        super().__init__(message)


class MaskError(CatalogError):
    """A value cannot be masked as a file of masks says."""


class InvalidMaskFileError(MaskError):
    """A file of masks cannot be read, or says what no mask can do."""


class MissingSecretError(MaskError):
    """The secret of masks is missing, or too short."""


class UnknownMaskColumnError(MaskError):
    """A mask names a column that its table does not have."""


class UnmaskableValueError(MaskError):
    """A rule cannot be applied to the values of a column."""


class NoSuchMaskError(MaskError):
    """No masks have the name that a user's credentials say, so nothing may be shown to that user.

    Args:
        name: as the credentials say it.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"expected the mask {name!r:.100} of your credentials, found none of this name; "
            f"start the service with --mask {name}=FILE"
        )


class UncoveredColumnsError(MaskError):
    """No rule covers some columns, and the file of masks refuses those.

    Args:
        table: the name of the table.
        columns: the columns and fields.
    """

    def __init__(self, table: str, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        shown = ", ".join(self.columns[:_LISTED])
        more = f" and {len(self.columns) - _LISTED} more" if len(self.columns) > _LISTED else ""
        super().__init__(
            f"expected a rule for each column of {table}, found none for {shown}{more}; add one, or keep"
        )


class UnknownNameError(CatalogError):
    """Nothing has this name.

    Args:
        name: as it was given.
        known: the existing names.
        where: the database or table that was searched.
        near: the names to suggest, if not those of `known` that are like `name`.
    """

    what = "name"

    def __init__(
        self, name: str, known: Iterable[str] = (), where: str = "", near: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.near = tuple(near[:_NEAR]) or near_names(name, known)
        hint = f"; near: {', '.join(self.near)}" if self.near else ""
        place = f" in {where}" if where else ""
        super().__init__(f"expected a {self.what}, found no {self.what} {name!r}{place}{hint}")


class NoSuchDatabaseError(UnknownNameError):
    """The catalog has no such database."""

    what = "database"


class NoSuchJobError(UnknownNameError):
    """The catalog has no such job."""

    what = "job"


class NoSuchTableError(UnknownNameError):
    """The database has no such table."""

    what = "table"


class NoSuchColumnError(UnknownNameError):
    """The table has no such column."""

    what = "column"


class AmbiguousDatabaseError(CatalogError):
    """Several databases have this alias.

    Args:
        name: as it was given.
        candidates: the names of those that have it.
    """

    what = "database"

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        self.name = name
        self.candidates = tuple(candidates)
        listed = ", ".join(f'"{one}"' for one in self.candidates[:_LISTED])
        more = f" and {len(self.candidates) - _LISTED} more" if len(self.candidates) > _LISTED else ""
        super().__init__(
            f"expected the name of one {self.what}, found {name!r}, which may be each of {len(self.candidates)}: {listed}{more}"
        )


class AmbiguousJobError(AmbiguousDatabaseError):
    """Several jobs have this title."""

    what = "job"


class NotComparableError(CatalogError):
    """The rows of a table cannot be compared between two databases; the message says what can be."""


class DuplicateDatabaseError(CatalogError):
    """Another path has this database name, or a savepoint under a root may get it."""


class InvalidDatabaseNameError(CatalogError):
    """A name for a database that needs escapes in a URL, or a label that is no single part of a path."""


class ConflictingRootsError(CatalogError):
    """Two roots would give their databases the same names, or one is inside the other.

    Args:
        message: which roots, and why.
        suggestions: each conflicting root as `label=PATH`, with labels that differ; empty if labels do not help.
    """

    def __init__(self, message: str, suggestions: Sequence[str] = ()) -> None:
        self.message = message
        self.suggestions = tuple(suggestions)
        advice = f"; label them: {' '.join(self.suggestions)}" if self.suggestions else ""
        super().__init__(message + advice)


def near_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the known names most like `name`, best first."""
    # Names are compared without case, as SQL does, and shown as they are written.
    folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=_NEAR, cutoff=0.5)
    return tuple(folded[match] for match in close)
