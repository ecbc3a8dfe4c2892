"""`write`, `create`, `convert`, `export` → what they made, or would make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from savepointdb.display import TitledList
from service.query.encode import counted, printable

if TYPE_CHECKING:
    from service.tasks.check.written import WrittenCheck
    from service.tasks.convert.convert import Converted
    from service.tasks.convert.plan import ConvertedState, LeftState
    from service.tasks.export.exporting import Exported
    from service.tasks.export.manifest import ExportedSavepoint
    from service.tasks.write.changes import Effect
    from service.tasks.write.writing import Written
    from writers import Summary


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
