"""The errors of the writers, and their warnings: what Flink restores without a word, and a user may not have meant.

WriterError                     carries: breadcrumbs, row
  UnencodableTypeError          a program lays out bytes that no column holds
  UnencodableValueError         a value that its type cannot hold: row, column, value, type
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is made again of its text alone; other processes send it with all that it carries.
        return _remade, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        where = ".".join(self.breadcrumbs).replace(".[]", "[]")
        row = f"row {self.row}" if self.row >= 0 else ""
        place = ", ".join(part for part in (row, where) if part)
        return f"{place}: {self.message}" if place else self.message


class UnencodableTypeError(WriterError):
    """A program lays out bytes that no column holds: objects of Kryo and of Java, fields that are hidden."""


class UnencodableValueError(WriterError):
    """A value that its type cannot hold."""


class UnwritableError(WriterError):
    """Metadata that has no bytes in the version that is written."""


class RefusedEditError(WriterError):
    """An edit whose result Flink would not restore, or of which it would lose state."""


class TargetError(WriterError):
    """The new savepoint cannot be written there.

    Attributes:
        path: the file or directory.
    """

    def __init__(self, message: str, *, path: str) -> None:
        self.path = path
        super().__init__(f"{path}: {message}")


class TargetExistsError(TargetError):
    """Something is where the new savepoint should be."""


def _remade(kind: type[WriterError], arguments: tuple[Any, ...], carried: dict[str, Any]) -> WriterError:
    """Return an error as another process raised it."""
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(carried)
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreWarning:
    """Rows that Flink restores, and then treats in a way that nobody may expect; or an operator that only some backends restore.

    Attributes:
        state: the name of their state, or of the operator.
        rows: their number; 0 for an operator.
        example: the key of one.
        text: what Flink does with them.
    """

    state: str
    rows: int = 0
    example: str = ""
    text: str

    def __str__(self) -> str:
        if not self.rows:
            return f"{self.state}: {self.text}"
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return f"{self.state}: {rows} ({self.example}): {self.text}"
