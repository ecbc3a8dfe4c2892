"""A savepoint, and what it is compared with → findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import doctor
from doctor import Against, CheckReport, DoctorError, ValuesCheck, flink_version
from readers import Savepoint
from service.base.errors import InvalidRequestError
from service.tasks.check.findings import Findings

# Those of `both`; ForSt is for jobs that ask for it.
BACKENDS = ("hashmap", "rocksdb")
FORST = "forst"
AUTO, BOTH = "auto", "both"
NEWEST = "2.3.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """How a savepoint would be restored.

    Attributes:
        flink: the version of Flink.
        backend: `hashmap`, `rocksdb`, `forst`; `both` of the first two; or `auto`: both, but the files of a native savepoint
            with the backend that wrote them.
        allow_non_restored: True for --allowNonRestoredState.
        values: how many stored values are read; None for none.
    """

    flink: str = NEWEST
    backend: str = AUTO
    allow_non_restored: bool = False
    values: ValuesCheck | None = None

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends to look at.

        Raises:
            InvalidRequestError: there is no such backend.
        """
        if self.backend in (AUTO, BOTH):
            return BACKENDS
        if self.backend not in (*BACKENDS, FORST):
            known = ", ".join([*BACKENDS, FORST, BOTH, AUTO])
            raise InvalidRequestError(f"expected a backend of {known}, found {self.backend!r:.60}")
        return (self.backend,)

    def check(self) -> None:
        """Refuse what no check can do, before one starts.

        Raises:
            InvalidRequestError: an unknown version of Flink, or an unknown backend.
        """
        try:
            flink_version(self.flink)
        except DoctorError as error:
            raise InvalidRequestError(str(error)) from error
        _ = self.backends


def values_of(name: str | None, progress: Callable[[str, int], None] | None = None) -> ValuesCheck | None:
    """Return how many stored values a check reads: `sample` or `all` of them; none for None.

    Args:
        name: what the user asked for.
        progress: hears the name of a state, and how many of its entries were read.

    Raises:
        InvalidRequestError: it is neither.
    """
    if name is None:
        return None
    if name not in ("sample", "all"):
        raise InvalidRequestError(f"expected values of sample or all, found {name!r:.60}")
    check = ValuesCheck(most_entries=None) if name == "all" else ValuesCheck()
    return check if progress is None else replace(check, progress=progress)


def findings_on(
    savepoint: Savepoint,
    against: Sequence[Against],
    options: CheckOptions,
    uids: Mapping[str, str],
) -> Findings:
    """Check a savepoint with each backend; reads `_metadata`, the headers of state files, and values as far as docs/check.md says.

    Args:
        savepoint: the savepoint.
        against: what is known of the new job.
        options: how it would be restored.
        uids: operator id → uid, for uids that the savepoint does not store.

    Raises:
        InvalidRequestError: an unknown version of Flink, or an unknown backend.
        ReaderError: the savepoint, or what it is compared with, cannot be read.
    """
    try:
        reports = [
            doctor.check(
                savepoint,
                against=against,
                flink=options.flink,
                backend=backend,
                allow_non_restored=options.allow_non_restored,
                values=options.values,
            )
            for backend in options.backends
        ]
    except DoctorError as error:
        raise InvalidRequestError(str(error)) from error
    named = (_named(report, uids) for report in reports)
    return Findings.of(named, all_backends=options.backend != AUTO)


def _named(report: CheckReport, uids: Mapping[str, str]) -> CheckReport:
    """Return a report with the uids that the user gave."""
    return replace(
        report,
        operators=tuple(replace(one, uid=one.uid or uids.get(one.operator_id)) for one in report.operators),
    )
