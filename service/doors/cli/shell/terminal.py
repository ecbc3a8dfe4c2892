"""The shell at a terminal: the prompt and its keys.

| key | does |
|---|---|
| Enter | runs what ends with a semicolon, and commands; else begins a new line |
| Tab | completes keywords, names and commands |
| Ctrl-C | clears the input; while a statement runs, cancels it and nothing else |
| Ctrl-D | leaves, where nothing is typed |
| Ctrl-R, arrows | find earlier statements |

Like `opening.py` this imports what the prompt needs, and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from argparse import Namespace
from collections.abc import Callable, Iterable
from importlib import import_module

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from service.base.version import installed_version
from service.doors.cli.shell.history import PrivateHistory, history_path
from service.doors.cli.shell.opening import Opening
from service.doors.cli.shell.statements import command_of, statements_of

_NAME = "savepointdb"
_LONGEST_NAME = 32


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
            prompt_continuation=_continuation,
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

        code = import_module("service.doors.cli.outcome").ended(run, self._options)
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


def _continuation(width: int, _line: int, _wraps: int) -> str:
    return "...> ".rjust(width)[:width]


def _may_be_there(source: str) -> bool:
    """Return whether a source may exist; asks no other machine."""
    path = source if os.path.exists(source) else source.partition("=")[2] or source
    return "://" in source or os.path.exists(path)


def _shortened(name: str) -> str:
    text = "".join(character if character.isprintable() else "?" for character in name)
    return text if len(text) <= _LONGEST_NAME else f"…{text[1 - _LONGEST_NAME :]}"
