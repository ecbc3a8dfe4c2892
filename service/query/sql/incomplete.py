"""Files of which an answer has no rows, because they cannot be read and the request allows a partial answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from readers import ReaderError
from service.base.errors import query_error_of, without_folders


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that an answer lacks; safe to show to every client.

    Attributes:
        table: the table that lacks its rows, with its database.
        path: the name of the file, without its folders; None where the error is of no file.
        code: the code of the error.
        message: the reason.
    """

    table: str
    path: str | None
    code: str
    message: str

    def text(self) -> str:
        """Return one line of text."""
        return f"{self.table} lacks rows: {self.message}"


def unread_files(table: str, errors: Iterable[ReaderError]) -> tuple[UnreadFile, ...]:
    """Return the files behind the errors of a scan, each once."""
    found: dict[UnreadFile, None] = {}
    for error in errors:
        public = query_error_of(error)
        path = None if error.path is None else without_folders(error.path)
        found[UnreadFile(table, path, public.code, public.message)] = None
    return tuple(found)
