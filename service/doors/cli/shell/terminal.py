"""The shell at a terminal: the prompt, its keys, and the statements of earlier days.

| key | does |
|---|---|
| Enter | runs what ends with a semicolon, and commands; else begins a new line |
| Tab | completes keywords, names and commands |
| Ctrl-C | clears the input; while a statement runs, cancels it and nothing else |
| Ctrl-D | leaves, where nothing is typed |
| Ctrl-R, arrows | find earlier statements |

A thread opens the savepoints while the prompt is already there: DuckDB and the readers take longer to load than a person takes to read
the first line, and this module imports what the prompt needs, and no more.

Statements are kept in a file in the user's state folder, which nobody else may read, because values in statements are data:

    $XDG_STATE_HOME/savepointdb/history, or ~/.local/state/savepointdb/history

An entry is the lines of one input, each behind a `+`, and a line with a `#` before them, as prompt_toolkit's own files have them. A
statement behind a blank is kept nowhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from service.base import machine
from service.base.version import installed_version
from service.doors.cli.shell.statements import command_of, statements_of

if TYPE_CHECKING:
    from service.doors.cli.shell.console import Console


# Of a larger file the older half is left out.
_MOST_BYTES = 4 << 20
_NAME = "savepointdb"
_LONGEST_NAME = 32


def history_path() -> Path:
    """Return the file of the user's statements."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return folder / "savepointdb" / "history"


class PrivateHistory(FileHistory):
    """Statements in a file with mode 0600. Where it cannot be read or written, they last as long as the shell.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the statements, the latest first."""
        try:
            content = self._path.read_bytes()
            if len(content) > _MOST_BYTES:
                self._write(content[len(content) - _MOST_BYTES // 2 :].partition(b"\n# ")[2], os.O_TRUNC)
            return super().load_history_strings()
        except OSError:
            return []

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


class Opening:
    """Opens the savepoints of a command line.

    Args:
        options: the parsed command line.
        on_ready: called by the thread once they are open, or cannot be opened.
        on_banner: called by the thread with what the shell says of them.

    Attributes:
        error: what kept the savepoints from being opened; None if there is nothing.
    """

    def __init__(
        self, options: Namespace, on_ready: Callable[[], None], on_banner: Callable[[str], None]
    ) -> None:
        self._options = options
        self._on_ready = on_ready
        self._on_banner = on_banner
        self._console: Console | None = None
        self.error: BaseException | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="opening", daemon=True)

    def begin(self) -> None:
        """Start the thread, once."""
        if self._thread.ident is None:
            self._thread.start()

    @property
    def database(self) -> str | None:
        """The database of tables that name none; None before the savepoints are open."""
        return None if self._console is None else self._console.view.database

    def console(self) -> Console:
        """Return the console; wait until it is open.

        Raises:
            BaseException: what kept the savepoints from being opened.
        """
        self.begin()
        self._ended.wait()
        if self._console is None:
            assert self.error is not None
            raise self.error
        return self._console

    def close(self) -> None:
        """Close the engines of what is open."""
        if self._console is not None:
            self._console.close()

    def _run(self) -> None:
        try:
            if "pandas" not in sys.modules:
                machine.load_without_pandas()
                machine.load_parts_later()
            module = import_module("service.doors.cli.shell.console")
            self._console = module.Console(self._options, is_terminal=True)
        except BaseException as error:  # the thread that waits raises it
            self.error = error
        finally:
            self._ended.set()
            self._on_ready()
        if self._console is not None:
            self._on_banner("\n".join(module.banner_lines(self._console)))


def main(options: Namespace) -> int:
    """Run the shell; return the exit code."""
    terminal = Terminal(options)
    try:
        return terminal.run()
    finally:
        terminal.close()


class Terminal:
    """A person at a terminal, and the savepoints of the command line.

    Args:
        options: the parsed command line.
    """

    def __init__(self, options: Namespace) -> None:
        self._options = options
        self._opening = Opening(options, on_ready=self._ready, on_banner=self._tell)
        self._untold: list[str] = []
        self._prompt: PromptSession[str] = PromptSession(
            message=self._message,
            multiline=True,
            prompt_continuation=lambda width, *_: "...> ".rjust(width)[:width],
            history=InMemoryHistory() if options.no_history else PrivateHistory(history_path()),
            completer=_LateCompleter(self._opening),
            complete_in_thread=True,
            complete_while_typing=False,
            key_bindings=_keys(),
            enable_open_in_editor=False,
        )

    def run(self) -> int:
        """Read statements and run them until the person leaves; return the exit code."""
        if not all(map(_may_be_there, self._options.paths)):
            # No prompt for what cannot be opened.
            return self._with_console(lambda: None)
        version = installed_version()
        print(f"{_NAME} {version}: SQL over savepoints; .help lists commands, Tab completes, Ctrl-D leaves")
        while True:
            self._print_untold()
            try:
                text = self._prompt.prompt(pre_run=self._began)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return 0
            except _NotOpenedError:
                return self._with_console(lambda: None)
            if not text.strip():
                continue
            try:
                code = self._with_console(lambda text=text: self._run(text))  # type: ignore[misc]
            except KeyboardInterrupt:
                # Between two statements there is nothing to cancel.
                continue
            if self._opening.error is not None:
                return code
            if self._opening.console().is_over:
                return 0

    def close(self) -> None:
        """Close the engines."""
        self._opening.close()

    def _run(self, text: str) -> None:
        self._opening.console().run(io.StringIO(text))

    def _with_console(self, action: Callable[[], None]) -> int:
        """Do something once the savepoints are open; report why they are not; return the exit code."""

        def run(_: Namespace) -> None:
            self._opening.console()
            action()

        code = import_module("service.doors.cli.output").ended(run, self._options)
        return int(code)

    def _message(self) -> str:
        return f"{_shortened(self._opening.database or _NAME)}> "

    def _began(self) -> None:
        """Open the savepoints once the prompt is on the screen."""
        if self._opening.error is not None:
            self._prompt.app.exit(exception=_NotOpenedError())
        else:
            asyncio.get_running_loop().call_soon(self._opening.begin)

    def _ready(self) -> None:
        """Show the name of the database, or end the prompt because there is none; called by another thread."""
        if self._opening.error is None:
            self._in_loop(self._prompt.app.invalidate)
        else:
            self._in_loop(self._leave)

    def _leave(self) -> None:
        if self._prompt.app.is_running:
            self._prompt.app.exit(exception=_NotOpenedError())

    def _tell(self, text: str) -> None:
        """Print a text above the prompt; called by another thread."""
        self._untold.append(text)
        self._in_loop(self._tell_above)

    def _tell_above(self) -> None:
        if self._prompt.app.is_running:
            run_in_terminal(self._print_untold)

    def _in_loop(self, action: Callable[[], object]) -> None:
        loop = self._prompt.app.loop
        # While a statement runs there is no prompt, nor a loop.
        if loop is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(action)

    def _print_untold(self) -> None:
        while self._untold:
            print(self._untold.pop(0), flush=True)


class _NotOpenedError(Exception):
    """The savepoints cannot be opened; the opening has the error."""


class _LateCompleter(Completer):
    """Completes names once the savepoints are open.

    Args:
        opening: opens them.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._completer: Completer | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return what may stand at the cursor; see prompt_toolkit."""
        try:
            if self._completer is None:
                module = import_module("service.doors.cli.shell.completion")
                self._completer = module.ConsoleCompleter(self._opening.console())
            return list(self._completer.get_completions(document, complete_event))
        except Exception:  # a name that cannot be read is no reason to end the prompt
            return []


def _keys() -> KeyBindings:
    """Return the keys that differ from those of prompt_toolkit."""
    keys = KeyBindings()

    @keys.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        chosen = buffer.complete_state and buffer.complete_state.current_completion
        if chosen:
            # The choice is in the text already.
            buffer.complete_state = None
        elif is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=True)

    return keys


def is_whole(text: str) -> bool:
    """Return whether an input is ready to run: commands at once, statements once they end with a semicolon."""
    return command_of(text) is not None or not text.strip() or not statements_of(text).is_open


def _may_be_there(source: str) -> bool:
    """Return whether a source may exist; asks no other machine."""
    path = source if os.path.exists(source) else source.partition("=")[2] or source
    return "://" in source or os.path.exists(path)


def _shortened(name: str) -> str:
    text = "".join(character if character.isprintable() else "?" for character in name)
    return text if len(text) <= _LONGEST_NAME else f"…{text[1 - _LONGEST_NAME :]}"
