"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(target: Path, text: str, *, is_new: bool = False) -> None:
    """Write a text to a file that only its owner may read; makes the folder. No reader ever sees half of it.

    Args:
        target: the file.
        text: its content.
        is_new: True if no file may be there, also none that another process makes meanwhile; else the file is replaced.

    Raises:
        FileExistsError: it is there already.
        OSError: it cannot be written; nothing is left then.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # Whoever lists the folder passes over a name that begins with a dot.
    descriptor, unfinished = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # A link, other than a rename, takes no name that is there.
        if is_new:
            os.link(unfinished, target)
        else:
            os.replace(unfinished, target)
    finally:
        Path(unfinished).unlink(missing_ok=True)
