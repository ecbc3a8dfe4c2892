"""Long answers in files that executors write and this service reads.

Both see one folder by the same path. If they do not, an executor cannot write, or its file is not found here: each is an
error, so an answer never misses rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import dataset

from service.base.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARED = "spark_export_directory is to be a folder that executors write to and this service reads, by the same path"
_BATCH_ROWS = 65_536


def written(frame: DataFrame, folder: str) -> DataFrame:
    """Return a frame with the names of the files to which executors write the rows of another frame."""
    from service.spark.files import FileWriter
    from service.spark.types import spark_schema

    return frame.mapInArrow(FileWriter(folder).savepoint, spark_schema(FileWriter.schema))


def rows_of_files(folder: Path, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Return the rows of Parquet files, in the order of their names, which is that of the tasks.

    Raises:
        EngineError: a file is not found.
    """
    files = [folder / name for name in sorted(names)]
    missing = sum(not file.is_file() for file in files)
    if missing:
        raise EngineError(
            f"{missing} of {len(files)} files that executors wrote are not found here", hint=SHARED
        )
    return _rows(files)


def _rows(files: Iterable[Path]) -> Iterator[pa.RecordBatch]:
    for file in files:
        yield from dataset.dataset(str(file), format="parquet").to_batches(batch_size=_BATCH_ROWS)
