"""The lines of files with statements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from service.doors.cli.outcome import WrongUsageError
from service.query.encode import printable

_LONGEST_LINE = 1 << 20


def lines_of(file: TextIO, name: str) -> Iterator[str]:
    """Yield the lines of a text, each as soon as it is there; a very long one in pieces.

    Args:
        file: has the text.
        name: of the file, for errors.

    Raises:
        WrongUsageError: it is not text in UTF-8.
    """
    try:
        while line := file.readline(_LONGEST_LINE):
            yield line
    except UnicodeDecodeError as error:
        raise WrongUsageError(f"expected text in UTF-8 in {printable(name)}, found other bytes") from error
