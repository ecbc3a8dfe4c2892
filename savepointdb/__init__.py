"""Savepoints as a SQL database, in Python: `connect` a path, ask, and take the answer as a frame.

In: the path of a savepoint, or of a folder with several. Out: `Connection`, its `Table`s, and `Answer`s as Python values, Arrow,
pandas or polars. A statement runs in this process as `savepointdb query` runs it: by `service.query.serving`, with the same checks,
limits and errors. To import this package loads none of that; the first name that is used does.

Reading order:

    connection.py  connect; create; diff; check; history; Connection: savepoints, opened together
    processes.py   what a connection has open in this process, and what a fork leaves of it; the rows of a running query
    answer.py      Table: one table of a database; Answer: a statement that runs when its rows are wanted
    followed.py    the checkpoints of a job, as they come
    results.py     what was found: CheckResult, DiffResult, KeyHistory, TestResult, BisectResult; TaskResult: the outcome of any use case;
                   what was made, as a path: WriteResult, ConvertResult, ExportResult
    tasks.py       bisect, inspect, lookup, mask, xray, test; write, convert, forget, sample, export
    values.py      Arrow → Python values, pandas, polars, what a session shows; data frames of the caller, which a statement names in FROM
    errors.py      the errors of the service, as they are raised here
    rooms.py       whether another package hides one of those that this one stands on
    spark.py       the data source `savepoint` for a session of Spark
    __main__.py    the program `savepointdb`

    >>> import savepointdb
    >>> db = savepointdb.connect("/savepoints/savepoint-42")
    >>> db.sql("SELECT key, value FROM aggregate WHERE value < 0").df()
    >>> db["aggregate"].scan(key="key_662").to_polars()
    >>> savepointdb.check("/savepoints/savepoint-42", against="new-job.jar").outcome
"""

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from savepointdb.rooms import check_rooms

if TYPE_CHECKING:
    from savepointdb.answer import Answer, Table
    from savepointdb.connection import Connection, check, connect, create, diff, history
    from savepointdb.errors import IncompleteWarning, MissingPackageError, QueryWarning
    from savepointdb.results import (
        BisectResult,
        CheckResult,
        ConvertResult,
        DiffResult,
        ExportResult,
        KeyHistory,
        RowsResult,
        SampleResult,
        TaskResult,
        TestResult,
        WriteResult,
    )
    from savepointdb.tasks import (
        bisect,
        convert,
        export,
        forget,
        inspect,
        lookup,
        mask,
        sample,
        test,
        write,
        xray,
    )
    from service.base.errors import (
        ColumnNotFoundError,
        ConflictError,
        DatabaseNotFoundError,
        InvalidQueryError,
        InvalidRequestError,
        JobNotFoundError,
        QueryCancelledError,
        QueryError,
        QueryTimeoutError,
        SavepointError,
        TableNotFoundError,
    )

__all__ = [
    "Answer",
    "BisectResult",
    "CheckResult",
    "ColumnNotFoundError",
    "ConflictError",
    "Connection",
    "ConvertResult",
    "DatabaseNotFoundError",
    "DiffResult",
    "ExportResult",
    "IncompleteWarning",
    "InvalidQueryError",
    "InvalidRequestError",
    "JobNotFoundError",
    "KeyHistory",
    "MissingPackageError",
    "QueryCancelledError",
    "QueryError",
    "QueryTimeoutError",
    "QueryWarning",
    "RowsResult",
    "SampleResult",
    "SavepointError",
    "Table",
    "TableNotFoundError",
    "TaskResult",
    "TestResult",
    "WriteResult",
    "bisect",
    "check",
    "connect",
    "convert",
    "create",
    "diff",
    "export",
    "forget",
    "history",
    "inspect",
    "lookup",
    "mask",
    "sample",
    "test",
    "write",
    "xray",
]

# A type checker would take every name for one of the package.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load a public name when it is first used: Arrow, DuckDB and the rooms take half a second."""
        if name not in __all__:
            registry = import_module("service.tasks.registry")
            if name in dict(registry.tasks_at(registry.PYTHON)):
                return partial(import_module("savepointdb.tasks").run_task, name)
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        check_rooms()
        load, _ = import_module("readers").late_names(globals())
        return load(name)


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*globals(), *__all__})
