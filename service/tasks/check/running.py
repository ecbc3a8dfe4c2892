"""What a check is asked; a savepoint, and what it is compared with → findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import doctor
from doctor import NEWEST_FLINK, Against, CheckReport, DoctorError, ValuesCheck, flink_version
from readers import Savepoint
from service.base.errors import InvalidRequestError
from service.tasks.check.findings import BAD_INPUT, CANNOT_BE_TOLD, Findings
from service.tasks.check.junit import junit_text
from service.tasks.check.markup import html_page
from service.tasks.request import TaskRequest, option
from service.tasks.task import Context, Document, Exits, Task

# Those of `both`; ForSt is for jobs that ask for it.
BACKENDS = ("hashmap", "rocksdb")
FORST = "forst"
AUTO, BOTH = "auto", "both"
_SAMPLE, _ALL = "sample", "all"
_LONGEST_VERSION = 50
_LONGEST_PATH = 4_096

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
        longest=_LONGEST_PATH,
        named="databases that are savepoints of the new job; none: only Flink's version is checked",
    )
    flink: str = option(
        "Flink that will restore it, such as 2.3 or 1.20.3.",
        default=NEWEST_FLINK,
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

    def __post_init__(self) -> None:
        TaskRequest.__post_init__(self)
        try:
            flink_version(self.flink)
        except DoctorError as error:
            raise InvalidRequestError(f"flink: {error}") from error

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends to look at."""
        return BACKENDS if self.backend in (AUTO, BOTH) else (self.backend,)


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
    return findings_on(database.savepoint, known, request, database.uids, note)


def findings_on(
    savepoint: Savepoint,
    against: Sequence[Against],
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
    reports = [
        doctor.check(
            savepoint,
            against=against,
            flink=request.flink,
            backend=backend,
            allow_non_restored=request.allow_non_restored,
            values=_values(request.values, note),
        )
        for backend in request.backends
    ]
    named = (_named(report, uids) for report in reports)
    return Findings.of(named, all_backends=request.backend != AUTO)


def _values(name: str | None, note: Note | None) -> ValuesCheck | None:
    if name is None:
        return None
    check = ValuesCheck(most_entries=None) if name == _ALL else ValuesCheck()
    return check if note is None else replace(check, progress=note)


def _named(report: CheckReport, uids: Mapping[str, str]) -> CheckReport:
    """Return a report with the uids that the user gave."""
    return replace(
        report,
        operators=tuple(replace(one, uid=one.uid or uids.get(one.operator_id)) for one in report.operators),
    )


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
