"""`JobFacts`: what a cluster of Flink says of a job and its checkpoints, and `KnownFacts`, all that a catalog has learned.

A path says to which job a checkpoint belongs, and `_metadata` what is in it. Only the cluster knows the job's name, when a
checkpoint was made, and whether it is still to be kept.

The id of a job in a path proves nothing: everybody can name a folder so. A savepoint belongs to a job of a cluster if the cluster
names its path, or another checkpoint in the same folder: Flink makes that folder for the job alone.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from catalog.naming import savepoint_location
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
        # Path or folder of checkpoints → cluster and id of each job that made them.
        self._makers: dict[str, frozenset[tuple[str, str]]] = {}

    def learn(self, facts: JobFacts) -> None:
        """Replace what was known of a job."""
        key = facts.cluster, facts.job_id
        found = {_place(path): (key, one) for path, one in facts.checkpoints.items()}
        with self._lock:
            others = {path: one for path, one in self._checkpoints.items() if one[0] != key}
            makers = {place: keys - {key} for place, keys in self._makers.items() if keys - {key}}
            for place in found.keys() | checkpoint_folders(facts.job_id, found):
                makers[place] = makers.get(place, frozenset()) | {key}
            self._jobs = self._jobs | {key: facts}
            self._checkpoints = others | found
            self._makers = makers

    def of_job(self, paths: Iterable[str]) -> JobFacts | None:
        """Return what is known of the only job that made the savepoints at these paths; None for nothing."""
        makers, jobs = self._makers, self._jobs
        places = map(_place, paths) if makers else ()
        keys = {key for place in places for one in (place, folder_of(place)) for key in makers.get(one, ())}
        return jobs[keys.pop()] if len(keys) == 1 else None

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
            job_id: of the job, as far as the path says it. It is enough here if one cluster has it: a uid counts only for
                the operator whose id is its hash.
        """
        if not self._jobs:
            return {}
        facts = self.of_job((path,))
        found = [facts] if facts else [one for one in self._jobs.values() if one.job_id == job_id]
        return found[0].operator_uids if len(found) == 1 else {}


# For databases that no catalog has: nothing is learned.
NO_FACTS = KnownFacts()


def checkpoint_folders(job_id: str, places: Collection[str]) -> set[str]:
    """Return the folders, called as the job's id, in which Flink keeps the checkpoints at these places."""
    return {folder for folder in map(folder_of, places) if folder.rpartition("/")[2] == job_id}


def folder_of(place: str) -> str:
    """Return the folder that a checkpoint is in."""
    return place.rpartition("/")[0]


def _place(path: str) -> str:
    try:
        return str(savepoint_location(path))
    except ReaderError:
        return path
