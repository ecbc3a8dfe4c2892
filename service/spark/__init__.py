"""Savepoints in any Spark session: the PySpark data source `savepoint`.

    >>> os.environ["PYSPARK_PYTHON"] = sys.executable  # before the session starts: Spark's own choice is `python3`
    >>> from service.spark import SavepointDataSource
    >>> spark.dataSource.register(SavepointDataSource)
    >>> spark.read.format("savepoint").option("table", "aggregate__count").load("/savepoints/savepoint-42")

or, in SQL, `CREATE TEMP VIEW counts USING savepoint OPTIONS (path '/savepoints/savepoint-42', table 'aggregate__count')`.

    source.py   the data source: partitions, pruning
    options.py  its options, parsed
    stream.py   the checkpoints of a job as a stream: offsets, micro-batches
    splits.py   splits as tasks of Spark, and their rows
    partial.py  aggregates in place of rows, computed by DuckDB
    average.py  DuckDB's average, for Spark's SQL
    files.py    rows in Parquet files that executors write; keyed state of a new savepoint
    types.py    Arrow types and the Spark types that stand for them; errors in a form that Spark carries

Beside this package, executors need `doctor`, `catalog`, `writers` and `readers` with their dependencies, and three modules of
`service.base`. This package imports pyspark, so code that may run without pyspark imports it inside functions.
"""

from service.spark.source import SavepointDataSource
from service.spark.types import UnsupportedTypeError

__all__ = ["SavepointDataSource", "UnsupportedTypeError"]
