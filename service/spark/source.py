"""The PySpark data source `savepoint`: a table of a savepoint as a DataFrame.

| option | meaning |
|---|---|
| path | a savepoint, a checkpoint, its `_metadata`, or a folder that holds several |
| table | the table's name; as the catalog lists it, in any case |
| database | which savepoint, where the path holds several |
| columns | the columns to read, separated by commas, or as a JSON array; all if not given |
| partitions | at least about this many partitions, where there is so much to read; 1 if not given |
| roots | JSON array of more directories that the savepoint may refer to |
| path_map | JSON object of recorded path prefixes and what stands there now |
| uids | JSON array of uids whose operators are to be known by them |
| state_info | a `stateInfo` file to use in place of that beside the savepoint; executors read it, too |
| nanoseconds | `error` or `bigint`; see `types.py` |

Spark tells a Python data source which rows it needs, not which columns, so these are an option: a statement that reads two
of eight columns takes about half the time with it. Filters are used to leave out files, key groups and keys, and are
all given back: Spark applies them itself. It does so if `spark.sql.python.filterPushdown.enabled` is set; without it the
source works, and reads everything.

A partition is one or several splits of a scan, `_MOST_PARTITION_BYTES` in all. It opens the savepoint once in each worker
process and reads from there on; the driver reads no state.

Spark: org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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

from catalog import Catalog, Database, NoSuchTableError, Table, connect
from catalog.predicate import ANYTHING
from readers import absolute
from service.spark.errors import InvalidOptionError, carried
from service.spark.splits import SplitReader, grouped
from service.spark.types import Nanoseconds, spark_schema

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
_NANOSECONDS: tuple[Nanoseconds, ...] = ("error", "bigint")
_OPTIONS = frozenset(
    {
        "path",
        "table",
        "database",
        "columns",
        "partitions",
        "roots",
        "path_map",
        "uids",
        "state_info",
        "nanoseconds",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options, read. See the table above. A local path is absolute: executors work elsewhere."""

    path: str
    table: str
    database: str | None = None
    columns: tuple[str, ...] | None = None
    partitions: int = 1
    roots: tuple[str, ...] = ()
    path_map: tuple[tuple[str, str], ...] = ()
    uids: tuple[str, ...] = ()
    state_info: str | None = None
    nanoseconds: Nanoseconds = "error"

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """The options as Spark gives them: all text, names in lower case.

        Raises:
            InvalidOptionError: one is missing, unknown or not as documented.
        """
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            raise InvalidOptionError(
                f"expected options of {', '.join(sorted(_OPTIONS))}; found {', '.join(unknown)}"
            )
        for name in ("path", "table"):
            if not options.get(name):
                raise InvalidOptionError(f"expected the option {name!r}, found none")
        nanoseconds = options.get("nanoseconds", "error").lower()
        if nanoseconds not in _NANOSECONDS:
            raise InvalidOptionError(
                f"expected nanoseconds of {', '.join(_NANOSECONDS)}, found {nanoseconds!r}"
            )
        partitions = options.get("partitions", "1")
        if not partitions.isdecimal() or int(partitions) < 1:
            raise InvalidOptionError(f"expected partitions of 1 or more, found {partitions!r}")
        return cls(
            path=absolute(options["path"]),
            table=options["table"],
            database=options.get("database"),
            columns=_columns(options.get("columns")),
            partitions=int(partitions),
            roots=_texts("roots", options),
            path_map=_pairs("path_map", options),
            uids=_texts("uids", options),
            state_info=options.get("state_info") or None,
            nanoseconds="bigint" if nanoseconds == "bigint" else "error",
        )

    def schema(self) -> pa.Schema:
        """What is given, by its own types."""
        return self.open_table().scan(self.columns).schema

    def open_table(self) -> Table:
        """The table; reads `_metadata` and the headers of state files, no state.

        Raises:
            CatalogError: there is no such database or table.
            ReaderError: the savepoint cannot be read.
        """
        catalog = connect(
            self.path,
            roots=self.roots,
            path_map=dict(self.path_map),
            uids=self.uids,
            state_info=self.state_info,
        )
        return self._database(catalog).table(self.table)

    def _database(self, catalog: Catalog) -> Database:
        if self.database is not None:
            return catalog.database(self.database)
        default = catalog.default
        if default is None:
            known = ", ".join(catalog.databases) or "none"
            raise NoSuchTableError(self.table, where=f"{self.path}: name the database, of {known}")
        return default


class SavepointDataSource(DataSource):
    """A table of a savepoint. Its options are described above."""

    @classmethod
    def name(cls) -> str:
        """As in `format("savepoint")`."""
        return "savepoint"

    def schema(self) -> StructType:
        """The table's columns, or those of the option `columns`, in the order of that."""
        with carried():
            options = self._read_options()
            return spark_schema(options.schema(), options.nanoseconds)

    def reader(self, schema: StructType) -> SavepointReader:
        """Reads the columns of `schema`, which may be some of the table's."""
        with carried():
            options = self._read_options()
        reader = PruningReader if _is_asked_for_filters() else SavepointReader
        return reader(options, tuple(schema.names))

    def _read_options(self) -> SourceOptions:
        return SourceOptions.parse(dict(self.options))


class SavepointReader(DataSourceReader):
    """Reads the rows of a table. It is pickled to the executors, so it holds names and values only.

    Args:
        options: which table.
        columns: of it, in the order of the rows.
    """

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._predicate = ANYTHING
        self._reader = SplitReader(options.nanoseconds)

    def partitions(self) -> Sequence[InputPartition]:
        """The splits of the scan, one or several together."""
        with carried():
            scan = self._options.open_table().scan(self._columns, self._predicate)
            return [InputPartition(splits) for splits in grouped(scan.splits(), self._options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition. Spark's own signature says tuples only."""
        # Where there are no partitions, Spark makes one of no value.
        return self._reader.rows(partition.value or ())


class PruningReader(SavepointReader):
    """Also leaves out what filters exclude.

    Spark refuses a reader with `pushFilters` in a session where it does not push filters.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Spark's name. Takes what prunes, and gives all back: they are still to be applied."""
        with carried():
            schema = self._options.open_table().schema
            for pushed in filters:
                column, values = _values(pushed)
                if column in schema.names and _prunes(schema.field(column).type, values):
                    self._predicate = self._predicate.and_(column, values)
        return filters


def _values(pushed: Filter) -> tuple[str, tuple[Any, ...]]:
    """(column, values one of which it must have); no column if the filter says no such thing."""
    if not isinstance(pushed, EqualTo | EqualNullSafe | In) or len(pushed.attribute) != 1:
        return "", ()
    values = pushed.value if isinstance(pushed, In) else (pushed.value,)
    if isinstance(pushed, In):
        values = tuple(value for value in values if value is not None)
    return pushed.attribute[0], tuple(values)


def _prunes(column_type: pa.DataType, values: tuple[Any, ...]) -> bool:
    """Whether these values mean to Spark what they mean to the catalog."""
    if pa.types.is_string(column_type):
        return all(isinstance(value, str) for value in values)
    if pa.types.is_signed_integer(column_type):
        return all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    return False


def _is_asked_for_filters() -> bool:
    """Whether this process is the one that Spark starts to push filters, where the session allows it.

    Spark tells a data source in no other way.
    """
    main = sys.modules.get("__main__")
    names = {*sys.argv, getattr(getattr(main, "__spec__", None), "name", None)}
    return _PUSHDOWN_WORKER in names


def _columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    if text.lstrip().startswith("["):
        return _texts("columns", {"columns": text})
    return tuple(name.strip() for name in text.split(","))


def _texts(name: str, options: Mapping[str, str]) -> tuple[str, ...]:
    found = _json(name, options.get(name, "[]"))
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise InvalidOptionError(f"expected {name} to be a JSON array of texts")
    return tuple(found)


def _pairs(name: str, options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    found = _json(name, options.get(name, "{}"))
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise InvalidOptionError(f"expected {name} to be a JSON object of texts")
    return tuple(found.items())


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidOptionError(f"expected {name} to be JSON: {error}") from error
