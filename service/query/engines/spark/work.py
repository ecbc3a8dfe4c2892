"""Work of the writers on executors: a task for each parcel.

The thread that asks waits, so that a signal or a cancel can end it at any time; another thread talks to Spark. When the wait ends early,
the tasks are cancelled, and it takes a while until none of them runs: what they write is removed afterwards.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence

from catalog.references import SavepointReference
from service.base.errors import EngineUnavailableError, QueryError
from service.query.engines.spark.errors import spark_error_of
from service.query.engines.spark.sessions import Sessions

_AGAIN_S = 0.2
# A Python that does not end by itself is killed by Spark after two seconds.
_PATIENCE_S = 15.0


class SparkWork:
    """The work of some parcels.

    Args:
        sessions: run it.
        parcels: the parcels.
        source: the savepoint that is changed.
    """

    def __init__(self, sessions: Sessions, parcels: Sequence[bytes], source: SavepointReference) -> None:
        self._sessions = sessions
        self._parcels = list(parcels)
        self._source = source
        self._tag = f"savepointdb-write-{secrets.token_hex(8)}"
        self._has_ended = threading.Event()
        self._answers: dict[int, bytes] = {}
        self._failure: QueryError | None = None

    def answers(self) -> list[bytes]:
        """Do the work, and return the answers in the order of the parcels.

        Raises:
            QueryError: Spark is not there, or gave up.
        """
        thread = threading.Thread(target=self._run, name=self._tag, daemon=True)
        thread.start()
        try:
            self._has_ended.wait()
            thread.join()
        finally:
            self._settle(thread)
        if self._failure is not None:
            raise self._failure
        return [self._answers[number] for number in range(len(self._parcels))]

    def _settle(self, thread: threading.Thread) -> None:
        """Cancel what still runs, and wait until none of the tasks writes: also one that was started twice, and is not needed."""
        deadline = time.monotonic() + _PATIENCE_S
        while thread.is_alive() or self._sessions.running(self._tag):
            if time.monotonic() > deadline:
                return
            if thread.is_alive():
                # A cancel misses a job that starts after it.
                self._sessions.cancel(self._tag)
            time.sleep(_AGAIN_S)

    def _run(self) -> None:
        try:
            self._answers = self._asked()
        except QueryError as error:
            self._failure = error
        except Exception as error:  # pyspark's, py4j's and Java's, of any kind
            self._failure = spark_error_of(str(error))
            self._failure.__cause__ = error
            if isinstance(self._failure, EngineUnavailableError):
                self._sessions.forget()
        finally:
            self._has_ended.set()

    def _asked(self) -> dict[int, bytes]:
        session = self._sessions.new()
        from service.spark.files import ParcelWorker, parcel_rows
        from service.spark.types import spark_schema

        with self._sessions.tagged(session, self._tag):
            # Spark cuts a DataFrame of local rows into this many partitions: a task for each parcel.
            session.conf.set("spark.sql.leafNodeDefaultParallelism", str(len(self._parcels)))
            worker = ParcelWorker(self._source)
            frame = session.createDataFrame(parcel_rows(self._parcels))
            found = frame.mapInArrow(worker.savepoint, spark_schema(worker.schema)).toArrow()
        numbers, answers = found.column(0).to_pylist(), found.column(1).to_pylist()
        return dict(zip(numbers, answers, strict=True))
