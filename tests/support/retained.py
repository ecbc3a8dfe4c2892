"""The retained checkpoints of jobs, made of one real savepoint: some as it is, others as a script changes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import savepointdb
from readers import Savepoint, offset_places
from tests.support.paths import DATA
from writers import SavepointWriter, SetOffsets

WORDCOUNT = DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical"
JOB = "818600d67918fd602d804fa8a20e3c3e"


def changed(target: Path, script: str, source: Path = WORDCOUNT) -> Path:
    """A savepoint as a script makes it of another one."""
    with savepointdb.connect(source) as connection:
        connection.write(target, script)
    return target


def with_offset(target: Path, offset: int) -> Path:
    """A savepoint whose source would read on from any offset, as tools of others write it."""
    savepoint = Savepoint(WORDCOUNT)
    place, *_ = offset_places(savepoint)
    assert place is not None
    edit = SetOffsets(place.operator_id, {place: (24750, offset)})
    SavepointWriter(savepoint.location, [edit]).write(target)
    return target


def retain(job: Path, numbers: range, savepoint: Path = WORDCOUNT) -> None:
    """Copy a savepoint into the folder of a job, once as each of its checkpoints."""
    for number in numbers:
        shutil.copytree(savepoint, job / f"chk-{number}")
