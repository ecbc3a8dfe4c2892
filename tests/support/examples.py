"""The number of random cases that a property is tried with: a quarter in `make test`, all in `make test-slow`."""

from __future__ import annotations

import os
from typing import Final

_SHARE: Final = 1 if os.environ.get("SAVEPOINTDB_ALL_EXAMPLES") else 4
_LEAST: Final = 5


def examples(count: int) -> int:
    """The number of examples of this run, where `make test-slow` takes `count`."""
    return max(min(count, _LEAST), count // _SHARE)
