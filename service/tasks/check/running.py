"""What a check is asked; a savepoint, and what it is compared with → findings. `checked`: the check that ends a write."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import doctor
from catalog import Database
from readers import ReaderError, Savepoint
from service.base.errors import InvalidRequestError, QueryError, query_error_of
from service.tasks.check.findings import (
    BAD_INPUT,
    CANNOT_BE_TOLD,
    Finding,
    Findings,
    advice,
    findings_of,
    headline,
)
from service.tasks.check.markup import html_page, junit_text
from service.tasks.check.script import script_of
from service.tasks.task import LONGEST_PATH, Context, Document, Exits, Task, TaskRequest, file_option, option

# Those of `both`; ForSt is for jobs that ask for it.
BACKENDS = ("hashmap", "rocksdb")
FORST = "forst"
AUTO, BOTH = "auto", "both"
_SAMPLE, _ALL = "sample", "all"
_LONGEST_VERSION = 50
_NEWEST_1 = "1.20.3"
_FIRST_METADATA_OF_2 = 5
# Of a state each: a report is for people.
_MOST_FINDINGS = 100
_SHOWN = 10
_OF_A_FINDING = ("operator", "state", "rule", "message", "remedy")
# What a person has to know before a restore; a risk is in a savepoint that Flink wrote as well.
_TOLD = frozenset(
    {doctor.Severity.FAILS, doctor.Severity.UNKNOWN, doctor.Severity.LOSES, doctor.Severity.DOUBT}
)

# The name of a state, and how many of its entries were read.
Note = Callable[[str, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest(TaskRequest):
    """A savepoint to check, and how it would be restored."""

    database: str | None = option(
        "name or alias of the database; default: the newest", default=None, old_name="savepoint"
    )
    against: tuple[str, ...] = option(
        "The new job: a savepoint, a jar or folder of jars, a plan or a stateInfo file. A plan comes from Flink's REST API or "
        "is a compiled SQL plan. May be repeated; if not given, only the Flink version is checked.",
        default=(),
        metavar="X",
        longest=LONGEST_PATH,
        named="databases that are savepoints of the new job; none: only Flink's version is checked",
    )
    flink: str = option(
        "Flink that will restore it, such as 2.3 or 1.20.3.",
        default=doctor.NEWEST_FLINK,
        metavar="VERSION",
        longest=_LONGEST_VERSION,
    )
    backend: str = option(
        "State backend that will restore it. auto checks hashmap and rocksdb; a native savepoint only with its own backend.",
        default=AUTO,
        choices=(*BACKENDS, FORST, BOTH, AUTO),
    )
    values: str | None = option(
        "Also read stored values: 10,000 per state and file, or all. This finds damaged values and objects of Kryo 2 that Kryo "
        "5 misreads.",
        default=None,
        choices=(_SAMPLE, _ALL),
    )
    allow_non_restored: bool = option(
        "Check a start with --allowNonRestoredState: Flink drops state of missing operators.", default=False
    )
    fix: str | None = file_option(
        "Write the statements that mend what a write can mend, as a script for savepointdb write.",
        only_cli=True,
    )

    def __post_init__(self) -> None:
        TaskRequest.__post_init__(self)
        check_version(self.flink)

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends to look at."""
        return BACKENDS if self.backend in (AUTO, BOTH) else (self.backend,)


def check_version(flink: str) -> None:
    """Check the version of Flink of a request.

    Raises:
        InvalidRequestError: it is none, or the doctor has no facts about it.
    """
    try:
        doctor.flink_version(flink)
    except doctor.DoctorError as error:
        raise InvalidRequestError(f"flink: {error}") from error


def run(request: CheckRequest, context: Context) -> Findings:
    """Check a savepoint in this process.

    Raises:
        CatalogError, DatabaseNotFoundError: there is no such savepoint.
        ReaderError: the savepoint, or what it is compared with, cannot be read.
    """
    database = context.database(request.database)
    known = context.against(request.against)

    told = f"checking {database.path}"

    def note(state_name: str, entries: int) -> None:
        nonlocal told
        told = f"checking {database.path}: {state_name}, {entries:,} entries"

    context.progress(lambda: told)
    found = with_script(findings_on(database.savepoint, known, request, database.uids, note), database)
    if request.fix is not None:
        if found.script.text:
            _write(request.fix, found.script.text)
        context.warn(found.script.line(request.fix))
    return found


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidRequestError(f"fix: cannot write {path}: {error.strerror}") from error


def with_script(found: Findings, database: Database) -> Findings:
    """Return findings with the script that mends what a write can mend.

    Raises:
        ReaderError: the headers of an operator cannot be read.
    """
    needs = any(one.mends or any(state.mends for state in one.states) for one in found.worst.operators)
    return replace(found, script=script_of(found.reports, database)) if needs else found


def findings_on(
    savepoint: Savepoint,
    against: Sequence[doctor.Against],
    request: CheckRequest,
    uids: Mapping[str, str],
    note: Note | None = None,
) -> Findings:
    """Check a savepoint with each backend.

    Reads `_metadata`, headers of state files, and the values that docs/reference/verdicts.md names.

    Args:
        savepoint: the savepoint.
        against: what is known of the new job.
        request: how it would be restored.
        uids: operator id → uid, for uids that the savepoint does not store.
        note: told how far the values of a state were read.

    Raises:
        ReaderError: the savepoint, or what it is compared with, cannot be read.
    """
    values = _values(request.values, note)
    reports = [
        doctor.check(
            savepoint,
            against=against,
            flink=request.flink,
            backend=backend,
            allow_non_restored=request.allow_non_restored,
            values=values,
        )
        for backend in request.backends
    ]
    named = (_named(report, uids) for report in reports)
    return Findings.of(named, all_backends=request.backend != AUTO)


def _values(name: str | None, note: Note | None) -> doctor.ValuesCheck | None:
    if name is None:
        return None
    check = doctor.ValuesCheck(most_entries=None) if name == _ALL else doctor.ValuesCheck()
    return check if note is None else replace(check, progress=note)


def _named(report: doctor.CheckReport, uids: Mapping[str, str]) -> doctor.CheckReport:
    """Return a report with the uids that the user gave."""
    return replace(
        report,
        operators=tuple(replace(one, uid=one.uid or uids.get(one.operator_id)) for one in report.operators),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCheck:
    """What a restore does with a new savepoint.

    Attributes:
        flink: the version that restores it.
        verdict: of the worst backend: `fine`, `risk`, `doubt`, `loses`, `unknown` or `fails`.
        exit_code: that of `savepointdb check`.
        headline: the verdict in a sentence.
        advice: what to do, in a sentence.
        findings: what is not fine, the worst first.
    """

    flink: str
    verdict: doctor.Severity
    exit_code: int
    headline: str
    advice: str
    findings: tuple[Finding, ...]

    @property
    def is_fine(self) -> bool:
        """True if nothing has to be known before a restore."""
        return self.verdict not in _TOLD

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that are JSON."""
        return {
            "flink": self.flink,
            "verdict": self.verdict.value,
            "exit_code": self.exit_code,
            "headline": self.headline,
            "advice": self.advice,
            "findings": [
                {"severity": one.severity.value} | {name: getattr(one, name) for name in _OF_A_FINDING}
                for one in self.findings[:_MOST_FINDINGS]
            ],
        }


def checked(savepoint: Savepoint, against: Sequence[doctor.Against], flink: str | None) -> WrittenCheck:
    """Check a new savepoint.

    Args:
        savepoint: the new one.
        against: what is known of its job.
        flink: the version that restores it; None for the newest that has the source's version of `_metadata`.
    """
    is_of_2 = savepoint.metadata.version >= _FIRST_METADATA_OF_2
    version = flink or (doctor.NEWEST_FLINK if is_of_2 else _NEWEST_1)
    try:
        found = findings_on(savepoint, against, CheckRequest(flink=version), {})
    except (QueryError, ReaderError) as error:
        # The savepoint was read back already: no check undoes the write.
        return WrittenCheck(
            flink=version,
            verdict=doctor.Severity.UNKNOWN,
            exit_code=CANNOT_BE_TOLD,
            headline=f"it was not checked for Flink {version}: {query_error_of(error).message}",
            advice="check it with savepointdb check",
            findings=(),
        )
    # What a changed job may risk is no matter of the job that wrote the source.
    is_same_job = all(isinstance(one, doctor.SourceAgainst) for one in against)
    return _of(found, version, names_risks=not is_same_job)


def _of(found: Findings, version: str, *, names_risks: bool) -> WrittenCheck:
    worst = found.worst
    alike = found.alike(worst)
    same = f"; {' and '.join(alike)} alike" if alike else ""
    return WrittenCheck(
        flink=version,
        verdict=worst.severity,
        exit_code=found.exit_code,
        headline=headline(worst, names_risks=names_risks) + same,
        advice=advice(worst),
        findings=tuple(findings_of(worst)),
    )


def check_lines(check: WrittenCheck | None, target: str | None) -> Iterator[str]:
    """Yield what the check found, and how to restore the savepoint.

    Args:
        check: None if nothing was written.
        target: the new savepoint; None if nothing was written.
    """
    if check is None or target is None:
        return
    place = target if "://" in target else os.path.abspath(target)
    if check.is_fine:
        yield f"checked: {check.headline}"
        yield f"restore it: flink run -s {shlex.quote(place)} …"
        return
    told = [one for one in check.findings if one.severity in _TOLD]
    yield f"CHECK: {check.headline}"
    yield from (f"  {one.severity.value}: {one.place}: {one.message}" for one in told[:_SHOWN])
    if len(told) > _SHOWN:
        yield f"  … and {len(told) - _SHOWN:,} more"
    yield f"  {check.advice}"
    yield f"after that: flink run -s {shlex.quote(place)} …"


TASK = Task(
    request=CheckRequest,
    run=run,
    documents={
        "html": Document(suffixes=("html", "htm"), text=html_page),
        "junit": Document(suffixes=("xml",), text=junit_text),
    },
    # Other codes would say that it restores, or fails.
    exits=Exits(
        failed=BAD_INPUT,
        wrong_usage=BAD_INPUT,
        unreadable=BAD_INPUT,
        unexpected=CANNOT_BE_TOLD,
        answers=frozenset(range(BAD_INPUT)),
    ),
    is_apart=True,
)
