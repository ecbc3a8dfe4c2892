"""`Composition`: a SELECT made of parts of a script; its errors have their places in the script."""

from __future__ import annotations

from collections.abc import Iterator

from service.errors import Position
from service.sql.edits import quoted
from service.writing.statements.parser import Fragment


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
