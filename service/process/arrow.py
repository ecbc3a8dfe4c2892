"""Arrow without pandas, for the command line and for workers.

The first scalar that pyarrow makes has it look for pandas, and where pandas is installed (Spark needs it) that takes a third of a
second, as long as all else that a short query does. Nothing of ours hands Arrow to pandas. What does, Spark's own functions, still
can: pyarrow looks again when it is asked for a table or a series of pandas.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any


def load_without_pandas() -> None:
    """Load pyarrow, and have it believe for now that there is no pandas."""
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        import_module("pyarrow").scalar(None)
    finally:
        sys.meta_path.remove(hidden)


class _Hidden:
    """Finds no pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> None:
        """As `importlib.abc.MetaPathFinder`."""
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
