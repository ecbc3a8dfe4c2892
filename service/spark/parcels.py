"""Parcels of the writers, as tasks of Spark: each makes the keyed state of one subtask, and writes its file into the target."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from catalog.references import SavepointReference, open_savepoint
from service.spark.splits import spare_the_collector
from writers import done


class ParcelWorker:
    """Does the work of parcels. It is pickled to the executors.

    Args:
        source: the savepoint that is changed.
    """

    schema = pa.schema([("number", pa.int32()), ("answer", pa.binary())])
    """Schema of the answers: a row for each parcel. An error of ours is an answer: Spark would try again what fails again."""

    def __init__(self, source: SavepointReference) -> None:
        self._source = source

    def savepoint(self, tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the answers to parcels, rows of `parcel_rows`, for `mapInArrow`; Spark's plans show the name of this method."""
        for batch in tasks:
            for number, parcel in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                answer = done(parcel, lambda: open_savepoint(self._source))
                spare_the_collector()
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number], pa.int32()), pa.array([answer], pa.binary())], schema=self.schema
                )


def parcel_rows(parcels: list[bytes]) -> pa.Table:
    """Return a row for each parcel, with its number."""
    return pa.table(
        {"number": pa.array(range(len(parcels)), pa.int32()), "parcel": pa.array(parcels, pa.binary())}
    )
