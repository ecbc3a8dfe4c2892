"""One look at a cluster: its jobs, their checkpoints, and the names of their operators; `Places` for the paths that it names.

A look costs a request for the list of jobs, one for each job that runs, and one more for each job that was not seen before (its
plan). Jobs that have ended are asked once more, and then no more.

What Flink has said of a savepoint that is still there stays known: its history holds the last ten checkpoints only, and it forgets
ended jobs after an hour.

A path of Flink below the OLD of a path map is ours below its NEW; any other is the same. Nothing is opened by such a path: it is
compared with the paths of savepoints that were found under the roots. No name of a folder stands for a path: the owner of a folder
chooses its name, and the paths of a cluster only Flink.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from catalog import CheckpointFacts, JobFacts
from catalog.references import checkpoint_folders, folder_of
from readers import JobPlan, Location, ReaderError, given_location, read_job_plan
from service.base.errors import FlinkAnswerError, FlinkError, FlinkRefusalError, FlinkUnavailableError
from service.base.settings import InvalidSettingError, Settings, parsed_prefixes, parts_of
from service.tasks.jobs import answers
from service.tasks.jobs.client import RestClient

_MOST_JOBS = 500
_MOST_CHECKPOINTS = 10_000
_NOT_FOUND = 404
_GONE = "the cluster does not list the job any more"


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of Flink, and ours.

    Attributes:
        path_map: prefixes of Flink's paths → ours, the longest first.
        roots: folders that are served.
    """

    path_map: tuple[tuple[Location, Location], ...] = ()
    roots: tuple[Location, ...] = ()

    @classmethod
    def of(cls, settings: Settings, roots: Iterable[str] = ()) -> Places:
        """Return the places that settings and roots describe.

        Raises:
            InvalidSettingError: a path map is not OLD=NEW.
        """
        pairs = map(parsed_prefixes, parts_of(settings.flink.path_map))
        try:
            mapped = [(Location.parse(old), given_location(new)[0]) for old, new in pairs]
            served = tuple(given_location(root)[0] for root in roots)
        except ReaderError as error:
            raise InvalidSettingError(f"flink_path_map: {error}") from error
        return cls(tuple(sorted(mapped, key=lambda pair: -len(pair[0].path))), served)

    def here(self, recorded: str) -> str:
        """Return our path of a path of Flink."""
        try:
            location = Location.parse(recorded)
        except ReaderError:
            return recorded
        for old, new in self.path_map:
            if location.is_inside(old):
                tail = posixpath.relpath(location.path, old.path)
                return str(new if tail == "." else new / tail)
        return str(location)

    def is_served(self, path: str) -> bool:
        """Return whether one of our paths is below a root."""
        try:
            location, _ = given_location(path)
        except ReaderError:
            return False
        return any(location.is_inside(root) for root in self.roots)

    def has_served(self, paths: Collection[str]) -> bool:
        """Return whether one of the paths of a job is below a root; True for a job that has none yet."""
        return not paths or any(map(self.is_served, paths))


def place_of(path: str) -> str:
    """Return one text for all the ways to write one of our paths; links are not followed."""
    try:
        return str(given_location(path)[0])
    except ReaderError:
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveJob:
    """A job as its cluster has described it last.

    Attributes:
        label: of the cluster.
        job_id, name, state, started_at: as Flink says them.
        last_seen_at: when Flink said so.
        error: why Flink says no more; None if it does.
        checkpoints: how many there are, and those that Flink remembers.
        failure: why the last checkpoint that failed did.
        may_savepoint: True if the user who sees it may have savepoints of it taken.
        paths: of its checkpoints, as we see them.
        folders: of the job alone, in which the cluster names checkpoints, as we see them.
    """

    label: str
    job_id: str
    name: str
    state: str
    started_at: datetime | None = None
    last_seen_at: datetime
    error: str | None = None
    checkpoints: answers.JobCheckpoints
    failure: str | None = None
    may_savepoint: bool = False
    paths: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()

    @property
    def path(self) -> str:
        """The path of one of its checkpoints, as we see it; empty if there is none."""
        return max(self.paths, default="")

    def has_made(self, place: str) -> bool:
        """Return whether the cluster says that the job made the savepoint at a place (of `place_of`)."""
        return place in self.paths or folder_of(place) in self.folders


@dataclass(slots=True, kw_only=True)
class _Followed:
    """A job between two looks.

    Attributes:
        summary: of the list of jobs.
        last_seen_at: when the list had it.
        answer: about its checkpoints; None before the first.
        checkpoints: number → what Flink has said of it, now or before.
        plan: of its operators; None before it was asked for.
        error: why the last request about it failed.
        is_done: whether the job has ended, and was asked since.
    """

    summary: answers.JobSummary
    last_seen_at: datetime
    answer: answers.JobCheckpoints | None = None
    checkpoints: dict[int, answers.CheckpointAnswer] = field(default_factory=dict)
    plan: JobPlan | None = None
    error: str | None = None
    is_done: bool = False


class Watch:
    """What one cluster has said so far. One thread looks; the results of a look are values.

    Args:
        client: asks the cluster.
        places: its paths, and ours.

    Attributes:
        version: of Flink; None before its first answer.
    """

    def __init__(self, client: RestClient, places: Places) -> None:
        self.version: str | None = None
        self._client = client
        self._places = places
        self._jobs: dict[str, _Followed] = {}

    def look(self) -> None:
        """Ask the cluster.

        Raises:
            FlinkError: it does not answer, or not as it should; what was known stays known.
        """
        self.version = answers.version_in(self._client.get("/config"))
        jobs = answers.jobs_in(self._client.get("/jobs/overview"))[:_MOST_JOBS]
        now = datetime.now(UTC)
        listed = {job.job_id for job in jobs}
        for job in jobs:
            followed = self._jobs.setdefault(job.job_id, _Followed(summary=job, last_seen_at=now))
            # A job that was restarted under its own id is asked again.
            followed.is_done = followed.is_done and job == followed.summary
            followed.summary, followed.last_seen_at, followed.error = job, now, None
        for job_id, followed in self._jobs.items():
            if job_id not in listed:
                followed.error = _GONE
            elif not followed.is_done:
                self._ask(followed)
        self._forget(listed)

    def jobs(self) -> list[LiveJob]:
        """Return all jobs that are known."""
        return [self._live(followed) for followed in self._jobs.values()]

    def facts(self) -> list[JobFacts]:
        """Return what the catalog may learn of the jobs."""
        return [self._facts(followed) for followed in self._jobs.values()]

    def keep(self, places: Collection[str]) -> None:
        """Forget the checkpoints of which Flink says nothing any more, and which are at none of these places.

        Otherwise a job with a checkpoint each second would make every look slower than the last one.
        """
        for followed in self._jobs.values():
            told = set() if followed.answer is None else {one.number for one in followed.answer.checkpoints}
            by_path = self._by_path(followed).items()
            kept = told | {one.number for path, one in by_path if path in places}
            followed.checkpoints = {
                number: one for number, one in followed.checkpoints.items() if number in kept
            }

    def _ask(self, followed: _Followed) -> None:
        """Ask for the checkpoints of a job, and for its plan if that is not known.

        Raises:
            FlinkUnavailableError: the cluster does not answer; asking for other jobs would take as long.
        """
        job_id, has_ended = followed.summary.job_id, followed.summary.has_ended
        try:
            if followed.plan is None:
                followed.plan = self._plan(job_id)
            answer = answers.checkpoints_in(self._client.get(f"/jobs/{job_id}/checkpoints"))
        except FlinkUnavailableError:
            raise
        except FlinkError as error:
            # A job that never checkpoints has no such page.
            is_missing = isinstance(error, FlinkRefusalError) and error.found_status == _NOT_FOUND
            followed.error = None if is_missing else error.message
            followed.is_done = has_ended
            return
        followed.answer = answer
        followed.checkpoints |= {one.number: one for one in answer.checkpoints}
        for number in sorted(followed.checkpoints)[:-_MOST_CHECKPOINTS]:
            del followed.checkpoints[number]
        followed.is_done = has_ended

    def _plan(self, job_id: str) -> JobPlan:
        document = self._client.get(f"/jobs/{job_id}/plan")
        try:
            return read_job_plan(json.dumps({"plan": document.content("plan")}).encode())
        except ReaderError as error:
            raise FlinkAnswerError(f"{self._client.endpoint.label}: /jobs/{job_id}/plan: {error}") from error

    def _forget(self, listed: set[str]) -> None:
        """Forget the jobs that were seen longest ago, if there are too many."""
        gone = sorted(
            (job_id for job_id in self._jobs if job_id not in listed),
            key=lambda job_id: self._jobs[job_id].last_seen_at,
        )
        for job_id in gone[: max(0, len(self._jobs) - 2 * _MOST_JOBS)]:
            del self._jobs[job_id]

    def _live(self, followed: _Followed) -> LiveJob:
        summary = followed.summary
        paths = frozenset(self._by_path(followed))
        failures = [one for one in followed.checkpoints.values() if one.failure]
        return LiveJob(
            label=self._client.endpoint.label,
            job_id=summary.job_id,
            name=summary.name,
            state=summary.state,
            started_at=summary.started_at,
            last_seen_at=followed.last_seen_at,
            error=followed.error,
            checkpoints=followed.answer or answers.JobCheckpoints(),
            failure=max(failures, key=lambda one: one.number).failure if failures else None,
            paths=paths,
            folders=frozenset(checkpoint_folders(summary.job_id, paths)),
        )

    def _facts(self, followed: _Followed) -> JobFacts:
        plan = followed.plan or {}
        return JobFacts(
            job_id=followed.summary.job_id,
            cluster=self._client.endpoint.label,
            name=followed.summary.name,
            state=followed.summary.state,
            checkpoints={
                path: CheckpointFacts(
                    checkpoint_id=one.number, kind=one.kind, created_at=one.triggered_at, status=one.status
                )
                for path, one in self._by_path(followed).items()
            },
            operator_names={one_id: one.name for one_id, one in plan.items() if one.name is not None},
            # A wrong uid is the hash of no operator's id, and does no harm.
            operator_uids={one_id: one.uid for one_id, one in plan.items() if one.uid is not None},
        )

    def _by_path(self, followed: _Followed) -> dict[str, answers.CheckpointAnswer]:
        """Return our path of each checkpoint that has one → what Flink says of it."""
        return {
            place_of(self._places.here(one.path)): one
            for one in followed.checkpoints.values()
            if one.path is not None
        }
