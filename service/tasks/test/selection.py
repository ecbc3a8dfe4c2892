"""Which savepoints of a catalog are tested, and which one is before each: of the same job, next in age.

The one before must be readable, as far as `_metadata` says; newer ones that are not are named. Of a job that has none the rules that
need one are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from catalog import Catalog, Database, Job
from readers import ReaderError
from service.base.errors import query_error_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A savepoint to test.

    Attributes:
        database: the savepoint.
        job: the name of its job.
        previous: the one before it; None if there is none.
        notes: what a reader should know of this choice, in sentences.
    """

    database: Database
    job: str
    previous: Database | None = None
    notes: tuple[str, ...] = ()

    @property
    def no_previous(self) -> str:
        """The reason why rules that need the one before it are skipped."""
        return f"there is no checkpoint before {self.database.name} that can be read"


def newest_ones(catalog: Catalog, previous: Database | None = None) -> list[Subject]:
    """Return the newest savepoint of each job.

    Args:
        catalog: the savepoints.
        previous: the one before the only one that is tested, in place of that of its job; None for that.
    """
    return [subject_of(job, 0, previous) for job in catalog.jobs()]


def all_of(catalog: Catalog) -> list[Subject]:
    """Return every savepoint, those of each job from the oldest to the newest."""
    return [subject_of(job, place) for job in catalog.jobs() for place in reversed(range(len(job.databases)))]


def subject_of(job: Job, place: int, previous: Database | None = None) -> Subject:
    """Return a savepoint of a job to test.

    Args:
        job: the job.
        place: of the savepoint among those of the job; the newest is 0.
        previous: the one before it; None for that of the job.
    """
    notes: list[str] = []
    if previous is None:
        previous = next(_readable(job.databases[place + 1 :], notes), None)
    return Subject(database=job.databases[place], job=job.name, previous=previous, notes=tuple(notes))


def _readable(databases: Sequence[Database], notes: list[str]) -> Iterator[Database]:
    for database in databases:
        try:
            database.describe()
        except ReaderError as error:
            notes.append(f"{database.name} is left out: {query_error_of(error).message}")
        else:
            yield database
