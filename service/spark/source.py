"""The PySpark data source `savepoint`: a table of a savepoint as a DataFrame.

| option | meaning |
|---|---|
| path | a savepoint, a checkpoint, its `_metadata`, or a folder that holds several |
| table | the table's name; as the catalog lists it, in any case |
| database | which savepoint, where the path holds several |
| columns | columns to read, separated by commas, or as a JSON array; all if not given |
| partitions | about the least number of partitions, if there is enough to read; 1 if not given |
| roots | JSON array of further directories that the savepoint may refer to |
| path_map | JSON object: recorded path prefix → its present one |
| uids | JSON array of uids, which become the names of their operators |
| state_info | a `stateInfo` file to use in place of the one beside the savepoint; executors read it, too |
| jars | JSON array of jars of the job; executors read them, too |
| nanoseconds | `error` or `bigint`; see `types.py` |

A stream (`readStream`) has these, too, but for `database` and `columns`:

| option | meaning |
|---|---|
| mode | `changes`: what each checkpoint changed; or `snapshot`: in each micro-batch all rows of the newest checkpoint |
| job | the job that is followed, where the path has several |
| since | `latest`, from now on; `earliest`, `snapshot`: first all rows of the oldest or newest checkpoint; or the last that you have |
| on_gone | `fail`, or `reset`: what happens where a checkpoint is gone that the stream needs; see `stream.py` |

Spark passes filters to a Python data source, but not the columns it needs, so these are an option: a statement that reads two
of eight columns takes about half the time with it. The source uses filters to skip files, key groups and keys, and returns
all of them, so Spark applies them again. Spark passes filters only if `spark.sql.python.filterPushdown.enabled` is set;
without it the source reads everything.

A partition is one or several splits of a scan, about `_MOST_PARTITION_BYTES` in all. Each worker process opens the savepoint
once; the driver reads no state.

Spark: org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    In,
    InputPartition,
)
from pyspark.sql.types import StructType

from catalog.scan import ANYTHING
from service.base.catalogtables import name_tables
from service.spark.options import OF_STREAMS, SourceOptions, StreamOptions
from service.spark.splits import SplitReader, grouped
from service.spark.stream import FollowedJob, SavepointStreamReader
from service.spark.types import carried, spark_schema

name_tables()
# The module that Spark runs in a Python of its own to push filters.
_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class SavepointDataSource(DataSource):
    """A table of a savepoint; the table above describes its options."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format("savepoint")`."""
        return "savepoint"

    def schema(self) -> StructType:
        """Return the columns of the table, or those of the option `columns` in its order; with `mode`, those of a stream."""
        with carried():
            if OF_STREAMS & self.options.keys():
                stream = StreamOptions.parse(dict(self.options))
                return spark_schema(FollowedJob(stream).schema, stream.source.nanoseconds)
            options = self._read_options()
            return spark_schema(options.schema(), options.nanoseconds)

    def reader(self, schema: StructType) -> SavepointReader:
        """Return a reader of the columns of `schema`, which may be some of the table's."""
        with carried():
            options = self._read_options()
        reader = PruningReader if _is_asked_for_filters() else SavepointReader
        return reader(options, tuple(schema.names))

    def streamReader(self, schema: StructType) -> SavepointStreamReader:
        """Return a reader of the checkpoints of a job; the method's name is Spark's."""
        with carried():
            return SavepointStreamReader(StreamOptions.parse(dict(self.options)), schema)

    def _read_options(self) -> SourceOptions:
        return SourceOptions.parse(dict(self.options))


class SavepointReader(DataSourceReader):
    """Reads the rows of a table. It is pickled to the executors, so it holds names and values only.

    Args:
        options: the options, which name the table.
        columns: names of the columns, in the order of the rows.
    """

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._predicate = ANYTHING
        self._reader = SplitReader(options.nanoseconds)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the partitions: one or several splits of the scan each."""
        with carried():
            scan = self._options.open_table().scan(self._columns, self._predicate)
            return [InputPartition(splits) for splits in grouped(scan.splits, self._options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition as batches, which Spark takes though its signature names tuples."""
        # If there are no partitions, Spark makes one without a value.
        return self._reader.rows(partition.value or ())


class PruningReader(SavepointReader):
    """A reader that also skips what filters exclude.

    Spark refuses a reader with `pushFilters` in a session where it does not push filters.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep the filters that prune, and return all: Spark has to apply them. The method's name is Spark's."""
        with carried():
            schema = self._options.open_table().schema
            for pushed in filters:
                column, values = _values(pushed)
                if column in schema.names and _prunes(schema.field(column).type, values):
                    self._predicate = self._predicate.and_(column, values)
        return filters


def _values(pushed: Filter) -> tuple[str, tuple[Any, ...]]:
    """Return the column of a filter and the values that it may have; an empty name for another filter."""
    if not isinstance(pushed, EqualTo | EqualNullSafe | In) or len(pushed.attribute) != 1:
        return "", ()
    values = pushed.value if isinstance(pushed, In) else (pushed.value,)
    if isinstance(pushed, In):  # `x IN (1, NULL)` is true for 1 only
        values = tuple(value for value in values if value is not None)
    return pushed.attribute[0], tuple(values)


def _prunes(column_type: pa.DataType, values: tuple[Any, ...]) -> bool:
    """Return whether values of this type mean the same to Spark and to the catalog."""
    if pa.types.is_string(column_type):
        return all(isinstance(value, str) for value in values)
    # A boolean is an int to Python, but not a number to Spark.
    if pa.types.is_signed_integer(column_type):
        return all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    return False


def _is_asked_for_filters() -> bool:
    """Return whether Spark has started this process to push filters, which it does if the session allows it.

    A data source has no other way to find out.
    """
    main = sys.modules.get("__main__")
    names = {*sys.argv, getattr(getattr(main, "__spec__", None), "name", None)}
    return _PUSHDOWN_WORKER in names
