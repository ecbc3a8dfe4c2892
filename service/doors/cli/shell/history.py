"""The statements of earlier days: a file in the user's state folder, which nobody else may read, because values in statements are data.

    $XDG_STATE_HOME/savepointdb/history, or ~/.local/state/savepointdb/history

An entry is the lines of one input, each behind a `+`, and a line with a `#` before them, as prompt_toolkit's own files have them. A
statement behind a blank is kept nowhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from prompt_toolkit.history import History

# Of a larger file the older half is left out.
_MOST_BYTES = 4 << 20


def history_path() -> Path:
    """Return the file of the user's statements."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return folder / "savepointdb" / "history"


class PrivateHistory(History):
    """Statements in a file with mode 0600. Where it cannot be read or written, they last as long as the shell.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the statements, the latest first."""
        try:
            content = self._path.read_bytes()
            if len(content) > _MOST_BYTES:
                content = content[len(content) - _MOST_BYTES // 2 :].partition(b"\n# ")[2]
                self._write(content, os.O_TRUNC)
        except OSError:
            return []
        return reversed(list(_entries(content.decode(errors="replace"))))

    def store_string(self, string: str) -> None:
        """Add a statement to the file."""
        lines = "".join(f"+{line}\n" for line in string.split("\n"))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._write(f"\n# \n{lines}".encode(errors="replace"), os.O_APPEND)
        except OSError:
            # A home that nobody can write to is no reason to end.
            return

    def append_string(self, string: str) -> None:
        """Add a statement, unless a blank stands before it or it is the one before."""
        if not string[:1].isspace() and self.get_strings()[-1:] != [string]:
            # It calls `store_string`.
            super().append_string(string)

    def _write(self, content: bytes, how: int) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | how, 0o600)
        try:
            # A file that was there may have had another mode.
            os.fchmod(file, 0o600)
            os.write(file, content)
        finally:
            os.close(file)


def _entries(text: str) -> Iterator[str]:
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith("+"):
            lines.append(line[1:])
        elif lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)
