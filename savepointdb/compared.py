"""`diff` → `DiffResult`: what differs between two savepoints."""

from __future__ import annotations

import shutil
from typing import Any

from savepointdb.answer import Answer
from savepointdb.display import html_list
from savepointdb.errors import translated
from savepointdb.processes import OpenSavepoints
from service.base.errors import QueryError
from service.query.encode import printable
from service.query.running.request import QueryRequest
from service.tasks.diff.comparison import Comparison, rows_statement
from service.tasks.diff.running import Compared, comparison_by
from service.tasks.diff.text import headline, text_lines

_MORE = '.rows("{}")'


class DiffResult:
    """What differs between two databases. It holds the connection open that made it.

    Args:
        opened: runs statements.
        compared: the databases.
        timeout_s: seconds that each statement may take; None for no limit.
    """

    def __init__(self, opened: OpenSavepoints, compared: Compared, timeout_s: float | None = None) -> None:
        self._opened = opened
        self._compared = compared
        self._timeout_s = timeout_s
        self._summary: Comparison | None = None

    @property
    def summary(self) -> Comparison:
        """All of it in numbers: `states`, each with counts, types, sizes and samples; `offsets` that moved; `sizes`. Made once.

        Raises:
            SavepointError: a savepoint cannot be read.
        """
        if self._summary is None:
            with translated():
                context = self._opened.context(timeout_s=self._timeout_s)
                self._summary = comparison_by(self._compared, context)
        return self._summary

    @property
    def is_equal(self) -> bool:
        """True if no state, row or offset differs.

        Raises:
            SavepointError: a savepoint cannot be read.
        """
        return self.summary.is_equal

    def rows(self, table: str) -> Answer:
        """Return the rows of a table that differ: `change`, what each is of, and its values before and after.

        Args:
            table: the name of a table, such as `aggregate__count`, `timers` or `source_offsets`.
        """
        return self._answer(rows_statement(self._compared.before.name, self._compared.after.name, table))

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as values that are JSON.

        Raises:
            SavepointError: a savepoint cannot be read.
        """
        return self.summary.to_dict()

    def __repr__(self) -> str:
        # A session shows what it is given, an error of it included.
        try:
            lines = list(text_lines(self.summary, shutil.get_terminal_size().columns, _MORE))
        except QueryError as error:
            return f"{type(error).__name__}: {error}"
        return "\n".join(lines)

    def _repr_html_(self) -> str | None:
        try:
            summary = self.summary
        except QueryError:
            return None
        return html_list(headline(summary), map(printable, text_lines(summary, more=_MORE)))

    def _answer(self, statement: str) -> Answer:
        return Answer(
            self._opened, QueryRequest(sql=statement, timeout_s=self._timeout_s, source="savepointdb")
        )
