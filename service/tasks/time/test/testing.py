"""Rules over savepoints: what is asked, the run, and its report as lines for people and as XML.

The lines say what is wrong, the worst first, and how much is fine. The XML is as JUnit writes it:

| here | there |
|---|---|
| savepoint | `testsuite` |
| rule, or rule and state | `testcase` |
| violation of at least the severity that fails | `failure` |
| violation of less severity | `system-out` of a test that passes |
| error of a rule, file or savepoint that cannot be read | `error` |
| rule that cannot be tested on it | `skipped` |
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from catalog import Catalog, Database
from service.base.errors import InvalidRequestError, LimitExceededError, QueryTimeoutError
from service.base.settings import Settings
from service.query.encode import counted, dated, printable, wrapped_lines
from service.query.encode.markup import Case, Suite, junit_document
from service.query.engines.registry import AUTO, choices
from service.query.running.request import sendable
from service.tasks.task import JUDGED, Context, Task, TaskRequest, option
from service.tasks.time.test.rules import (
    Rule,
    Severity,
    given_params,
    read_rules,
    read_text,
    standard_rules,
    with_params,
)
from service.tasks.time.test.running import (
    KEPT,
    RuleResult,
    Runner,
    SavepointResult,
    Status,
    Subject,
    all_of,
    newest_ones,
    subject_of,
)

_LONGEST_RULES = 200_000
_MOST_RESULTS = 10_000
_MOST_ROW_BYTES = 64 << 20
_NAMES_LISTED = 100
# The longest label is UNREADABLE.
_INDENT = " " * 12
_MOST_SKIPPED = 10
_FEWER = "test fewer rules, or fewer savepoints; or select fewer columns"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRequest(TaskRequest):
    """Rules, and the savepoints to test."""

    # To pytest a class of this name would be a test.
    __test__: ClassVar[bool] = False

    rules: str = option(
        'rules in TOML: [[rule]] name = "…", sql = "…" that returns no row if all is well, or expect = { min = …, max = … } of '
        "one value",
        default="",
        longest=_LONGEST_RULES,
    )
    standard: bool = option("Test the rules that come with savepointdb, too.", default=False)
    rule: tuple[str, ...] = option(
        "Test only rules of such names. May be repeated.", default=(), metavar="PATTERN"
    )
    params: tuple[str, ...] = option(
        "Value of a parameter of rules: NAME=VALUE. May be repeated.",
        default=(),
        metavar="NAME=VALUE",
        flag="param",
    )
    database: str | None = option(
        "name or alias of the savepoint to test; default: the newest of each job", default=None
    )
    previous: str | None = option(
        "Savepoint before the tested one; if not given, the previous one of its job.",
        default=None,
        metavar="PATH",
    )
    all: bool = option("Test every savepoint, not only the newest of each job.", default=False)
    fail_on: str = option(
        "Least severity of a violation that fails.",
        default=Severity.ERROR.value,
        choices=tuple(one.value for one in Severity),
    )
    engine: str = option("Engine that runs the queries.", default=AUTO, choices=choices())


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What a caller on this machine brings beside a request. Its runs take as long, and keep as much, as they need.

    Attributes:
        files: paths of files of rules.
        params: values of parameters, by name.
    """

    files: Sequence[str] = ()
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The results of a run.

    Attributes:
        savepoints: the results of each, in the order in which they were tested.
        fail_on: the least severity of a violation that makes the exit code 1.
    """

    savepoints: tuple[SavepointResult, ...]
    fail_on: Severity = Severity.ERROR

    @property
    def exit_code(self) -> int:
        """The exit code of the program."""
        return max((one.exit_code(self.fail_on) for one in self.savepoints), default=KEPT)

    @property
    def results(self) -> Iterator[tuple[SavepointResult, RuleResult]]:
        """The result of each rule on each savepoint."""
        return ((savepoint, one) for savepoint in self.savepoints for one in savepoint.results)

    @property
    def violations(self) -> tuple[tuple[SavepointResult, RuleResult], ...]:
        """Those of the results that are violations, of any severity."""
        return tuple(pair for pair in self.results if pair[1].status is Status.VIOLATED)

    @property
    def summary(self) -> str:
        """The line that sums it up."""
        counts = Counter(one.status for _, one in self.results)
        failing = sum(one.fails(self.fail_on) for _, one in self.results)
        unread = sum(bool(one.error) for one in self.savepoints)
        told = [
            counted(failing, "violation"),
            f"{counts[Status.VIOLATED] - failing:,} of less severity"
            if counts[Status.VIOLATED] > failing
            else "",
            f"{counts[Status.ERROR]:,} with an error" if counts[Status.ERROR] else "",
            f"{counts[Status.UNREADABLE]:,} not readable" if counts[Status.UNREADABLE] else "",
            f"{counts[Status.SKIPPED]:,} skipped" if counts[Status.SKIPPED] else "",
            f"{counts[Status.PASSED]:,} passed",
            f"{counted(unread, 'savepoint')} cannot be read" if unread else "",
        ]
        kinds = Counter((one.kind or "savepoint").lower() for one in self.savepoints)
        tested = ", ".join(counted(count, kind) for kind, count in sorted(kinds.items()))
        return f"{tested or counted(0, 'savepoint')}: {', '.join(filter(None, told))}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that are JSON."""
        counts = Counter(one.status.value for _, one in self.results)
        return {
            "exit_code": self.exit_code,
            "fail_on": self.fail_on.value,
            "counts": {status.value: counts[status.value] for status in Status},
            "unreadable_savepoints": [sendable(one.name) for one in self.savepoints if one.error],
            "savepoints": [one.to_dict() for one in self.savepoints],
        }

    def lines(self, width: int | None) -> Iterator[str]:
        """See `Outcome`: what is wrong with each savepoint, and the summary."""
        for one in self.savepoints:
            yield from savepoint_lines(one, self.fail_on, width)
            yield ""
        yield self.summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Testing:
    """Rules that are ready to be tested.

    Attributes:
        runner: tests them on one savepoint.
        fail_on: the least severity of a violation that fails.
    """

    runner: Runner
    fail_on: Severity

    def report(
        self, subjects: Sequence[Subject], test: Callable[[Subject], SavepointResult] | None = None
    ) -> RunReport:
        """Test savepoints.

        Args:
            subjects: the savepoints.
            test: tests one of them; None for the runner itself.
        """
        return RunReport(savepoints=tuple(map(test or self.runner.run, subjects)), fail_on=self.fail_on)


def run(request: TestRequest, context: Context) -> RunReport:
    """Test rules on savepoints; what cannot be read, and rules that fail, are in the report.

    Raises:
        InvalidRulesError: the rules are not as documented.
        InvalidRequestError: there is no rule of a name, or a savepoint too many.
        DatabaseNotFoundError: there is no such savepoint.
        LimitExceededError: the run takes too long, or finds too much.
    """
    return prepared(request, context).report(subjects_of(request, context.catalog))


def prepared(request: TestRequest, context: Context, brought: Brought | None = None) -> Testing:
    """Return the rules of a request, ready to be tested.

    Args:
        request: the rules.
        context: for whom.
        brought: what a caller on this machine brings; None if the caller is elsewhere.

    Raises:
        InvalidRulesError: the rules are not as documented.
        InvalidRequestError: there are none, or none of a name.
    """
    asked = replace(context.asked, engine=request.engine)
    rules = rules_of(request, brought or Brought())
    spend = _Budget(context.settings).spend if brought is None else lambda _: None
    return Testing(
        runner=Runner(start=context.start, rules=rules, asked=asked, spend=spend),
        fail_on=Severity(request.fail_on),
    )


def rules_of(request: TestRequest, brought: Brought) -> list[Rule]:
    """Return the rules to test.

    Raises:
        InvalidRulesError: the rules are not as documented.
        InvalidRequestError: there are none, or none of a name.
    """
    rules = standard_rules() if request.standard else []
    rules = read_text(request.rules, rules) if request.rules else rules
    rules = read_rules(brought.files, rules)
    if not rules:
        raise InvalidRequestError("expected rules, or the standard ones, found none")
    rules = with_params(rules, {**given_params(request.params), **brought.params})
    for pattern in request.rule:
        if not any(fnmatchcase(rule.name, pattern) for rule in rules):
            known = ", ".join(rule.name for rule in rules[:_NAMES_LISTED])
            raise InvalidRequestError(f"rule: expected a name of {known}, found {pattern!r:.100}")
    chosen = request.rule or ("*",)
    return [rule for rule in rules if any(fnmatchcase(rule.name, pattern) for pattern in chosen)]


def subjects_of(request: TestRequest, catalog: Catalog, previous: Database | None = None) -> list[Subject]:
    """Return the savepoints to test.

    Args:
        request: names them.
        catalog: those that the caller sees.
        previous: the savepoint before the only one that is tested; None for that of the request.

    Raises:
        CatalogError: there is no such savepoint.
        InvalidRequestError: there are several, and one before.
    """
    if previous is None and request.previous is not None:
        previous = catalog.database(request.previous)
    if request.database is not None:
        if request.all:
            raise InvalidRequestError("expected database or all, found both")
        named = catalog.database(request.database).name
        return [
            subject_of(job, place, previous)
            for job in catalog.jobs()
            for place, one in enumerate(job.databases)
            if one.name == named
        ]
    if previous is None:
        return all_of(catalog) if request.all else newest_ones(catalog)
    if request.all or len(catalog.known()) != 1:
        found = "all" if request.all else len(catalog.known())
        raise InvalidRequestError(f"previous: expected one savepoint with previous, found {found}")
    return newest_ones(catalog, previous)


class _Budget:
    """What a run of a caller elsewhere may take: of the service's time no more than a query, of its memory a bounded part.

    Args:
        settings: the limits.
    """

    def __init__(self, settings: Settings) -> None:
        self._seconds = settings.queries.max_timeout_s
        self._end = time.monotonic() + self._seconds
        self._results = self._bytes = 0

    def spend(self, result: RuleResult) -> None:
        """Count a result.

        Raises:
            QueryTimeoutError: the time is over.
            LimitExceededError: there are too many results, or their rows are too large.
        """
        self._results += 1
        self._bytes += 0 if result.rows is None else result.rows.batch.nbytes
        if time.monotonic() > self._end:
            raise QueryTimeoutError(f"the rules were not tested within {self._seconds:g} s", hint=_FEWER)
        if self._results > _MOST_RESULTS:
            raise LimitExceededError(f"expected at most {_MOST_RESULTS:,} results, found more", hint=_FEWER)
        if self._bytes > _MOST_ROW_BYTES:
            raise LimitExceededError(
                f"expected rows of violations of at most {_MOST_ROW_BYTES:,} bytes, found more", hint=_FEWER
            )


def savepoint_lines(savepoint: SavepointResult, fail_on: Severity, width: int | None = None) -> Iterator[str]:
    """Yield the lines of one savepoint.

    Args:
        savepoint: its results.
        fail_on: the least severity of a violation that fails.
        width: characters per line of the screen; None for lines of any length.
    """
    kind = (savepoint.kind or "savepoint").lower()
    number = "" if savepoint.checkpoint_id is None else f" {savepoint.checkpoint_id}"
    before = f", before it {savepoint.previous}" if savepoint.previous else ""
    yield printable(f"{savepoint.name}  {kind}{number}, {dated(savepoint.created_at)}{before}")
    for note in savepoint.notes:
        yield printable(f"{_INDENT}{note}")
    if savepoint.error:
        yield from _labelled("UNREADABLE", savepoint.error, width)
        return
    for one in sorted(savepoint.results, key=_rank):
        if one.status in (Status.PASSED, Status.SKIPPED):
            continue
        yield from _result_lines(one, fail_on, width)
        more = savepoint.all_rows(one)
        if more:
            # Neither wrapped nor indented where it has several lines: it is copied.
            yield from map(printable, f"{_INDENT}all rows: {more}".splitlines())
    skipped = [one for one in savepoint.results if one.status is Status.SKIPPED]
    for one in skipped[:_MOST_SKIPPED]:
        yield from _labelled("skipped", f"{one.title}: {one.message}", width)
    if len(skipped) > _MOST_SKIPPED:
        yield f"{_INDENT}and {len(skipped) - _MOST_SKIPPED} more are skipped"
    passed = savepoint.counts()[Status.PASSED]
    if passed:
        yield f"{'passed':<{len(_INDENT)}}{passed:,}"


def _result_lines(one: RuleResult, fail_on: Severity, width: int | None) -> Iterator[str]:
    match one.status:
        case Status.VIOLATED:
            label = "VIOLATED" if one.fails(fail_on) else one.rule.severity.value
            yield from _labelled(label, f"{one.title} ({one.rule.severity})", width)
            if one.rule.description:
                yield from wrapped_lines(one.rule.description, _INDENT, width)
            yield from wrapped_lines(one.message, _INDENT, width)
            if one.rows is not None:
                room = None if width is None else width - len(_INDENT)
                yield from (f"{_INDENT}{line}" for line in one.rows.lines(room))
        case Status.ERROR:
            yield from _labelled("ERROR", f"{one.title}: the rule itself fails", width)
            yield from wrapped_lines(one.message, _INDENT, width)
        case _:
            yield from _labelled("UNREADABLE", one.title, width)
            yield from wrapped_lines(one.message, _INDENT, width)


def _labelled(label: str, text: str, width: int | None) -> Iterator[str]:
    first, *rest = list(wrapped_lines(text, _INDENT, width)) or [_INDENT]
    yield f"{label:<{len(_INDENT)}}{first.strip()}"
    yield from rest


def _rank(one: RuleResult) -> tuple[int, int]:
    """Return the place of a result among others: the worst first."""
    return _ORDER[one.status], one.rule.severity.weight


_ORDER = {
    one: place
    for place, one in enumerate(
        (Status.ERROR, Status.UNREADABLE, Status.VIOLATED, Status.SKIPPED, Status.PASSED)
    )
}


def junit_text(report: RunReport) -> str:
    """Return the document."""
    suites = [_suite(savepoint, report.fail_on) for savepoint in report.savepoints]
    return junit_document("savepointdb test", suites)


def _suite(savepoint: SavepointResult, fail_on: Severity) -> Suite:
    cases = [_case(savepoint, one, fail_on) for one in savepoint.results]
    if savepoint.error:
        cases.append(
            Case(
                group=savepoint.name,
                name="(the savepoint)",
                outcome="error",
                message=savepoint.error,
                kind=Status.UNREADABLE.value,
            )
        )
    return Suite(name=f"{savepoint.name}: {savepoint.path}", cases=cases, output="\n".join(savepoint.notes))


def _case(savepoint: SavepointResult, one: RuleResult, fail_on: Severity) -> Case:
    outcome = _OUTCOMES.get(one.status, "")
    if one.status is Status.VIOLATED and one.fails(fail_on):
        outcome = "failure"
    more = savepoint.all_rows(one)
    text = "\n".join(
        filter(
            None,
            [
                f"severity: {one.rule.severity}",
                one.rule.description,
                one.message,
                *(one.rows.lines() if one.rows is not None else ()),
                f"all rows: {more}" if more else "",
            ],
        )
    )
    is_told = one.status is not Status.PASSED
    return Case(
        group=savepoint.name,
        name=one.title,
        outcome=outcome,
        message=one.message if outcome else "",
        kind=(one.rule.severity if outcome == "failure" else one.status).value,
        text=text if outcome in ("failure", "error") else "",
        output=text if is_told and not outcome else "",
        elapsed_s=one.elapsed_s,
    )


_OUTCOMES = {Status.ERROR: "error", Status.UNREADABLE: "error", Status.SKIPPED: "skipped"}
TASK = Task(request=TestRequest, run=run, exits=JUDGED)
