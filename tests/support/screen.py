"""What a terminal shows of the bytes that a program writes to it: as much of a terminal as prompt_toolkit and our commands need."""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"\x1b\[(\??)([\d;]*)([@-~])|\x1b\][^\x07]*\x07|\x1b[=>78]|[\r\n\x08\x07\x00]|[^\x1b\r\n\x08\x07\x00]+|\x1b"
)


class Screen:
    """The lines of a terminal, those that have scrolled away included.

    Args:
        columns: characters per line.
    """

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._lines: list[list[str]] = [[]]
        self._row = self._column = 0
        self._wraps = True

    @property
    def lines(self) -> list[str]:
        """The lines, without blanks at their ends."""
        return ["".join(line).rstrip() for line in self._lines]

    def write(self, text: str) -> None:
        """Show what a program writes."""
        for piece in _PIECE.finditer(text):
            if piece[3]:
                self._control(piece[1], piece[2], piece[3])
            elif piece[0] == "\r":
                self._column = 0
            elif piece[0] == "\n":
                self._down(1)
            elif piece[0] == "\x08":
                self._column = max(self._column - 1, 0)
            elif piece[0].isprintable():
                for character in piece[0]:
                    self._put(character)

    def _put(self, character: str) -> None:
        if self._column >= self._columns:
            if self._wraps:
                self._column = 0
                self._down(1)
            else:
                self._column = self._columns - 1
        line = self._lines[self._row]
        line += " " * (self._column + 1 - len(line))
        line[self._column] = character
        self._column += 1

    def _down(self, count: int) -> None:
        self._row += count
        while len(self._lines) <= self._row:
            self._lines.append([])

    def _control(self, private: str, numbers: str, kind: str) -> None:
        count = int(numbers.split(";")[0] or 0)
        if kind == "A":
            self._row = max(self._row - max(count, 1), 0)
        elif kind == "B":
            self._down(max(count, 1))
        elif kind == "C":
            self._column = min(self._column + max(count, 1), self._columns - 1)
        elif kind == "D":
            self._column = max(self._column - max(count, 1), 0)
        elif kind in "JK" and count == 0:
            del self._lines[self._row][self._column :]
            if kind == "J":
                del self._lines[self._row + 1 :]
        elif private and kind in "hl" and count == 7:
            self._wraps = kind == "h"
