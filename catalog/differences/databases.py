"""Two databases that are compared, in the place of the one that a table mostly belongs to."""

from __future__ import annotations

from catalog.database import Database
from catalog.errors import NotComparableError
from catalog.scan import Predicate
from catalog.table import Table


class ComparedDatabases:
    """Two databases.

    Args:
        before, after: the databases, in this order; None for one without tables, before the first rows.

    Attributes:
        name: for people.
    """

    def __init__(self, before: Database | None, after: Database) -> None:
        self.name = f"{'' if before is None else before.name}, {after.name}"
        self._before = before
        self._after = after

    def table(self, name: str | None) -> Table:
        """Return the rows of a table that differ; the summary without a name.

        Raises:
            NoSuchTableError: neither database has such a table; near names in the error.
            NotComparableError: there is only one database, and no name.
            ReaderError: a savepoint cannot be opened, or a file that may hold the state of this name cannot be read.
        """
        # Heavy: few statements compare.
        from catalog.differences.summary import SummaryTable
        from catalog.differences.table import diff_table

        if name is None:
            if self._before is None:
                raise NotComparableError("expected a table, found none: a summary compares two savepoints")
            return SummaryTable(self._before, self._after)
        return diff_table(self._before, self._after, name)

    def databases_for(self, _table: Table, _predicate: Predicate) -> tuple[Database, ...]:
        """Return the databases of which a scan of one of the tables reads rows: both."""
        return tuple(one for one in (self._before, self._after) if one is not None)
