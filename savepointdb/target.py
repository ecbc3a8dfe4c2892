"""`TargetResult`: what statements or a conversion did, and the new savepoint that they wrote."""

from __future__ import annotations

import os

from savepointdb.display import TitledList


class TargetResult(TitledList):
    """What was written, or would be. As a path it is the new savepoint.

    Attributes:
        target: the directory of the new savepoint; None if nothing was written.
    """

    target: str | None

    def __fspath__(self) -> str:
        if self.target is None:
            raise TypeError("expected a savepoint that was written, found none")
        return os.fspath(self.target)
