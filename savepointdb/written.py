"""`Connection.write` → `WriteResult`: what a script did, or would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from savepointdb.target import TargetResult
from service.query.encode import counted, printable
from service.tasks.check.written import WrittenCheck, check_lines
from service.tasks.write.family import Effect
from service.tasks.write.report import lines_of, report_of
from service.tasks.write.writing import Preview
from writers import Summary


class WriteResult(TargetResult):
    """What a script did to a savepoint, or would do.

    Args:
        preview: of the writer.
        target: the new savepoint; None for a dry run.

    Attributes:
        target: the directory of the new savepoint; None for a dry run.
    """

    def __init__(self, preview: Preview, target: str | None) -> None:
        self._preview = preview
        self.target = target

    @property
    def is_dry_run(self) -> bool:
        """True if nothing was written."""
        return self.target is None

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What each statement did: `table`, rows `changed`, `added` and `removed`, `key_groups`, `samples`, `text`."""
        return self._preview.effects

    @property
    def rows(self) -> int:
        """How many rows all statements changed, added or removed."""
        return sum(effect.rows for effect in self.effects)

    @property
    def summary(self) -> Summary:
        """The new savepoint in numbers: `operators`, `files`, `file_bytes`, `metadata_bytes`."""
        return self._preview.summary

    @property
    def check(self) -> WrittenCheck | None:
        """What a restore does with it: `verdict`, `headline`, `advice`, `findings`; None for a dry run."""
        return self._preview.check

    def to_dict(self) -> Mapping[str, Any]:
        """Return everything as values that are JSON."""
        return {"target": self.target, "dry_run": self.is_dry_run, **report_of(self._preview)}

    def _lines(self) -> list[str]:
        what = "nothing was written: a dry run" if self.target is None else f"written: {self.target}"
        rows = f"; {counted(self.rows, 'row')}" if self.rows else ""
        return [
            f"savepointdb: {printable(what)}{rows}",
            *map(printable, lines_of(self._preview)),
            *map(printable, check_lines(self.check, self.target)),
        ]
