"""The errors of the writers.

WriterError                     carries: breadcrumbs, row
  UnencodableTypeError          a program lays out bytes that no column holds
  UnencodableValueError         a value that its type cannot hold: row, column, value, type
"""

from __future__ import annotations


class WriterError(Exception):
    """Something cannot be written.

    Attributes:
        breadcrumbs: the fields that lead to the value, outermost first.
        row: the number of the row among those that are written; -1 if it concerns all of them.
    """

    def __init__(self, message: str, *, breadcrumbs: tuple[str, ...] = (), row: int = -1) -> None:
        self.message = message
        self.breadcrumbs = breadcrumbs
        self.row = row
        super().__init__(message)

    def __str__(self) -> str:
        where = ".".join(self.breadcrumbs).replace(".[]", "[]")
        row = f"row {self.row}" if self.row >= 0 else ""
        place = ", ".join(part for part in (row, where) if part)
        return f"{place}: {self.message}" if place else self.message


class UnencodableTypeError(WriterError):
    """A program lays out bytes that no column holds: objects of Kryo and of Java, fields that are hidden."""


class UnencodableValueError(WriterError):
    """A value that its type cannot hold."""
