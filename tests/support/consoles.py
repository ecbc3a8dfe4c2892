"""The commands of a page in Markdown: fences of `console` whose lines begin with `$ `, run in bash on a terminal.

| on the page | means |
|---|---|
| `$ command` | a command; a `\\` at the end, or an open quotation, goes on in the next line |
| other lines | what the terminal shows of the commands before them; a fence may show nothing |
| `<!-- not run: reason -->` above a fence | its commands cannot run in a test |
| `$ command   # exit code 1` | a command that ends so, and not with 0 |
| `$ flink run -s PATH …` | PATH must be a savepoint; `tests/test_runbook.py` restores those of the runbook in real Flink |

Folders of the page are folders of the test (`FOLDERS`), and port 8080 is any free port. The commands `savepointdb serve` and
`savepointdb demo` without `--no-serve` go on until the page ends. What differs from run to run (`VOLATILE`) is replaced on both sides.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.terminal import run_on_terminal

COLUMNS: Final = 160
FOLDERS: Final = ("/savepoints", "/checkpoints", "/archive", "/copy", "/etc/savepointdb")
VOLATILE: Final = {
    r"(?:[\d,]+ \w+ ago|just now) \(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\)": "AGE",
    r"\bspdb_(?:[\w-]{40,}|…)": "KEY",
}
_FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```console\n(?P<text>.*?)^```$", re.M | re.S
)
_PORT = "8080"


@dataclass(frozen=True, slots=True)
class Console:
    """A fence of a page.

    Attributes:
        commands: its commands.
        output: what the terminal shows of all of them; empty if the page shows nothing.
        reason: why they cannot run; None if they do.
    """

    commands: tuple[str, ...]
    output: str
    reason: str | None


def consoles_of(page: str) -> list[Console]:
    """The fences of a page."""
    return [_console(match["text"], match["reason"]) for match in _FENCE.finditer(page)]


def expected_code(command: str) -> int:
    """The exit code that a page says of a command."""
    said = re.search(r"# exit code (\d+)$", command)
    return int(said[1]) if said else 0


def _console(text: str, reason: str | None) -> Console:
    commands: list[str] = []
    shown: list[str] = []
    goes_on = False
    for line in text.splitlines():
        if goes_on:
            commands[-1] += f"\n{line}"
        elif line.startswith("$ "):
            commands.append(line[2:])
        else:
            shown.append(line)
        goes_on = (goes_on or line.startswith("$ ")) and (line.endswith("\\") or _is_open(commands[-1]))
    return Console(tuple(commands), "\n".join(shown), reason)


def _is_open(command: str) -> bool:
    """Return whether a quotation goes on in the next line."""
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return True
    return False


class Session:
    """A shell in a folder of its own.

    Args:
        folder: the folder, with the files that the page speaks of.
        stack: ends the services.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._ports: dict[str, str] = {}
        self.restored: list[str] = []
        """What the commands of Flink are restored from."""
        programs = folder / "programs"
        programs.mkdir()
        program = programs / "savepointdb"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m service.cli "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        self._begin = f"cd {shlex.quote(str(folder))}; export PATH={shlex.quote(str(programs))}:$PATH; "

    def run(self, command: str) -> tuple[int, str]:
        """The exit code of a command, and what it shows."""
        line = self._here(command)
        if line.startswith("flink run "):
            return self._flink(line)
        if line.startswith("savepointdb serve ") or re.match(r"savepointdb demo (?!.*--no-serve)", line):
            self._ports[f":{_PORT}"] = self._stack.enter_context(self._served(line))
            return 0, ""
        found = run_on_terminal(["bash", "-c", self._begin + line], columns=COLUMNS, errors_too=True)
        # A line that is rewritten in place ends as what was written last.
        screen = re.sub(r"[^\n]*\r(?!\n)(?:\x1b\[K)?", "", found.screen)
        return found.code, screen.replace(str(self._folder), "")

    def _flink(self, line: str) -> tuple[int, str]:
        path = line.partition(" -s ")[2].partition(" ")[0]
        found = subprocess.run(
            ["bash", "-c", f"{self._begin}ls {path}/_metadata"], capture_output=True, text=True, check=False
        )
        self.restored.append(found.stdout.removesuffix("/_metadata\n"))
        return found.returncode, ""

    def _here(self, command: str) -> str:
        for name in FOLDERS:
            command = re.sub(rf"(?<![\w./-]){name}\b", f"{self._folder}{name}", command)
        for known, own in self._ports.items():
            command = command.replace(known, own)
        return command

    @contextmanager
    def _served(self, line: str) -> Iterator[str]:
        """Run a service while the block lasts; its port, with a colon."""
        command = ["bash", "-c", f"{self._begin}exec {line.partition('#')[0]} --port 0"]
        with tempfile.TemporaryFile() as log, subprocess.Popen(command, stderr=log) as service:
            try:
                while not (ready := re.search(rb"http://[\d.]+(:\d+)/\n", os.pread(log.fileno(), 65536, 0))):
                    assert service.poll() is None, os.pread(log.fileno(), 65536, 0).decode()
                    time.sleep(0.02)
                yield ready[1].decode()
            finally:
                service.terminate()


def comparable(text: str) -> list[str]:
    """The lines of a text without what differs from run to run."""
    for pattern, name in VOLATILE.items():
        text = re.sub(pattern, name, text)
    return [line.rstrip() for line in text.strip("\n").splitlines()]
