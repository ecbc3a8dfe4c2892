"""Programs on a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Sequence
from dataclasses import dataclass

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
    command: Sequence[str], *, columns: int = _COLUMNS, errors_too: bool = False, timeout_s: float = 60
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
