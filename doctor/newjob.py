"""`new_job`: what is known of a new job, from everything that a savepoint is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.against.kind import Against
from doctor.against.savepoint import job_of
from doctor.job import Job
from doctor.versions import FlinkVersion
from readers import Savepoint


def new_job(savepoint: Savepoint, against: Sequence[Against], flink: FlinkVersion) -> Job:
    """Return what is known of the new job of a savepoint.

    Args:
        savepoint: of the old job.
        against: what tells about the new one; what lists operators and states informs before what describes classes.
        flink: the version that restores it.

    Raises:
        ReaderError: something of it cannot be read.
    """
    old = job_of(savepoint)
    new = Job(knows=frozenset(), metadata_version=None, operators={})
    for source in sorted(against, key=lambda source: source.order):
        new = source.inform(new, old, flink)
    return new
