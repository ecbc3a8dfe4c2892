"""Where this machine keeps what it need not do again: object code in `kernels`, decoded states in `states`.

| variable | meaning |
|---|---|
| SAVEPOINTDB_CACHE_DIR | the folder |
| XDG_CACHE_HOME | the folder is `savepointdb` in it, where that is not set; in ~/.cache if neither is |
"""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "SAVEPOINTDB_CACHE_DIR"


def cache_directory() -> Path:
    """The folder, whether or not it is there. Asks the environment each time."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "savepointdb"
