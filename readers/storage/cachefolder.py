"""The folder of this machine's caches: object code in `kernels`, decoded states in `states`.

| variable | meaning |
|---|---|
| SAVEPOINTDB_CACHE_DIR | the folder |
| XDG_CACHE_HOME | without the first variable the folder is `savepointdb` in this one, else in ~/.cache |
"""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "SAVEPOINTDB_CACHE_DIR"


def cache_directory() -> Path:
    """Return the folder, which need not exist. Reads the environment at each call."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "savepointdb"
