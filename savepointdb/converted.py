"""`convert` → `ConvertResult`: the states of a savepoint that are written anew for a new job, and those that are left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from savepointdb.target import TargetResult
from service.query.encode import printable
from service.tasks.check.written import WrittenCheck, check_lines
from service.tasks.convert.plan import ConvertedState, LeftState
from service.tasks.convert.report import lines_of, report_of
from service.tasks.convert.running import Converted
from writers import Summary


class ConvertResult(TargetResult):
    """What a conversion did, or would do.

    Args:
        done: by the writer.
        is_dry_run: True if nothing was to be written.

    Attributes:
        target: the directory of the new savepoint; None if nothing was written.
        is_dry_run: True if nothing was to be written.
    """

    def __init__(self, done: Converted, *, is_dry_run: bool) -> None:
        self._done = done
        self.target = done.target
        self.is_dry_run = is_dry_run

    @property
    def converted(self) -> tuple[ConvertedState, ...]:
        """The states that are written anew: `operator`, `state`, `entries`, `fields` as (path, type before, type after)."""
        return self._done.plan.converted

    @property
    def left(self) -> tuple[LeftState, ...]:
        """The states that would have to be, and are not: `operator`, `state_name`, `reason`."""
        return self._done.plan.left

    @property
    def summary(self) -> Summary | None:
        """The new savepoint in numbers: `operators`, `files`, `file_bytes`; None if there is nothing to convert."""
        return self._done.summary

    @property
    def check(self) -> WrittenCheck | None:
        """What a restore does with it: `verdict`, `headline`, `advice`, `findings`; None if nothing was written."""
        return self._done.check

    def to_dict(self) -> Mapping[str, Any]:
        """Return everything as values that are JSON."""
        return {
            "target": self.target,
            "dry_run": self.is_dry_run,
            **report_of(self._done),
        }

    def _lines(self) -> list[str]:
        told = f"written: {self.target}"
        if self.target is None:
            told = (
                f"nothing was written{': a dry run' if self.is_dry_run and self.summary is not None else ''}"
            )
        return [
            f"savepointdb: {printable(told)}",
            *map(printable, lines_of(self._done.plan, self._done.summary)),
            *map(printable, check_lines(self.check, self.target)),
        ]
