"""Where a follower is in the checkpoints of a job, and the step to the next one. Names and times only; no rows are read.

| what the follower finds | the step |
|---|---|
| the next checkpoint | from the last one to it |
| checkpoints between them that cannot be read, or are not there | spans them, and names them: a gap |
| the checkpoint to go on from is gone, or cannot be read | a reset: all rows of the next one, as added |
| a new checkpoint with a number that is not higher, or a new file at the place of the last one | a restart of the job |
| nothing more in the job, and one other job in its folder with the same operators that is newer | a restart as that job, if asked for |

A follower goes on from a token, the number of a checkpoint with what tells it from others:

    42              checkpoint 42 of the followed job
    42@1788264002   the same, of a job that has restarted: checkpoints that are older than this second are those of before
    jobB:42         checkpoint 42 of the job that goes on with the followed one's state
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from catalog.catalog import Catalog
from catalog.database import Database
from catalog.errors import NoSuchCheckpointError, NoSuchJobError
from catalog.history import Job
from readers import ReaderError

LATEST, EARLIEST, SNAPSHOT = "latest", "earliest", "snapshot"
_NANOSECONDS = 1_000_000_000
_TOKEN = re.compile(r"(?:(?P<job>.+):)?(?:chk-)?(?P<number>\d{1,19})(?:@(?P<since>\d{1,12}))?")
_NEVER_THERE = "removed, or never completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The last checkpoint that a follower has.

    Attributes:
        job: the name of its job.
        number: of the checkpoint.
        since_s: checkpoints that are older, in seconds since 1970, are those of before a restart.
        database: the checkpoint; None if it is not there any more.
    """

    job: str
    number: int
    since_s: int = 0
    database: Database | None = None

    def token(self, followed: str) -> str:
        """Return what a follower of a job goes on from."""
        job = "" if self.job == followed else f"{self.job}:"
        return f"{job}{self.number}{f'@{self.since_s}' if self.since_s else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Checkpoints that a step spans.

    Attributes:
        first, last: their numbers.
        reason: why they cannot be read.
    """

    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The way to the next checkpoint.

    Attributes:
        position: of the checkpoint.
        database: the checkpoint.
        before: the one from which its changes count; None if all its rows are added.
        gaps: checkpoints that are spanned, in order.
        restarted: why this is another run of the job; empty if it is not.
        reset: why all rows follow; empty if they do not.
    """

    position: Position
    database: Database
    before: Database | None
    gaps: tuple[Gap, ...] = ()
    restarted: str = ""
    reset: str = ""


class Steps:
    """The steps of one follower.

    Args:
        catalog: the checkpoints, for the beginning.
        job: the job that is followed.
        since: a token, or `latest`, `earliest` or `snapshot`.
        takes_successors: whether another job may go on with this one.
        told: says why a checkpoint cannot be read.

    Raises:
        NoSuchCheckpointError: the beginning is no token, or its checkpoint was never there.
        ReaderError: no checkpoint can be read.
    """

    def __init__(
        self,
        catalog: Catalog,
        job: Job,
        since: str,
        *,
        takes_successors: bool = False,
        told: Callable[[ReaderError], str] = lambda error: error.told,
    ) -> None:
        self.job = job.name
        self._told = told
        self._takes_successors = takes_successors
        # Path → when it was written, of all that were seen: a copied folder may have any times, a new checkpoint is new.
        self._seen: dict[str, int] = {}
        self._failed: dict[tuple[str, int], str] = {}
        self._suspect: Database | None = None
        self.position, self._begins_at = self._beginning(catalog, job, since)

    @property
    def token(self) -> str | None:
        """What another follower goes on from; None before the first checkpoint."""
        return None if self.position is None else self.position.token(self.job)

    def _beginning(self, catalog: Catalog, job: Job, since: str) -> tuple[Position | None, Database | None]:
        """Return where the follower is; or, None, and the checkpoint of which all rows are its first ones."""
        self._see(job)
        known = list(reversed(job.databases))
        if since in (LATEST, EARLIEST, SNAPSHOT):
            readable = [one for one in known if self._failure(one) is None]
            if not readable:
                known[-1].describe()
            if since != LATEST:
                return None, readable[0 if since == EARLIEST else -1]
            return self._at(job.name, readable[-1], 0), None
        named = next((one for one in known if one.name == since), None)
        if named is not None:
            return self._at(job.name, named, 0), None
        found = _TOKEN.fullmatch(since)
        if found is None:
            raise NoSuchCheckpointError(
                f"since: expected latest, earliest, snapshot, or the number of a checkpoint, found {since!r:.100}"
            )
        name, number, since_s = found["job"], int(found["number"]), int(found["since"] or 0)
        own = job if name is None else catalog.job(name)
        self._see(own)
        of_run = _of_run(own, since_s)
        highest = max((_number(one) or 0 for one in of_run), default=0)
        if number > highest and not since_s:
            raise NoSuchCheckpointError(
                f"since: expected a checkpoint up to {highest}, the newest of {own.name}, found {number}"
            )
        at = next((one for one in of_run if _number(one) == number), None)
        return Position(job=own.name, number=number, since_s=since_s, database=at), None

    def next(self, catalog: Catalog) -> Step | None:
        """Return the step to the next checkpoint; None if there is none yet.

        Args:
            catalog: the checkpoints, as they are now.

        Raises:
            NoSuchCheckpointError: two jobs may go on with this one.
        """
        if self.position is None:
            assert self._begins_at is not None
            at = self._at(self.job, self._begins_at, 0)
            return Step(position=at, database=self._begins_at, before=None, reset="it begins with all rows")
        try:
            job = catalog.job(self.position.job)
        except NoSuchJobError:
            return self._successor(catalog)
        found = self._restart(catalog, job) or self._following(catalog, job) or self._successor(catalog)
        # One that cannot be read yet is still new when it can.
        self._see(replace(job, databases=tuple(one for one in job.databases if self._failure(one) is None)))
        return found

    def took(self, step: Step) -> None:
        """Go on from the checkpoint of a step."""
        self.position, self._begins_at = step.position, None
        self._suspect = None

    def failed(self, step: Step, reason: str) -> None:
        """Leave out the checkpoint of a step, whose rows cannot be read; or the one before it, if that of another step cannot be either."""
        if step.before is not None and step.before is self._suspect and self.position is not None:
            self.position = replace(self.position, database=None)
        else:
            self._failed[step.database.path, step.database.modified_ns] = reason
        self._suspect = step.before

    def _following(self, catalog: Catalog, job: Job) -> Step | None:
        """Return the step to the next checkpoint of the same run."""
        assert self.position is not None
        after = [
            (number, one)
            for one in reversed(_of_run(job, self.position.since_s))
            if (number := _number(one)) is not None and number > self.position.number
        ]
        return self._step(catalog, job, after, self.position.since_s)

    def _restart(self, catalog: Catalog, job: Job) -> Step | None:
        """Return the step into another run of the job, which has overwritten the last checkpoint, or counts from a lower number."""
        assert self.position is not None
        last = self.position.database
        new = [one for one in job.databases if self._seen.get(one.path) != one.modified_ns]
        again = [
            (number, one)
            for one in new
            if (number := _number(one)) is not None
            and number <= self.position.number
            and (last is None or one.modified_ns >= last.modified_ns)
        ]
        if not again:
            return None
        since_s = min(one.modified_ns for _, one in again) // _NANOSECONDS
        reason = f"checkpoint {again[0][0]} is newer than {self.position.number}"
        return self._step(catalog, job, again, since_s, reason)

    def _successor(self, catalog: Catalog) -> Step | None:
        """Return the step to the job that goes on with the state of this one."""
        last = None if self.position is None else self.position.database
        if not self._takes_successors or last is None or last.lineage is None or not last.job.folders:
            return None
        found = [job for job in catalog.jobs() if job.name != self.job and _goes_on(job, last)]
        if not found:
            return None
        if len(found) > 1:
            names = ", ".join(job.name for job in found[:5])
            raise NoSuchCheckpointError(
                f"expected one job that goes on with {self.job}, found {len(found)}; follow one: {names}"
            )
        (job,) = found
        self._see(job)
        after = [(number, one) for one in job.databases if (number := _number(one)) is not None]
        return self._step(catalog, job, after, 0, f"job {job.name} goes on with its state")

    def _step(
        self,
        catalog: Catalog,
        job: Job,
        after: Sequence[tuple[int, Database]],
        since_s: int,
        restarted: str = "",
    ) -> Step | None:
        """Return the step to the first of some checkpoints that can be read.

        Args:
            catalog: the checkpoints, as they are now.
            job: their job.
            after: their numbers.
            since_s: see `Position`.
            restarted: why they are of another run; empty if they are not.
        """
        assert self.position is not None
        ordered = sorted(after, key=lambda pair: pair[0])
        failures = [(number, one, self._failure(one)) for number, one in ordered]
        found = next(((number, one) for number, one, failure in failures if failure is None), None)
        if found is None:
            return None
        number, database = found
        before = self.position.database
        reset = ""
        if before is None or not _is_still(before, catalog):
            before, reset = None, f"checkpoint {self.position.number} is gone, or cannot be read"
        unread = {one: failure for one, _, failure in failures if failure is not None and one < number}
        first = ordered[0][0] if restarted else self.position.number + 1
        return Step(
            position=Position(job=job.name, number=number, since_s=since_s, database=database),
            database=database,
            before=before,
            gaps=_gaps(range(first, number), unread),
            restarted=restarted,
            reset=reset,
        )

    def _see(self, job: Job) -> None:
        self._seen |= {one.path: one.modified_ns for one in job.databases}

    def _failure(self, database: Database) -> str | None:
        """Return why a checkpoint cannot be read; None if it can."""
        known = self._failed.get((database.path, database.modified_ns))
        if known is not None:
            return known
        try:
            database.describe()
        except ReaderError as error:
            return self._told(error)
        return None

    def _at(self, job: str, database: Database, since_s: int) -> Position:
        return Position(job=job, number=_number(database) or 0, since_s=since_s, database=database)


def _number(database: Database) -> int | None:
    """Return the number of a checkpoint, of its folder where Flink names it so; None if it cannot be read."""
    if database.job.checkpoint is not None:
        return database.job.checkpoint
    try:
        return database.checkpoint_id
    except ReaderError:
        return None


def _of_run(job: Job, since_s: int) -> list[Database]:
    """Return the checkpoints of one run of a job, the newest first."""
    return [one for one in job.databases if one.modified_ns >= since_s * _NANOSECONDS]


def _is_still(database: Database, catalog: Catalog) -> bool:
    """Return whether a checkpoint is there, as it was when it was found."""
    return any(
        one.path == database.path and one.modified_ns == database.modified_ns for one in catalog.known()
    )


def _goes_on(job: Job, last: Database) -> bool:
    """Return whether a job began after a checkpoint of another one in the same folder, with the same operators."""
    oldest = job.databases[-1]
    if oldest.job.folders[:-1] != last.job.folders[:-1] or oldest.job.label != last.job.label:
        return False
    if min(one.modified_ns for one in job.databases) <= last.modified_ns:
        return False
    try:
        oldest.describe()
    except ReaderError:
        return False
    return oldest.lineage == last.lineage


def _gaps(numbers: range, unread: dict[int, str]) -> tuple[Gap, ...]:
    """Return the checkpoints of some numbers that cannot be read, those of one reason together."""
    found: list[Gap] = []
    next_one = numbers.start
    for number in sorted(unread):
        if next_one < number:
            found.append(Gap(first=next_one, last=number - 1, reason=_NEVER_THERE))
        if found and found[-1].reason == unread[number] and found[-1].last == number - 1:
            found[-1] = replace(found[-1], last=number)
        else:
            found.append(Gap(first=number, last=number, reason=unread[number]))
        next_one = number + 1
    if next_one < numbers.stop:
        found.append(Gap(first=next_one, last=numbers.stop - 1, reason=_NEVER_THERE))
    return tuple(found)
