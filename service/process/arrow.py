"""Arrow without pandas, for the command line and for workers.

When pyarrow makes its first scalar, it imports pandas if pandas is installed (Spark needs it). The import takes a third of
a second, as long as the rest of a short query. Our code never converts Arrow to pandas. Functions of Spark do, and still
can: pyarrow looks for pandas again when it converts a table or a series.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any


def load_without_pandas() -> None:
    """Load pyarrow while the import of pandas fails."""
    hidden = _PandasHider()
    sys.meta_path.insert(0, hidden)
    try:
        import_module("pyarrow").scalar(None)
    finally:
        sys.meta_path.remove(hidden)


class _PandasHider:
    """An import hook that hides pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> None:
        """Fail for pandas, and leave all other modules to the next hook; see `importlib.abc.MetaPathFinder`."""
        # This error, and not a missing module spec, stops the search in the hooks behind this one.
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
