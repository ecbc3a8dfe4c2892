"""Will a savepoint restore? Knows Flink's rules of compatibility; knows no SQL, no HTTP, no byte layouts.

In: a savepoint, and what is known of the new job: its savepoint, its jar, its plan, or only the version of Flink. Out: a `CheckReport`:
per operator and state what a restore will do, and what to do about it. This module is the face of the room.

In reading order:

    check.py       check: the whole of it; operators and parallelism
    report.py      CheckReport, OperatorVerdict, StateVerdict
    job.py         Job: what is known of a job, of its jar and of a version of Flink; Against: what tells it
    against/       what a savepoint is compared with → a Job
    states.py      what becomes of each state, by types and the first stored values; the classes that a savepoint names
    values.py      what only the stored values tell
    rules/         what a change does, and what shows it
    errors.py      what can go wrong
"""

from doctor.against.jars import JarAgainst
from doctor.against.recognition import against_of
from doctor.against.savepoint import SavepointAgainst, SourceAgainst
from doctor.check import check, new_job
from doctor.errors import DoctorError, UnknownBackendError, UnknownVersionError
from doctor.job import NEWEST_FLINK, Against, FlinkVersion, Job, flink_version
from doctor.report import (
    DROPPED,
    Change,
    CheckReport,
    Mend,
    OperatorVerdict,
    Outcome,
    RequiredClass,
    Risk,
    Severity,
    Stage,
    StateOutcome,
    StateVerdict,
)
from doctor.rules.rule import Effect, Rule
from doctor.rules.states import CAUTIONS
from doctor.states import FAMILIES as RULES
from doctor.values import ValuesCheck

__all__ = [
    "CAUTIONS", "DROPPED", "NEWEST_FLINK", "RULES", "Against", "Change", "CheckReport", "DoctorError", "Effect",
    "FlinkVersion", "JarAgainst", "Job", "Mend", "OperatorVerdict", "Outcome", "RequiredClass", "Risk",
    "Rule", "SavepointAgainst", "Severity", "SourceAgainst", "Stage", "StateOutcome", "StateVerdict",
    "UnknownBackendError", "UnknownVersionError", "ValuesCheck", "against_of", "check",
    "flink_version", "new_job",
]  # fmt: skip
