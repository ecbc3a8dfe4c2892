"""`TargetResult`: what statements or a conversion did, and the new savepoint that they wrote."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

from savepointdb.display import html_list


class TargetResult(ABC):
    """What was written, or would be. As a path it is the new savepoint.

    Attributes:
        target: the directory of the new savepoint; None if nothing was written.
    """

    target: str | None

    def __fspath__(self) -> str:
        if self.target is None:
            raise TypeError("expected a savepoint that was written, found none")
        return os.fspath(self.target)

    def __repr__(self) -> str:
        title, *lines = self._lines()
        return "\n".join([title, *(f"  {line}" for line in lines)])

    def _repr_html_(self) -> str:
        title, *lines = self._lines()
        return html_list(title, lines)

    @abstractmethod
    def _lines(self) -> list[str]:
        """Return a title, and lines about what was done."""
