"""The parts of tables, several at a time: by threads of this process, or on executors of Spark.

A table is whole when all its parts are. Tables are planned while parts of others are written; parts of several tables are under way at
the same time, because most tables are small.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from catalog import Scan, Split
from catalog.references import SavepointReference
from readers import ReaderError
from service.base.errors import QueryError
from service.query.engines.engine import Engine
from service.tasks.copies.export.files.parts import ExportedFile, PartWork, PartWriter, WrittenPart, parts_of
from service.tasks.copies.export.selection import ChosenTable
from writers import parcel_of, result_of

# On executors a table is noted as whole when all parts of a call are.
_PARTS_OF_A_CALL = 128
_PARTS_OF_A_CLUSTER = 8


@dataclass(slots=True, kw_only=True)
class TableJob:
    """A table that is being written.

    Attributes:
        chosen: the table.
        scan: of all its rows.
        writer: writes its parts.
        written: the parts that are whole, by their numbers.
        kept: the files of the checkpoint before that the table goes on with.
    """

    chosen: ChosenTable
    scan: Scan
    writer: PartWriter
    written: dict[int, WrittenPart] = field(default_factory=dict)
    kept: tuple[ExportedFile, ...] = ()

    @property
    def parts(self) -> list[WrittenPart]:
        """Its parts, in their order."""
        return [self.written[number] for number in sorted(self.written)]


class Workers(ABC):
    """Writes the parts of tables."""

    @abstractmethod
    def written(self, jobs: Iterable[TableJob]) -> Generator[TableJob, None, None]:
        """Yield each table when it is whole, in any order. Close the iterator to stop early.

        Raises:
            QueryError: a part failed.
            ReaderError: a file cannot be read.
            TargetError: a file cannot be written.
        """


class _StoppedError(Exception):
    """Ends a part that nobody wants any more."""


class Threads(Workers):
    """Threads of this process.

    Args:
        count: of threads.
        small: True for parts that are as small as they may be.
    """

    def __init__(self, count: int, *, small: bool = False) -> None:
        self._count, self._small = count, small
        self._has_stopped = threading.Event()
        self._under_way: dict[Future[WrittenPart], tuple[TableJob, int]] = {}
        self._left: dict[int, int] = {}

    def written(self, jobs: Iterable[TableJob]) -> Generator[TableJob, None, None]:
        pool = ThreadPoolExecutor(self._count, thread_name_prefix="export")
        try:
            try:
                for job in jobs:
                    yield from self._begun(pool, job)
            except ReaderError:
                # A table that cannot be read takes nothing from those before it.
                yield from self._rest()
                raise
            yield from self._rest()
        finally:
            self._has_stopped.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _begun(self, pool: ThreadPoolExecutor, job: TableJob) -> Iterator[TableJob]:
        """Begin a table as soon as there are threads for it; yield the tables that are whole meanwhile."""
        parts = parts_of(job.scan, self._count, small=self._small)
        self._left[id(job)] = len(parts)
        if not parts:
            yield job
        job.scan.counter.on_check(self._check)
        for number, splits in enumerate(parts):
            while len(self._under_way) > self._count:
                yield from self._settled()
            self._under_way[pool.submit(self._write, job, number, splits)] = job, number

    def _rest(self) -> Iterator[TableJob]:
        while self._under_way:
            yield from self._settled()

    def _write(self, job: TableJob, number: int, splits: Sequence[Split]) -> WrittenPart:
        return job.writer.write(number, splits, job.scan.counter, self._check)

    def _settled(self) -> Iterator[TableJob]:
        """Wait for a part; yield the tables that are whole by it."""
        done = wait(self._under_way, return_when=FIRST_COMPLETED).done
        # An error takes nothing from the tables that became whole at the same moment.
        for future in sorted(done, key=lambda one: one.exception() is not None):
            job, number = self._under_way.pop(future)
            job.written[number] = future.result()
            self._left[id(job)] -= 1
            if not self._left[id(job)]:
                yield job

    def _check(self) -> None:
        if self._has_stopped.is_set():
            raise _StoppedError


class Executors(Workers):
    """Executors of a cluster, which read the savepoint and write to the destination themselves: both must be where they see them.

    Args:
        engine: runs tasks on them.
        source: the savepoint.
    """

    def __init__(self, engine: Engine, source: SavepointReference) -> None:
        self._engine = engine
        self._source = source

    def written(self, jobs: Iterable[TableJob]) -> Generator[TableJob, None, None]:
        waiting: list[TableJob] = []
        works: list[tuple[TableJob, int, PartWork]] = []
        for job in jobs:
            waiting.append(job)
            for number, splits in enumerate(parts_of(job.scan, _PARTS_OF_A_CLUSTER)):
                far = tuple(split.elsewhere() for split in splits)
                works.append((job, number, PartWork(writer=job.writer, number=number, splits=far)))
            if len(works) >= _PARTS_OF_A_CALL:
                yield from self._called(waiting, works)
                waiting, works = [], []
        yield from self._called(waiting, works)

    def _called(
        self, jobs: Sequence[TableJob], works: Sequence[tuple[TableJob, int, PartWork]]
    ) -> Iterator[TableJob]:
        parcels = [parcel_of(work) for _, _, work in works]
        answers = self._engine.work(parcels, self._source.elsewhere()) if parcels else []
        for (job, number, _), answer in zip(works, answers, strict=True):
            job.written[number] = result_of(answer)
        for job in jobs:
            self._check(job)
            yield job

    def _check(self, job: TableJob) -> None:
        """Check that the files of executors are there: another machine may have another folder by the same path."""
        sizes = {file.path: file.bytes for part in job.parts for file in part.files}
        if sizes and not job.writer.destination.has_all(sizes):
            raise QueryError(
                f"{job.writer.destination.url}: expected the files that executors have written, found not all of them",
                hint="export to a folder that all machines share by the same path, or to an object store",
                code="TARGET_FAILED",
            )
