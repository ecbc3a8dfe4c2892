"""The outcomes of use cases as a session shows them: what was found, with rows as data frames, and what was made, as a path."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import pyarrow as pa

from doctor import CheckReport, OperatorVerdict
from savepointdb.answer import Answer
from savepointdb.errors import translated
from savepointdb.processes import OpenSavepoints
from savepointdb.values import TitledList, html_list, to_pandas, to_polars
from service.base.errors import QueryError
from service.query.encode import counted, printable
from service.query.encode.formats import columns_of
from service.query.running.request import QueryRequest
from service.tasks.check.findings import Findings
from service.tasks.check.markup import html_part
from service.tasks.task import Found
from service.tasks.time.bisect import Bisection, Question, question_line
from service.tasks.time.diff.comparison import Comparison, headline, rows_statement, text_lines
from service.tasks.time.diff.running import Compared, comparison_by
from service.tasks.time.history import KeyTimelines, StateTimeline
from service.tasks.time.test.running import RuleResult, SavepointResult
from service.tasks.time.test.testing import RunReport, junit_text, savepoint_lines

if TYPE_CHECKING:
    import pandas
    import polars

    from service.tasks.check.running import WrittenCheck
    from service.tasks.copies.convert import Converted, ConvertedState, LeftState
    from service.tasks.copies.export.exporting import Exported
    from service.tasks.copies.export.manifest import ExportedSavepoint
    from service.tasks.copies.sample import Sampled, SampledState
    from service.tasks.write.changes import Effect
    from service.tasks.write.writing import Written
    from writers import Summary


_MORE = '.rows("{}")'.format


class Rows:
    """The rows of a table of an outcome.

    Args:
        table: the rows.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def arrow(self) -> pa.Table:
        """Return them as an Arrow table."""
        return self._table

    def df(self) -> pandas.DataFrame:
        """Return them as a data frame of pandas.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        return to_pandas(columns_of(self._table.schema), self._table)

    def pl(self) -> polars.DataFrame:
        """Return them as a data frame of polars.

        Raises:
            MissingPackageError: polars is not installed.
        """
        return to_polars(columns_of(self._table.schema), self._table)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class TaskResult(TitledList, Generic[Found]):
    """The outcome of a use case.

    Args:
        outcome: what was found.
    """

    def __init__(self, outcome: Found) -> None:
        self._outcome = outcome

    @property
    def exit_code(self) -> int:
        """The exit code of the command of this name."""
        return self._outcome.exit_code

    @property
    def tables(self) -> Mapping[str, Rows]:
        """Its tables, by name; empty if it has none."""
        return {name: Rows(table) for name, table in getattr(self._outcome, "tables", {}).items()}

    def __getitem__(self, name: str) -> Rows:
        return self.tables[name]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that are JSON, as every door sends them."""
        return self._outcome.to_dict()

    def _lines(self) -> list[str]:
        first, *rest = self._outcome.lines(shutil.get_terminal_size().columns)
        return [f"savepointdb: {first}", *rest]


class RowsResult(TaskResult[Found], Rows):
    """The outcome of a use case that has rows; `tables` has them with the types of each table."""

    def __init__(self, outcome: Found) -> None:
        TaskResult.__init__(self, outcome)
        rows: Any = outcome
        Rows.__init__(self, rows.rows)

    def __bool__(self) -> bool:
        return True


class CheckResult(TaskResult[Findings]):
    """What a restore will do; its `exit_code`: 0 same values, 1 other values, 2 fails, 3 undecided."""

    @property
    def outcome(self) -> str:
        """`restores`, `fails` or `unknown`."""
        return self.report.outcome.value

    @property
    def stage(self) -> str | None:
        """The step that fails: `graph`, `restore`, `register`, `access`, `snapshot`; None if none does."""
        return None if self.report.stage is None else self.report.stage.value

    @property
    def loses_data(self) -> bool:
        """True if it restores, and values are lost, changed or no longer read."""
        return self.report.loses_data

    @property
    def operators(self) -> tuple[OperatorVerdict, ...]:
        """The verdicts of the operators, each with those of its `states`."""
        return self.report.operators

    @property
    def report(self) -> CheckReport:
        """The whole report; of several backends that of the worst."""
        return self._outcome.worst

    def _repr_html_(self) -> str:
        return html_part(self._outcome)


class TestResult(TaskResult[RunReport]):
    """Which rules hold; its `exit_code`: 0 passed, 1 a violation, 2 an error of a rule, 3 something cannot be read."""

    # To pytest a class of this name would be a test.
    __test__: ClassVar[bool] = False

    @property
    def passed(self) -> bool:
        """True if every rule could be tested, and none of the severity that fails is violated."""
        return self.exit_code == 0

    @property
    def savepoints(self) -> tuple[SavepointResult, ...]:
        """The results of each savepoint: its `results`, one for each rule or rule and state, or its `error`."""
        return self._outcome.savepoints

    @property
    def violations(self) -> tuple[RuleResult, ...]:
        """The violations of any severity: each with its `rule`, `table`, `message` and first `rows`."""
        return tuple(one for _, one in self._outcome.violations)

    def to_junit(self) -> str:
        """Return everything as XML as JUnit writes it."""
        return junit_text(self._outcome)

    def _lines(self) -> list[str]:
        lines = [f"savepointdb: {self._outcome.summary}"]
        for one in self._outcome.savepoints:
            lines += savepoint_lines(one, self._outcome.fail_on)
        return lines


class KeyHistory(RowsResult[KeyTimelines]):
    """What each state of a job has of a key in each checkpoint; its rows have `checkpoint_id`, `created_at` and `changed`."""

    @property
    def job(self) -> str:
        """The name of the job."""
        return self._outcome.job.name

    @property
    def states(self) -> tuple[StateTimeline, ...]:
        """The states that have the key in any checkpoint; `points` of each, oldest first."""
        return tuple(state for state in self._outcome.states if state.has_rows)

    def to_arrow(self) -> pa.Table:
        """Return a row for each entry in each checkpoint, as `arrow` does."""
        return self.arrow()


class BisectResult(TaskResult[Bisection]):
    """What a bisection found."""

    @property
    def outcome(self) -> str:
        """`found`; `oldest` if all that were asked have a row, so that it may be older; `none` if the newest has none."""
        return self._outcome.outcome

    @property
    def first(self) -> str | None:
        """The name of the first checkpoint with a row; None if there is none."""
        return None if self._outcome.first is None else self._outcome.first.database.name

    @property
    def last(self) -> str | None:
        """The last checkpoint before the first with a row, or the newest if none has one; None if there is none."""
        return None if self._outcome.last is None else self._outcome.last.database.name

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The first rows of the first checkpoint that has some."""
        first = self._outcome.first
        return [] if first is None or first.rows is None else list(first.rows.batch.to_pylist())

    @property
    def questions(self) -> tuple[Question, ...]:
        """The checkpoints that were asked, in this order, each with its `reply`, `rows` and `error`."""
        return self._outcome.questions

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The names of checkpoints that are gone or broken, and were left out."""
        return tuple(one.database.name for one in self._outcome.unreadable)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the answer may mean nothing: the query has a row for every checkpoint."""
        return self._outcome.warnings

    def _lines(self) -> list[str]:
        title, *rest = self._outcome.conclusion()
        asked = (question_line(number, one) for number, one in enumerate(self._outcome.questions, start=1))
        return [f"savepointdb: {title}", *asked, *rest]


class DiffResult:
    """What differs between two databases. It holds the connection open that made it.

    Args:
        opened: runs statements.
        compared: the databases.
        timeout_s: seconds that each statement may take; None for no limit.
    """

    def __init__(self, opened: OpenSavepoints, compared: Compared, timeout_s: float | None = None) -> None:
        self._opened = opened
        self._compared = compared
        self._timeout_s = timeout_s
        self._summary: Comparison | None = None

    @property
    def summary(self) -> Comparison:
        """All of it in numbers: `states`, each with counts, types, sizes and samples; `offsets` that moved; `sizes`. Made once.

        Raises:
            SavepointError: a savepoint cannot be read.
        """
        if self._summary is None:
            with translated():
                context = self._opened.context(timeout_s=self._timeout_s)
                self._summary = comparison_by(self._compared, context)
        return self._summary

    @property
    def is_equal(self) -> bool:
        """True if no state, row or offset differs.

        Raises:
            SavepointError: a savepoint cannot be read.
        """
        return self.summary.is_equal

    def rows(self, table: str) -> Answer:
        """Return the rows of a table that differ: `change`, what each is of, and its values before and after.

        Args:
            table: the name of a table, such as `aggregate__count`, `timers` or `source_offsets`.
        """
        statement = rows_statement(self._compared.before.name, self._compared.after.name, table)
        return Answer(
            self._opened, QueryRequest(sql=statement, timeout_s=self._timeout_s, source="savepointdb")
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as values that are JSON.

        Raises:
            SavepointError: a savepoint cannot be read.
        """
        return self.summary.to_dict()

    def __repr__(self) -> str:
        # A session shows what it is given, an error of it included.
        try:
            lines = list(text_lines(self.summary, shutil.get_terminal_size().columns, _MORE))
        except QueryError as error:
            return f"{type(error).__name__}: {error}"
        return "\n".join(lines)

    def _repr_html_(self) -> str | None:
        try:
            summary = self.summary
        except QueryError:
            return None
        return html_list(headline(summary), map(printable, text_lines(summary, None, _MORE)))


class TargetResult(TitledList):
    """What was made, or would be. As a path it is the new savepoint, or the folder of the export.

    Args:
        outcome: of the use case.
    """

    _outcome: Any

    def __init__(self, outcome: Any) -> None:
        self._outcome = outcome

    @property
    def target(self) -> str | None:
        """Where it is; None if nothing was written."""
        target: str | None = self._outcome.target
        return target

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that are JSON, as every door sends them."""
        found: dict[str, Any] = self._outcome.to_dict()
        return found

    def __fspath__(self) -> str:
        if self.target is None:
            raise TypeError("expected a savepoint that was written, found none")
        return self.target

    def _lines(self) -> list[str]:
        title = self._outcome.title
        rest = [line for line in self._outcome.lines() if line != title]
        return [f"savepointdb: {title}{self._more()}", *rest, *self._notes()]

    def _more(self) -> str:
        return ""

    def _notes(self) -> Iterator[str]:
        yield from ()


class WriteResult(TargetResult):
    """What a script did to a savepoint, or would do."""

    _outcome: Written

    @property
    def is_dry_run(self) -> bool:
        """True if nothing was written."""
        return self.target is None

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What each statement did: `table`, rows `changed`, `added` and `removed`, `key_groups`, `samples`, `text`."""
        return self._outcome.effects

    @property
    def rows(self) -> int:
        """How many rows all statements changed, added or removed."""
        return self._outcome.rows

    @property
    def summary(self) -> Summary:
        """The new savepoint in numbers: `operators`, `files`, `file_bytes`, `metadata_bytes`, `refers`."""
        return self._outcome.summary

    @property
    def check(self) -> WrittenCheck | None:
        """What a restore does with it: `verdict`, `headline`, `advice`, `findings`; None for a dry run."""
        return self._outcome.check

    def _more(self) -> str:
        return f"; {counted(self.rows, 'row')}" if self.rows else ""


class ConvertResult(TargetResult):
    """What a conversion did, or would do."""

    _outcome: Converted

    @property
    def is_dry_run(self) -> bool:
        """True if nothing was to be written."""
        return self._outcome.is_dry_run

    @property
    def converted(self) -> tuple[ConvertedState, ...]:
        """The states that are written anew: `operator`, `state`, `entries`, `fields` as (path, type before, type after)."""
        return self._outcome.plan.converted

    @property
    def left(self) -> tuple[LeftState, ...]:
        """The states that would have to be, and are not: `operator`, `state_name`, `reason`."""
        return self._outcome.plan.left

    @property
    def summary(self) -> Summary | None:
        """The new savepoint in numbers: `operators`, `files`, `file_bytes`; None if there is nothing to convert."""
        return self._outcome.summary

    @property
    def check(self) -> WrittenCheck | None:
        """What a restore does with it: `verdict`, `headline`, `advice`, `findings`; None if nothing was written."""
        return self._outcome.check


class SampleResult(TargetResult):
    """What a sample has, or would have."""

    _outcome: Sampled

    @property
    def states(self) -> Sequence[SampledState]:
        """The keyed states and timers: `operator`, `state`, `kind`, `entries`."""
        return self._outcome.states

    @property
    def summary(self) -> Summary | None:
        """The new savepoint in numbers: `operators`, `files`, `file_bytes`; None for a dry run."""
        return self._outcome.summary

    @property
    def check(self) -> WrittenCheck | None:
        """What a restore does with it: `verdict`, `headline`, `advice`, `findings`; None for a dry run."""
        return self._outcome.check


class ExportResult(TargetResult):
    """What an export did; its target is as it was given, without the options of a URL."""

    _outcome: Exported

    @property
    def savepoints(self) -> Sequence[ExportedSavepoint]:
        """The savepoints that were exported now: `database`, `checkpoint_id`, `tables` with `name`, `rows`, `files`."""
        return self._outcome.savepoints

    @property
    def known(self) -> Sequence[str]:
        """The databases that were there already."""
        return self._outcome.known

    @property
    def notes(self) -> Sequence[str]:
        """States that are not wholly decoded, and files of which rows are left out: a text for each."""
        return self._outcome.notes

    def _notes(self) -> Iterator[str]:
        return map(printable, self.notes)
