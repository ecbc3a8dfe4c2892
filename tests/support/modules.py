"""The modules of the project as text and as trees, read once for all tests about the code itself."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

from tests.support.paths import PROJECT

ROOMS = ("savepointdb", "service", "catalog", "doctor", "writers", "readers")


@cache
def sources() -> dict[Path, str]:
    """The text of every module of the rooms and the tools, by its path in the project."""
    rooms = (*ROOMS, "tools")
    paths = (path for room in rooms for path in sorted((PROJECT / room).rglob("*.py")))
    return {path.relative_to(PROJECT): path.read_text(encoding="utf-8") for path in paths}


@cache
def trees() -> dict[Path, ast.Module]:
    """The same, parsed."""
    # The collector would look again and again through nodes that stay to the end: four fifths of the time.
    gc.disable()
    try:
        return {path: ast.parse(text, filename=str(path)) for path, text in sources().items()}
    finally:
        gc.enable()
        gc.freeze()
