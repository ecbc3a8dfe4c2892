"""The version of the installed package, and the commit that it was built from.

Stands on the standard library alone: `hatch_build.py` runs this file where nothing of ours is installed.
"""

from __future__ import annotations

import os
import subprocess
from importlib import metadata
from pathlib import Path

DISTRIBUTION = "savepointdb"
# A build writes it, for `source_commit`; a checkout has none.
COMMIT_FILE = "service/COMMIT"

_ROOT = Path(__file__).resolve().parents[2]


def installed_version() -> str:
    """Return the version of the installed package; `0` for a folder of sources that is not installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0"


def source_commit() -> str | None:
    """Return the commit that this was built from, or that of the checkout; None where neither is known."""
    try:
        return (_ROOT / COMMIT_FILE).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return checkout_commit(_ROOT)


def checkout_commit(folder: Path) -> str | None:
    """Return the commit of a checkout, with `+changes` where files were changed since; None for any other folder."""
    # Git would also take a repository around the folder, as that of a project whose environment is inside it.
    if not (folder / ".git").exists():
        return None
    command = ("git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+changes")
    # Inside a hook of Git, its variables name the repository of the hook.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            env=environment | {"GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return ended.stdout.strip() or None
