"""Importing this module gives the active session of Spark the data source `savepoint`; `register` gives it to another one.

spark = SparkSession.builder.getOrCreate()
import savepointdb.spark
spark.read.format("savepoint").option("table", "aggregate__count").load("/savepoints/savepoint-42")
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from service.spark import SavepointDataSource


def register(session: SparkSession) -> None:
    """Let a session read `format("savepoint")`, in batches and as a stream of checkpoints."""
    session.dataSource.register(SavepointDataSource)


_active = SparkSession.getActiveSession()
if _active is not None:
    register(_active)
