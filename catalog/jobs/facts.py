"""`JobFacts`: what a cluster of Flink says of a job and its checkpoints, and `KnownFacts`, all that a catalog has learned.

A path says to which job a checkpoint belongs, and `_metadata` what is in it. Only the cluster knows the job's name, when a
checkpoint was made, and whether it is still to be kept.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from catalog.labels import savepoint_location
from readers import ReaderError


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
    """What a cluster says of a checkpoint.

    Attributes:
        checkpoint_id: its number.
        kind: `CHECKPOINT` or `SAVEPOINT`.
        created_at: when it was triggered, in UTC; None if the cluster does not say.
        status: the word of the cluster, such as `COMPLETED`.
    """

    checkpoint_id: int
    kind: str
    created_at: datetime | None = None
    status: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What a cluster says of a job.

    Attributes:
        job_id: 32 hexadecimal digits. Clusters that run one job each all call it zeros.
        cluster: the label of the cluster; jobs of two clusters are two jobs, also where they have one id.
        name: of the job.
        state: the word of the cluster, such as `RUNNING`.
        checkpoints: path, as this machine sees it → what the cluster says of the checkpoint there.
        operator_names: operator id → the name in the job graph.
        operator_uids: operator id → the uid, where the cluster says it.
    """

    job_id: str
    cluster: str = ""
    name: str | None = None
    state: str | None = None
    checkpoints: Mapping[str, CheckpointFacts] = field(default_factory=dict)
    operator_names: Mapping[str, str] = field(default_factory=dict)
    operator_uids: Mapping[str, str] = field(default_factory=dict)


class KnownFacts:
    """The newest facts of each job. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By cluster and id.
        self._jobs: dict[tuple[str, str], JobFacts] = {}
        # Path of a checkpoint → cluster and id of its job, and what is known of it.
        self._checkpoints: dict[str, tuple[tuple[str, str], CheckpointFacts]] = {}

    def learn(self, facts: JobFacts) -> None:
        """Replace what was known of a job."""
        key = facts.cluster, facts.job_id
        found = {_place(path): (key, one) for path, one in facts.checkpoints.items()}
        with self._lock:
            others = {path: one for path, one in self._checkpoints.items() if one[0] != key}
            self._jobs = self._jobs | {key: facts}
            self._checkpoints = others | found

    def of_job(self, job_id: str | None, paths: Iterable[str] = ()) -> JobFacts | None:
        """Return what is known of a job; None for nothing.

        Args:
            job_id: its id; it decides if no path does, and only one cluster has a job of this id.
            paths: of its savepoints.
        """
        for path in paths if self._checkpoints else ():
            known = self._checkpoints.get(_place(path))
            if known is not None:
                return self._jobs[known[0]]
        found = [facts for facts in self._jobs.values() if facts.job_id == job_id]
        return found[0] if len(found) == 1 else None

    def of_checkpoint(self, path: str) -> CheckpointFacts | None:
        """Return what is known of the checkpoint at a path; None for nothing."""
        known = self._checkpoints
        return known[place][1] if known and (place := _place(path)) in known else None

    def job_id_of(self, path: str) -> str | None:
        """Return the id of the job that the cluster says made the checkpoint at a path; None for none."""
        known = self._checkpoints
        return known[place][0][1] if known and (place := _place(path)) in known else None

    def operator_uids_of(self, path: str, job_id: str | None) -> Mapping[str, str]:
        """Return operator id → uid of the job that made the savepoint at a path.

        Args:
            path: of the savepoint.
            job_id: of the job, as far as the path says it.
        """
        facts = self.of_job(job_id, (path,)) if self._jobs else None
        return {} if facts is None else facts.operator_uids


# For databases that no catalog has: nothing is learned.
NO_FACTS = KnownFacts()


def _place(path: str) -> str:
    try:
        return str(savepoint_location(path))
    except ReaderError:
        return path
