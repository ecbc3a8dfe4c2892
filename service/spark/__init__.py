"""Savepoints in any Spark session: the PySpark data source `savepoint`.

    >>> from service.spark import SavepointDataSource
    >>> spark.dataSource.register(SavepointDataSource)
    >>> spark.read.format("savepoint").option("table", "aggregate__count").load("/savepoints/savepoint-42")

or, in SQL, `CREATE TEMP VIEW counts USING savepoint OPTIONS (path '/savepoints/savepoint-42', table 'aggregate__count')`.

    source.py  the data source: options, partitions, pruning
    splits.py  splits as tasks, and the rows of these
    partial.py aggregates of rows, in place of them
    types.py   Arrow types and the Spark types that stand for them
    errors.py  errors that get through Spark

Besides this package, executors need the packages `catalog` and `readers`, and what these import; nothing else of the service.
This package imports pyspark, so what may run without it imports it only where Spark is wanted.
"""

from service.spark.source import SavepointDataSource
from service.spark.types import UnsupportedTypeError

__all__ = ["SavepointDataSource", "UnsupportedTypeError"]
