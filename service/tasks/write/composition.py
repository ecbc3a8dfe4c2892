"""`Composition`: a SELECT made of parts of a script; its errors have their places in the script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catalog.changedtables import STATE
from readers import ROW
from service.base.errors import Position
from service.query.sql.edits import quoted
from service.tasks.write.statements.parser import Fragment
from service.tasks.write.statements.rows import Assignment, RowStatement
from writers import GROUP

TARGET = "_target"
"""The table of a statement, numbered, in the SELECTs that are made of it."""
SOURCE = "_source"
"""The rows of a query of a statement, kept."""


class Composition:
    """A SELECT, piece by piece.

    Pieces of a script are put into parentheses, or come last, and a line ends behind each: a comment at its end ends there.
    """

    def __init__(self, *pieces: str) -> None:
        self._pieces: list[str] = list(pieces)

    def add(self, *pieces: str) -> Composition:
        """Append pieces, and return the composition."""
        for piece in pieces:
            self._pieces.append(piece)
            if isinstance(piece, Fragment):
                self._pieces.append("\n")
        return self

    def expression(self, piece: str, name: str | None = None) -> Composition:
        """Append an expression in parentheses, perhaps with a name."""
        self.add("(", piece, ")")
        return self if name is None else self.add(f" AS {quoted(name)}")

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces."""
        return tuple(self._pieces)

    @property
    def text(self) -> str:
        """The SELECT."""
        return "".join(self._pieces)

    def position(self, position: Position) -> Position | None:
        """Return the place in the script of a place in the SELECT; None if it is not from the script."""
        lines = self.text.splitlines(keepends=True)
        offset = sum(map(len, lines[: position.line - 1])) + position.column - 1
        for start, piece in self._placed():
            if isinstance(piece, Fragment) and start <= offset < start + len(piece):
                return piece.position(offset - start)
        return None

    def _placed(self) -> Iterator[tuple[int, str]]:
        start = 0
        for piece in self._pieces:
            yield start, piece
            start += len(piece)


def alias_of(statement: RowStatement) -> str:
    """Return the name of a statement's table in its expressions, quoted."""
    return quoted(statement.alias or statement.name)


def place_columns(statement: RowStatement) -> str:
    """Return the columns that say where a row is."""
    alias = alias_of(statement)
    return f"{alias}.{STATE}, {alias}.{GROUP}, {alias}.{ROW}"


def select_places(
    statement: RowStatement, assignments: Sequence[Assignment], compared: Sequence[int] = ()
) -> Composition:
    """Return `SELECT` with the places of rows, and new values named by their numbers.

    Args:
        statement: changes the rows.
        assignments: have the new values.
        compared: numbers of assignments; the values before are named `before_<number>`.
    """
    select = Composition("SELECT ", place_columns(statement))
    for number, assignment in enumerate(assignments):
        select.add(", ").expression(assignment.expression, str(number))
    for number in compared:
        path = ".".join(map(quoted, assignments[number].path))
        select.add(f", {alias_of(statement)}.{path} AS {before_name(number)}")
    return select


def before_name(number: int) -> str:
    """Return the column of the values before an assignment."""
    return f"before_{number}"


def add_conditions(select: Composition, conditions: Sequence[str | None]) -> None:
    """Append WHERE with all conditions that are not None."""
    word = " WHERE "
    for condition in conditions:
        if condition is not None:
            select.add(word).expression(condition)
            word = " AND "


def select_all(query: str) -> Composition:
    """Return a SELECT of the rows of a query."""
    return Composition("SELECT * FROM ").expression(query, SOURCE)
