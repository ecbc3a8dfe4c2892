"""Programs on a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from tests.support.screen import Screen
from tests.support.waiting import PATIENCE_S

_COLUMNS, _LINES = 80, 24


@dataclass(frozen=True, kw_only=True)
class OnTerminal:
    """What a program wrote.

    Attributes:
        code: its exit code.
        screen: what its terminal got, with `\\n` at the ends of lines.
        errors: its standard error, if that is no terminal.
    """

    code: int
    screen: str
    errors: str


def run_on_terminal(
    command: Sequence[str],
    *,
    columns: int = _COLUMNS,
    errors_too: bool = False,
    timeout_s: float = PATIENCE_S,
) -> OnTerminal:
    """Run a program whose standard output is a terminal.

    Args:
        command: the program and its arguments.
        columns: the width of the terminal.
        errors_too: True if standard error is the same terminal, as for a person.
        timeout_s: seconds after which the test fails.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs if errors_too else subprocess.PIPE,
        env=environment,
    )
    os.close(theirs)
    chunks: list[bytes] = []
    reader = threading.Thread(target=_read, args=(ours, chunks), daemon=True)
    reader.start()
    try:
        _, errors = process.communicate(timeout=timeout_s)
        reader.join(timeout_s)
    finally:
        process.kill()
        os.close(ours)
    screen = b"".join(chunks).decode().replace("\r\n", "\n")
    return OnTerminal(code=process.returncode, screen=screen, errors=(errors or b"").decode())


def _read(terminal: int, chunks: list[bytes]) -> None:
    while True:
        try:
            chunk = os.read(terminal, 1 << 16)
        except OSError:  # the last program that had the terminal has ended
            return
        if not chunk:
            return
        chunks.append(chunk)


class Talk:
    """A program on a terminal that a person types into. Use it in `with`: leaving kills what still runs.

    Args:
        command: the program and its arguments.
        columns: the width of the terminal.
        environment: variables beside those of the test.
    """

    def __init__(
        self, command: Sequence[str], *, columns: int = _COLUMNS, environment: Mapping[str, str] | None = None
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, columns, 0, 0))
        known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        # Nobody answers when prompt_toolkit asks where the cursor is.
        known |= {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **(environment or {})}
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=known,
            start_new_session=True,
            # Else Ctrl-C would be sent to nobody.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self._chunks: list[bytes] = []
        self._columns = columns
        self._seen = 0, 0
        self._reader = threading.Thread(target=_read, args=(self._ours, self._chunks), daemon=True)
        self._reader.start()

    def press(self, text: str) -> None:
        """Press the keys of a text; `\\r` is Enter."""
        os.write(self._ours, text.encode())

    def see(self, wanted: str, timeout_s: float = PATIENCE_S) -> str:
        """Wait until the terminal shows a text behind what was seen before; return all from there to the end of that text."""
        deadline = time.monotonic() + timeout_s
        while True:
            row, column = self._seen
            lines = self.lines[row:]
            shown = "\n".join([lines[0][column:], *lines[1:]]) if lines else ""
            at = shown.find(wanted)
            if at >= 0:
                found = shown[: at + len(wanted)]
                more = found.count("\n")
                self._seen = row + more, len(found) - found.rfind("\n") - 1 if more else column + len(found)
                return found
            assert time.monotonic() < deadline, f"expected {wanted!r}, found {shown!r}"
            time.sleep(0.02)

    @property
    def lines(self) -> list[str]:
        """The lines that the terminal shows now, and those that have scrolled away."""
        screen = Screen(self._columns)
        screen.write(b"".join(self._chunks).decode(errors="replace"))
        return screen.lines

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.press("\x03")

    def end(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait until the program ends; return its exit code."""
        return self._process.wait(timeout_s)

    def __enter__(self) -> Talk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)
