"""`Job`: the databases of one job, by their paths alone.

| path below the root `prod` | job | why |
|---|---|---|
| `<id>/chk-4` | `prod__<id>` | Flink writes the checkpoints of a job into a folder of its own |
| `us/jobA/chk-4`, `us/jobA/nightly` | `prod__us__jobA` | the folder that they are in |
| `chk-4` | `prod` | the root is that folder |
| `savepoint-3f2a91-0c1d2e3f4a5b` | the job whose id begins with `3f2a91` | if the catalog has exactly one |
| | else `prod__savepoint-3f2a91` | all with these digits in this folder |
| any that a cluster of Flink knows | the job of the id that the cluster says | if the catalog has exactly one |
| none: the root is the savepoint | `prod` | a job with one database |

No file is opened, and the name of a job never depends on what else is there. So two folders with one name are two jobs, unless they
are the same folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from catalog.database import Database
from catalog.jobs.facts import KnownFacts
from catalog.labels import JobPlace
from catalog.naming import SEPARATOR, database_name

HISTORY = "history"
# No part of a spelled name begins so: `~` stands before two hexadecimal digits.
_OWN = "~"
_SAVEPOINTS = "savepoint-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The savepoints and checkpoints of a job.

    Attributes:
        name: unique in the catalog.
        label: of the root that they are under.
        title: the name for people, which other jobs may have, too.
        job_id: the id that Flink gave to the job, 32 hexadecimal digits; None where no path has it.
        databases: the newest first; at least one.
        history: the name of the schema of its history.
    """

    name: str
    label: str
    title: str
    job_id: str | None
    databases: tuple[Database, ...]
    history: str

    def is_called(self, name: str) -> bool:
        """Return whether the job has this casefolded name, id or title; several jobs may have one title."""
        spelled = database_name(self.title).casefold()
        return name in (self.name.casefold(), self.job_id, self.title.casefold(), spelled)


def jobs_of(databases: Sequence[Database], facts: KnownFacts) -> list[Job]:
    """Return the jobs of databases, in the order of their first ones; opens nothing.

    Args:
        databases: all that a user sees: the others have no influence.
        facts: what clusters say of them.
    """
    by_place = _by_job(databases, facts)
    taken = {database.name.casefold() for database in databases}
    return [
        Job(
            name=name,
            label=found[0].job.label,
            title=found[0].job.title or found[0].job.label,
            job_id=next((job_id for one in found if (job_id := _job_id(one, facts))), None),
            databases=newest_first(found),
            history=_history_name(name, taken),
        )
        for name, found in by_place.items()
    ]


def earlier_than(database: Database, jobs: Iterable[Job]) -> tuple[Database, ...]:
    """Return the databases before one in its job, the newest first; opens nothing."""
    for job in jobs:
        if database in job.databases:
            return job.databases[job.databases.index(database) + 1 :]
    return ()


def newest_first(databases: Iterable[Database]) -> tuple[Database, ...]:
    """Return the databases of one job, the newest first; opens nothing."""
    found = list(databases)
    # Flink counts the checkpoints of a job on. A copy of them may have any times.
    if all(one.job.checkpoint is not None for one in found):
        return tuple(sorted(found, key=lambda one: one.job.checkpoint or 0, reverse=True))
    return tuple(
        sorted(found, key=lambda one: (one.modified_ns, one.job.checkpoint or 0, one.name), reverse=True)
    )


def _by_job(databases: Sequence[Database], facts: KnownFacts) -> dict[str, list[Database]]:
    """Return the name of each job → its databases."""
    named: dict[str, list[Database]] = {}
    waiting: list[Database] = []
    for database in databases:
        said = facts.job_id_of(database.path)
        if database.job.id_prefix is None and said in (None, database.job.job_id):
            named.setdefault(_name(database.job), []).append(database)
        else:
            waiting.append(database)
    by_id: dict[str, list[str]] = {}
    for name, found in named.items():
        for job_id in {one.job.job_id for one in found if one.job.job_id is not None}:
            by_id.setdefault(job_id, []).append(name)
    for database in waiting:
        is_savepoint = database.job.id_prefix is not None
        own = _savepoint_job(database.job, named) if is_savepoint else _name(database.job)
        joined = _only_job(database, by_id, facts)
        named.setdefault(joined or own, []).append(database)
    return named


def _only_job(database: Database, by_id: dict[str, list[str]], facts: KnownFacts) -> str | None:
    """Return the name of the only job of the id, or of its first digits, that is known of a savepoint; None for no such job."""
    known = facts.job_id_of(database.path)
    prefix = known or database.job.id_prefix or ""
    names = [name for job_id, of_id in by_id.items() if job_id.startswith(prefix) for name in of_id]
    return names[0] if len(names) == 1 else None


def _name(place: JobPlace) -> str:
    return database_name(place.label, place.folders)


def _savepoint_job(place: JobPlace, named: dict[str, list[Database]]) -> str:
    """Return the name of the job of savepoints in one folder whose names begin with the same digits."""
    if not place.folders:
        return database_name(place.label)
    above = database_name(place.label, place.folders[:-1])
    own = f"{_SAVEPOINTS}{place.id_prefix}"
    name = SEPARATOR.join((above, own))
    known = named.get(name)
    # A folder of checkpoints may be called so.
    if known is None or known[0].job.id_prefix is not None:
        return name
    return SEPARATOR.join((above, _OWN + own))


def _history_name(job: str, taken: set[str]) -> str:
    name = SEPARATOR.join((job, HISTORY))
    return SEPARATOR.join((job, _OWN + HISTORY)) if name.casefold() in taken else name


def _job_id(database: Database, facts: KnownFacts) -> str | None:
    return database.job.job_id or facts.job_id_of(database.path)
