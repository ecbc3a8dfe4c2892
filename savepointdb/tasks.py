"""The use cases of `service.tasks` → functions, and their outcomes as a session shows them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from savepointdb.connection import Path, connect
from savepointdb.display import TitledList
from savepointdb.errors import translated
from savepointdb.values import to_pandas, to_polars
from service.query.sql.types import Column, sql_type
from service.tasks.registry import TASKS
from service.tasks.request import options_of
from service.tasks.task import Context, Outcome

if TYPE_CHECKING:
    import pandas
    import polars


class Rows:
    """The rows of a table of an outcome.

    Args:
        table: the rows.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._columns = [Column(field.name, sql_type(field.type)) for field in table.schema]

    def arrow(self) -> pa.Table:
        """Return them as an Arrow table."""
        return self._table

    def df(self) -> pandas.DataFrame:
        """Return them as a data frame of pandas.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        return to_pandas(self._columns, self._table)

    def pl(self) -> polars.DataFrame:
        """Return them as a data frame of polars.

        Raises:
            MissingPackageError: polars is not installed.
        """
        return to_polars(self._columns, self._table)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class TaskResult(TitledList):
    """The outcome of a use case.

    Args:
        outcome: what was found.
    """

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    @property
    def tables(self) -> Mapping[str, Rows]:
        """Its tables, by name; empty if it has none."""
        return {name: Rows(table) for name, table in getattr(self._outcome, "tables", {}).items()}

    def __getitem__(self, name: str) -> Rows:
        return self.tables[name]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that are JSON, as every door sends them."""
        return self._outcome.to_dict()

    def _lines(self) -> list[str]:
        first, *rest = self._outcome.lines(shutil.get_terminal_size().columns)
        return [f"savepointdb: {first}", *rest]


def run_task(name: str, path: Path | Mapping[str, Path], **given: Any) -> TaskResult:
    """Run a use case.

    Args:
        name: a name of `service.tasks.registry.TASKS`.
        path: as for `connect`.
        **given: fields of its request, and other arguments of `connect`.

    Raises:
        QueryError: as the use case says.
    """
    task = TASKS[name].load()
    names = {one.name for one in options_of(task.request)} - {"database"}
    options = {key: value for key, value in given.items() if key in names}
    how = {key: value for key, value in given.items() if key not in names}
    with connect(path, **how) as connection, translated():
        opened = connection.opened
        context = Context(
            catalog=opened.catalog, settings=opened.sources.settings, start=opened.queries.start
        )
        return TaskResult(task.run(task.request(**options), context))


def xray(path: Path, *, quick: bool = False, **how: Any) -> TaskResult:
    """Return how much state there is, where, and how much of it is garbage.

    Args:
        path: a savepoint or checkpoint, or a folder with several, of which the newest is looked at.
        quick: True to skip what reads every entry.
        **how: the other arguments of `connect`, such as `path_map`, `uids`, `threads`.

    Raises:
        SavepointError: nothing is there, or no savepoint that can be read.
    """
    return run_task("xray", path, quick=quick, **how)
