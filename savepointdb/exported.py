"""`export` → `ExportResult`: the tables of savepoints that were written as files, and what a person should know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from savepointdb.target import TargetResult
from service.query.encode import printable
from service.tasks.export.exporting import ExportResult as Exported
from service.tasks.export.exporting import lines_of
from service.tasks.export.manifest import ExportedSavepoint


class ExportResult(TargetResult):
    """What an export did. As a path it is the folder of the export.

    Args:
        done: by the service.

    Attributes:
        target: where it is, as it was given, without the options of a URL.
    """

    def __init__(self, done: Exported) -> None:
        self._done = done
        self.target = done.destination

    @property
    def savepoints(self) -> Sequence[ExportedSavepoint]:
        """The savepoints that were exported now: `database`, `checkpoint_id`, `tables` with `name`, `rows`, `files`."""
        return self._done.savepoints

    @property
    def known(self) -> Sequence[str]:
        """The databases that were there already."""
        return self._done.known

    @property
    def notes(self) -> Sequence[str]:
        """States that are not wholly decoded, and files of which rows are left out: a text for each."""
        return self._done.notes

    def to_dict(self) -> Mapping[str, Any]:
        """Return everything as values that are JSON."""
        return {
            "target": self.target,
            "known": list(self.known),
            "notes": list(self.notes),
            "savepoints": [savepoint.to_dict() for savepoint in self.savepoints],
        }

    def _lines(self) -> list[str]:
        *lines, last = lines_of(self._done)
        return [f"savepointdb: {last}", *lines, *map(printable, self.notes)]
